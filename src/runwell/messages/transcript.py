"""Messages as text for people and for prompts."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any, Literal, cast

from runwell.errors import InvalidInput
from runwell.messages.calls import calls_as_written, json_text
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
        raise InvalidInput(f"format is 'prefix' or 'xml', got {format!r:.200}.")
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
            calls = calls_as_written(message)
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
    kind = type(message).whole.type if message.adds_up else message.type  # type: ignore[attr-defined]
    title = f"{_TITLES.get(kind, kind)} Message"
    before = [] if message.name is None else [f"Name: {message.name}"]
    if isinstance(message, ToolMessage) and message.status == "error":
        before.append("Status: error")
    after: list[str] = []
    if isinstance(message, AIMessage):
        for heading, calls in _calls_of(message):
            if calls:
                after.append(heading)
                after += [line for call in calls for line in _call_lines(call)]
    if html:
        inner = f"<pre>{escape(chr(10).join(before))}</pre>" if before else ""
        inner += _html_of(message)
        inner += f"<pre>{escape(chr(10).join(after))}</pre>" if after else ""
        return f"<div><b>{escape(title)}</b>{inner}</div>"
    text = said(message)
    return "\n\n".join((f" {title} ".center(80, "="), "\n".join([*before, *([text] if text else []), *after])))


def _calls_of(message: AIMessage) -> list[tuple[str, list[Any]]]:
    if message.adds_up:  # it is still being written
        return [("Tool Calls:", [*getattr(message, "partial_tool_calls", ())])]
    return [("Tool Calls:", [*message.tool_calls]), ("Invalid Tool Calls:", [*message.invalid_tool_calls])]


_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def _html_of(message: BaseMessage) -> str:
    """Text as it is, pictures that are in the message as pictures. What has an address is named and not fetched."""
    if isinstance(message.content, str):
        return f"<pre>{escape(message.content)}</pre>" if message.content else ""
    parts = []
    for block in cast("list[dict[str, Any]]", message.content_blocks):
        kind = block["type"]
        if kind == "image" and block.get("mime_type") in _PICTURES and isinstance(block.get("base64"), str):
            source = escape(f"data:{block['mime_type']};base64,{block['base64']}")
            parts.append(f'<img src="{source}" style="max-width: 100%; max-height: 20em"/>')
        elif kind == "reasoning" and block.get("reasoning"):
            text = escape(str(block["reasoning"]))
            parts.append(f"<details><summary>Reasoning</summary><pre>{text}</pre></details>")
        elif kind in ("text", "text-plain", "refusal"):
            parts.append(f"<pre>{escape(str(block.get('text', block.get('refusal', f'[{kind}]'))))}</pre>")
        elif kind not in ("tool_call", "tool_call_chunk", "invalid_tool_call", "reasoning"):
            inner = block["value"].get("type", kind) if kind == "non_standard" else kind
            where = f": {block['url']}" if isinstance(block.get("url"), str) else ""
            parts.append(f"<pre>{escape(f'[{inner}{where}]')}</pre>")
    return "".join(parts)


def _call_lines(call: Any) -> list[str]:
    lines = [f"  {call['name']} ({call['id']})"]
    if call.get("error"):
        lines.append(f"    error: {call['error']}")
    if isinstance(call["args"], dict):
        lines += [f"    {key}: {_args_text(value)}" for key, value in call["args"].items()]
    elif call["args"]:
        lines.append(f"    {call['args']}")
    return lines
