"""Which provider a string names."""

from __future__ import annotations

import sys
from typing import Any, ClassVar

import pytest

from runwell import init_chat_model
from runwell.errors import InvalidConfig, MissingApiKey, MissingExtra, UnknownModel
from runwell.models import BaseChatModel, ChatResult, init
from runwell.models.init import infer_provider, known_providers
from runwell.providers.openai import ChatOpenAI


class Third(BaseChatModel):
    provider: ClassVar[str] = "third"
    model: str
    temperature: float = 1.0

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        raise NotImplementedError


class Point:
    """An entry point."""

    def __init__(self, name: str, target: Any) -> None:
        self.name = name
        self.value = f"third_party:{name}"
        self.target = target

    def load(self) -> Any:
        if isinstance(self.target, Exception):
            raise self.target
        return self.target


@pytest.fixture
def third_party(monkeypatch: pytest.MonkeyPatch) -> list[Point]:
    points: list[Point] = [Point("third", Third)]
    init._providers.cache_clear()
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points if group == init.GROUP else [])
    yield points  # type: ignore[misc]
    init._providers.cache_clear()


def test_a1_prefix_and_name() -> None:
    model = init_chat_model("openai:gpt-5.5", api_key="k", temperature=0.5)
    assert isinstance(model, ChatOpenAI)
    assert (model.model, model.temperature) == ("gpt-5.5", 0.5)


def test_a1_only_the_first_colon_counts() -> None:
    model = init_chat_model("openai:ft:gpt-4o:acme::1", api_key="k")
    assert model.model == "ft:gpt-4o:acme::1"  # type: ignore[attr-defined]


def test_a1_a_third_party_adds_a_provider(third_party: list[Point]) -> None:
    model = init_chat_model("third:big-one", temperature=0.1)
    assert isinstance(model, Third)
    assert (model.model, model.temperature) == ("big-one", 0.1)
    assert isinstance(init_chat_model("a:b:c", model_provider="third"), Third)


def test_a1_an_ollama_tag_is_recognised() -> None:
    known = ", ".join(known_providers())
    assert {"anthropic", "local", "ollama", "openai"} <= set(known_providers())
    with pytest.raises(UnknownModel, match=rf"known: {known}(?s:.*)\"ollama:llama3:8b\""):
        init_chat_model("llama3:8b")


def test_a1_an_unknown_prefix_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownModel, match="did you mean 'openai'"):
        init_chat_model("opnai:gpt-5.5")


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("gpt-5.5", "openai"),
        ("gpt-4o-mini", "openai"),
        ("o4-mini", "openai"),
        ("o3", "openai"),
        ("chatgpt-4o-latest", "openai"),
        ("ft:gpt-4o:acme::1", "openai"),
        ("claude-sonnet-4-5", "anthropic"),
        ("gemini-3-pro", "google_genai"),
        ("anthropic.claude-3-haiku-20240307-v1:0", "bedrock_converse"),
        ("us.anthropic.claude-sonnet-4-20250514-v1:0", "bedrock_converse"),
        ("/models/tiny.gguf", "local"),
    ],
)
def test_a2_families_that_leave_no_doubt(name: str, provider: str) -> None:
    assert infer_provider(name) == provider


@pytest.mark.parametrize("name", ["gpt-oss-20b", "qwen3-coder", "llama-3.3-70b", "mistral-7b"])
def test_a2_open_weights_are_never_guessed(name: str) -> None:
    with pytest.raises(UnknownModel, match=f'"local:{name}".*"ollama:{name}"'):
        init_chat_model(name)


@pytest.mark.parametrize("name", ["  ", "openai:", "nonsense", "other"])
def test_a2_names_that_say_too_little(name: str) -> None:
    with pytest.raises(UnknownModel):
        init_chat_model(name)


def test_a_provider_that_is_not_installed_is_named() -> None:
    with pytest.raises(UnknownModel, match="'watsonx', which is not installed"):
        init_chat_model("granite-5", model_provider="watsonx")


def test_a_missing_key_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(MissingApiKey, match="OPENAI_API_KEY"):
        init_chat_model("gpt-5.5")


def test_a_missing_part_names_its_extra(monkeypatch: pytest.MonkeyPatch, third_party: list[Point]) -> None:
    monkeypatch.setattr("runwell.providers.vendor_model.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"runwell\[openai\]"):
        init_chat_model("openai:gpt-5.5", api_key="k")
    third_party.append(Point("lacking", ModuleNotFoundError("No module named 'acme'", name="acme")))
    init._providers.cache_clear()
    with pytest.raises(MissingExtra, match="lacking"):
        init_chat_model("lacking:x")


def test_two_providers_under_one_name_are_refused(third_party: list[Point]) -> None:
    third_party.append(Point("openai", Third))
    with pytest.raises(InvalidConfig, match="Two providers are called 'openai'"):
        init_chat_model("openai:x")


def test_naming_a_model_loads_no_sdk() -> None:
    import subprocess

    code = (
        "import sys; from runwell import init_chat_model; init_chat_model('openai:gpt-5.5', api_key='k');"
        "print(sorted({'openai', 'httpx', 'httpx2', 'asyncio', 'tenacity', 'anyio'} & sys.modules.keys()))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
