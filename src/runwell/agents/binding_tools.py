"""Binding an agent's tools to its model, through what stands around the model."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

from runwell.errors import InvalidInput

__all__ = ["check_takes_tools", "with_tools"]


def with_tools(model: Any, tools: list[Any], **settings: Any) -> Any:
    """The model with tools bound, inside what `with_config`, `with_retry` and `with_fallbacks` put around it."""
    return _within(model, lambda inner: inner.bind_tools(tools, **settings))


def check_takes_tools(model: Any) -> None:
    """Raises InvalidInput for a model that no tools can be bound to."""
    _within(model, lambda inner: inner)


def _within(model: Any, change: Callable[[Any], Any]) -> Any:
    if hasattr(model, "bind_tools"):
        return change(model)
    parts = getattr(model, "__dict__", {})
    if "bound" in parts:  # a config, listeners, second tries
        around = copy(model)
        around.bound = _within(model.bound, change)
        return around
    if "fallbacks" in parts:
        around = copy(model)
        around.runnable = _within(model.runnable, change)
        around.fallbacks = [_within(each, change) for each in model.fallbacks]
        return around
    raise InvalidInput(
        f"The model {model!r:.100} takes no tools: it is a {type(model).__name__}, which has no bind_tools().",
        hint="Pass a chat model; with_config(), with_retry() and with_fallbacks() may stand around it.",
    )
