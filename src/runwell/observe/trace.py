"""A trace in a local file, one JSON object a line."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TextIO

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
    `parent_id`, `name`, `kind`; at the end also `seconds`, `outputs` or `error`, and a model's `usage`. The file is
    readable by its owner only. Safe from several threads at once; nothing is kept in memory.
    """

    raise_error = False
    wants_tokens = False
    wants_chunks = False

    def __init__(self, path: str | os.PathLike[str], *, redact: Redact | None) -> None:
        self.path = Path(path)
        self.redact = redact
        self._lock = threading.Lock()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._file: TextIO = os.fdopen(descriptor, "a", encoding="utf-8")

    def handle(self, event: Event) -> None:
        """Write a line."""
        describe = _LINES.get(type(event))
        if describe is None:
            return
        run = event.run
        line = {
            "event": "",
            "time": round(event.time, 6),
            "run_id": str(run.run_id),
            "parent_id": str(run.parent_id) if run.parent_id is not None else None,
            "name": run.name,
            "kind": run.kind,
            **describe(event, self._content),
        }
        text = json.dumps(line, ensure_ascii=False, default=plain)
        with self._lock:
            if not self._file.closed:
                self._file.write(text + "\n")
                self._file.flush()

    def _content(self, value: Any) -> Any:
        return self.redact(plain_tree(value)) if self.redact is not None else plain_tree(value)

    def close(self) -> None:
        """Close the file; later events are dropped."""
        with self._lock:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def plain(value: Any) -> Any:
    """A value that JSON has no form for, as one that it has: a model's or message's dump, else its `repr`."""
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump()
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return repr(value)


def plain_tree(value: Any) -> Any:
    """`value` made of nothing but dicts, lists, strings, numbers, booleans and None."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, dict):
        return {str(key): plain_tree(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain_tree(each) for each in value]
    shown = plain(value)
    return shown if isinstance(shown, str) else plain_tree(shown)


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
