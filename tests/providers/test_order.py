"""A text after a call stays after it: in a stream and whole, in the content blocks and on the wire again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from runwell.messages import AIMessage
from runwell.providers.anthropic import wire as anthropic
from runwell.providers.bedrock import wire as bedrock
from runwell.providers.openai.responses_stream import ResponseReader
from runwell.providers.openai.responses_wire import message_from_response, messages_to_input

# ("text", text) and ("call", id), as a model says them
SAID = [
    [("text", "A"), ("call", "c1"), ("text", "B")],
    [("call", "c1"), ("text", "B")],
    [("call", "c1"), ("call", "c2"), ("text", "B"), ("call", "c3"), ("text", "C")],
    [("text", "A"), ("call", "c1"), ("call", "c2")],
]
Parts = list[tuple[str, str]]


def total(chunks: list[Any]) -> AIMessage:
    whole: Any = chunks[0] + chunks[1:]
    return whole.to_message()  # type: ignore[no-any-return]


def order(message: AIMessage) -> Parts:
    named = {"text": "text", "tool_call": "call"}
    return [(named[b["type"]], str(b.get("text") or b.get("id"))) for b in message.content_blocks]


class Bedrock:
    @staticmethod
    def events(parts: Parts) -> Iterator[Any]:
        for at, (kind, said) in enumerate(parts):
            if kind == "call":
                yield {
                    "contentBlockStart": {
                        "contentBlockIndex": at,
                        "start": {"toolUse": {"name": "f", "toolUseId": said}},
                    }
                }
            delta = {"text": said} if kind == "text" else {"toolUse": {"input": '{"a": 1}'}}
            yield {"contentBlockDelta": {"contentBlockIndex": at, "delta": delta}}
            yield {"contentBlockStop": {"contentBlockIndex": at}}
        yield {"messageStop": {"stopReason": "tool_use"}}

    reader = staticmethod(bedrock.ChunkReader)

    @staticmethod
    def whole(parts: Parts) -> AIMessage:
        return bedrock.message_from_wire({"content": Bedrock.content(parts)})

    @staticmethod
    def content(parts: Parts) -> list[Any]:
        return [
            {"text": said} if kind == "text" else {"toolUse": {"name": "f", "toolUseId": said, "input": {"a": 1}}}
            for kind, said in parts
        ]

    @staticmethod
    def back(message: AIMessage) -> Parts:
        [turn] = bedrock.messages_to_wire([message])[1]
        return [("text", b["text"]) if "text" in b else ("call", b["toolUse"]["toolUseId"]) for b in turn["content"]]


class Anthropic:
    @staticmethod
    def events(parts: Parts) -> Iterator[Any]:
        for at, block in enumerate(Anthropic.content(parts)):
            begun = {**block, "text": ""} if block["type"] == "text" else {**block, "input": {}}
            yield {"type": "content_block_start", "index": at, "content_block": begun}
            delta = (
                {"type": "text_delta", "text": block["text"]}
                if block["type"] == "text"
                else {"type": "input_json_delta", "partial_json": '{"a": 1}'}
            )
            yield {"type": "content_block_delta", "index": at, "delta": delta}
            yield {"type": "content_block_stop", "index": at}
        yield {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}

    reader = staticmethod(anthropic.ChunkReader)

    @staticmethod
    def content(parts: Parts) -> list[Any]:
        return [
            {"type": "text", "text": said}
            if kind == "text"
            else {"type": "tool_use", "id": said, "name": "f", "input": {"a": 1}}
            for kind, said in parts
        ]

    @staticmethod
    def whole(parts: Parts) -> AIMessage:
        return anthropic.message_from_wire({"content": Anthropic.content(parts)})

    @staticmethod
    def back(message: AIMessage) -> Parts:
        [turn] = anthropic.messages_to_wire([message])[1]
        return [("text", b["text"]) if b["type"] == "text" else ("call", b["id"]) for b in turn["content"]]


class Responses:
    @staticmethod
    def events(parts: Parts) -> Iterator[Any]:
        for at, item in enumerate(Responses.items(parts)):
            begun = {**item, "content": []} if item["type"] == "message" else {**item, "arguments": ""}
            yield {"type": "response.output_item.added", "output_index": at, "item": begun}
            if item["type"] == "message":
                delta = item["content"][0]["text"]
                yield {"type": "response.output_text.delta", "output_index": at, "content_index": 0, "delta": delta}
            else:
                yield {"type": "response.function_call_arguments.delta", "output_index": at, "delta": '{"a": 1}'}
            yield {"type": "response.output_item.done", "output_index": at, "item": item}
        yield {"type": "response.completed", "response": {"status": "completed", "output": Responses.items(parts)}}

    reader = staticmethod(ResponseReader)

    @staticmethod
    def items(parts: Parts) -> list[Any]:
        return [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": said}]}
            if kind == "text"
            else {"type": "function_call", "call_id": said, "name": "f", "arguments": '{"a": 1}'}
            for kind, said in parts
        ]

    @staticmethod
    def whole(parts: Parts) -> AIMessage:
        return message_from_response({"status": "completed", "output": Responses.items(parts)})

    @staticmethod
    def back(message: AIMessage) -> Parts:
        found: Parts = []
        for item in messages_to_input([message], "openai"):
            content = item.get("content")
            if item.get("type") == "function_call":
                found.append(("call", item["call_id"]))
            elif isinstance(content, str):
                found.append(("text", content))
            else:
                found += [("text", part["text"]) for part in content or ()]
        return found


@pytest.mark.parametrize("vendor", [Bedrock, Anthropic, Responses])
@pytest.mark.parametrize("parts", SAID, ids=["text call text", "call text", "many", "plain"])
def test_what_follows_a_call_stays_behind_it(vendor: Any, parts: Parts) -> None:
    reader = vendor.reader()
    chunks = [chunk.message for event in vendor.events(parts) for chunk in reader.take(event)]
    streamed, whole = total([*chunks, reader.end("").message]), vendor.whole(parts)
    for message in (streamed, whole):
        assert order(message) == parts
        assert vendor.back(message) == parts
        assert [call["id"] for call in message.tool_calls] == [said for kind, said in parts if kind == "call"]
        assert all(call["args"] == {"a": 1} for call in message.tool_calls)
        assert message.text == "".join(said for kind, said in parts if kind == "text")
    assert "".join(chunk.text for chunk in chunks) == whole.text, "each piece is told once"
    so_far: Any = chunks[0] + chunks[1:]
    assert [b["type"] for b in so_far.content_blocks].count("tool_call_chunk") == len(whole.tool_calls)
