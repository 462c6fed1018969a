"""The bundled models themselves, fetched once into the shared cache: in process, and through the OpenAI SDK."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from runwell.errors import ContextOverflow, ModelTimeout
from runwell.messages import AIMessage, HumanMessage, ToolMessage
from runwell.providers.local import MODELS, LocalChatModel, LocalEmbeddings, LocalServer
from runwell.providers.local.fetch import fetch, path

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.bundled_model,
]

# Looked for, not imported: the provider sets OpenMP up before the import.
if importlib.util.find_spec("xllamacpp") is None:
    pytest.skip("needs runwell[local]", allow_module_level=True)


def calculator(expression: str) -> str:
    """Calculate the value of an arithmetic expression.

    Args:
        expression: such as 2 * (3 + 4)
    """
    raise NotImplementedError


def current_time() -> str:
    """The current date and time."""
    raise NotImplementedError


def search_docs(query: str) -> str:
    """Search the documentation.

    Args:
        query: what to look for
    """
    raise NotImplementedError


TOOLS = [calculator, current_time, search_docs]
RESULTS = {"calculator": "1081", "current_time": "2025-03-14 09:26", "search_docs": "Retries: set max_attempts."}


def work(model: Any, request: str) -> list[Any]:
    """Run a tool loop by hand; the messages of the run."""
    history: list[Any] = [HumanMessage(request)]
    for _ in range(6):
        answer = model.invoke(history)
        history.append(answer)
        if not answer.tool_calls:
            break
        history += [ToolMessage(RESULTS[call["name"]], tool_call_id=call["id"]) for call in answer.tool_calls]
    return history


def calls(history: list[Any]) -> list[str]:
    return [call["name"] for message in history if isinstance(message, AIMessage) for call in message.tool_calls]


@pytest.fixture(scope="module")
def chat() -> LocalChatModel:
    model = LocalChatModel(max_tokens=64)
    model.load()
    return model


@pytest.fixture(scope="module")
def embedder() -> LocalEmbeddings:
    return LocalEmbeddings()


def test_every_bundled_model_is_fetched_and_verified() -> None:
    for name, model in MODELS.items():
        assert fetch(name) == path(name)
        assert fetch(name).stat().st_size == model.size


def test_an_answer_and_its_tokens(chat: LocalChatModel) -> None:
    message = chat.invoke("What is the capital of France? One word.")
    assert "Paris" in message.text
    assert message.usage_metadata is not None
    assert message.usage_metadata["input_tokens"] > 10
    assert 1 <= message.usage_metadata["output_tokens"] <= 64


def test_a_stream_adds_up_to_the_answer(chat: LocalChatModel) -> None:
    steady = chat.model_copy(update={"cache_prompt": False})
    chunks = list(steady.stream("Count from one to five in words."))
    assert len(chunks) > 5
    whole = sum(chunks[1:], chunks[0])
    assert whole.text == steady.invoke("Count from one to five in words.").text
    assert whole.usage_metadata is not None
    assert whole.response_metadata["finish_reason"] == "stop"


def test_stop_and_length(chat: LocalChatModel) -> None:
    said = "Repeat exactly: alpha beta gamma delta"
    assert "gamma" in chat.invoke(said).text
    assert "gamma" not in chat.invoke(said, stop=["gamma"]).text
    short = chat.invoke("Write a long story.", max_tokens=5)
    assert short.response_metadata["finish_reason"] == "length"


def test_closing_a_stream_frees_the_engine_at_once(chat: LocalChatModel) -> None:
    stream = chat.stream("Write a very long story about a dragon.", max_tokens=2000)
    next(stream)
    stream.close()
    engine = chat._runtime.engine()
    deadline = time.monotonic() + 5
    while engine._running and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not engine._running


def test_a_timeout(chat: LocalChatModel) -> None:
    with pytest.raises(ModelTimeout):
        chat.invoke("Write a very long story.", max_tokens=2000, timeout=0.2)


def test_too_long_a_conversation_says_by_how_much(chat: LocalChatModel) -> None:
    with pytest.raises(ContextOverflow) as caught:
        chat.invoke("word " * 9000)
    assert caught.value.over is not None
    assert caught.value.over > 500


def test_concurrent_calls_queue_and_all_end(chat: LocalChatModel) -> None:
    async def ask() -> list[AIMessage]:
        return list(await asyncio.gather(*(chat.ainvoke(f"What is {n} + {n}?", max_tokens=16) for n in range(1, 7))))

    answers = asyncio.run(ask())
    assert all(str(n + n) in answer.text for n, answer in enumerate(answers, 1))


def test_equal_calls_are_equal_without_the_prompt_cache(chat: LocalChatModel) -> None:
    steady = chat.model_copy(update={"cache_prompt": False, "temperature": 0.9, "seed": 7})
    assert len({steady.invoke("Tell me a joke.").text for _ in range(2)}) == 1


def test_a_structured_answer(chat: LocalChatModel) -> None:
    from pydantic import BaseModel

    class Person(BaseModel):
        name: str
        age: int

    for method in ("json_schema", "function_calling"):
        person = chat.with_structured_output(Person, method=method).invoke("Ann is 34 years old.")
        assert person == Person(name="Ann", age=34)


def test_a_two_tool_task(chat: LocalChatModel) -> None:
    history = work(chat.bind_tools(TOOLS), "What is 23*47, and what time is it?")
    assert calls(history) == ["calculator", "current_time"]
    assert "1081" in history[-1].text
    assert "09:26" in history[-1].text or "9:26" in history[-1].text


def test_the_final_answer_streams_token_by_token(chat: LocalChatModel) -> None:
    history = work(chat.bind_tools(TOOLS), "What is 23*47?")[:-1]
    chunks = [chunk for chunk in chat.bind_tools(TOOLS).stream(history) if chunk.content]
    assert len(chunks) > 3
    assert "1081" in "".join(chunk.text for chunk in chunks)


def test_parallel_calls(chat: LocalChatModel) -> None:
    message = chat.bind_tools(TOOLS, parallel_tool_calls=True).invoke("What is 23*47, and what time is it?")
    assert [call["name"] for call in message.tool_calls] == ["calculator", "current_time"]


def test_the_choice_is_honoured(chat: LocalChatModel) -> None:
    def ask(choice: str) -> list[str]:
        return [call["name"] for call in chat.bind_tools(TOOLS, tool_choice=choice).invoke("Hello!").tool_calls]

    assert ask("none") == ask("auto") == []
    assert ask("search_docs") == ["search_docs"]
    assert len(ask("any")) == 1


def test_the_smallest_model_talks() -> None:
    small = LocalChatModel(model="smollm2-135m", max_tokens=24)
    assert len(list(small.stream("Say hello."))) > 2


def test_embeddings_know_what_is_alike(embedder: LocalEmbeddings) -> None:
    cat, kitten, stocks = embedder.embed_documents(["a cat", "a kitten", "a stock market crash"])

    def alike(a: list[float], b: list[float]) -> float:
        return sum(x * y for x, y in zip(a, b, strict=True))

    assert len(cat) == embedder.dimensions == 384
    assert alike(cat, cat) == pytest.approx(1, abs=1e-3)
    assert alike(cat, kitten) > 0.6 > 0.3 > alike(cat, stocks)
    assert embedder.embed_query("a cat") == pytest.approx(cat, abs=1e-3)


def test_many_texts_keep_their_order(embedder: LocalEmbeddings) -> None:
    texts = [f"number {n}" for n in range(150)]
    vectors = embedder.embed_documents(texts)
    assert len(vectors) == 150
    assert vectors[149] == pytest.approx(embedder.embed_query("number 149"), abs=1e-2)


def test_too_long_a_text_is_refused_not_cut(embedder: LocalEmbeddings) -> None:
    with pytest.raises(ContextOverflow, match="512"):
        embedder.embed_query("word " * 900)


def test_a_process_ends_cleanly_while_the_model_speaks() -> None:
    code = (
        "from runwell.providers.local import LocalChatModel\n"
        "next(LocalChatModel(model='smollm2-135m').stream('Write a long story.', max_tokens=2000)); print('out')\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout) == (0, "out\n"), ended.stderr


# -- through the OpenAI SDK


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with LocalServer() as running:
        yield running


@pytest.fixture(scope="module")
def remote(server: LocalServer) -> Any:
    pytest.importorskip("openai")
    from runwell.providers.openai import ChatOpenAI

    return ChatOpenAI(model="qwen2.5-coder-0.5b", base_url=server.url, api_key=server.key, max_tokens=64)


def test_a_two_tool_task_over_http(remote: Any) -> None:
    history = work(remote.bind_tools(TOOLS), "What is 23*47, and what time is it?")
    assert calls(history) == ["calculator", "current_time"]
    assert "1081" in history[-1].text


def test_streaming_over_http(remote: Any) -> None:
    chunks = list(remote.bind_tools(TOOLS).stream("What is 23*47?"))
    whole = sum(chunks[1:], chunks[0])
    assert [call["name"] for call in whole.tool_calls] == ["calculator"]
    words = [chunk.text for chunk in remote.stream("Count from one to five in words.") if chunk.text]
    assert len(words) > 3


def test_a_structured_answer_over_http(server: LocalServer) -> None:
    openai = pytest.importorskip("openai")
    from pydantic import BaseModel

    class Person(BaseModel):
        name: str
        age: int

    with openai.OpenAI(base_url=server.url, api_key=server.key) as client:
        said = [{"role": "user", "content": "Ann is 34 years old."}]
        answer = client.chat.completions.parse(model="qwen2.5-coder-0.5b", messages=said, response_format=Person)
        assert answer.choices[0].message.parsed == Person(name="Ann", age=34)
        vectors = client.embeddings.create(model="all-minilm-l6-v2", input=["a", "b"])
        assert [len(each.embedding) for each in vectors.data] == [384, 384]


def test_concurrent_clients(server: LocalServer, remote: Any) -> None:
    answers: dict[int, str] = {}

    def ask(n: int) -> None:
        answers[n] = remote.invoke(f"What is {n} + {n}?").text

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(str(n + n) in answers[n] for n in range(1, 6))


def test_only_the_key_opens_it(server: LocalServer) -> None:
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=server.url, api_key="wrong") as client, pytest.raises(openai.AuthenticationError):
        client.models.list()


@pytest.mark.parametrize("where", ["process", "http"])
def test_an_agent(where: str, chat: LocalChatModel, remote: Any) -> None:
    agents = pytest.importorskip("runwell.agents")
    from runwell.tools import tool

    @tool
    def calculator(expression: str) -> str:
        """Calculate the value of an arithmetic expression.

        Args:
            expression: such as 2 * (3 + 4)
        """
        left, right = expression.split("*")
        return str(int(left) * int(right))

    @tool
    def current_time() -> str:
        """The current date and time."""
        return "2025-03-14 09:26"

    agent = agents.create_agent(chat if where == "process" else remote, [calculator, current_time])
    state = agent.invoke({"messages": [HumanMessage("What is 23*47, and what time is it?")]})
    assert calls(state["messages"]) == ["calculator", "current_time"]
    assert "1081" in state["messages"][-1].text


def test_no_network_is_needed_once_everything_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNWELL_OFFLINE", "1")
    assert os.environ["RUNWELL_OFFLINE"] == "1"
    assert fetch("smollm2-135m").exists()
    assert LocalChatModel(model="smollm2-135m", max_tokens=4).invoke("Hi").text
