"""A trace in a local file, one JSON object a line."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic_core import to_json

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
    many of them, up to the one with that id. So a trace grows with what is said, not with its square. The file is
    readable by its owner only. Safe from several threads at once; of runs under way their messages are kept in memory.
    """

    raise_error = False
    wants_tokens = False
    wants_chunks = False

    def __init__(self, path: str | os.PathLike[str], *, redact: Redact | None) -> None:
        self.path = Path(path)
        self.redact = redact
        self._lock = threading.RLock()
        self._written: dict[Any, dict[str, Any]] = {}
        """The messages that were written, by id, for each run under way; a run has them in common with those inside."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._file = os.fdopen(descriptor, "ab", buffering=0)  # a line that was written stays written

    def handle(self, event: Event) -> None:
        """Write a line."""
        describe = _LINES.get(type(event))
        if describe is None:
            return
        run = event.run
        with self._lock:  # the order of lines is the order in which messages are first written
            if self._file.closed:
                return
            written = self._written_in(event)
            line = {
                "event": "",
                "time": round(event.time, 6),
                "run_id": str(run.run_id),
                "parent_id": str(run.parent_id) if run.parent_id is not None else None,
                "name": run.name,
                "kind": run.kind,
                **describe(event, lambda value: self._content(value, written)),
            }
            self._file.write(_json(line) + b"\n")

    def _written_in(self, event: Event) -> dict[str, Any]:
        run = event.run
        written = self._written.get(run.run_id)
        if written is None:
            written = self._written.get(run.parent_id, {})
            if isinstance(event, RunStarted):
                self._written[run.run_id] = written
        if isinstance(event, RunEnded | RunFailed):
            self._written.pop(run.run_id, None)
        return written

    def _content(self, value: Any, written: dict[str, Any]) -> Any:
        tree = plain_tree(value, written)
        return self.redact(tree) if self.redact is not None else tree

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


def plain_tree(value: Any, written: dict[str, Any]) -> Any:
    """`value` made of nothing but dicts, lists, strings, numbers, booleans and None.

    Messages go into `written`; those of a list that are in it stand there in short.
    """
    kind = type(value)
    if kind in _AS_IT_IS or isinstance(value, str | int | float):
        return value
    if isinstance(value, dict):
        return {str(key): plain_tree(each, written) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return _items(value, written)
    shown = plain(value)
    if isinstance(shown, str):
        return shown
    id_ = getattr(value, "id", None)
    if type(id_) is str and hasattr(value, "content"):
        written[id_] = value
    return plain_tree(shown, written)


def _items(values: Sequence[Any], written: dict[str, Any]) -> list[Any]:
    shown: list[Any] = []
    again, last = 0, ""
    for value in values:
        id_ = None if type(value) in _AS_IT_IS else getattr(value, "id", None)
        if type(id_) is str and written.get(id_) is value:
            again, last = again + 1, id_
            continue
        if again:
            shown.append({"again": again, "to": last})
            again = 0
        shown.append(plain_tree(value, written))
    if again:
        shown.append({"again": again, "to": last})
    return shown


def _started(event: RunStarted, content: Redact) -> dict[str, Any]:
    run = event.run
    line: dict[str, Any] = {"event": "start", "inputs": content(event.inputs)}
    if run.tags:
        line["tags"] = list(run.tags)
    if run.metadata:
        line["metadata"] = content(run.metadata)
    return line


def _ended(event: RunEnded, content: Redact) -> dict[str, Any]:
    run, outputs = event.run, event.outputs
    line: dict[str, Any] = {"event": "end", "seconds": round(event.time - run.started, 6)}
    if run.kind in ("chat_model", "llm"):
        outputs = answer_of(outputs)
        usage = getattr(outputs, "usage_metadata", None)
        if usage:
            line["usage"] = dict(usage)
    line["outputs"] = content(outputs)
    return line


def _failed(event: RunFailed, content: Redact) -> dict[str, Any]:
    error = event.error
    return {
        "event": "error",
        "seconds": round(event.time - event.run.started, 6),
        "error_type": type(error).__name__,
        "error": content(str(error)),
    }


def _retried(event: Retried, content: Redact) -> dict[str, Any]:
    return {"event": "retry", "attempt": event.attempt, "wait": event.wait, "error": content(str(event.error))}


def _custom(event: Custom, content: Redact) -> dict[str, Any]:
    return {"event": "custom", "custom": event.name, "data": content(event.data)}


def _decision(event: Decision, content: Redact) -> dict[str, Any]:
    return {
        "event": "decision",
        "seat": event.seat,
        "outcome": content(event.outcome),
        "reason": content(event.reason),
        "holder": event.holder,
    }


_LINES: dict[type, Callable[[Any, Redact], dict[str, Any]]] = {
    Custom: _custom,
    Decision: _decision,
    Retried: _retried,
    RunEnded: _ended,
    RunFailed: _failed,
    RunStarted: _started,
}
