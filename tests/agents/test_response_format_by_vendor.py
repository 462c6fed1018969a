"""What a vendor is known not to do with an answer's shape is said when the agent is made, not at its first call."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from runwell import create_agent, init_chat_model
from runwell.agents import AutoStrategy, ProviderStrategy, ToolStrategy
from runwell.agents.middleware import wrap_model_call
from runwell.errors import UnsupportedByProvider
from runwell.testing import Call, WireServer
from runwell.testing.wire import CohereDialect, OllamaDialect


class Weather(BaseModel):
    """The weather."""

    sky: str


def look(place: str) -> str:
    """Look out of the window."""
    return "rain"


def model(name: str, **further: Any) -> Any:
    return init_chat_model(name, api_key="none", **further)


@pytest.mark.parametrize(
    ("name", "further", "strategy", "told"),
    [
        ("ollama:m", {}, ToolStrategy(Weather), "cannot be told which tools to call.*\n.*ProviderStrategy"),
        ("cohere:m", {}, ProviderStrategy(Weather), "only without tools.*\n.*ToolStrategy"),
        ("deepseek:m", {}, ProviderStrategy(Weather), "no structured output by a JSON schema.*\n.*ToolStrategy"),
        (
            "anthropic:claude-sonnet-4-5",
            {"thinking": {"type": "enabled", "budget_tokens": 1024}},
            ToolStrategy(Weather),
            "cannot be made to call a tool while they think",
        ),
    ],
    ids=["ollama", "cohere", "deepseek", "anthropic"],
)
def test_a_strategy_that_the_vendor_cannot_do_is_refused_at_once(
    name: str, further: Any, strategy: Any, told: str
) -> None:
    with pytest.raises(UnsupportedByProvider, match=told):
        create_agent(model(name, **further), [look], response_format=strategy)


def test_what_the_vendor_can_do_is_not_refused() -> None:
    create_agent(model("ollama:m"), [look], response_format=ToolStrategy(Weather, tool_choice="auto"))
    create_agent(model("cohere:m"), [], response_format=ProviderStrategy(Weather))
    create_agent(model("cohere:m"), [look], response_format=ToolStrategy(Weather))


def test_where_a_hook_may_choose_the_model_it_is_not_known_yet() -> None:
    with WireServer(CohereDialect()) as wire:
        other = model("cohere:m", base_url=wire.base_url)

        @wrap_model_call
        def elsewhere(request: Any, handler: Any) -> Any:
            return handler(request.override(model=other))

        agent = create_agent(model("ollama:m"), [look], response_format=ToolStrategy(Weather), middleware=[elsewhere])
        wire.say(calls=[Call("Weather", {"sky": "grey"})])
        assert agent.invoke({"messages": "Weather?"})["structured_response"] == Weather(sky="grey")


@pytest.mark.parametrize("wanted", [Weather, AutoStrategy(Weather)], ids=["schema", "auto"])
def test_a_schema_alone_takes_the_way_that_the_vendor_can_go(wanted: Any) -> None:
    profile: Any = {"structured_output": True}
    with WireServer(CohereDialect()) as wire:
        wire.say(calls=[Call("Weather", {"sky": "grey"})])
        cohere = model("cohere:m", base_url=wire.base_url, profile=profile)
        answer = create_agent(cohere, [look], response_format=wanted).invoke({"messages": "Weather?"})
        assert answer["structured_response"] == Weather(sky="grey")
        assert "Weather" in wire.asked.tools
    with WireServer(OllamaDialect()) as wire:
        wire.say(calls=[Call("Weather", {"sky": "grey"})])
        ollama = model("ollama:m", base_url=wire.base_url, profile={"structured_output": False})
        answer = create_agent(ollama, [look], response_format=wanted).invoke({"messages": "Weather?"})
        assert answer["structured_response"] == Weather(sky="grey")


def test_bound_tools_and_a_schema_that_do_not_go_together() -> None:
    bound = model("cohere:m", profile={"structured_output": True}).bind_tools([look])
    with pytest.raises(UnsupportedByProvider, match="only without tools"):
        bound.with_structured_output(Weather, method="json_schema")
    with pytest.raises(UnsupportedByProvider, match="only without tools"):
        bound.bind(response_format=Weather)
    with WireServer(CohereDialect()) as wire:
        wire.say(calls=[Call("Weather", {"sky": "grey"})])
        twin = bound.bound.model_copy(update={"base_url": wire.base_url}).bind_tools([look])
        assert twin.with_structured_output(Weather).invoke("Weather?") == Weather(sky="grey")
