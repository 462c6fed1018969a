"""The note on an exception that says in which step of which chain it was raised."""

from __future__ import annotations

from typing import Any

from runwell.observe.context import CURRENT

__all__ = ["abbreviated", "note_entry", "note_step"]

_MARKS = ("in step ", "in the entry ")


def abbreviated(value: Any, limit: int = 200) -> str:
    """`repr(value)`, cut in the middle."""
    try:
        text = repr(value)
    except Exception as error:  # a user's __repr__ must not hide the error being reported
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    if len(text) <= limit:
        return text
    return f"{text[: limit - 60]} ... {text[-50:]} ({len(text)} characters)"


def note_step(error: BaseException, chain: Any, index: int, count: int, step: Any, given: Any, fed: bool) -> None:
    """Add the note; the input is told once, by the innermost chain. `fed`: the input came chunk by chunk."""
    where = f"{_MARKS[0]}{index + 1} of {count}, {step.get_name()!r}, of the chain {_name(chain)!r}"
    _note(error, where, given, fed)


def note_entry(error: BaseException, parallel: Any, key: str, step: Any, given: Any, fed: bool) -> None:
    """`note_step` for one of the steps that stand side by side in `parallel`."""
    _note(error, f"{_MARKS[1]}{key!r}, {step.get_name()!r}, of {_name(parallel)!r}", given, fed)


def _name(part: Any) -> str:
    """What it is called: in this run, if the config of that says so."""
    run = CURRENT.get()
    return run.name if run is not None and run.component is part else str(part.get_name())


def _note(error: BaseException, where: str, given: Any, fed: bool) -> None:
    if not any(isinstance(note, str) and note.startswith(_MARKS) for note in getattr(error, "__notes__", ())):
        where = f"{where}; its input was {'a stream' if fed else abbreviated(given)}"
    error.add_note(where)
