"""Messages, tools and answers as the OpenAI chat completions format writes them, and back.

Many servers speak it, so adapters share this file. Nothing is lost on the way: what a server adds beyond the format is
kept in `additional_kwargs` and sent back to it with the message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import SchemaSerializer, core_schema

from runwell.errors import InvalidHistory, ModelConnectionError
from runwell.messages.calls import in_written_order, json_text, malformed_args, parse_calls, tool_call_chunk
from runwell.messages.chunks import AIMessageChunk
from runwell.messages.message import AIMessage, BaseMessage, HumanMessage, ToolMessage
from runwell.messages.normal import standard_block
from runwell.messages.usage import UsageMetadata
from runwell.models.foreign import readable_by
from runwell.models.outputs import ChatGenerationChunk
from runwell.models.roles import OTHER_WORDS, ROLE_OF

__all__ = ["ChunkReader", "args_text", "message_from_wire", "messages_to_wire", "metadata_from_wire", "usage_from_wire"]

# Blocks that the message carries elsewhere, or that this format has no place for and no need of: thoughts, and calls
# that another vendor ran. What those calls found is sent as text.
_NOT_SENT = frozenset(
    {"tool_call", "tool_use", "invalid_tool_call", "tool_call_chunk", "reasoning", "thinking", "redacted_thinking"}
    | {"server_tool_call", "server_tool_call_chunk", "server_tool_use", "mcp_tool_use"}
)

_TAKEN = frozenset({"refusal", "audio", "function_call"})
"""What the format itself has beside a text and calls."""


_IN_NAMES = re.compile(r"[\s<|\\/>]+")
"""What the name of whoever speaks must not hold."""

# -- to the wire


def messages_to_wire(
    messages: Sequence[BaseMessage], strictly: bool = False, readable: bool = False
) -> list[dict[str, Any]]:
    """The request's `messages`. An image or file in a tool's result, for which the format has no place, follows in a
    user message after the results of that turn. Raises InvalidHistory, naming the place, for what cannot be sent.

    `strictly`: answers without what servers add beyond the format, which OpenAI itself refuses. `readable`: arguments
    that a model wrote as no JSON are sent as JSON that holds them, for servers that read them (vLLM, llama.cpp).
    """
    wire: list[dict[str, Any]] = []
    media: list[dict[str, Any]] = []
    append = wire.append
    message: Any
    for message in messages:
        # A text and calls: nearly all of a long history is like this. Each class has lines of its own, since Python
        # reads an attribute several times as fast where it always finds the same class.
        kind = type(message)
        if kind is AIMessage:
            text = message.content
            if type(text) is str and text and message.name is None and not message._kwargs and not media:
                if message.tool_calls or message.invalid_tool_calls:
                    calls = _calls(message.tool_calls, message.invalid_tool_calls, readable)
                    append({"role": "assistant", "content": text, "tool_calls": calls})
                else:
                    append({"role": "assistant", "content": text})
                continue
        elif kind is ToolMessage:
            text = message.content
            if type(text) is str:
                append({"role": "tool", "tool_call_id": message.tool_call_id, "content": text})
                continue
        elif kind is HumanMessage:
            text = message.content
            if type(text) is str and text and message.name is None and not message._kwargs and not media:
                append({"role": "user", "content": text})
                continue
        role = ROLE_OF.get(message.type)
        if media and role != "tool":
            append({"role": "user", "content": media})
            media = []
        if role == "tool":
            append(_tool_result(message, media))
        elif role == "assistant":
            append(_assistant(message, strictly, readable))
        else:
            append(_said(message, role or _other_role(message, messages)))
    if media:
        append({"role": "user", "content": media})
    return wire


def _other_role(message: BaseMessage, among: Sequence[BaseMessage]) -> str:
    if message.type.startswith("function"):
        return "function"
    role = getattr(message, "role", None)
    if role is None:
        index = next(at for at, each in enumerate(among) if each is message)
        raise InvalidHistory(
            f"Message {index} is a {type(message).__name__}, which is an instruction to a history, not part of one.",
            hint="Apply it first: add_messages(history, [RemoveMessage(...)]).",
        )
    return OTHER_WORDS.get(role, str(role))


def _said(message: BaseMessage, role: str) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": role, "content": _parts(message.content)}
    if role == "system" and (message._kwargs or {}).get("openai_role") == "developer":
        wire["role"] = "developer"
    if message.name is not None:
        wire["name"] = _IN_NAMES.sub("_", message.name)
    return wire


def _assistant(message: Any, strictly: bool, readable: bool) -> dict[str, Any]:
    extra = message._kwargs or {}
    if extra:
        extra = {
            key: value
            for key, value in extra.items()
            if (key in _TAKEN if strictly else key != "tool_plan" and not (key == "annotations" and _is_ours(value)))
        }
    content = message.content
    if not isinstance(content, str):
        content = readable_by("", content)
        if (message._facts or {}).get("model_provider"):  # items of the Responses API, which this one does not know
            content = [each for each in content if isinstance(each, str) or each.get("type") != "non_standard"]
    wire: dict[str, Any] = {**extra, "role": "assistant", "content": _parts(content) or ""}
    calls = message.tool_calls
    if calls or message.invalid_tool_calls:
        wire["tool_calls"] = _calls(calls, message.invalid_tool_calls, readable)
    if not wire["content"] and (calls or message.invalid_tool_calls or "refusal" in extra or "function_call" in extra):
        wire["content"] = None
    if message.name is not None:
        wire["name"] = _IN_NAMES.sub("_", message.name)
    return wire


def _is_ours(notes: Any) -> bool:
    """Whether annotations are in our form, which another vendor's adapter gave them."""
    return any(isinstance(note, Mapping) and note.get("type") == "citation" for note in notes)


