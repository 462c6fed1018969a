"""The Responses API, as OpenAI's public reference describes it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from runwell.testing.wire.openai import OpenAIDialect
from runwell.testing.wire.said import Asked, Call, Said, shown

__all__ = ["ResponsesDialect", "events_of_response"]

_CHOICES = {"auto": "auto", "none": "none", "required": "any"}


class ResponsesDialect(OpenAIDialect):
    """What OpenAI speaks beside chat completions; errors are written alike."""

    path: ClassVar[str] = "/responses"

    def answer(self, said: Said) -> dict[str, Any]:
        items: list[dict[str, Any]] = []
        if said.text:
            part = {"type": "output_text", "text": said.text, "annotations": [], "logprobs": []}
            items.append(
                {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
            )
        items += [_call(call, place) for place, call in enumerate(said.calls)]
        cut = said.finish == "length"
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "status": "incomplete" if cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "error": None,
            "model": said.model,
            "tools": [],
            "tool_choice": "auto",
            "parallel_tool_calls": True,
            "output": items,
            "usage": {
                "input_tokens": said.read,
                "input_tokens_details": {"cached_tokens": said.cached, "cache_write_tokens": 0},
                "output_tokens": said.written,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": said.read + said.written,
            },
        }

    def events(self, said: Said) -> list[Any]:
        return events_of_response(self.answer(said), {0: list(said.pieces)} if said.text else {})

    def asked(self, request: Mapping[str, Any]) -> Asked:
        body = request["body"]
        asked = Asked(
            model=body["model"],
            parallel=body.get("parallel_tool_calls"),
            max_tokens=body.get("max_output_tokens"),
            stream=body.get("stream", False),
        )
        if body.get("instructions"):
            asked.system.append(body["instructions"])
        given = body["input"]
        for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
            _read(item, asked)
        for tool in body.get("tools") or ():
            asked.tools[tool.get("name", tool["type"])] = tool.get("parameters") or {}
        choice = body.get("tool_choice")
        if choice is not None:
            asked.choice = (
                _CHOICES[choice]
                if isinstance(choice, str)
                else choice.get("name") or choice.get("server_label") or choice["type"]
            )
        form = (body.get("text") or {}).get("format")
        if form and form["type"] == "json_schema":
            asked.schema = form["schema"]
        return asked


def events_of_response(response: Mapping[str, Any], pieces: Mapping[int, list[str]] | None = None) -> list[Any]:
    """The stream of an answer: each item begun, brought in pieces and ended. `pieces` are of the items' texts, by
    place; others come in halves."""
    begun = {**response, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    events: list[dict[str, Any]] = [
        {"type": f"response.{name}", "response": begun} for name in ("created", "in_progress")
    ]
    for place, item in enumerate(response["output"]):
        events += _item_events(place, item, (pieces or {}).get(place))
    events.append({"type": f"response.{response['status']}", "response": response})
    for number, event in enumerate(events):
        event["sequence_number"] = number
    return [(event["type"], event) for event in events]


def _item_events(place: int, item: dict[str, Any], pieces: list[str] | None) -> Iterator[dict[str, Any]]:
    where = {"item_id": item.get("id"), "output_index": place}
    kind = item["type"]
    start = {**item, "status": "in_progress"}
    empty: dict[str, dict[str, Any]] = {
        "message": {"content": []},
        "reasoning": {"summary": [], "encrypted_content": None},
    }
    empty |= {"function_call": {"arguments": ""}, "custom_tool_call": {"input": ""}}
    start |= empty.get(kind, {})
    start = {key: value for key, value in start.items() if kind != "reasoning" or key != "content"}
    yield {"type": "response.output_item.added", "output_index": place, "item": start}
    if kind == "message":
        for index, part in enumerate(item["content"]):
            yield from _part_events({**where, "content_index": index}, part, pieces)
    elif kind == "reasoning":
        for index, part in enumerate(item["summary"]):
            at = {**where, "summary_index": index}
            yield {**at, "type": "response.reasoning_summary_part.added", "part": {**part, "text": ""}}
            for piece in _halves(part["text"]):
                yield {**at, "type": "response.reasoning_summary_text.delta", "delta": piece}
            yield {**at, "type": "response.reasoning_summary_text.done", "text": part["text"]}
            yield {**at, "type": "response.reasoning_summary_part.done", "part": part}
        for index, part in enumerate(item.get("content") or ()):
            at = {**where, "content_index": index}
            for piece in _halves(part["text"]):
                yield {**at, "type": "response.reasoning_text.delta", "delta": piece}
            yield {**at, "type": "response.reasoning_text.done", "text": part["text"]}
    elif kind == "function_call":
        for piece in ("", *_halves(item["arguments"])):
            yield {**where, "type": "response.function_call_arguments.delta", "delta": piece}
        yield {**where, "type": "response.function_call_arguments.done", "arguments": item["arguments"]}
    elif kind == "custom_tool_call":
        for piece in _halves(item["input"]):
            yield {**where, "type": "response.custom_tool_call_input.delta", "delta": piece}
        yield {**where, "type": "response.custom_tool_call_input.done", "input": item["input"]}
    else:
        yield {**where, "type": f"response.{kind}.in_progress"}
        yield {**where, "type": f"response.{kind}.completed"}
    yield {"type": "response.output_item.done", "output_index": place, "item": item}


def _part_events(at: dict[str, Any], part: dict[str, Any], pieces: list[str] | None) -> Iterator[dict[str, Any]]:
    if part["type"] == "refusal":
        yield {**at, "type": "response.content_part.added", "part": {"type": "refusal", "refusal": ""}}
        for piece in _halves(part["refusal"]):
            yield {**at, "type": "response.refusal.delta", "delta": piece}
        yield {**at, "type": "response.refusal.done", "refusal": part["refusal"]}
    else:
        yield {**at, "type": "response.content_part.added", "part": {**part, "text": "", "annotations": []}}
        for piece in pieces or _halves(part["text"]):
            yield {**at, "type": "response.output_text.delta", "delta": piece, "logprobs": []}
        for index, note in enumerate(part.get("annotations") or ()):
            named = {"annotation_index": index, "annotation": note}
            yield {**at, "type": "response.output_text.annotation.added", **named}
        yield {**at, "type": "response.output_text.done", "text": part["text"], "logprobs": part.get("logprobs") or []}
    yield {**at, "type": "response.content_part.done", "part": part}


def _halves(text: str) -> list[str]:
    half = len(text) // 2
    return [piece for piece in (text[:half], text[half:]) if piece]


def _call(call: Call, place: int) -> dict[str, Any]:
    arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
    named = {"id": f"fc_{place}", "call_id": call.id, "name": call.name, "arguments": arguments}
    return {"type": "function_call", **named, "status": "completed"}


def _read(item: Mapping[str, Any], asked: Asked) -> None:
    kind = item.get("type", "message")
    if kind == "message":
        text = _text(item["content"], asked)
        if item["role"] in ("system", "developer"):
            asked.system.append(text)
        else:
            asked.turns.append((item["role"], text))
    elif kind == "function_call":
        if not asked.turns or asked.turns[-1][0] != "assistant":
            asked.turns.append(("assistant", ""))  # calls without a word
        asked.calls[item["call_id"]] = (item["name"], _parsed(item["arguments"]))
    elif kind == "function_call_output":
        asked.results[item["call_id"]] = _text(item["output"], asked)
        asked.turns.append(("tool", asked.results[item["call_id"]]))


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return {"malformed_arguments": arguments}


def _text(content: Any, asked: Asked) -> str:
    if isinstance(content, str):
        return content
    pictures = [part for part in content if part["type"] == "input_image"]
    asked.images += [shown(part["image_url"]) if part.get("image_url") else part["file_id"] for part in pictures]
    return "".join(part["text"] for part in content if part["type"] in ("input_text", "output_text"))
