"""A person, asked by the model."""

from __future__ import annotations

from typing import Annotated, Any

from runwell.errors import ToolError
from runwell.graph.interrupts import interrupt
from runwell.tools.decorator import tool
from runwell.tools.structured import StructuredTool

__all__ = ["human_input_tool"]


def human_input_tool(
    *,
    name: str = "ask_human",
    description: str = "Ask the user a question and wait for the answer. Use it when you lack something that only they "
    "know, or must not decide alone.",
) -> StructuredTool:
    """A tool by which the model asks a person.

    The run pauses with `{"question": ..., "choices": ...}` under `"__interrupt__"`, and goes on with
    `Command(resume=answer)`: a text, or if the model gave choices one of them. Another is refused, and the pause stays.
    It needs a checkpointer (or `answer_interrupts=`), like every pause.
    """

    @tool(name, description=description, read_only=True, open_world=True)
    def ask_human(
        question: Annotated[str, "The question, so that it can be understood alone."],
        choices: Annotated[list[str] | None, "The answers to choose from, if there are only these."] = None,
    ) -> str:
        if not question.strip():
            raise ToolError("There is no question.")
        asked: dict[str, Any] = {"question": question}
        answer: dict[str, Any] = {"type": "string"}
        if choices:
            asked["choices"] = choices
            answer["enum"] = choices
        return str(interrupt(asked, response_schema=answer))

    return ask_human
