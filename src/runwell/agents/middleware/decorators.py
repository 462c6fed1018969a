"""Middleware from a single function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from runwell.agents.middleware.middleware import AgentMiddleware, hook_config
from runwell.agents.middleware.requests import ModelRequest
from runwell.drivers.colour import is_async

__all__ = [
    "after_agent",
    "after_model",
    "before_agent",
    "before_model",
    "dynamic_prompt",
    "wrap_model_call",
    "wrap_tool_call",
]


def _middleware(hook: str, function: Any, options: dict[str, Any]) -> AgentMiddleware:
    jumps = options.get("can_jump_to") or getattr(function, "__runwell_can_jump_to__", ())
    if jumps:
        function = hook_config(can_jump_to=jumps)(function)
    body: dict[str, Any] = {
        hook: staticmethod(function),
        "__doc__": function.__doc__,
        "__module__": function.__module__,
        "state_schema": options.get("state_schema"),
        "tools": tuple(options.get("tools") or ()),
        "lends_tools": options.get("lends_tools", True),
    }
    return type(options.get("name") or function.__name__, (AgentMiddleware,), body)()  # type: ignore[no-any-return]


def _decorator(hook: str) -> Callable[..., Any]:
    def decorate(
        function: Any = None,
        *,
        state_schema: type | None = None,
        tools: Sequence[Any] | None = None,
        can_jump_to: Sequence[str] | None = None,
        name: str | None = None,
    ) -> Any:
        options = {"state_schema": state_schema, "tools": tools, "can_jump_to": can_jump_to, "name": name}
        if function is not None:
            return _middleware(hook, function, options)
        return lambda given: _middleware(hook, given, options)

    decorate.__name__ = decorate.__qualname__ = hook
    decorate.__doc__ = f"A middleware whose `{hook}` is the decorated function, plain or `async`."
    return decorate


before_agent = _decorator("before_agent")
before_model = _decorator("before_model")
after_model = _decorator("after_model")
after_agent = _decorator("after_agent")
wrap_model_call = _decorator("wrap_model_call")
wrap_tool_call = _decorator("wrap_tool_call")


def dynamic_prompt(function: Callable[[ModelRequest], Any]) -> AgentMiddleware:
    """A middleware that sets the system prompt of each model call to what `function(request)` returns."""
    if is_async(function):

        async def around(request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
            return await handler(request.override(**_prompt(await function(request))))

    else:

        def around(request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:  # type: ignore[misc]
            return handler(request.override(**_prompt(function(request))))

    return _middleware("wrap_model_call", around, {"name": function.__name__, "lends_tools": False})


def _prompt(made: Any) -> dict[str, Any]:
    return {"system_prompt": made} if isinstance(made, str) or made is None else {"system_message": made}
