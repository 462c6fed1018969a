"""Messages that arrive in pieces: `a + b` and `a + [b, c]` give the message so far.

Adding is O(new): a sum of model chunks keeps the texts and call fragments side by side with the sums it grew from,
and joins or parses them when `.content`, `.tool_call_chunks` or `.tool_calls` is read. Sums are values like any
other: an earlier sum keeps its meaning when more is added to it, from several threads too. The order in which chunks
are summed does not matter: `(a + b) + c == a + (b + c)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

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
    in_written_order,
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
_Calls = tuple[list[Fragment], int, CallFold | None]
"""Fragments of calls, of which the first so many are a chunk's, and in sums what works out the calls."""


class AIMessageChunk(AIMessage, BaseMessageChunk):
    """A piece of what a model says.

    `tool_call_chunks` are fragments of calls; `tool_calls` and `invalid_tool_calls` are what they amount to so far,
    worked out when read and not to be changed in place. Calls given as `tool_calls` become fragments.
    `chunk_position` is "last" on the last one.
    """

    # The fields are properties, since sums work them out late: `content` from the texts and calls from the fragments
    # that came so far, and the rest, which hardly changes from chunk to chunk, is that of a `_base` that sums share.
    # A chunk that says more than most has a base of its own. The slots that the classes above have for the fields hold
    # what they are worked out from.
    __slots__ = ("_base", "_position", "_text_n", "_texts")

    _content = cast("Content", BaseMessage.__dict__["content"])
    _calls = cast("_Calls | None", AIMessage.__dict__["tool_calls"])
    _id = cast("str | None", BaseMessage.__dict__["id"])
    _name = cast("str | None", BaseMessage.__dict__["name"])
    _kwargs = cast("dict[str, Any]", BaseMessage.__dict__["additional_kwargs"])
    _facts = cast("dict[str, Any]", BaseMessage.__dict__["response_metadata"])
    _usage = cast("UsageMetadata | None", AIMessage.__dict__["usage_metadata"])
    _base: AIMessageChunk | None
    _position: str | None
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
        self._base = None
        self._texts: list[Content] | None = None  # of a sum that was not read: the first `_text_n` are its content
        self._text_n: int
        self._calls = None
        if type(content) is str:
            self._content = content
        elif content is None and content_blocks is None:
            self._content = ""
        else:
            self._content = checked_content(content, content_blocks, self.__class__)
            if tool_call_chunks is None and tool_calls is None:
                tool_call_chunks = _fragments_in_blocks(self._content) or None
        self._id = id
        self._name = name
        self._kwargs = {} if additional_kwargs is None else additional_kwargs
        self._facts = {} if response_metadata is None else response_metadata
        self._usage = usage_metadata
        self._position = chunk_position
        if usage_metadata is not None or chunk_position is not None or name is not None:
            self._base = self._bare()
        if tool_call_chunks:
            fragments = [checked_fragment(each) for each in tool_call_chunks]
            self._calls = (fragments, len(fragments), None)
        if tool_calls or invalid_tool_calls:
            self._take_calls(tool_calls or (), invalid_tool_calls or ())

    def _take_calls(self, calls: Iterable[Mapping[str, Any]], broken: Iterable[Mapping[str, Any]]) -> None:
        whole = checked_calls(calls)
        if self._calls is None:
            self._set_calls(whole, broken)
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
        if self._calls is None:
            return []
        fragments, length, fold = self._calls
        if fold is None:
            return [chunk_of(fragment) for fragment in fragments]  # as they were given
        return fold.chunks(fragments, length)

    @tool_call_chunks.setter
    def tool_call_chunks(self, chunks: Iterable[ToolCallChunk]) -> None:
        fragments = [checked_fragment(each) for each in chunks]
        self._calls = (fragments, len(fragments), None) if fragments else None

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
        if self._calls is None:
            return [], []
        fragments, length, fold = self._calls
        return parse_calls(self.tool_call_chunks) if fold is None else fold.parsed(fragments, length)

    # -- adding up

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__add__ is AIMessageChunk.__add__:
            cls.__add__ = cls._plus_any  # type: ignore[method-assign]

    def _plus_any(self, other: Any) -> Self:
        several = list(other) if isinstance(other, (list, tuple)) else [other]
        return self._plus(several) if several else self

    def __add__(self, other: Any) -> Self:
        # the loop of `_plus` for one chunk, written out, with few steps: it runs once per token
        if type(other) is not AIMessageChunk:
            return self._plus_any(other)
        new = _new(AIMessageChunk)
        texts = self._texts
        if texts is None:
            base = self._base or self._bare()
            texts = [self._content]
            length = 1
        else:
            base = self._base  # type: ignore[assignment]  # a sum has one
            length = self._text_n
        if (
            other._base is None
            and not other._kwargs
            and not other._facts
            and (base._id is not None or other._id is None)
        ):
            piece = other._content
        else:
            base = base._with(other)
            piece = other.content
        new._base = base
        if piece or piece != "":
            new._text_n = length + 1
            if len(texts) == length:  # `grown` for one
                texts.append(piece)
                new._texts = texts if texts[length] is piece else [*texts[:length], piece]
            else:
                new._texts = [*texts[:length], piece]
        else:
            new._texts = texts
            new._text_n = length
        more = other._calls
        if more is None:
            new._calls = self._calls
            return new  # type: ignore[return-value]
        mine = self._calls
        if mine is None:
            new._calls = more
            return new  # type: ignore[return-value]
        fragments, length, fold = mine
        if fold is None:
            new._calls = ([*fragments, *more[0][: more[1]]], length + more[1], CallFold())
        elif more[1] == 1 and len(fragments) == length:  # `grown` for one
            fragment = more[0][0]
            fragments.append(fragment)
            if fragments[length] is fragment:
                new._calls = (fragments, length + 1, fold)
            else:
                new._calls = ([*fragments[:length], fragment], length + 1, CallFold())
        else:
            joined = grown(fragments, length, more[0][: more[1]])
            new._calls = (joined, length + more[1], fold if joined is fragments else CallFold())
        return new  # type: ignore[return-value]

    def _bare(self) -> AIMessageChunk:
        """What it says beside content and calls. Its dicts are copies: what this chunk has stays its own."""
        bare = _new(AIMessageChunk)
        bare._base = None
        bare._id, bare._name, bare._position = self._id, self._name, self._position
        bare._kwargs, bare._facts, bare._usage = self._kwargs.copy(), self._facts.copy(), self._usage
        return bare

    def _with(self, other: AIMessageChunk) -> AIMessageChunk:
        """The sum of what two say beside content and calls. Sums share the dicts that nothing was added to."""
        told = other if other._base is None else other._base
        bare = _new(AIMessageChunk)
        bare._base = None
        bare._id = told._id if self._id is None else self._id
        bare._name = told._name if self._name is None else self._name
        bare._position = self._position or told._position
        bare._kwargs = merge_kwargs(self._kwargs, told._kwargs) if told._kwargs else self._kwargs
        bare._facts = merge_metadata(self._facts, told._facts) if told._facts else self._facts
        usage = told._usage
        bare._usage = self._usage if usage is None else usage if self._usage is None else add_usage(self._usage, usage)
        return bare

    def _plus(self, others: Sequence[Any]) -> Self:
        """The sum with many, in one pass."""
        if any(type(other) is not type(self) for other in others):
            for other in others:
                check_addable(self, other)
        new = _new(self.__class__)
        texts = self._texts
        joined = [self._content] if texts is None else texts[: self._text_n]
        joined += [other._content if other._texts is None else other.content for other in others]
        new._texts, new._text_n = joined, len(joined)
        base = (self if self._base is None else self._base)._bare()
        calls = self._calls
        fragments, holders = ([], 0) if calls is None else (calls[0][: calls[1]], 1)
        fold = None if calls is None else calls[2]
        for other in others:
            calls = other._calls
            if calls is not None:
                fragments += calls[0][: calls[1]]
                fold = calls[2]
                holders += 1
            if other._base is not None or other._kwargs or other._facts or (base._id is None and other._id is not None):
                base = base._with(other)
        new._base = base
        # the fragments of one chunk alone stay as they were given
        fold = CallFold() if holders > 1 or fold is not None else None
        new._calls = (fragments, len(fragments), fold) if fragments else None
        return new

    def belong_to(self, id: str) -> None:
        """Take the id of the answer that it is a piece of, unless it has one."""
        if self._base is None:  # as nearly every piece: `id`, without a call to read it and one to write it
            if self._id is None:
                self._id = id
        elif self.id is None:
            self.id = id

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


