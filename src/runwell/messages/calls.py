"""Tool calls: as finished values, as fragments of a stream, and how the ones are made of the others."""

from __future__ import annotations

import json
import os
from _thread import allocate_lock
from collections.abc import Iterable, Mapping
from json import encoder
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypeAlias, TypeVar, cast

from typing_extensions import TypedDict

from runwell.errors import InvalidInput

if TYPE_CHECKING:
    from runwell.messages.message import AIMessage

__all__ = [
    "MAX_DEPTH",
    "CallFold",
    "Fragment",
    "InvalidToolCall",
    "Several",
    "ToolCall",
    "ToolCallChunk",
    "calls_as_written",
    "checked_calls",
    "checked_fragment",
    "checked_invalid_calls",
    "chunks_in",
    "depth_of",
    "ensure_call_ids",
    "fragment_of",
    "fragments_in",
    "in_written_order",
    "invalid_tool_call",
    "json_text",
    "malformed_args",
    "parse_args",
    "parse_calls",
    "split_calls",
    "tool_call",
    "tool_call_chunk",
    "tool_call_place",
]


M = TypeVar("M", bound="AIMessage")


class ToolCall(TypedDict):
    """A call the model wants made: the tool's name, its arguments, and the id its result must carry."""

    name: str
    args: dict[str, Any]
    id: str | None
    type: NotRequired[Literal["tool_call"]]


class InvalidToolCall(TypedDict):
    """A call that cannot be made. `args` is the text as the model wrote it; `error` says what is wrong with it.

    `index` is its place among all calls of its message, where whole calls were written after it (see
    `calls_as_written`).
    """

    name: str | None
    args: str | None
    id: str | None
    error: str | None
    index: NotRequired[int | str]
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


def tool_call_place(call_id: str | None, index: int) -> dict[str, Any]:
    """A content block of a stream that says where a call stands which was told beside the content: by its id, so that
    what follows it in the content stays behind it."""
    return {"type": "tool_call_chunk", "id": call_id, "name": None, "args": "", "index": index}


def tool_call_chunk(
    *, name: str | None = None, args: str | None = None, id: str | None = None, index: int | str | None = None
) -> ToolCallChunk:
    """A `ToolCallChunk`. An index given as digits becomes a number."""
    return {"name": name, "args": args, "id": id, "index": _number(index), "type": "tool_call_chunk"}


def json_text(value: Any) -> str:
    """Compact JSON with every character as it is, never escaped. Raises `TypeError` for what JSON cannot hold."""
    if _encode is None:
        return json.dumps(value, ensure_ascii=False)
    try:
        return "".join(_encode(value, 0))
    except RecursionError:
        raise ValueError("Circular reference detected, or too deep") from None


def malformed_args(args: Any) -> str:
    """What a model wrote as arguments and that are none, as JSON that holds it: servers that read the arguments of a
    history refuse it otherwise, and with it the result that tells the model what was wrong."""
    return json_text({"malformed_arguments": args}) if args else "{}"


def _no_json(value: Any) -> Any:
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


# `json.dumps` makes an encoder for each call unless all its settings are the default: half the price of a call's text.
_make: Any = getattr(encoder, "c_make_encoder", None)
_encode: Any = _make and _make(None, _no_json, encoder.encode_basestring, None, ": ", ", ", False, False, True)


def parse_args(text: str | None) -> dict[str, Any]:
    """The arguments in `text`; no text at all means no arguments. Raises `ValueError` saying what is wrong.

    Raw line breaks inside strings are accepted (models write them and they have one meaning); anything
    else that is not JSON is not repaired.
    """
    if not text or not text.strip():
        return {}
    args = _DECODER.decode(text)
    if text.count("[") + text.count("{") > MAX_DEPTH and depth_of(args) > MAX_DEPTH:
        raise ValueError(f"nested more than {MAX_DEPTH} deep")
    if type(args) is not dict:
        raise ValueError(f"expected a JSON object, got {json_type(args)}")
    return args


MAX_DEPTH = 200
"""Of arguments. What is deeper can be checked and saved by nothing that comes after; no tool means it."""


def depth_of(value: Any) -> int:
    """How many objects and arrays of a parsed value are inside each other."""
    depth, level = 0, [value]
    while level:
        level = [each for each in level if isinstance(each, (dict, list))]
        depth += bool(level)
        level = [part for each in level for part in (each.values() if isinstance(each, dict) else each)]
    return depth


def json_type(value: Any) -> str:
    """What JSON calls the type of a parsed value."""
    names = {str: "a string", bool: "a boolean", int: "a number", float: "a number", list: "an array"}
    return names.get(type(value), "null" if value is None else "an object")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text:.20} is too large a number")
    return number


_DECODER = json.JSONDecoder(strict=False, parse_constant=_no_constant, parse_float=_finite)


