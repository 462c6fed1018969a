"""`push_message`: what a node says before it ends."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import pytest

from runwell.agents import ToolNode, create_agent
from runwell.errors import InvalidInput, UsageError
from runwell.graph import (
    START,
    Command,
    MessagesState,
    RetryPolicy,
    StateGraph,
    add_messages,
    entrypoint,
    interrupt,
    push_message,
    task,
)
from runwell.messages import AIMessage, HumanMessage, RemoveMessage
from runwell.persistence import InMemorySaver
from runwell.testing.models import FakeChatModel
from runwell.tools import tool


def graph_of(node: Any, **settings: Any) -> StateGraph[Any]:
    return StateGraph(MessagesState).add_node("node", node, **settings).add_edge(START, "node")


def texts(state: Any) -> list[str]:
    return [message.text for message in state["messages"]]


def said(items: list[Any]) -> list[tuple[str, str]]:
    return [(message.text, told["node"]) for message, told in items]


GO = {"messages": "go"}


def test_it_is_streamed_at_once_and_stands_before_what_the_node_returns(run: Any) -> None:
    def node(state: Any) -> Any:
        first = push_message(AIMessage("working"))
        push_message(("ai", "nearly there"))
        assert first.id is not None
        return {"messages": [AIMessage("done")]}

    app = graph_of(node).compile()
    assert said(run.stream(app, GO, stream_mode="messages")) == [
        ("working", "node"),
        ("nearly there", "node"),
        ("done", "node"),
    ]
    assert texts(run.invoke(app, GO)) == ["go", "working", "nearly there", "done"]


def test_an_async_node_and_one_that_returns_nothing(run: Any) -> None:
    async def node(state: Any) -> None:
        push_message("hello")

    app = graph_of(node).compile()
    assert texts(run.invoke(app, GO)) == ["go", "hello"]
    assert run.stream(app, GO, stream_mode="updates")[0]["node"].keys() == {"messages"}


def test_a_later_message_replaces_it_by_its_id_and_is_not_told_twice(run: Any) -> None:
    def node(state: Any) -> Any:
        draft = push_message(AIMessage("draft", id="a"))
        return {"messages": [draft.model_copy(update={"content": "final"})]}

    app = graph_of(node).compile()
    assert said(run.stream(app, GO, stream_mode="messages")) == [("draft", "node")]
    assert texts(run.invoke(app, GO)) == ["go", "final"]


def test_none_shows_it_only_and_another_key_may_hold_it(run: Any) -> None:
    class State(MessagesState):
        notes: Annotated[list[Any], add_messages]

    def node(state: Any) -> None:
        push_message(AIMessage("shown"), state_key=None)
        push_message(AIMessage("noted"), state_key="notes")

    app = StateGraph(State).add_node("node", node).add_edge(START, "node").compile()
    result = run.invoke(app, GO)
    assert texts(result) == ["go"]
    assert [message.text for message in result["notes"]] == ["noted"]
    assert [text for text, _ in said(run.stream(app, GO, stream_mode="messages"))] == ["shown", "noted"]


def test_conditional_edges_see_it(run: Any) -> None:
    graph = graph_of(lambda state: push_message("x") and None).add_node("last", lambda state: {"messages": ["y"]})
    graph.add_conditional_edges("node", lambda state: "last" if texts(state)[-1] == "x" else "__end__", ["last"])
    assert texts(run.invoke(graph.compile(), GO)) == ["go", "x", "y"]


def test_an_attempt_that_failed_leaves_nothing(run: Any) -> None:
    tries: list[int] = []

    def node(state: Any) -> Any:
        push_message(f"try {len(tries)}")
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("again")

    app = graph_of(node, retry_policy=RetryPolicy(initial_interval=0, jitter=False)).compile()
    assert texts(run.invoke(app, GO)) == ["go", "try 2"]

    def fail(state: Any) -> Any:
        push_message("lost")
        raise ValueError("broken")

    handled = graph_of(fail, error_handler=lambda state, error: {"messages": [str(error)]}).compile()
    assert texts(run.invoke(handled, GO)) == ["go", "broken"]


def test_a_node_that_paused_says_it_again_and_it_is_kept_once(run: Any, thread: Any) -> None:
    def node(state: Any) -> Any:
        push_message(AIMessage("asking", id="a"))
        return {"messages": [interrupt("?")]}

    app = graph_of(node).compile(InMemorySaver())
    assert run.invoke(app, GO, thread)["__interrupt__"]
    assert texts(app.get_state(thread).values) == ["go"]
    assert texts(run.invoke(app, Command(resume="yes"), thread)) == ["go", "asking", "yes"]


@pytest.mark.parametrize("subgraphs", [False, True])
def test_a_nested_graph_keeps_it_and_shows_it_to_who_looks_inside(run: Any, subgraphs: bool) -> None:
    inner = graph_of(lambda state: push_message(AIMessage("inside")) and None).compile()
    app = StateGraph(MessagesState).add_node("sub", inner).add_edge(START, "sub").compile()
    assert texts(run.invoke(app, GO)) == ["go", "inside"]
    items = run.stream(app, GO, stream_mode="messages", subgraphs=subgraphs)
    told = [item[1] for item in items] if subgraphs else items
    assert ("inside", "node" if subgraphs else "sub") in said(told)
    assert len(told) == 1


def test_no_stream_is_honoured(run: Any) -> None:
    node = graph_of(lambda state: push_message("quiet") and None, metadata={"tags": []})
    node.nodes["node"].tags = ("nostream",)
    app = node.compile()
    assert run.stream(app, GO, stream_mode="messages") == []
    assert texts(run.invoke(app, GO)) == ["go", "quiet"]


# -- in tools


class Noted(MessagesState):
    notes: Annotated[list[Any], add_messages]


@tool
def slow() -> str:
    """Work slowly."""
    push_message(HumanMessage("still at it"), state_key="notes")
    return "ready"


@tool
def ask() -> str:
    """Ask a person."""
    return str(interrupt("?"))


def calls(*names: str) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": n, "args": {}, "id": str(at)} for at, n in enumerate(names)])


def test_a_tool_says_it_in_a_stream(run: Any) -> None:
    @tool
    def show() -> str:
        """Show something."""
        push_message(AIMessage("half done"), state_key=None)
        return "ready"

    agent = create_agent(FakeChatModel([calls("show"), "done"]), [show])
    assert ("half done", "tools") in said(run.stream(agent, GO, stream_mode="messages"))
    assert texts(run.invoke(create_agent(FakeChatModel([calls("show"), "done"]), [show]), GO))[2:] == ["ready", "done"]


def test_a_tool_node_keeps_it_over_the_pause_of_another_call(run: Any, thread: Any) -> None:
    graph = StateGraph(Noted).add_node("tools", ToolNode([slow, ask])).add_edge(START, "tools")
    app = graph.compile(InMemorySaver())
    given = {"messages": [HumanMessage("go"), calls("slow", "ask")]}
    assert run.invoke(app, given, thread)["__interrupt__"]
    result = run.invoke(app, Command(resume="yes"), thread)
    assert texts(result) == ["go", "", "ready", "yes"]
    assert [message.text for message in result["notes"]] == ["still at it"]


def test_nothing_is_put_between_a_call_and_its_answer(run: Any) -> None:
    @tool
    def chatty() -> str:
        """Talk."""
        push_message(HumanMessage("by the way"))
        return "ready"

    agent = create_agent(FakeChatModel([calls("chatty"), "done"]), [chatty], on_tool_error="raise")
    with pytest.raises(UsageError, match="between the call '0' and its answer"):
        run.invoke(agent, GO)


# -- refused


def test_where_it_cannot_be_said(run: Any) -> None:
    with pytest.raises(UsageError, match="outside a graph"):
        push_message("x")

    class Plain(TypedDict):
        message: str

    app = StateGraph(Plain).add_node("node", lambda state: push_message("x")).add_edge(START, "node").compile()
    with pytest.raises(InvalidInput, match=r"no such key.*'message'"):
        run.invoke(app, {"message": "x"})
    removes = graph_of(lambda state: push_message(RemoveMessage(id="1"))).compile()
    with pytest.raises(InvalidInput, match="RemoveMessage"):
        run.invoke(removes, GO)


def test_a_task_may_only_show_it(run: Any) -> None:
    @task
    def work(key: str) -> str:
        push_message(AIMessage("working"), state_key=key or None)
        return "done"

    @entrypoint()
    def flow(key: str) -> str:
        return str(work(key).result())

    assert [text for text, _ in said(run.stream(flow, "", stream_mode="messages"))] == ["working"]
    with pytest.raises(UsageError, match="@task"):
        run.invoke(flow, "messages")
