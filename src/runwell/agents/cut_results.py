"""Results of tools that are too long for a model: what it sees of them, and how it reads on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

from runwell.errors import ToolError
from runwell.messages.message import AIMessage, BaseMessage, ToolMessage
from runwell.tools.decorator import tool
from runwell.tools.runtime import ToolRuntime
from runwell.tools.structured import StructuredTool

__all__ = ["READER", "artifact_reader", "capped", "newly_cut", "whole_text"]

READER = "read_artifact"
"""The name of the tool that shows what was cut. An agent's own tools cannot have it."""
PAGE = 20_000
"""Characters of one reading, unless the model wants more."""

CUT = "cut"
WHOLE = "whole"


def capped(answer: ToolMessage, limit: int | None, reader: bool) -> ToolMessage:
    """A text too long to show the model keeps its head and tail, and says what was cut and how to read it.

    The whole is kept: as the message's artifact, or beside an artifact of the tool's own. Of typed content, lists of
    text blocks are cut as one text; what holds media passes as it is.
    """
    if limit is None:
        return answer
    content = answer.content
    if not isinstance(content, str):
        if not all(isinstance(block, dict) and block.get("type") == "text" for block in content):
            return answer
        content = "\n".join(str(block["text"]) for block in content if isinstance(block, dict))
    if len(content) <= limit:
        return answer
    head, tail = limit * 2 // 3, limit // 3
    cut = len(content) - head - tail
    how = f'; {READER}(id="{answer.tool_call_id}", offset={head}) shows them' if reader else ""
    short = f"{content[:head]}\n[... {cut} characters left out{how} ...]\n{content[-tail:] if tail else ''}"
    beside = {**answer.additional_kwargs, CUT: cut}
    artifact = answer.artifact
    if artifact is None:
        artifact = content
    else:
        beside[WHOLE] = content
    return answer.model_copy(update={"content": short, "artifact": artifact, "additional_kwargs": beside})


def whole_text(message: ToolMessage) -> str:
    """What a tool said, whole, also where the model sees a part."""
    if CUT not in message.additional_kwargs:
        return message.text
    whole = message.additional_kwargs.get(WHOLE, message.artifact)
    return whole if isinstance(whole, str) else message.text


def newly_cut(messages: Sequence[BaseMessage], *, every: bool) -> bool:
    """Whether a result among them was cut: among all, or among those since the model spoke last."""
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            if CUT in message.additional_kwargs:
                return True
        elif not every and isinstance(message, AIMessage):
            return False
    return False


@cache
def artifact_reader() -> StructuredTool:
    """The tool with which a model reads on where a result was cut."""

    @tool(READER, read_only=True, idempotent=True, open_world=False)
    def read_artifact(
        id: Annotated[str, "The id that the note in the cut result gives."],
        runtime: ToolRuntime[Any, Any],
        offset: Annotated[int, "The first character to show, from 0."] = 0,
        limit: Annotated[int, "How many characters."] = PAGE,
    ) -> str:
        """Read more of a tool's result that was too long to be shown whole."""
        if offset < 0 or limit < 1:
            raise ToolError("offset is at least 0, limit at least 1.")
        messages = runtime.state.get("messages") or () if isinstance(runtime.state, dict) else runtime.state.messages
        for message in reversed(messages):
            if isinstance(message, ToolMessage) and message.tool_call_id == id:
                text = whole_text(message)
                if offset >= len(text):
                    raise ToolError(f"The result has {len(text)} characters.")
                shown = text[offset : offset + min(limit, PAGE)]
                return f"{shown}\n[Characters {offset} to {offset + len(shown)} of {len(text)}.]"
        raise ToolError(f"There is no result {id!r} in this conversation any more.")

    return read_artifact
