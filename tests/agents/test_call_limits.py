"""Limits on calls of the model and of tools, by run and by thread."""

from __future__ import annotations

from typing import Any

import pytest

from runwell.agents import create_agent
from runwell.agents.middleware import (
    HumanInTheLoopMiddleware,
    ModelCallLimitExceededError,
    ModelCallLimitMiddleware,
    ToolCallLimitExceededError,
    ToolCallLimitMiddleware,
)
from runwell.errors import BudgetExceeded, InvalidInput, NoCheckpointer
from runwell.graph import Command
from runwell.messages import AIMessage, HumanMessage, ToolMessage, validate_history
from runwell.persistence import InMemorySaver
from runwell.testing.models import FakeChatModel
from runwell.tools import tool

GO = {"messages": [HumanMessage("go")]}
ran: list[str] = []


@tool
def look(at: str) -> str:
    """Look at something."""
    ran.append(at)
    return f"saw {at}"


@tool
def other() -> str:
    """Do something else."""
    ran.append("other")
    return "did"


@pytest.fixture(autouse=True)
def fresh() -> None:
    ran.clear()


def looks(*places: str, also: tuple[str, ...] = ()) -> AIMessage:
    calls: list[Any] = [{"name": "look", "args": {"at": p}, "id": f"l-{p}", "type": "tool_call"} for p in places]
    return AIMessage(
        "", tool_calls=[*calls, *({"name": n, "args": {}, "id": f"o-{n}", "type": "tool_call"} for n in also)]
    )


# -- the model


def test_f8_a_run_ends_at_its_limit_of_model_calls(run: Any) -> None:
    model = FakeChatModel(responses=[looks("a"), looks("b"), looks("c")])
    result = run.invoke(create_agent(model, [look], middleware=[ModelCallLimitMiddleware(run_limit=2)]), GO)
    assert len(model.requests) == 2 and sorted(ran) == ["a", "b"]
    assert result["messages"][-1].text == result["stopped"] == "Model call limit of the run is reached: 2 of 2."
    assert not validate_history(result["messages"])
    assert set(result) == {"messages", "stopped"}


def test_f8_the_limit_may_raise(run: Any) -> None:
    model = FakeChatModel(responses=[looks("a"), looks("b")])
    agent = create_agent(model, [look], middleware=[ModelCallLimitMiddleware(run_limit=1, exit_behavior="error")])
    with pytest.raises(ModelCallLimitExceededError) as caught:
        run.invoke(agent, GO)
    assert isinstance(caught.value, BudgetExceeded) and (caught.value.value, caught.value.limit) == (1, 1)


def test_agent_11_each_run_has_its_own_count(run: Any, thread: Any) -> None:
    model = FakeChatModel(responses=["one", "two"])
    agent = create_agent(model, middleware=[ModelCallLimitMiddleware(run_limit=1)], checkpointer=InMemorySaver())
    assert run.invoke(agent, GO, thread)["messages"][-1].text == "one"
    assert run.invoke(agent, GO, thread)["messages"][-1].text == "two"


def test_f8_a_thread_has_one_count_for_all_its_runs(run: Any, thread: Any) -> None:
    model = FakeChatModel(responses=["one", "two", "three"])
    limit = ModelCallLimitMiddleware(thread_limit=2)
    agent = create_agent(model, middleware=[limit], checkpointer=InMemorySaver())
    texts = [run.invoke(agent, GO, thread)["messages"][-1].text for _ in range(3)]
    assert texts == ["one", "two", "Model call limit of the thread is reached: 2 of 2."]
    assert run.invoke(agent, GO, {"configurable": {"thread_id": "u"}})["messages"][-1].text == "three"


def test_f8_a_resume_counts_on(run: Any, thread: Any) -> None:
    model = FakeChatModel(responses=[looks("a"), "late"])
    agent = create_agent(
        model, [look], middleware=[ModelCallLimitMiddleware(run_limit=1)], approvals="all", checkpointer=InMemorySaver()
    )
    run.invoke(agent, GO, thread)
    result = run.invoke(agent, Command(resume={"decisions": [{"type": "approve"}]}), thread)
    assert ran == ["a"] and "limit" in result["messages"][-1].text and len(model.requests) == 1


def test_f8_f9_a_thread_limit_without_a_saved_thread_is_refused(run: Any) -> None:
    for limit in (ModelCallLimitMiddleware(thread_limit=2), ToolCallLimitMiddleware(thread_limit=2)):
        model = FakeChatModel(responses=["never"])
        with pytest.raises(NoCheckpointer, match="whole thread"):
            run.invoke(create_agent(model, [look], middleware=[limit]), GO)
        assert not model.requests
        with pytest.raises(NoCheckpointer):
            create_agent(model, [look], middleware=[limit], checkpointer=False)


