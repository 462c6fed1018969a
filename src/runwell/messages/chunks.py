"""Messages that arrive in pieces: `a + b` and `a + [b, c]` give the message so far.

Adding is O(new): a sum of model chunks keeps the texts and call fragments side by side with the sums it grew from,
and joins or parses them when `.content`, `.tool_call_chunks` or `.tool_calls` is read. Sums are values like any
other: an earlier sum keeps its meaning when more is added to it, from several threads too. The order in which chunks
are summed does not matter: `(a + b) + c == a + (b + c)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from runwell.errors import InvalidInput
from runwell.messages.beside import Beside
from runwell.messages.calls import (
    Fragment,
    InvalidToolCall,
    ToolCall,
    ToolCallChunk,
    checked_calls,
    checked_fragment,
    chunks_in,
    fragment_of,
    fragments_in,
    in_written_order,
    parse_calls,
)
from runwell.messages.chunk_log import ChunkLog, content_in, entry_of
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
    _making,
    calls_in_blocks,
    checked_content,
)
from runwell.messages.usage import UsageMetadata

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
        fields["content"] = _finished_content(fields["content"], fields)
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


def _finished_content(content: Content, fields: Mapping[str, Any]) -> Content:
    if isinstance(content, str):
        return content
    finished: list[str | dict[str, Any]] = []
    for block in content:
        if isinstance(block, dict):
            if block.get("type") == "tool_call_chunk":
                if block.get("name") is None:  # it says where a call stands that was told beside the content
                    whole = [*fields.get("tool_calls", ()), *fields.get("invalid_tool_calls", ())]
                    told = [dict(call) for call in whole if call["id"] == block.get("id") is not None]
                    if told:
                        finished.append(told[0])
                        continue
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
        raise InvalidInput(f"Chunks of different messages do not add up: {name} is {mine!r:.200} and {theirs!r:.200}.")


_new = object.__new__


class AIMessageChunk(AIMessage, BaseMessageChunk):
    """A piece of what a model says.

    `tool_call_chunks` are fragments of calls; `tool_calls` and `invalid_tool_calls` are what they amount to so far,
    worked out when read and not to be changed in place. Calls given as `tool_calls` become fragments.
    `chunk_position` is "last" on the last one.
    """

    # The fields are properties. A chunk holds its content and fragments as the one entry (`entry_of`) that a sum's log
    # gets of it, and a sum the log and how many of its entries are its own; both are worked out when read. What else
    # there is, which hardly changes from chunk to chunk, is a `Beside` that sums share. A chunk of no more than a
    # content, fragments and an id, as nearly every one is, has none until one of its dicts is read: adding it takes
    # one look. All this stands in slots that the classes above have for the fields.
    __slots__ = ()

    _said = cast("Any", BaseMessage.__dict__["content"])  # of a sum: its content, once read, if that is a list
    _id = cast("str | None", BaseMessage.__dict__["id"])  # if there is no `_beside`
    _beside = cast("Beside | None", BaseMessage.__dict__["_kwargs"])  # a sum has one
    _log = cast("ChunkLog | None", AIMessage.__dict__["tool_calls"])  # of a sum
    _length = cast("int", AIMessage.__dict__["invalid_tool_calls"])  # of a sum

    if TYPE_CHECKING:  # made below

        @property
        def chunk_position(self) -> str | None: ...
        @chunk_position.setter
        def chunk_position(self, value: str | None) -> None: ...

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
        self._log = None
        if type(content) is str:
            self._said = content
        elif content is None and content_blocks is None:
            self._said = ""
        else:
            self._said = content = checked_content(content, content_blocks, self.__class__)
            if tool_call_chunks is None and tool_calls is None:
                tool_call_chunks = _fragments_in_blocks(content) or None
        self._id = id
        if (
            additional_kwargs is None
            and response_metadata is None
            and usage_metadata is None
            and chunk_position is None
            and name is None
        ):
            self._beside = None
        else:
            self._beside = Beside(id, name, additional_kwargs, response_metadata, usage_metadata, chunk_position)
        if tool_call_chunks:
            self._said = entry_of(self._said, [checked_fragment(each) for each in tool_call_chunks])
        if tool_calls or invalid_tool_calls:
            self._take_calls(tool_calls or (), invalid_tool_calls or ())

    def _take_calls(self, calls: Iterable[Mapping[str, Any]], broken: Iterable[Mapping[str, Any]]) -> None:
        whole = checked_calls(calls)
        if not fragments_in(self._said):
            self._set_calls(whole, broken)
        elif whole and whole != self.tool_calls:
            raise InvalidInput(
                "AIMessageChunk got tool_calls that differ from what its tool_call_chunks say.",
                hint="Give one of them.",
            )

    @property
    def content(self) -> Content:
        """The text so far, or the list of content blocks so far."""
        log = self._log
        if log is None:
            said = self._said
            return said if type(said) is str else content_in(said)
        content = log.content(self._length)
        if type(content) is list:  # what a reader does to it is seen by the next
            try:
                return cast("Content", self._said)
            except AttributeError:
                self._said = content
        return content

    @content.setter
    def content(self, content: Content) -> None:
        self._say(content, self._fragments())

    @property
    def tool_call_chunks(self) -> list[ToolCallChunk]:
        """The fragments of calls, gathered into one per call."""
        log = self._log
        return chunks_in(self._said) if log is None else log.call_chunks(self._length)

    @tool_call_chunks.setter
    def tool_call_chunks(self, chunks: Iterable[ToolCallChunk]) -> None:
        self._say(self.content, [checked_fragment(each) for each in chunks])

    def _say(self, content: Content, fragments: list[Fragment]) -> None:
        """Say this, whatever was said before."""
        self._said = entry_of(content, fragments)
        self._log = None  # after the entry is in place: another thread may read

    def _fragments(self) -> list[Fragment]:
        return [checked_fragment(each) for each in self.tool_call_chunks]

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The calls whose arguments are whole."""
        return self._parse()[0]

    @tool_calls.setter
    def tool_calls(self, calls: Iterable[ToolCall]) -> None:
        self._set_calls(checked_calls(calls), self.invalid_tool_calls)

    @property
    def invalid_tool_calls(self) -> list[InvalidToolCall]:
        """The calls whose arguments are not whole, or broken."""
        return self._parse()[1]

    @invalid_tool_calls.setter
    def invalid_tool_calls(self, calls: Iterable[InvalidToolCall]) -> None:
        self._set_calls(self.tool_calls, calls)

    def _set_calls(self, whole: Iterable[Mapping[str, Any]], broken: Iterable[Mapping[str, Any]]) -> None:
        self.tool_call_chunks = [{**fragment_of(call), "index": None} for call in in_written_order(whole, broken)]

    @property
    def partial_tool_calls(self) -> list[ToolCall]:
        """Every call with as much of its arguments as came, for showing while it is written; in time linear in what
        came. Only `tool_calls` is for making calls: its arguments are whole."""
        from runwell.messages.partial import partial_json

        calls: list[ToolCall] = []
        for chunk in self.tool_call_chunks:
            args = partial_json(chunk["args"] or "")
            found = args if isinstance(args, dict) else {}
            calls.append({"name": chunk["name"] or "", "args": found, "id": chunk["id"], "type": "tool_call"})
        return calls

    def _parse(self) -> tuple[list[ToolCall], list[InvalidToolCall]]:
        log = self._log
        return parse_calls(chunks_in(self._said)) if log is None else log.calls(self._length)

    # -- adding up

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__add__ is AIMessageChunk.__add__:
            cls.__add__ = cls._plus_any  # type: ignore[method-assign]

    def _plus_any(self, other: Any) -> Self:
        several = list(other) if isinstance(other, (list, tuple)) else [other]
        return self._plus(several) if several else self

    def __add__(self, other: Any) -> Self:
        # what `_plus` does for one chunk, with few steps: it runs once per token
        if type(other) is not AIMessageChunk:
            return self._plus_any(other)
        log = self._log
        if log is None:
            log, length, beside = self._begun()
        else:
            length = self._length
            beside = self._beside  # type: ignore[assignment]  # a sum has one
        new = _new(AIMessageChunk)
        if other._beside is None and (other._id is None or beside.id is not None):
            new._beside = beside
            new._length = longer = length + 1
            if len(log) == length:  # `grown` for one
                log.append(other._said)
                if len(log) == longer:
                    new._log = log
                    return new  # type: ignore[return-value]
            new._log = ChunkLog.of([*log[:length], other._said])
            return new  # type: ignore[return-value]
        new._beside = beside.plus(other._all_beside())
        more = other._entries()
        new._log = log.grown(length, more)
        new._length = length + len(more)
        return new  # type: ignore[return-value]

    def _begun(self) -> tuple[ChunkLog, int, Beside]:
        """What a sum that begins with this chunk grows from. The dicts are copies: what is in this one stays."""
        return ChunkLog.of([self._said]), 1, self._all_beside().copy()

    def _entries(self) -> list[Any]:
        log = self._log
        return [self._said] if log is None else log[: self._length]

    def _all_beside(self) -> Beside:
        """What it says beside content and calls, though that be nothing."""
        return Beside(self._id) if self._beside is None else self._beside

    def _plus(self, others: Sequence[Any]) -> Self:
        """The sum with many, in one pass."""
        if any(type(other) is not type(self) for other in others):
            for other in others:
                check_addable(self, other)
        new = _new(self.__class__)
        entries = self._entries()
        beside = self._all_beside().copy()
        for other in others:
            if other._log is None:
                entries.append(other._said)
            else:
                entries += other._entries()
            if other._beside is not None or (beside.id is None and other._id is not None):
                beside = beside.plus(other._all_beside())
        new._beside = beside
        new._log, new._length = ChunkLog.of(entries), len(entries)
        return new

    def _own_beside(self) -> Beside:
        """What it has beside content and calls, to be kept: a reader may change a dict in it."""
        beside = self._beside
        if beside is None:
            with _making:  # two threads that read at the same moment get the same dict
                beside = self._beside
                if beside is None:
                    self._beside = beside = Beside(self._id)
        return beside

    def belong_to(self, id: str) -> None:
        """Take the id of the answer that it is a piece of, unless it has one."""
        if self._beside is None:  # as nearly every piece: `id`, without a call to read it and one to write it
            if self._id is None:
                self._id = id
        elif self.id is None:
            self.id = id

    def to_message(self) -> AIMessage:
        """The finished message. Calls whose arguments are no JSON object are in its `invalid_tool_calls`."""
        return cast("AIMessage", BaseMessageChunk.to_message(self))

    def _twin(self) -> Self:
        twin = _new(self.__class__)
        twin._log = None
        twin._said = self._said if self._log is None else entry_of(self.content, self._fragments())
        twin._beside = self._beside
        if twin._beside is None:
            twin._id = self._id
        return twin

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._fields)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:  # logs hold locks and counters
        return _rebuilt, (self.__class__, {name: getattr(self, name) for name in self._fields})


