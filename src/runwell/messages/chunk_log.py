"""What the chunks of a message said, side by side, until the message so far is asked for."""

from __future__ import annotations

from typing import Any

from runwell.messages.calls import CallFold, InvalidToolCall, Several, ToolCall, ToolCallChunk
from runwell.messages.merge import Content, fold_content

__all__ = ["ChunkLog", "content_in", "entry_of"]


class ChunkLog(list[Any]):
    """One entry per chunk: its content; or for a chunk with one fragment of a call and no text, the fragment (a tuple);
    or for any other with fragments, a `Several`.

    A log only grows, and is shared by the sums that grew from one another: each is the first so many of its entries.
    The first sum to grow from a length extends the log, any other gets a copy. No lock is needed: extending is atomic,
    and whoever finds the log no longer than it made it owns what it added. The log remembers what was worked out last,
    so that reading a sum after every chunk costs what is new.
    """

    __slots__ = ("_content", "_fold")
    _content: tuple[int, Content, bool]
    """How many entries were read last, what they say beside calls, and whether that is all: no calls, no blocks."""
    _fold: CallFold

    @classmethod
    def of(cls, entries: list[Any]) -> ChunkLog:
        """A log of its own with these entries."""
        log = cls(entries)
        log._content = _NOTHING
        return log

    def grown(self, length: int, more: list[Any]) -> ChunkLog:
        """A log whose first `length` entries are those of this one, followed by `more`."""
        if len(self) == length:
            self.extend(more)
            if len(self) == length + len(more):
                return self
        return ChunkLog.of([*self[:length], *more])

    def content(self, length: int) -> Content:
        """What the first `length` entries say beside calls."""
        known = self._content
        done, before, bare = known if known[0] <= length else _NOTHING
        if done == length and done:
            return before
        entries = self[done:length]
        try:
            said: Content = "".join(entries)
            if bare:
                said = before + said if before else said  # type: ignore[operator]
            else:
                said = fold_content((before, said))
        except TypeError:  # not texts alone
            bare = False
            said = fold_content([before, *[content_in(entry) for entry in entries if type(entry) is not tuple]])
        self._content = (length, said, bare)
        return said

    def call_chunks(self, length: int) -> list[ToolCallChunk]:
        """The fragments in the first `length` entries, gathered into one per call."""
        return [] if self._bare(length) else self._folding().chunks(self, length)

    def calls(self, length: int) -> tuple[list[ToolCall], list[InvalidToolCall]]:
        """The whole and the broken calls of the first `length` entries."""
        return ([], []) if self._bare(length) else self._folding().parsed(self, length)

    def _bare(self, length: int) -> bool:
        """Whether the first `length` entries are known to be texts alone: their content was read."""
        done, _, bare = self._content
        return bare and done >= length

    def _folding(self) -> CallFold:
        try:
            return self._fold
        except AttributeError:  # asked for the first time; two threads that both make one do no harm
            self._fold = fold = CallFold()
            return fold


_NOTHING: tuple[int, Content, bool] = (0, "", True)


def content_in(entry: Any) -> Content:
    """The content of the chunk whose entry this is."""
    content: Content = "" if type(entry) is tuple else entry[0] if type(entry) is Several else entry
    return content


def entry_of(content: Any, fragments: list[Any]) -> Any:
    """The entry of a chunk."""
    if not fragments:
        return content if type(content) is str or type(content) is list else Several((content,))
    return fragments[0] if len(fragments) == 1 and content == "" else Several((content, *fragments))
