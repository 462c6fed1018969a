"""Results of tools that are too long for a model: what it sees of them, and how it reads on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

from runwell.agents.cut_blocks import blocks_text, cut_blocks, cut_text, media_in, media_size
from runwell.agents.limits import AgentLimits
from runwell.errors import ToolError
from runwell.messages.message import BaseMessage, ToolMessage
from runwell.observe.run import record_decision, watched
from runwell.ports.command import Command
from runwell.tools.decorator import tool
from runwell.tools.runtime import ToolRuntime
from runwell.tools.structured import StructuredTool

__all__ = ["READER", "any_cut", "artifact_reader", "bounded", "whole_text"]

READER = "read_artifact"
"""The name of the tool that shows what was cut. An agent's own tools cannot have it."""
PAGE = 20_000
"""Characters of one reading, unless the model wants more."""

CUT = "cut"
WHOLE = "whole"


def bounded(answer: Any, limits: AgentLimits, reader: bool) -> Any:
    """What a tool gave, its messages no larger than a model should be shown.

    A text too long keeps its head and tail, of pictures and other media the first ones stay; the message says what was
    left out and, with `reader`, how to read it. The whole is kept: as the message's artifact, or beside an artifact of
    the tool's own. In a `Command` the messages of its update are bounded, in a list each part.
    """
    if isinstance(answer, ToolMessage):
        content = answer.content
        if type(content) is str:
            limit = limits.max_tool_chars
            if limit is None or len(content) <= limit:
                return answer
            short, cut = cut_text(content, limit, _how(answer, reader))
            return _kept(answer, short, content, cut, 0)
        return _bounded_blocks(answer, limits, reader)
    if isinstance(answer, list):
        return [bounded(each, limits, reader) for each in answer]
    if isinstance(answer, Command) and isinstance(answer.update, dict):
        return _bounded_command(answer, limits, reader)
    return answer


def _bounded_blocks(answer: ToolMessage, limits: AgentLimits, reader: bool) -> ToolMessage:
    content: list[Any] = list(answer.content)
    made = cut_blocks(content, limits, _how(answer, reader))
    if made is None:
        return answer
    shown, cut, left_out = made
    if all(isinstance(block, str) or block.get("type") == "text" for block in content):
        text = blocks_text(content)
        return _kept(answer, blocks_text(shown), text, cut, left_out)
    return _kept(answer, shown, content, cut, left_out)


def _bounded_command(answer: Command[Any], limits: AgentLimits, reader: bool) -> Command[Any]:
    changed: dict[str, Any] = {}
    for key, value in answer.update.items():
        if isinstance(value, ToolMessage):
            made: Any = bounded(value, limits, reader)
        elif isinstance(value, list) and any(isinstance(each, ToolMessage) for each in value):
            made = [bounded(each, limits, reader) if isinstance(each, ToolMessage) else each for each in value]
            if all(new is old for new, old in zip(made, value, strict=True)):
                continue
        else:
            continue
        if made is not value:
            changed[key] = made
    if not changed:
        return answer
    return Command(
        update={**answer.update, **changed},
        goto=answer.goto,
        resume=answer.resume,
        graph=answer.graph,
        actor=answer.actor,
    )


def _how(answer: ToolMessage, reader: bool) -> str:
    return f'{READER}(id="{answer.tool_call_id}", ' if reader else ""


def _kept(answer: ToolMessage, short: Any, whole: Any, cut: int, left_out: int) -> ToolMessage:
    beside = {**answer.additional_kwargs, CUT: cut}
    artifact = answer.artifact
    if artifact is None:
        artifact = whole
    else:
        beside[WHOLE] = whole
    if watched():
        parts = [f"{cut} characters"] if cut else []
        parts += [f"{left_out} media"] if left_out else []
        said = f"{' and '.join(parts)} of the result of call {answer.tool_call_id!r} of {answer.name!r} left out"
        record_decision("B8", "cut", said, "code")
    return answer.model_copy(update={"content": short, "artifact": artifact, "additional_kwargs": beside})


def whole_content(message: ToolMessage) -> Any:
    """What a tool said, whole, also where the model sees a part: a text or a list of blocks."""
    if CUT not in (message._kwargs or ()):
        return message.content
    whole = (message._kwargs or {}).get(WHOLE, message.artifact)
    return whole if isinstance(whole, (str, list)) else message.content


def whole_text(message: ToolMessage) -> str:
    """The text of what a tool said, whole, also where the model sees a part."""
    if CUT not in (message._kwargs or ()):
        return message.text
    whole = whole_content(message)
    return whole if isinstance(whole, str) else blocks_text(whole)


def any_cut(messages: Sequence[BaseMessage]) -> bool:
    """Whether a result among them was cut."""
    for message in messages:  # noqa: SIM110 - asked at every step, mostly about one: a generator costs more than that
        if CUT in (message._kwargs or ()) and isinstance(message, ToolMessage):
            return True
    return False


@cache
def artifact_reader(max_bytes: int | None = None) -> StructuredTool:
    """The tool with which a model reads on where a result was cut. It shows no media of more than `max_bytes`."""

    @tool(READER, read_only=True, idempotent=True, open_world=False)
    def read_artifact(
        id: Annotated[str, "The id that the note in the cut result gives."],
        runtime: ToolRuntime[Any, Any],
        offset: Annotated[int, "The first character to show, from 0."] = 0,
        limit: Annotated[int, "How many characters."] = PAGE,
        item: Annotated[int | None, "Instead of text: the number of a picture or other media, from 1."] = None,
    ) -> Any:
        """Read more of a tool's result that was too long to be shown whole."""
        if offset < 0 or limit < 1:
            raise ToolError("offset is at least 0, limit at least 1.")
        messages = runtime.state.get("messages") or () if isinstance(runtime.state, dict) else runtime.state.messages
        for message in reversed(messages):
            if isinstance(message, ToolMessage) and message.tool_call_id == id:
                return _page(message, offset, limit) if item is None else _item(message, item, max_bytes)
        raise ToolError(f"There is no result {id!r} in this conversation any more.")

    return read_artifact


def _page(message: ToolMessage, offset: int, limit: int) -> str:
    text = whole_text(message)
    if offset >= len(text):
        raise ToolError(f"The result has {len(text)} characters.")
    shown = text[offset : offset + min(limit, PAGE)]
    return f"{shown}\n[Characters {offset} to {offset + len(shown)} of {len(text)}.]"


def _item(message: ToolMessage, number: int, max_bytes: int | None) -> list[Any]:
    whole = whole_content(message)
    media = media_in(whole) if isinstance(whole, list) else []
    if not 1 <= number <= len(media):
        raise ToolError(f"The result has {len(media)} pictures or other media; item counts them from 1.")
    block = media[number - 1]
    size = media_size(block)
    if max_bytes is not None and size > max_bytes:
        raise ToolError(f"Item {number} has about {size:,} bytes, more than the {max_bytes:,} that can be shown.")
    return [{"type": "text", "text": f"[Item {number} of {len(media)}.]"}, block]
