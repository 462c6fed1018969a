"""One agent program, unchanged, against every vendor's wire: its final states are equal."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from runwell import create_agent, init_chat_model
from runwell.messages import AIMessage, HumanMessage, ToolMessage
from runwell.models.init import _OPENAI_LIKE
from runwell.testing.wire import (
    AnthropicDialect,
    AzureOpenAIDialect,
    BedrockDialect,
    Call,
    CohereDialect,
    GoogleDialect,
    MistralDialect,
    OllamaDialect,
    OpenAIDialect,
    ResponsesDialect,
    WireDialect,
    WireServer,
)

DIALECTS: dict[str, WireDialect] = {
    "openai": OpenAIDialect(),
    "anthropic": AnthropicDialect(),
    "azure_openai": AzureOpenAIDialect(),
    "ollama": OllamaDialect(),
    "mistralai": MistralDialect(),
    "cohere": CohereDialect(),
    "bedrock_converse": BedrockDialect(),
    "google_genai": GoogleDialect(),
    "google_vertexai": GoogleDialect(),
}
WIRES: dict[str, tuple[str, WireDialect, dict[str, Any]]] = {
    **{prefix: (prefix, dialect, {}) for prefix, dialect in DIALECTS.items()},
    "responses": ("openai", ResponsesDialect(), {"use_responses_api": True}),
    **{prefix: (prefix, OpenAIDialect(), {}) for prefix in _OPENAI_LIKE},
}
"""Name → prefix, dialect, further settings."""
ROOT = Path(__file__).resolve().parents[2]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def divide(a: int, b: int) -> float:
    """Divide two numbers."""
    return a / b


def state_with(name: str, colour: str) -> tuple[list[Any], list[Any]]:
    """What the program's state says at its end, and what the last request asked."""
    prefix, dialect, further = WIRES[name]
    with WireServer(dialect) as wire:
        wire.say("Two sums.", calls=[Call("add", {"a": 1, "b": 2}, "x"), Call("add", {"a": 3, "b": 4}, "y")])
        wire.fail(503, "busy", retry_after="0.01")
        wire.say(calls=[Call("divide", {"a": 1, "b": 0}, "z")])
        wire.say("3 and 7; nobody divides by zero.", read=200, cached=0, written=40)
        settings = {"base_url": wire.base_url, "api_key": "none", "temperature": 0, "max_tokens": 99, **further}
        model = init_chat_model(f"{prefix}:m", **settings)
        agent = create_agent(model, [add, divide], system_prompt="Be brief.", on_tool_error="message")
        given = {"messages": [HumanMessage("1 + 2, 3 + 4, 1 / 0?")]}
        if colour == "invoke":
            state = agent.invoke(given)
        else:
            *_, state = agent.stream(given, stream_mode="values")
        asked = wire.asked
    return [said(message) for message in state["messages"]], [
        asked.system,
        asked.turns,
        list(asked.calls.values()),
        list(asked.results.values()),
        sorted(asked.tools),
        asked.max_tokens,
    ]


def said(message: Any) -> Any:
    """All but what a vendor names: ids and its own account of the call."""
    calls = [(call["name"], call["args"]) for call in getattr(message, "tool_calls", ())]
    if isinstance(message, ToolMessage):
        return ("tool", message.name, message.content, message.status)
    if isinstance(message, AIMessage):
        usage = {key: message.usage_metadata[key] for key in ("input_tokens", "output_tokens", "total_tokens")}  # type: ignore[index,literal-required]
        return ("ai", message.content, calls, usage, message.response_metadata["finish_reason"])
    return (message.type, message.content)


@pytest.mark.parametrize("colour", ["invoke", "stream"])
def test_a_program_does_not_notice_its_vendor(colour: str) -> None:
    found = {name: state_with(name, colour) for name in WIRES}
    first = found["openai"]
    assert [kind for kind, *_ in first[0]] == ["human", "ai", "tool", "tool", "ai", "tool", "ai"]
    for name, each in found.items():
        assert each == first, name


@pytest.mark.parametrize("standard", [False, True], ids=["as it came", "standard blocks"])
@pytest.mark.parametrize("name", WIRES)
def test_a_conversation_that_one_vendor_began_goes_on_with_any(name: str, standard: bool) -> None:
    found = [{"type": "web_search_result", "url": "https://w.example"}]
    answer = AIMessage(
        [
            {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "eA=="},
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": found},
            {"type": "text", "text": "It is sunny.", "citations": [{"type": "page_location", "cited_text": "x"}]},
            {"type": "tool_call", "name": "add", "args": {"a": 1, "b": 2}, "id": "toolu_1"},
        ]
    )
    if standard:
        answer = AIMessage(answer.content_blocks)
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    history = [HumanMessage([picture, "Weather?"]), answer, ToolMessage("3", tool_call_id="toolu_1")]
    prefix, dialect, further = WIRES[name]
    with WireServer(dialect) as wire:
        wire.say("Yes.")
        model = init_chat_model(f"{prefix}:m", base_url=wire.base_url, api_key="none", **further)
        model.invoke([*history, HumanMessage("Sure?")])
        asked, body = wire.asked, str(wire.last["body"])
    assert asked.images == (["aGk="] if "image" in model.media else [])  # type: ignore[attr-defined]
    assert list(asked.calls.values()) == [("add", {"a": 1, "b": 2})]
    assert list(asked.calls) == list(asked.results)
    assert "It is sunny." in next(text for role, text in asked.turns if role == "assistant")
    assert "https://w.example" in body
    for kind in ("c2ln", "redacted_thinking", "server_tool_use", "server_tool_call", "page_location"):
        assert (kind in body) == (prefix == "anthropic" and kind != "server_tool_call"), kind


