"""Tool calls: as finished values, as fragments of a stream, and how the ones are made of the others."""

from __future__ import annotations

import json
import os
from _thread import allocate_lock
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypeVar, cast

from typing_extensions import TypedDict

from runwell.errors import InvalidInput

if TYPE_CHECKING:
    from runwell.messages.message import AIMessage

__all__ = [
    "CallLog",
    "InvalidToolCall",
    "ToolCall",
    "ToolCallChunk",
    "checked_calls",
    "checked_invalid_calls",
    "ensure_call_ids",
    "fragment_of",
    "invalid_tool_call",
    "json_text",
    "parse_args",
    "parse_calls",
    "tool_call",
    "tool_call_chunk",
]


M = TypeVar("M", bound="AIMessage")


class ToolCall(TypedDict):
    """A call the model wants made: the tool's name, its arguments, and the id its result must carry."""

    name: str
    args: dict[str, Any]
    id: str | None
    type: NotRequired[Literal["tool_call"]]


class InvalidToolCall(TypedDict):
    """A call that cannot be made. `args` is the text as the model wrote it; `error` says what is wrong with it."""

    name: str | None
    args: str | None
    id: str | None
    error: str | None
    type: NotRequired[Literal["invalid_tool_call"]]


class ToolCallChunk(TypedDict):
    """A fragment of a call in a stream. `args` is a piece of JSON text; fragments of one call share an `index`."""

    name: str | None
    args: str | None
    id: str | None
    index: int | str | None
    type: NotRequired[Literal["tool_call_chunk"]]


def tool_call(*, name: str, args: dict[str, Any], id: str | None) -> ToolCall:
    """A `ToolCall`."""
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


def invalid_tool_call(
    *, name: str | None = None, args: str | None = None, id: str | None = None, error: str | None = None
) -> InvalidToolCall:
    """An `InvalidToolCall`."""
    return {"name": name, "args": args, "id": id, "error": error, "type": "invalid_tool_call"}


def tool_call_chunk(
    *, name: str | None = None, args: str | None = None, id: str | None = None, index: int | str | None = None
) -> ToolCallChunk:
    """A `ToolCallChunk`. An index given as digits becomes a number."""
    return {"name": name, "args": args, "id": id, "index": _number(index), "type": "tool_call_chunk"}


def json_text(value: Any) -> str:
    """Compact JSON with every character as it is, never escaped. Raises `TypeError` for what JSON cannot hold."""
    return json.dumps(value, ensure_ascii=False)


def parse_args(text: str | None) -> dict[str, Any]:
    """The arguments in `text`; no text at all means no arguments. Raises `ValueError` saying what is wrong.

    Raw line breaks inside strings are accepted (models write them and they have one meaning); anything
    else that is not JSON is not repaired.
    """
    if not text or not text.strip():
        return {}
    args = _DECODER.decode(text)
    if type(args) is not dict:
        raise ValueError(f"expected a JSON object, got {json_type(args)}")
    return args


def json_type(value: Any) -> str:
    """What JSON calls the type of a parsed value."""
    names = {str: "a string", bool: "a boolean", int: "a number", float: "a number", list: "an array"}
    return names.get(type(value), "null" if value is None else "an object")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(strict=False, parse_constant=_no_constant)


def parse_calls(fragments: Iterable[ToolCallChunk]) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    """Whole calls and broken ones, each in the order of `fragments`. Broken: no name, or `args` no JSON object."""
    calls: list[ToolCall] = []
    broken: list[InvalidToolCall] = []
    for each in fragments:
        name, text, call_id = each["name"], each["args"], each["id"]
        try:
            args = parse_args(text)
        except (ValueError, RecursionError) as error:
            problem = f"The arguments are not valid JSON: {error}"
        else:
            if name:
                calls.append({"name": name, "args": args, "id": call_id, "type": "tool_call"})
                continue
            problem = "The call names no tool."
        broken.append(invalid_tool_call(name=name, args=text, id=call_id, error=problem))
    return calls, broken


def checked_calls(calls: Iterable[Mapping[str, Any]]) -> list[ToolCall]:
    """A new list of the calls with `id` and `type` filled in. Raises `InvalidInput` for what is no call."""
    return [_checked_call(call) for call in calls]


