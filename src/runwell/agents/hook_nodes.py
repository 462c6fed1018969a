"""The nodes that run before_* and after_* hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runwell.agents.history import open_calls
from runwell.agents.middleware.middleware import Hook
from runwell.agents.routing import sends
from runwell.agents.setup import Setup
from runwell.effects import Call, flow
from runwell.errors import InvalidUpdateError
from runwell.graph.engine import Task
from runwell.graph.plan import Write, apply_writes
from runwell.ports.command import Command

__all__ = ["hook_node"]


def hook_node(setup: Setup, name: str) -> Callable[[Task], Any]:
    """A node that runs all hooks called `name`, each seeing what those before it changed. A jump ends the round."""
    hooks = setup.hooks[name]

    @flow
    async def run_hooks(task: Task) -> Any:
        writes: list[Write] = []
        state = task.values
        to_tools: Hook | None = None
        for hook in hooks:
            if hook.flow is not None:
                update = await hook.flow(state, task.runtime)
            else:
                update = await Call(hook.callee, state, task.runtime)
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
