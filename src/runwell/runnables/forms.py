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
    "RunnableEach": "each",
    "RunnableGenerator": "generator",
    "RunnableLambda": "lambda_",
    "RunnableParallel": "parallel",
    "RunnablePassthrough": "passthrough",
    "RunnablePick": "passthrough",
    "RunnableRetry": "retry",
    "RunnableSequence": "sequence",
    "RunnableWithFallbacks": "fallbacks",
    "StreamEvents": "stream_events",
    "input_schema": "schemas",
    "output_schema": "schemas",
}


@cache
def form(name: str) -> Any:
    """The class or function called `name`."""
    return getattr(import_module(f"runwell.runnables.{HOMES[name]}"), name)
