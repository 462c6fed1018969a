"""Messages as text for people and for prompts."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any, Literal, cast

from runwell.errors import InvalidInput
from runwell.messages.calls import json_text
from runwell.messages.convert import convert_to_messages
from runwell.messages.message import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

__all__ = ["get_buffer_string", "pretty"]


def get_buffer_string(
    messages: Iterable[Any],
    human_prefix: str = "Human",
    ai_prefix: str = "AI",
    *,
    system_prefix: str = "System",
    tool_prefix: str = "Tool",
    function_prefix: str = "Function",
    message_separator: str = "\n",
    format: Literal["prefix", "xml"] = "prefix",
) -> str:
    """The history as one text, a message after another.

    Calls and results are in it: `AI: Hi [calls search({"q": "x"})]`, `Tool (search): ...`. Media stand as `[image]`
    and the like, never as data. `format="xml"` puts each message in an element and escapes its text, so that a
    message cannot pretend to be another's.
    """
    if format not in ("prefix", "xml"):
        raise InvalidInput(f"format is 'prefix' or 'xml', got {format!r}.")
    prefixes: tuple[tuple[type[BaseMessage], str], ...] = (
        (HumanMessage, human_prefix),
        (AIMessage, ai_prefix),
        (SystemMessage, system_prefix),
        (ToolMessage, tool_prefix),
        (FunctionMessage, function_prefix),
    )
    called: dict[str | None, str | None] = {}
    lines = []
    for message in convert_to_messages(messages):
        text = said(message)
        calls: list[Any] = []
        who = message.name
        if isinstance(message, AIMessage):
            calls = [*message.tool_calls, *message.invalid_tool_calls]
            called.update((call["id"], call["name"]) for call in calls)
        elif isinstance(message, ToolMessage):
            who = who or called.get(message.tool_call_id)
        if isinstance(message, ChatMessage):
            prefix = message.role
        else:
            prefix = next((prefix for cls, prefix in prefixes if isinstance(message, cls)), message.type)
        if format == "xml":
            lines.append(_element(prefix.lower(), text, calls, who))
            continue
        if calls:
            text = f"{text} [calls {', '.join(map(_call_text, calls))}]".lstrip()
        lines.append(
            f"{prefix} ({who}): {text}" if who and not isinstance(message, HumanMessage) else f"{prefix}: {text}"
        )
    return message_separator.join(lines)


def said(message: BaseMessage) -> str:
    """The text of the message, with a mark where something that is no text stands."""
    content = message.content
    if isinstance(content, str):
        return content
    parts = []
    for block in cast("list[dict[str, Any]]", message.content_blocks):
        kind = block["type"]
        if kind in ("text", "text-plain", "refusal"):
            parts.append(str(block.get("text", block.get("refusal", f"[{kind}]"))))
        elif kind not in ("tool_call", "tool_call_chunk", "invalid_tool_call", "reasoning"):
            parts.append(f"[{block['value'].get('type', kind) if kind == 'non_standard' else kind}]")
    return "".join(parts)


def _args_text(args: Any) -> str:
    if args is None or isinstance(args, str):
        return args or ""
    try:
        return json_text(args)
    except (TypeError, ValueError):
        return repr(args)


def _call_text(call: Any) -> str:
    return f"{call['name']}({_args_text(call['args'])})"


def _element(tag: str, text: str, calls: list[Any], who: str | None) -> str:
    name = f' name="{escape(who)}"' if who else ""
    inner = escape(text, quote=False)
    inner += "".join(
        f'<tool_call name="{escape(str(call["name"]))}">{escape(_args_text(call["args"]), quote=False)}</tool_call>'
        for call in calls
    )
    return f'<message role="{escape(tag)}"{name}>{inner}</message>'


_TITLES = {"human": "Human", "ai": "Ai", "system": "System", "tool": "Tool", "function": "Function", "chat": "Chat"}


def pretty(message: BaseMessage, html: bool = False) -> str:
    """See `BaseMessage.pretty_repr`."""
    title = f" {_TITLES.get(message.type, message.type)} Message "
    lines = [] if message.name is None else [f"Name: {message.name}"]
    text = said(message)
    if text:
        lines.append(text)
    if isinstance(message, AIMessage):
        groups: list[tuple[str, list[Any]]] = [
            ("Tool Calls:", [*message.tool_calls]),
            ("Invalid Tool Calls:", [*message.invalid_tool_calls]),
        ]
        for heading, calls in groups:
            if calls:
                lines.append(heading)
                lines += [line for call in calls for line in _call_lines(call)]
    if html:
        return f"<b>{escape(title.strip())}</b><pre>{escape(chr(10).join(lines))}</pre>"
    return "\n\n".join((title.center(80, "="), "\n".join(lines)))


def _call_lines(call: Any) -> list[str]:
    lines = [f"  {call['name']} ({call['id']})"]
    if call.get("error"):
        lines.append(f"    error: {call['error']}")
    if isinstance(call["args"], dict):
        lines += [f"    {key}: {_args_text(value)}" for key, value in call["args"].items()]
    elif call["args"]:
        lines.append(f"    {call['args']}")
    return lines
