"""Completion models, and chat models that are one function: whatever colour they are written in, all calls work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from runwell.errors import InvalidInput, ModelOverloaded, UsageError
from runwell.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from runwell.models import (
    LLM,
    BaseLLM,
    Generation,
    GenerationChunk,
    InMemoryCache,
    InMemoryRateLimiter,
    LLMResult,
    RetryPolicy,
    SimpleChatModel,
)
from runwell.observe import BaseCallbackHandler, get_usage_metadata_callback
from runwell.parsers import StrOutputParser
from runwell.prompts import ChatPromptTemplate, PromptTemplate
from runwell.testing import FakeListLLM, FakeStreamingListLLM


class Plain(LLM):
    def _call(self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> str:
        return f"<{prompt}>"


class Async(LLM):
    async def _call(self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> str:  # type: ignore[override]
        await asyncio.sleep(0)
        return f"<{prompt}>"


class Many(BaseLLM):
    def _generate(self, prompts: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> LLMResult:
        return LLMResult([[Generation(f"<{prompt}>", {"finish": "stop"}), Generation("other")] for prompt in prompts])


class PlainStream(BaseLLM):
    def _stream(
        self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[GenerationChunk]:
        yield GenerationChunk("<")
        yield GenerationChunk(prompt)
        yield GenerationChunk(">")


class AsyncStream(BaseLLM):
    async def _astream(
        self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[GenerationChunk]:
        for piece in ("<", prompt, ">"):
            await asyncio.sleep(0)
            yield GenerationChunk(piece)


@pytest.mark.parametrize("kind", [Plain, Async, Many, PlainStream, AsyncStream])
def test_one_written_method_gives_all_calls(kind: type[BaseLLM], driver: Any) -> None:
    model = kind()
    assert driver.invoke(model, "a") == "<a>"
    assert "".join(driver.stream(model, "a")) == "<a>"
    assert len(driver.stream(model, "a")) == (3 if "Stream" in kind.__name__ else 1)
    assert driver.batch(model, ["a", "b"]) == ["<a>", "<b>"]
    found = model.generate(["a", "b"])
    assert [[each.text for each in some] for some in found.generations] == [["<a>"], ["<b>"]]
    assert asyncio.run(model.agenerate(["a"])).generations[0][0].text == "<a>"


def test_it_stands_between_a_prompt_and_a_parser(driver: Any) -> None:
    chain = PromptTemplate.from_template("say {word}") | Plain() | StrOutputParser()
    assert driver.invoke(chain, {"word": "x"}) == "<say x>"
    chat = ChatPromptTemplate([("system", "Be brief."), ("human", "{word}")]) | Plain()
    assert driver.invoke(chat, {"word": "x"}) == "<System: Be brief.\nHuman: x>"
    assert driver.invoke(Plain(), [SystemMessage("S"), HumanMessage("H")]) == "<System: S\nHuman: H>"


def test_stop_and_other_arguments_reach_the_written_method(driver: Any) -> None:
    said: list[Any] = []

    class Noting(LLM):
        temperature: float = 0.5

        def _call(self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> str:
            said.append((prompt, stop, kwargs, self.temperature))
            return "ok"

    driver.invoke(Noting(temperature=0.1).bind(stop=["END"], seed=1), "a")
    assert said == [("a", ["END"], {"seed": 1}, 0.1)]


def test_retries_cache_and_turns_are_as_on_a_chat_model(driver: Any) -> None:
    calls = 0

    class Busy(LLM):
        retry_policy = RetryPolicy(first_s=0.001)

        def _call(self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> str:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise ModelOverloaded("busy")
            return str(calls)

    limiter = InMemoryRateLimiter(requests_per_second=0.01, max_bucket_size=3)
    model = Busy(cache=InMemoryCache(), rate_limiter=limiter)
    assert [driver.invoke(model, text) for text in ("a", "a", "b")] == ["2", "2", "3"]
    assert not limiter.acquire(blocking=False)


def test_handlers_are_told_as_of_a_completion_model(driver: Any) -> None:
    told: list[Any] = []

    class Watch(BaseCallbackHandler):
        def on_llm_start(self, serialized: Any, prompts: Any, **kwargs: Any) -> None:
            told.append(("start", prompts))

        def on_llm_new_token(self, token: str, **kwargs: Any) -> None:
            told.append(token)

        def on_llm_end(self, response: Any, **kwargs: Any) -> None:
            told.append(("end", response.generations[0][0].text))

    driver.invoke(Plain(callbacks=[Watch()]), "a")
    assert told == [("start", ["a"]), ("end", "<a>")]
    told.clear()
    driver.stream(PlainStream(), "a", {"callbacks": [Watch()]})
    assert told == [("start", ["a"]), "<", "a", ">", ("end", "<a>")]


def test_events_say_llm() -> None:
    async def events() -> list[str]:
        return [event["event"] async for event in PlainStream().astream_events("a")]

    assert asyncio.run(events()) == ["on_llm_start", *["on_llm_stream"] * 3, "on_llm_end"]


def test_what_cannot_be_meant_is_refused() -> None:
    class Empty(BaseLLM):
        pass

    class NoResult(BaseLLM):
        def _generate(self, prompts: Any, **kwargs: Any) -> Any:
            return "text"

    class NoText(LLM):
        def _call(self, prompt: str, **kwargs: Any) -> Any:
            return 5

    with pytest.raises(UsageError, match="writes none of"):
        Empty()
    with pytest.raises(UsageError, match="LLMResult"):
        NoResult().invoke("a")
    with pytest.raises(UsageError, match="5, which is no text"):
        NoText().invoke("a")
    with pytest.raises(InvalidInput, match="Plain got 5"):
        Plain().invoke(5)
    with pytest.raises(InvalidInput, match="list of prompts"):
        Plain().generate("a")
    with pytest.raises(InvalidInput, match="temprature"):
        Plain(temprature=1)


def test_about_how_many_tokens() -> None:
    assert 0 < Plain().get_num_tokens("four words of text") < 20


def test_the_fakes(driver: Any) -> None:
    assert [driver.invoke(model, "x") for model in [FakeListLLM(responses=["a", "b"])] for _ in range(3)] == [*"aba"]
    assert driver.stream(FakeStreamingListLLM(responses=["abc"]), "x") == ["a", "b", "c"]
    with pytest.raises(RuntimeError, match="chunk 1"):
        driver.stream(FakeStreamingListLLM(responses=["abc"], error_on_chunk_number=1), "x")


class Shout(SimpleChatModel):
    def _call(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any) -> str:
        return messages[-1].text.upper()


class AsyncShout(SimpleChatModel):
    async def _call(  # type: ignore[override]
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> str:
        await asyncio.sleep(0)
        return messages[-1].text.upper()


@pytest.mark.parametrize("kind", [Shout, AsyncShout])
def test_a_chat_model_that_is_one_function(kind: type[SimpleChatModel], driver: Any) -> None:
    answer = driver.invoke(kind(), "hi")
    assert type(answer) is AIMessage
    assert answer.text == "HI"
    assert "".join(chunk.text for chunk in driver.stream(kind(), "hi")) == "HI"
    for base in (SimpleChatModel, LLM):
        with pytest.raises(UsageError, match="does not write _call"):
            base()


def test_what_it_says_of_its_tokens_is_counted(driver: Any) -> None:
    """In the words of completion models, `llm_output["token_usage"]`, or in those of messages."""

    class Counts(BaseLLM):
        about: Any = None

        def _generate(self, prompts: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> LLMResult:
            return LLMResult([[Generation("yes")] for _ in prompts], {"model_name": "mine", **self.about})

    words = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    used = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    with get_usage_metadata_callback() as usage:
        for about in (
            {"token_usage": words},
            {"usage_metadata": used},
            {"token_usage": used},
            {"token_usage": {"x": 1}},
        ):
            assert driver.invoke(Counts(about=about), "?") == "yes"
    assert usage.usage_metadata == {"mine": {"input_tokens": 9, "output_tokens": 6, "total_tokens": 15}}
