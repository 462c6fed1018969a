"""Messages, tools and answers as Anthropic's Messages API writes them, and back.

An answer that is one text, then calls, is a message with a text and `tool_calls`, as from any provider. One that holds
more (thinking, citations, tools that the provider ran) keeps its blocks in `content` as they came, each call at its
place, so that all of it goes back with its signatures.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runwell.errors import InvalidHistory, ModelConnectionError
from runwell.messages.calls import in_written_order, tool_call, tool_call_chunk, tool_call_place
from runwell.messages.chunks import AIMessageChunk
from runwell.messages.message import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from runwell.messages.normal import standard_block
from runwell.messages.usage import UsageMetadata
from runwell.models.foreign import readable_by
from runwell.models.outputs import ChatGenerationChunk
from runwell.models.roles import ROLE_OF, role_of_other
from runwell.observe.run import record_decision, watched
from runwell.providers.anthropic.blocks import block_to_wire, block_to_wire_of_answer

__all__ = [
    "FINISH",
    "ChunkReader",
    "message_from_wire",
    "messages_from_wire",
    "messages_to_wire",
    "metadata_from_wire",
    "usage_from_wire",
]

FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
"""Why an answer ended, in the words that all adapters use for `finish_reason`. Others stay as they are."""

Wire = list[dict[str, Any]]


# -- to the wire


def messages_to_wire(messages: Sequence[BaseMessage], *, system_in_middle: bool = False) -> tuple[Any, Wire]:
    """(`system`, `messages`) of a request; `system` is None without any.

    Leading system messages are `system`. A later one stays in its place where the model takes it there, which is
    after a turn of the user's; otherwise it goes to the end of `system`, and the decision B9 is recorded. Results of
    one turn stand in one message. Raises InvalidHistory, naming the place, for what cannot be sent.
    """
    system: list[Any] = []
    wire: Wire = []
    for index, message in enumerate(messages):
        role = ROLE_OF.get(message.type) or role_of_other(message, index, "cannot be sent to Anthropic")
        if role == "system":
            if wire and system_in_middle and wire[-1]["role"] == "user":
                wire.append({"role": "system", "content": _content(message, index)})
                continue
            if wire and watched():
                reason = f"message {index} is one of the system, and this model takes none there"
                record_decision("B9", "moved to the top", reason, "code")
            system.append(_content(message, index))
        elif role == "tool":
            result = _tool_result(message, index)
            if wire and wire[-1]["role"] == "user" and _holds_results(wire[-1]):
                wire[-1]["content"].append(result)
            else:
                wire.append({"role": "user", "content": [result]})
        elif role == "assistant":
            blocks = _assistant(message)
            if blocks:  # a turn without a word cannot be sent, and says nothing
                wire.append({"role": "assistant", "content": blocks})
        else:
            wire.append({"role": role, "content": _content(message, index)})
    if not wire:
        raise InvalidHistory(
            "Anthropic is sent nothing to answer: the history holds instructions alone, or empty answers.",
            hint="Add a HumanMessage.",
        )
    return _system(system), wire


def _system(contents: list[Any]) -> Any:
    if len(contents) < 2:
        return contents[0] if contents else None
    return [block for content in contents for block in _as_blocks(content)]


def _as_blocks(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _content(message: BaseMessage, index: int) -> Any:
    content = message.content
    if isinstance(content, str):
        if not content:
            raise InvalidHistory(
                f"Message {index}, a {type(message).__name__}, is empty.", hint="Leave it out, or say something in it."
            )
        return content
    return [block_to_wire(block) for block in content if block]


def _tool_result(message: Any, index: int) -> dict[str, Any]:
    content = message.content
    if not isinstance(content, str):
        content = [block_to_wire(block) for block in content if block]
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": content}
    if message.status == "error":
        result["is_error"] = True
    cached = (message._kwargs or {}).get("cache_control")
    if cached:
        result["cache_control"] = cached
    return result


def _holds_results(turn: Mapping[str, Any]) -> bool:
    content = turn["content"]
    return isinstance(content, list) and bool(content) and content[0]["type"] == "tool_result"


def _assistant(message: Any) -> Any:
    """The blocks of an answer. What its `tool_calls` say goes: a call changed or dropped there is so on the wire."""
    content = message.content
    calls = {call["id"]: call for call in getattr(message, "tool_calls", ())}
    broken = [call for call in getattr(message, "invalid_tool_calls", ()) if call["id"]]
    if isinstance(content, str) and not calls and not broken:
        return content
    blocks: Wire = []
    for block in [content] if isinstance(content, str) else readable_by("anthropic", content):
        if isinstance(block, dict) and block.get("type") in ("tool_call", "tool_use"):
            call = calls.pop(block.get("id"), None)
            if call is not None:
                blocks.append(_call(call, block))
        elif block:
            sent = block_to_wire_of_answer(block)
            if sent is not None:
                blocks.append(sent)
    # A call that could not be read has no place on this wire; what is said of it is in the result that follows, which
    # needs a call to answer.
    blocks += [
        _call(call, {})
        if isinstance(call["args"], dict)
        else {"type": "tool_use", "id": call["id"], "name": call["name"] or "unknown", "input": _said(call["args"])}
        for call in in_written_order(calls.values(), broken)
    ]
    return blocks


def _call(call: Mapping[str, Any], block: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in block.items() if key not in ("type", "id", "name", "args", "input", "extras")}
    return {
        **kept,
        **(block.get("extras") or {}),
        "type": "tool_use",
        "id": call["id"],
        "name": call["name"],
        "input": call["args"],
    }


def _said(args: str | None) -> dict[str, Any]:
    return {"malformed_arguments": args} if args else {}


# -- from the wire


def messages_from_wire(system: Any, wire: Sequence[Mapping[str, Any]]) -> list[BaseMessage]:
    """The conversation in a request: what `messages_to_wire` was given, but for what the wire has no place for (names,
    ids, artifacts)."""
    messages: list[BaseMessage] = [SystemMessage(_from_wire(system))] if system else []
    for turn in wire:
        role, content = turn["role"], turn["content"]
        if role == "assistant":
            messages.append(message_from_wire({"content": _as_blocks(content)}))
        elif role == "system":
            messages.append(SystemMessage(_from_wire(content)))
        else:
            results = [] if isinstance(content, str) else [each for each in content if each["type"] == "tool_result"]
            for result in results:
                extra = {"cache_control": result["cache_control"]} if result.get("cache_control") else None
                messages.append(
                    ToolMessage(
                        _from_wire(result.get("content") or ""),
                        tool_call_id=result["tool_use_id"],
                        status="error" if result.get("is_error") else "success",
                        additional_kwargs=extra,
                    )
                )
            rest = content if isinstance(content, str) else [each for each in content if each not in results]
            if rest or not results:
                messages.append(HumanMessage(_from_wire(rest)))
    return messages


def _from_wire(content: Any) -> Any:
    return content if isinstance(content, str) else [standard_block(block) for block in content]


def message_from_wire(
    wire: Mapping[str, Any], usage: Mapping[str, Any] | None = None, *, rich: bool = False
) -> AIMessage:
    """A model's answer: the message that its stream adds up to. `rich` as for `ChunkReader`."""
    content: list[Any] = []
    calls: list[Any] = []
    seen = rich
    texts = 0
    for block in map(_tidy, wire.get("content") or ()):
        seen = seen or _is_rich(block, texts, bool(calls))
        if block["type"] == "tool_use":
            calls.append(tool_call(name=block["name"], args=block["input"], id=block["id"]))
            content.append(_with_call(block))
        else:
            texts += block["type"] == "text"
            content.append(block if seen else block["text"])
    return AIMessage(
        content if seen else "".join(each for each in content if isinstance(each, str)),
        tool_calls=calls,
        additional_kwargs=_refusal(wire),
        usage_metadata=usage_from_wire(usage) if usage else None,
    )


