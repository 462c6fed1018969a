"""A trace in a local file, one JSON object a line."""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

from pydantic_core import SchemaSerializer, core_schema

from runwell.observe.context import RunContext
from runwell.observe.events import Custom, Decision, Event, Retried, RunEnded, RunFailed, RunStarted
from runwell.observe.llm_result import answer_of

__all__ = ["JsonlTrace", "plain"]

Redact = Callable[[Any], Any]
"""Given a value about to be written (an input, an output, an error's text), gives what is written instead."""

Shown = Callable[[Any], Any]
"""Gives content the form in which it is written."""


class JsonlTrace:
    """Writes what happens to `path`, appending: a line when a run starts and one when it ends, and each retry,
    decision and custom event between them. Tokens are counted, not written.

    `redact` has to be said: a function that every piece of content passes through, or None to write it as it is.
    Lines: `event` (start, end, error, retry, decision, custom), `time` (seconds since the epoch), `run_id`,
    `parent_id`, `name`, `kind`; at the end also `seconds`, `outputs` or `error`, and a model's `usage`. A message is
    written once in a run and the runs inside it; where a list has it again, `{"again": 97, "to": id}` stands for so
    many of them, up to the one with that id. So a trace grows with what is said, not with its square. A line is on the
    file before anything else is called or waited for, a model, a tool or code of yours: the trace of a process that was
    killed ends with what it was at. Those of an agent's own steps in between are written together. The file is readable
    by its owner only. Safe from several threads at once; of runs under way their messages are kept in memory.
    """

    raise_error = False
    wants_tokens = False
    wants_chunks = False

    def __init__(self, path: str | os.PathLike[str], *, redact: Redact | None) -> None:
        self.path = Path(path)
        self.redact = redact
        self._lock = threading.RLock()
        self._runs: dict[RunContext, Shown] = {}
        """The runs under way, with what gives content its form there."""
        self._heard: deque[Event] = deque()
        """What waits to be written, in order: that is also the order in which messages are first written."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._file = os.fdopen(descriptor, "ab", buffering=0)  # a line that was written stays written

    def handle(self, event: Event) -> None:
        """Write a line, and those that wait; or let it wait where another follows before anything else happens."""
        kind = type(event)
        if kind not in _LINES:
            return
        run = event.run
        self._heard.append(event)
        inside = run.parent if kind is RunEnded else run if kind is RunStarted or kind is Decision else None
        # another handler is told in between, and is anybody's code
        if inside is None or not inside.goes_on or len(run.handlers) > 1:
            self._write()

    def _write(self) -> None:
        """Write what was heard: in one go, as each call into the system takes about as long as making a line."""
        heard, runs = self._heard, self._runs
        lines: list[bytes] = []
        failed: list[Exception] = []
        with self._lock:
            while heard:
                event = heard.popleft()
                kind, run = type(event), event.run
                shown = runs.get(run)
                if shown is None:
                    above = run.parent
                    shown = (None if above is None else runs.get(above)) or self._shown()
                    if kind is RunStarted:
                        runs[run] = shown
                elif kind is RunEnded or kind is RunFailed:
                    del runs[run]
                try:
                    line = _LINES[kind](event, shown)
                    try:
                        lines.append(_to_json(line, fallback=plain))
                    except ValueError:
                        lines.append(_json(line))
                except Exception as error:  # of what redacts, or of what is to be written
                    failed.append(error)
            if lines and not self._file.closed:
                lines.append(b"")
                self._file.write(b"\n".join(lines))
        if failed:
            raise failed[0] if len(failed) == 1 else ExceptionGroup("Lines of a trace could not be made.", failed)

    def _shown(self) -> Shown:
        """What gives content its form in a run and those inside it: it knows the messages that were written there."""
        tree, redact = _Written().tree, self.redact
        # a function of a user's is given a tree of its own, of nothing but what JSON has
        return tree if redact is None else lambda value: redact(json.loads(_json(tree(value))))

    def close(self) -> None:
        """Close the file; later events are dropped."""
        with self._lock:
            try:
                self._write()
            finally:
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
def _fields_of(kind: Any) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]] | None:
    """The fields of a message of a class whose dump is these, and what reads them; None for any other class."""
    dump = getattr(kind, "model_dump", None)
    if getattr(dump, "__module__", "") != "runwell.messages.message":
        return None
    names = ("type", *kind._fields)
    return names, attrgetter(*(_MADE_LATE.get(name, name) for name in names))


_MADE_LATE = {"additional_kwargs": "_kwargs", "response_metadata": "_facts"}
"""Fields of messages that are made when they are first read: looking is not to make them."""
_NOTHING: dict[str, Any] = {}


class _Written:
    """The messages that were written in a run and the runs inside it: by id, and the longest list of them."""

    __slots__ = ("known", "longest")

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}
        self.longest: list[Any] = []

    def tree(self, value: Any) -> Any:
        """`value` in a form that JSON is quickly made of, and parts of which it shares.

        Messages become known; those of a list that are so stand there in short.
        """
        kind = type(value)
        if kind in _AS_IT_IS:
            return value
        if kind is dict:
            if not _TEXT.issuperset(map(type, value)):
                value = {str(key): each for key, each in value.items()}
            made: dict[str, Any] | None = None  # the dict itself where all in it can stand as it is
            for key, each in value.items():
                kind = type(each)
                if kind not in _AS_IT_IS:
                    shown = self._items(each) if kind is list else self.tree(each)
                    if shown is not each:
                        if made is None:
                            made = value.copy()
                        made[key] = shown
            return value if made is None else made
        if kind is list:
            return self._items(value)
        fields = _fields_of(kind)  # type: ignore[arg-type]
        if fields is not None:
            id_ = value.id
            if id_ is not None and self.known.setdefault(id_, value) is not value:
                self._know(id_, value)
            names, read = fields
            # as many as each other, which is not checked; its content, calls and facts are plain data
            shown = dict(zip(names, read(value)))  # noqa: B905
            for name in _MADE_LATE:
                if name in shown and shown[name] is None:
                    shown[name] = _NOTHING
            artifact = shown.get("artifact")
            if artifact is not None:
                shown["artifact"] = self.tree(artifact)
            return shown
        if isinstance(value, list | tuple):
            return self._items(value)
        if isinstance(value, str | int | float):
            return value
        if isinstance(value, dict):
            return self.tree(dict(value))
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

    def _items(self, values: Sequence[Any]) -> Sequence[Any]:
        known, longest = self.known, self.longest
        count, length, new = len(longest), len(values), values
        if length == 1:  # nearly always what a step gave, written when it was made
            id_ = getattr(values[0], "id", None)
            if type(id_) is str and known.get(id_) is values[0]:
                return [{"again": 1, "to": id_}]
        shown: list[Any] = []
        again, last, all_known = 0, "", True
        # Nearly always a list is the longest one so far and what is new. Equal messages may stand for each other.
        goes_on = 1 < count <= length and longest[0] is values[0]
        if goes_on and longest == (values if count == length else values[:count]):
            again, last = count, longest[-1].id
            if count == length:
                return [{"again": again, "to": last}]
            new = values[count:]
        elif _AS_IT_IS.issuperset(map(type, values)):
            return values
        else:
            goes_on = False
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
        if all_known and length > count:
            if goes_on and self.longest is longest:
                longest.extend(new)
            else:
                self.longest = list(values)
        return shown


Line = dict[str, Any]


def _started(event: RunStarted, shown: Shown) -> Line:
    run = event.run
    above = run.parent
    line = {
        "event": "start",
        "time": event.time,
        "run_id": run._text or run.id_text,
        "parent_id": None if above is None else above._text or above.id_text,
        "name": run.name,
        "kind": run.kind,
        "inputs": shown(event.inputs),
    }
    if run.tags:
        line["tags"] = run.tags
    if run.metadata:
        line["metadata"] = shown(run.metadata)
    return line


def _ended(event: RunEnded, shown: Shown) -> Line:
    run, outputs = event.run, event.outputs
    kind, above = run.kind, run.parent
    line = {
        "event": "end",
        "time": event.time,
        "run_id": run._text or run.id_text,
        "parent_id": None if above is None else above._text or above.id_text,
        "name": run.name,
        "kind": kind,
        "seconds": _seconds(event),
    }
    if kind in _MODELS:
        outputs = answer_of(outputs)
        usage = getattr(outputs, "usage_metadata", None)
        if usage:
            line["usage"] = usage
    line["outputs"] = shown(outputs)
    return line


def _decision(event: Decision, shown: Shown) -> Line:
    run = event.run
    above = run.parent
    return {
        "event": "decision",
        "time": event.time,
        "run_id": run._text or run.id_text,
        "parent_id": None if above is None else above._text or above.id_text,
        "name": run.name,
        "kind": run.kind,
        "seat": event.seat,
        "holder": event.holder,
        "outcome": shown(event.outcome),
        "reason": shown(event.reason),
    }


def _seconds(event: Event) -> float:
    """How long the run took, to the microsecond."""
    return int((event.time - event.run.started) * 1e6 + 0.5) / 1e6


def _rare(event: Event, kind: str) -> Line:
    """How the lines begin that most runs do not have."""
    run = event.run
    above = None if run.parent is None else run.parent.id_text
    about = {"run_id": run.id_text, "parent_id": above, "name": run.name, "kind": run.kind}
    return {"event": kind, "time": event.time, **about}


def _failed(event: RunFailed, shown: Shown) -> Line:
    line = _rare(event, "error")
    line["seconds"] = _seconds(event)
    line["error_type"] = type(event.error).__name__
    line["error"] = shown(str(event.error))
    return line


def _retried(event: Retried, shown: Shown) -> Line:
    error = shown(str(event.error))
    return {**_rare(event, "retry"), "attempt": event.attempt, "wait": event.wait, "error": error}


def _custom(event: Custom, shown: Shown) -> Line:
    return {**_rare(event, "custom"), "custom": event.name, "data": shown(event.data)}


_LINES: dict[type, Callable[[Any, Shown], Line]] = {
    Custom: _custom,
    Decision: _decision,
    Retried: _retried,
    RunEnded: _ended,
    RunFailed: _failed,
    RunStarted: _started,
}
"""What makes the line of an event."""
