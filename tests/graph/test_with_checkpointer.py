"""A compiled graph given another saver."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest

from runwell import END, START, Command, InMemorySaver, StateGraph, create_agent, interrupt, tool
from runwell.errors import GraphError, NoCheckpointer
from runwell.testing import FakeChatModel

T = {"configurable": {"thread_id": "t"}}


class State(TypedDict):
    seen: Annotated[list[str], operator.add]


def graph(checkpointer: Any = None) -> Any:
    built = StateGraph(State)
    built.add_node("ask", lambda state: {"seen": [interrupt("what?")]})
    built.add_edge(START, "ask")
    built.add_edge("ask", END)
    return built.compile(checkpointer)


def test_it_saves_there_and_the_first_graph_stays_as_it_is(driver: Any) -> None:
    first = graph()
    saved = first.with_checkpointer(InMemorySaver())
    assert driver.invoke(saved, {"seen": ["a"]}, T)["__interrupt__"]
    assert driver.invoke(saved, Command(resume="b"), T)["seen"] == ["a", "b"]
    with pytest.raises(NoCheckpointer):
        driver.invoke(first, {"seen": []}, T)


def test_another_saver_replaces_the_first_even_after_a_run(driver: Any) -> None:
    one, two = InMemorySaver(), InMemorySaver()
    first = graph(one)
    driver.invoke(first, {"seen": ["a"]}, T)
    second = first.with_checkpointer(two)
    assert second.get_state(T).values == {}
    driver.invoke(second, {"seen": ["b"]}, T)
    assert first.get_state(T).values["seen"] == ["a"]
    assert second.get_state(T).values["seen"] == ["b"]


def test_an_agent_keeps_what_it_was_made_with(driver: Any) -> None:
    """Its approvals, and what a new question does to an unfinished run."""

    @tool(destructive=True)
    def wipe() -> str:
        """Wipe it."""
        return "wiped"

    call = {"name": "wipe", "args": {}, "id": "1", "type": "tool_call"}
    from runwell import AIMessage

    model = FakeChatModel([AIMessage("", tool_calls=[call]), "fine"])
    agent = create_agent(model, [wipe], approvals="destructive").with_checkpointer(InMemorySaver())
    assert driver.invoke(agent, {"messages": "wipe it"}, T)["__interrupt__"]
    result = driver.invoke(agent, {"messages": "never mind"}, T)
    assert [message.type for message in result["messages"]] == ["human", "ai", "tool", "human", "ai"]


def test_what_cannot_save_is_refused() -> None:
    with pytest.raises(GraphError, match="cannot save a graph"):
        graph().with_checkpointer("threads.sqlite")
