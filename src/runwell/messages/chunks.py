"""Messages that arrive in pieces: `a + b` and `a + [b, c]` give the message so far.

Adding is O(new): a sum of model chunks keeps the texts and call fragments side by side with the sums it grew from,
and joins or parses them when `.content`, `.tool_call_chunks` or `.tool_calls` is read. Sums are values like any
other: an earlier sum keeps its meaning when more is added to it, from several threads too. The order in which chunks
are summed does not matter: `(a + b) + c == a + (b + c)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar, cast

from runwell.errors import InvalidInput
from runwell.messages.calls import (
    CallFold,
    Fragment,
    InvalidToolCall,
    ToolCall,
    ToolCallChunk,
    checked_calls,
    checked_fragment,
    chunk_of,
    fragment_of,
    parse_calls,
)
from runwell.messages.merge import fold_content, merge_kwargs, merge_metadata
from runwell.messages.message import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    Content,
    FunctionMessage,
    GivenContent,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    calls_in_blocks,
    checked_content,
)
from runwell.messages.usage import UsageMetadata, add_usage

__all__ = [
    "AIMessageChunk",
    "BaseMessageChunk",
    "ChatMessageChunk",
    "FunctionMessageChunk",
    "HumanMessageChunk",
    "SystemMessageChunk",
    "ToolMessageChunk",
    "message_chunk_to_message",
]


class BaseMessageChunk(BaseMessage):
    """What all chunks have: they add up."""

    __slots__ = ()

    adds_up: ClassVar[bool] = True
    whole: ClassVar[type[BaseMessage]] = BaseMessage
    """The class of the finished message."""

    def __add__(self, other: Any) -> Self:
        if isinstance(other, (list, tuple)):
            total = self
            for each in other:
                total = total + each
            return total
        check_addable(self, other)
        return type(self)(**self._merged(other))

    def __radd__(self, other: Any) -> Self:
        if other == 0:  # sum(chunks) starts from it
            return self
        return NotImplemented

    def _merged(self, other: Self) -> dict[str, Any]:
        return {
            "content": fold_content((self.content, other.content)),
            "id": self.id if self.id is not None else other.id,
            "name": self.name if self.name is not None else other.name,
            "additional_kwargs": merge_kwargs(self.additional_kwargs, other.additional_kwargs),
            "response_metadata": merge_metadata(self.response_metadata, other.response_metadata),
        }

    def to_message(self) -> BaseMessage:
        """The finished message. The `index` that placed a block in the stream is dropped from it."""
        fields = {name: getattr(self, name) for name in self.whole._fields}
        fields["content"] = _finished_content(fields["content"])
        return self.whole(**fields)


def check_addable(left: BaseMessage, right: Any) -> None:
    """Raises `InvalidInput` unless both are chunks of one message."""
    if type(left) is not type(right):
        raise InvalidInput(
            f"Only chunks of one kind add up: {type(left).__name__} + {type(right).__name__}.",
            hint="Use merge_message_runs([...]) to join whole messages.",
        )


def message_chunk_to_message(chunk: BaseMessage) -> BaseMessage:
    """The finished message of a chunk; a message that is none comes back as it is."""
    return chunk.to_message() if isinstance(chunk, BaseMessageChunk) else chunk


def _finished_content(content: Content) -> Content:
    if isinstance(content, str):
        return content
    finished: list[str | dict[str, Any]] = []
    for block in content:
        if isinstance(block, dict):
            if block.get("type") == "tool_call_chunk":
                calls, broken = parse_calls([fragment_of(block)])
                call = cast("dict[str, Any]", (*calls, *broken)[0])
                finished.append({**call, "extras": block["extras"]} if "extras" in block else call)
                continue
            if "index" in block:
                block = {key: value for key, value in block.items() if key != "index"}
        finished.append(block)
    return finished


class HumanMessageChunk(HumanMessage, BaseMessageChunk):
    """A piece of what a person says."""

    __slots__ = ()
    type: ClassVar[str] = "HumanMessageChunk"
    whole = HumanMessage


class SystemMessageChunk(SystemMessage, BaseMessageChunk):
    """A piece of standing instructions."""

    __slots__ = ()
    type: ClassVar[str] = "SystemMessageChunk"
    whole = SystemMessage


class ChatMessageChunk(ChatMessage, BaseMessageChunk):
    """A piece of a message in a role of its own."""

    __slots__ = ()
    type: ClassVar[str] = "ChatMessageChunk"
    whole = ChatMessage

    def _merged(self, other: Self) -> dict[str, Any]:
        _same(self, other, "role")
        return {**BaseMessageChunk._merged(self, other), "role": self.role}


class FunctionMessageChunk(FunctionMessage, BaseMessageChunk):
    """A piece of a function's result."""

    __slots__ = ()
    type: ClassVar[str] = "FunctionMessageChunk"
    whole = FunctionMessage

    def _merged(self, other: Self) -> dict[str, Any]:
        _same(self, other, "name")
        return BaseMessageChunk._merged(self, other)


