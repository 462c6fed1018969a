"""A trace in a local file, one JSON object a line."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import islice
from operator import attrgetter, is_
from pathlib import Path
from typing import Any, Self, cast

from pydantic_core import to_json

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
        name, describe, ends = line
        run, runs = event.run, self._runs
        with self._lock:  # the order of lines is the order in which messages are first written
            if self._file.closed:
                return
            told = runs.get(run)
            if told is None:
                told = _Told(run, runs.get(run.parent) if run.parent is not None else None, self.redact)
                if describe is _started:
                    runs[run] = told
            elif ends:
                del runs[run]
            rest: dict[str, Any] = {}
            describe(event, rest, told)
            time = divmod(int(event.time * 1e6), 1_000_000)  # whole numbers are quicker to write than a rounded float
            self._file.write(b'{"event":"%b","time":%d.%06d,%b,%b\n' % (name, *time, told.head, _json(rest)[1:]))

    def close(self) -> None:
        """Close the file; later events are dropped."""
        with self._lock:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _json(line: dict[str, Any]) -> bytes:
    try:
        return to_json(line, inf_nan_mode="constants", fallback=plain)
    except ValueError:  # half a character: it has no UTF-8, and stands as an escape
        return json.dumps(line, default=plain).encode()


def plain(value: Any) -> Any:
    """A value that JSON has no form for, as one that it has: a model's or message's dump, else its `repr`."""
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump()
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return repr(value)


_AS_IT_IS = frozenset((type(None), str, int, float, bool))
_CONTAINERS = frozenset((dict, list))
_PLAIN = _AS_IT_IS | _CONTAINERS
_TEXT = frozenset((str,))


@lru_cache(maxsize=256)  # the classes of messages are few
def _reader_of(kind: Any) -> Callable[[Any], dict[str, Any]] | None:
    """What reads the fields of a message of a class whose dump is these and its type; None for any other class."""
    dump = getattr(kind, "model_dump", None)
    if getattr(dump, "__module__", "") != "runwell.messages.message":
        return None
    names, read = ("type", *kind._fields), attrgetter("type", *kind._fields)
    return lambda message: dict(zip(names, read(message), strict=True))


class _Told:
    """What every line about a run says, as JSON, and the messages that were written in it and the runs around it."""

    __slots__ = ("head", "redact", "run_id", "written")

    def __init__(self, run: RunContext, around: _Told | None, redact: Redact | None) -> None:
        self.run_id = str(run.run_id)
        if around is not None:
            parent: str | None = around.run_id
        else:
            parent = None if run.parent_id is None else str(run.parent_id)
        about = {"run_id": self.run_id, "parent_id": parent, "name": run.name, "kind": run.kind}
        self.head = _json(about)[1:-1]
        self.written: _Written = _Written() if around is None else around.written
        self.redact = redact

    def content(self, value: Any) -> Any:
        """A value as it is written."""
        tree = self.written.tree(value)
        return self.redact(tree) if self.redact is not None else tree


class _Written:
    """The messages that were written in a run and the runs inside it: by id, and the longest list of them."""

    __slots__ = ("known", "longest")

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}
        self.longest: list[Any] = []

    def tree(self, value: Any) -> Any:
        """`value` made of nothing but dicts, lists, strings, numbers, booleans and None, none of them shared.

        Messages become known; those of a list that are so stand there in short.
        """
        kind = type(value)
        if kind in _AS_IT_IS:
            return value
        if kind is dict:
            if not value:
                return {}
            if _AS_IT_IS.issuperset(map(type, value.values())) and _TEXT.issuperset(map(type, value)):
                return value.copy()
            tree = self.tree
            return {str(key): each if type(each) in _AS_IT_IS else tree(each) for key, each in value.items()}
        if kind is list:
            return self._items(value) if value else []
        read = _reader_of(cast("Any", kind))
        if read is not None:
            return self._message(value, read(value))
        if isinstance(value, list | tuple):
            return self._items(value) if value else []
        if isinstance(value, str | int | float):
            return value
        if isinstance(value, dict):
            return {str(key): self.tree(each) for key, each in value.items()}
        shown = plain(value)
        if isinstance(shown, str):
            return shown
        id_ = getattr(value, "id", None)
        if type(id_) is str and hasattr(value, "content"):
            self._know(id_, value)
        return self.tree(shown)

    def _message(self, message: Any, shown: dict[str, Any]) -> dict[str, Any]:
        if message.id is not None:
            self._know(message.id, message)
        for name, value in shown.items():
            kind = type(value)
            if kind in _AS_IT_IS:
                continue
            shown[name] = kind() if kind in _CONTAINERS and not value else self.tree(value)
        return shown

    def _know(self, id_: str, message: Any) -> None:
        if self.known.setdefault(id_, message) is not message:
            self.known[id_] = message
            self.longest = []  # what is in it may be another message by now

    def _items(self, values: Sequence[Any]) -> list[Any]:
        shown: list[Any] = []
        again, last, known, longest = 0, "", self.known, self.longest
        rest: Iterable[Any] = values
        all_known = True
        if 1 < len(longest) <= len(values) and longest[0] is values[0] and all(map(is_, longest, values)):
            again, last = len(longest), longest[-1].id
            rest = islice(values, again, None)
        for value in rest:
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
        if all_known and len(values) > len(longest):
            self.longest = list(values)
        return shown


def _started(event: RunStarted, line: dict[str, Any], told: _Told) -> None:
    run = event.run
    line["inputs"] = told.content(event.inputs)
    if run.tags:
        line["tags"] = list(run.tags)
    if run.metadata:
        line["metadata"] = told.content(run.metadata)


def _seconds(event: Event) -> float:
    """How long the run took, to the microsecond."""
    return int((event.time - event.run.started) * 1e6 + 0.5) / 1e6


def _ended(event: RunEnded, line: dict[str, Any], told: _Told) -> None:
    run, outputs = event.run, event.outputs
    line["seconds"] = _seconds(event)
    if run.kind in ("chat_model", "llm"):
        outputs = answer_of(outputs)
        usage = getattr(outputs, "usage_metadata", None)
        if usage:
            line["usage"] = dict(usage)
    line["outputs"] = told.content(outputs)


def _failed(event: RunFailed, line: dict[str, Any], told: _Told) -> None:
    error = event.error
    line["seconds"] = _seconds(event)
    line["error_type"] = type(error).__name__
    line["error"] = told.content(str(error))


def _retried(event: Retried, line: dict[str, Any], told: _Told) -> None:
    line.update(attempt=event.attempt, wait=event.wait, error=told.content(str(event.error)))


def _custom(event: Custom, line: dict[str, Any], told: _Told) -> None:
    line.update(custom=event.name, data=told.content(event.data))


def _decision(event: Decision, line: dict[str, Any], told: _Told) -> None:
    line["seat"] = event.seat
    line["outcome"] = told.content(event.outcome)
    line["reason"] = told.content(event.reason)
    line["holder"] = event.holder


_LINES: dict[type, tuple[bytes, Callable[[Any, dict[str, Any], _Told], None], bool]] = {
    Custom: (b"custom", _custom, False),
    Decision: (b"decision", _decision, False),
    Retried: (b"retry", _retried, False),
    RunEnded: (b"end", _ended, True),
    RunFailed: (b"error", _failed, True),
    RunStarted: (b"start", _started, False),
}
"""A line's name, what fills it, and whether it is its run's last."""
