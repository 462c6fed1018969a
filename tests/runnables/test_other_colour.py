"""Who writes a public method anew in one colour is asked through it in the other colour too."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from runwell.agents import create_agent
from runwell.chat_history import InMemoryChatMessageHistory
from runwell.documents import BaseReranker
from runwell.messages import AIMessage, AIMessageChunk
from runwell.models import BaseChatModel, InMemoryCache
from runwell.models.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from runwell.observe import BaseCallbackHandler
from runwell.parsers import StrOutputParser
from runwell.persistence import InMemoryStore, SqliteCache
from runwell.prompts import ChatPromptTemplate
from runwell.runnables import Runnable, RunnableLambda, RunnablePassthrough
from runwell.testing import FakeChatModel, FakeEmbeddings, FakeListLLM
from runwell.tools import BaseTool, StructuredTool

asked: list[str] = []


@pytest.fixture(autouse=True)
def nothing_asked() -> None:
    asked.clear()


class Both(BaseChatModel):
    """A model with each method in both colours, each on its own."""

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return ChatResult([ChatGeneration(AIMessage("plain"))])

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return ChatResult([ChatGeneration(AIMessage("coloured"))])

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        yield ChatGenerationChunk(AIMessageChunk("plain"))

    async def _astream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        yield ChatGenerationChunk(AIMessageChunk("coloured"))


Both.__module__ = "runwell.somewhere"  # a class of the package: what counts is whose class writes a method


def coloured(name: str) -> bool:
    return name.lstrip("_").startswith("a") and name != "add_messages"


def overriding(base: type, *names: str) -> type:
    """A user's class: `base` with these methods written anew, each of which says so and asks the one beneath."""

    def written(name: str) -> Any:
        beneath = getattr(base, name)

        if name.lstrip("_") in ("astream", "atransform"):

            async def apull(self: Any, *args: Any, **kwargs: Any) -> Any:
                asked.append(name)
                async for chunk in beneath(self, *args, **kwargs):
                    yield chunk

            return apull
        if name.lstrip("_") in ("stream", "transform"):

            def pull(self: Any, *args: Any, **kwargs: Any) -> Any:
                asked.append(name)
                yield from beneath(self, *args, **kwargs)

            return pull
        if coloured(name):

            async def acall(self: Any, *args: Any, **kwargs: Any) -> Any:
                asked.append(name)
                return await beneath(self, *args, **kwargs)

            return acall

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            asked.append(name)
            return beneath(self, *args, **kwargs)

        return call

    return type("Mine", (base,), {name: written(name) for name in names} | {"__module__": __name__})


class Rerank(BaseReranker):
    def _ranked(self, texts: list[str], query: str, top_n: int) -> list[tuple[int, float]]:
        return [(0, 1.0)]


Rerank.__module__ = "runwell.somewhere"


class Count(BaseTool):
    name: str = "count"
    description: str = "Count."

    def _run(self, text: str) -> int:
        return len(text)


RUNNABLES: dict[str, tuple[type, Any, tuple[Any, ...]]] = {
    "model": (FakeChatModel, lambda cls: cls(["a", "b", "c", "d"]), ("hi",)),
    "passthrough": (RunnablePassthrough, lambda cls: cls(), ("hi",)),
    "lambda": (RunnableLambda, lambda cls: cls(lambda text: text), ("hi",)),
    "parser": (StrOutputParser, lambda cls: cls(), ("hi",)),
    "prompt": (ChatPromptTemplate, lambda cls: cls([("human", "{x}")]), ({"x": "hi"},)),
    "llm": (FakeListLLM, lambda cls: cls(responses=["a", "b"]), ("hi",)),
    "tool": (Count, lambda cls: cls(), ({"text": "hi"},)),
}

PAIRS = {"invoke": "ainvoke", "stream": "astream", "batch": "abatch"}


async def drained(stream: Any) -> list[Any]:
    return [item async for item in stream]


def ask(thing: Any, name: str, *args: Any) -> Any:
    """What the method gives, in a loop of its own if it is `async`."""

    async def main() -> Any:
        made = getattr(thing, name)(*args)
        return await (drained(made) if hasattr(made, "__aiter__") else made)

    if coloured(name):
        return asyncio.run(main())
    made = getattr(thing, name)(*args)
    return list(made) if name == "stream" else made


