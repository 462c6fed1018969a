"""Making runnables by decorating functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runwell.runnables.lambda_ import RunnableLambda

__all__ = ["chain"]


def chain(func: Callable[..., Any]) -> RunnableLambda[Any, Any]:
    """The decorated function as a runnable; what it calls inside is traced as its part.

    Plain, `async`, generator and `async` generator functions, with one argument and optionally `config` or `runtime`.
    """
    return RunnableLambda(func)
