"""Messages and answers as Cohere's chat API (v2) writes them, and back.

What the model says before its calls, its plan, is the text of the message, and goes back as its plan. An answer that is
one text, or a plan, is a text; one that holds more (thoughts, several texts) keeps its blocks in `content`. Citations
stand in the text's block, and for a text that is no block in `additional_kwargs["annotations"]`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runwell.errors import InvalidHistory, ModelConnectionError
from runwell.messages.calls import parse_calls, tool_call_chunk
from runwell.messages.chunks import AIMessageChunk
from runwell.messages.message import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from runwell.messages.usage import UsageMetadata
from runwell.models.outputs import ChatGenerationChunk
from runwell.models.roles import ROLE_OF, role_of_other
from runwell.providers.cohere.blocks import (
    blocks_of_answer,
    citation_from_wire,
    message_of_answer,
    parts_to_wire,
    result_from_wire,
    result_to_wire,
    standard_parts,
)

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
    "COMPLETE": "stop",
    "STOP_SEQUENCE": "stop",
    "MAX_TOKENS": "length",
    "TOOL_CALL": "tool_calls",
    "ERROR_TOXIC": "content_filter",
}
"""Why an answer ended, in the words that all adapters use for `finish_reason`. Others stay as they are."""

Wire = list[dict[str, Any]]


# -- to the wire


def messages_to_wire(messages: Sequence[BaseMessage]) -> Wire:
    """The request's `messages`. Pictures of a tool's result, for which the API has no place, follow in a user's
    message after the results of that turn. Raises InvalidHistory, naming the place, for what cannot be sent."""
    wire: Wire = []
    shown: list[dict[str, Any]] = []
    for index, message in enumerate(messages):
        role = ROLE_OF.get(message.type) or role_of_other(message, index, "cannot be sent to Cohere")
        if shown and role != "tool":
            wire.append(_showing(shown))
            shown = []
        if role == "tool":
            wire.append(result_to_wire(message, shown))
        elif role == "assistant":
            answer = message_of_answer(message)
            if len(answer) > 1:  # a turn without a word cannot be sent, and says nothing
                wire.append(answer)
        else:
            content = parts_to_wire(message.content)
            if content:
                wire.append({"role": role, "content": content})
            elif role == "user":
                raise InvalidHistory(
                    f"Message {index}, a {type(message).__name__}, is empty.",
                    hint="Leave it out, or say something in it.",
                )
    if shown:
        wire.append(_showing(shown))
    return wire


def _showing(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": "From the tools' results:"}, *parts]}


# -- from the wire


def messages_from_wire(wire: Sequence[Mapping[str, Any]]) -> list[BaseMessage]:
    """The conversation in a request: what `messages_to_wire` was given, but for what the wire has no place for (names,
    ids, artifacts)."""
    messages: list[BaseMessage] = []
    for turn in wire:
        role, content = turn["role"], turn.get("content") or ""
        if role == "assistant":
            messages.append(message_from_wire(turn))
        elif role == "tool":
            text, status = result_from_wire(content)
            messages.append(ToolMessage(text, tool_call_id=turn["tool_call_id"], status=status))
        else:
            kind = SystemMessage if role == "system" else HumanMessage
            messages.append(kind(standard_parts(content)))
    return messages


def message_from_wire(wire: Mapping[str, Any], usage: Mapping[str, Any] | None = None) -> AIMessage:
    """A model's answer: the message that its stream adds up to. Calls with broken arguments are in
    `invalid_tool_calls`, as the model wrote them."""
    fragments = [_fragment(call, None) for call in wire.get("tool_calls") or ()]
    content, notes, is_plan = blocks_of_answer(wire)
    extra: dict[str, Any] = {"annotations": notes} if notes else {}
    if fragments and not is_plan:
        extra["tool_plan"] = ""
    calls, broken = parse_calls(fragments)
    return AIMessage(
        content,
        tool_calls=calls,
        invalid_tool_calls=broken,
        additional_kwargs=extra,
        usage_metadata=usage_from_wire(usage) if usage else None,
    )


def _fragment(call: Mapping[str, Any], place: int | None) -> Any:
    function = call.get("function") or {}
    return tool_call_chunk(
        name=function.get("name") or None,
        args=function.get("arguments"),
        id=call.get("id") or None,
        index=place,
    )


class ChunkReader:
    """Reads the events of one streamed answer.

    Chunks hold a plain text and fragments of calls until something comes that they cannot say (thoughts, a second
    text); from then on they hold blocks, each text but a plan at its place.
    """

    __slots__ = ("_bare", "_calls", "_id", "_kinds", "_last", "_rich")

    def __init__(self) -> None:
        self._rich = False
        self._bare: str | int | None = None
        """What the plain text is: "plan", or the index of a content."""
        self._kinds: dict[int, str] = {}
        self._calls = 0
        self._id: str | None = None
        self._last: Mapping[str, Any] | None = None

    def take(self, event: Any) -> Iterator[ChatGenerationChunk]:
        """The chunk in an event, if it says anything."""
        kind = event.get("type")
        said = (event.get("delta") or {}).get("message") or {}
        chunk = None
        if kind == "content-delta":
            chunk = self._content(event.get("index") or 0, said.get("content") or {}, event.get("logprobs"))
        elif kind == "content-start":
            content = said.get("content") or {}
            index = event.get("index") or 0
            self._kinds[index] = content.get("type") or ("thinking" if content.get("thinking") else "text")
            chunk = self._content(index, content, None)
        elif kind == "tool-plan-delta":
            chunk = self._plan(said.get("tool_plan") or "")
        elif kind in ("tool-call-start", "tool-call-delta"):
            chunk = self._call(event.get("index"), said.get("tool_calls") or {}, begins=kind == "tool-call-start")
        elif kind == "citation-start":
            chunk = self._cited(said.get("citations") or {})
        elif kind == "message-start":
            self._id = event.get("id")
        elif kind == "message-end":
            self._last = event.get("delta") or {}
        if chunk is not None:
            yield ChatGenerationChunk(chunk)

    def _content(self, index: int, content: Mapping[str, Any], logprobs: Any) -> AIMessageChunk | None:
        kind = self._kinds.get(index) or ("thinking" if content.get("thinking") else "text")
        text = content.get(kind)
        if not text:
            return None
        facts = {"logprobs": [logprobs]} if logprobs else None
        if kind == "text" and not self._rich and self._bare in (None, index):
            self._bare = index
            return AIMessageChunk(text, response_metadata=facts)
        self._rich = True
        return AIMessageChunk([{"type": kind, kind: text, "index": index}], response_metadata=facts)

    def _plan(self, text: str) -> AIMessageChunk | None:
        if not text:
            return None
        if self._bare not in (None, "plan"):  # what was said before it is no plan
            self._rich = True
        self._bare = "plan"
        return AIMessageChunk(text)

    def _call(self, index: int | None, call: Any, *, begins: bool) -> AIMessageChunk:
        if isinstance(call, list):
            call = call[0] if call else {}
        if begins:
            self._calls += 1
        marked = begins and self._calls == 1 and self._bare != "plan" and isinstance(self._bare, int)
        return AIMessageChunk(
            "",
            tool_call_chunks=[_fragment(call, index if index is not None else self._calls - 1)],
            additional_kwargs={"tool_plan": ""} if marked else None,
        )

    def _cited(self, citation: Mapping[str, Any]) -> AIMessageChunk:
        note = citation_from_wire(citation)
        index = citation.get("content_index") or 0
        if citation.get("type") == "PLAN" or self._bare == index or index not in self._kinds:
            return AIMessageChunk("", additional_kwargs={"annotations": [note]})
        kind = self._kinds[index]
        return AIMessageChunk([{"type": kind, kind: "", "annotations": [note], "index": index}])

    def end(self, who: str | None) -> ChatGenerationChunk:
        """The last chunk. Raises ModelConnectionError if the stream stopped before the answer was complete."""
        if not self._last or not self._last.get("finish_reason"):
            raise ModelConnectionError(f"{who} ended the stream before the answer was complete.")
        usage = self._last.get("usage")
        chunk = AIMessageChunk(
            "",
            response_metadata=metadata_from_wire({**self._last, "id": self._id}),
            usage_metadata=usage_from_wire(usage) if usage else None,
            chunk_position="last",
        )
        return ChatGenerationChunk(chunk)


def metadata_from_wire(answer: Mapping[str, Any]) -> dict[str, Any]:
    """What an answer says about itself. `billed_units` are what Cohere counts for the bill."""
    reason = answer.get("finish_reason")
    metadata = {
        "finish_reason": FINISH.get(reason or "", reason),
        "id": answer.get("id"),
        "logprobs": answer.get("logprobs"),
        "billed_units": (answer.get("usage") or {}).get("billed_units"),
    }
    if reason not in ("COMPLETE", "MAX_TOKENS", "TOOL_CALL"):
        metadata["stop_reason"] = reason
    return {name: value for name, value in metadata.items() if value is not None}


def usage_from_wire(usage: Mapping[str, Any]) -> UsageMetadata:
    """Tokens used, under our names: those that the model read and wrote, not those that are billed."""
    counted = usage.get("tokens") or usage.get("billed_units") or {}
    given, made = int(counted.get("input_tokens") or 0), int(counted.get("output_tokens") or 0)
    result: UsageMetadata = {"input_tokens": given, "output_tokens": made, "total_tokens": given + made}
    cached = usage.get("cached_tokens")
    if cached is not None:
        result["input_token_details"] = {"cache_read": int(cached)}
    return result