@pytest.mark.parametrize("plain", PAIRS)
@pytest.mark.parametrize("which", RUNNABLES)
@pytest.mark.parametrize("colour", ["plain", "coloured"])
def test_runnables(which: str, plain: str, colour: str) -> None:
    base, make, args = RUNNABLES[which]
    written, other = (plain, PAIRS[plain]) if colour == "plain" else (PAIRS[plain], plain)
    if plain == "batch":
        args = ([args[0]],)
    thing = make(overriding(base, written))
    expected = ask(make(base), other, *args)
    given = ask(thing, other, *args)
    assert asked == [written]
    assert repr(_bare(given)) == repr(_bare(expected))
    asked.clear()
    ask(thing, written, *args)
    assert asked == [written]


def _bare(value: Any) -> Any:
    if isinstance(value, list):
        return [_bare(one) for one in value]
    return value.content if isinstance(value, AIMessage) else value


OTHERS: dict[str, tuple[Any, dict[str, tuple[str, tuple[Any, ...]]]]] = {
    "embeddings": (lambda cls=FakeEmbeddings: cls(4), {"embed_documents": ("aembed_documents", (["a"],))}),
    "query": (lambda cls=FakeEmbeddings: cls(4), {"embed_query": ("aembed_query", ("a",))}),
    "store": (InMemoryStore, {"get": ("aget", (("n",), "k")), "put": ("aput", (("n",), "k", {"v": 1}))}),
    "cache": (InMemoryCache, {"lookup": ("alookup", ("a", "b")), "update": ("aupdate", ("a", "b", []))}),
    "kept": (lambda cls=SqliteCache: cls(":memory:"), {"lookup": ("alookup", ("a", "b"))}),
    "history": (InMemoryChatMessageHistory, {"add_messages": ("aadd_messages", ([],)), "clear": ("aclear", ())}),
    "reranker": (Rerank, {"rerank": ("arerank", (["a"], "q")), "_ranked": ("_aranked", (["a"], "q", 1))}),
}


@pytest.mark.parametrize("which", OTHERS)
@pytest.mark.parametrize("colour", ["plain", "coloured"])
def test_what_is_no_runnable(which: str, colour: str) -> None:
    made, pairs = OTHERS[which]
    base = made.__defaults__[0] if inspect.isfunction(made) else made
    for plain, (coloured, args) in pairs.items():
        written, other = (plain, coloured) if colour == "plain" else (coloured, plain)
        cls = overriding(base, written)
        thing = made(cls) if inspect.isfunction(made) else cls()
        for name in (other, written):
            asked.clear()
            ask(thing, name, *args)
            assert asked == [written]


@pytest.mark.parametrize("written", ["_generate", "_agenerate", "_stream", "_astream"])
@pytest.mark.parametrize("how", ["invoke", "ainvoke", "stream", "astream"])
def test_what_a_chat_model_writes_stands_for_both_colours(written: str, how: str) -> None:
    model = overriding(Both, written)()
    ask(model, how, "hi")
    concerned = ("stream" in written) == ("stream" in how)
    assert asked == ([written] if concerned else [])


@pytest.mark.parametrize("written", ["invoke", "ainvoke"])
@pytest.mark.parametrize("how", ["invoke", "ainvoke", "stream", "astream"])
def test_an_agent_asks_its_model_through_it(written: str, how: str) -> None:
    agent = create_agent(overriding(FakeChatModel, written)(["hello"]))
    ask(agent, how, {"messages": "hi"})
    assert asked == [written]


@pytest.mark.parametrize("written", ["invoke", "ainvoke"])
@pytest.mark.parametrize("how", ["invoke", "ainvoke", "stream", "astream"])
def test_an_agent_asks_a_tool_through_it(written: str, how: str) -> None:
    call = {"name": "count", "args": {"text": "four"}, "id": "1"}
    model = FakeChatModel([AIMessage("", tool_calls=[call]), "done"])
    agent = create_agent(model, [overriding(Count, written)()], middleware=[])
    handler = Told()
    ask(agent, how, {"messages": "hi"}, {"callbacks": [handler]})
    assert asked == [written]
    assert handler.tools == [("count", "4")]


