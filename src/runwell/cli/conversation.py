"""Showing an agent at work: its tokens, its tool calls and their results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rich.console import Console

from runwell.cli.screen import out, safe, short
from runwell.messages.chunks import AIMessageChunk
from runwell.messages.message import AIMessage, ToolMessage

__all__ = ["Shown", "show"]


class Shown:
    """What a turn came to: `interrupts` left open, `tools` called, their `results`, `tokens` used, `steps` done,
    and the `text` of the answer."""

    def __init__(self) -> None:
        self.interrupts: list[Any] = []
        self.tools: list[str] = []
        self.results: list[str] = []
        self.tokens = 0
        self.steps = 0
        self.text = ""

    def message(self, message: Any) -> None:
        """Count a finished message."""
        if isinstance(message, AIMessage):
            self.tokens += message.usage_metadata["total_tokens"] if message.usage_metadata else 0
            self.text = message.text or self.text
            self.tools += [call["name"] for call in message.tool_calls]
        elif isinstance(message, ToolMessage):
            self.results.append(message.text)


def show(agent: Any, given: Any, config: dict[str, Any], *, indent: str = "", to: Console = out) -> Shown:
    """Run a turn of an agent and print it as it happens. Ctrl-C, or an error, stops the run."""
    shown = Shown()
    writer = _Writer(indent, to)
    stream = agent.stream(given, config, stream_mode=["messages", "updates"])
    try:
        for mode, item in stream:
            if mode == "messages":
                writer.spoken(item[0])
            else:
                _update(item, shown, writer)
    finally:
        try:
            writer.end_line()
        finally:
            stream.close()
    return shown


def _update(update: dict[str, Any], shown: Shown, writer: _Writer) -> None:
    for node, change in update.items():
        if node == "__interrupt__":
            shown.interrupts = list(change)
            continue
        shown.steps += 1
        for message in _messages(change):
            shown.message(message)
            writer.finished(message)


def _messages(change: Any) -> Iterator[Any]:
    if isinstance(change, dict):
        messages = change.get("messages") or []
        yield from messages if isinstance(messages, list) else [messages]


class _Writer:
    """Text as it comes, and whole lines between."""

    def __init__(self, indent: str, to: Console) -> None:
        self.indent = indent
        self.to = to
        self.open = False
        self.told: set[str] = set()

    def spoken(self, message: Any) -> None:
        """A piece of an answer, or a tool's result as soon as it is there."""
        if isinstance(message, ToolMessage):
            self.result(message)
        elif isinstance(message, (AIMessageChunk, AIMessage)) and message.text:
            if not self.open:
                self.to.print(self.indent, end="")
                self.open = True
            self.to.print(safe(message.text).replace("\n", f"\n{self.indent}"), end="")

    def finished(self, message: Any) -> None:
        """A message as it went into the thread: the calls it makes; a result that was not told yet."""
        if isinstance(message, ToolMessage):
            self.result(message)
        elif isinstance(message, AIMessage):
            for call in message.tool_calls:
                self.line(f"→ {safe(call['name'])}", f"({arguments(call['args'])})", "yellow")

    def result(self, message: ToolMessage) -> None:
        if message.tool_call_id not in self.told:
            self.told.add(message.tool_call_id)
            self.line("← ", short(message.text), "red" if message.status == "error" else "green", both=True)

    def line(self, head: str, rest: str, style: str, *, both: bool = False) -> None:
        self.end_line()
        self.to.print(self.indent + head, style=style, end="")
        self.to.print(rest, style=style if both else None)

    def end_line(self) -> None:
        if self.open:
            self.open = False
            self.to.print()


def arguments(args: dict[str, Any]) -> str:
    """A call's arguments, whole."""
    return safe(
        ", ".join(f"{name}={json.dumps(value, ensure_ascii=False, default=str)}" for name, value in args.items())
    )
