"""Whatever a subclass writes, callers get everything, in both colours."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from runwell.errors import InvalidInput, ModelError, ModelOverloaded, ModelRateLimitError, NodeError, UsageError
from runwell.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage
from runwell.models import BaseChatModel, ChatGeneration, ChatGenerationChunk, ChatResult, RetryPolicy
from runwell.observe import BaseCallbackHandler, DecisionLog
from runwell.testing import FakeChatModel

WORDS = ["one ", "two ", "three"]


def result(text: str) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


def piece(text: str) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(content=text))


class Plain(BaseChatModel):
    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return result("".join(WORDS))


class Async(BaseChatModel):
    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        await asyncio.sleep(0)
        return result("".join(WORDS))


class PlainStream(BaseChatModel):
    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        yield from map(piece, WORDS)


class AsyncStream(BaseChatModel):
    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for word in WORDS:
            await asyncio.sleep(0)
            yield piece(word)


class Everything(Plain, Async, PlainStream, AsyncStream):
    pass


@pytest.mark.parametrize("kind", [Plain, Async, PlainStream, AsyncStream, Everything])
def test_one_written_method_gives_all_calls(kind: type[BaseChatModel]) -> None:
    model = kind()
    whole = "".join(WORDS)

    async def asynchronously() -> list[Any]:
        answer = await model.ainvoke("Hi")
        chunks = [chunk async for chunk in model.astream("Hi")]
        return [answer, chunks, await model.abatch(["a", "b"])]

    answer, chunks, answers = asyncio.run(asynchronously())
    assert {each.text for each in (model.invoke("Hi"), answer, *answers, *model.batch(["a", "b"]))} == {whole}
    for stream in (list(model.stream("Hi")), chunks):
        assert "".join(chunk.text for chunk in stream) == whole
        assert len(stream) == (1 if kind in (Plain, Async) else 3)
        assert len({chunk.id for chunk in stream}) == 1
    first, second = model.invoke("Hi"), model.invoke("Hi")
    assert type(first) is AIMessage
    assert first.id != second.id
    assert first.id is not None
    assert first.id.startswith("run-")


@pytest.mark.parametrize(
    "give",
    [
        str,
        AIMessage,
        AIMessageChunk,
        lambda text: ChatGenerationChunk(message=AIMessage(text)),  # type: ignore[arg-type]
        lambda text: ChatGeneration(message=AIMessage(text), generation_info={"x": 1}),
    ],
    ids=["text", "message", "chunk", "message-in-a-piece", "generation"],
)
def test_a_written_stream_may_give_texts_and_messages(give: Any) -> None:
    class Streaming(BaseChatModel):
        def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Iterator[Any]:
            yield from map(give, WORDS)

    model = Streaming()

    async def asynchronously() -> tuple[Any, list[Any]]:
        return await model.ainvoke("Hi"), [chunk async for chunk in model.astream("Hi")]

    answer, chunks = asyncio.run(asynchronously())
    for whole, pieces in ((model.invoke("Hi"), list(model.stream("Hi"))), (answer, chunks)):
        assert type(whole) is AIMessage
        assert whole.text == "".join(WORDS)
        assert {type(each) for each in pieces} == {AIMessageChunk}
        assert [each.text for each in pieces] == WORDS
        assert len({each.id for each in pieces}) == 1


@pytest.mark.parametrize("given", [3, HumanMessage("Hi"), {"content": "Hi"}])
def test_what_is_no_answer_is_refused_in_words(given: Any) -> None:
    class Streaming(BaseChatModel):
        def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Iterator[Any]:
            yield given

    class Whole(BaseChatModel):
        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
            return ChatResult(generations=[ChatGeneration(message=given)])

    for call in (Streaming().invoke, Whole().invoke, lambda text: list(Streaming().stream(text))):
        with pytest.raises(UsageError, match="A chat model gave") as refused:
            call("Hi")
        assert repr(given) in str(refused.value)


def test_a_model_that_writes_nothing_is_refused() -> None:
    class Empty(BaseChatModel):
        pass

    with pytest.raises(UsageError, match="writes none of"):
        Empty()


def test_inputs_of_every_form_reach_the_model_as_messages() -> None:
    class Prompt:
        def to_messages(self) -> list[Any]:
            return [HumanMessage("Hi")]

    model = FakeChatModel(["ok"], cycle=True)
    for form in ("Hi", ["Hi"], [("user", "Hi")], [{"role": "user", "content": "Hi"}], [HumanMessage("Hi")], Prompt()):
        model.invoke(form)
        assert model.requests[-1].messages == [HumanMessage("Hi")]
    with pytest.raises(InvalidInput, match="no messages"):
        model.invoke([])


def test_what_a_call_says_reaches_the_written_method() -> None:
    model = FakeChatModel(["ok"], cycle=True)
    model.bind(temperature=0.5, seed=1).invoke("Hi", stop=["END"], seed=2)
    assert model.requests[-1].stop == ["END"]
    assert model.requests[-1].kwargs == {"temperature": 0.5, "seed": 2}


def test_disable_streaming() -> None:
    off = FakeChatModel(["a b c"], cycle=True, disable_streaming=True)
    assert [chunk.text for chunk in off.stream("Hi")] == ["a b c"]
    calls = AIMessage("a b", tool_calls=[{"name": "add", "args": {"a": 1}, "id": "1"}])
    half = FakeChatModel([calls], cycle=True, disable_streaming="tool_calling")
    assert len(list(half.stream("Hi"))) > 1
    (whole,) = half.bind_tools([{"name": "add", "parameters": {}}]).stream("Hi")
    assert whole.tool_calls == calls.tool_calls


def test_a_stream_without_chunks_is_no_answer() -> None:
    class Silent(BaseChatModel):
        def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Iterator[Any]:
            return iter(())

    with pytest.raises(ModelError, match="without an answer"):
        list(Silent().stream("Hi"))
    with pytest.raises(ModelError, match="without an answer"):
        Silent().invoke("Hi")


class Watching(BaseCallbackHandler):
    def __init__(self, wants_tokens: bool = False) -> None:
        self.wants_tokens = wants_tokens
        self.log: list[Any] = []

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        self.log.append(("start", messages[0][0].text, kwargs["run_id"], kwargs["tags"]))

    def on_llm_new_token(self, token: str, **kwargs: Any) -> None:
        self.log.append(("token", token, kwargs["run_id"]))

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        self.log.append(("end", response.generations[0][0].message, kwargs["run_id"]))

    def on_llm_error(self, error: BaseException, **kwargs: Any) -> None:
        self.log.append(("error", error, kwargs["run_id"]))

    def on_retry(self, retry_state: Any, **kwargs: Any) -> None:
        self.log.append(("retry", retry_state.attempt_number, kwargs["run_id"]))


@pytest.mark.parametrize("aio", [False, True])
@pytest.mark.parametrize("wants_tokens", [False, True])
def test_an_invoke_streams_inside_when_a_handler_wants_tokens(aio: bool, wants_tokens: bool) -> None:
    watching = Watching(wants_tokens)
    model = Everything(tags=["mine"])
    config: Any = {"callbacks": [watching], "tags": ["call"]}
    answer = asyncio.run(model.ainvoke("Hi", config)) if aio else model.invoke("Hi", config)
    kinds = [entry[0] for entry in watching.log]
    assert kinds == ["start", *(["token"] * 3 if wants_tokens else []), "end"]
    run_id = watching.log[0][2]
    assert {entry[2] for entry in watching.log} == {run_id}
    assert set(watching.log[0][3]) == {"mine", "call"}
    assert watching.log[-1][1] == answer
    assert answer.id == f"run-{run_id}"
    assert answer.text == "".join(WORDS)


@pytest.mark.parametrize("aio", [False, True])
def test_a_stream_is_reported_chunk_by_chunk(aio: bool) -> None:
    watching = Watching()
    config: Any = {"callbacks": [watching]}

    async def read() -> list[Any]:
        return [chunk async for chunk in Everything().astream("Hi", config)]

    chunks = asyncio.run(read()) if aio else list(Everything().stream("Hi", config))
    assert [entry[1] for entry in watching.log if entry[0] == "token"] == WORDS
    assert watching.log[-1][1].text == "".join(WORDS)
    assert {chunk.id for chunk in chunks} == {f"run-{watching.log[0][2]}"}


def test_a_written_method_may_report_tokens_itself() -> None:
    class Reports(BaseChatModel):
        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
            if run_manager:
                run_manager.on_llm_new_token("tok")
            return result("tok")

        async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
            if run_manager:
                await run_manager.on_llm_new_token("tok")
            return result("tok")

    watching = Watching()
    Reports().invoke("Hi", {"callbacks": [watching]})
    asyncio.run(Reports().ainvoke("Hi", {"callbacks": [watching]}))
    assert [entry[0] for entry in watching.log] == ["start", "token", "end"] * 2


@pytest.mark.parametrize("aio", [False, True])
def test_e7_transient_errors_are_tried_again_and_told(aio: bool) -> None:
    model = FakeChatModel([ModelOverloaded("busy"), ModelRateLimitError("slow"), "ok"], max_retries=2)
    watching = Watching()
    config: Any = {"callbacks": [watching]}
    answer = asyncio.run(model.ainvoke("Hi", config)) if aio else model.invoke("Hi", config)
    assert answer.text == "ok"
    assert [entry[:2] for entry in watching.log if entry[0] == "retry"] == [("retry", 1), ("retry", 2)]


def test_e7_errors_of_other_kinds_are_not_tried_again() -> None:
    model = FakeChatModel([ValueError("mine"), "ok"], max_retries=2)
    with pytest.raises(ValueError, match="mine"):
        model.invoke("Hi")
    assert len(model.requests) == 1


def test_an_error_after_the_first_chunk_is_raised_as_it_is() -> None:
    class Breaks(BaseChatModel):
        retry_policy = RetryPolicy(first_s=0)
        calls: int = 0

        def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Iterator[Any]:
            self.calls += 1
            yield piece("a")
            raise ModelOverloaded("busy")

    model = Breaks()
    seen = []
    with pytest.raises(ModelOverloaded):
        for chunk in model.stream("Hi"):
            seen.append(chunk.text)
    assert (seen, model.calls) == (["a"], 1)


class Source:
    """A stream that must be closed, not only dropped."""

    def __init__(self) -> None:
        self.closed = False

    def __iter__(self) -> Source:
        return self

    def __aiter__(self) -> Source:
        return self

    def __next__(self) -> ChatGenerationChunk:
        return piece("a")

    async def __anext__(self) -> ChatGenerationChunk:
        return piece("a")

    def close(self) -> None:
        self.closed = True

    async def aclose(self) -> None:
        self.closed = True


class Endless(BaseChatModel):
    source: Source

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        return self.source

    def _astream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        return self.source


@pytest.mark.parametrize("observed", [False, True])
def test_closing_a_stream_closes_what_was_written(observed: bool) -> None:
    config: Any = {"callbacks": [Watching()]} if observed else None
    source = Source()
    stream = Endless(source=source).stream("Hi", config)
    assert next(stream).text == "a"
    stream.close()  # type: ignore[attr-defined]
    assert source.closed


@pytest.mark.parametrize("observed", [False, True])
def test_closing_an_async_stream_closes_what_was_written(observed: bool) -> None:
    config: Any = {"callbacks": [Watching()]} if observed else None
    source = Source()

    async def read_one() -> str:
        stream: Any = Endless(source=source).astream("Hi", config)
        chunk = await anext(stream)
        await stream.aclose()
        return str(chunk.text)

    assert asyncio.run(read_one()) == "a"
    assert source.closed


def test_generation_info_of_a_provider_is_kept() -> None:
    class Informed(BaseChatModel):
        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
            generation = ChatGeneration(message=AIMessage("ok"), generation_info={"finish_reason": "stop"})
            return ChatResult(generations=[generation])

    assert Informed().invoke("Hi").response_metadata == {"finish_reason": "stop"}


def test_generate_gives_generations() -> None:
    found = Plain().generate(["a", "b"])
    assert [each[0].text for each in found.generations] == ["one two three"] * 2


def test_an_unobserved_call_costs_a_few_microseconds() -> None:
    model, history = Plain(), [HumanMessage("Hi")]
    best = min(_timed(model, history) for _ in range(5))
    assert best < 40e-6, f"{best * 1e6:.1f} µs a call"  # measured: 3 µs; the bound allows a busy machine


def _timed(model: BaseChatModel, history: list[Any]) -> float:
    start = time.perf_counter()
    for _ in range(500):
        model.invoke(history)
    return (time.perf_counter() - start) / 500


@pytest.mark.parametrize("written", ["_generate", "_agenerate"])
@pytest.mark.parametrize("error", [StopIteration, StopAsyncIteration])
def test_the_end_of_an_iteration_inside_a_model_is_told_as_an_error(written, error, driver):
    def plain(self, messages, stop=None, run_manager=None, **kwargs):
        raise error("early")

    async def asynchronous(self, messages, stop=None, run_manager=None, **kwargs):
        raise error("early")

    model = type("Mine", (BaseChatModel,), {written: plain if written == "_generate" else asynchronous})()
    for call in (driver.invoke, driver.stream):
        with pytest.raises(NodeError, match="early"):
            call(model, "hi")


@pytest.mark.parametrize("given", ["config", "model"])
@pytest.mark.parametrize("way", ["invoke", "stream"])
def test_b9_handlers_of_the_model_alone_are_told_that_system_messages_were_moved(given, way, driver) -> None:
    log = DecisionLog()
    own = {"callbacks": [log]} if given == "model" else {}
    model = FakeChatModel(responses=["ave"], profile={"system_in_middle": False}, **own)
    messages = [HumanMessage("go"), AIMessage("yes"), SystemMessage("Speak Latin."), HumanMessage("more")]
    getattr(driver, way)(model, messages, {"callbacks": [log]} if given == "config" else None)
    assert [message.type for message in model.requests[0].messages] == ["system", "human", "ai", "human"]
    [moved] = log.of("B9")
    assert moved.outcome == "1 moved to the top"
    assert moved.run.kind == "chat_model"


class Shows(BaseChatModel):
    """A user's own, that answers with the tools it is given."""

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return ChatResult([ChatGeneration(AIMessage("Yes.", additional_kwargs={"tools": kwargs.get("tools")}))])


