"""Messages that arrive in pieces: `a + b` and `a + [b, c]` give the message so far.

Adding is O(new): a sum of model chunks keeps the texts and call fragments side by side with the sums it grew from,
and joins or parses them when `.content`, `.tool_call_chunks` or `.tool_calls` is read. Sums are values like any
other: an earlier sum keeps its meaning when more is added to it, from several threads too. The order in which chunks
are summed does not matter: `(a + b) + c == a + (b + c)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any, ClassVar, Self, cast

from runwell.errors import InvalidInput
from runwell.messages.calls import (
    CallLog,
    InvalidToolCall,
    ToolCall,
    ToolCallChunk,
    checked_calls,
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
                finished.append(cast("dict[str, Any]", (*calls, *broken)[0]))
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


class _TextLog:
    """Contents in the order they came, shared by a sum and those that grow from it. See `CallLog`."""

    __slots__ = ("claim", "contents")

    def __init__(self, contents: list[Content]) -> None:
        self.contents = contents
        self.claim = count(len(contents)).__next__


_new = object.__new__


class AIMessageChunk(AIMessage, BaseMessageChunk):
    """A piece of what a model says.

    `tool_call_chunks` are fragments of calls; `tool_calls` and `invalid_tool_calls` are what they amount to so far,
    worked out when read and not to be changed in place. Calls given as `tool_calls` become fragments.
    `chunk_position` is "last" on the last one.
    """

    # `content`, `tool_calls` and `invalid_tool_calls` are properties over these, as sums work them out late
    __slots__ = ("_call_log", "_call_n", "_content", "_parsed", "_text_log", "_text_n", "chunk_position")

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
        self._text_log: _TextLog | None = None
        self._text_n = 0
        self._call_log: CallLog | None = None
        self._call_n = 0
        self._parsed: tuple[list[ToolCall], list[InvalidToolCall]] | None = None
        if content.__class__ is str:
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
            self._call_log = CallLog.of(tool_call_chunks)
            self._call_n = 1
        if tool_calls or invalid_tool_calls:
            self._take_calls(tool_calls or (), invalid_tool_calls or ())

    def _take_calls(self, calls: Iterable[Mapping[str, Any]], broken: Iterable[Mapping[str, Any]]) -> None:
        whole = checked_calls(calls)
        if self._call_log is None:
            self.tool_call_chunks = [fragment_of(call) for call in (*whole, *broken)]
        elif whole and whole != self.tool_calls:
            raise InvalidInput(
                "AIMessageChunk got tool_calls that differ from what its tool_call_chunks say.",
                hint="Give one of them.",
            )

    @property
    def content(self) -> Content:
        """The text so far, or the list of content blocks so far."""
        log = self._text_log
        if log is not None:
            self._content = fold_content(log.contents[: self._text_n])
            self._text_log = None  # after the value is in place: another thread may read
        return self._content

    @content.setter
    def content(self, content: Content) -> None:
        self._content = content
        self._text_log = None
        self._text_n = 0

    @property
    def tool_call_chunks(self) -> list[ToolCallChunk]:
        """The fragments of calls, gathered into one per call."""
        return [] if self._call_log is None else self._call_log.chunks(self._call_n)

    @tool_call_chunks.setter
    def tool_call_chunks(self, chunks: Iterable[ToolCallChunk]) -> None:
        log = CallLog.of(chunks)
        self._call_log, self._call_n = (log, 1) if log.batches[0] else (None, 0)
        self._parsed = None

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The calls whose arguments are whole."""
        return self._parse()[0] if self._call_log is not None else []

    @tool_calls.setter
    def tool_calls(self, calls: Iterable[ToolCall]) -> None:
        self.tool_call_chunks = [fragment_of(call) for call in (*checked_calls(calls), *self.invalid_tool_calls)]

    @property
    def invalid_tool_calls(self) -> list[InvalidToolCall]:
        """The calls whose arguments are not whole, or broken."""
        return self._parse()[1] if self._call_log is not None else []

    @invalid_tool_calls.setter
    def invalid_tool_calls(self, calls: Iterable[InvalidToolCall]) -> None:
        self.tool_call_chunks = [fragment_of(call) for call in (*self.tool_calls, *calls)]

    def _parse(self) -> tuple[list[ToolCall], list[InvalidToolCall]]:
        parsed = self._parsed
        if parsed is None:
            parsed = self._parsed = parse_calls(self.tool_call_chunks)
        return parsed

    def __add__(self, other: Any) -> Self:
        if other.__class__ is not self.__class__:
            if isinstance(other, (list, tuple)):
                return self._plus(other) if other else self
            check_addable(self, other)
        # the loop of `_plus` for one chunk, written out: it runs once per token
        new = _new(self.__class__)
        piece = other._content if other._text_log is None else other.content
        log = self._text_log
        if log is None:
            new._text_log = _TextLog([self._content, piece])
            new._text_n = 2
        else:
            length = self._text_n
            if log.claim() == length:
                log.contents.append(piece)
                new._text_log = log
            else:
                new._text_log = _TextLog([*log.contents[:length], piece])
            new._text_n = length + 1
        calls = other._call_log
        if calls is None:
            new._call_log, new._call_n = self._call_log, self._call_n
        elif self._call_log is None:
            new._call_log, new._call_n = calls, other._call_n
        else:
            new._call_log = self._call_log.grown(self._call_n, calls, other._call_n)
            new._call_n = self._call_n + 1
        new._parsed = None
        new.id = self.id if self.id is not None else other.id
        new.name = self.name if self.name is not None else other.name
        mine, theirs = self.additional_kwargs, other.additional_kwargs
        new.additional_kwargs = merge_kwargs(mine, theirs) if mine or theirs else {}
        mine, theirs = self.response_metadata, other.response_metadata
        new.response_metadata = merge_metadata(mine, theirs) if mine or theirs else {}
        usage, more = self.usage_metadata, other.usage_metadata
        new.usage_metadata = usage if more is None else more if usage is None else add_usage(usage, more)
        new.chunk_position = self.chunk_position or other.chunk_position
        return new

    def _plus(self, others: Sequence[Any]) -> Self:
        """The sum with many, in one pass."""
        for other in others:
            check_addable(self, other)
        new = _new(self.__class__)
        log = self._text_log
        contents = [self._content] if log is None else log.contents[: self._text_n]
        contents += [other.content for other in others]
        new._text_log = _TextLog(contents)
        new._text_n = len(contents)
        call_log, call_n = self._call_log, self._call_n
        message_id, name, position = self.id, self.name, self.chunk_position
        kwargs, metadata, usage = self.additional_kwargs, self.response_metadata, self.usage_metadata
        for other in others:
            if other._call_log is not None:
                if call_log is None:
                    call_log, call_n = other._call_log, other._call_n
                else:
                    call_log = call_log.grown(call_n, other._call_log, other._call_n)
                    call_n += 1
            if message_id is None:
                message_id = other.id
            if name is None:
                name = other.name
            if other.additional_kwargs:
                kwargs = merge_kwargs(kwargs, other.additional_kwargs)
            if other.response_metadata:
                metadata = merge_metadata(metadata, other.response_metadata)
            if other.usage_metadata is not None:
                usage = add_usage(usage, other.usage_metadata) if usage is not None else other.usage_metadata
            position = position or other.chunk_position
        new._call_log, new._call_n, new._parsed = call_log, call_n, None
        new.id, new.name, new.chunk_position, new.usage_metadata = message_id, name, position, usage
        new.additional_kwargs, new.response_metadata = dict(kwargs), dict(metadata)
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
