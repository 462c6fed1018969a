"""The events of one streamed answer of OpenAI's Responses API, as chunks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from json import dumps
from typing import Any

from runwell.errors import ModelConnectionError
from runwell.messages.calls import tool_call_chunk, tool_call_place
from runwell.messages.chunks import AIMessageChunk
from runwell.messages.normal import standard_block
from runwell.models.outputs import ChatGenerationChunk
from runwell.models.wire_errors import error_from_wire
from runwell.providers.openai.responses_blocks import blocks_of_item, call_extras, tidy
from runwell.providers.openai.responses_wire import metadata_from_response, usage_from_response

__all__ = ["ResponseReader", "failure_in"]

Event = Mapping[str, Any]

_LAST = ("response.completed", "response.incomplete")


class ResponseReader:
    """Reads the events of one streamed answer.

    Chunks hold plain texts and fragments of calls until something comes that they cannot say (thoughts, citations,
    calls that OpenAI ran), or from the start if `rich`; from then on they hold blocks. `who` is for errors.
    """

    __slots__ = ("_called", "_last", "_open", "_places", "_rich", "_told", "_types", "_who")

    def __init__(self, rich: bool = False, who: str = "") -> None:
        self._rich = rich
        self._who = who
        self._called = False
        self._open: list[tuple[str | None, int]] = []
        """The calls that were told beside the content, by id and index."""
        self._types: dict[Any, Event] = {}  # output index -> the item, as it began
        self._places: dict[Any, int] = {}  # (output index, part) -> index of the block
        self._told: set[Any] = set()  # places of which something was said
        self._last: Event | None = None

    def take(self, event: Any) -> Iterator[ChatGenerationChunk]:
        """The chunks in an event, if it says anything."""
        if not isinstance(event, dict):
            return
        kind = event.get("type")
        if kind == "response.output_text.delta":  # nearly all are
            delta = event["delta"]
            if delta:
                chunk = self._text(event, delta)
                yield from self._places_of_calls()
                yield ChatGenerationChunk(chunk)
            return
        handler = _HANDLERS.get(kind or "")
        if handler is not None:
            for chunk in handler(self, event):
                yield from self._places_of_calls()
                yield ChatGenerationChunk(chunk)
        elif kind in _LAST:
            self._last = event["response"]
        elif kind == "error" or kind == "response.failed":
            raise failure_in(event.get("response") or event, self._who)

    def _places_of_calls(self) -> Iterator[ChatGenerationChunk]:
        """Once, before what needs blocks: it stands behind the calls that were told beside the content."""
        if self._rich and self._open:
            places = [tool_call_place(call_id, index) for call_id, index in self._open]
            self._open = []
            yield ChatGenerationChunk(AIMessageChunk(places, tool_call_chunks=()))

    def _index(self, event: Event, part: Any = None) -> int:
        place = (event.get("output_index"), part)
        self._told.add(place)
        return self._places.setdefault(place, len(self._places))

    # -- messages

    def _text(self, event: Event, delta: str) -> AIMessageChunk:
        place = (event.get("output_index"), event.get("content_index"))
        self._told.add(place)
        if place not in self._places:
            if self._places:
                self._rich = True  # there is something before it
            self._places[place] = len(self._places)
        if not self._rich:
            chunk = AIMessageChunk(delta)
        else:
            chunk = AIMessageChunk([self._block(event, {"type": "text", "text": delta})])
        if event.get("logprobs"):
            chunk.response_metadata = {"logprobs": {"content": event["logprobs"]}}
        return chunk

    def _block(self, event: Event, block: dict[str, Any]) -> dict[str, Any]:
        """A piece of a message's text, with what its item says of it. Once is enough."""
        place = (event.get("output_index"), event.get("content_index"))
        item = self._types.get(event.get("output_index")) or {}
        named = ("named", *place)
        if named not in self._told:
            self._told.add(named)
            if item.get("id") or event.get("item_id"):
                block["id"] = item.get("id") or event.get("item_id")
            if item.get("phase"):
                block["extras"] = {"phase": item["phase"]}
        block["index"] = self._places.setdefault(place, len(self._places))
        return block

    def _annotation(self, event: Event) -> Iterator[AIMessageChunk]:
        self._rich = True
        said = standard_block({"type": "text", "text": "", "annotations": [event["annotation"]]})
        yield AIMessageChunk([self._block(event, dict(said))])

    def _refusal(self, event: Event) -> Iterator[AIMessageChunk]:
        self._told.add((event.get("output_index"), event.get("content_index")))
        if event["delta"]:
            yield AIMessageChunk("", additional_kwargs={"refusal": event["delta"]})

    # -- thoughts

    def _summary_part(self, event: Event) -> Iterator[AIMessageChunk]:
        if event.get("summary_index"):
            yield self._thought(event, "\n\n")

    def _summary(self, event: Event) -> Iterator[AIMessageChunk]:
        if event["delta"]:
            yield self._thought(event, event["delta"])

    def _reasoning(self, event: Event) -> Iterator[AIMessageChunk]:
        part = ("part", event.get("output_index"), event.get("content_index"))
        if event.get("content_index") and part not in self._told:
            yield self._thought(event, "\n\n")
        self._told.add(part)
        if event["delta"]:
            yield self._thought(event, event["delta"])

    def _thought(self, event: Event, text: str) -> AIMessageChunk:
        self._rich = True
        return AIMessageChunk([{"type": "reasoning", "reasoning": text, "index": self._index(event)}])

    # -- calls

    def _added(self, event: Event) -> Iterator[AIMessageChunk]:
        item = self._types[event.get("output_index")] = tidy(event["item"])
        kind = item.get("type")
        if kind in ("function_call", "custom_tool_call"):
            extras = call_extras(item)
            if extras.keys() - {"item_id"}:
                self._rich = True
            self._called = True
            start = '{"input": "' if kind == "custom_tool_call" else item.get("arguments") or ""
            if item.get("arguments"):
                self._told.add(("arguments", event.get("output_index")))
            yield self._fragment(event, start, item.get("name"), item.get("call_id"), extras)
        elif kind == "message":
            if item.get("phase") or self._called:
                self._rich = True
        else:
            self._rich = True

    def _arguments(self, event: Event) -> Iterator[AIMessageChunk]:
        self._told.add(("arguments", event.get("output_index")))
        if event["delta"]:
            yield self._fragment(event, event["delta"])

    def _input(self, event: Event) -> Iterator[AIMessageChunk]:
        """A piece of a free-form call's text, which is a piece of a JSON text too."""
        self._told.add(("arguments", event.get("output_index")))
        if event["delta"]:
            yield self._fragment(event, dumps(event["delta"], ensure_ascii=False)[1:-1])

    def _fragment(
        self,
        event: Event,
        arguments: str,
        name: str | None = None,
        id: str | None = None,
        extras: Mapping[str, Any] | None = None,
    ) -> AIMessageChunk:
        index = self._index(event)
        fragment: dict[str, Any] = dict(tool_call_chunk(name=name, args=arguments, id=id, index=index))
        if not self._rich:
            if name is not None:
                self._open.append((id, index))
            return AIMessageChunk("", tool_call_chunks=[fragment])
        if extras:
            fragment["extras"] = dict(extras)
        return AIMessageChunk([fragment])

    # -- what is told at an item's end

    def _done(self, event: Event) -> Iterator[AIMessageChunk]:
        item = tidy(event["item"])
        kind = item.get("type")
        if kind == "message":
            yield from self._rest_of_message(event, item)
        elif kind in ("function_call", "custom_tool_call"):
            if event.get("output_index") not in self._types:
                yield from self._added({**event, "item": {**item, "arguments": ""}})
            said = ("arguments", event.get("output_index")) in self._told
            if kind == "custom_tool_call":
                rest = "" if said else dumps(item.get("input", ""), ensure_ascii=False)[1:-1]
                yield self._fragment(event, rest + '"}')
            elif not said and item.get("arguments"):
                yield self._fragment(event, item["arguments"])
        else:
            self._rich = True
            yield from self._whole(event, item)

    def _rest_of_message(self, event: Event, item: dict[str, Any]) -> Iterator[AIMessageChunk]:
        """What no event said before, as with servers that stream less than OpenAI."""
        self._types.setdefault(event.get("output_index"), item)
        for place, part in enumerate(item.get("content") or ()):
            said = {**event, "content_index": place}
            if (event.get("output_index"), place) in self._told:
                continue
            if part.get("type") == "refusal":
                yield from self._refusal({**said, "delta": part["refusal"]})
                continue
            if part.get("text"):
                if part.get("annotations"):
                    self._rich = True
                yield self._text({**said, "logprobs": part.get("logprobs")}, part["text"])
            for note in part.get("annotations") or ():
                yield from self._annotation({**said, "annotation": note})

    def _whole(self, event: Event, item: dict[str, Any]) -> Iterator[AIMessageChunk]:
        if item.get("type") == "reasoning":
            begun = (event.get("output_index"), None) in self._told
            [block] = blocks_of_item(item)
            if begun:
                del block["reasoning"]
            yield AIMessageChunk([{**block, "index": self._index(event)}])
            return
        for place, block in enumerate(blocks_of_item(item)):
            yield AIMessageChunk([{**block, "index": self._index(event, place)}])

    def end(self, who: str | None) -> ChatGenerationChunk:
        """The last chunk. Raises ModelConnectionError if the stream stopped before the answer was complete."""
        last = self._last
        if last is None:
            raise ModelConnectionError(f"{who} ended the stream before the answer was complete.")
        if self._called and not last.get("output"):
            last = {**last, "output": [{"type": "function_call"}]}
        usage = last.get("usage")
        return ChatGenerationChunk(
            AIMessageChunk(
                "",
                response_metadata=metadata_from_response(last),
                usage_metadata=usage_from_response(usage) if usage else None,
                chunk_position="last",
            )
        )


_HANDLERS = {
    "response.output_item.added": ResponseReader._added,
    "response.output_item.done": ResponseReader._done,
    "response.output_text.annotation.added": ResponseReader._annotation,
    "response.refusal.delta": ResponseReader._refusal,
    "response.reasoning_summary_part.added": ResponseReader._summary_part,
    "response.reasoning_summary_text.delta": ResponseReader._summary,
    "response.reasoning_text.delta": ResponseReader._reasoning,
    "response.function_call_arguments.delta": ResponseReader._arguments,
    "response.custom_tool_call_input.delta": ResponseReader._input,
}


def failure_in(said: Event, who: str) -> Exception:
    """The error in a response that failed, or in an event that says so."""
    problem = said.get("error") or {key: said.get(key) for key in ("code", "message")}
    return error_from_wire(None, problem, who=who, text=str(said.get("status") or ""))