@pytest.mark.parametrize("name", WIRES)
def test_a_conversation_that_openai_began_goes_on_with_any(name: str) -> None:
    """What only OpenAI could read goes to nobody else, and what was said to everybody."""
    blocks: list[Any] = [
        {"type": "reasoning", "reasoning": "Hm.", "id": "rs_1", "extras": {"encrypted_content": "c2Vj"}},
        {"type": "non_standard", "value": {"type": "mcp_list_tools", "id": "mcpl_1", "tools": []}},
        {"type": "server_tool_call", "id": "ws_1", "name": "web_search", "args": {"query": "x"}}
        | {"extras": {"block_type": "web_search_call", "status": "completed"}},
        {"type": "server_tool_result", "tool_call_id": "ws_1", "status": "success"}
        | {"output": [{"url": "https://w.example"}], "extras": {"block_type": "web_search_call"}},
        {"type": "image", "id": "ig_1", "base64": "cGljdHVyZQ==", "mime_type": "image/png"}
        | {"extras": {"block_type": "image_generation_call"}},
        {"type": "text", "text": "It is sunny.", "id": "msg_1", "extras": {"phase": "commentary"}}
        | {"annotations": [{"type": "citation", "url": "https://w.example", "start_index": 0, "end_index": 5}]},
        {"type": "tool_call", "name": "add", "args": {"a": 1, "b": 2}, "id": "call_1", "extras": {"item_id": "fc_1"}},
    ]
    answer = AIMessage(blocks, response_metadata={"model_provider": "openai", "id": "resp_1"})
    history = [HumanMessage("Weather?"), answer, ToolMessage("3", tool_call_id="call_1"), HumanMessage("Sure?")]
    prefix, dialect, further = WIRES[name]
    with WireServer(dialect) as wire:
        wire.say("Yes.")
        init_chat_model(f"{prefix}:m", base_url=wire.base_url, api_key="none", **further).invoke(history)
        asked, body = wire.asked, str(wire.last["body"])
    assert list(asked.calls.values()) == [("add", {"a": 1, "b": 2})]
    assert list(asked.calls) == list(asked.results)
    assert "It is sunny." in "".join(text for role, text in asked.turns if role == "assistant")
    assert "https://w.example" in body
    for secret in ("c2Vj", "mcp_list_tools", "rs_1", "msg_1", "fc_1", "cGljdHVyZQ==", "web_search_call", "commentary"):
        assert (secret in body) == (name == "responses"), secret


@pytest.mark.parametrize("name", WIRES)
def test_a_plain_answer_that_google_signed_is_plain_to_all(name: str) -> None:
    signatures = {"text": "c2ln", "x": "c2lnMg=="}
    about = {"model_provider": "google_genai", "thought_signatures": signatures}
    calls = [{"name": "add", "args": {"a": 1, "b": 2}, "id": "x"}]
    answer = AIMessage("Let me see.", tool_calls=calls, response_metadata=about)
    prefix, dialect, further = WIRES[name]
    with WireServer(dialect) as wire:
        wire.say("Yes.")
        model = init_chat_model(f"{prefix}:m", base_url=wire.base_url, api_key="none", **further)
        model.invoke([HumanMessage("1 + 2?"), answer, ToolMessage("3", tool_call_id="x")])
        body = str(wire.last["body"])
    assert "Let me see." in body
    for signature in signatures.values():
        assert (signature in body) == prefix.startswith("google_")


@pytest.mark.parametrize("name", WIRES)
def test_what_google_signed_goes_back_to_google_alone(name: str) -> None:
    mark = {"google": {"thought_signature": "c2ln"}}
    ran: dict[str, Any] = {"google": {"part": "executableCode"}}
    gave: dict[str, Any] = {"google": {"part": "codeExecutionResult", "outcome": "OUTCOME_OK"}}
    args = {"language": "PYTHON", "code": "print(6*7)"}
    answer = AIMessage(
        [
            {"type": "reasoning", "reasoning": "Hm.", "extras": mark},
            {"type": "server_tool_call", "id": "c", "name": "code_execution", "args": args, "extras": ran},
            {"type": "server_tool_result", "tool_call_id": "c", "status": "success", "output": "42", "extras": gave},
            {"type": "image", "base64": "cGljdHVyZQ==", "mime_type": "image/png", "extras": mark},
            {"type": "text", "text": "It is 42.", "extras": mark},
            {"type": "tool_call", "name": "add", "args": {"a": 1, "b": 2}, "id": "x", "extras": mark},
        ]
    )
    prefix, dialect, further = WIRES[name]
    with WireServer(dialect) as wire:
        wire.say("Yes.")
        model = init_chat_model(f"{prefix}:m", base_url=wire.base_url, api_key="none", **further)
        model.invoke([HumanMessage("6 * 7?"), answer, ToolMessage("3", tool_call_id="x")])
        asked, body = wire.asked, str(wire.last["body"])
    assert list(asked.calls.values()) == [("add", {"a": 1, "b": 2})]
    assert "It is 42." in "".join(text for role, text in asked.turns if role == "assistant")
    for kind in ("c2ln", "executableCode", "print(6*7)", "Hm.", "cGljdHVyZQ=="):
        assert (kind in body) == prefix.startswith("google_"), kind
    assert "'42'" in body or '"42"' in body, "what the code gave is told to all"
    assert "thought_signature" not in body


def test_the_table_of_what_each_can_do_is_of_today() -> None:
    spec = importlib.util.spec_from_file_location("provider_page", ROOT / "scripts" / "provider_page.py")
    assert spec is not None
    assert spec.loader is not None
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    assert page.page() == page.PAGE.read_text(encoding="utf-8"), "run `make docs`"
    assert set(page.adapters()) == set(DIALECTS), "each adapter is in the swap test"
