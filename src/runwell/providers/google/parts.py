"""Content blocks as the parts of Gemini's API, and parts as content blocks.

What only Google can read, such as the signature of a thought, stands in a block's `extras["google"]` and goes back to
Google alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from mimetypes import guess_type
from typing import Any

from runwell.errors import InvalidInput
from runwell.messages.calls import json_text
from runwell.messages.normal import standard_block

__all__ = [
    "SIGNATURES",
    "UNSIGNED",
    "block_of_part",
    "google_extras",
    "is_part",
    "part_of",
    "part_of_answer",
    "signature_of",
]

SIGNATURES = "thought_signatures"
"""Where a message of plain content keeps them, in `response_metadata`: "text" for the text's own, "after_text" for one
that followed it, the call's id for a call's."""

UNSIGNED = "skip_thought_signature_validator"
"""What the API takes for the signature of a call that no model of its own made."""

_PARTS = frozenset(
    {"text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult"}
    | {"toolCall", "toolResponse", "inline_data", "file_data"}
)
_SETTINGS = {
    name.lower().replace("_", ""): name
    for name in (
        *("videoMetadata", "mediaResolution", "mediaProcessing", "partMetadata", "audioMetadata"),
        *("documentMetadata", "spreadsheetMetadata", "speechMetadata"),
    )
}
"""What a part may say beside its data, under any of the usual spellings."""

_TYPES = {"image": "image/png", "audio": "audio/wav", "video": "video/mp4", "file": "application/pdf"}
_FILE = re.compile(r"https://generativelanguage\.googleapis\.com/v1(?:alpha|beta)?/(files/[\w-]+)")
_FILES = "https://generativelanguage.googleapis.com/v1beta/"

Part = dict[str, Any]


def google_extras(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a block says to Google alone."""
    extras = block.get("extras")
    found = extras.get("google") if isinstance(extras, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def is_part(block: Mapping[str, Any]) -> bool:
    """Whether a block is a part in the API's own form."""
    return "type" not in block and not _PARTS.isdisjoint(block)


def signature_of(block: Mapping[str, Any]) -> Part:
    """The signature that a block came with, as its part says it."""
    signature = google_extras(block).get("thought_signature")
    return {"thoughtSignature": signature} if signature else {}


# -- to the wire


def part_of(block: str | Mapping[str, Any]) -> Part | None:
    """A block of a user's or the system's message, or of a tool's result; None for one that says nothing here. One of
    a kind that Gemini has no form for goes as it is, for the server to judge."""
    if isinstance(block, str):
        return {"text": block} if block else None
    if "type" not in block:
        if _PARTS.isdisjoint(block):
            raise InvalidInput(
                f"A block without a type is no part that Gemini knows: {block!r:.200}.",
                hint='{"type": "text", "text": "..."}, or a part of its own such as {"inline_data": {...}}.',
            )
        return dict(block)
    standard: Mapping[str, Any] = standard_block(block)
    kind = standard["type"]
    if kind == "text" or (kind == "text-plain" and standard.get("text") is not None):
        return {"text": standard["text"]} if standard["text"] else None
    if kind in ("image", "audio", "video", "file", "text-plain"):
        return _media(kind, standard)
    if kind == "server_tool_result":
        return {"text": json_text(standard.get("output"))}
    if kind == "refusal":
        return {"text": standard["refusal"]}
    if kind == "non_standard":
        return dict(standard["value"])
    return None


def part_of_answer(block: str | Mapping[str, Any]) -> Part | None:
    """A block of an answer; None for what only the model that said it could read: thoughts that Google did not sign,
    calls that another vendor ran, and calls that could not be read."""
    if isinstance(block, str) or is_part(block):
        return part_of(block)
    standard: Mapping[str, Any] = standard_block(block)
    kind, mine, signature = standard["type"], google_extras(standard), signature_of(standard)
    if kind == "text":
        return {"text": standard["text"], **signature} if standard["text"] or signature else None
    if kind == "reasoning":
        return {"text": standard.get("reasoning", ""), "thought": True, **signature} if signature else None
    if kind == "server_tool_call":
        return _server_call(standard, mine, signature)
    if kind == "server_tool_result" and "part" in mine:
        return _server_result(standard, mine, signature)
    if kind == "non_standard":
        value = standard["value"]
        return dict(value) if isinstance(value, Mapping) and not _PARTS.isdisjoint(value) else None
    part = part_of(standard)
    return {**part, **signature} if part is not None else None


def _media(kind: str, block: Mapping[str, Any]) -> Part | None:
    mime_type = block.get("mime_type")
    if block.get("base64"):
        part: Part = {"inlineData": {"mimeType": mime_type or _TYPES.get(kind, "text/plain"), "data": block["base64"]}}
    else:
        named = block.get("file_id")
        if named:
            uri = f"{_FILES}{named}" if named.startswith("files/") else named
        elif block.get("url"):
            uri = block["url"]
            mime_type = mime_type or guess_type(uri.partition("?")[0])[0]
        else:
            return None
        part = {"fileData": {"fileUri": uri, **({"mimeType": mime_type} if mime_type else {})}}
    for source in (block.get("extras") or {}, block, google_extras(block)):
        for key, value in source.items():
            name = _SETTINGS.get(str(key).lower().replace("_", ""))
            if name is not None and value is not None:
                part[name] = value
    return part


def _server_call(block: Mapping[str, Any], mine: Mapping[str, Any], signature: Part) -> Part | None:
    form, args = mine.get("part"), block.get("args") or {}
    named = {"id": block["id"]} if mine.get("named") else {}
    if form == "executableCode":
        return {"executableCode": {**args, **named}, **signature}
    if form == "toolCall":
        return {"toolCall": {"toolType": mine["tool_type"], "args": args, **named}, **signature}
    return None


def _server_result(block: Mapping[str, Any], mine: Mapping[str, Any], signature: Part) -> Part | None:
    named = {"id": block["tool_call_id"]} if mine.get("named") else {}
    if mine["part"] == "codeExecutionResult":
        return {
            "codeExecutionResult": {"outcome": mine["outcome"], "output": block.get("output"), **named},
            **signature,
        }
    if mine["part"] == "toolResponse":
        response = block.get("output")
        return {"toolResponse": {"toolType": mine["tool_type"], "response": response, **named}, **signature}
    return None  # sources that were told beside the answer


# -- from the wire


def block_of_part(part: Mapping[str, Any], made_id: str) -> dict[str, Any]:
    """A part other than a function's call or response as a standard block. `made_id` stands for the id that a call
    which Google ran was not given; its result, the next one, was not given one either."""
    mine: dict[str, Any] = {}
    signature = part.get("thoughtSignature")
    if signature:
        mine["thought_signature"] = signature
    if "text" in part:
        if part.get("thought"):
            return _with(mine, {"type": "reasoning", "reasoning": part["text"]})
        return _with(mine, {"type": "text", "text": part["text"]})
    media = part.get("inlineData") or part.get("fileData")
    if isinstance(media, Mapping):
        mine |= {_snake(name): part[name] for name in _SETTINGS.values() if name in part}
        return _with(mine, _media_block(media))
    for form, read in _SERVER.items():
        if isinstance(part.get(form), Mapping):
            mine["part"] = form
            return _with(mine, read(part[form], mine, made_id))
    return {"type": "non_standard", "value": dict(part)}


def _with(mine: dict[str, Any], block: dict[str, Any]) -> dict[str, Any]:
    return {**block, "extras": {"google": mine}} if mine else block


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", name)


def _media_block(media: Mapping[str, Any]) -> dict[str, Any]:
    mime_type = media.get("mimeType") or ""
    kind = mime_type.partition("/")[0]
    block: dict[str, Any] = {"type": kind if kind in ("image", "audio", "video") else "file"}
    if "data" in media:
        block["base64"] = media["data"]
    else:
        uri = media.get("fileUri") or ""
        own = _FILE.fullmatch(uri)
        block |= {"file_id": own[1]} if own else {"url": uri}
    return {**block, "mime_type": mime_type} if mime_type else block


def _code(code: Mapping[str, Any], mine: dict[str, Any], made_id: str) -> dict[str, Any]:
    args = {key: value for key, value in code.items() if key != "id"}
    return {"type": "server_tool_call", "name": "code_execution", "args": args, "id": _named(code, mine, made_id)}


def _code_result(result: Mapping[str, Any], mine: dict[str, Any], made_id: str) -> dict[str, Any]:
    mine["outcome"] = result.get("outcome")
    status = "success" if result.get("outcome") == "OUTCOME_OK" else "error"
    return _result(result, mine, made_id, status, result.get("output"))


def _tool_call(call: Mapping[str, Any], mine: dict[str, Any], made_id: str) -> dict[str, Any]:
    mine["tool_type"] = call.get("toolType")
    name = str(call.get("toolType")).lower()
    return {
        "type": "server_tool_call",
        "name": name,
        "args": call.get("args") or {},
        "id": _named(call, mine, made_id),
    }


def _tool_response(response: Mapping[str, Any], mine: dict[str, Any], made_id: str) -> dict[str, Any]:
    mine["tool_type"] = response.get("toolType")
    return _result(response, mine, made_id, "success", response.get("response"))


def _result(said: Mapping[str, Any], mine: dict[str, Any], made_id: str, status: str, output: Any) -> dict[str, Any]:
    call_id = _named(said, mine, made_id)
    return {"type": "server_tool_result", "tool_call_id": call_id, "status": status, "output": output}


def _named(said: Mapping[str, Any], mine: dict[str, Any], made_id: str) -> str:
    if said.get("id"):
        mine["named"] = True
        return str(said["id"])
    return made_id


_SERVER: dict[str, Any] = {
    "executableCode": _code,
    "codeExecutionResult": _code_result,
    "toolCall": _tool_call,
    "toolResponse": _tool_response,
}
