"""Which model answers is said by the config of the call (A4)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from runwell import create_agent, init_chat_model
from runwell.errors import InvalidConfig, InvalidInput, MissingApiKey, UnknownModel, UnsupportedByProvider
from runwell.messages import AIMessage
from runwell.models import BaseChatModel, ChatGeneration, ChatResult, init
from runwell.providers.openai import ChatOpenAI

MADE: list[Any] = []


class Said(BaseChatModel):
    """Says what it is, and what it was asked."""

    provider: ClassVar[str] = "third"
    never_blocks: ClassVar[bool] = True
    model: str
    temperature: float = 1.0
    base_url: str = "x"

    def model_post_init(self, context: Any) -> None:
        MADE.append(self.model)

    def _check_tool(self, definition: Any) -> None:
        if self.model == "toolless":
            raise UnsupportedByProvider("no tools here")

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        tools = ",".join(tool["function"]["name"] for tool in kwargs.get("tools", ()))
        return ChatResult([ChatGeneration(AIMessage(f"{self.model} {self.temperature} {tools}".strip()))])


class Point:
    name, value = "third", "third_party:Said"

    def load(self) -> Any:
        return Said


@pytest.fixture(autouse=True)
def third_party(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    init._providers.cache_clear()
    MADE.clear()
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [Point()] if "providers" in group else [])
    yield
    init._providers.cache_clear()


def at(**chosen: Any) -> dict[str, Any]:
    return {"configurable": chosen}


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@pytest.mark.parametrize("given", [None, ""])
def test_a4_without_a_model_each_call_chooses(given: Any, driver: Any) -> None:
    model = init_chat_model(given, temperature=0.5)
    assert driver.invoke(model, "Hi", at(model="third:a")).text == "a 0.5"
    assert driver.invoke(model, "Hi", at(model="b", model_provider="third")).text == "b 0.5"
    assert driver.invoke(model, "Hi", at(model="third:a")).response_metadata["model_name"] == "a"
    assert MADE == ["a", "b"]  # kept, with their connections
    with pytest.raises(UnknownModel, match="No model was chosen"):
        driver.invoke(model, "Hi")
    assert driver.stream(model, "Hi", at(model="third:a"))[0].text == "a 0.5"
    assert [answer.text for answer in driver.batch(model, ["x", "y"], at(model="third:c"))] == ["c 0.5"] * 2


def test_a_default_that_a_config_may_change(driver: Any) -> None:
    model = init_chat_model("third:a", configurable_fields=["model", "model_provider", "temperature"], temperature=0)
    assert driver.invoke(model, "Hi").text == "a 0"
    assert driver.invoke(model, "Hi", at(temperature=0.7)).text == "a 0.7"
    assert driver.invoke(model, "Hi", at(model="third:b", thread_id="t")).text == "b 0"
    only = init_chat_model("third:a", configurable_fields=("temperature",))
    assert driver.invoke(only, "Hi", at(model="third:b", temperature=2)).text == "a 2"


def test_a_prefix_keeps_two_models_apart(driver: Any) -> None:
    model = init_chat_model("third:a", configurable_fields="any", config_prefix="first")
    assert driver.invoke(model, "Hi", at(first_temperature=0.1, temperature=0.9, model="third:b")).text == "a 0.1"
    strict = init_chat_model("third:a", configurable_fields=["model"], config_prefix="first_")
    with pytest.raises(InvalidConfig, match=r"'first_modle'.*did you mean 'first_model'"):
        driver.invoke(strict, "Hi", at(first_modle="third:b"))


def test_tools_and_shapes_wait_for_the_model(driver: Any) -> None:
    model = init_chat_model().bind_tools([add])
    assert driver.invoke(model, "Hi", at(model="third:a")).text == "a 1.0 add"
    assert driver.invoke(model.bind(stop=["x"]), "Hi", at(model="third:b")).text == "b 1.0 add"
    with pytest.raises(UnsupportedByProvider):
        driver.invoke(model, "Hi", at(model="third:toolless"))
    with pytest.raises(UnsupportedByProvider):  # a default says so at once
        init_chat_model("third:toolless", configurable_fields=["temperature"]).bind_tools([add])
    shape = {"title": "A", "type": "object", "properties": {}}
    structured = init_chat_model().with_structured_output(shape, include_raw=True)
    assert driver.invoke(structured, "Hi", at(model="third:x"))["raw"].text == "x 1.0 A"


def test_it_is_a_step_like_any_other(driver: Any) -> None:
    chain = (lambda text: text) | init_chat_model() | (lambda answer: answer.text)
    assert driver.invoke(chain, "Hi", at(model="third:a")) == "a 1.0"


@pytest.mark.parametrize("given", ["", init_chat_model])
def test_a4_an_agent_whose_calls_choose(given: Any, driver: Any) -> None:
    agent = create_agent(given if given == "" else given(), [add])
    for name in ("a", "b"):
        state = driver.invoke(agent, {"messages": "Hi"}, at(model=f"third:{name}"))
        assert state["messages"][-1].text == f"{name} 1.0 add"


def test_what_cannot_be_meant_is_refused() -> None:
    for fields, says in (("temperature", "no list"), ([], "Give names"), ([1], "Give names")):
        with pytest.raises(InvalidInput, match=says):
            init_chat_model("third:a", configurable_fields=fields)  # type: ignore[call-overload]
    with pytest.raises(InvalidInput, match="configurable_fields"):
        init_chat_model("third:a", config_prefix="x")
    with pytest.raises(UnknownModel):
        init_chat_model("nonsense", configurable_fields=["model"])
    with pytest.raises(AttributeError, match=re.escape("before a model is chosen")):
        init_chat_model().profile  # noqa: B018
    assert init_chat_model("third:a", configurable_fields=["model"]).temperature == 1.0


def test_its_config_keys_are_told() -> None:
    specs = init_chat_model("third:a", configurable_fields=["model", "temperature"], config_prefix="p").config_specs
    assert {spec.id for spec in specs} == {"p_model", "p_temperature"}


def test_a_copy_for_another_model_knows_that_model_and_a_copy_for_another_account_connects_anew() -> None:
    model = ChatOpenAI(model="gpt-5.5", api_key="first-key")
    other = model.model_copy(update={"model": "unheard-of"})
    assert model.profile is not None
    assert other.profile is None
    assert other._clients is model._clients
    moved = model.model_copy(update={"api_key": "second-key"})
    assert moved._clients is not model._clients
    assert moved.api_key.get_secret_value() == "second-key"
    with pytest.raises(MissingApiKey):
        model.model_copy(update={"api_key": ""})
    given = ChatOpenAI(model="gpt-5.5", api_key="k", profile={"max_input_tokens": 5})
    assert given.model_copy(update={"model": "x"}).profile == {"max_input_tokens": 5}
    assert given.with_max_retries(0)._clients is given._clients


SETTINGS: dict[str, dict[str, Any]] = {
    "anthropic": {},
    "azure_openai": {"azure_endpoint": "https://x.openai.azure.com", "api_version": "2024-10-21"},
    "bedrock_converse": {"region_name": "us-east-1"},
    "cohere": {},
    "google_genai": {},
    "groq": {},
    "mistralai": {"base_url": "https://proxy.example/v9"},
    "ollama": {},
    "openai": {},
}


@pytest.mark.parametrize("prefix", SETTINGS)
def test_every_adapter_can_be_copied_with_other_settings(prefix: str) -> None:
    key = "key-0123456789"
    model: Any = init_chat_model(f"{prefix}:m", api_key=key, **SETTINGS[prefix])
    warm = model.model_copy(update={"temperature": 0.5})
    assert (warm.temperature, warm.base_url, warm.model) == (0.5, model.base_url, "m")
    assert warm.model_copy(update={"model": "other"}).base_url == model.base_url
    assert warm.model_copy(update={"model": "other"}).temperature == 0.5
    assert key not in repr(warm) + str(vars(warm))
    assert warm._clients is model._clients