_PLAIN_CALL = frozenset({"type", "id", "name", "input"})


def _is_rich(block: Mapping[str, Any], texts: int, called: bool) -> bool:
    """Whether a message's text and `tool_calls` cannot say it, after so many texts and perhaps calls."""
    kind = block["type"]
    if kind == "text":
        return len(block) > 2 or texts > 0 or called
    return kind != "tool_use" or block.keys() != _PLAIN_CALL


def _tidy(block: Mapping[str, Any]) -> dict[str, Any]:
    """Without the fields that say nothing, which a stream leaves out."""
    return {key: value for key, value in block.items() if value is not None and not (key == "citations" and not value)}


def _with_call(block: Mapping[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {"type": "tool_call", "name": block["name"], "args": block["input"], "id": block["id"]}
    extras = {key: value for key, value in block.items() if key not in _PLAIN_CALL}
    return {**said, "extras": extras} if extras else said


def _refusal(wire: Mapping[str, Any]) -> dict[str, Any]:
    if wire.get("stop_reason") != "refusal":
        return {}
    details = wire.get("stop_details") or {}
    told = details.get("explanation") or "The provider ended the answer for reasons of policy."
    category = details.get("category")
    return {"refusal": f"{told} ({category})" if category else told}


class ChunkReader:
    """Reads the events of one streamed answer.

    Chunks hold plain texts and fragments of calls until something comes that they cannot say (thinking, citations,
    tools that the provider ran), or from the start if `rich`; from then on they hold blocks.
    """

    __slots__ = ("_blocks", "_called", "_json", "_message", "_rich", "_stop", "_texts", "_usage")

    def __init__(self, rich: bool = False) -> None:
        self._rich = rich
        self._texts = 0
        self._called: list[tuple[str | None, int]] = []
        """The calls that were told beside the content, by id and index."""
        self._blocks: dict[int, dict[str, Any]] = {}
        self._json: dict[int, list[str]] = {}
        self._message: Mapping[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._stop: dict[str, Any] = {}

    def take(self, event: Any) -> Iterator[ChatGenerationChunk]:
        """The chunk in an event, if it says anything."""
        if not isinstance(event, dict):
            return
        kind = event.get("type")
        chunk, was_rich = None, self._rich
        if kind == "content_block_delta":
            chunk = self._delta(event["index"], event["delta"])
        elif kind == "content_block_start":
            chunk = self._start(event["index"], event["content_block"])
        elif kind == "content_block_stop":
            chunk = self._whole(event["index"])
        elif kind == "message_start":
            self._message = event["message"]
            self._take_usage(self._message.get("usage"))
        elif kind == "message_delta":
            self._stop.update(event.get("delta") or {})
            self._take_usage(event.get("usage"))
        if self._rich and not was_rich and self._called:  # what comes now stands behind them
            places = [tool_call_place(call_id, index) for call_id, index in self._called]
            yield ChatGenerationChunk(AIMessageChunk(places, tool_call_chunks=()))
        if chunk is not None:
            yield ChatGenerationChunk(chunk)

    def _take_usage(self, usage: Mapping[str, Any] | None) -> None:
        """The counts of later events are of the whole answer so far."""
        self._usage.update((key, value) for key, value in (usage or {}).items() if value is not None)

    def _start(self, index: int, block: Mapping[str, Any]) -> AIMessageChunk | None:
        block = _tidy(block)
        kind = block["type"]
        self._blocks[index] = block
        self._rich = self._rich or _is_rich(block, self._texts, bool(self._called))
        if kind == "text":
            self._texts += 1
            return self._text(index, block) if block["text"] or len(block) > 2 else None
        if kind == "tool_use":
            if not self._rich:
                self._called.append((block["id"], index))
            arguments = json.dumps(block["input"], ensure_ascii=False) if block["input"] else ""
            extras = {key: value for key, value in block.items() if key not in _PLAIN_CALL}
            return self._fragment(index, arguments, block["name"], block["id"], extras)
        if kind == "server_tool_use" or kind == "mcp_tool_use":
            self._json[index] = []
            return None  # whole at its end: nobody waits for its arguments
        return AIMessageChunk([{**block, "index": index}])

    def _delta(self, index: int, delta: Mapping[str, Any]) -> AIMessageChunk | None:
        kind = delta["type"]
        if kind == "text_delta":
            return self._text(index, {"text": delta["text"]}) if delta["text"] else None
        if kind == "input_json_delta":
            if index in self._json:
                self._json[index].append(delta["partial_json"])
                return None
            return self._fragment(index, delta["partial_json"]) if delta["partial_json"] else None
        block = self._blocks.get(index) or {"type": "text"}
        if kind == "citations_delta":
            self._rich = True
            return AIMessageChunk([{"type": "text", "text": "", "citations": [delta["citation"]], "index": index}])
        fields = {key: value for key, value in delta.items() if key != "type"}  # thinking, signature
        return AIMessageChunk([{"type": block["type"], **fields, "index": index}])

    def _text(self, index: int, block: Mapping[str, Any]) -> AIMessageChunk:
        if not self._rich:
            return AIMessageChunk(block["text"])
        return AIMessageChunk([{**block, "type": "text", "index": index}])

    def _fragment(
        self,
        index: int,
        arguments: str,
        name: str | None = None,
        id: str | None = None,
        extras: Mapping[str, Any] | None = None,
    ) -> AIMessageChunk:
        fragment: dict[str, Any] = dict(tool_call_chunk(name=name, args=arguments, id=id, index=index))
        if not self._rich:
            return AIMessageChunk("", tool_call_chunks=[fragment])
        if extras:
            fragment["extras"] = dict(extras)
        return AIMessageChunk([fragment])

    def _whole(self, index: int) -> AIMessageChunk | None:
        parts = self._json.pop(index, None)
        if parts is None:
            return None
        block = self._blocks[index]
        if any(parts):
            block = {**block, "input": json.loads("".join(parts))}
        return AIMessageChunk([{**block, "index": index}])

    def end(self, who: str | None) -> ChatGenerationChunk:
        """The last chunk. Raises ModelConnectionError if the stream stopped before the answer was complete."""
        if not self._stop.get("stop_reason"):
            raise ModelConnectionError(f"{who} ended the stream before the answer was complete.")
        said = {**self._message, **{key: value for key, value in self._stop.items() if value is not None}}
        chunk = AIMessageChunk(
            "",
            additional_kwargs=_refusal(said),
            response_metadata=metadata_from_wire(said),
            usage_metadata=usage_from_wire(self._usage) if self._usage else None,
            chunk_position="last",
        )
        return ChatGenerationChunk(chunk)


def metadata_from_wire(answer: Mapping[str, Any]) -> dict[str, Any]:
    """What an answer says about itself."""
    reason = answer.get("stop_reason")
    metadata = {
        "finish_reason": FINISH.get(reason or "", reason),
        "stop_reason": reason,
        "stop_sequence": answer.get("stop_sequence"),
        "stop_details": answer.get("stop_details"),
        "model_name": answer.get("model"),
        "id": answer.get("id"),
        "container": answer.get("container"),
        "context_management": answer.get("context_management"),
    }
    return {name: value for name, value in metadata.items() if value is not None}


def usage_from_wire(usage: Mapping[str, Any]) -> UsageMetadata:
    """Tokens used, under our names. As everywhere, `input_tokens` counts what the cache gave and took."""
    read = usage.get("cache_read_input_tokens")
    made = usage.get("cache_creation_input_tokens")
    given = (usage.get("input_tokens") or 0) + (read or 0) + (made or 0)
    written = usage.get("output_tokens") or 0
    result: UsageMetadata = {"input_tokens": given, "output_tokens": written, "total_tokens": given + written}
    details = {"cache_creation": made, "cache_read": read}
    if any(value is not None for value in details.values()):
        result["input_token_details"] = {k: v for k, v in details.items() if v is not None}  # type: ignore[typeddict-item]
    thought = (usage.get("output_tokens_details") or {}).get("thinking_tokens")
    if thought is not None:
        result["output_token_details"] = {"reasoning": thought}
    return result
