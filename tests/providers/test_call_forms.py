"""Names and ids in a history that a vendor refuses are written as it takes them, so that a thread goes on elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from runwell.errors import InvalidInput
from runwell.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from runwell.providers.openai import ChatOpenAI
from runwell.testing import WireServer
from runwell.testing.wire import OpenAIDialect, ResponsesDialect

from .test_own_blocks import DIALECTS, Vendor

NAMES = {
    "anthropic": r"[a-zA-Z0-9_-]{1,128}",
    "google_genai": r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}",
    "mistralai": r"[a-zA-Z0-9_-]{1,64}",
    "cohere": r"[a-zA-Z0-9_-]{1,64}",
    "bedrock_converse": r"[a-zA-Z0-9_-]{1,64}",
    "at openai": r"[a-zA-Z0-9_-]{1,64}",
    "responses at openai": r"[a-zA-Z0-9_-]{1,64}",
}
IDS = {
    "anthropic": r"[a-zA-Z0-9_-]+",
    "mistralai": r"[a-zA-Z0-9]{9}",
    "bedrock_converse": r"[a-zA-Z0-9_-]{1,64}",
    "at openai": r"[\s\S]{1,40}",
    "responses at openai": r"[\s\S]{1,64}",
}


@pytest.fixture(scope="module")
def wires() -> Iterator[dict[str, WireServer]]:
    dialects = {**DIALECTS, "at openai": OpenAIDialect(), "responses at openai": ResponsesDialect()}
    servers = {name: WireServer(dialect) for name, dialect in dialects.items()}
    yield servers
    for server in servers.values():
        server.close()


def vendor(name: str, wires: dict[str, WireServer]) -> Vendor:
    wire = wires[name]
    if not name.endswith("at openai"):
        return Vendor(name, wire)

    class Home(ChatOpenAI):
        default_base_url = wire.base_url

    made = Vendor("openai", wire)
    made.model = Home(model="m", api_key="none", use_responses_api=name.startswith("responses"))
    return made


def history(name: str, call_id: str, content: Any = "") -> list[BaseMessage]:
    call: Any = {"name": name, "args": {"x": 1}, "id": call_id, "type": "tool_call"}
    answer = AIMessage(content, tool_calls=[call])
    if content:
        answer.content = [{"type": "text", "text": content}, call]
    return [HumanMessage("Hi"), answer, ToolMessage("7", tool_call_id=call_id, name=name)]


def found(sent: Any, *keys: str) -> list[str]:
    """The values of these keys, wherever they stand."""
    if isinstance(sent, dict):
        mine = [value for key, value in sent.items() if key in keys and isinstance(value, str)]
        return mine + [each for value in sent.values() for each in found(value, *keys)]
    return [each for value in sent for each in found(value, *keys)] if isinstance(sent, list) else []


ODD = ["multi_tool_use.parallel", "what is this?", "", "7up", "é" * 80]


@pytest.mark.parametrize("content", ["", "So."], ids=["text", "blocks"])
@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_is_none_is_written_as_one(name: str, odd: str, content: str, wires: dict[str, WireServer]) -> None:
    asked = vendor(name, wires)
    asked.sent(*history(odd, "call_1", content))
    body = asked.wire.last["body"]
    turns = body.get("messages") or body.get("input") or body.get("contents")
    names = [each for each in found(turns, "name") if each != "Hi"]
    assert names
    assert all(re.fullmatch(NAMES[name], each) for each in names), names
    assert len(set(names)) == 1, "a call and its result say the same"


LONG = ["functions.look:0", "call_" + "0123456789" * 7, "ü 1"]


@pytest.mark.parametrize("odd", LONG, ids=range(len(LONG)))
@pytest.mark.parametrize("name", IDS)
def test_an_id_that_the_vendor_refuses_is_another(name: str, odd: str, wires: dict[str, WireServer]) -> None:
    asked = vendor(name, wires)
    given = history("look", odd)
    asked.sent(*given)
    body = asked.wire.last["body"]
    ids = found(body.get("messages") or body.get("input"), "id", "tool_use_id", "tool_call_id", "call_id", "toolUseId")
    assert len(ids) == 2
    assert len(set(ids)) == 1
    assert re.fullmatch(IDS[name], ids[0])
    assert given[1].tool_calls[0]["id"] == odd, "the message is as it was"  # type: ignore[attr-defined]


def test_what_fits_stays_and_what_was_written_otherwise_is_recorded(wires: dict[str, WireServer]) -> None:
    asked = vendor("anthropic", wires)
    asked.sent(*history("look", "toolu_1"))
    assert asked.watch.told == []
    asked.sent(*history("a.b", "toolu_1"))
    assert any("written otherwise" in told and "a.b" in told for told in asked.watch.told)


def test_another_server_of_openais_api_gets_names_as_they_are(wires: dict[str, WireServer]) -> None:
    asked = Vendor("openai", wires["openai"])
    assert "a.b" in asked.sent(*history("a.b", "functions.a:0"))


def test_whoever_speaks_has_a_name_that_openai_takes(wires: dict[str, WireServer]) -> None:
    asked = vendor("at openai", wires)
    asked.sent(HumanMessage("Hi", name="Müller & Co"), AIMessage("Yes?", name="<Research Agent>"), HumanMessage("Well"))
    assert found(asked.wire.last["body"]["messages"], "name") == ["Müller_&_Co", "_Research_Agent_"]


@pytest.mark.parametrize("name", list(DIALECTS))
def test_arguments_without_an_end_are_refused_in_words(name: str, wires: dict[str, WireServer]) -> None:
    deep: Any = "x"
    for _ in range(3000):
        deep = {"a": deep}
    given = history("look", "call_1")
    given[1].tool_calls[0]["args"] = deep  # type: ignore[attr-defined]
    Vendor(name, wires[name]).refuses(InvalidInput, "a call of 'look' whose arguments are nested too deeply", *given)