class Told(BaseCallbackHandler):
    def __init__(self) -> None:
        self.tools: list[tuple[str, str]] = []
        self.chains: list[Any] = []

    def on_chain_end(self, outputs: Any, **kwargs: Any) -> None:
        self.chains.append(outputs)

    def on_tool_end(self, output: Any, **kwargs: Any) -> None:
        self.tools.append((output.name, output.content))


def test_a_model_whose_invoke_is_replaced_later_is_asked_through_that() -> None:
    model = FakeChatModel(["before", "not asked"])
    agent = create_agent(model)
    assert agent.invoke({"messages": "hi"})["messages"][-1].content == "before"
    model.invoke = lambda *args, **kwargs: AIMessage("by invoke")
    assert agent.invoke({"messages": "hi"})["messages"][-1].content == "by invoke"

    async def ainvoke(*args: Any, **kwargs: Any) -> Any:
        return AIMessage("by ainvoke")

    model.ainvoke = ainvoke
    assert ask(agent, "ainvoke", {"messages": "hi"})["messages"][-1].content == "by ainvoke"


@pytest.mark.parametrize("how", ["invoke", "ainvoke"])
def test_classes_made_from_one_another_are_asked_in_turn(how: str) -> None:
    """The inner one's `ainvoke` goes through its `invoke`, and that is what the outer one writes anew."""
    model = overriding(overriding(FakeChatModel, "invoke"), "ainvoke")(["a"])
    ask(model, how, "hi")
    assert asked == ["ainvoke", "invoke"]


class Own(Runnable[Any, Any]):
    """A user's own class with both colours."""

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        asked.append("base invoke")
        return input

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        asked.append("base ainvoke")
        return input


@pytest.mark.parametrize("written", ["invoke", "ainvoke"])
@pytest.mark.parametrize("how", ["invoke", "ainvoke", "stream", "astream"])
@pytest.mark.parametrize("config", [None, {"tags": ["a"]}])
def test_a_class_of_a_users_made_from_another_one(written: str, how: str, config: Any) -> None:
    handler = Told()
    told = None if config is None else {**config, "callbacks": [handler]}
    ask(overriding(Own, written)(), how, "hi", told)
    assert asked == [written, f"base {written}"]
    assert handler.chains == ([] if config is None else ["hi"])


@pytest.mark.parametrize("how", ["invoke", "ainvoke"])
def test_a_colour_that_is_added_goes_with_the_other_one(how: str) -> None:
    class Plain(Runnable[Any, Any]):
        def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
            asked.append("invoke")
            return input

    class Faster(Plain):
        async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
            asked.append("ainvoke")
            return input

    ask(Faster(), how, "hi")
    assert asked == [how]


def test_a_mixin_counts_as_its_user() -> None:
    class Loud:
        def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
            asked.append("mixin")
            return super().invoke(input, config, **kwargs)  # type: ignore[misc]

    class Model(Loud, FakeChatModel):
        pass

    ask(Model(["a"]), "ainvoke", "hi")
    assert asked == ["mixin"]


def down(n: int) -> int:
    return n and 1 + deepest[0].invoke({"n": n - 1})


async def adown(n: int) -> int:
    return n and 1 + await deepest[0].ainvoke({"n": n - 1})


deepest: list[Any] = []


@pytest.mark.parametrize("method", ["invoke", "ainvoke"])
@pytest.mark.parametrize("functions", [{"func": down}, {"coroutine": adown}, {"func": down, "coroutine": adown}])
def test_what_a_function_asks_anew_is_asked_through_the_written_method_again(
    method: str, functions: dict[str, Any], driver: Any
) -> None:
    tool = overriding(StructuredTool, method).from_function(name="down", description="Counts down.", **functions)
    deepest[:] = [tool]
    assert driver.invoke(tool, {"n": 2}) == 2
    assert asked == [method] * 3


