"""Messages as Gemini's API writes them, and back.

The wire names a result by the function that gave it, so names are looked up in the calls of the history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runwell.errors import InvalidHistory
from runwell.messages.calls import in_written_order, json_text, tool_call
from runwell.messages.message import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from runwell.messages.normal import standard_block
from runwell.models.foreign import readable_by
from runwell.providers.google.parts import SIGNATURES, UNSIGNED, block_of_part, part_of, part_of_answer, signature_of

__all__ = ["messages_from_wire", "messages_to_wire"]

_ROLES = {"human": "user", "ai": "model", "tool": "tool", "system": "system", "function": "tool"}
_ROLES |= {"HumanMessageChunk": "user", "AIMessageChunk": "model", "ToolMessageChunk": "tool"}
_ROLES |= {"SystemMessageChunk": "system", "FunctionMessageChunk": "tool"}
_SAID_ROLES = {"user": "user", "assistant": "model", "model": "model", "system": "system"}
_SAID_ROLES |= {"human": "user", "ai": "model", "developer": "system"}

Part = dict[str, Any]
Wire = list[dict[str, Any]]


# -- to the wire


def messages_to_wire(messages: Sequence[BaseMessage], *, newer: bool = True) -> tuple[dict[str, Any] | None, Wire]:
    """(`systemInstruction`, `contents`) of a request; the first is None without any.

    Results of one turn stand in one content, under the names of their functions. What a model from Gemini 3 on
    (`newer`) wants: the media of a result in it, and a signature at the first call of each turn; calls that it did not
    make itself get the one that stands for none. For older models media follow in a content of the user's. Raises
    InvalidHistory, naming the place, for what cannot be sent.
    """
    system: list[Part] = []
    wire: Wire = []
    names: dict[str, str] = {}
    late: list[Part] = []
    responding = False
    for index, message in enumerate(messages):
        role = _ROLES.get(message.type) or _said_role(message, index)
        if late and role != "tool":
            wire.append({"role": "user", "parts": late})
            late = []
        if role == "tool":
            response = _response(message, index, names, late, newer)
            if responding:
                wire[-1]["parts"].append(response)
            else:
                wire.append({"role": "user", "parts": [response]})
        elif role == "model":
            parts = _answer(message, index, names, newer)
            if parts:  # a turn without a word cannot be sent, and says nothing
                wire.append({"role": "model", "parts": parts})
        elif role == "system":
            system += _said(message, index)
        else:
            wire.append({"role": "user", "parts": _said(message, index)})
        responding = role == "tool"
    if late:
        wire.append({"role": "user", "parts": late})
    if not wire:
        raise InvalidHistory(
            "Gemini is sent nothing to answer: the history holds instructions alone.", hint="Add a HumanMessage."
        )
    return ({"parts": system} if system else None), wire


def _said_role(message: BaseMessage, index: int) -> str:
    role = getattr(message, "role", None)
    if role in _SAID_ROLES:
        return _SAID_ROLES[str(role)]
    raise InvalidHistory(
        f"Message {index} is a {type(message).__name__}{f' of role {role!r}' if role else ''}, which cannot be sent to "
        "Gemini.",
        hint="Apply instructions first: add_messages(history, [RemoveMessage(...)]). Roles: user, assistant, system.",
    )


def _said(message: BaseMessage, index: int) -> list[Part]:
    blocks: Any = [message.content] if isinstance(message.content, str) else message.content
    parts = [part for part in map(part_of, blocks) if part is not None]
    if not parts:
        raise InvalidHistory(
            f"Message {index}, a {type(message).__name__}, is empty.", hint="Leave it out, or say something in it."
        )
    return parts


def _response(message: Any, index: int, names: Mapping[str, str], late: list[Part], newer: bool) -> Part:
    call_id = getattr(message, "tool_call_id", None)
    if call_id is not None and call_id not in names:
        raise InvalidHistory(
            f"Message {index} is the result of a call {call_id!r} that no message before it made.",
            hint="Keep a call with its result when a history is cut (trim_messages does), or leave both out.",
        )
    name = names.get(call_id or "") or message.name
    texts, media = _result_parts(message.content)
    failed = getattr(message, "status", None) == "error"
    response: Part = {"name": name, "response": {"error" if failed else "output": texts}}
    if call_id:
        response["id"] = call_id
    if media and newer:
        response["parts"] = media
    elif media:
        late += [{"text": f"From the result of the tool call {call_id}:"}, *media]
    return {"functionResponse": response}


def _result_parts(content: Any) -> tuple[Any, list[Part]]:
    """(What a result says: a text, or the list of its texts; its media.)"""
    if isinstance(content, str):
        return content, []
    parts = [part for part in map(part_of, content) if part is not None]
    texts = [part["text"] for part in parts if "text" in part]
    media = [part for part in parts if "text" not in part]
    return (texts[0] if len(texts) == 1 else texts or ""), media


def _answer(message: Any, index: int, names: dict[str, str], newer: bool) -> list[Part]:
    """The parts of an answer. What its `tool_calls` say goes: a call changed or dropped there is so on the wire."""
    content = message.content
    blocks = [content] if isinstance(content, str) else readable_by("google", content)
    signatures = (message._facts or {}).get(SIGNATURES)
    if not isinstance(signatures, Mapping):
        signatures = {}
    parts: list[Part] = []
    if blocks and isinstance(blocks[0], str):
        parts = _plain(blocks[0], signatures)
        blocks = blocks[1:]
    calls = list(getattr(message, "tool_calls", ()))
    ids = [call["id"] for call in calls if call["id"]]
    if len(ids) != len(set(ids)):
        raise InvalidHistory(
            f"Message {index} makes several calls under one id: {ids}.", hint="Results are matched to calls by id."
        )
    for block in blocks:
        if isinstance(block, dict) and block.get("type") in ("tool_call", "tool_use", "function_call"):
            standard: Any = standard_block(block)
            call = next((each for each in calls if each["id"] == standard.get("id")), None)
            if call is not None:
                calls.remove(call)
                parts.append(_call(call, names, signature_of(standard) or _signed(signatures, call["id"])))
        else:
            part = part_of_answer(block)
            if part is not None:
                parts.append(part)
    for call in in_written_order(calls, getattr(message, "invalid_tool_calls", ())):
        if isinstance(call["args"], dict):
            parts.append(_call(call, names, _signed(signatures, call["id"])))
            continue
        # A call that could not be read: what is said of it is in the result that follows, which needs a call to answer.
        said = {"malformed_arguments": call["args"]} if call["args"] else {}
        parts.append(_call({**call, "name": call["name"] or "unknown", "args": said}, names, {}))
    if newer:
        first = next((part for part in parts if "functionCall" in part), None)
        if first is not None:
            first.setdefault("thoughtSignature", UNSIGNED)
    return parts


def _plain(text: str, signatures: Mapping[str, str]) -> list[Part]:
    """A plain text with the signatures that stand apart from it."""
    parts: list[Part] = [{"text": text, **_signed(signatures, "text")}] if text else []
    if signatures.get("after_text"):
        parts.append({"text": "", **_signed(signatures, "after_text")})
    return parts


def _signed(signatures: Mapping[str, str], place: str | None) -> Part:
    signature = signatures.get(place or "")
    return {"thoughtSignature": signature} if signature else {}


def _call(call: Mapping[str, Any], names: dict[str, str], signature: Part) -> Part:
    said = {"name": call["name"], "args": call["args"]}
    if call["id"]:
        names[call["id"]] = call["name"]
        said["id"] = call["id"]
    return {"functionCall": said, **signature}


# -- from the wire


def messages_from_wire(system: Any, wire: Sequence[Mapping[str, Any]]) -> list[BaseMessage]:
    """The conversation in a request: what `messages_to_wire` was given, but for what the wire has no place for (names,
    ids, artifacts)."""
    messages: list[BaseMessage] = [SystemMessage(_content(system["parts"]))] if system else []
    for turn in wire:
        parts = turn["parts"]
        if turn.get("role") == "model":
            messages.append(_answered(parts))
            continue
        results = [part["functionResponse"] for part in parts if "functionResponse" in part]
        messages += map(_result, results)
        rest = [part for part in parts if "functionResponse" not in part]
        if rest:
            messages.append(HumanMessage(_content(rest)))
    return messages


def _content(parts: Sequence[Mapping[str, Any]]) -> Any:
    if len(parts) == 1 and parts[0].keys() == {"text"}:
        return parts[0]["text"]
    return [block_of_part(part, f"server_{place}") for place, part in enumerate(parts)]


def _result(response: Mapping[str, Any]) -> ToolMessage:
    said = response["response"]
    failed = said.keys() == {"error"}
    texts = said["error"] if failed else said["output"] if said.keys() == {"output"} else json_text(said)
    content: Any = texts
    media = response.get("parts") or ()
    if media or not isinstance(texts, str):
        listed = [texts] if isinstance(texts, str) else texts
        content = [{"type": "text", "text": text} for text in listed if text]
        content += [block_of_part(part, "") for part in media]
    return ToolMessage(
        content,
        tool_call_id=response.get("id") or "",
        name=response["name"],
        status="error" if failed else "success",
    )


def _answered(parts: Sequence[Mapping[str, Any]]) -> AIMessage:
    calls: list[Any] = []
    content: list[Any] = []
    signatures: dict[str, str] = {}
    made = 0
    plain = _plain_length(parts)
    for place, part in enumerate(parts):
        call = part.get("functionCall")
        signature = part.get("thoughtSignature")
        if call is None:
            made += not ("codeExecutionResult" in part or "toolResponse" in part)
            content.append(block_of_part(part, f"server_{made}"))
            if signature and place < plain:
                signatures["text" if part["text"] else "after_text"] = signature
            continue
        found = tool_call(name=call["name"], args=call.get("args") or {}, id=call.get("id"))
        calls.append(found)
        if not signature or signature == UNSIGNED:
            content.append(found)
        else:
            signatures[found["id"] or ""] = signature
            content.append({**found, "extras": {"google": {"thought_signature": signature}}})
    if all("functionCall" in part for part in parts[plain:]):
        text = parts[0]["text"] if plain else ""
        return AIMessage(text, tool_calls=calls, response_metadata={SIGNATURES: signatures} if signatures else None)
    return AIMessage(content, tool_calls=calls)


def _plain_length(parts: Sequence[Mapping[str, Any]]) -> int:
    """How many of the first parts are a plain text and its signature."""
    if not parts or not parts[0].get("text") or not parts[0].keys() <= {"text", "thoughtSignature"}:
        return 0
    if "thoughtSignature" in parts[0] or len(parts) < 2:
        return 1
    return 2 if parts[1].get("text") == "" and parts[1].keys() == {"text", "thoughtSignature"} else 1
