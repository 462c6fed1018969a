"""The middlewares that an agent is given: of different names, with hooks that can be called."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from runwell.agents.argument_kinds import is_list
from runwell.agents.middleware.middleware import HOOKS, WRAPS, AgentMiddleware, hooks_of
from runwell.agents.problems import Problems
from runwell.errors import InvalidInput

__all__ = ["named_middlewares", "tools_of", "with_hooks"]


def named_middlewares(given: Sequence[Any], problems: Problems) -> list[AgentMiddleware]:
    """Those that are middlewares of different names."""
    if not is_list(given):
        problems.add(InvalidInput(f"middleware={given!r:.100} is not a list.", hint="Pass a list: middleware=[...]."))
        return []
    named: dict[str, AgentMiddleware] = {}
    for each in given:
        problems.of(partial(_name_in, named, each))
    return list(named.values())


def _name_in(named: dict[str, AgentMiddleware], each: Any) -> None:
    if not isinstance(each, AgentMiddleware):
        raise InvalidInput(
            f"middleware holds {each!r:.200}, which is not a middleware.",
            hint="Pass instances of AgentMiddleware, or functions decorated with @before_model, @wrap_tool_call, …",
        )
    called: Any = each.name
    if not isinstance(called, str) or not called:
        raise InvalidInput(f"{type(each).__name__} has the name {called!r}.", hint="A name is a text.")
    if called in named:
        raise InvalidInput(
            f"Two middlewares are called {called!r}.", hint="Give one another name (its `name` property)."
        )
    named[called] = each


def with_hooks(hooks: Sequence[AgentMiddleware], problems: Problems) -> list[AgentMiddleware]:
    """Those whose hooks can all be called; what is wrong with others is told of each hook."""
    fine: list[AgentMiddleware] = []
    for each in hooks:
        called = [problems.of(partial(hooks_of, [each], name)) for name in (*HOOKS, *WRAPS)]
        if None not in called:
            fine.append(each)
    return fine


def tools_of(middleware: AgentMiddleware) -> list[Any]:
    if not is_list(middleware.tools):
        raise InvalidInput(f"{middleware.name}.tools is {middleware.tools!r:.100}, not a list.", hint="tools = [...]")
    return list(middleware.tools)
