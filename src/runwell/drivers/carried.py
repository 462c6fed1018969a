"""Context variables that code sets in another thread or task, while whoever called it waits for it."""

from __future__ import annotations

from contextvars import Context
from typing import Any

__all__ = ["carry_back"]

_NOTHING: Any = object()
OURS = "runwell_"
"""How the names of our own variables begin: what runs over there is told of itself by them."""


def carry_back(context: Context) -> None:
    """Set here what has been set in `context`, a copy of this one, since: as if it had been set here."""
    for var, value in context.items():
        if var.get(_NOTHING) is not value and not var.name.startswith(OURS):
            var.set(value)
