"""What chunks say beside content and calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runwell.messages.merge import merge_kwargs, merge_metadata
from runwell.messages.usage import add_usage

if TYPE_CHECKING:
    from runwell.messages.usage import UsageMetadata

__all__ = ["Beside"]


class Beside:
    """Id, name, dicts, usage and position of a chunk that says more than a text and an id, or of a sum.

    Sums share one for as long as nothing is added to it, so it is never changed; only what a reader does to a dict
    in it is seen later.
    """

    __slots__ = ("facts", "id", "kwargs", "name", "position", "usage")

    def __init__(
        self,
        id: str | None,
        name: str | None = None,
        kwargs: dict[str, Any] | None = None,
        facts: dict[str, Any] | None = None,
        usage: UsageMetadata | None = None,
        position: str | None = None,
    ) -> None:
        self.id = id
        self.name = name
        self.kwargs = {} if kwargs is None else kwargs
        self.facts = {} if facts is None else facts
        self.usage = usage
        self.position = position

    def copy(self) -> Beside:
        """One whose dicts are its own."""
        return Beside(self.id, self.name, self.kwargs.copy(), self.facts.copy(), self.usage, self.position)

    def called(self, id: str | None) -> Beside:
        """The same under another id."""
        return Beside(id, self.name, self.kwargs, self.facts, self.usage, self.position)

    def plus(self, more: Beside) -> Beside:
        """The sum of two. It shares the dicts of this one that nothing was added to."""
        kwargs, facts, usage = more.kwargs, more.facts, more.usage
        if not kwargs and not facts and usage is None and more.name is None and more.position is None:
            return self if more.id is None or self.id is not None else self.called(more.id)
        return Beside(
            more.id if self.id is None else self.id,
            more.name if self.name is None else self.name,
            merge_kwargs(self.kwargs, kwargs) if kwargs else self.kwargs,
            merge_metadata(self.facts, facts) if facts else self.facts,
            self.usage if usage is None else usage if self.usage is None else add_usage(self.usage, usage),
            self.position or more.position,
        )
