"""What is wrong with the parts of an agent: everything in one error, and each as it was said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from runwell.errors import InvalidInput, RunwellError

__all__ = ["Problems"]

T = TypeVar("T")


class Problems:
    """Collects errors while an agent is built. One is raised as it is; several as one that lists them."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: list[RunwellError] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, error: RunwellError) -> None:
        self._found.append(error)

    def of(self, make: Callable[[], T], instead: Any = None) -> T:
        """What `make()` gives; `instead` if it raises, so that the parts after it are looked at too."""
        try:
            return make()
        except RunwellError as error:
            self._found.append(error)
            return instead  # type: ignore[no-any-return]  # nothing is made of it: `settle` raises

    def settle(self, name: Any) -> None:
        """Raise what was found."""
        if not self._found:
            return
        first, *others = self._found
        if not others:
            raise first
        kinds = {type(each) for each in self._found}
        kind = kinds.pop() if len(kinds) == 1 and type(first).__init__ is RunwellError.__init__ else InvalidInput
        said = [line for each in self._found for line in _lines_of(each)]
        lines = "".join(f"\n- {line}" for line in said)
        raise kind(f"Agent {name!r} cannot be built:{lines}", hint="Correct each of these.") from first


def _lines_of(error: RunwellError) -> list[str]:
    """What an error says, as one line, or as one for each thing it lists."""
    listed: tuple[str, ...] = getattr(error, "problems", ())
    return list(listed) or [f"{error.message}{f' {error.hint}' if error.hint else ''}"]
