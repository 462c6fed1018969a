"""The nodes that run before_* and after_* hooks."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from runwell.agents.history import open_calls
from runwell.agents.middleware.middleware import Hook
from runwell.agents.routing import sends
from runwell.agents.setup import Setup
from runwell.drivers.colour import in_turn, is_coroutine
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
    plain = [hook.callee.sync if hook.flow is None and hook.callee.aio is None else None for hook in hooks]
    tidy = all(hook.flow is not None or function is not None for hook, function in zip(hooks, plain, strict=True))

    count = len(hooks)

    @flow
    def run_hooks(task: Task) -> Any:
        here = copy_context().run if tidy else _here  # what plain hooks set is seen by those behind them only
        at, update = here(in_turn, plain, 0, task.values, task.runtime)
        return None if update is None and at == count else go_on(task, here, at, update)

    async def go_on(task: Task, here: Callable[..., Any], at: int, update: Any) -> Any:
        """From where one of them had something to say, or is none that can be called in place."""
        writes: list[Write] = []
        state, runtime = task.values, task.runtime
        to_tools: Hook | None = None
        while True:
            hook = hooks[at - 1]
            if is_coroutine(update):
                update = await Call(GIVEN, update)
            if update is not None:
                changed, jump = _read(hook, name, update)
                if changed:
                    writes.extend(changed)
                    state = {**state, **{k: new for k, (_, new) in _changes(task, state, name, changed).items()}}
                if jump == "tools" and name == "after_model":
                    to_tools = hook  # where the agent is going; the hooks after it have their say about the calls first
                elif jump is not None:
                    return [writes or None, _way(setup, hook, name, jump, state)]
            if at == count:
                break
            if plain[at] is not None:  # and those behind it, while they have nothing to say
                at, update = here(in_turn, plain, at, state, runtime)
                continue
            hook, at = hooks[at], at + 1
            if hook.flow is not None:
                update = await hook.flow(state, runtime)
            else:
                update = await Call(hook.callee, state, runtime)
        if to_tools is not None and open_calls(state["messages"]):
            return [writes or None, _way(setup, to_tools, name, "tools", state)]
        return writes or None

    run_hooks.__name__ = run_hooks.__qualname__ = name
    run_hooks.__runwell_tidy__ = tidy  # type: ignore[attr-defined]
    return run_hooks


def _here(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


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
