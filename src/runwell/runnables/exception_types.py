"""Which exceptions a wrapper acts on, as users say it: one class, or several."""

from __future__ import annotations

from typing import Any

from runwell.errors import InvalidInput

__all__ = ["exception_types"]


def exception_types(given: Any, parameter: str) -> tuple[type[BaseException], ...]:
    """As a tuple, checked. `parameter` is what the user calls it."""
    types = tuple(given) if isinstance(given, tuple | list | set | frozenset) else (given,)
    for each in types:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise InvalidInput(
                f"{parameter} names exception classes, not {each!r:.200}.", hint=f"{parameter}=(ConnectionError,)"
            )
    return types
