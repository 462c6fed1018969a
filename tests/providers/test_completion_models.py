"""Completion models of OpenAI's, Azure's and Ollama's, on the vendors' SDKs: a text in, what goes on from it out."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from runwell.errors import (
    InvalidInput,
    MissingApiKey,
    ModelBadRequest,
    ModelConnectionError,
    ModelError,
    ModelOverloaded,
    ModelTimeout,
    UnsupportedByProvider,
)
from runwell.models import InMemoryCache, RetryPolicy
from runwell.observe import BaseCallbackHandler, get_usage_metadata_callback
from runwell.parsers import StrOutputParser
from runwell.prompts import PromptTemplate
from runwell.providers.ollama import OllamaLLM
from runwell.providers.openai import AzureOpenAI, OpenAI
from runwell.testing import WireServer
from runwell.testing.wire import OllamaDialect, OpenAIDialect

USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


@pytest.fixture
def wire() -> Iterator[WireServer]:
    with WireServer(OpenAIDialect()) as server:
        yield server


@pytest.fixture
def ollama() -> Iterator[WireServer]:
    with WireServer(OllamaDialect()) as server:
        yield server


def openai(wire: WireServer, **further: Any) -> OpenAI:
    model = OpenAI(model="m", api_key="sk-secret-1", base_url=wire.base_url, **further)
    vars(model)["retry_policy"] = RetryPolicy(first_s=0.001)
    return model


def completion(*texts: str, **more: Any) -> dict[str, Any]:
    choices = [{"index": place, "text": text, "finish_reason": "stop"} for place, text in enumerate(texts)]
    return {"id": "cmpl-1", "object": "text_completion", "model": "m-1", "choices": choices, "usage": USAGE, **more}


def piece(text: str, **more: Any) -> dict[str, Any]:
    return {"id": "cmpl-1", "model": "m-1", "choices": [{"index": 0, "text": text, "finish_reason": None, **more}]}


def test_a_completion_of_openais(wire: WireServer, driver: Any) -> None:
    wire.json(completion(" there."))
    chain = PromptTemplate.from_template("Hello{mark}") | openai(wire, temperature=0) | StrOutputParser()
    assert driver.invoke(chain, {"mark": ","}) == " there."
    assert wire.last["path"] == "/v1/completions"
    assert wire.last["headers"]["authorization"] == "Bearer sk-secret-1"
    assert wire.last["body"] == {"model": "m", "prompt": "Hello,", "temperature": 0, "max_tokens": 256}


def test_it_is_streamed(wire: WireServer, driver: Any) -> None:
    wire.events(piece("Hel"), piece("lo"), piece("", finish_reason="length"), {"choices": [], "usage": USAGE}, "[DONE]")
    assert driver.stream(openai(wire), "Say", stop=["\n"]) == ["Hel", "lo"]
    assert wire.last["body"]["stream"] is True
    assert wire.last["body"]["stop"] == ["\n"]


def test_a_stream_that_is_cut_is_no_answer(wire: WireServer, driver: Any) -> None:
    wire.events(piece("Hel"), then="cut")
    wire.events(piece("Hel"))
    for _ in range(2):
        with pytest.raises((ModelConnectionError, ModelError)):
            driver.stream(openai(wire, max_retries=0), "Say")


@pytest.mark.parametrize("aio", [False, True], ids=["sync", "async"])
def test_prompts_are_sent_together(wire: WireServer, aio: bool) -> None:
    """Native batching: one request for as many as `batch_size` says, answers by their index, usage of all of them."""
    wire.json({**completion("1", "2"), "choices": completion("1", "2")["choices"][::-1]})
    wire.json(completion("3"))
    told: list[Any] = []

    class Watch(BaseCallbackHandler):
        def on_llm_start(self, serialized: Any, prompts: Any, **about: Any) -> None:
            told.append(prompts)

        def on_llm_end(self, response: Any, **about: Any) -> None:
            told.append([some[0].text for some in response.generations])

    model, prompts = openai(wire, batch_size=2), ["a", "b", "c"]
    found = (
        asyncio.run(model.agenerate(prompts, callbacks=[Watch()])) if aio else model.generate(prompts, None, [Watch()])
    )
    assert [[each.text for each in some] for some in found.generations] == [["1"], ["2"], ["3"]]
    assert [each["body"]["prompt"] for each in wire.requests] == [["a", "b"], "c"]
    assert told == [["a", "b"], ["1", "2"], ["c"], ["3"]]
    assert found.llm_output is not None
    assert found.llm_output["token_usage"]["total_tokens"] == 10


def test_too_few_answers_to_prompts_are_told(wire: WireServer) -> None:
    wire.json(completion("1"))
    with pytest.raises(Exception, match="OpenAI gave"):
        openai(wire).generate(["a", "b"])


def test_a_cache_knows_each_prompt(wire: WireServer) -> None:
    model = openai(wire, cache=InMemoryCache())
    wire.json(completion("1"))
    wire.json(completion("2"))
    assert [some[0].text for some in model.generate(["a", "b"], None).generations] in (["1", "2"], ["2", "1"])
    assert model.generate(["b", "a"]).generations
    assert len(wire.requests) == 2


def test_failures_are_tried_again_and_told(wire: WireServer, driver: Any) -> None:
    wire.fail(503, "busy")
    wire.json(completion("ok"))
    assert driver.invoke(openai(wire), "a") == "ok"
    wire.fail(400, "This model's prompt is bad: sk-secret-1")
    with pytest.raises(ModelBadRequest) as caught:
        driver.invoke(openai(wire), "a")
    assert "sk-secret-1" not in str(caught.value)
    wire.json({"id": "x"})
    with pytest.raises(ModelError, match="not a completion"):
        driver.invoke(openai(wire, max_retries=0), "a")
    wire.hang()
    with pytest.raises(ModelTimeout):
        driver.invoke(openai(wire, timeout=0.2, max_retries=0), "a")


def test_what_is_wrong_is_told_before_anything_is_sent(wire: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(MissingApiKey, match="OpenAI has no API key"):
        OpenAI()
    with pytest.raises(InvalidInput, match="OpenAI takes no argument 'temprature'; did you mean 'temperature'"):
        openai(wire, temprature=1)
    with pytest.raises(InvalidInput, match="batch_size=0"):
        openai(wire, batch_size=0)
    with pytest.raises(InvalidInput, match="Prompt 0 is empty"):
        openai(wire).invoke("")
    with pytest.raises(InvalidInput, match="half a character"):
        openai(wire).invoke("a\ud800")
    with pytest.raises(UnsupportedByProvider, match="gives one answer"):
        openai(wire).invoke("a", n=2)
    with pytest.raises(InvalidInput, match="takes a list of prompts"):
        openai(wire).generate("a")
    assert wire.requests == []


def test_it_can_be_shown_and_carried(wire: WireServer) -> None:
    model = openai(wire)
    assert "sk-secret-1" not in repr(model)
    assert repr(model).startswith("OpenAI(")
    assert model.model == "m"
    del vars(model)["retry_policy"]
    wire.json(completion("ok"))
    assert pickle.loads(pickle.dumps(model)).invoke("a") == "ok"


@pytest.mark.parametrize(
    ("version", "path"),
    [
        (None, "/openai/v1/completions"),
        ("2024-10-21", "/openai/deployments/mine/completions?api-version=2024-10-21"),
    ],
)
def test_a_deployment_of_azures(version: str | None, path: str) -> None:
    with WireServer() as wire:
        wire.dialect = OpenAIDialect()
        wire.json(completion("ok"))
        model = AzureOpenAI(
            azure_endpoint=wire.base_url, azure_deployment="mine", api_version=version, api_key="k-1", max_tokens=5
        )
        assert model.invoke("a") == "ok"
        assert wire.last["path"] == path
        assert wire.last["body"]["model"] == "mine"
        assert wire.last["headers"].get("api-key", wire.last["headers"].get("authorization")) in ("k-1", "Bearer k-1")
    with pytest.raises(InvalidInput, match="AzureOpenAI needs the address of a resource"):
        AzureOpenAI(azure_deployment="mine", api_key="k")


def generated(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "m", "response": text, "done": True, "done_reason": "stop", **more}


def test_a_completion_of_ollamas(ollama: WireServer, driver: Any) -> None:
    ollama.json(generated("Hello.", prompt_eval_count=3, eval_count=2))
    model = OllamaLLM(model="m", base_url=ollama.base_url, system="Be brief.", raw=False, temperature=0, num_predict=9)
    assert driver.invoke(model, "Hi", stop=["\n"]) == "Hello."
    assert ollama.last["path"] == "/api/generate"
    assert ollama.last["body"] == {
        "model": "m",
        "prompt": "Hi",
        "stream": False,
        "system": "Be brief.",
        "raw": False,
        "options": {"temperature": 0, "num_predict": 9, "stop": ["\n"]},
    }


def test_ollamas_completions_are_streamed(ollama: WireServer, driver: Any) -> None:
    ollama.events({"response": "Hel", "done": False}, {"response": "lo", "done": False}, generated("", eval_count=2))
    assert driver.stream(OllamaLLM(model="m", base_url=ollama.base_url), "Hi") == ["Hel", "lo"]
    ollama.events({"response": "Hel", "done": False})
    with pytest.raises(ModelConnectionError):
        driver.stream(OllamaLLM(model="m", base_url=ollama.base_url, max_retries=0), "Hi")
    ollama.fail(500, "no")
    with pytest.raises(ModelOverloaded):
        driver.invoke(OllamaLLM(model="m", base_url=ollama.base_url, max_retries=0), "Hi")
    ollama.json(generated("a"))
    ollama.json(generated("b"))
    found = OllamaLLM(model="m", base_url=ollama.base_url).generate(["x", "y"])
    assert sorted(some[0].text for some in found.generations) == ["a", "b"]


def test_its_tokens_are_counted(wire: WireServer, ollama: WireServer, driver: Any) -> None:
    """By `get_usage_metadata_callback`, as those of chat models are: whole, streamed, and several in one request."""
    told: list[Any] = []

    class Watch(BaseCallbackHandler):
        def on_llm_end(self, response: Any, **about: Any) -> None:
            told.append(
                (response.generations[0][0].text, response.generations[0][0].generation_info, response.llm_output)
            )

    model = openai(wire, batch_size=2)
    wire.json(completion("1"))
    wire.events(piece("Hel"), piece("lo", finish_reason="stop"), {"choices": [], "usage": USAGE}, "[DONE]")
    wire.json(completion("1", "2"))
    ollama.json({"model": "llama", "response": "3", "done": True, "prompt_eval_count": 4, "eval_count": 1})
    with get_usage_metadata_callback() as usage:
        found = driver.invoke(model, "a", {"callbacks": [Watch()]})
        assert (found, type(found)) == ("1", str)
        assert driver.stream(model, "a", {"callbacks": [Watch()]}) == ["Hel", "lo"]
        if driver.colour == "sync":
            model.generate(["a", "b"])
        else:
            asyncio.run(model.agenerate(["a", "b"]))
        driver.invoke(OllamaLLM(model="llama", base_url=ollama.base_url), "1 + 2?")
    assert usage.usage_metadata["m-1"] == {"input_tokens": 9, "output_tokens": 6, "total_tokens": 15}
    assert usage.usage_metadata["llama"]["total_tokens"] == 5
    (_, first, output), (streamed, _, _) = told
    assert first["finish_reason"] == "stop"
    assert output["model_name"] == "m-1"
    assert output["token_usage"]["total_tokens"] == 5
    assert streamed == "Hello"
