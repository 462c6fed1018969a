"""Calls of a computer or a shell, which OpenAI's Responses API describes itself: other vendors get them as calls of a
tool, and the conversation goes on with each of them and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from runwell.errors import InvalidHistory
from runwell.messages import AIMessage, HumanMessage, ToolMessage
from runwell.providers.openai import ChatOpenAI, ChatXAI
from runwell.testing import WireServer
from runwell.testing.wire import ResponsesDialect

from .test_own_blocks import DATA, DIALECTS, Vendor

OTHERS = [name for name in DIALECTS if name != "responses"]
CALLS: dict[str, dict[str, Any]] = {
    "computer": {"type": "computer_call", "action": {"type": "click", "x": 3, "y": 77}},
    "local_shell": {"type": "local_shell_call", "action": {"type": "exec", "command": ["uname", "77"], "env": {}}},
    "shell": {"type": "shell_call", "action": {"commands": ["uname 77"]}},
    "apply_patch": {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "77.txt"}},
}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]}


@pytest.fixture(scope="module")
def wires() -> Iterator[dict[str, WireServer]]:
    servers = {name: WireServer(dialect) for name, dialect in DIALECTS.items()}
    yield servers
    for server in servers.values():
        server.close()


def item(name: str) -> dict[str, Any]:
    return {"id": "it_1", "call_id": "call_c", "status": "completed", **CALLS[name]}


def answer(name: str, wire: WireServer) -> AIMessage:
    """What a model of OpenAI's says."""
    wire.json({"object": "response", "status": "completed", "output": [THOUGHT, item(name)]})
    model = ChatOpenAI(model="m", api_key="none", base_url=wire.base_url, use_responses_api=True)
    return model.invoke("Go on.")


@pytest.mark.parametrize("vendor", OTHERS)
@pytest.mark.parametrize("name", CALLS)
def test_another_vendor_goes_on_with_it(vendor: str, name: str, wires: dict[str, WireServer]) -> None:
    """As the call of a tool with its result: names, ids and arguments are there, and so is what was decided (B9)."""
    said = answer(name, wires["responses"])
    other = Vendor(vendor, wires[vendor])
    history = [HumanMessage("Go on."), said, ToolMessage("Done, 88.", tool_call_id="call_c"), HumanMessage("And now?")]
    sent = other.sent(*history)
    assert "77" in sent
    assert "88" in sent
    assert f"'{name}'" in sent
    assert any("said as calls of tools" in told and name in told for told in other.watch.told)
    assert said.tool_calls == [], "the message is as it was"
    back = Vendor("responses", wires["responses"])
    back.sent(*history, AIMessage("Fine.", response_metadata={"model_provider": vendor}), HumanMessage("Sure?"))
    assert item(name) in back.wire.last["body"]["input"], "and OpenAI gets the item that it gave"


@pytest.mark.parametrize("vendor", OTHERS)
@pytest.mark.parametrize("kind", ["image", "input_image", "computer_screenshot"])
def test_its_screenshot_is_seen(vendor: str, kind: str, wires: dict[str, WireServer]) -> None:
    shot: dict[str, Any] = {"type": kind, "image_url": f"data:image/png;base64,{DATA}"}
    if kind == "image":
        shot = {"type": "image", "base64": DATA, "mime_type": "image/png"}
    other = Vendor(vendor, wires[vendor])
    raw = AIMessage([item("computer")], response_metadata={"model_provider": "openai"})
    sent = other.sent(HumanMessage("Go on."), raw, ToolMessage([shot], tool_call_id="call_c"))
    assert "'computer'" in sent
    assert DATA in sent


@pytest.mark.parametrize("vendor", OTHERS)
def test_a_screenshot_that_a_person_sends_is_seen(vendor: str, wires: dict[str, WireServer]) -> None:
    """The item of OpenAI's API, in a message of the user's."""
    output = {"type": "computer_screenshot", "image_url": f"data:image/png;base64,{DATA}"}
    shot = HumanMessage([{"type": "computer_call_output", "call_id": "call_c", "output": output}])
    raw = AIMessage([item("computer")], response_metadata={"model_provider": "openai"})
    assert DATA in Vendor(vendor, wires[vendor]).sent(HumanMessage("Go on."), raw, shot)


@pytest.mark.parametrize("vendor", OTHERS)
def test_one_that_nobody_answered_is_left_out(vendor: str, wires: dict[str, WireServer]) -> None:
    raw = AIMessage(["So.", item("computer")], response_metadata={"model_provider": "openai"})
    sent = Vendor(vendor, wires[vendor]).sent(HumanMessage("Go on."), raw, HumanMessage("Stop."))
    assert "77" not in sent
    assert "So." in sent


def test_a_result_of_no_call_is_refused_still(wires: dict[str, WireServer]) -> None:
    other = Vendor("anthropic", wires["anthropic"])
    raw = AIMessage([item("computer")], response_metadata={"model_provider": "openai"})
    other.refuses(InvalidHistory, "call_x", HumanMessage("Go on."), raw, ToolMessage("x", tool_call_id="call_x"))


def test_another_server_of_the_same_api_gets_calls_of_a_tool() -> None:
    raw = AIMessage([item("computer")], response_metadata={"model_provider": "openai"})
    with WireServer(ResponsesDialect()) as wire:
        wire.say("Fine.")
        model = ChatXAI(model="m", api_key="none", base_url=wire.base_url, use_responses_api=True)
        model.invoke([HumanMessage("Go on."), raw, ToolMessage("Done.", tool_call_id="call_c")])
        call, result = wire.last["body"]["input"][1:]
    assert (call["type"], call["name"], call["call_id"]) == ("function_call", "computer", "call_c")
    assert (result["type"], result["call_id"]) == ("function_call_output", "call_c")
