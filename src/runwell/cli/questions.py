"""Putting a paused run's questions to the person at the terminal, or to the script behind standard input."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console

from runwell.cli.conversation import arguments
from runwell.cli.screen import one_line, safe

__all__ = ["Read", "answers"]

Read = Callable[[str], str | None]
"""Gives a line (after a prompt), or None if the person wants to leave the question open."""


def answers(questions: Sequence[Any], read: Read, say: Console) -> dict[str, Any] | None:
    """The answer to each question under its id; None if one was left open."""
    given: dict[str, Any] = {}
    for question in questions:
        requests = question.value.get("action_requests") if isinstance(question.value, dict) else None
        answer = _decisions(requests, read, say) if requests else _free(question, read, say)
        if answer is None:
            return None
        given[question.id] = answer
    return given


def _decisions(requests: Sequence[Any], read: Read, say: Console) -> dict[str, Any] | None:
    """Yes, no, or a reason for each gated call. What is approved is shown whole."""
    decided: dict[str, Any] = {}
    for request in requests:
        say.print(f"May {safe(request['name'])}({arguments(request['args'])}) run?", style="bold")
        said = ""
        while not said:
            line = read("y / n / text for the model> ")
            if line is None:
                return None
            said = line.strip()
        if said.lower() in ("y", "yes"):
            decided[request["id"]] = {"type": "approve"}
        elif said.lower() in ("n", "no"):
            decided[request["id"]] = {"type": "reject"}
        else:
            decided[request["id"]] = {"type": "reject", "message": said}
    return {"decisions": decided}


def _free(question: Any, read: Read, say: Console) -> Any:
    """The answer to a question of any form: text, or JSON where the question's schema asks for more."""
    say.print(one_line(question.value), style="bold")
    schema = question.response_schema
    while True:
        line = read("answer> " if schema is None else "answer (JSON)> ")
        if line is None:
            return None
        if schema is None:
            return line.strip()
        try:
            return json.loads(line)
        except json.JSONDecodeError:
            if schema.get("type") == "string":
                return line.strip()
            say.print(f"That is not JSON. The answer has to fit {one_line(schema)}", style="red")
