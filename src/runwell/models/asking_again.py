"""Structured output that is asked for again when it does not fit, a bounded number of times."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from runwell.drivers.closing import aclose
from runwell.errors import OutputParserException
from runwell.messages.convert import convert_to_messages
from runwell.messages.message import AIMessage, BaseMessage, HumanMessage, ToolMessage
from runwell.messages.validity import call_ids
from runwell.models.answer import AnswerParser, Growing
from runwell.runnables.config import RunnableConfig
from runwell.runnables.runnable import Runnable

__all__ = ["AskingAgain"]


class AskingAgain(Runnable[Any, Any]):
    """`model`, and `parser` behind it. An answer that does not fit goes back to the model with what is wrong with it,
    up to `retries` times; then the last OutputParserException is raised, with a note on each answer before."""

    streams_snapshots = True

    def __init__(self, model: Runnable[Any, Any], parser: AnswerParser, retries: int) -> None:
        self.model = model
        self.parser = parser
        self.retries = retries

    def __repr__(self) -> str:
        return f"{self.model!r} | {self.parser!r} (asked again {self.retries} times)"

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        asking = _Asking(self, input)
        while True:
            answer = self.model.invoke(asking.messages, config, **kwargs)
            try:
                return asking.fits(self.parser.invoke(answer))
            except OutputParserException as error:
                asking.refused(answer, error)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        asking = _Asking(self, input)
        while True:
            answer = await self.model.ainvoke(asking.messages, config, **kwargs)
            try:
                return asking.fits(self.parser.invoke(answer))
            except OutputParserException as error:
                asking.refused(answer, error)

    def stream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Any]:
        asking = _Asking(self, input)
        while True:
            growing = Growing(self.parser)
            for chunk in self.model.stream(asking.messages, config, **kwargs):
                yield from growing.take(chunk)
            try:
                for value in growing.finish():
                    yield asking.fits(value)
                return
            except OutputParserException as error:
                asking.refused(growing.whole, error)

    async def astream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Any]:
        asking = _Asking(self, input)
        while True:
            growing = Growing(self.parser)
            chunks = self.model.astream(asking.messages, config, **kwargs)
            try:
                async for chunk in chunks:
                    for value in growing.take(chunk):
                        yield value
            finally:
                await aclose(chunks)
            try:
                for value in growing.finish():
                    yield asking.fits(value)
                return
            except OutputParserException as error:
                asking.refused(growing.whole, error)


class _Asking:
    """One question, with the answers that were refused."""

    def __init__(self, owner: AskingAgain, input: Any) -> None:
        self.messages: list[BaseMessage] = convert_to_messages(input)
        self.left = owner.retries
        self._before: list[str] = []

    def fits(self, value: Any) -> Any:
        """The value; one with its raw message raises what is wrong with it while there are tries left."""
        error = value.get("parsing_error") if isinstance(value, dict) and "parsing_error" in value else None
        if isinstance(error, OutputParserException) and self.left > 0:
            raise error
        return value

    def refused(self, answer: AIMessage, error: OutputParserException) -> None:
        """The next question; raises the error when no tries are left."""
        if self.left <= 0:
            for number, told in enumerate(self._before, 1):
                error.add_note(f"Answer {number} did not fit either: {told}")
            raise error
        self.left -= 1
        self._before.append(error.message)
        told = f"{error.message} Give the whole answer again, corrected."
        ids = call_ids(answer)
        results: list[BaseMessage] = [ToolMessage(told, tool_call_id=each, status="error") for each in ids]
        self.messages = [*self.messages, answer, *(results or [HumanMessage(told)])]
