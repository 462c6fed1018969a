"""A conversation in wire form (OpenAI's message dictionaries), read for what a small model needs of it.

A small model that sees `tool` messages calls again and again; it does well with one request, the results so far and
a plain question. So a history is read into those here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Made", "Turn", "read"]

_EARLIER_CHARS = 300


@dataclass(slots=True)
class Made:
    """A call that was made in this turn, and what came of it. `result` None: not answered."""

    name: str
    arguments: dict[str, Any]
    result: str | None = None

    def same_as(self, name: str, arguments: Mapping[str, Any]) -> bool:
        return self.name == name and self.arguments == arguments


@dataclass(slots=True)
class Turn:
    """What is asked now: `request` the last thing the user said, `made` the calls since, `system` the instructions.

    `before` are the earlier messages as plain user and assistant text.
    """

    request: str
    system: str = ""
    made: list[Made] = field(default_factory=list)
    before: list[dict[str, str]] = field(default_factory=list)

    def earlier(self) -> str:
        """The last exchange before this one in a line or two, or an empty string."""
        said = [f"{m['role']}: {_short(m['content'])}" for m in self.before[-2:]]
        return "\n".join(said)


def read(messages: Sequence[Mapping[str, Any]]) -> Turn:
    """The conversation's current turn."""
    last = max((i for i, m in enumerate(messages) if m.get("role") == "user"), default=-1)
    system = "\n\n".join(text_of(m) for m in messages if m.get("role") in ("system", "developer"))
    turn = Turn(text_of(messages[last]) if last >= 0 else "", system)
    first = last
    while first > 0 and messages[first - 1].get("role") == "user":  # several messages in a row are one request
        first -= 1
        turn.request = f"{text_of(messages[first])}\n{turn.request}"
    for message in messages[: max(first, 0)]:
        if message.get("role") in ("user", "assistant") and text_of(message):
            turn.before.append({"role": str(message["role"]), "content": text_of(message)})
    calls: dict[str, Made] = {}
    for message in messages[last + 1 :]:
        for call in message.get("tool_calls") or ():
            made = Made(str(call["function"]["name"]), _arguments(call["function"].get("arguments")))
            calls[str(call.get("id"))] = made
            turn.made.append(made)
        if message.get("role") == "tool" and (answered := calls.get(str(message.get("tool_call_id")))) is not None:
            answered.result = text_of(message)
    return turn


def text_of(message: Mapping[str, Any]) -> str:
    """The message's text; parts that are not text are left out."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content or () if isinstance(part, Mapping))


def _arguments(raw: Any) -> dict[str, Any]:
    if isinstance(raw, Mapping):
        return dict(raw)
    try:
        value = json.loads(raw or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _EARLIER_CHARS else flat[: _EARLIER_CHARS - 1] + "…"
