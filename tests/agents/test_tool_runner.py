"""ToolNode and tools_condition in graphs of one's own."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Annotated, Any

import pytest

from runwell.agents import create_agent
from runwell.agents.prebuilt import (
    InjectedState,
    InjectedStore,
    InjectedToolCallId,
    ToolNode,
    ToolRuntime,
    tools_condition,
)
from runwell.errors import DuplicateTool, InvalidInput, InvalidUpdateError, ToolError
from runwell.graph import END, START, Command, Send, StateGraph, interrupt
from runwell.graph.messages_state import MessagesState
from runwell.messages import AIMessage, HumanMessage, ToolMessage
from runwell.messages.validity import require_valid_history
from runwell.persistence import InMemorySaver, InMemoryStore
from runwell.testing.models import FakeChatModel
from runwell.tools import tool


def call(name: str, id: str = "1", **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


def asks(*calls: dict[str, Any]) -> AIMessage:
    return AIMessage("", tool_calls=list(calls))


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def slow_add(a: int, b: int) -> int:
    """Add two numbers, slowly."""
    await asyncio.sleep(0)
    return a + b


class State(MessagesState):
    user: str


def graph_of(node: ToolNode, model: Any, **settings: Any) -> Any:
    def agent(state: Any) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    graph = StateGraph(State).add_node("agent", agent).add_node("tools", node)
    graph.add_edge(START, "agent").add_edge("tools", "agent")
    return graph.add_conditional_edges("agent", tools_condition, ["tools", END]).compile(**settings)


TURN = asks(call("add", "1", a=1, b=2), call("slow_add", "2", a=3, b=4))


def test_a_state_gives_an_update_and_a_list_gives_a_list(run: Any) -> None:
    node = ToolNode([add, slow_add])
    made = run.invoke(node, {"messages": [HumanMessage("go"), TURN]})
    assert [(m.content, m.tool_call_id) for m in made["messages"]] == [("3", "1"), ("7", "2")]
    assert [m.content for m in run.invoke(node, [HumanMessage("go"), TURN])] == ["3", "7"]
    assert [m.content for m in run.invoke(node, TURN.tool_calls)["messages"]] == ["3", "7"]
    assert [m.content for m in run.invoke(node, TURN.tool_calls[0])["messages"]] == ["3"]
    assert run.invoke(ToolNode([add], messages_key="said"), {"said": [asks(call("add", a=1, b=1))]}).keys() == {"said"}


def test_the_loop_by_hand_runs_in_a_graph(run: Any) -> None:
    result = run.invoke(graph_of(ToolNode([add, slow_add]), FakeChatModel([TURN, "done"])), {"messages": "go"})
    assert [m.text for m in result["messages"]] == ["go", "", "3", "7", "done"]


def test_answered_calls_are_not_made_again(run: Any) -> None:
    answered = ToolMessage("by hand", tool_call_id="1")
    made = run.invoke(ToolNode([add, slow_add]), [HumanMessage("go"), TURN, answered])
    assert [m.tool_call_id for m in made] == ["2"]


def test_malformed_calls_are_answered_in_their_place_and_the_model_calls_again(run: Any) -> None:
    """Every call has its answer, so that the model is sent a history it takes."""
    broken = {"name": "add", "args": "{", "id": "0", "error": "cut off", "index": 0}
    both = AIMessage("", tool_calls=[call("add", "1", a=1, b=2)], invalid_tool_calls=[broken])
    alone = AIMessage("", invalid_tool_calls=[{"name": None, "args": "{}", "id": "9", "error": "It names no tool."}])
    model = FakeChatModel([both, alone, "done"])
    result = run.invoke(graph_of(ToolNode([add]), model), {"messages": "go"})
    answers = [(m.tool_call_id, m.status) for m in result["messages"] if m.type == "tool"]
    assert answers == [("0", "error"), ("1", "success"), ("9", "error")]
    assert "cut off" in result["messages"][2].text
    assert result["messages"][-1].text == "done"
    require_valid_history(result["messages"])


def test_injected_arguments_are_filled_from_the_graph(run: Any) -> None:
    @tool
    def who(
        user: Annotated[str, InjectedState("user")],
        store: Annotated[Any, InjectedStore()],
        id: Annotated[str, InjectedToolCallId],
        runtime: ToolRuntime,
    ) -> str:
        """Say who."""
        return f"{user} {store.get(('n',), 'k').value['v']} {id} {len(runtime.state['messages'])}"

    store = InMemoryStore()
    store.put(("n",), "k", {"v": 5})
    graph = graph_of(ToolNode([who]), FakeChatModel([asks(call("who", "c7", user="Eve")), "done"]), store=store)
    assert run.invoke(graph, {"messages": "go", "user": "Ann"})["messages"][2].text == "Ann 5 c7 2"


def test_which_errors_the_model_is_told(run: Any) -> None:
    @tool
    def fail(kind: str) -> str:
        """Fail."""
        raise {"tool": ToolError, "value": ValueError, "key": KeyError}[kind](kind)

    def told(kind: str, **settings: Any) -> str:
        (message,) = run.invoke(ToolNode([fail], **settings), [asks(call("fail", kind=kind))])
        assert message.status == "error"
        return str(message.content)

    assert told("tool") == "tool"
    with pytest.raises(ValueError, match="value"):
        told("value")
    assert "value" in told("value", handle_tool_errors=True)
    assert told("value", handle_tool_errors="sorry") == "sorry"
    assert "value" in told("value", handle_tool_errors=(ValueError, OSError))
    with pytest.raises(KeyError):
        told("key", handle_tool_errors=ValueError)
    assert told("key", handle_tool_errors=lambda error: f"no {error.args[0]}") == "no key"
    with pytest.raises(ToolError):
        told("tool", handle_tool_errors=False)
    (unknown,) = run.invoke(ToolNode([add]), [asks(call("ad"))])
    assert "did you mean 'add'" in unknown.content
    with pytest.raises(InvalidInput, match="handle_tool_errors=3"):
        ToolNode([add], handle_tool_errors=3)  # type: ignore[arg-type]


def test_a_function_around_each_call_changes_it(run: Any) -> None:
    async def double(request: Any, handler: Any) -> Any:
        call = request.tool_call
        return await handler(request.override(tool_call={**call, "args": {**call["args"], "b": 100}}))

    (made,) = run.invoke(ToolNode([add], wrap_tool_call=double), [asks(call("add", a=1, b=2))])
    assert made.content == "101"


def test_commands_update_the_state_and_jump(run: Any) -> None:
    @tool
    def rename(runtime: ToolRuntime) -> Any:
        """Rename the user."""
        said = ToolMessage("renamed", tool_call_id=runtime.tool_call_id)
        return Command(update={"user": "Bob", "messages": [said]}, goto=END)

    graph = graph_of(ToolNode([rename, add]), FakeChatModel([asks(call("rename"), call("add", "2", a=1, b=1))]))
    result = run.invoke(graph, {"messages": "go", "user": "Ann"})
    assert result["user"] == "Bob"
    assert [m.text for m in result["messages"]][2:] == ["renamed", "2"]


def test_an_answer_to_another_call_is_refused(run: Any) -> None:
    @tool
    def wrong() -> Any:
        """Answer another call."""
        return ToolMessage("x", tool_call_id="other")

    with pytest.raises(InvalidUpdateError, match="answered 'other'"):
        run.invoke(ToolNode([wrong]), [asks(call("wrong"))])


def test_a_send_brings_single_calls(run: Any) -> None:
    def out(state: Any) -> Any:
        return [Send("tools", [each]) for each in state["messages"][-1].tool_calls]

    graph = StateGraph(State).add_node("tools", ToolNode([add, slow_add])).add_conditional_edges(START, out, ["tools"])
    result = run.invoke(graph.compile(), {"messages": [HumanMessage("go"), TURN]})
    assert [m.text for m in result["messages"]][2:] == ["3", "7"]


def test_calls_side_by_side_pause_each_for_themselves(run: Any, thread: Any) -> None:
    ran: list[str] = []

    @tool
    def ask(question: str) -> str:
        """Ask a person."""
        return f"{question} {interrupt(question)} {interrupt('sure?')}"

    @tool
    def once(key: str) -> str:
        """Happen once."""
        ran.append(key)
        return key

    turn = asks(call("ask", "a", question="A"), call("once", "o", key="k"), call("ask", "b", question="B"))
    graph = graph_of(ToolNode([ask, once]), FakeChatModel([turn, "done"]), checkpointer=InMemorySaver())
    paused = run.invoke(graph, {"messages": "go"}, thread)
    ids = {question.value: question.id for question in paused["__interrupt__"]}
    assert set(ids) == {"A", "B"}
    again = run.invoke(graph, Command(resume={ids["A"]: "1", ids["B"]: "2"}), thread)
    second = [question.id for question in again["__interrupt__"]]
    assert len(second) == 2
    result = run.invoke(graph, Command(resume=dict.fromkeys(second, "yes")), thread)
    assert [m.text for m in result["messages"]][2:] == ["A 1 yes", "k", "B 2 yes", "done"]
    assert ran == ["k"]


def test_agents_as_tools_resume_each_for_themselves(run: Any, thread: Any) -> None:
    @tool
    def ask(question: str) -> str:
        """Ask a person."""
        return f"said {interrupt(question)}"

    workers = [
        create_agent(FakeChatModel([asks(call("ask", question=name)), f"{name} done"]), [ask], name=name).as_tool()
        for name in ("ann", "bob")
    ]
    turn = asks(call("ann", "1", task="t"), call("bob", "2", task="t"))
    graph = graph_of(ToolNode(workers), FakeChatModel([turn, "all done"]), checkpointer=InMemorySaver())
    paused = run.invoke(graph, {"messages": "go"}, thread)
    answers = {question.id: question.value for question in paused["__interrupt__"]}
    result = run.invoke(graph, Command(resume=answers), thread)
    assert [m.text for m in result["messages"]][2:] == ["ann done", "bob done", "all done"]
    assert [m.text for m in workers[0].agent.setup.model.requests[1].messages][-1] == "said ann"


def test_e6_when_one_call_fails_the_others_are_kept(run: Any, thread: Any) -> None:
    ran: list[str] = []
    broken = [True]

    @tool
    def once() -> str:
        """Happen once."""
        ran.append("once")
        return "ok"

    @tool
    def fail() -> str:
        """Fail the first time."""
        ran.append("fail")
        if broken.pop() if broken else False:
            raise ValueError("broken")
        return "mended"

    turn = asks(call("once", "1"), call("fail", "2"))
    graph = graph_of(ToolNode([once, fail]), FakeChatModel([turn, "done"]), checkpointer=InMemorySaver())
    with pytest.raises(ValueError, match="broken"):
        run.invoke(graph, {"messages": "go"}, thread)
    result = run.invoke(graph, None, thread)
    assert [m.text for m in result["messages"]][2:] == ["ok", "mended", "done"]
    assert ran.count("once") == 1


def test_an_exclusive_tool_runs_alone_and_after_the_others(run: Any) -> None:
    order: list[str] = []

    @tool(exclusive=True)
    def alone() -> str:
        """Run alone."""
        order.append("alone")
        return "a"

    @tool
    def other() -> str:
        """Run."""
        order.append("other")
        return "o"

    made = run.invoke(ToolNode([alone, other]), [asks(call("alone", "1"), call("other", "2"))])
    assert order == ["other", "alone"]
    assert [m.content for m in made] == ["a", "o"]  # in the order asked all the same


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"other": []}, "has no 'messages'"),
        ([HumanMessage("hi")], "none of them is the model's"),
        ([{"name": "add", "args": {}}], "has no id"),
        ([asks({"name": "add", "args": {}, "id": None})], "has no id"),
        ([asks(call("add", "1", a=1, b=1), call("add", "1", a=2, b=2))], "Several calls have the id '1'"),
    ],
)
def test_what_cannot_be_run_is_refused(run: Any, given: Any, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        run.invoke(ToolNode([add]), given)


@pytest.mark.parametrize("most", [1, 3])
def test_the_config_of_the_run_bounds_how_many_run_side_by_side_e5(run: Any, most: int) -> None:
    gate, active, peak = threading.Lock(), 0, 0

    @tool
    async def work() -> str:
        """Work."""
        nonlocal active, peak
        with gate:
            active += 1
            peak = max(peak, active)
        patience = time.monotonic() + 30
        while peak < most and time.monotonic() < patience:  # until the others are there too
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        with gate:
            active -= 1
        return "done"

    graph = StateGraph(MessagesState).add_node("tools", ToolNode([work], max_concurrency=3))
    graph.add_edge(START, "tools").add_edge("tools", END)
    turn = asks(*(call("work", str(at)) for at in range(8)))
    run.invoke(graph.compile(), {"messages": [turn]}, {"max_concurrency": most})
    assert peak == most
    peak = 0
    run.invoke(ToolNode([work]), {"messages": [turn]}, {"max_concurrency": most})
    assert peak == most


def test_two_tools_of_one_name_are_refused_here_too() -> None:
    @tool("add")
    def other() -> str:
        """Another."""
        return ""

    with pytest.raises(DuplicateTool):
        ToolNode([add, other])


def test_tools_condition_reads_states_and_lists() -> None:
    assert tools_condition({"messages": [TURN]}) == "tools"
    assert tools_condition([AIMessage("done")]) == END
    assert tools_condition({"said": [TURN]}, messages_key="said") == "tools"
    with pytest.raises(InvalidInput, match="no messages"):
        tools_condition({"said": [TURN]})