@pytest.mark.parametrize("method", ["invoke", "ainvoke"])
def test_a_lambda_asks_itself_through_the_written_method(method: str, driver: Any) -> None:
    for function in (lambda n: n and 1 + deepest[0].invoke(n - 1), lambda n: n and _one_more(n)):
        asked.clear()
        deepest[:] = [overriding(RunnableLambda, method)(function)]
        assert driver.invoke(deepest[0], 2) == 2
        assert asked == [method] * 3


async def _one_more(n: int) -> int:
    return 1 + await deepest[0].ainvoke(n - 1)


class StreamsByItsPlainStream(FakeChatModel):
    async def astream(self, *args: Any, **kwargs: Any) -> Any:
        asked.append("astream")
        for chunk in self.stream(*args, **kwargs):
            yield chunk


class StreamsByItsColouredStream(FakeChatModel):
    def stream(self, *args: Any, **kwargs: Any) -> Any:
        async def read() -> list[Any]:
            return [chunk async for chunk in self.astream(*args, **kwargs)]

        asked.append("stream")
        yield from asyncio.run(read())


class StreamsInsideByItsPlainStream(FakeChatModel):
    async def _astream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        asked.append("_astream")
        for chunk in self._stream(messages, stop, None, **kwargs):
            yield chunk


@pytest.mark.parametrize("model", [StreamsByItsPlainStream, StreamsByItsColouredStream, StreamsInsideByItsPlainStream])
def test_a_stream_may_be_made_of_the_other_colour_of_the_same_object(model: Any) -> None:
    assert [chunk.text for chunk in model(["a b"]).stream("hi")] == ["a", " b", ""]
    assert len(asked) == 1

    async def read() -> list[str]:
        return [chunk.text async for chunk in model(["a b"]).astream("hi")]

    assert asyncio.run(read()) == ["a", " b", ""]
    assert len(asked) == 2


class AnswersByItsPlainForm(FakeChatModel):
    async def ainvoke(self, *args: Any, **kwargs: Any) -> Any:
        asked.append("ainvoke")
        return AIMessage("own: " + self.invoke(*args, **kwargs).text)


class AnswersByItsColouredForm(FakeChatModel):
    def invoke(self, *args: Any, **kwargs: Any) -> Any:
        asked.append("invoke")
        return AIMessage("own: " + asyncio.run(self.ainvoke(*args, **kwargs)).text)


class Further(AnswersByItsPlainForm):
    async def ainvoke(self, *args: Any, **kwargs: Any) -> Any:
        return await super().ainvoke(*args, **kwargs)


@pytest.mark.parametrize("model", [AnswersByItsPlainForm, AnswersByItsColouredForm, Further])
def test_a_written_method_that_asks_the_other_colour_of_the_same_object_runs_once(model: Any, driver: Any) -> None:
    assert driver.invoke(model(["a"]), "hi").text == "own: a"
    assert len(asked) == 1


class Around(AnswersByItsPlainForm):
    def __init__(self, inner: Any) -> None:
        super().__init__(["not asked"])
        self.__dict__["inner"] = inner

    async def ainvoke(self, *args: Any, **kwargs: Any) -> Any:
        asked.append("around")
        return self.inner.invoke(*args, **kwargs)


def test_another_object_of_the_class_is_asked_through_its_written_method(driver: Any) -> None:
    made = Around(Around(AnswersByItsPlainForm(["a"])))
    assert driver.invoke(made, "hi").text == "own: a"
    assert asked == ["around", "around", "ainvoke"]


class QueriesByItsPlainForm(FakeEmbeddings):
    async def aembed_query(self, text: str) -> list[float]:
        asked.append("aembed_query")
        return self.embed_query(text)


class QueriesByItsColouredForm(FakeEmbeddings):
    def embed_query(self, text: str) -> list[float]:
        asked.append("embed_query")
        return asyncio.run(self.aembed_query(text))


@pytest.mark.parametrize("embeddings", [QueriesByItsPlainForm, QueriesByItsColouredForm])
def test_a_query_may_be_embedded_by_the_other_colour_of_the_same_object(embeddings: Any) -> None:
    assert len(embeddings(size=3).embed_query("a")) == 3
    assert len(asyncio.run(embeddings(size=3).aembed_query("a"))) == 3
    assert len(asked) == 2