def double(number: int) -> int:
    """Twice the number."""
    return 2 * number


@pytest.mark.parametrize(
    "tools",
    [
        ["web_search"],
        ["web_search", {"google_search": {}}],
        [{"name": "x", "input_schema": {"type": "object"}}],
        "all",
        [],
    ],
    ids=repr,
)
def test_a_models_own_form_of_tools_is_handed_on(tools: Any, driver: Any) -> None:
    """Names and dicts that its API knows go as they were bound, by `bind` and by a `bind_tools` of its own."""

    class Own(Shows):
        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self.bind(tools=tools, **kwargs)

    for bound in (Shows().bind(tools=tools), Own().bind_tools(tools), Shows().bind(tools=tools).bind(seed=1)):
        assert driver.invoke(bound, "?").additional_kwargs["tools"] == tools
    assert "tools=" in repr(Shows().bind(tools=tools))


def test_functions_that_are_bound_are_described() -> None:
    name, described = Shows().bind(tools=["web_search", double]).invoke("?").additional_kwargs["tools"]
    assert name == "web_search"
    assert described["function"]["name"] == "double"
    answer = {"title": "Answer", "type": "object", "properties": {"x": {"type": "integer"}}}
    asked = (
        Shows().bind(tools=["web_search"]).with_structured_output(answer, method="function_calling", include_raw=True)
    )
    name, described = asked.invoke("?")["raw"].additional_kwargs["tools"]
    assert (name, described["function"]["name"]) == ("web_search", "Answer")