def _checked_call(call: Mapping[str, Any]) -> ToolCall:
    try:
        name, args = call["name"], call["args"]
    except (KeyError, TypeError):
        name = args = None
    if type(name) is not str or not isinstance(args, dict):
        raise InvalidInput(
            f"A tool call needs a 'name' (text) and 'args' (a dict), got {call!r}.",
            hint="tool_call(name=..., args={...}, id=...) builds one; arguments that are still JSON text belong in "
            "invalid_tool_calls or tool_call_chunks.",
        )
    if call.get("type") == "tool_call" and "id" in call:
        return cast("ToolCall", call)
    if call.get("type", "tool_call") != "tool_call":
        raise InvalidInput(f"A tool call of type {call['type']!r}: expected 'tool_call' or none. Got {call!r}.")
    return cast("ToolCall", {**call, "id": call.get("id"), "type": "tool_call"})


def checked_invalid_calls(calls: Iterable[Mapping[str, Any]]) -> list[InvalidToolCall]:
    """A new list of the broken calls with every key present."""
    blank = invalid_tool_call()
    return [cast("InvalidToolCall", {**blank, **call}) for call in calls]


def fragment_of(call: Mapping[str, Any]) -> ToolCallChunk:
    """A finished or a broken call as the fragment that parses to it."""
    args = call.get("args")
    if args is not None and type(args) is not str:
        try:
            args = json_text(args)
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"The arguments of call {call.get('name')!r} cannot be written as JSON: {error}."
            ) from error
    return tool_call_chunk(name=call.get("name"), args=args, id=call.get("id"), index=call.get("index"))


def _number(index: Any) -> Any:
    return int(index) if type(index) is str and index.isascii() and index.isdigit() else index


def _checked_fragment(fragment: Mapping[str, Any]) -> ToolCallChunk:
    try:
        args = fragment.get("args")
        if args is not None and type(args) is not str:
            raise InvalidInput(
                f"A tool-call chunk carries a piece of JSON text in 'args', got {args!r}.",
                hint="A whole call with parsed arguments belongs in tool_calls.",
            )
        return tool_call_chunk(name=fragment.get("name"), args=args, id=fragment.get("id"), index=fragment.get("index"))
    except AttributeError:
        raise InvalidInput(f"A tool-call chunk is a dict with name, args, id and index, got {fragment!r}.") from None


def ensure_call_ids(message: M) -> M:
    """The model's reply with an id on every call, whole or broken; as it is when nothing is missing.

    A second call under the same id gets one of its own, as results are matched by id. Blocks of the content that show
    a call are changed alike.
    """
    calls: list[Any] = [*message.tool_calls, *message.invalid_tool_calls]
    seen: set[str] = set()
    for call in calls:
        if not call["id"] or call["id"] in seen:
            break
        seen.add(call["id"])
    else:
        return message
    seen.clear()
    fresh: list[tuple[Any, str | None, str]] = []  # name, old id, new id

    def named(call: Any) -> Any:
        old = call["id"]
        if old and old not in seen:
            seen.add(old)
            fresh.append((call["name"], old, old))
            return call
        new = f"call_{os.urandom(12).hex()}"
        fresh.append((call["name"], old, new))
        return {**call, "id": new}

    whole = [named(call) for call in message.tool_calls]
    broken = [named(call) for call in message.invalid_tool_calls]
    content = message.content
    if isinstance(content, list):
        content = [_renamed(block, fresh) for block in content]
    return message.model_copy(update={"content": content, "tool_calls": whole, "invalid_tool_calls": broken})


def _renamed(block: Any, fresh: list[tuple[Any, str | None, str]]) -> Any:
    """A block that shows one of the calls, under the call's new id. Each call is taken once, in order."""
    if not isinstance(block, dict) or block.get("type") not in ("tool_call", "tool_use", "invalid_tool_call"):
        return block
    for place, (name, old, new) in enumerate(fresh):
        if name == block.get("name") and (old or None) == (block.get("id") or None):
            del fresh[place]
            return block if old == new else {**block, "id": new}
    return block


