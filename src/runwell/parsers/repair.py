"""Parsers that hand a bad answer back to a model and read what it makes of it.

For providers that cannot enforce a schema; where they can, `model.with_structured_output(schema)` fails less often
and costs no second call.
"""

from __future__ import annotations

from typing import Any, Generic, Self, TypeVar

from runwell.effects import Call, Callee
from runwell.errors import InvalidInput, OutputParserException
from runwell.messages.message import HumanMessage
from runwell.observe.run import open_run
from runwell.parsers.parser import BaseOutputParser, text_of
from runwell.runnables.coerce import coerce_to_runnable
from runwell.runnables.config import RunnableConfig

__all__ = ["OutputFixingParser", "RetryOutputParser", "RetryWithErrorOutputParser"]

T = TypeVar("T")

_FIX = """An answer could not be read. Write it again so that it can be, and change nothing else.

What was asked of its form:
{instructions}

The answer:
{completion}

Why it could not be read:
{error}

Write the corrected answer and nothing else."""

_RETRY = """{prompt}

An earlier answer to this could not be used:
{completion}
{why}
Answer again, in the form that was asked for, and write nothing else."""


class AskingParser(BaseOutputParser[T], Generic[T]):
    """What the parsers here share: read, and when that fails ask and read again, `max_retries` times."""

    def __init__(
        self,
        *,
        parser: BaseOutputParser[T],
        llm: Any,
        prompt: Any = None,
        max_retries: int = 1,
        name: str | None = None,
    ) -> None:
        times: Any = max_retries
        if not isinstance(times, int) or times < 1:
            raise InvalidInput(f"max_retries is at least 1, not {max_retries!r}.")
        if not isinstance(parser, BaseOutputParser):
            raise InvalidInput(f"{parser!r:.200} is no parser.", hint="Pass for instance parser=JsonOutputParser().")
        self.parser = parser
        self.llm = llm = coerce_to_runnable(llm, "The model that is asked again")
        self.prompt = prompt
        self.max_retries = max_retries
        self.name = name
        self._ask = Callee(llm.invoke, llm.ainvoke)

    @classmethod
    def from_llm(
        cls,
        llm: Any,
        parser: BaseOutputParser[T],
        prompt: Any = None,
        *,
        max_retries: int = 1,
        name: str | None = None,
    ) -> Self:
        """A parser that asks `llm`: a chat model, or any runnable or function from messages to a message or text.

        `prompt`, a prompt template, words the question in place of the built-in one. It is given `completion` and
        `error`, and `instructions` (the form that was asked for) or, when the prompt is asked again, `prompt`.
        """
        return cls(parser=parser, llm=llm, prompt=prompt, max_retries=max_retries, name=name)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_ask"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._ask = Callee(self.llm.invoke, self.llm.ainvoke)

    def get_format_instructions(self) -> str:
        return self.parser.get_format_instructions()

    @property
    def OutputType(self) -> Any:
        return self.parser.OutputType

    def _told(self, completion: str, error: OutputParserException, prompt: Any) -> dict[str, str]:
        """What the question says, by the names that a prompt has for it."""
        raise NotImplementedError

    def _words(self, told: dict[str, str]) -> str:
        """The question, where no prompt words it."""
        raise NotImplementedError

    def _question(self, told: dict[str, str]) -> list[Any]:
        if self.prompt is None:
            return [HumanMessage(self._words(told))]
        return self.prompt.format_prompt(**told).to_messages()  # type: ignore[no-any-return]

    async def _read(self, given: Any, prompt: Any = None) -> T:
        """Engine code: the value of what a model gave. The last error is raised, the earlier ones in its notes."""
        errors: list[OutputParserException] = []
        while True:
            try:
                return self.parser._parse_input(given)
            except OutputParserException as error:
                for number, earlier in enumerate(errors, 1):
                    error.add_note(f"Attempt {number} failed with: {earlier.message}")
                if len(errors) == self.max_retries:
                    raise
                errors.append(error)
                question = self._question(self._told(text_of(given), error, prompt))
            given = await Call(self._ask, question)


class OutputFixingParser(AskingParser[T]):
    """Reads with `parser`; an answer that does not parse goes to the model with the error, `max_retries` times."""

    def parse(self, text: str) -> T:
        """The value. Raises the last attempt's `OutputParserException`; the earlier ones are in its notes."""
        return self._parse_input(text)

    def _parse_input(self, given: Any) -> T:
        from runwell.drivers.sync import run_sync

        return run_sync(self._read(given))

    async def aparse(self, text: str) -> T:
        """As `parse`."""
        from runwell.drivers.aio import run_async

        return await run_async(self._read(text))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> T:
        from runwell.drivers.aio import run_async

        run = open_run("parser", self, input, config)
        if run is not None:
            return await run.acall(lambda: run_async(self._read(input)))
        return await run_async(self._read(input))

    def _told(self, completion: str, error: OutputParserException, prompt: Any) -> dict[str, str]:
        try:
            instructions = self.parser.get_format_instructions()
        except NotImplementedError:
            instructions = "(not said)"
        return {"instructions": instructions, "completion": completion, "error": error.message}

    def _words(self, told: dict[str, str]) -> str:
        return _FIX.format(**told)


class RetryOutputParser(AskingParser[T]):
    """Reads with `parser`; for an answer that does not parse the model is asked the whole prompt again.

    It has to know the prompt, so it is called as `parse_with_prompt(completion, prompt_value)`; as a step it takes a
    dict `{"completion": …, "prompt": …}`.
    """

    tells_error = False

    def parse(self, text: str) -> T:
        raise self._promptless()

    def _promptless(self) -> InvalidInput:
        return InvalidInput(
            f"{type(self).__name__} needs the prompt beside the answer.",
            hint="Call parse_with_prompt(completion, prompt_value), or give it a dict with 'completion' and 'prompt'; "
            "without the prompt use OutputFixingParser.",
        )

    def parse_with_prompt(self, completion: Any, prompt: Any) -> T:
        """The value of `completion`, an answer to `prompt` (a prompt value or a text)."""
        from runwell.drivers.sync import run_sync

        return run_sync(self._read(completion, prompt))

    async def aparse_with_prompt(self, completion: Any, prompt: Any) -> T:
        """As `parse_with_prompt`."""
        from runwell.drivers.aio import run_async

        return await run_async(self._read(completion, prompt))

    def _parse_input(self, given: Any) -> T:
        return self.parse_with_prompt(*self._both(given))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> T:
        run = open_run("parser", self, input, config)
        if run is not None:
            return await run.acall(lambda: self.aparse_with_prompt(*self._both(input)))
        return await self.aparse_with_prompt(*self._both(input))

    def _both(self, given: Any) -> tuple[Any, Any]:
        if isinstance(given, dict) and given.keys() >= {"completion", "prompt"}:
            return given["completion"], given["prompt"]
        raise self._promptless()

    def _told(self, completion: str, error: OutputParserException, prompt: Any) -> dict[str, str]:
        asked = prompt if isinstance(prompt, str) else prompt.to_string()
        return {"prompt": asked, "completion": completion, "error": error.message}

    def _words(self, told: dict[str, str]) -> str:
        why = f"\nWhy it could not be used:\n{told['error']}\n" if self.tells_error else ""
        return _RETRY.format(prompt=told["prompt"], completion=told["completion"], why=why)


class RetryWithErrorOutputParser(RetryOutputParser[T]):
    """As `RetryOutputParser`, and the model is also told why its answer could not be used."""

    tells_error = True
