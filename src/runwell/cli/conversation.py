"""Showing an agent at work: its tokens, its tool calls and their results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rich.markup import escape

from runwell.cli.screen import out, short
from runwell.messages.chunks import AIMessageChunk
from runwell.messages.message import AIMessage, ToolMessage

__all__ = ["Shown", "show"]


class Shown:
    """What a turn came to: `interrupts` left open, `tools` called, `tokens` used, `text` of the answer."""

    def __init__(self) -> None:
        self.interrupts: list[Any] = []
        self.tools: list[str] = []
        self.results: list[str] = []
        self.tokens = 0
        self.steps = 0
        self.text = ""


def show(agent: Any, given: Any, config: dict[str, Any], *, indent: str = "") -> Shown:
    """Run a turn of an agent and print it as it happens."""
    shown = Shown()
    stream = agent.stream(given, config, stream_mode=["messages", "updates"])
    writer = _Writer(indent)
    try:
        for mode, item in stream:
            if mode == "messages":
                writer.message(item[0], shown)
            else:
                _update(item, shown, writer)
    finally:
        writer.end_line()
        stream.close()
    return shown


def _update(update: dict[str, Any], shown: Shown, writer: _Writer) -> None:
    for node, change in update.items():
        if node == "__interrupt__":
            shown.interrupts = list(change)
            continue
        shown.steps += 1
        for message in _messages(change):
            if isinstance(message, AIMessage):
                shown.tokens += message.usage_metadata["total_tokens"] if message.usage_metadata else 0
                shown.text = message.text or shown.text
                for call in message.tool_calls:
                    shown.tools.append(call["name"])
                    writer.line(f"[yellow]→ {escape(call['name'])}[/yellow]({escape(_arguments(call['args']))})")


def _messages(change: Any) -> Iterator[Any]:
    if isinstance(change, dict):
        messages = change.get("messages") or []
        yield from messages if isinstance(messages, list) else [messages]


def _arguments(args: dict[str, Any]) -> str:
    return ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in args.items())


class _Writer:
    """Text as it comes, and whole lines between."""

    def __init__(self, indent: str) -> None:
        self.indent = indent
        self.open = False

    def message(self, message: Any, shown: Shown) -> None:
        if isinstance(message, ToolMessage):
            shown.results.append(message.text)
            style = "red" if message.status == "error" else "green"
            self.line(f"[{style}]← {escape(short(message.text))}[/{style}]")
        elif isinstance(message, (AIMessageChunk, AIMessage)) and message.text:
            if not self.open:
                out.print(self.indent, end="")
                self.open = True
            out.print(escape(message.text), end="")

    def line(self, text: str) -> None:
        self.end_line()
        out.print(self.indent + text)

    def end_line(self) -> None:
        if self.open:
            out.print()
            self.open = False