class _Growing:
    """One call while its fragments come in."""

    __slots__ = ("call_id", "index", "name", "pieces")

    def __init__(self, index: Any, call_id: str | None, name: str | None) -> None:
        self.index = index
        self.call_id = call_id
        self.name = name
        self.pieces: list[str] = []

    def chunk(self) -> ToolCallChunk:
        pieces = self.pieces
        if len(pieces) > 1:
            pieces[:] = ["".join(pieces)]
        return {
            "name": self.name,
            "args": pieces[0] if pieces else None,
            "id": self.call_id,
            "index": self.index,
            "type": "tool_call_chunk",
        }


class _Fold:
    """Fragments gathered into calls, one at a time.

    An index names its call. Without one an id does; without either a fragment that has a name starts a call, and
    any other continues the call touched last. A provider that gives several calls the same index, each with an id and
    a name of its own, gets several calls.
    """

    __slots__ = ("by_id", "by_index", "calls", "done", "last")

    def __init__(self) -> None:
        self.calls: list[_Growing] = []
        self.by_index: dict[Any, _Growing] = {}
        self.by_id: dict[str, _Growing] = {}
        self.last: _Growing | None = None
        self.done = 0

    def take(self, fragment: ToolCallChunk) -> None:
        index, call_id, name, args = fragment["index"], fragment["id"], fragment["name"], fragment["args"]
        call = self._find(index, call_id, name)
        if call is None:
            call = _Growing(index, call_id or None, name or None)
            self.calls.append(call)
        elif name and name != call.name:
            call.name = name if call.name is None else call.name + name
        if call_id and call.call_id is None:
            call.call_id = call_id
        if call.index is None:
            call.index = index
        if call_id:
            self.by_id[call_id] = call
        if index is not None:
            self.by_index[index] = call
        if args is not None:
            call.pieces.append(args)
        self.last = call

    def _find(self, index: Any, call_id: str | None, name: str | None) -> _Growing | None:
        if index is not None:
            call = self.by_index.get(index)
            if call is None:
                # a stream whose first fragment had the id only
                call = self.by_id.get(call_id) if call_id else None
                return call if call is not None and call.index is None else None
            if call_id and name and call.call_id and call_id != call.call_id:
                return self.by_id.get(call_id)
            return call
        last = self.last
        if call_id:
            call = self.by_id.get(call_id)
            if call is None and last is not None and last.call_id is None and not name:
                return last
            return call
        if name and last is not None and last.name:
            return None
        return last


class CallLog:
    """Batches of fragments in the order they came, shared by a chunk and the sums that grew from it.

    A holder owns a prefix: the log and how many batches of it. Growing is O(new); calls are gathered on first
    reading, and reading after every fragment continues from where the last reading stopped. Safe from several
    threads: only the first to grow from a length extends the log, any other gets a copy.
    """

    __slots__ = ("_claim", "_fold", "_lock", "batches")

    def __init__(self, batches: list[Sequence[ToolCallChunk]]) -> None:
        self.batches = batches
        self._claim = count(len(batches)).__next__
        self._fold: _Fold | None = None
        self._lock = allocate_lock()

    @classmethod
    def of(cls, fragments: Iterable[Mapping[str, Any]]) -> CallLog:
        """A log of one batch: the fragments, each checked, with missing keys filled in."""
        return cls([[_checked_fragment(each) for each in fragments]])

    def grown(self, length: int, other: CallLog, other_length: int) -> CallLog:
        """A log whose first `length` batches are ours and whose next one holds the other's fragments."""
        batch = other.batches[0] if other_length == 1 else [one for b in other.batches[:other_length] for one in b]
        if self._claim() == length:
            self.batches.append(batch)
            return self
        return CallLog([*self.batches[:length], batch])

    def chunks(self, length: int) -> list[ToolCallChunk]:
        """One chunk per call in the order the calls began; a single batch is given back as it came."""
        if length == 1:
            return list(self.batches[0])
        with self._lock:
            fold = self._fold
            if fold is None or fold.done > length:
                fold = _Fold()
                if self._fold is None:
                    self._fold = fold
            take = fold.take
            for batch in self.batches[fold.done : length]:
                for fragment in batch:
                    take(fragment)
            fold.done = length
            return [call.chunk() for call in fold.calls]
