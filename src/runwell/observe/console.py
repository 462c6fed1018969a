"""What happens, on the terminal, as it happens."""

from __future__ import annotations

import sys
import threading
from typing import Any, TextIO

from runwell.observe.context import RunContext
from runwell.observe.events import Chunk, Custom, Event, Retried, RunEnded, RunFailed, RunStarted
from runwell.observe.llm_result import answer_of

__all__ = ["ConsoleHandler"]

_STYLES = {
    "chat_model": "cyan",
    "llm": "cyan",
    "tool": "yellow",
    "retriever": "green",
    "error": "bold red",
    "dim": "dim",
}


class ConsoleHandler:
    """Prints each run as it starts and ends, indented by depth, and models' text as it comes.

    Content is shown: it stays on this terminal, and attaching the handler asks for it. Values are cut after `width`
    characters. Coloured with rich where that is installed and `file` (standard error by default) is a terminal.
    """

    raise_error = False
    wants_chunks = False

    def __init__(self, file: TextIO | None = None, *, tokens: bool = True, width: int = 100) -> None:
        self.file = file if file is not None else sys.stderr
        self.wants_tokens = tokens
        self.width = width
        self._lock = threading.Lock()
        self._speaking: Any = None
        self._rich = _rich_console(self.file)

    def handle(self, event: Event) -> None:
        """Print what is to be printed of an event."""
        run = event.run
        with self._lock:
            if isinstance(event, Chunk):
                if self.wants_tokens and event.text:
                    self._text(run, event.text)
            elif isinstance(event, RunStarted):
                self._line(run, "> ", run.kind, f"{run.name}  {self._short(event.inputs)}")
            elif isinstance(event, RunEnded):
                spoken = self._speaking == run.run_id
                outputs = answer_of(event.outputs) if run.kind in ("chat_model", "llm") else event.outputs
                shown = "" if spoken else f"  {self._short(getattr(outputs, 'text', outputs))}"
                self._line(run, "< ", run.kind, f"{run.name}  {event.time - run.started:.2f} s{shown}")
            elif isinstance(event, RunFailed):
                self._line(run, "! ", "error", f"{run.name}  {type(event.error).__name__}: {event.error}")
            elif isinstance(event, Retried):
                text = f"{run.name}  attempt {event.attempt} failed, next in {event.wait:.1f} s: {event.error!r}"
                self._line(run, "~ ", "error", text)
            elif isinstance(event, Custom):
                self._line(run, "* ", "dim", f"{event.name}  {self._short(event.data)}")

    def _text(self, run: RunContext, text: str) -> None:
        if self._speaking != run.run_id:
            self._end_speech()
            self._speaking = run.run_id
        self.file.write(text)
        self.file.flush()

    def _end_speech(self) -> None:
        if self._speaking is not None:
            self._speaking = None
            self.file.write("\n")

    def _line(self, run: RunContext, mark: str, style: str, text: str) -> None:
        self._end_speech()
        line = "  " * len(run.parent_ids) + mark + text
        if self._rich is not None:
            self._rich.print(line, style=_STYLES.get(style, "dim"), markup=False, highlight=False, soft_wrap=True)
        else:
            self.file.write(line + "\n")
        self.file.flush()

    def _short(self, value: Any) -> str:
        if value is None:
            return ""
        text = " ".join((value if isinstance(value, str) else repr(value)).split())
        return text if len(text) <= self.width else text[: self.width - 3] + "..."


def _rich_console(file: TextIO) -> Any:
    if not file.isatty():
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(file=file)
