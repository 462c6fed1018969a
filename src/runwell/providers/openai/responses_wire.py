"""Messages and answers as OpenAI's Responses API writes them, and back.

An answer that is one text, then calls, is a message with a text and `tool_calls`, as from any provider. One that holds
more (thoughts, citations, calls that OpenAI ran) holds blocks in the standard form, each call at its place; they go
back to OpenAI as the items they came from, in their order, and to no other provider.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runwell.messages.calls import in_written_order, json_text, split_calls
from runwell.messages.message import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from runwell.messages.normal import standard_block
from runwell.messages.usage import UsageMetadata
from runwell.models.foreign import OPENAI_ITEMS, readable_by
from runwell.models.roles import ROLE_OF, role_of_other
from runwell.providers.openai.responses_blocks import blocks_of_item, call_extras, item_of_call, items_of_blocks, tidy

__all__ = [
    "finish_reason",
    "is_rich",
    "message_from_response",
    "messages_from_input",
    "messages_to_input",
    "metadata_from_response",
    "usage_from_response",
]

Item = dict[str, Any]

_OWN_PARTS = frozenset({"input_text", "input_image", "input_file", "input_audio"})


# -- to the wire


def messages_to_input(messages: Sequence[BaseMessage], provider: str = "", stored: bool = True) -> list[Item]:
    """The request's `input`. `provider` is who it goes to: what only the sayer of an answer could read goes to nobody
    else. `stored`: whether the provider keeps answers; otherwise a thought goes back only if it came encrypted.

    Raises InvalidHistory, naming the place, for what cannot be sent.
    """
    wire: list[Item] = []
    for index, message in enumerate(messages):
        role = ROLE_OF.get(message.type) or role_of_other(
            message, index, "the Responses API has no place for", ("user", "assistant", "system", "developer")
        )
        if role == "tool":
            wire.append(_result(message, wire))
        elif role == "assistant":
            wire += _answer(message, provider, stored)
        else:
            if role == "system" and (message._kwargs or {}).get("openai_role") == "developer":
                role = "developer"
            said, items = _apart(message.content)
            if said or not items:
                wire.append({"role": role, "content": _said(said)})
            wire += items
    return wire


def _apart(content: Any) -> tuple[Any, list[Item]]:
    """(What is said, what is an item of its own, such as the answer to a server's question.)"""
    if isinstance(content, str):
        return content, []
    kinds = [None if isinstance(block, str) else _unmarked(block).get("type") for block in content]
    items = [dict(_unmarked(block)) for block, kind in zip(content, kinds, strict=True) if kind in OPENAI_ITEMS]
    return [block for block, kind in zip(content, kinds, strict=True) if kind not in OPENAI_ITEMS], items


def _unmarked(block: Any) -> Mapping[str, Any]:
    value = block.get("value") if block.get("type") == "non_standard" else block
    return value if isinstance(value, Mapping) else block


def _said(content: Any) -> Any:
    if isinstance(content, str):
        return content
    return [_part(block) for block in content if block]


def _part(given: Any) -> Item:
    """A block of a person's, the system's or a tool's message. A kind without a form goes as it is."""
    if isinstance(given, str):
        return {"type": "input_text", "text": given}
    if given.get("type") in _OWN_PARTS:
        return {key: value for key, value in given.items() if key != "index"}
    block: Any = standard_block(given)
    kind = block.get("type")
    extras = dict(block.get("extras") or {})
    if kind == "text" or (kind == "text-plain" and block.get("text") is not None):
        return {"type": "input_text", "text": block.get("text", "")}
    if kind == "server_tool_result":
        return {"type": "input_text", "text": json_text(block.get("output"))}
    if kind == "image":
        place = {"file_id": block["file_id"]} if block.get("file_id") else {"image_url": _url(block, "image/png")}
        detail = block.get("detail") or extras.get("detail")
        return {"type": "input_image", **place, "detail": detail or "auto"}
    if kind in ("file", "text-plain"):
        if block.get("file_id"):
            return {"type": "input_file", "file_id": block["file_id"]}
        name = block.get("filename") or extras.get("filename")
        if block.get("url"):
            return {"type": "input_file", "file_url": block["url"], **({"filename": name} if name else {})}
        data = _url(block, "application/pdf" if kind == "file" else "text/plain")
        return {"type": "input_file", "filename": name or "file", "file_data": data}
    if kind == "non_standard" and isinstance(block.get("value"), Mapping):
        return dict(block["value"])
    return dict(block)


def _url(block: Mapping[str, Any], kind: str) -> Any:
    return block["url"] if block.get("url") else f"data:{block.get('mime_type') or kind};base64,{block['base64']}"


_RESULTS = {
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
}


def _result(message: Any, wire: list[Item]) -> Item:
    """A tool's result, in the form that answers the kind of its call."""
    call_id = message.tool_call_id
    call = next((item["type"] for item in reversed(wire) if item.get("call_id") == call_id), "function_call")
    kind = _RESULTS.get(call, "function_call_output")
    said = (message._kwargs or {}).get("responses_output") or {}
    item: Item = {"type": kind, "call_id": call_id, "output": _said(message.content), **said}
    if kind == "computer_call_output" and isinstance(item["output"], list):
        pictures = [part for part in item["output"] if part["type"] == "input_image"]
        if pictures:
            where = {key: pictures[-1][key] for key in ("image_url", "file_id") if key in pictures[-1]}
            item["output"] = {"type": "computer_screenshot", **where}
    return item


def _answer(message: Any, provider: str, stored: bool) -> list[Item]:
    """The items of an answer. What its `tool_calls` say goes: a call changed or dropped there is so on the wire."""
    content = message.content
    whole = {call["id"]: call for call in getattr(message, "tool_calls", ())}
    broken = {call["id"]: call for call in getattr(message, "invalid_tool_calls", ()) if call["id"]}
    items: list[Item] = []
    refusal = (message._kwargs or {}).get("refusal")
    if isinstance(content, str):
        if content or not (whole or broken or refusal):
            items.append({"role": "assistant", "content": content})
    else:
        said_by = (message._facts or {}).get("model_provider")
        mine = said_by is None or not provider or said_by == provider
        blocks: list[Any] = [
            {"type": "text", "text": each} if isinstance(each, str) else each for each in readable_by("openai", content)
        ]
        blocks = [
            each if each.get("type") in ("tool_call_chunk", "refusal") else standard_block(each) for each in blocks
        ]
        for item in items_of_blocks([each for each in blocks if _says_something(each)], mine):
            if item["type"] == "tool_call":
                call = whole.pop(item["id"], None) or broken.pop(item["id"], None)
                if call is not None:
                    items.append(_call(call, item if mine else {}))
            elif stored or item["type"] != "reasoning" or item.get("encrypted_content"):
                items.append(item)
        if any(each.get("type") == "refusal" for each in blocks):
            refusal = None  # said in its place
    if refusal:
        part = {"type": "refusal", "refusal": refusal}
        items.append({"type": "message", "role": "assistant", "content": [part]})
    items += [_call(call, {}) for call in in_written_order(whole.values(), broken.values())]
    return items


def _says_something(block: Mapping[str, Any]) -> bool:
    return bool(block) and not (block.get("type") == "text" and not block.get("text"))


def _call(call: Mapping[str, Any], block: Mapping[str, Any]) -> Item:
    args = call["args"]
    return item_of_call(call["name"] or "", args if args is not None else "", call["id"], block)


# -- from the wire


def is_rich(items: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a text and `tool_calls` cannot say what the items of an answer say."""
    called = texts = 0
    for item in items:
        kind = item.get("type")
        if kind == "message":
            texts += 1
            content = item.get("content") or ()
            parts = [part for part in content if not isinstance(part, str) and part.get("type") != "refusal"]
            if called or texts > 1 or item.get("phase") or len(parts) > 1:
                return True
            if any(part.get("annotations") for part in parts):
                return True
        elif kind == "function_call":
            called += 1
            if call_extras(item).keys() - {"item_id"}:
                return True
        else:
            return True
    return False


def message_from_response(response: Mapping[str, Any], *, rich: bool = False) -> AIMessage:
    """A model's answer: the message that its stream adds up to. `rich`: in blocks, whatever it holds."""
    items = response.get("output") or ()
    message = _message(items, rich or is_rich(items))
    usage = response.get("usage")
    message.usage_metadata = usage_from_response(usage) if usage else None
    message.response_metadata = metadata_from_response(response)
    scores = [each for item in items if item.get("type") == "message" for each in _scores(item)]
    if scores:
        message.response_metadata["logprobs"] = {"content": scores}
    return message


def _scores(item: Mapping[str, Any]) -> list[Any]:
    return [each for part in item.get("content") or () for each in part.get("logprobs") or ()]


def _message(items: Sequence[Mapping[str, Any]], rich: bool) -> AIMessage:
    blocks: list[Any] = [block for item in items for block in blocks_of_item(item)]
    refusals = [block["refusal"] for block in blocks if block["type"] == "refusal"]
    blocks = [block for block in blocks if block["type"] != "refusal"]
    calls, broken = split_calls(_bare(block) for block in blocks if block["type"] in ("tool_call", "invalid_tool_call"))
    content: Any = blocks if rich else "".join(block["text"] for block in blocks if block["type"] == "text")
    return AIMessage(
        content,
        tool_calls=calls,
        invalid_tool_calls=broken,
        additional_kwargs={"refusal": "".join(refusals)} if refusals else {},
    )


def _bare(call: Mapping[str, Any]) -> Any:
    return {key: value for key, value in call.items() if key != "extras"}


def messages_from_input(wire: Sequence[Mapping[str, Any]]) -> list[BaseMessage]:
    """The conversation in a request: what `messages_to_input` was given, but for what the wire has no place for (names,
    ids, artifacts, the borders between answers that follow one another)."""
    messages: list[BaseMessage] = []
    answer: list[Mapping[str, Any]] = []

    def close() -> None:
        if answer:
            plain = [item for item in answer if item.get("type", "message") == "message"]
            simple = all(isinstance(item.get("content"), str) or _is_refusal(item) for item in plain)
            messages.append(
                _message([{"type": "message", **item} for item in answer], not simple or is_rich_input(answer))
            )
            answer.clear()

    for item in wire:
        kind = item.get("type", "message")
        if kind.endswith("_output") and "call_id" in item and kind != "program_output":
            close()
            messages.append(ToolMessage(_from_parts(item["output"]), tool_call_id=item["call_id"]))
        elif kind == "message" and item["role"] != "assistant":
            close()
            said = _from_parts(item["content"])
            if item["role"] == "user":
                messages.append(HumanMessage(said))
            else:
                extra = {"openai_role": "developer"} if item["role"] == "developer" else None
                messages.append(SystemMessage(said, additional_kwargs=extra))
        else:
            answer.append(item)
    close()
    return messages


def is_rich_input(items: Sequence[Mapping[str, Any]]) -> bool:
    """As `is_rich`, of the items of an answer in a request."""
    return any(
        item.get("type", "message") not in ("message", "function_call")
        or (item.get("type") == "function_call" and bool(call_extras(item)))
        for item in items
    )


def _is_refusal(item: Mapping[str, Any]) -> bool:
    return all(part.get("type") == "refusal" for part in item["content"])


def _from_parts(content: Any) -> Any:
    if isinstance(content, str):
        return content
    plain = [{k: v for k, v in part.items() if (k, v) != ("detail", "auto")} for part in content]
    return [standard_block(part) for part in plain]


# -- facts about an answer


def finish_reason(response: Mapping[str, Any]) -> str | None:
    """Why an answer ended, in the words that all adapters use."""
    status = response.get("status")
    if status == "incomplete":
        reason = (response.get("incomplete_details") or {}).get("reason")
        return {"max_output_tokens": "length"}.get(reason or "", reason)
    if status not in (None, "completed"):
        return str(status)
    kinds = {item.get("type") for item in response.get("output") or ()}
    return "tool_calls" if kinds & {"function_call", "custom_tool_call"} else "stop"


_FACTS = ("id", "status", "incomplete_details", "service_tier", "conversation", "background", "moderation")


def metadata_from_response(response: Mapping[str, Any]) -> dict[str, Any]:
    """What an answer says about itself. `id` is what `previous_response_id` takes."""
    facts = {"finish_reason": finish_reason(response), "model_name": response.get("model")}
    return tidy({**facts, **{name: response.get(name) or None for name in _FACTS}})


def usage_from_response(usage: Mapping[str, Any]) -> UsageMetadata:
    """Tokens used, under our names."""
    given, made = usage.get("input_tokens") or 0, usage.get("output_tokens") or 0
    result: UsageMetadata = {
        "input_tokens": given,
        "output_tokens": made,
        "total_tokens": usage.get("total_tokens") or given + made,
    }
    told = usage.get("input_tokens_details") or {}
    into = tidy({"cache_read": told.get("cached_tokens"), "cache_creation": told.get("cache_write_tokens") or None})
    if into:
        result["input_token_details"] = into  # type: ignore[typeddict-item]
    thought = (usage.get("output_tokens_details") or {}).get("reasoning_tokens")
    if thought is not None:
        result["output_token_details"] = {"reasoning": thought}
    return result