def parse_calls(fragments: Iterable[ToolCallChunk]) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    """Whole calls and broken ones, each in the order of `fragments`. Broken: no name, or `args` no JSON object."""
    calls: list[ToolCall] = []
    broken: list[InvalidToolCall] = []
    before: list[int] = []  # the whole calls before each broken one
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
        before.append(len(calls))
    _mark_places(broken, before, len(calls))
    return calls, broken


def _mark_places(broken: list[Any], before: list[int], whole: int) -> None:
    """Note of each broken call where it was written, unless that is after all `whole` ones."""
    for place, count in enumerate(before):
        if count < whole:
            broken[place]["index"] = count + place


def split_calls(written: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """The whole and the broken ones of calls in the order written; `calls_as_written` puts them together again."""
    calls: list[Any] = []
    broken: list[Any] = []
    before: list[int] = []
    for call in written:
        if call.get("type") == "invalid_tool_call":
            broken.append({key: value for key, value in call.items() if key != "index"})
            before.append(len(calls))
        else:
            calls.append(call)
    _mark_places(broken, before, len(calls))
    return calls, broken


def calls_as_written(message: AIMessage) -> list[Any]:
    """The calls of a message, whole and broken, in the order in which the model wrote them."""
    broken = message.invalid_tool_calls
    if not broken:
        return message.tool_calls
    return in_written_order(message.tool_calls, broken)


def in_written_order(whole: Iterable[Any], broken: Iterable[Any]) -> list[Any]:
    """The two as one list: a broken call that tells its `index` stands there, others at the end."""
    written = [*whole]
    for call in broken:
        place = call.get("index")
        written.insert(place if type(place) is int and 0 <= place < len(written) else len(written), call)
    return written


def checked_calls(calls: Iterable[Mapping[str, Any]]) -> list[ToolCall]:
    """A new list of the calls with `id` and `type` filled in. Raises `InvalidInput` for what is no call."""
    return list(map(_checked_call, calls))


def _checked_call(call: Mapping[str, Any]) -> ToolCall:
    try:
        name, args = call["name"], call["args"]
    except (KeyError, TypeError):
        name = args = None
    if type(name) is not str or not isinstance(args, dict):
        raise InvalidInput(
            f"A tool call needs a 'name' (text) and 'args' (a dict), got {call!r:.200}.",
            hint="tool_call(name=..., args={...}, id=...) builds one; arguments that are still JSON text belong in "
            "invalid_tool_calls or tool_call_chunks.",
        )
    if call.get("type") == "tool_call" and "id" in call:
        return call  # type: ignore[return-value]  # `cast` is a call too
    if call.get("type", "tool_call") != "tool_call":
        raise InvalidInput(
            f"A tool call of type {call['type']!r:.200}: expected 'tool_call' or none. Got {call!r:.200}."
        )
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
                f"The arguments of call {call.get('name')!r:.200} cannot be written as JSON: {error}."
            ) from error
    return tool_call_chunk(name=call.get("name"), args=args, id=call.get("id"), index=call.get("index"))


def _number(index: Any) -> Any:
    return int(index) if type(index) is str and index.isascii() and index.isdigit() else index


def checked_fragment(fragment: Mapping[str, Any]) -> Fragment:
    """A `ToolCallChunk`, as a dict in which keys may be missing. Raises `InvalidInput` for what is none."""
    try:
        get = fragment.get
        args = get("args")
        if args is not None and type(args) is not str:
            raise InvalidInput(
                f"A tool-call chunk carries a piece of JSON text in 'args', got {args!r:.200}.",
                hint="A whole call with parsed arguments belongs in tool_calls.",
            )
        index = get("index")
        return (_number(index) if type(index) is str else index, get("id"), get("name"), args)
    except AttributeError:
        raise InvalidInput(
            f"A tool-call chunk is a dict with name, args, id and index, got {fragment!r:.200}."
        ) from None


def ensure_call_ids(message: M) -> M:
    """The model's reply with an id on every call, whole or broken; as it is when nothing is missing.

    A second call under the same id gets one of its own, as results are matched by id. Blocks of the content that show
    a call are changed alike.
    """
    calls = calls_as_written(message)
    if not calls or (len(calls) == 1 and calls[0]["id"]):
        return message
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

    whole, broken = split_calls([named(call) for call in calls])
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


Fragment: TypeAlias = "tuple[int | str | None, str | None, str | None, str | None]"
"""A `ToolCallChunk` as (index, id, name, args): quick to take apart."""


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
        return chunk_of((self.index, self.call_id, self.name, pieces[0] if pieces else None))


def chunk_of(fragment: Fragment) -> ToolCallChunk:
    """The fragment as it is shown."""
    index, call_id, name, args = fragment
    return {"name": name, "args": args, "id": call_id, "index": index, "type": "tool_call_chunk"}


