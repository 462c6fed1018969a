"""Cleaning what a model says, whole or in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from runwell.agents.pii.match import PIIMatch
from runwell.agents.pii.rule import Restorer
from runwell.agents.pii.stage import Stage
from runwell.agents.pii.walk import clean_message
from runwell.agents.pii.window import CleanWindow, RestoreWindow
from runwell.messages.calls import calls_as_written, ensure_call_ids, fragment_of
from runwell.messages.chunks import AIMessageChunk
from runwell.messages.message import AIMessage
from runwell.observe.run import record_decision, watched

__all__ = ["ReplyCleaner"]

_TEXTS = {"text": "text", "output_text": "text", "reasoning": "reasoning", "thinking": "thinking", "refusal": "refusal"}
"""Types of content blocks that are text alone, and the key it stands under."""
Place = tuple[Any, ...]


class ReplyCleaner:
    """One answer of a model on its way out. `hidden` are the arguments that calls were made with, by call id, where
    what is shown of them differs."""

    def __init__(self, stages: Sequence[Stage], restorers: Sequence[Restorer]) -> None:
        self._stages = [each for each in stages if each.from_model]
        self._restorers = restorers
        self._windows: dict[Place, _Pipe] = {}
        self._late: list[AIMessageChunk] = []
        self._id: str | None = None
        self.found = 0
        self.hidden: dict[str, Any] = {}

    # -- whole

    def message(self, reply: AIMessage) -> AIMessage:
        """The answer as it may be seen."""
        reply = ensure_call_ids(reply)
        for restorer in self._restorers:
            reply = clean_message(reply, restorer.whole)
        made = reply
        for stage in self._stages:
            made = clean_message(made, stage.text("in the model's answer"))
        for before, after in zip(reply.tool_calls, made.tool_calls, strict=True):
            if before["args"] is not after["args"] and before["id"] is not None:
                self.hidden[before["id"]] = before["args"]
        return made

    # -- in pieces

    def feed(self, chunk: AIMessageChunk) -> AIMessageChunk | None:
        """The chunk without what may not be told yet; None if nothing is left of it.

        Text is kept back only as far as it may still become a finding. A call is kept back until it is whole: its
        arguments are JSON, in which a finding may stand in any spelling.
        """
        self._id = chunk.id or self._id
        last = chunk.chunk_position == "last"
        fragments = chunk.tool_call_chunks
        content = self._content(chunk.content)
        beside: dict[str, Any] = {}
        late: dict[str, Any] = {}
        for key, value in chunk.additional_kwargs.items():
            if isinstance(value, str):
                text = self._pipe(("kwargs", key)).feed(value)
                if text:
                    beside[key] = text
            else:
                late[key] = value
        blocks = [each for each in content if isinstance(each, dict) and not _is_text(each)]
        if fragments or late or blocks:
            self._late.append(
                AIMessageChunk(blocks or "", tool_call_chunks=fragments or None, additional_kwargs=late or None)
            )
            content = [each for each in content if each not in blocks] if blocks else content
        made = AIMessageChunk(
            content,
            id=chunk.id,
            name=chunk.name,
            additional_kwargs=beside or None,
            response_metadata=chunk.response_metadata or None,
            usage_metadata=chunk.usage_metadata,
        )
        if last:
            rest = self.finish()
            if rest is not None:
                made = made + rest
            made.chunk_position = "last"
            return made
        said = made.content or beside or chunk.response_metadata or chunk.usage_metadata or chunk.name
        return made if said or not (chunk.content or fragments or chunk.additional_kwargs) else None

    def finish(self) -> AIMessageChunk | None:
        """What was kept back, as the last chunk; None if nothing was. A second call gives None."""
        content: Any = self._flush(None)
        beside = {}
        for place in [place for place in self._windows if place[0] == "kwargs"]:
            text = self._windows.pop(place).finish()
            if text:
                beside[place[1]] = text
        fragments: list[Any] = []
        if self._late:
            total = self._late[0] + self._late[1:] if len(self._late) > 1 else self._late[0]
            self._late = []
            message = self.message(total.to_message())
            calls = calls_as_written(message)
            fragments = [{**fragment_of(call), "index": place} for place, call in enumerate(calls)]
            beside.update(message.additional_kwargs)
            if isinstance(message.content, list):
                content = [*content, *message.content]
        if len(content) == 1 and isinstance(content[0], str):
            content = content[0]
        if self.found and watched():
            record_decision("D16", "hidden", f"{self.found} findings, before any reader of a stream", "code")
        self.found = 0
        if not (content or beside or fragments):
            return None
        return AIMessageChunk(content or "", id=self._id, additional_kwargs=beside, tool_call_chunks=fragments or None)

    def _content(self, content: Any) -> Any:
        if isinstance(content, str):
            return self._pipe(("text",)).feed(content) if content else content
        out: list[Any] = []
        for number, block in enumerate(content):
            if isinstance(block, str):
                text = self._pipe(("text",)).feed(block)
                if text:
                    out.append(text)
            elif _is_text(block):
                key = _TEXTS[block["type"]]
                place = ("block", block.get("index", number), block["type"])
                out += self._flush(place)
                text = self._pipe(place).feed(block[key])
                beside = {k: self._beside(v) for k, v in block.items() if k != key}
                if text or beside.keys() - {"type", "index"}:
                    out.append({**beside, key: text})
            else:
                out.append(block)
        return out

    def _beside(self, value: Any) -> Any:
        """What a text block carries beside its text, which comes whole: citations, annotations, signatures."""
        if not isinstance(value, (list, dict)):
            return value
        made = clean_message(AIMessage([{"type": "beside", "value": value}]), self._whole)
        block: Any = made.content[0]
        return block["value"]

    def _whole(self, text: str) -> str:
        for restorer in self._restorers:
            text = restorer.whole(text)
        for stage in self._stages:
            text = stage.text("in the model's answer")(text)
        return text

    def _pipe(self, place: Place) -> _Pipe:
        pipe = self._windows.get(place)
        if pipe is None:
            pipe = self._windows[place] = _Pipe(self)
        return pipe

    def _flush(self, but: Place | None) -> list[Any]:
        """What was kept back of texts that another has followed."""
        out: list[Any] = []
        for place in list(self._windows):
            if place == but or place[0] == "kwargs":
                continue
            text = self._windows.pop(place).finish()
            if text and place[0] == "text":
                out.append(text)
            elif text:
                out.append({"type": place[2], _TEXTS[place[2]]: text, "index": place[1]})
        return out

    def pipes(self) -> Iterator[Any]:
        """The windows a text goes through."""
        for restorer in self._restorers:
            yield RestoreWindow(restorer)
        for stage in self._stages:
            yield CleanWindow(stage.rule, self._hears(stage))

    def _hears(self, stage: Stage) -> Any:
        heard = watched()

        def found(match: PIIMatch) -> None:
            self.found += 1
            if heard:
                stage.record([match], "in the model's answer, as it streamed")

        return found


class _Pipe:
    """The windows of one text, one after the other."""

    __slots__ = ("_windows",)

    def __init__(self, owner: ReplyCleaner) -> None:
        self._windows = list(owner.pipes())

    def feed(self, text: str) -> str:
        for window in self._windows:
            text = window.feed(text)
        return text

    def finish(self) -> str:
        text = ""
        for window in self._windows:
            text = (window.feed(text) if text else "") + window.finish()
        return text


def _is_text(block: Any) -> bool:
    key = _TEXTS.get(block.get("type"))
    return key is not None and isinstance(block.get(key), str)
