"""HTTP clients that a program hands in: used with the model's own address, headers and key, or refused at once."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import httpx2
import pytest

from runwell import init_chat_model
from runwell.errors import InvalidInput, ModelConnectionError
from runwell.testing import WireServer
from runwell.testing.wire import (
    AnthropicDialect,
    CohereDialect,
    GoogleDialect,
    MistralDialect,
    OllamaDialect,
    OpenAIDialect,
    Said,
)

TAKEN: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "openai": (OpenAIDialect, (httpx2, httpx)),
    "anthropic": (AnthropicDialect, (httpx2,)),
    "google_genai": (GoogleDialect, (httpx2, httpx)),
    "mistralai": (MistralDialect, (httpx2,)),
    "cohere": (CohereDialect, (httpx,)),
    "ollama": (OllamaDialect, (httpx,)),
}
USED = [pytest.param(name, each, id=f"{name}-{each.__name__}") for name, (_, took) in TAKEN.items() for each in took]
KEY = "sk-of-the-model-0123456789"


@pytest.mark.parametrize(("name", "library"), USED)
def test_a_client_is_used_with_the_models_own_address_and_key(name: str, library: Any) -> None:
    async def ask(model: Any) -> str:
        async with library.AsyncClient() as http:
            mine = model.model_copy(update={"http_async_client": http})
            streamed = [chunk.text async for chunk in mine.astream("And?")]
            return (await mine.ainvoke("And?")).text + "".join(streamed)

    with WireServer(TAKEN[name][0]()) as wire, library.Client() as http:
        for _ in range(4):
            wire.say("Yes.")
        settings = {"base_url": wire.base_url, "api_key": KEY, "default_headers": {"x-mine": "1"}}
        model = init_chat_model(f"{name}:m", http_client=http, **settings)
        assert model.invoke("Well?").text == "Yes."
        assert "".join(chunk.text for chunk in model.stream("Well?")) == "Yes."
        assert asyncio.run(ask(init_chat_model(f"{name}:m", **settings))) == "Yes.Yes."
        assert len(wire.requests) == 4
        for request in wire.requests:
            headers = {key.lower(): value for key, value in request["headers"].items()}
            assert headers["x-mine"] == "1"
            assert KEY in str(headers)


@pytest.mark.parametrize(("name", "library"), USED)
def test_its_failures_are_the_models(name: str, library: Any) -> None:
    with library.Client() as http:
        model = init_chat_model(
            f"{name}:m", base_url="http://127.0.0.1:9", api_key=KEY, http_client=http, max_retries=0
        )
        with pytest.raises(ModelConnectionError):
            model.invoke("Well?")
    dialect = TAKEN[name][0]()
    with WireServer(dialect) as wire, library.Client() as http:
        wire.events(*dialect.events(Said(pieces=["Hel", "lo"]))[:2], then="cut")
        model = init_chat_model(f"{name}:m", base_url=wire.base_url, api_key=KEY, http_client=http, max_retries=0)
        with pytest.raises(ModelConnectionError):
            list(model.stream("Well?"))


@pytest.mark.parametrize("name", list(TAKEN))
def test_a_client_of_another_library_or_colour_is_refused_when_the_model_is_made(name: str) -> None:
    took = TAKEN[name][1]
    for library in {httpx, httpx2} - set(took):
        with library.Client() as http, pytest.raises(InvalidInput, match=f"http_client={took[0].__name__}.Client"):
            init_chat_model(f"{name}:m", api_key=KEY, http_client=http)
    with (
        took[0].Client() as http,
        pytest.raises(InvalidInput, match=f"http_async_client={took[0].__name__}.AsyncClient"),
    ):
        init_chat_model(f"{name}:m", api_key=KEY, http_async_client=http)
