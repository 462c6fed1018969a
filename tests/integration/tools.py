"""Tools that the integration tests and their child processes share."""

from __future__ import annotations

import os
from pathlib import Path

from runwell import tool

LOG = Path(os.environ.get("TOOL_LOG", os.devnull))


def note(line: str) -> None:
    with LOG.open("a") as log:
        log.write(line + "\n")


@tool
def calculator(expression: str) -> str:
    """Evaluate an arithmetic expression. Use for any math."""
    note(f"calculator {expression}")
    left, _, right = expression.replace(" ", "").replace("×", "*").partition("*")
    return str(int(left) * int(right))


@tool
def current_time() -> str:
    """Get the current date and time."""
    note("current_time")
    return "14:30 on Monday, 30 November"


@tool(destructive=True)
def delete_file(path: str) -> str:
    """Delete a file by its path."""
    note(f"delete_file {path}")
    return f"{path} was deleted"