def _shared(slot: Any, doc: str, *, looked_at: bool = False) -> Any:
    """A field that a sum has from its base, until it is set. `looked_at`: `+` looks at it in a chunk without a base."""
    read, write = slot.__get__, slot.__set__

    def get(self: AIMessageChunk) -> Any:
        base = self._base
        return read(self if base is None else base)

    def put(self: AIMessageChunk, value: Any) -> None:
        try:
            base = self._base
        except AttributeError:  # made field by field
            base = None
            for each, blank in _BLANK:
                each.__set__(self, blank() if blank else None)
        if base is None and looked_at:
            write(self, value)
            return
        base = self._bare() if base is None else base._bare()  # from now on it has its own
        write(base, value)
        self._base = base

    return property(get, put, doc=doc)


_of = AIMessageChunk.__dict__
_BLANK = [
    (_of[name], blank)
    for name, blank in (
        *(("_base", None), ("_id", None), ("_name", None), ("_usage", None), ("_position", None)),
        *(("_kwargs", dict), ("_facts", dict)),
    )
]
AIMessageChunk.id = _shared(_of["_id"], "The message's id.", looked_at=True)
AIMessageChunk.name = _shared(_of["_name"], "The speaker's name.")
AIMessageChunk.additional_kwargs = _shared(_of["_kwargs"], "What the provider adds.", looked_at=True)
AIMessageChunk.response_metadata = _shared(_of["_facts"], "Facts about the response.", looked_at=True)
AIMessageChunk.usage_metadata = _shared(_of["_usage"], "What the call took, in tokens.")
AIMessageChunk.chunk_position = _shared(  # type: ignore[method-assign]
    _of["_position"], '"last" on the last chunk.'
)


def _rebuilt(cls: type[AIMessageChunk], fields: dict[str, Any]) -> AIMessageChunk:
    return cls(**fields)


def _fragments_in_blocks(content: Content) -> list[ToolCallChunk]:
    fragments = [fragment_of(call) for call in calls_in_blocks(content)]
    for block in content:
        if isinstance(block, dict) and block.get("type") == "tool_call_chunk":
            fragments.append(fragment_of(block))
    return fragments