_to_json = SchemaSerializer(core_schema.any_schema(), core_schema.CoreConfig(ser_json_inf_nan="constants")).to_json
"""`pydantic_core.to_json`, which puts a serializer together for each call."""


def args_text(args: Any) -> str:
    """Arguments as models write them, without blanks: a provider's cache then knows the answer as its own."""
    try:
        return _to_json(args).decode()
    except (ValueError, RecursionError):  # half a character, or what JSON cannot hold
        return json_text(args)


def _calls(whole: Sequence[Any], broken: Sequence[Any], readable: bool) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []
    for call in in_written_order(whole, broken) if broken else whole:
        args = call["args"]
        if not broken or isinstance(args, dict):
            said = args_text(args)
        else:
            said = malformed_args(args) if readable else args or ""
        function = {"name": call["name"] or "", "arguments": said}
        calls.append({"id": call["id"], "type": "function", "function": function})
    return calls


def _tool_result(message: Any, media: list[dict[str, Any]]) -> dict[str, Any]:
    content = message.content
    if not isinstance(content, str):
        parts = _parts(content)
        texts = [part for part in parts if part.get("type") == "text"]
        others = [part for part in parts if part.get("type") != "text"]
        if others:
            media.append({"type": "text", "text": f"From the result of the tool call {message.tool_call_id}:"})
            media.extend(others)
        content = texts or "(see the next message)"
    return {"role": "tool", "tool_call_id": message.tool_call_id, "content": content}


def _parts(content: Any) -> Any:
    if isinstance(content, str):
        return content
    parts: list[dict[str, Any]] = []
    for block in content:
        if isinstance(block, str):
            parts.append({"type": "text", "text": block})
        elif (block["value"] if _is_kept_whole(block) else block).get("type") not in _NOT_SENT:
            parts.append(_part(block))
    return parts


