"""A trace in a local file, one JSON object a line."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any, Self, cast

from pydantic_core import SchemaSerializer, core_schema

from runwell.observe.context import RunContext
from runwell.observe.events import Custom, Decision, Event, Retried, RunEnded, RunFailed, RunStarted
from runwell.observe.llm_result import answer_of

__all__ = ["JsonlTrace", "plain"]

Redact = Callable[[Any], Any]
"""Given a value about to be written (an input, an output, an error's text), gives what is written instead."""


class JsonlTrace:
    """Writes what happens to `path`, appending: a line when a run starts and one when it ends, and each retry,
    decision and custom event between them. Tokens are counted, not written.

    `redact` has to be said: a function that every piece of content passes through, or None to write it as it is.
    Lines: `event` (start, end, error, retry, decision, custom), `time` (seconds since the epoch), `run_id`,
    `parent_id`, `name`, `kind`; at the end also `seconds`, `outputs` or `error`, and a model's `usage`. A message is
    written once in a run and the runs inside it; where a list has it again, `{"again": 97, "to": id}` stands for so
    many of them, up to the one with that id. So a trace grows with what is said, not with its square. A line is on the
    file before the run goes on: that of a process that was killed ends with what it was at. The file is readable by its
    owner only. Safe from several threads at once; of runs under way their messages are kept in memory.
    """

    raise_error = False
    wants_tokens = False
    wants_chunks = False

    def __init__(self, path: str | os.PathLike[str], *, redact: Redact | None) -> None:
        self.path = Path(path)
        self.redact = redact
        self._lock = threading.RLock()
        self._runs: dict[RunContext, _Told] = {}
        """What was told of each run under way."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._file = os.fdopen(descriptor, "ab", buffering=0)  # a line that was written stays written

    def handle(self, event: Event) -> None:
        """Write a line."""
        line = _LINES.get(type(event))
        if line is None:
            return
        begin, rest, place = line
        with self._lock:  # the order of lines is the order in which messages are first written
            if self._file.closed:
                return
            told = self._runs.get(event.run)
            if told is None:
                told = self._meet(event.run, place)
            elif place is _LAST:
                del self._runs[event.run]
            self._file.write(b"".join((begin, _to_json(event.time), told.head, *rest(event, told), b"}\n")))

    def _meet(self, run: RunContext, place: object) -> _Told:
        parent = run.parent
        around = None if parent is None else self._runs.get(parent)
        told = _Told(run, around, self.redact)
        if place is _FIRST:
            self._runs[run] = told
        return told

    def close(self) -> None:
        """Close the file; later events are dropped."""
        with self._lock:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


_to_json = SchemaSerializer(core_schema.any_schema(), core_schema.CoreConfig(ser_json_inf_nan="constants")).to_json
"""`pydantic_core.to_json`, which puts a serializer together for each call."""


def _json(value: Any) -> bytes:
    try:
        return _to_json(value, fallback=plain)
    except ValueError:  # half a character: it has no UTF-8, and stands as an escape
        return json.dumps(value, default=plain).encode()


def plain(value: Any) -> Any:
    """A value that JSON has no form for, as one that it has: a model's or message's dump, else its `repr`."""
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump()
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return repr(value)


_AS_IT_IS = frozenset((type(None), str, int, float, bool))
_PLAIN = _AS_IT_IS | {dict, list}
_TEXT = frozenset((str,))
_MODELS = frozenset(("chat_model", "llm"))


@lru_cache(maxsize=256)  # the classes of messages are few
def _reader_of(kind: Any) -> Callable[[Any], dict[str, Any]] | None:
    """What reads the fields of a message of a class whose dump is these and its type; None for any other class."""
    dump = getattr(kind, "model_dump", None)
    if getattr(dump, "__module__", "") != "runwell.messages.message":
        return None
    names, read = ("type", *kind._fields), attrgetter("type", *kind._fields)
    return lambda message: dict(zip(names, read(message), strict=True))


@lru_cache(maxsize=1024)  # so are the components of a program
def _of_component(name: str, kind: str) -> bytes:
    return b"," + _json({"name": name, "kind": kind})[1:-1] + b","


def _text_of(run_id: Any) -> bytes:
    """`str(run_id)`, in half the time."""
    digits = f"{run_id.int:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}".encode()


class _Told:
    """What every line about a run says, as JSON, and what writes content: it knows the messages that were written in
    the run and the runs around it."""

    __slots__ = ("content", "head", "id")

    def __init__(self, run: RunContext, around: _Told | None, redact: Redact | None) -> None:
        self.content: Callable[[Any], bytes]
        self.id = b'"%b"' % _text_of(run.run_id)
        if around is not None:
            parent = around.id
            self.content = around.content
        else:
            parent = b"null" if run.parent_id is None else b'"%b"' % _text_of(run.parent_id)
            written = _Written()
            # a function of a user's is given a tree of its own, of nothing but what JSON has
            self.content = (
                written.json if redact is None else lambda value: _json(redact(json.loads(written.json(value))))
            )
        of_component = _of_component(run.name, run.kind)
        self.head = b"".join((b',"run_id":', self.id, b',"parent_id":', parent, of_component))


class _Written:
    """The messages that were written in a run and the runs inside it: by id, and the longest list of them."""

    __slots__ = ("known", "longest")

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}
        self.longest: list[Any] = []

    def json(self, value: Any) -> bytes:
        """The value as JSON."""
        return _json(value if type(value) in _AS_IT_IS else self.tree(value))

    def tree(self, value: Any) -> Any:
        """`value` in a form that JSON is quickly made of, and parts of which it shares.

        Messages become known; those of a list that are so stand there in short.
        """
        kind = type(value)
        if kind in _AS_IT_IS:
            return value
        if kind is dict:
            if _AS_IT_IS.issuperset(map(type, value.values())) and _TEXT.issuperset(map(type, value)):
                return value
            made: dict[str, Any] = {}
            for key, each in value.items():
                made[str(key)] = each if type(each) in _AS_IT_IS else self.tree(each)
            return made
        if kind is list:
            return self._items(value) if value else value
        read = _reader_of(cast("Any", kind))
        if read is not None:
            if value.id is not None:
                self._know(value.id, value)
            shown = read(value)  # its content, calls and facts are plain data
            artifact = shown.get("artifact")
            if artifact is not None:
                shown["artifact"] = self.tree(artifact)
            return shown
        if isinstance(value, list | tuple):
            return self._items(value) if value else []
        if isinstance(value, str | int | float):
            return value
        if isinstance(value, dict):
            return {str(key): self.tree(each) for key, each in value.items()}
        dumped = plain(value)
        if isinstance(dumped, str):
            return dumped
        id_ = getattr(value, "id", None)
        if type(id_) is str and hasattr(value, "content"):
            self._know(id_, value)
        return self.tree(dumped)

    def _know(self, id_: str, message: Any) -> None:
        if self.known.setdefault(id_, message) is not message:
            self.known[id_] = message
            self.longest = []  # what is in it may be another message by now

    def _items(self, values: Sequence[Any]) -> list[Any]:
        known, longest = self.known, self.longest
        count, new = len(longest), values
        shown: list[Any] = []
        again, last, all_known = 0, "", True
        # Nearly always a list is the longest one so far and what is new. Equal messages may stand for each other.
        if 1 < count <= len(values) and longest[0] is values[0] and longest == values[:count]:
            again, last = count, longest[-1].id
            new = values[count:]
        for value in new:
            id_ = None if type(value) in _PLAIN else getattr(value, "id", None)
            if type(id_) is str and known.get(id_) is value:
                again, last = again + 1, id_
                continue
            if again:
                shown.append({"again": again, "to": last})
                again = 0
            shown.append(self.tree(value))
            all_known = all_known and type(id_) is str and known.get(id_) is value
        if again:
            shown.append({"again": again, "to": last})
        if all_known and len(values) > count:
            self.longest = list(values)
        return shown


Pieces = tuple[bytes, ...]


def _started(event: RunStarted, told: _Told) -> Pieces:
    run = event.run
    said: Pieces = (b'"inputs":', told.content(event.inputs))
    if run.tags:
        said += b',"tags":', _json(list(run.tags))
    if run.metadata:
        said += b',"metadata":', told.content(run.metadata)
    return said


def _seconds(event: Event) -> bytes:
    """How long the run took, to the microsecond."""
    return _to_json(int((event.time - event.run.started) * 1e6 + 0.5) / 1e6)


def _ended(event: RunEnded, told: _Told) -> Pieces:
    run, outputs = event.run, event.outputs
    if run.kind in _MODELS:
        outputs = answer_of(outputs)
        usage = getattr(outputs, "usage_metadata", None)
        if usage:
            return b'"seconds":', _seconds(event), b',"usage":', _json(usage), b',"outputs":', told.content(outputs)
    return b'"seconds":', _seconds(event), b',"outputs":', told.content(outputs)


def _failed(event: RunFailed, told: _Told) -> Pieces:
    kind, text = _json(type(event.error).__name__), told.content(str(event.error))
    return b'"seconds":', _seconds(event), b',"error_type":', kind, b',"error":', text


def _retried(event: Retried, told: _Told) -> Pieces:
    error = told.content(str(event.error))
    return b'"attempt":', _json(event.attempt), b',"wait":', _json(event.wait), b',"error":', error


def _custom(event: Custom, told: _Told) -> Pieces:
    return b'"custom":', _json(event.name), b',"data":', told.content(event.data)


def _decision(event: Decision, told: _Told) -> Pieces:
    about = _of_decision(event.seat, event.holder)
    return about, b',"outcome":', told.content(event.outcome), b',"reason":', told.content(event.reason)


@lru_cache(maxsize=1024)
def _of_decision(seat: str, holder: str) -> bytes:
    return _json({"seat": seat, "holder": holder})[1:-1]


_FIRST, _BETWEEN, _LAST = object(), object(), object()
_LINES: dict[type, tuple[bytes, Callable[[Any, _Told], Pieces], object]] = {
    Custom: (b'{"event":"custom","time":', _custom, _BETWEEN),
    Decision: (b'{"event":"decision","time":', _decision, _BETWEEN),
    Retried: (b'{"event":"retry","time":', _retried, _BETWEEN),
    RunEnded: (b'{"event":"end","time":', _ended, _LAST),
    RunFailed: (b'{"event":"error","time":', _failed, _LAST),
    RunStarted: (b'{"event":"start","time":', _started, _FIRST),
}
"""How a line begins, what gives the rest of it, and its place among those of its run."""