class ToolMessageChunk(ToolMessage, BaseMessageChunk):
    """A piece of a tool's result. The last artifact stays; one error makes the whole an error."""

    __slots__ = ()
    type: ClassVar[str] = "ToolMessageChunk"
    whole = ToolMessage

    def _merged(self, other: Self) -> dict[str, Any]:
        _same(self, other, "tool_call_id")
        return {
            **BaseMessageChunk._merged(self, other),
            "tool_call_id": self.tool_call_id,
            "artifact": self.artifact if other.artifact is None else other.artifact,
            "status": "error" if "error" in (self.status, other.status) else "success",
        }


def _same(left: BaseMessage, right: BaseMessage, name: str) -> None:
    mine, theirs = getattr(left, name), getattr(right, name)
    if mine != theirs:
        raise InvalidInput(f"Chunks of different messages do not add up: {name} is {mine!r} and {theirs!r}.")


def grown(log: list[T], length: int, more: list[T]) -> list[T]:
    """A list whose first `length` items are those of `log`, followed by `more`.

    Logs only grow, and are shared by the sums that grew from one another: the first sum to grow from a length
    extends the log, any other gets a copy. No lock is needed: extending is atomic, and whoever finds its items where it
    wanted them owns them (another thread that put equal ones there first does no harm).
    """
    if len(log) == length:
        log.extend(more)
        if log[length : length + len(more)] == more:
            return log
    return [*log[:length], *more]


T = TypeVar("T")
_new = object.__new__