def _is_kept_whole(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "non_standard" and isinstance(block.get("value"), Mapping)


def _part(block: Mapping[str, Any]) -> dict[str, Any]:
    """A standard block as the format's own; anything else goes as it is, for the server to judge."""
    if isinstance(block.get("source"), Mapping) or str(block.get("type")).endswith("_tool_result"):
        block = dict(standard_block(block))  # another vendor's
    kind = block.get("type")
    if kind == "server_tool_result":
        return {"type": "text", "text": json_text(block.get("output"))}
    if kind in ("text", "output_text", "input_text") or (kind is None and isinstance(block.get("text"), str)):
        return {"type": "text", "text": block.get("text", "")}
    if kind == "text-plain" and block.get("text") is not None:
        return {"type": "text", "text": block.get("text", "")}
    if kind == "image" and ("url" in block or "base64" in block):
        image = {"url": block["url"] if block.get("url") else _data_url(block, "image/png")}
        detail = block.get("detail") or (block.get("extras") or {}).get("detail")
        return {"type": "image_url", "image_url": {**image, **({"detail": detail} if detail else {})}}
    if kind == "audio" and "base64" in block:
        form = str(block.get("mime_type", "audio/wav")).partition("/")[2].removeprefix("x-")
        return {"type": "input_audio", "input_audio": {"data": block["base64"], "format": _AUDIO.get(form, form)}}
    if kind in ("file", "text-plain") and not _DATA.isdisjoint(block):
        if block.get("file_id"):
            return {"type": "file", "file": {"file_id": block["file_id"]}}
        name = block.get("filename") or (block.get("extras") or {}).get("filename") or "file"
        plain = "application/pdf" if kind == "file" else "text/plain"
        data = block["url"] if block.get("url") else _data_url(block, plain)
        return {"type": "file", "file": {"filename": name, "file_data": data}}
    if kind == "image_url" and isinstance(block.get(kind), str):  # as older programs write it
        return {"type": kind, kind: {"url": block[kind]}}
    if kind == "non_standard" and isinstance(block.get("value"), Mapping):
        return dict(block["value"])
    return dict(block)


_DATA = frozenset(("url", "base64", "file_id"))
_AUDIO = {"mpeg": "mp3", "wave": "wav"}


def _data_url(block: Mapping[str, Any], kind: str) -> str:
    return f"data:{block.get('mime_type') or kind};base64,{block['base64']}"


# -- from the wire

_MESSAGE_FIELDS = frozenset({"role", "content", "tool_calls", "name"})
_ABOUT_CHOICE = ("content_filter_results",)
_ABOUT_ANSWER = ("prompt_filter_results", "citations", "search_results", "provider")
"""What some servers tell beside an answer."""


def message_from_wire(
    wire: Mapping[str, Any], usage: Mapping[str, Any] | None = None, *, thoughts: str = "reasoning_content"
) -> AIMessage:
    """A model's answer. Calls with broken arguments are in `invalid_tool_calls`, as the model wrote them. `thoughts` is
    the field that the server has them in; ours is `additional_kwargs["reasoning_content"]`."""
    content = wire.get("content")
    calls, broken = parse_calls([_fragment(call, None) for call in wire.get("tool_calls") or ()])
    return AIMessage(
        content if content is not None else "",
        name=wire.get("name"),
        tool_calls=calls,
        invalid_tool_calls=broken,
        additional_kwargs=_extra(wire, thoughts),
        usage_metadata=usage_from_wire(usage) if usage else None,
    )


def _extra(wire: Mapping[str, Any], thoughts: str) -> dict[str, Any]:
    """What a message says beyond the format, with thoughts under our name."""
    extra = {key: value for key, value in wire.items() if value is not None and key not in _MESSAGE_FIELDS}
    if thoughts != "reasoning_content":
        told = extra.pop(thoughts, None)
        if told:
            extra["reasoning_content"] = told
    return extra


def metadata_from_wire(
    answer: Mapping[str, Any], choice: Mapping[str, Any], request_id: str | None = None
) -> dict[str, Any]:
    """What an answer says about itself."""
    metadata = {
        "finish_reason": choice.get("finish_reason"),
        "model_name": answer.get("model"),
        "id": answer.get("id"),
        "system_fingerprint": answer.get("system_fingerprint"),
        "service_tier": answer.get("service_tier"),
        "logprobs": choice.get("logprobs"),
        "request_id": request_id,
        **{name: choice.get(name) or None for name in _ABOUT_CHOICE},
        **{name: answer.get(name) or None for name in _ABOUT_ANSWER},
        "cost": (answer.get("usage") or {}).get("cost"),
    }
    return {name: value for name, value in metadata.items() if value is not None}


class ChunkReader:
    """Reads the events of one streamed answer.

    What the whole answer took, why it ended and which model gave it come once, in the last chunk, whether the server
    says them once or with every event. `thoughts` as for `message_from_wire`.
    """

    __slots__ = ("_details", "_metadata", "_thoughts", "_usage")

    def __init__(self, thoughts: str = "reasoning_content") -> None:
        self._usage: Mapping[str, Any] | None = None
        self._metadata: dict[str, Any] = {}
        self._thoughts = thoughts
        self._details: list[Any] = []

    def take(self, event: Any) -> Sequence[ChatGenerationChunk]:
        """The chunk in an event, if it says anything."""
        if not isinstance(event, dict):
            return ()
        choices = event.get("choices")
        if event.get("usage"):
            self._usage = event["usage"]
        if not choices:
            self._tell(event, _ABOUT_ANSWER)
            return ()
        choice = choices[0]
        delta = choice.get("delta")
        if delta and choice.keys() <= _SIMPLE:
            content = delta.get("content")  # nearly all are like this
            if (
                content
                and not (choice.get("finish_reason") or choice.get("index") or choice.get("logprobs"))
                and (len(delta) == 1 or not any(delta[key] for key in delta if key not in _PLAIN))
            ):
                return (ChatGenerationChunk(AIMessageChunk(content)),)
        found = []
        for choice in choices:
            if choice.get("index"):
                continue  # one answer was asked for
            found += self._of_choice(choice, event)
        return found

    def _of_choice(self, choice: Mapping[str, Any], event: Mapping[str, Any]) -> list[ChatGenerationChunk]:
        self._tell(choice, _ABOUT_CHOICE)
        if choice.get("finish_reason"):
            self._metadata["finish_reason"] = choice["finish_reason"]
            told = event.get("x_groq")
            if told and told.get("usage"):
                self._usage = told["usage"]
            self._tell(event, _ABOUT_ANSWER)
            for key, name in _LAST.items():
                if event.get(key) is not None:
                    self._metadata[name] = event[key]
        message = self._chunk(choice.get("delta") or {})
        logprobs = choice.get("logprobs")
        if logprobs:
            message = message or AIMessageChunk("")
            message.response_metadata = {"logprobs": logprobs}
        return [] if message is None else [ChatGenerationChunk(message)]

    def _tell(self, said: Mapping[str, Any], names: Sequence[str]) -> None:
        for name in names:
            if said.get(name):
                self._metadata[name] = said[name]

    def _chunk(self, delta: Mapping[str, Any]) -> AIMessageChunk | None:
        """A piece of the answer; None if it is empty. Call fragments without an index are numbered by their place."""
        content = delta.get("content")
        calls = delta.get("tool_calls")
        extra = _extra(delta, self._thoughts)
        if "reasoning_details" in extra:  # whole at the end: nobody waits for what only their sayer can read
            self._details += extra.pop("reasoning_details")
        if not content and not calls and not any(extra.values()):
            return None
        return AIMessageChunk(
            content or "",
            tool_call_chunks=[_fragment(call, place) for place, call in enumerate(calls)] if calls else None,
            additional_kwargs=extra or None,
        )

    def end(self, who: str | None) -> ChatGenerationChunk:
        """The last chunk. Raises ModelConnectionError if the stream stopped before the answer was complete."""
        if "finish_reason" not in self._metadata:
            raise ModelConnectionError(f"{who} ended the stream before the answer was complete.")
        usage = usage_from_wire(self._usage) if self._usage else None
        if usage and self._usage and self._usage.get("cost") is not None:
            self._metadata["cost"] = self._usage["cost"]
        return ChatGenerationChunk(
            AIMessageChunk(
                "",
                additional_kwargs={"reasoning_details": joined_details(self._details)} if self._details else None,
                response_metadata=self._metadata,
                usage_metadata=usage,
                chunk_position="last",
            )
        )


_PLAIN = frozenset({"content", "role"})
_SIMPLE = frozenset({"index", "delta", "finish_reason", "logprobs"})
_LAST = {"model": "model_name", "id": "id", "system_fingerprint": "system_fingerprint", "service_tier": "service_tier"}


def joined_details(pieces: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Pieces of a model's thoughts, as OpenRouter streams them, put together: those of one kind and place are one."""
    found: list[dict[str, Any]] = []
    for piece in pieces:
        last = found[-1] if found else {}
        if (
            last
            and all(last.get(key) == piece.get(key) for key in ("type", "index"))
            and piece.get("index") is not None
        ):
            for key, value in piece.items():
                joins = key in ("text", "summary", "data") and isinstance(last.get(key), str) and isinstance(value, str)
                last[key] = last[key] + value if joins else value if value is not None else last.get(key)
        else:
            found.append(dict(piece))
    return found


def _fragment(call: Mapping[str, Any], place: int | None) -> Any:
    function = call.get("function") or call.get("custom") or {}
    arguments = function.get("arguments", function.get("input"))
    if arguments is not None and not isinstance(arguments, str):  # some servers send them parsed
        arguments = json_text(arguments)
    index = call.get("index")
    return tool_call_chunk(
        name=function.get("name") or None,
        args=arguments,
        id=call.get("id") or None,
        index=index if index is not None else place,
    )


def usage_from_wire(usage: Mapping[str, Any]) -> UsageMetadata:
    """Tokens used, under our names; details only where the server says them."""
    given, made = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
    result: UsageMetadata = {
        "input_tokens": given,
        "output_tokens": made,
        "total_tokens": usage.get("total_tokens") or given + made,
    }
    told = usage.get("prompt_tokens_details") or {}
    cached = told.get("cached_tokens", usage.get("prompt_cache_hit_tokens"))
    into = {"audio": told.get("audio_tokens"), "cache_read": cached}
    if any(value is not None for value in into.values()):
        result["input_token_details"] = {k: v for k, v in into.items() if v is not None}  # type: ignore[typeddict-item]
    told = usage.get("completion_tokens_details") or {}
    out = {"audio": told.get("audio_tokens"), "reasoning": told.get("reasoning_tokens")}
    if any(value is not None for value in out.values()):
        result["output_token_details"] = {k: v for k, v in out.items() if v is not None}  # type: ignore[typeddict-item]
    return result
