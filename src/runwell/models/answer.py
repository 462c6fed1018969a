"""From a model's message to the value it was asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from runwell.errors import ModelRefusalError, OutputParserException
from runwell.messages.chunks import message_chunk_to_message
from runwell.messages.message import AIMessage
from runwell.messages.partial import is_json, partial_json
from runwell.observe.context import CURRENT
from runwell.observe.run import open_run
from runwell.runnables.runnable import Runnable
from runwell.schemas.partial import unchecked
from runwell.schemas.structured import StructuredSchema

__all__ = ["AnswerParser", "Growing", "answer_in"]


class AnswerParser(Runnable[AIMessage, Any]):
    """The last step of `with_structured_output`.

    A stream of it gives the answer while it is written, each time with more of it: dicts for a JSON schema or a
    TypedDict, else objects of the schema's class whose fields are None until they come. These are not checked; the last
    value is, and is what `invoke` gives.
    """

    streams_snapshots = True
    never_blocks = True

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

    def transform(self, input: Iterator[Any], config: Mapping[str, Any] | None = None, **kwargs: Any) -> Iterator[Any]:
        if config or CURRENT.get() is not None:
            run = open_run("parser", self, None, config)
            if run is not None:
                return run.watch(lambda: self._flow(input), lambda values: values[-1] if values else None)
        return self._flow(input)

    def _flow(self, source: Iterator[Any]) -> Iterator[Any]:
        growing = Growing(self)
        for chunk in source:
            yield from growing.take(chunk)
        yield from growing.finish()

    def atransform(
        self, input: AsyncIterator[Any], config: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        if config or CURRENT.get() is not None:
            run = open_run("parser", self, None, config)
            if run is not None:
                return run.awatch(lambda: self._aflow(input), lambda values: values[-1] if values else None)
        return self._aflow(input)

    async def _aflow(self, source: AsyncIterator[Any]) -> AsyncIterator[Any]:
        growing = Growing(self)
        async for chunk in source:
            for value in growing.take(chunk):
                yield value
        for value in growing.finish():
            yield value


class Growing:
    """One answer while its chunks come in."""

    def __init__(self, parser: AnswerParser) -> None:
        self.parser = parser
        self._total: Any = None
        self._length = 0
        self._shown: Any = None

    def take(self, chunk: Any) -> Iterator[Any]:
        """The answer so far, if the chunk brings more of it."""
        self._total = chunk if self._total is None else self._total + chunk
        text = self._text()
        if len(text) == self._length:
            return
        self._length = len(text)
        value = partial_json(text)
        if not value or value == self._shown or (text.rstrip()[-1:] == "}" and is_json(text)):
            return  # nothing new; or all of it, which is checked first
        self._shown = value
        schema = self.parser.schema
        if schema.wrapped:
            if not isinstance(value, dict) or "value" not in value:
                return
            value = value["value"]
        value = value if isinstance(schema.schema, Mapping) else unchecked(schema.schema, value)
        yield {"raw": self._total, "parsed": value, "parsing_error": None} if self.parser.include_raw else value

    def _text(self) -> str:
        if self.parser.method != "function_calling":
            return str(self._total.text)
        for call in getattr(self._total, "tool_call_chunks", ()):
            if call["name"] == self.parser.schema.name:
                return call["args"] or ""
        return ""

    def finish(self) -> Iterator[Any]:
        """The whole answer, checked."""
        if self._total is None:
            return
        yield self.parser.invoke(self.whole)

    @property
    def whole(self) -> AIMessage:
        """The message that the chunks add up to."""
        return message_chunk_to_message(self._total)  # type: ignore[return-value]


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
        return schema.parse_text(message.text, around=method == "json_mode")
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
