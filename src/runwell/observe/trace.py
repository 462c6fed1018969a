"""A trace in a local file, one JSON object a line."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any, Self

from runwell.observe import events
from runwell.observe.context import MODEL_KINDS, RunContext
from runwell.observe.lines import Custom, Decided, Ended, Failed, Line, Retried, Started, as_json, encode_lines
from runwell.observe.llm_result import answer_of
from runwell.observe.recorder import Recorder
from runwell.observe.written import Apart, Form, Written, form_of

__all__ = ["JsonlTrace"]

Redact = Callable[[Any], Any]
"""Given a value about to be written (an input, an output, an error's text), gives what is written instead."""

Heard = list[tuple[RunContext, Any, Any]]
"""Lines that wait to be written, each between its run and its content."""

About = tuple[float, Any, Any, str, str]
"""What is in each line: the time, the ids of the run and of the one around it, its name and kind."""


class JsonlTrace:
    """Writes what happens to `path`, appending: a line when a run starts and one when it ends, and each retry,
    decision and custom event between them. Tokens are counted, not written.

    `redact` has to be said: a function that every piece of content passes through, or None to write it as it is.
    Lines: `event` (start, end, error, retry, decision, custom), `time` (seconds since the epoch), `run_id`,
    `parent_id`, `name`, `kind`; at the end also `seconds`, `outputs` or `error`, and a model's `usage`. A message is
    written once in a run and the runs inside it; where a list has it again, `{"again": 97, "to": id}` stands for so
    many of them, up to the one with that id; one without an id is called by its `ref`, a number. So a trace grows with
    what is said, not with its square; except for messages that a middleware changes on their way to the model
    (`PIIMiddleware`, `PromptCachingMiddleware`), of which each form is written again after the other. A line is on the
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
        self._form_of = form_of if redact is None else self._redacting
        self._lock = threading.RLock()
        self._make_decided = Decided if redact is None else self._decided
        self._recorder = Recorder(self, Started, Ended, _answered, self._make_decided, self._label, self._write)
        self._heard = self._recorder.heard
        """What waits to be written, in order: that is also the order in which messages are first written."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._file = os.fdopen(descriptor, "ab", buffering=0)  # a line that was written stays written
        self._torn = False
        """The last line on the file has no end."""

    def recorder(self) -> Recorder:
        """How it is told where no other handler wants to know of runs."""
        return self._recorder

    def handle(self, event: events.Event) -> None:
        """Write a line, and those that wait."""
        line_of = _LINES.get(type(event))
        if line_of is not None:
            run = event.run
            above = run.parent
            about = (event.time, run._id, None if above is None else above._id, run.name, run.kind)
            line: Any = line_of(self, event, about)
            if type(line) is Started:
                self._label(run, line)
            self._heard.append((run, line, line.content))
            self._write()

    def _decided(self, *facts: Any) -> Any:
        """A decision, of which two things are content."""
        line: Any = Decided(*facts)
        try:
            with self._lock:
                line.reason = self._form_of(str)(Apart(), line.reason)
        except Exception as error:  # of what redacts
            line.content = _Unmade(error)
        return line

    def _label(self, run: RunContext, line: Started) -> Any:
        """Add to a line what tells the run apart; gives its content."""
        inherited = run.inherited
        if inherited.tags:
            line.tags = inherited.tags
        if inherited.metadata:
            try:
                with self._lock:
                    line.metadata = self._form_of(dict)(Apart(), inherited.metadata)
            except Exception as error:  # of what redacts, or of what is to be written
                line.content = _Unmade(error)
        return line.content

    def _write(self) -> None:
        """Write what was heard: in one go, as each call into the system takes about as long as making a line."""
        with self._lock:
            heard = self._heard[:]
            del self._heard[: len(heard)]  # what others tell meanwhile is for them to write
            lines = list(map(_line_of, heard))
            failed: list[Exception] | None = None
            try:
                try:
                    self._form(heard)
                    text = encode_lines(lines)
                except Exception:  # something in one of them is more than JSON has, or no code of ours
                    failed = []
                    text = self._one_by_one(heard, failed)
                begun = 0 if self._torn else self._file.write(text)
                if begun != len(text):
                    self._put(text, begun)
            except BaseException as error:
                self._forget(heard)
                if self._file.closed and isinstance(error, ValueError):
                    return  # what is told after it was closed is dropped
                raise
        if failed:
            raise failed[0] if len(failed) == 1 else ExceptionGroup("Lines of a trace could not be made.", failed)

    def _form(self, heard: Heard) -> None:
        """Give the content of lines the form in which it is written in their runs."""
        form_of, notes = self._form_of, None
        written: Any = None
        for run, line, content in heard:
            if run.notes is not notes:
                notes = run.notes
                known = notes.get(self)
                written = notes[self] = Written() if known is None else known
            line.content = form_of(type(content))(written, content)

    def _one_by_one(self, heard: Heard, failed: list[Exception]) -> bytes:
        """The lines that can be written; of the others, why not is added to `failed`. None is taken along by another,
        nor refers to a message in it."""
        self._forget(heard)
        texts = []
        for told in heard:
            try:
                self._form([told])
                texts.append(as_json(told[1]) + b"\n")
            except Exception as error:  # of what redacts, or of what is to be written
                failed.append(error)
                told[0].notes.pop(self, None)
        return b"".join(texts)

    def _forget(self, heard: Heard) -> None:
        """The messages in lines that may not be on the file are still to be written."""
        for run, _, _ in heard:
            run.notes.pop(self, None)

    def _put(self, text: bytes, begun: int) -> None:
        """What is left of it; where the system takes no more, what follows begins on a line of its own."""
        if self._torn:
            text = b"\n" + text
        while begun < len(text):
            self._torn = self._torn if not begun else not text.startswith(b"\n", begun - 1)
            begun += self._file.write(text[begun:])
        self._torn = False

    def _redacting(self, kind: type) -> Form:
        """`form_of`, with a function of a user's: it is given a tree of its own, of nothing but what JSON has; what it
        gives may be anything."""
        redact: Any = self.redact
        return lambda written, value: Apart().tree(redact(json.loads(as_json(written.tree(value)))))

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


class _Unmade:
    """Stands for the content of a line that cannot be written, because of `error`."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def model_dump(self) -> Any:
        raise self.error


def _answered(*facts: Any) -> Any:
    """The end of a model's run: what it said, in whatever it was given back, and what it used."""
    line: Any = Ended(*facts)
    line.content = answer_of(line.content)
    usage = getattr(line.content, "usage_metadata", None)
    if usage:
        line.usage = usage
    return line


_line_of = itemgetter(1)


def _seconds(event: events.RunEnded | events.RunFailed) -> float:
    return round(event.time - event.run.started, 6)


def _custom(trace: JsonlTrace, event: events.Custom, about: About) -> Line:
    return Custom(*about, event.name, event.data)


def _decision(trace: JsonlTrace, event: events.Decision, about: About) -> Any:
    return trace._make_decided(*about, event.seat, event.holder, event.outcome, event.reason)


def _ended(trace: JsonlTrace, event: events.RunEnded, about: About) -> Line:
    made = _answered if event.run.kind in MODEL_KINDS else Ended
    return made(*about, _seconds(event), event.outputs)


def _failed(trace: JsonlTrace, event: events.RunFailed, about: About) -> Line:
    return Failed(*about, _seconds(event), type(event.error).__name__, str(event.error))


def _retried(trace: JsonlTrace, event: events.Retried, about: About) -> Line:
    return Retried(*about, event.attempt, event.wait, str(event.error))


def _started(trace: JsonlTrace, event: events.RunStarted, about: About) -> Line:
    return Started(*about, event.inputs)


_LINES: dict[type, Callable[[JsonlTrace, Any, About], Line]] = {
    events.Custom: _custom,
    events.Decision: _decision,
    events.Retried: _retried,
    events.RunEnded: _ended,
    events.RunFailed: _failed,
    events.RunStarted: _started,
}
"""The lines of events."""
