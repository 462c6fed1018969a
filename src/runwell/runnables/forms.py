"""The combinators by name, loaded when first used.

`Runnable` offers all of them as methods and each of them is a `Runnable`; loading by name keeps the modules free of
import cycles, and keeps a program from loading what it does not compose.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Final

__all__ = ["HOMES", "form"]

HOMES: Final = {
    "Graph": "graph_view",
    "RunnableAssign": "passthrough",
    "RunnableBinding": "binding",
    "RunnableBranch": "branch",
    "RunnableConfigurableAlternatives": "configurable",
    "RunnableConfigurableFields": "configurable",
    "RunnableEach": "each",
    "RunnableGenerator": "generator",
    "RunnableLambda": "lambda_",
    "RunnableParallel": "parallel",
    "RunnablePassthrough": "passthrough",
    "RunnablePick": "passthrough",
    "RunnableRetry": "retry",
    "RunnableSequence": "sequence",
    "RunnableWithCache": "cache",
    "RunnableWithFallbacks": "fallbacks",
    "RunnableWithListeners": "listeners",
    "RunnableWithTimeout": "timeout",
    "StreamEvents": "stream_events",
    "config_schema": "schemas",
    "config_specs": "anatomy",
    "convert_runnable_to_tool": "runwell.tools.runnable_tool",
    "explain": "explain",
    "input_schema": "schemas",
    "output_schema": "schemas",
    "prompts_of": "anatomy",
    "readable": "runwell.schemas.typed_dicts",
}
"""Modules of this room; with a dot, of a room above it, which nothing here may import by name."""


@cache
def form(name: str) -> Any:
    """The class or function called `name`."""
    home = HOMES[name]
    return getattr(import_module(home if "." in home else f"runwell.runnables.{home}"), name)
