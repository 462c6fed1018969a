"""The scripted models of the testing kit."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runwell.errors import InvalidInput, UsageError
from runwell.messages import AIMessage, HumanMessage
from runwell.ports.embeddings import Embeddings
from runwell.testing import (
    DeterministicFakeEmbedding,
    FakeChatModel,
    FakeEmbeddings,
    FakeListChatModel,
    GenericFakeChatModel,
    ParrotFakeChatModel,
)

CALL = AIMessage("Let me see.", tool_calls=[{"name": "add", "args": {"a": 1, "words": ["x", "y"]}, "id": "c1"}])


def add(a: int, words: list[str]) -> int:
    """Add."""
    return a


@pytest.mark.parametrize("aio", [False, True])
@pytest.mark.parametrize("streaming", [False, True])
def test_test_01_a_scripted_model_takes_tools_streams_and_runs_out(aio: bool, streaming: bool) -> None:
    model = FakeChatModel([CALL, "done"], chunk_size=4)
    bound = model.bind_tools([add])

    def call(text: str) -> Any:
        if streaming:
            chunks = asyncio.run(_all(bound.astream(text))) if aio else list(bound.stream(text))
            assert max(len(chunk.text) for chunk in chunks) <= 4
            return (chunks[0] + chunks[1:]).to_message()
        return asyncio.run(bound.ainvoke(text)) if aio else bound.invoke(text)

    first = call("go")
    assert (first.text, first.tool_calls) == (CALL.text, [{**CALL.tool_calls[0], "type": "tool_call"}])
    assert first.usage_metadata["total_tokens"] > 0
    assert call("on").text == "done"
    assert model.remaining == 0
    with pytest.raises(UsageError, match=r"called 3 times and has 2 responses.*'more'"):
        call("more")
    assert [request.messages[0].text for request in model.requests] == ["go", "on", "more"]
    assert model.requests[0].tool_names == ["add"]
    assert model.requests[0].tools[0]["function"]["parameters"]["required"] == ["a", "words"]


async def _all(stream: Any) -> list[Any]:
    return [chunk async for chunk in stream]


def test_a_call_is_streamed_in_fragments() -> None:
    fragments = [chunk.tool_call_chunks for chunk in FakeChatModel([CALL]).stream("go") if chunk.tool_call_chunks]
    assert len(fragments) > 2
    assert (fragments[0][0]["name"], fragments[0][0]["args"]) == ("add", "")
    assert all(each[0]["name"] is None for each in fragments[1:])


def test_responses_may_be_errors_and_functions_of_either_colour() -> None:
    async def later(messages: list[Any]) -> str:
        await asyncio.sleep(0)
        return f"later {messages[-1].text}"

    def with_request(messages: list[Any], request: Any) -> AIMessage:
        return AIMessage(f"{len(messages)} {request.kwargs}")

    script = [ValueError("scripted"), lambda messages: f"now {messages[-1].text}", later, with_request]
    for aio in (False, True):
        bound = FakeChatModel(script).bind(k=1)

        def call(bound: Any = bound, aio: bool = aio) -> str:
            return str((asyncio.run(bound.ainvoke("Hi")) if aio else bound.invoke("Hi")).text)

        with pytest.raises(ValueError, match="scripted"):
            call()
        assert [call(), call(), call()] == ["now Hi", "later Hi", "1 {'k': 1}"]


def test_a_function_of_the_messages_may_take_keywords_that_nobody_gives() -> None:
    def reply(messages: list[Any], **more: Any) -> str:
        return f"{messages[-1].text} {more}"

    assert FakeChatModel([reply]).invoke("hi").text == "hi {}"


def test_a_scripted_message_is_never_changed() -> None:
    scripted = AIMessage("same")
    model = FakeChatModel([scripted], cycle=True)
    first, second = model.invoke("Hi"), model.invoke("Hi")
    assert first.id != second.id
    assert scripted == AIMessage("same")


def test_what_is_no_response_is_refused() -> None:
    with pytest.raises(InvalidInput, match="HumanMessage"):
        FakeChatModel([HumanMessage("x")]).invoke("Hi")


def test_the_fakes_of_the_field() -> None:
    listed = FakeListChatModel(responses=["ab", "c"])
    assert [listed.invoke("Hi").text for _ in range(3)] == ["ab", "c", "ab"]
    assert [chunk.text for chunk in FakeListChatModel(responses=["ab"]).stream("Hi")] == ["a", "b", ""]
    with pytest.raises(RuntimeError, match="chunk 1"):
        list(FakeListChatModel(responses=["ab"], error_on_chunk_number=1).stream("Hi"))
    assert ParrotFakeChatModel().invoke("polly").text == "polly"
    generic = GenericFakeChatModel(messages=iter([AIMessage("one two"), "three"]))
    assert [chunk.text for chunk in generic.stream("Hi")] == ["one", " two", ""]
    assert generic.invoke("Hi").text == "three"
    with pytest.raises(UsageError, match="used up"):
        generic.invoke("Hi")


def test_fake_embeddings() -> None:
    same = DeterministicFakeEmbedding(size=4)
    assert same.embed_query("a") == same.embed_documents(["a"])[0] == asyncio.run(same.aembed_query("a"))
    assert same.embed_query("a") != same.embed_query("b")
    changing = FakeEmbeddings(size=4)
    assert len(changing.embed_query("a")) == 4
    assert changing.embed_query("a") != changing.embed_query("a")


def test_embeddings_are_written_once_in_either_colour() -> None:
    class Plain(Embeddings):
        def embed_documents(self, texts: Any) -> list[list[float]]:
            return [[float(len(text))] for text in texts]

    class Async(Embeddings):
        async def aembed_documents(self, texts: Any) -> list[list[float]]:
            await asyncio.sleep(0)
            return [[float(len(text))] for text in texts]

        async def aembed_query(self, text: str) -> list[float]:
            return [-1.0]

    assert Plain().embed_query("abc") == asyncio.run(Plain().aembed_query("abc")) == [3.0]
    assert asyncio.run(Plain().aembed_documents(["a"])) == [[1.0]]
    assert Async().embed_documents(["ab"]) == [[2.0]]
    assert Async().embed_query("abc") == asyncio.run(Async().aembed_query("abc")) == [-1.0]
    with pytest.raises(UsageError, match="neither"):
        Embeddings().embed_documents(["a"])
    with pytest.raises(UsageError, match="neither"):
        asyncio.run(Embeddings().aembed_documents(["a"]))
