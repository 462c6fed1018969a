"""From a model's message to the value it was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runwell.errors import ModelRefusalError, OutputParserException
from runwell.messages.message import AIMessage
from runwell.runnables.runnable import Runnable
from runwell.schemas.structured import StructuredSchema

__all__ = ["AnswerParser", "answer_in"]


class AnswerParser(Runnable[AIMessage, Any]):
    """The last step of `with_structured_output`."""

    def __init__(self, schema: StructuredSchema, method: str, include_raw: bool = False) -> None:
        self.schema = schema
        self.method = method
        self.include_raw = include_raw

    def __repr__(self) -> str:
        return f"AnswerParser({self.schema.name}, {self.method})"

    def invoke(self, input: AIMessage, config: Mapping[str, Any] | None = None, **kwargs: Any) -> Any:
        """The value; with `include_raw` a dict of `raw`, `parsed` and `parsing_error`.

        Without, raises OutputParserException for an answer that does not fit, ModelRefusalError for a refusal.
        """
        if not self.include_raw:
            return answer_in(input, self.schema, self.method)
        try:
            return {"raw": input, "parsed": answer_in(input, self.schema, self.method), "parsing_error": None}
        except (OutputParserException, ModelRefusalError) as error:
            return {"raw": input, "parsed": None, "parsing_error": error}


def answer_in(message: AIMessage, schema: StructuredSchema, method: str) -> Any:
    """The value in a message that was asked for by `method`."""
    refusal = message.additional_kwargs.get("refusal")
    if refusal:
        raise ModelRefusalError(f"The model declined to give a {schema.name}: {refusal}")
    if method == "function_calling":
        answers = [call for call in message.tool_calls if call["name"] == schema.name]
        if len(answers) == 1:
            return schema.parse(answers[0]["args"])
        if answers:
            raise OutputParserException(
                f"The model gave {len(answers)} answers where one {schema.name} was asked for.",
                llm_output=str([call["args"] for call in answers]),
                hint="Ask for a list of them, or bind parallel_tool_calls=False.",
            )
        for broken in message.invalid_tool_calls:
            if broken["name"] in (schema.name, None):
                raise OutputParserException(
                    f"The answer is not the JSON of a {schema.name}: {broken['error']}", llm_output=broken["args"]
                )
    elif message.text.strip():
        return schema.parse_text(message.text)
    raise _no_answer(message, schema, method)


def _no_answer(message: AIMessage, schema: StructuredSchema, method: str) -> OutputParserException:
    called = [call["name"] for call in message.tool_calls]
    if called:
        return OutputParserException(
            f"The model called {', '.join(called)} and gave no {schema.name} yet.",
            llm_output=message.text,
            hint="Run the tools and call again (create_agent does), or look at the call with include_raw=True.",
        )
    how = "did not call the tool that carries it" if method == "function_calling" else "answered with no text"
    ended = message.response_metadata.get("finish_reason")
    cut = " It stopped at its token limit: raise max_tokens." if ended == "length" else ""
    return OutputParserException(f"The model gave no {schema.name}: it {how}.{cut}", llm_output=message.text)
