"""The nodes that run before_* and after_* hooks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import Any

from runwell.agents.history import open_calls
from runwell.agents.middleware.middleware import Hook
from runwell.agents.routing import sends
from runwell.agents.setup import Setup
from runwell.drivers.colour import is_coroutine
from runwell.drivers.sync import given
from runwell.effects import Call, Callee, flow
from runwell.errors import InvalidUpdateError
from runwell.graph.engine import Task
from runwell.graph.plan import Write, apply_writes
from runwell.ports.command import Command

__all__ = ["hook_node"]

GIVEN: Callee[Any] = Callee(None, given)


def hook_node(setup: Setup, name: str) -> Callable[[Task], Any]:
    """A node that runs all hooks called `name`, each seeing what those before it changed. A jump ends the round."""
    hooks = setup.hooks[name]
    runs = [_plain_run(hooks, place) for place in range(len(hooks))]

    @flow
    async def run_hooks(task: Task) -> Any:
        writes: list[Write] = []
        state = task.values
        to_tools: Hook | None = None
        place = 0
        while place < len(hooks):
            hook, run = hooks[place], runs[place]
            if hook.flow is not None:
                update = await hook.flow(state, task.runtime)
            elif run is None:
                update = await Call(hook.callee, state, task.runtime)
            else:
                said: tuple[int, Any] = await Call(run, state, task.runtime)
                silent, update = said
                place += silent
                hook = hooks[place]
                if is_coroutine(update):
                    update = await Call(GIVEN, update)
            place += 1
            if update is None:
                continue
            changed, jump = _read(hook, name, update)
            if changed:
                writes.extend(changed)
                state = {**state, **{k: new for k, (_, new) in _changes(task, state, name, changed).items()}}
            if jump == "tools" and name == "after_model":
                to_tools = hook  # where the agent is going; the hooks after it have their say about the calls first
            elif jump is not None:
                return [_as_update(writes), _way(setup, hook, name, jump, state)]
        if to_tools is not None and open_calls(state["messages"]):
            return [_as_update(writes), _way(setup, to_tools, name, "tools", state)]
        return _as_update(writes)

    run_hooks.__name__ = run_hooks.__qualname__ = name
    return run_hooks


class _PlainRun:
    """Plain hooks that follow one another, called until one says something: how many said nothing, and what it said.

    So hooks with nothing to say cost a call each, not an effect.
    """

    __slots__ = ("hooks",)

    def __init__(self, hooks: list[Hook]) -> None:
        self.hooks = [hook.callee.sync for hook in hooks]

    def __call__(self, state: dict[str, Any], runtime: Any) -> tuple[int, Any]:
        for silent, hook in enumerate(self.hooks):
            said = hook(state, runtime)  # type: ignore[misc]  # plain: it has this form
            if said is not None:
                return silent, said
        return len(self.hooks) - 1, None

    def __repr__(self) -> str:
        return f"one of the hooks {', '.join(str(Callee(hook, None)) for hook in self.hooks)}"


def _plain_run(hooks: list[Hook], place: int) -> Callee[tuple[int, Any]] | None:
    """The hook at this place and those behind it, as far as they are plain; None for fewer than two."""
    run = list(takewhile(lambda hook: hook.flow is None and hook.callee.aio is None, hooks[place:]))
    return Callee(_PlainRun(run), None, cheap=True) if len(run) > 1 else None


def _changes(task: Task, state: dict[str, Any], name: str, writes: list[Write]) -> dict[str, tuple[Any, Any]]:
    return apply_writes(task.run.graph.channels, state, [(name, writes)])


def _way(setup: Setup, hook: Hook, name: str, jump: str, state: dict[str, Any]) -> Command[Any]:
    """A jump as a Command; one to the tools runs the calls that are open, and those only."""
    place = setup.place(jump, name)
    if place != "tools":
        return Command(goto=place)
    calls = open_calls(state.get("messages") or ())
    if not calls:
        raise InvalidUpdateError(
            f"{hook.owner.name}.{name} jumps to 'tools', and no tool call is open.",
            hint="Jump there only when the newest AI message has calls that nothing has answered.",
        )
    return Command(goto=sends(setup, state, calls))


def _as_update(writes: list[Write]) -> Any:
    return writes or None


def _read(hook: Hook, name: str, update: Any) -> tuple[list[Write], str | None]:
    """A hook's return as writes and a jump."""
    jump: str | None = None
    if isinstance(update, Command):
        if update.targets():
            raise InvalidUpdateError(
                f"{hook.owner.name}.{name} returned a Command with goto={update.goto!r}.",
                hint='Return {"jump_to": "model" | "tools" | "end"} instead.',
            )
        update = update.update or {}
    if not isinstance(update, dict):
        raise InvalidUpdateError(
            f"{hook.owner.name}.{name} returned {update!r:.200}.", hint="Return None or a dict of state keys."
        )
    if "jump_to" in update:
        update = dict(update)
        jump = update.pop("jump_to")
        if jump is not None and jump not in hook.jumps:
            raise InvalidUpdateError(
                f"{hook.owner.name}.{name} jumps to {jump!r}, which it is not marked for.",
                hint=f"Mark it with @hook_config(can_jump_to=[{jump!r}]).",
            )
    return list(update.items()), jump
