"""A dict may be a tool of an agent when the model's provider runs tools of that type (SEATS A8)."""

from __future__ import annotations

from typing import Any

import pytest

from runwell import create_agent, init_chat_model
from runwell.errors import ToolDefinitionError
from runwell.testing import WireServer
from runwell.testing.wire import AnthropicDialect, GoogleDialect, ResponsesDialect


@pytest.mark.parametrize(
    ("model", "dialect", "tool", "sent"),
    [
        (
            "anthropic:claude-sonnet-4-5",
            AnthropicDialect,
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
        ),
        ("google_genai:gemini-3-pro", GoogleDialect, {"google_search": {}}, {"googleSearch": {}}),
        ("google_genai:gemini-3-pro", GoogleDialect, {"type": "google_search"}, {"googleSearch": {}}),
        ("openai:gpt-5", ResponsesDialect, {"type": "web_search"}, {"type": "web_search"}),
    ],
)
def test_a8_a_dict_of_a_type_that_the_provider_runs_is_a_tool_of_an_agent(
    model: str, dialect: Any, tool: dict[str, Any], sent: dict[str, Any]
) -> None:
    with WireServer(dialect()) as wire:
        wire.say("Found.")
        settings = {"use_responses_api": True} if dialect is ResponsesDialect else {}
        agent = create_agent(init_chat_model(model, base_url=wire.base_url, api_key="none", **settings), [tool])
        assert agent.invoke({"messages": "Search."})["messages"][-1].text == "Found."
        [request] = wire.requests
        assert sent in request["body"]["tools"]


@pytest.mark.parametrize(
    ("model", "tool"),
    [
        ("anthropic:claude-sonnet-4-5", {"type": "bash_20250124", "name": "bash"}),
        ("google_genai:gemini-3-pro", {"type": "function", "name": "look"}),
        ("ollama:llama3.2", {"type": "web_search"}),
    ],
)
def test_a8_a_dict_that_the_program_would_have_to_run_is_refused(model: str, tool: dict[str, Any]) -> None:
    with pytest.raises(ToolDefinitionError, match="nobody could run it"):
        create_agent(init_chat_model(model, base_url="http://127.0.0.1:9", api_key="none"), [tool])
