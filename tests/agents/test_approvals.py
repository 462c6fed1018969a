"""A person decides about tool calls."""

from __future__ import annotations

from typing import Any

import pytest

from runwell.agents import create_agent
from runwell.agents.middleware import HumanInTheLoopMiddleware, after_model, before_model
from runwell.errors import InvalidInput, InvalidResume, InvalidUpdateError, NoCheckpointer
from runwell.graph import Command
from runwell.messages import AIMessage, HumanMessage
from runwell.persistence import InMemorySaver
from runwell.testing.models import FakeChatModel
from runwell.tools import tool

ran: list[Any] = []


@pytest.fixture(autouse=True)
def forget() -> None:
    ran.clear()


@tool(destructive=True)
def delete(path: str) -> str:
    """Delete a file."""
    ran.append(("delete", path))
    return f"deleted {path}"


@tool
def calc(a: int, b: int) -> int:
    """Add."""
    ran.append(("calc", a, b))
    return a + b


def call(name: str, id: str, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


BOTH = AIMessage("", tool_calls=[call("calc", "c", a=1, b=2), call("delete", "d", path="/tmp/x")])
ONE = AIMessage("", tool_calls=[call("delete", "d", path="/tmp/x")])
GO = {"messages": [HumanMessage("go")]}


def gated(*responses: Any, **options: Any) -> tuple[Any, FakeChatModel]:
    model = FakeChatModel(responses=[*responses, "done"])
    options.setdefault("approvals", ["delete"])
    options.setdefault("checkpointer", InMemorySaver())
    return create_agent(model, [delete, calc], **options), model


def decide(**decisions: Any) -> Command[Any]:
    return Command(resume={"decisions": decisions})


def contents(result: Any) -> dict[str, str]:
    return {m.tool_call_id: m.content for m in result["messages"] if m.type == "tool"}


def test_a_gated_call_waits_and_says_what_it_is(run: Any, thread: Any) -> None:
    agent, _ = gated(BOTH)
    [question] = run.invoke(agent, GO, thread)["__interrupt__"]
    assert [(r["name"], r["args"], r["id"]) for r in question.value["action_requests"]] == [
        ("delete", {"path": "/tmp/x"}, "d")
    ]
    assert question.value["review_configs"][0]["allowed_decisions"] == ["approve", "edit", "reject", "respond"]
    assert ran == []


def test_d10_approve_runs_the_call_as_written(run: Any, thread: Any) -> None:
    agent, _ = gated(ONE)
    run.invoke(agent, GO, thread)
    result = run.invoke(agent, decide(d={"type": "approve"}), thread)
    assert contents(result) == {"d": "deleted /tmp/x"} and ran == [("delete", "/tmp/x")]


def test_d10_decisions_may_be_a_complete_list_in_the_order_asked(run: Any, thread: Any) -> None:
    agent, _ = gated(ONE)
    run.invoke(agent, GO, thread)
    with pytest.raises(InvalidResume):
        run.invoke(agent, Command(resume={"decisions": []}), thread)
    result = run.invoke(agent, Command(resume={"decisions": [{"type": "approve"}]}), thread)
    assert contents(result) == {"d": "deleted /tmp/x"}


@pytest.mark.parametrize("first", ["the gate", "the jump"])
def test_agent_01_agent_02_a_rejected_call_never_runs_and_the_others_do(run: Any, thread: Any, first: str) -> None:
    @after_model(can_jump_to=["tools"])
    def push(state: Any, runtime: Any) -> Any:
        return {"jump_to": "tools"} if any(getattr(m, "tool_calls", None) for m in state["messages"][-2:]) else None

    gate = HumanInTheLoopMiddleware({"delete": True})
    order = [push, gate] if first == "the gate" else [gate, push]  # hooks after the model run in reverse
    agent, model = gated(BOTH, middleware=order, approvals="off")
    run.invoke(agent, GO, thread)
    result = run.invoke(agent, decide(d={"type": "reject", "message": "keep it"}), thread)
    assert ran == [("calc", 1, 2)]
    assert "keep it" in contents(result)["d"] and contents(result)["c"] == "3"
    assert next(m for m in result["messages"] if m.type == "tool" and m.tool_call_id == "d").status == "error"
    assert len(model.requests) == 2


def test_agent_01_a_jump_to_the_tools_before_the_model_is_reviewed_too(run: Any, thread: Any) -> None:
    @before_model(can_jump_to=["tools"])
    def push(state: Any, runtime: Any) -> Any:
        return {"jump_to": "tools"} if getattr(state["messages"][-1], "tool_calls", None) else None

    agent, _ = gated(middleware=[push])
    [question] = run.invoke(agent, {"messages": [HumanMessage("go"), ONE]}, thread)["__interrupt__"]
    assert question.value["action_requests"][0]["id"] == "d" and ran == []
    result = run.invoke(agent, decide(d={"type": "approve"}), thread)
    assert contents(result) == {"d": "deleted /tmp/x"}


def test_a_jump_to_the_tools_with_no_open_call_is_refused(run: Any, thread: Any) -> None:
    @before_model(can_jump_to=["tools"])
    def push(state: Any, runtime: Any) -> Any:
        return {"jump_to": "tools"}

    agent, _ = gated(middleware=[push], approvals="off")
    with pytest.raises(InvalidUpdateError, match="no tool call is open"):
        run.invoke(agent, GO, thread)


def test_d10_respond_answers_in_the_tools_place(run: Any, thread: Any) -> None:
    agent, _ = gated(ONE)
    run.invoke(agent, GO, thread)
    result = run.invoke(agent, decide(d={"type": "respond", "message": "it is gone already"}), thread)
    assert contents(result) == {"d": "it is gone already"} and ran == []


def test_d12_agent_03_an_edited_call_runs_history_shows_both_and_the_model_is_told(run: Any, thread: Any) -> None:
    agent, model = gated(ONE)
    run.invoke(agent, GO, thread)
    edit = {"type": "edit", "edited_action": {"name": "delete", "args": {"path": "/tmp/y"}}}
    result = run.invoke(agent, decide(d=edit), thread)
    assert ran == [("delete", "/tmp/y")]
    reply = result["messages"][1]
    assert reply.tool_calls[0]["args"] == {"path": "/tmp/y"}
    assert reply.additional_kwargs["edited_calls"]["d"]["args"] == {"path": "/tmp/x"}
    seen = model.requests[1].messages[-1].content
    assert "person changed" in seen and "/tmp/x" in seen and "deleted /tmp/y" in seen


def test_d12_calls_without_an_id_can_be_edited_too(run: Any, thread: Any) -> None:
    nameless = AIMessage("", tool_calls=[{**call("delete", "", path="/tmp/x"), "id": None}])
    agent, _ = gated(nameless)
    [question] = run.invoke(agent, GO, thread)["__interrupt__"]
    call_id = question.value["action_requests"][0]["id"]
    edit = {"type": "edit", "edited_action": {"name": "delete", "args": {"path": "/tmp/y"}}}
    run.invoke(agent, Command(resume={"decisions": {call_id: edit}}), thread)
    assert ran == [("delete", "/tmp/y")]


BAD = {
    "an unknown kind": {"type": "maybe"},
    "another tool": {"type": "edit", "edited_action": {"name": "calc", "args": {"a": 1, "b": 2}}},
    "arguments that do not fit": {"type": "edit", "edited_action": {"name": "delete", "args": {"path": 3}}},
    "an edit without its action": {"type": "edit"},
    "a response without its text": {"type": "respond"},
}


@pytest.mark.parametrize("wrong", BAD.values(), ids=BAD.keys())
def test_d5_d11_a_wrong_decision_is_refused_and_the_run_stays_paused(run: Any, thread: Any, wrong: Any) -> None:
    agent, _ = gated(ONE)
    run.invoke(agent, GO, thread)
    with pytest.raises(InvalidResume):
        run.invoke(agent, decide(d=wrong), thread)
    with pytest.raises(InvalidResume):
        run.invoke(agent, decide(other={"type": "approve"}), thread)
    assert len(run.state(agent, thread).interrupts) == 1
    assert contents(run.invoke(agent, decide(d={"type": "approve"}), thread)) == {"d": "deleted /tmp/x"}


def test_d11_only_allowed_decisions_are_taken(run: Any, thread: Any) -> None:
    agent, _ = gated(ONE, approvals={"delete": {"allowed_decisions": ["approve", "reject"]}})
    run.invoke(agent, GO, thread)
    with pytest.raises(InvalidResume, match="respond"):
        run.invoke(agent, decide(d={"type": "respond", "message": "x"}), thread)


def test_d9_when_is_asked_once_and_a_rejection_cannot_be_skipped(run: Any, thread: Any) -> None:
    asked: list[str] = []

    def when(request: Any) -> bool:
        asked.append(request.tool_call["id"])
        return len(asked) == 1

    agent, _ = gated(ONE, approvals={"delete": {"when": when}})
    run.invoke(agent, GO, thread)
    result = run.invoke(agent, decide(d={"type": "reject"}), thread)
    assert asked == ["d"] and ran == []
    assert "rejected" in contents(result)["d"]


def test_d9_when_may_wave_a_call_through(run: Any, thread: Any) -> None:
    agent, _ = gated(ONE, approvals={"delete": {"when": lambda request: False}})
    assert contents(run.invoke(agent, GO, thread)) == {"d": "deleted /tmp/x"}


def test_d1_destructive_gates_what_declares_itself_so(run: Any, thread: Any) -> None:
    agent, _ = gated(BOTH, approvals="destructive")
    [question] = run.invoke(agent, GO, thread)["__interrupt__"]
    assert [request["name"] for request in question.value["action_requests"]] == ["delete"]


def test_d1_off_is_the_default(run: Any, thread: Any) -> None:
    agent, _ = gated(BOTH, approvals="off")
    assert set(contents(run.invoke(agent, GO, thread))) == {"c", "d"}


def test_d4_an_agent_that_can_pause_is_refused_when_it_starts_with_nothing_to_save_it(run: Any) -> None:
    agent, model = gated(ONE, checkpointer=None)
    with pytest.raises(NoCheckpointer, match="delete"):
        run.invoke(agent, GO)
    assert model.requests == []


def test_d4_no_checkpointer_on_purpose_is_refused_when_built() -> None:
    with pytest.raises(NoCheckpointer):
        gated(ONE, checkpointer=False)


def test_d4_answers_in_process_need_no_checkpointer(run: Any) -> None:
    agent, _ = gated(ONE, checkpointer=None)
    result = run.invoke(agent, GO, answer_interrupts=lambda question: {"decisions": {"d": {"type": "approve"}}})
    assert contents(result) == {"d": "deleted /tmp/x"}


def test_unknown_tools_and_settings_are_refused_when_built() -> None:
    with pytest.raises(InvalidInput, match=r"'delet'.*did you mean 'delete'"):
        gated(ONE, approvals=["delet"])
    with pytest.raises(InvalidInput, match="unknown key"):
        HumanInTheLoopMiddleware({"delete": {"allowed": ["approve"]}})  # type: ignore[typeddict-unknown-key]
    with pytest.raises(InvalidInput, match="allows"):
        HumanInTheLoopMiddleware({"delete": {"allowed_decisions": []}})


def test_the_model_is_not_asked_again_while_a_call_waits(run: Any, thread: Any) -> None:
    agent, model = gated(ONE)
    run.invoke(agent, GO, thread)
    run.invoke(agent, decide(d={"type": "approve"}), thread)
    assert len(model.requests) == 2


def test_an_approval_given_for_one_call_does_not_hold_for_the_call_it_was_changed_into_by_hand(
    run: Any, thread: dict[str, Any]
) -> None:
    agent, _ = gated(ONE)
    run.invoke(agent, GO, thread)
    asked = agent.get_state(thread).values["messages"][-1]
    agent.update_state(thread, {"messages": [AIMessage("", tool_calls=[call("delete", "d", path="/")], id=asked.id)]})
    approve = Command(resume={"decisions": [{"type": "approve"}]})
    [anew] = run.invoke(agent, approve, thread)["__interrupt__"]
    assert anew.value["action_requests"][0]["args"] == {"path": "/"}
    assert ran == []
    assert run.invoke(agent, approve, thread)["messages"][-1].text == "done"
    assert ran == [("delete", "/")]
