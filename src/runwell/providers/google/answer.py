"""Answers as Gemini's API writes them, whole or in a stream, as messages.

An answer that is one text, then calls, is a message with a text and `tool_calls`, as from any vendor; their signatures
stand in `response_metadata["thought_signatures"]`. One that says more (thoughts, sources, pictures, code that Google
ran) has blocks in `content`, each call at its place, with its signature. All of it goes back as it came.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runwell.errors import ModelConnectionError
from runwell.messages.calls import tool_call_chunk
from runwell.messages.chunks import AIMessageChunk
from runwell.messages.deep_calls import text_of_args
from runwell.messages.message import AIMessage
from runwell.messages.usage import UsageMetadata, add_usage
from runwell.models.outputs import ChatGenerationChunk
from runwell.providers.google.errors import google_error
from runwell.providers.google.parts import SIGNATURES, block_of_part, google_extras
from runwell.providers.google.sources import sources

__all__ = ["FINISH", "ChunkReader", "message_from_wire", "usage_from_wire"]

_GOES_ON = "CONTINUATION"
_REFUSED = "content_filter"
FINISH = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "MALFORMED_FUNCTION_CALL": "tool_calls",
    "SAFETY": _REFUSED,
    "RECITATION": _REFUSED,
    "BLOCKLIST": _REFUSED,
    "PROHIBITED_CONTENT": _REFUSED,
    "SPII": _REFUSED,
    "MODEL_ARMOR": _REFUSED,
    "IMAGE_SAFETY": _REFUSED,
    "IMAGE_PROHIBITED_CONTENT": _REFUSED,
    "IMAGE_RECITATION": _REFUSED,
}
"""Why an answer ended, in the words that all adapters use for `finish_reason`. Others stay as they are."""

_FACTS = {
    "finishMessage": "finish_message",
    "safetyRatings": "safety_ratings",
    "citationMetadata": "citation_metadata",
    "groundingMetadata": "grounding_metadata",
    "urlContextMetadata": "url_context_metadata",
    "avgLogprobs": "avg_logprobs",
    "logprobsResult": "logprobs",
    "continuationToken": "continuation_token",
}
"""What a candidate says beside its parts, and its name in `response_metadata`."""


def message_from_wire(
    answer: Sequence[Mapping[str, Any]], place: int = 0, *, rich: bool = False, who: str = ""
) -> AIMessage:
    """A model's answer, which may come in several parts: the message that its stream adds up to. `place` is that of the
    candidate; `rich` as for `ChunkReader`."""
    reader = ChunkReader(rich, who)
    chunks: list[AIMessageChunk] = []
    for part in answer:
        candidates = [
            {"finishReason": "STOP", **each, "index": 0} for each in (part.get("candidates") or ())[place:][:1]
        ]
        chunks += [chunk.message for chunk in reader.take({**part, "candidates": candidates})]
    chunks.append(reader.end(who).message)
    return (chunks[0] + chunks[1:]).to_message() if len(chunks) > 1 else chunks[0].to_message()


class ChunkReader:
    """Reads the events of one streamed answer.

    Chunks hold plain texts and fragments of calls until something comes that they cannot say, or from the start if
    `rich`: sources are told at the end, and must find the text a block. From then on they hold blocks.
    """

    __slots__ = (
        "_calls",
        "_facts",
        "_index",
        "_made",
        "_open",
        "_rich",
        "_said",
        "_signed",
        "_spent",
        "_texts",
        "_usage",
        "_who",
    )

    def __init__(self, rich: bool = False, who: str = "") -> None:
        self._rich = rich
        self._who = who
        self._index = -1
        self._open = ""  # the kind of block that the next piece may belong to
        self._calls = 0
        self._made = 0
        self._signed = False  # the plain text, which then is at its end
        self._texts: dict[int, list[str]] = {}  # what the text blocks say, for the places of sources
        self._said: dict[str, Any] = {}
        self._facts: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._spent: UsageMetadata | None = None

    def take(self, event: Any) -> Iterator[ChatGenerationChunk]:
        """The chunks in an event."""
        if not isinstance(event, dict):
            return
        if isinstance(event.get("error"), Mapping):
            raise google_error(None, event, who=self._who)
        if self._facts.get("finishReason") == _GOES_ON:  # a further part of a long answer, with counts of its own
            self._spent = add_usage(self._spent, usage_from_wire(self._usage))
            self._usage = {}
            self._facts = {}
        for key in ("modelVersion", "responseId", "promptFeedback", "modelStatus"):
            if event.get(key):
                self._said[key] = event[key]
        self._usage.update((key, value) for key, value in (event.get("usageMetadata") or {}).items() if value)
        for candidate in event.get("candidates") or ():
            if candidate.get("index"):
                continue  # one answer was asked for
            for key in ("finishReason", *_FACTS):
                if candidate.get(key):
                    self._facts[key] = candidate[key]
            for part in (candidate.get("content") or {}).get("parts") or ():
                chunk = self._chunk(part)
                if chunk is not None:
                    yield ChatGenerationChunk(chunk)

    def _chunk(self, part: Mapping[str, Any]) -> AIMessageChunk | None:
        call = part.get("functionCall")
        if call is not None:
            return self._call(call, part.get("thoughtSignature"))
        text, signed, thought = part.get("text"), "thoughtSignature" in part, part.get("thought")
        if not signed and text is not None:
            if not text:
                return None
            self._rich = not self._is_plain(thought)
            self._open_block("reasoning" if thought else "text")
            if not thought:
                self._texts.setdefault(self._index, []).append(text)
            if not self._rich:
                return AIMessageChunk(text)
            return AIMessageChunk([{**block_of_part(part, ""), "index": self._index}])
        if (text or (text is not None and self._open == "text")) and self._is_plain(thought):
            return self._end_text(text, part["thoughtSignature"])
        self._rich = True
        self._open_block("")
        if text and not thought:
            self._texts[self._index] = [text]
        if "executableCode" in part or "toolCall" in part:
            self._made += 1  # which its result shares
        block = block_of_part(part, f"server_{self._made}")
        if "inlineData" in part:  # a model's own picture, which others' histories have no place for
            block["extras"] = {"google": {**google_extras(block), "part": "inlineData"}}
        return AIMessageChunk([{**block, "index": self._index}])

    def _is_plain(self, thought: Any) -> bool:
        return not (self._rich or thought or self._calls or self._signed)

    def _end_text(self, text: str, signature: str) -> AIMessageChunk:
        """The last piece of a plain text, which is signed."""
        alone = self._open != "text" and bool(text)
        self._open_block("text")
        self._open, self._signed = "", True
        self._texts.setdefault(self._index, []).append(text)
        place = "text" if alone else "after_text"
        return AIMessageChunk(text, response_metadata={SIGNATURES: {place: signature}})

    def _open_block(self, kind: str) -> None:
        """Pieces of one kind that follow one another are one block; what is signed stands alone."""
        if not kind or kind != self._open:
            self._index += 1
        self._open = kind

    def _call(self, call: Mapping[str, Any], signature: str | None) -> AIMessageChunk:
        self._open_block("")
        self._calls += 1
        fragment: dict[str, Any] = dict(
            tool_call_chunk(
                name=call.get("name"),
                args=text_of_args(call.get("args") or {}),
                id=call.get("id") or self._call_id(),
                index=self._index,
            )
        )
        if not self._rich:
            signed = {SIGNATURES: {fragment["id"]: signature}} if signature else None
            return AIMessageChunk("", tool_call_chunks=[fragment], response_metadata=signed)
        if signature:
            fragment["extras"] = {"google": {"thought_signature": signature}}
        return AIMessageChunk([fragment])

    def _call_id(self) -> str:
        """An id for a call that came without: the same each time that this answer is read, if it names itself."""
        answer = self._said.get("responseId") or os.urandom(8).hex()
        return f"call_{answer}_{self._calls}"

    def end(self, who: str | None) -> ChatGenerationChunk:
        """The last chunk. Raises ModelConnectionError if the stream stopped before the answer was complete."""
        facts = self._facts
        feedback = self._said.get("promptFeedback") or {}
        reason = facts.get("finishReason") or ("" if not feedback.get("blockReason") else "SAFETY")
        if not reason:
            raise ModelConnectionError(f"{who} ended the stream before the answer was complete.")
        content: list[Any] = sources(facts, self._texts, self._index, self._rich)
        if reason == "MALFORMED_FUNCTION_CALL" and not self._calls:
            self._calls += 1
            said = facts.get("finishMessage") or "Malformed function call"
            broken = tool_call_chunk(name=None, args=said, id=self._call_id(), index=self._index + 1)
            fragments = [broken]
        else:
            fragments = None
        chunk = AIMessageChunk(
            content or "",
            tool_call_chunks=fragments,
            additional_kwargs=_refusal(reason, facts, feedback),
            response_metadata=self._metadata(reason, feedback),
            usage_metadata=self._used(),
            chunk_position="last",
        )
        return ChatGenerationChunk(chunk)

    def _used(self) -> UsageMetadata | None:
        used = usage_from_wire(self._usage) if self._usage else None
        return used if self._spent is None else add_usage(self._spent, used)

    def _metadata(self, reason: str, feedback: Mapping[str, Any]) -> dict[str, Any]:
        told = FINISH.get(reason, reason)
        metadata = {
            "finish_reason": "tool_calls" if told == "stop" and self._calls else told,
            "stop_reason": feedback.get("blockReason") or reason,
            "model_name": self._said.get("modelVersion"),
            "id": self._said.get("responseId"),
            "model_status": self._said.get("modelStatus"),
            "prompt_feedback": dict(feedback) or None,
            **{name: self._facts.get(key) for key, name in _FACTS.items()},
        }
        if feedback.get("safetyRatings") and not metadata["safety_ratings"]:
            metadata["safety_ratings"] = feedback["safetyRatings"]
        return {name: value for name, value in metadata.items() if value is not None}


def _refusal(reason: str, facts: Mapping[str, Any], feedback: Mapping[str, Any]) -> dict[str, Any]:
    if FINISH.get(reason) != _REFUSED:
        return {}
    blocked = feedback.get("blockReason")
    if blocked:
        told, why = "The provider blocked the prompt for reasons of policy", feedback.get("blockReasonMessage")
    else:
        told, why = "The provider ended the answer for reasons of policy", facts.get("finishMessage")
    ratings = [
        f"{each.get('category')}: {each.get('probability')}"
        for each in (feedback if blocked else facts).get("safetyRatings") or ()
        if each.get("blocked") or each.get("probability") in ("MEDIUM", "HIGH")
    ]
    told = f"{told} ({'; '.join([blocked or reason, *ratings])})."
    return {"refusal": f"{told} {why}" if why else told}


def usage_from_wire(usage: Mapping[str, Any]) -> UsageMetadata:
    """Tokens used, under our names. Thoughts are output; what the tools that Google ran gave the model is input."""
    given = (usage.get("promptTokenCount") or 0) + (usage.get("toolUsePromptTokenCount") or 0)
    thought = usage.get("thoughtsTokenCount")
    made = (usage.get("candidatesTokenCount") or 0) + (thought or 0)
    result: UsageMetadata = {
        "input_tokens": given,
        "output_tokens": made,
        "total_tokens": usage.get("totalTokenCount") or given + made,
    }
    into = {"audio": _audio(usage.get("promptTokensDetails")), "cache_read": usage.get("cachedContentTokenCount")}
    if any(value is not None for value in into.values()):
        result["input_token_details"] = {k: v for k, v in into.items() if v is not None}  # type: ignore[typeddict-item]
    out = {"audio": _audio(usage.get("candidatesTokensDetails")), "reasoning": thought}
    if any(value is not None for value in out.values()):
        result["output_token_details"] = {k: v for k, v in out.items() if v is not None}  # type: ignore[typeddict-item]
    return result


def _audio(details: Any) -> int | None:
    counts = [each.get("tokenCount") or 0 for each in details or () if each.get("modality") == "AUDIO"]
    return sum(counts) if counts else None
