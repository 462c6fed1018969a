"""The demo's tools: real ones, each a function with type hints and a docstring, that log when they run."""

from __future__ import annotations

import os
import time
from datetime import datetime
from pathlib import Path

from runwell.cli.demo_docs import search
from runwell.tools import tool
from runwell.tools.kits.arithmetic import evaluate

__all__ = ["calculator", "current_time", "notes_file", "save_note", "search_docs"]


@tool(read_only=True)
def calculator(expression: str) -> str:
    """Evaluate an arithmetic expression. Use for any math."""
    _logged("calculator")
    return str(evaluate(expression))


@tool(read_only=True)
def search_docs(query: str) -> str:
    """Search the runwell documentation."""
    _logged("search_docs")
    return "\n".join(search(query))


@tool(read_only=True)
def current_time() -> str:
    """Get the current date and time."""
    _logged("current_time")
    if os.environ.get("RUNWELL_DEMO_HOLD"):  # the part of the demo that is killed: hold still until it is
        print("HOLDING", flush=True)
        time.sleep(600)
    return datetime.now().astimezone().strftime("%H:%M on %A, %d %B %Y")


@tool(destructive=True)
def save_note(text: str) -> str:
    """Save a note to the notes file."""
    _logged("save_note")
    with notes_file().open("a", encoding="utf-8") as file:
        file.write(text + "\n")
    return f"saved: {text}"


def notes_file() -> Path:
    """Where notes go: the demo's own folder."""
    return Path(os.environ.get("RUNWELL_DEMO_FOLDER", ".")) / "notes.txt"


def _logged(name: str) -> None:
    """One line for each time a tool really ran, so that the demo can count."""
    folder = os.environ.get("RUNWELL_DEMO_FOLDER")
    if folder:
        with (Path(folder) / "ran.log").open("a", encoding="utf-8") as log:
            log.write(name + "\n")