class AIMessageChunk(AIMessage, BaseMessageChunk):
    """A piece of what a model says.

    `tool_call_chunks` are fragments of calls; `tool_calls` and `invalid_tool_calls` are what they amount to so far,
    worked out when read and not to be changed in place. Calls given as `tool_calls` become fragments.
    `chunk_position` is "last" on the last one.
    """

    # `content`, `tool_calls` and `invalid_tool_calls` are properties, since sums work them out late. The slots that
    # AIMessage has for them hold what they are worked out from.
    __slots__ = ("_fold", "_text_n", "_texts", "chunk_position")

    _content = cast("Content", BaseMessage.__dict__["content"])
    _fragments = cast("list[Fragment] | None", AIMessage.__dict__["tool_calls"])
    _fragment_n = cast("int", AIMessage.__dict__["invalid_tool_calls"])

    type: ClassVar[str] = "AIMessageChunk"
    whole = AIMessage
    _fields: ClassVar[tuple[str, ...]] = (
        *BaseMessage._fields,
        "usage_metadata",
        "tool_call_chunks",
        "chunk_position",
    )

    def __init__(
        self,
        content: GivenContent = None,
        *,
        content_blocks: GivenContent = None,
        id: str | None = None,
        name: str | None = None,
        additional_kwargs: dict[str, Any] | None = None,
        response_metadata: dict[str, Any] | None = None,
        tool_calls: Iterable[ToolCall | Mapping[str, Any]] | None = None,
        invalid_tool_calls: Iterable[InvalidToolCall | Mapping[str, Any]] | None = None,
        usage_metadata: UsageMetadata | None = None,
        tool_call_chunks: Iterable[ToolCallChunk | Mapping[str, Any]] | None = None,
        chunk_position: str | None = None,
    ) -> None:
        self._texts: list[Content] | None = None  # of a sum that was not read: the first `_text_n` are its content
        self._text_n: int
        self._fragments = None
        self._fold: CallFold | None = None  # of sums
        if type(content) is str:
            self._content = cast("Content", content)
        elif content is None and content_blocks is None:
            self._content = ""
        else:
            self._content = checked_content(content, content_blocks, self.__class__)
            if tool_call_chunks is None and tool_calls is None:
                tool_call_chunks = _fragments_in_blocks(self._content) or None
        self.id = id
        self.name = name
        self.additional_kwargs = {} if additional_kwargs is None else additional_kwargs
        self.response_metadata = {} if response_metadata is None else response_metadata
        self.usage_metadata = usage_metadata
        self.chunk_position = chunk_position
        if tool_call_chunks:
            self._fragments = [checked_fragment(each) for each in tool_call_chunks]
            self._fragment_n = len(self._fragments)
        if tool_calls or invalid_tool_calls:
            self._take_calls(tool_calls or (), invalid_tool_calls or ())

    def _take_calls(self, calls: Iterable[Mapping[str, Any]], broken: Iterable[Mapping[str, Any]]) -> None:
        whole = checked_calls(calls)
        if self._fragments is None:
            self.tool_call_chunks = [fragment_of(call) for call in (*whole, *broken)]
        elif whole and whole != self.tool_calls:
            raise InvalidInput(
                "AIMessageChunk got tool_calls that differ from what its tool_call_chunks say.",
                hint="Give one of them.",
            )

    @property
    def content(self) -> Content:
        """The text so far, or the list of content blocks so far."""
        texts = self._texts
        if texts is not None:
            self._content = fold_content(texts[: self._text_n])
            self._texts = None  # after the value is in place: another thread may read
        return self._content

    @content.setter
    def content(self, content: Content) -> None:
        self._content = content
        self._texts = None

    @property
    def tool_call_chunks(self) -> list[ToolCallChunk]:
        """The fragments of calls, gathered into one per call."""
        fragments, fold = self._fragments, self._fold
        if fragments is None:
            return []
        if fold is None:
            return [chunk_of(fragment) for fragment in fragments]  # as they were given
        return fold.chunks(fragments, self._fragment_n)

    @tool_call_chunks.setter
    def tool_call_chunks(self, chunks: Iterable[ToolCallChunk]) -> None:
        self._fragments = [checked_fragment(each) for each in chunks] or None
        self._fragment_n = len(self._fragments or ())
        self._fold = None

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The calls whose arguments are whole."""
        return self._parse()[0]

    @tool_calls.setter
    def tool_calls(self, calls: Iterable[ToolCall]) -> None:
        self.tool_call_chunks = [fragment_of(call) for call in (*checked_calls(calls), *self.invalid_tool_calls)]

    @property
    def invalid_tool_calls(self) -> list[InvalidToolCall]:
        """The calls whose arguments are not whole, or broken."""
        return self._parse()[1]

    @invalid_tool_calls.setter
    def invalid_tool_calls(self, calls: Iterable[InvalidToolCall]) -> None:
        self.tool_call_chunks = [fragment_of(call) for call in (*self.tool_calls, *calls)]

    def _parse(self) -> tuple[list[ToolCall], list[InvalidToolCall]]:
        if self._fragments is None:
            return [], []
        if self._fold is None:
            return parse_calls(self.tool_call_chunks)
        return self._fold.parsed(self._fragments, self._fragment_n)

    def __add__(self, other: Any) -> Self:
        # the loop of `_plus` for one chunk, written out: it runs once per token
        if type(other) is not AIMessageChunk or type(self) is not AIMessageChunk:
            several = list(other) if isinstance(other, (list, tuple)) else [other]
            return self._plus(several) if several else self
        new = _new(AIMessageChunk)
        kwargs, more_kwargs = self.additional_kwargs, other.additional_kwargs
        facts, more_facts = self.response_metadata, other.response_metadata
        piece = other._content if other._texts is None else other.content
        texts = self._texts
        if texts is None:
            new._texts = [self._content, piece]
            new._text_n = 2
            # later sums share what nothing was added to; what this chunk has stays its own
            kwargs, facts = kwargs.copy(), facts.copy()
        else:
            length = self._text_n
            new._text_n = length + 1
            if len(texts) == length:  # `grown` for one
                texts.append(piece)
                new._texts = texts if texts[length] is piece else [*texts[:length], piece]
            else:
                new._texts = [*texts[:length], piece]
        fragments, more = self._fragments, other._fragments
        if more is None:
            new._fragments = fragments
            new._fold = self._fold
            if fragments is not None:
                new._fragment_n = self._fragment_n
        elif fragments is None:
            new._fragments = more
            new._fold = other._fold
            new._fragment_n = other._fragment_n
        else:
            fold = self._fold
            length, count = self._fragment_n, other._fragment_n
            new._fragment_n = length + count
            if fold is None:
                new._fragments = [*fragments, *more[:count]]
                new._fold = CallFold()
            else:
                if count == 1 and len(fragments) == length:  # `grown` for one
                    fragment = more[0]
                    fragments.append(fragment)
                    joined = fragments if fragments[length] is fragment else [*fragments[:length], fragment]
                else:
                    joined = grown(fragments, length, more[:count])
                new._fragments = joined
                new._fold = fold if joined is fragments else CallFold()
        new.additional_kwargs = merge_kwargs(kwargs, more_kwargs) if more_kwargs else kwargs
        new.response_metadata = merge_metadata(facts, more_facts) if more_facts else facts
        known = self.id
        new.id = other.id if known is None else known
        known = self.name
        new.name = other.name if known is None else known
        usage = other.usage_metadata
        if usage is None:
            new.usage_metadata = self.usage_metadata
        else:
            new.usage_metadata = usage if self.usage_metadata is None else add_usage(self.usage_metadata, usage)
        new.chunk_position = self.chunk_position or other.chunk_position
        return new  # type: ignore[return-value]

    def _plus(self, others: Sequence[Any]) -> Self:
        """The sum with many, in one pass."""
        for other in others:
            check_addable(self, other)
        new = _new(self.__class__)
        texts = self._texts
        new._texts = [self._content] if texts is None else texts[: self._text_n]
        new._texts += [other.content for other in others]
        new._text_n = len(new._texts)
        message_id, name, position = self.id, self.name, self.chunk_position
        kwargs, facts, usage = self.additional_kwargs, self.response_metadata, self.usage_metadata
        fragments = [] if self._fragments is None else self._fragments[: self._fragment_n]
        fold, holders = self._fold, int(bool(fragments))
        for other in others:
            if other._fragments is not None:
                fragments += other._fragments[: other._fragment_n]
                fold = other._fold
                holders += 1
            if message_id is None:
                message_id = other.id
            if name is None:
                name = other.name
            if other.additional_kwargs:
                kwargs = merge_kwargs(kwargs, other.additional_kwargs)
            if other.response_metadata:
                facts = merge_metadata(facts, other.response_metadata)
            if other.usage_metadata is not None:
                usage = add_usage(usage, other.usage_metadata) if usage is not None else other.usage_metadata
            position = position or other.chunk_position
        new._fragments, new._fragment_n = fragments or None, len(fragments)
        # the fragments of one chunk alone stay as they were given
        new._fold = CallFold() if holders > 1 or fold is not None else None
        new.id, new.name, new.chunk_position, new.usage_metadata = message_id, name, position, usage
        new.additional_kwargs, new.response_metadata = dict(kwargs), dict(facts)
        return new

    def to_message(self) -> AIMessage:
        """The finished message. Calls whose arguments are no JSON object are in its `invalid_tool_calls`."""
        return cast("AIMessage", BaseMessageChunk.to_message(self))

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._fields)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:  # logs hold locks and counters
        return _rebuilt, (self.__class__, {name: getattr(self, name) for name in self._fields})


def _rebuilt(cls: type[AIMessageChunk], fields: dict[str, Any]) -> AIMessageChunk:
    return cls(**fields)


def _fragments_in_blocks(content: Content) -> list[ToolCallChunk]:
    fragments = [fragment_of(call) for call in calls_in_blocks(content)]
    for block in content:
        if isinstance(block, dict) and block.get("type") in ("tool_call_chunk", "invalid_tool_call"):
            fragments.append(fragment_of(block))
    return fragments