def test_f8_a_lent_checkpointer_will_do(run: Any, thread: Any) -> None:
    from runwell.graph import END, START, MessagesState, StateGraph

    agent = create_agent(FakeChatModel(responses=["ok"]), middleware=[ModelCallLimitMiddleware(thread_limit=2)])
    graph = StateGraph(MessagesState)
    graph.add_node("agent", agent)
    graph.add_edge(START, "agent")
    graph.add_edge("agent", END)
    assert run.invoke(graph.compile(InMemorySaver()), GO, thread)["messages"][-1].text == "ok"


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"run_limit": 0},
        {"thread_limit": -1},
        {"run_limit": 1, "exit_behavior": "x"},
        {"run_limit": 5, "thread_limit": 2},
    ],
)
def test_limits_that_cannot_be_are_refused(bad: dict[str, Any]) -> None:
    for kind in (ModelCallLimitMiddleware, ToolCallLimitMiddleware):
        with pytest.raises(InvalidInput):
            kind(**bad)


# -- tools


def test_agent_10_a_turn_over_the_limit_is_answered_whole_and_none_of_it_runs(run: Any, thread: Any) -> None:
    model = FakeChatModel(responses=[looks("a", "b", "c"), looks("d"), "fine"])
    limit = ToolCallLimitMiddleware(run_limit=1, thread_limit=1, exit_behavior="end")
    agent = create_agent(model, [look], middleware=[limit], checkpointer=InMemorySaver())
    first = run.invoke(agent, GO, thread)
    assert ran == [] and not validate_history(first["messages"])
    assert [m.status for m in first["messages"] if isinstance(m, ToolMessage)] == ["error"] * 3
    assert "limit of 1" in first["stopped"]
    second = run.invoke(agent, {"messages": [HumanMessage("again")]}, thread)
    assert ran == ["d"], "the quota was not used by calls that did not run"
    assert second["messages"][-1].text == "fine" and not validate_history(second["messages"])


def test_f9_the_model_may_go_on_with_what_is_within_the_limit(run: Any) -> None:
    model = FakeChatModel(responses=[looks("a", "b", "c"), looks("d"), "done"])
    agent = create_agent(model, [look], middleware=[ToolCallLimitMiddleware(run_limit=2)])
    messages = run.invoke(agent, GO)["messages"]
    assert sorted(ran) == ["a", "b"] and messages[-1].text == "done" and not validate_history(messages)
    assert [m.tool_call_id for m in messages if isinstance(m, ToolMessage) and m.status == "error"] == ["l-c", "l-d"]


def test_f9_a_limit_of_one_tool_leaves_others_alone(run: Any) -> None:
    model = FakeChatModel(responses=[looks("a", "b", also=("other",)), "done"])
    limits = [ToolCallLimitMiddleware(tool_name="look", run_limit=1), ToolCallLimitMiddleware(run_limit=9)]
    messages = run.invoke(create_agent(model, [look, other], middleware=limits), GO)["messages"]
    assert sorted(ran) == ["a", "other"] and not validate_history(messages)


def test_f9_the_end_of_a_run_answers_calls_of_other_tools_too(run: Any) -> None:
    model = FakeChatModel(responses=[looks("a", "b", also=("other",))])
    limit = ToolCallLimitMiddleware(tool_name="look", run_limit=1, exit_behavior="end")
    messages = run.invoke(create_agent(model, [look, other], middleware=[limit]), GO)["messages"]
    assert ran == [] and not validate_history(messages) and isinstance(messages[-1], AIMessage)


def test_f9_an_error_comes_before_anything_runs_and_the_thread_goes_on(run: Any, thread: Any) -> None:
    model = FakeChatModel(responses=[looks("a", "b"), "fine"])
    limit = ToolCallLimitMiddleware(run_limit=1, exit_behavior="error")
    agent = create_agent(model, [look], middleware=[limit], checkpointer=InMemorySaver())
    with pytest.raises(ToolCallLimitExceededError, match="2 more"):
        run.invoke(agent, GO, thread)
    assert ran == []
    messages = run.invoke(agent, {"messages": [HumanMessage("again")]}, thread)["messages"]
    assert messages[-1].text == "fine" and not validate_history(messages)


def test_agent_11_tool_calls_too_are_counted_by_run(run: Any, thread: Any) -> None:
    model = FakeChatModel(responses=[looks("a"), "1", looks("b"), "2"])
    limit = ToolCallLimitMiddleware(run_limit=1, exit_behavior="end")
    agent = create_agent(model, [look], middleware=[limit], checkpointer=InMemorySaver())
    assert [run.invoke(agent, GO, thread)["messages"][-1].text for _ in range(2)] == ["1", "2"]
    assert sorted(ran) == ["a", "b"]


def test_f9_calls_a_person_rejected_do_not_count(run: Any, thread: Any) -> None:
    model = FakeChatModel(responses=[looks("a", "b"), "done"])
    middleware = [ToolCallLimitMiddleware(run_limit=1), HumanInTheLoopMiddleware({"look": True})]
    agent = create_agent(model, [look], middleware=middleware, checkpointer=InMemorySaver())
    run.invoke(agent, GO, thread)
    answer = {"decisions": {"l-a": {"type": "reject"}, "l-b": {"type": "approve"}}}
    messages = run.invoke(agent, Command(resume=answer), thread)["messages"]
    assert ran == ["b"] and not validate_history(messages)


def test_f9_a_limit_of_a_tool_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidInput, match="did you mean 'look'"):
        create_agent(
            FakeChatModel(responses=[]), [look], middleware=[ToolCallLimitMiddleware(tool_name="lok", run_limit=1)]
        )
