"""What a provider cannot take is refused when tools are bound, naming the provider, the tool and the argument."""

from __future__ import annotations

from typing import Any

import pytest

from runwell.errors import UnsupportedByProvider
from runwell.providers.anthropic import ChatAnthropic
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


def test_strict_at_bind_time() -> None:
    @tool
    def find(filters: dict[str, int]) -> str:
        """Find."""
        return ""

    model = ChatOpenAI(model="gpt-5", api_key="none")
    with pytest.raises(UnsupportedByProvider, match=r"Tool 'find': OpenAI's strict mode cannot express filters"):
        model.bind_tools([find], strict=True)
    assert model.bind_tools([find])