def chunks_in(entry: Any) -> list[ToolCallChunk]:
    """The fragments in what one chunk says, as they were given."""
    return [chunk_of(fragment) for fragment in fragments_in(entry)]


def fragments_in(entry: Any) -> tuple[Fragment, ...]:
    """The fragments in what one chunk says."""
    return (entry,) if type(entry) is tuple else entry[1:] if type(entry) is Several else ()


class Several(tuple[Any, ...]):
    """What one chunk says in an entry of a `ChunkLog` when that is neither a content alone nor one fragment: the
    content, then fragments."""

    __slots__ = ()


class CallFold:
    """The calls that the fragments in a `ChunkLog` amount to, worked out when asked and shared by the sums over it.

    An index names its call. Without one an id does; without either a fragment that has a name starts a call, and
    any other continues the call touched last. A provider that gives several calls the same index, each with an id and a
    name of its own, gets several calls. Asked after every fragment, it goes on from where the last answer stopped.
    Safe from several threads.
    """

    __slots__ = ("_by_id", "_by_index", "_calls", "_done", "_last", "_lock", "_only", "_parsed", "_silent")

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._parsed: tuple[int, list[ToolCall], list[InvalidToolCall]] | None = None
        self._restart()

    def _restart(self) -> None:
        self._calls: list[_Growing] = []
        self._by_id: dict[str, _Growing] = {}
        self._by_index: dict[Any, _Growing] = {}
        self._last: _Growing | None = None
        self._done = 0
        self._silent = 0  # of the entries done, those without a call
        self._only: tuple[Any, ...] | None = None  # the last entry with one

    def chunks(self, entries: list[Any], length: int) -> list[ToolCallChunk]:
        """One chunk per call of the first `length` entries, in the order the calls began."""
        with self._lock:
            if self._done > length:  # an earlier sum is read after a later one
                self._restart()
            self._take(entries[self._done : length])
            if self._done - self._silent == 1 and self._only is not None:
                return chunks_in(self._only)  # the fragments of one chunk alone stay as they were given
            return [call.chunk() for call in self._calls]

    def parsed(self, entries: list[Any], length: int) -> tuple[list[ToolCall], list[InvalidToolCall]]:
        """The whole and the broken calls of the first `length` entries."""
        known = self._parsed
        if known is None or known[0] != length:
            known = self._parsed = (length, *parse_calls(self.chunks(entries, length)))
        return known[1:]

    def _take(self, entries: list[Any]) -> None:
        last = self._last
        at, add = (last.index, last.pieces.append) if last is not None else (None, None)
        silent = 0
        for entry in entries:
            if type(entry) is not tuple:
                if type(entry) is Several and len(entry) > 1:
                    self._only = entry
                    for fragment in entry[1:]:
                        self._take_one(*fragment)
                    last = self._last
                    at, add = (last.index, last.pieces.append) if last is not None else (None, None)
                else:
                    silent += 1
                continue
            index, call_id, name, args = entry
            # all fragments of a call but the first go on from it
            if call_id or name or add is None or (index != at and index is not None):
                self._only = entry
                last = self._last = self._place(index, call_id, name)
                at, add = last.index, last.pieces.append
            if args is not None:
                add(args)
        self._silent += silent
        self._done += len(entries)

    def _take_one(self, index: Any, call_id: str | None, name: str | None, args: str | None) -> None:
        self._last = self._place(index, call_id, name)
        if args is not None:
            self._last.pieces.append(args)

    def _place(self, index: Any, call_id: str | None, name: str | None) -> _Growing:
        """The call that a fragment belongs to, told what the fragment says of it."""
        call = self._find(index, call_id, name)
        if call is None:
            call = _Growing(index, call_id or None, name or None)
            self._calls.append(call)
        elif name and name != call.name:
            call.name = name if call.name is None else call.name + name
        if call_id and call.call_id is None:
            call.call_id = call_id
        if call.index is None:
            call.index = index
        if call_id:
            self._by_id[call_id] = call
        if index is not None:
            self._by_index[index] = call
        return call

    def _find(self, index: Any, call_id: str | None, name: str | None) -> _Growing | None:
        if index is not None:
            call = self._by_index.get(index)
            if call is None:
                # a stream whose first fragment had the id only
                call = self._by_id.get(call_id) if call_id else None
                return call if call is not None and call.index is None else None
            if call_id and name and call.call_id and call_id != call.call_id:
                return self._by_id.get(call_id)
            return call
        last = self._last
        if call_id:
            call = self._by_id.get(call_id)
            if call is None and last is not None and last.call_id is None and not name:
                return last
            return call
        if name and last is not None and last.name:
            return None
        return last
