"""What a provider cannot take is refused when tools are bound, naming the provider, the tool and the argument."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from runwell.agents import ProviderStrategy, ToolStrategy, create_agent
from runwell.errors import UnsupportedByProvider
from runwell.providers.anthropic import ChatAnthropic
from runwell.providers.bedrock import ChatBedrockConverse
from runwell.providers.cohere import ChatCohere
from runwell.providers.google import ChatGoogleGenerativeAI
from runwell.providers.mistral import ChatMistralAI
from runwell.providers.openai import ChatOpenAI
from runwell.tools import tool

ALTERNATIVES = {"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [{"required": ["a"]}]}
ODD_KEY = {"type": "object", "properties": {"größe": {"type": "string"}}}


def given(parameters: Any, name: str = "run") -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": "d", "parameters": parameters}}


@pytest.mark.parametrize(
    ("parameters", "name", "providers", "said"),
    [
        (ALTERNATIVES, "run", {"OpenAI", "Anthropic"}, "Tool 'run': {provider} takes no 'anyOf'"),
        (ODD_KEY, "run", {"Anthropic"}, "Tool 'run': {provider} takes no argument called 'größe'"),
        (
            {"type": "object", "properties": {}},
            "a.b",
            {"OpenAI", "Anthropic", "Mistral"},
            "{provider} takes no tool called 'a.b'",
        ),
    ],
)
def test_at_bind_time(parameters: Any, name: str, providers: set[str], said: str) -> None:
    models = {
        "OpenAI": ChatOpenAI(model="gpt-5", api_key="none"),
        "Anthropic": ChatAnthropic(model="claude-sonnet-4-5", api_key="none"),
        "Mistral": ChatMistralAI(model="mistral-large-latest", api_key="none"),
        "another server": ChatOpenAI(model="m", api_key="none", base_url="http://127.0.0.1:9/v1"),
    }
    for provider, model in models.items():
        if provider in providers:
            with pytest.raises(UnsupportedByProvider, match=said.format(provider=provider)):
                model.bind_tools([given(parameters, name)])
        else:
            model.bind_tools([given(parameters, name)])


@tool
def find(filters: dict[str, int]) -> str:
    """Find."""
    return ""


class Near(BaseModel):
    """What is near."""

    metres: Annotated[int, Field(ge=0)]
    near: Near | None = None


@tool
def walk(to: Near, pace: Annotated[float, Field(gt=0)] = 1.0) -> str:
    """Walk there."""
    return ""


@tool
def pair(at: tuple[int, str]) -> str:
    """Of a pair."""
    return ""


STRICT: dict[str, tuple[Any, list[Any]]] = {
    "OpenAI's strict mode": (ChatOpenAI(model="gpt-5", api_key="none"), [find, pair]),
    "Anthropic's strict mode": (ChatAnthropic(model="claude-sonnet-4-5", api_key="none"), [find, pair, walk]),
    "Mistral's strict mode": (ChatMistralAI(model="mistral-large-latest", api_key="none"), [find]),
    "Cohere's strict_tools": (ChatCohere(model="command-a-03-2025", api_key="none"), [find, pair]),
    "Bedrock's strict mode": (
        ChatBedrockConverse(model="anthropic.claude-sonnet-4-5-20250929-v1:0", region_name="us-east-1"),
        [find, pair, walk],
    ),
    "Gemini": (ChatGoogleGenerativeAI(model="gemini-2.5-flash", api_key="none"), []),
}


@pytest.mark.parametrize("who", STRICT)
def test_strict_at_bind_time_names_the_provider_the_tool_and_the_argument(who: str) -> None:
    model, refused = STRICT[who]
    for used in (find, pair, walk):
        assert model.bind_tools([used])
        if used not in refused:
            assert model.bind_tools([used], strict=True)
            continue
        with pytest.raises(UnsupportedByProvider) as caught:
            model.bind_tools([used], strict=True)
        first = next(iter(used.args))
        assert caught.value.message.startswith(f"Tool {used.name!r}: {who} cannot express {first}")


class Plain(BaseModel):
    metres: Annotated[int, Field(ge=0)]
    note: str = "none"


def test_a_strict_schema_is_in_the_subset_of_its_provider() -> None:
    @tool(args_schema=Plain)
    def go(metres: int, note: str = "none") -> str:
        """Go."""
        return ""

    def told(who: str) -> Any:
        return STRICT[who][0].bind_tools([go], strict=True).kwargs["tools"][0]["function"]["parameters"]

    openai, anthropic = told("OpenAI's strict mode"), told("Anthropic's strict mode")
    assert openai["required"] == ["metres", "note"]
    assert openai["properties"]["metres"] == {"type": "integer", "minimum": 0}
    assert anthropic == {
        "type": "object",
        "properties": {"metres": {"type": "integer"}, "note": {"type": "string", "default": "none"}},
        "required": ["metres"],
        "additionalProperties": False,
    }
    assert "minimum" not in str(told("Cohere's strict_tools"))


class Answer(BaseModel):
    near: Near


def test_an_answer_that_anthropic_cannot_hold_is_refused_when_bound_and_agents_ask_by_a_tool() -> None:
    model = STRICT["Anthropic's strict mode"][0]
    with pytest.raises(
        UnsupportedByProvider, match="The answer Answer: Anthropic's structured output cannot"
    ) as caught:
        model.with_structured_output(Answer, method="json_schema")
    assert "function_calling" in str(caught.value.hint)
    (bound,) = model.with_structured_output(Answer).steps[0].kwargs["tools"]
    assert bound["function"]["name"] == "Answer"
    assert isinstance(create_agent(model, [], response_format=Answer).setup.response_format, ToolStrategy)
    assert isinstance(create_agent(model, [], response_format=Plain).setup.response_format, ProviderStrategy)
    with pytest.raises(UnsupportedByProvider, match="cannot express"):
        create_agent(model, [], response_format=ProviderStrategy(Answer))
