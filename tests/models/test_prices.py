"""What a call cost stands on its message, whoever made it; what nobody knows is None, never a guess."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

from runwell import create_agent, init_chat_model
from runwell.agents import Budget
from runwell.errors import InvalidInput
from runwell.messages import AIMessage, HumanMessage
from runwell.models import Price, cost_of, price_of, price_table
from runwell.observe import get_usage_metadata_callback
from runwell.testing import FakeChatModel, WireServer
from runwell.testing.wire import AnthropicDialect, CohereDialect, GoogleDialect, MistralDialect, OpenAIDialect

MILLION = {"input_tokens": 1_000_000, "output_tokens": 0, "total_tokens": 1_000_000}

SERVED = {
    "openai": (OpenAIDialect, "gpt-5.5-2026-04-23"),
    "anthropic": (AnthropicDialect, "claude-sonnet-4-5-20250929"),
    "mistralai": (MistralDialect, "mistral-large-latest"),
    "google_genai": (GoogleDialect, "gemini-2.5-pro"),
    "cohere": (CohereDialect, "command-a-03-2025"),
}


@pytest.mark.parametrize("prefix", SERVED)
def test_each_vendors_messages_say_what_they_cost_streamed_too(prefix: str, driver: Any) -> None:
    dialect, served = SERVED[prefix]
    with WireServer(dialect()) as wire:
        said = {"read": 1_000_000, "cached": 0, "written": 100_000, "model": served}
        wire.say("Hello.", **said)
        wire.say(pieces=["Hel", "lo."], **said)
        model = init_chat_model(f"{prefix}:{served}", base_url=wire.base_url, api_key="none")
        answer = driver.invoke(model, "Hi")
        first, *rest = driver.stream(model, "Hi")
    assert answer.cost is not None
    assert 0.05 < answer.cost < 1000
    assert (first + rest).cost == (first + rest).to_message().cost == answer.cost
    assert answer.cost == pytest.approx(price_of(answer.usage_metadata, prefix, served))
    assert HumanMessage("Hi").model_dump().keys() & {"cost"} == set()
    assert "cost" not in answer.model_dump()


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "meta-llama/Llama-3.3-70B-Instruct"),
        ("openai", "claude-sonnet-4-5"),  # another vendor's name at a server of OpenAI's API
        ("third", "gpt-5.5"),
        ("openai", None),
    ],
)
def test_what_nobody_knows_is_none(provider: str, model: str | None) -> None:
    metadata = {"model_provider": provider, "model_name": model}
    assert AIMessage("x", usage_metadata=MILLION, response_metadata=metadata).cost is None  # type: ignore[arg-type]


def test_without_usage_there_is_no_cost() -> None:
    about = {"model_provider": "openai", "model_name": "gpt-5.5"}
    assert AIMessage("x", response_metadata=about).cost is None
    assert AIMessage("x").cost is None


def test_a_dated_snapshot_costs_what_its_model_does_unless_it_is_listed() -> None:
    assert price_of(MILLION, "openai", "gpt-5.5-2099-01-31") == price_of(MILLION, "openai", "gpt-5.5")
    assert price_of(MILLION, "openai", "gpt-4o-2024-05-13") != price_of(MILLION, "openai", "gpt-4o")


def test_what_was_read_from_a_cache_and_written_into_one() -> None:
    def cost(**details: int) -> float:
        found = price_of({**MILLION, "input_token_details": details}, "anthropic", "claude-sonnet-4-5")
        assert found is not None
        return found

    assert cost(cache_read=1_000_000) < cost() < cost(cache_creation=1_000_000)


def test_prices_of_ones_own_go_first() -> None:
    message = AIMessage("x", usage_metadata=MILLION, response_metadata={"model_name": "mine"})  # type: ignore[arg-type]
    assert message.cost is None
    assert cost_of(message, {"mine": Price(input=2, output=4)}) == 2.0


def test_the_table_says_its_version_and_its_day() -> None:
    assert re.fullmatch(r"genai-prices \d+\.\d+\.\d+, newest price of 20\d\d-\d\d-\d\d", price_table())


def test_the_price_of_a_whole_block(driver: Any) -> None:
    def reply(provider: str, model: str) -> AIMessage:
        about = {"model_provider": provider, "model_name": model}
        return AIMessage("x", usage_metadata=MILLION, response_metadata=about)  # type: ignore[arg-type]

    model = FakeChatModel([reply("openai", "gpt-5.5"), reply("anthropic", "claude-sonnet-4-5"), reply("x", "y")])
    with get_usage_metadata_callback() as used:
        assert used.cost == 0.0
        answers = [driver.invoke(model, "a"), driver.invoke(model, "b")]
        assert used.cost == pytest.approx(sum(answer.cost for answer in answers))
        driver.invoke(model, "c")
        assert used.cost is None


def test_nobody_who_does_not_ask_loads_the_table() -> None:
    code = (
        "import sys; from runwell.testing import FakeChatModel; FakeChatModel(['a']).invoke('x');"
        "print('genai_prices' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("url", "cost"),
    [
        ("http://127.0.0.1:11434", 0.0),
        ("http://localhost:11434", 0.0),
        ("http://[::1]:11434", 0.0),
        ("http://192.168.1.20:11434", 0.0),
        ("http://ollama:11434", 0.0),
        ("http://gpu.local:11434", 0.0),
        ("https://ollama.com", None),
        ("http://8.8.8.8:11434", None),
    ],
)
@pytest.mark.parametrize("name", ["ollama", "lmstudio", "llamacpp", "vllm"])
def test_a_model_is_free_on_a_server_of_ones_own_only(name: str, url: str, cost: float | None) -> None:
    """What the operator of a server elsewhere asks for a model is not known: None, and not nothing."""
    model = init_chat_model(f"{name}:m", base_url=url, api_key="none")
    message = AIMessage("Hi", usage_metadata={"input_tokens": 10, "output_tokens": 5, "total_tokens": 15})
    model._name_model(message)
    assert message.cost == cost
    assert cost_of(message, {"m": Price(input=1, output=1)}) == pytest.approx(15e-6)
    if cost is None:
        with pytest.raises(InvalidInput, match="nobody knows what model 'm' of"):
            create_agent(model, [], budget=Budget(cost=1.0)).invoke({"messages": "Hi"})
