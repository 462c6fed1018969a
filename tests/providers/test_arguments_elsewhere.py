"""Arguments that other libraries have for these classes: taken, or answered by what to write instead."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from runwell.errors import InvalidInput
from runwell.testing import FakeChatModel, WireServer
from runwell.testing.wire import OllamaDialect

MODELS = {
    "ChatOpenAI": ("openai", {"model": "m", "api_key": "none"}),
    "AzureChatOpenAI": ("openai", {"azure_endpoint": "https://a.example", "azure_deployment": "d", "api_key": "none"}),
    "ChatAnthropic": ("anthropic", {"model": "m", "api_key": "none"}),
    "ChatGoogleGenerativeAI": ("google", {"model": "m", "api_key": "none"}),
    "ChatMistralAI": ("mistral", {"model": "m", "api_key": "none"}),
    "ChatCohere": ("cohere", {"model": "m", "api_key": "none"}),
    "ChatBedrockConverse": ("bedrock", {"model": "m", "region_name": "us-east-1", "api_key": "none"}),
    "ChatOllama": ("ollama", {"model": "m"}),
    "OpenAIEmbeddings": ("openai", {"api_key": "none"}),
}


def make(name: str, **more: Any) -> Any:
    module, given = MODELS[name]
    return getattr(import_module(f"runwell.providers.{module}"), name)(**given, **more)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "OpenAIEmbeddings"])
@pytest.mark.parametrize(
    ("argument", "instead"),
    [
        ("streaming", r"call stream\(\) or astream\(\)"),
        ("verbose", "callbacks="),
        ("output_version", "content_blocks"),
        ("tool_choice", r"bind_tools\(\[...\], tool_choice=...\)"),
        ("tools", "bind_tools"),
    ],
)
def test_what_every_model_has_otherwise_is_said(name: str, argument: str, instead: str) -> None:
    with pytest.raises(InvalidInput, match=rf"{name} takes no argument '{argument}'\. .*\n  {argument}: .*{instead}"):
        make(name, **{argument: True})


@pytest.mark.parametrize(
    ("name", "argument", "instead"),
    [
        ("ChatOpenAI", "openai_proxy", r"http_client=httpx2.Client\(proxy=...\)"),
        ("ChatOpenAI", "client", "http_client="),
        ("ChatOpenAI", "n", "batch"),
        ("ChatOpenAI", "prompt_cache_key", r"model_kwargs=\{'prompt_cache_key': ...\}"),
        ("ChatOpenAI", "parallel_tool_calls", "bind_tools"),
        ("AzureChatOpenAI", "openai_api_type", "azure_ad_token="),
        ("AzureChatOpenAI", "openai_proxy", "http_client="),
        ("ChatAnthropic", "reuse_last_container", "container="),
        ("ChatGoogleGenerativeAI", "transport", "leave it out"),
        ("ChatMistralAI", "max_concurrent_requests", "max_concurrency"),
        ("ChatCohere", "preamble", "SystemMessage"),
        ("ChatBedrockConverse", "system", "SystemMessage"),
        ("ChatBedrockConverse", "base_model_id", "profile="),
        ("ChatOllama", "client_kwargs", "default_headers="),
        ("ChatOllama", "typical_p", r"model_kwargs=\{'options': \{'typical_p': ...\}\}"),
        ("OpenAIEmbeddings", "check_embedding_ctx_length", "texts are sent as they are"),
    ],
)
def test_what_one_vendor_has_otherwise_is_said(name: str, argument: str, instead: str) -> None:
    with pytest.raises(InvalidInput, match=rf"takes no argument '{argument}'\. .*\n  {argument}: .*{instead}"):
        make(name, **{argument: "x"})


def test_other_unknown_arguments_still_get_the_nearest_and_the_list() -> None:
    with pytest.raises(
        InvalidInput, match=r"'temprature'; did you mean 'temperature'\?.*\n.*It takes api_key, .*model_kwargs=\{...\}"
    ):
        make("ChatOpenAI", temprature=1)
    with pytest.raises(
        InvalidInput, match=r"'streaming', 'temprature'; did you.*\n.*streaming: call stream.*It takes "
    ):
        make("ChatOpenAI", temprature=1, streaming=True)
    with pytest.raises(InvalidInput, match=r"streaming: call stream"):
        FakeChatModel(["x"], streaming=True)


@pytest.mark.parametrize(
    ("name", "argument", "value", "known_as"),
    [
        ("ChatOpenAI", "stream_chunk_timeout", 3.0, "stream_idle_timeout"),
        ("ChatGoogleGenerativeAI", "retries", 4, "max_retries"),
        ("ChatMistralAI", "safe_mode", True, "safe_prompt"),
    ],
)
def test_other_names_of_the_same_are_taken(name: str, argument: str, value: Any, known_as: str) -> None:
    assert getattr(make(name, **{argument: value}), known_as) == value


def test_options_of_an_ollama_server_that_have_no_argument_join_those_that_have() -> None:
    with WireServer(OllamaDialect()) as wire:
        wire.say("Hi.")
        model = make(
            "ChatOllama", base_url=wire.base_url, temperature=0.5, model_kwargs={"options": {"typical_p": 0.7}}
        )
        model.invoke("Hello", options={"num_keep": 4})
        assert wire.last["body"]["options"] == {"temperature": 0.5, "typical_p": 0.7, "num_keep": 4}
