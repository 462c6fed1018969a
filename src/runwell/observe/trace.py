"""A trace in a local file, one JSON object a line."""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from typing import Any, Self

import orjson

from runwell.observe.context import RunContext
from runwell.observe.events import Custom, Decision, Event, Retried, RunEnded, RunFailed, RunStarted
from runwell.observe.llm_result import answer_of
from runwell.observe.written import Written, plain

__all__ = ["JsonlTrace"]

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
        lines: list[Line] = []
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
                    lines.append(_LINES[kind](event, shown))
                except Exception as error:  # of what redacts, or of what is to be written
                    failed.append(error)
            if lines and not self._file.closed:
                try:
                    written = b"".join(map(orjson.dumps, lines, _BY_PLAIN, _ENDING))
                except (TypeError, ValueError):  # something in one of them is more than JSON has
                    written = _one_by_one(lines, failed)
                self._file.write(written)
        if failed:
            raise failed[0] if len(failed) == 1 else ExceptionGroup("Lines of a trace could not be made.", failed)

    def _shown(self) -> Shown:
        """What gives content its form in a run and those inside it: it knows the messages that were written there."""
        tree, redact = Written().tree, self.redact
        if redact is None:
            return tree
        # a function of a user's is given a tree of its own, of nothing but what JSON has; what it gives may be anything
        return lambda value: Written().tree(redact(json.loads(_json(tree(value)))))

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


Line = dict[str, Any]

_MODELS = frozenset(("chat_model", "llm"))
_BY_PLAIN = repeat(plain)
_ENDING = repeat(orjson.OPT_APPEND_NEWLINE)


def _one_by_one(lines: list[Line], failed: list[Exception]) -> bytes:
    """The lines that can be written; of the others, why not is added to `failed`."""
    written = []
    for line in lines:
        try:
            written.append(_json(line) + b"\n")
        except Exception as error:  # of what is to be written
            failed.append(error)
    return b"".join(written)


def _json(value: Any) -> bytes:
    try:
        return orjson.dumps(value, plain)
    except (TypeError, ValueError):  # a number too large for it, a key that is no text, half a character
        return json.dumps(_with_text_for_keys(value), default=lambda each: _with_text_for_keys(plain(each))).encode()


def _with_text_for_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _with_text_for_keys(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_with_text_for_keys(each) for each in value]
    return value


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
        "seconds": int((event.time - run.started) * 1e6 + 0.5) / 1e6,  # to the microsecond
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


def _rare(event: Event, kind: str) -> Line:
    """How the lines begin that most runs do not have."""
    run = event.run
    above = None if run.parent is None else run.parent.id_text
    about = {"run_id": run.id_text, "parent_id": above, "name": run.name, "kind": run.kind}
    return {"event": kind, "time": event.time, **about}


def _failed(event: RunFailed, shown: Shown) -> Line:
    line = _rare(event, "error")
    line["seconds"] = round(event.time - event.run.started, 6)
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
