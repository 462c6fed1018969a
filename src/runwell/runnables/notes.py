"""The note on an exception that says in which step of which chain it was raised."""

from __future__ import annotations

from typing import Any

__all__ = ["abbreviated", "note_step"]

_MARK = "in step "


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
    known = any(isinstance(note, str) and note.startswith(_MARK) for note in getattr(error, "__notes__", ()))
    where = f"{_MARK}{index + 1} of {count}, {step.get_name()!r}, of the chain {chain.get_name()!r}"
    if known:
        error.add_note(where)
    else:
        error.add_note(f"{where}; its input was {'a stream' if fed else abbreviated(given)}")