def _id_of(self: AIMessageChunk) -> str | None:
    beside = self._beside
    return self._id if beside is None else beside.id


def _set_id(self: AIMessageChunk, id: str | None) -> None:
    if self._beside is None:
        self._id = id
    else:
        self._beside = self._beside.called(id)


def _told(name: str, doc: str) -> Any:
    """A field that may stand beside content and calls."""
    read, is_dict = attrgetter(name), name in ("kwargs", "facts")

    def get(self: AIMessageChunk) -> Any:
        beside = self._beside
        if beside is None:
            if not is_dict:
                return None
            beside = self._own_beside()
        return read(beside)

    def put(self: AIMessageChunk, value: Any) -> None:
        beside = self._all_beside().copy()  # from now on it has its own
        setattr(beside, name, value)
        self._beside = beside

    return property(get, put, doc=doc)


AIMessageChunk.id = property(_id_of, _set_id, doc="The message's id.")  # type: ignore[assignment]
AIMessageChunk._kwargs = property(lambda self: self._beside and self._beside.kwargs)  # type: ignore[assignment]
AIMessageChunk._facts = property(lambda self: self._beside and self._beside.facts)  # type: ignore[assignment]
AIMessageChunk.name = _told("name", "The speaker's name.")
AIMessageChunk.additional_kwargs = _told("kwargs", "What the provider adds.")
AIMessageChunk.response_metadata = _told("facts", "Facts about the response.")
AIMessageChunk.usage_metadata = _told("usage", "What the call took, in tokens.")
AIMessageChunk.chunk_position = _told("position", '"last" on the last chunk.')  # type: ignore[method-assign]


def _rebuilt(cls: type[AIMessageChunk], fields: dict[str, Any]) -> AIMessageChunk:
    return cls(**fields)


def _fragments_in_blocks(content: Content) -> list[ToolCallChunk]:
    fragments = [fragment_of(call) for call in calls_in_blocks(content)]
    for block in content:
        if isinstance(block, dict) and block.get("type") == "tool_call_chunk":
            fragments.append(fragment_of(block))
    return fragments
