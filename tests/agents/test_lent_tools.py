"""Tools that a wrap_model_call hook adds for a turn run in that turn; answers stand in the order of the calls."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from runwell.agents import AgentLimits, create_agent
from runwell.agents.middleware import AgentMiddleware, before_agent, dynamic_prompt, wrap_model_call
from runwell.errors import DuplicateTool, InvalidInput
from runwell.graph import Command, interrupt
from runwell.messages import AIMessage, AIMessageChunk, HumanMessage, calls_as_written
from runwell.messages.validity import require_valid_history
from runwell.persistence import InMemorySaver, SqliteSaver
from runwell.testing.models import FakeChatModel
from runwell.tools import tool


def call(name: str, id: str = "1", **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


def asks(*calls: dict[str, Any], text: str = "") -> AIMessage:
    return AIMessage(text, tool_calls=list(calls))


GO = {"messages": [HumanMessage("go")]}


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def lend(*tools: Any) -> AgentMiddleware:
    @wrap_model_call(name="lend")
    def around(request: Any, handler: Any) -> Any:
        return handler(request.override(tools=[*request.tools, *tools]))

    return around


def texts(result: Any) -> list[str]:
    return [message.text for message in result["messages"]]


@pytest.mark.parametrize("own", [[], [add]])
def test_a_tool_that_a_hook_adds_runs_in_that_turn(run: Any, own: list[Any]) -> None:
    def triple(a: int) -> int:
        """Three times as much."""
        return 3 * a

    model = FakeChatModel([asks(call("triple", a=5)), "done"])
    result = run.invoke(create_agent(model, own, middleware=[lend(triple)]), GO)
    assert texts(result) == ["go", "", "15", "done"]
    assert model.requests[0].tool_names[-1] == "triple"


def test_what_the_model_was_offered_is_what_runs(run: Any) -> None:
    @tool("add")
    def shout(a: int, b: int) -> str:
        """Add two numbers, loudly."""
        return f"{a + b}!"

    @wrap_model_call
    def swap(request: Any, handler: Any) -> Any:
        return handler(request.override(tools=[shout]) if len(request.messages) == 1 else request)

    model = FakeChatModel([asks(call("add", a=1, b=2)), asks(call("add", "2", a=1, b=2)), "done"])
    assert texts(run.invoke(create_agent(model, [add], middleware=[swap]), GO))[2:] == ["3!", "", "3", "done"]


def test_e1_a_tool_of_an_earlier_turn_is_unknown(run: Any) -> None:
    @tool
    def once() -> str:
        """Once."""
        return "ran"

    @wrap_model_call
    def first(request: Any, handler: Any) -> Any:
        return handler(request.override(tools=[once]) if len(request.messages) == 1 else request)

    model = FakeChatModel([asks(call("once")), asks(call("once", "2")), "done"])
    result = texts(run.invoke(create_agent(model, [add], middleware=[first]), GO))
    assert result[2] == "ran"
    assert result[4].startswith("There is no tool 'once'")


def test_return_direct_and_exclusive_hold_for_lent_tools(run: Any) -> None:
    order: list[str] = []

    @tool(exclusive=True, return_direct=True)
    def last() -> str:
        """End it."""
        order.append("last")
        return "the end"

    @tool
    def other() -> str:
        """Run."""
        order.append("other")
        return "o"

    model = FakeChatModel([asks(call("last", "1"), call("other", "2")), asks(call("last", "3"))])
    result = run.invoke(create_agent(model, [other], middleware=[lend(last)]), GO)
    assert order[:2] == ["other", "last"]
    assert texts(result)[-1] == "the end"


def test_two_lent_tools_of_one_name_are_refused(run: Any) -> None:
    @tool("add")
    def other() -> str:
        """Another."""
        return ""

    with pytest.raises(DuplicateTool, match="offers two tools called 'add'"):
        run.invoke(create_agent(FakeChatModel(["x"]), [add], middleware=[lend(other)]), GO)


@pytest.mark.parametrize("rule", ["destructive", "all"])
def test_d1_approvals_gate_lent_tools_too_and_they_run_after_the_pause(run: Any, thread: Any, rule: Any) -> None:
    ran: list[str] = []

    @tool(destructive=True)
    def wipe(target: str) -> str:
        """Delete."""
        ran.append(target)
        return "gone"

    model = FakeChatModel([asks(call("wipe", target="x")), "done"])
    agent = create_agent(model, [], middleware=[lend(wipe)], approvals=rule, checkpointer=InMemorySaver())
    paused = run.invoke(agent, GO, thread)
    assert paused["__interrupt__"]
    assert not ran
    result = run.invoke(agent, Command(resume={"decisions": [{"type": "approve"}]}), thread)
    assert ran == ["x"]
    assert texts(result)[-2:] == ["gone", "done"]


def test_where_the_lent_tool_is_gone_the_model_is_told_and_may_ask_again(run: Any, thread: Any, tmp_path: Any) -> None:
    def build(model: Any) -> Any:
        @tool
        def ask(question: str) -> str:
            """Ask a person."""
            return str(interrupt(question))

        return create_agent(
            model, [add], middleware=[lend(ask)], checkpointer=SqliteSaver(str(tmp_path / f"{run.name}.db"))
        )

    assert run.invoke(build(FakeChatModel([asks(call("ask", question="?"))])), GO, thread)["__interrupt__"]
    elsewhere = build(FakeChatModel(["I cannot ask now"]))  # as another process would have it
    result = run.invoke(elsewhere, Command(resume="yes"), thread)
    assert "offered for one turn" in texts(result)[-2]
    assert texts(result)[-1] == "I cannot ask now"


def test_a_prompt_for_each_call_makes_no_node_for_tools() -> None:
    @dynamic_prompt
    def prompt(request: Any) -> str:
        return "hi"

    assert set(create_agent(FakeChatModel([]), middleware=[prompt]).nodes) == {"model"}


# -- the order of answers


def test_e5_answers_stand_in_the_order_of_the_calls_also_when_a_person_refuses_some(
    run: Any, thread: Any, tmp_path: Any
) -> None:
    """E5: answers that were known before the others ran do not come first for that."""
    turn = asks(call("add", "1", a=1, b=1), call("wipe", "2"), call("add", "3", a=2, b=2), call("wipe", "4"))

    @tool
    def wipe() -> str:
        """Delete."""
        return "gone"

    saver = SqliteSaver(str(tmp_path / "order.db"))
    agent = create_agent(FakeChatModel([turn, "done"]), [add, wipe], approvals=["wipe"], checkpointer=saver)
    run.invoke(agent, GO, thread)
    decisions = [{"type": "reject", "message": "no"}, {"type": "approve"}]
    result = run.invoke(agent, Command(resume={"decisions": decisions}), thread)
    answers = [(m.tool_call_id, m.text) for m in result["messages"] if m.type == "tool"]
    assert [answered for answered, _ in answers] == ["1", "2", "3", "4"]
    assert [text for _, text in answers][::2] == ["2", "4"]
    assert answers[3][1] == "gone"
    require_valid_history(result["messages"])
    assert texts(agent.get_state(thread).values) == texts(result)


@pytest.mark.parametrize("order", ["xab", "axb", "abx", "xayb", "xyab", "axby"])
@pytest.mark.parametrize("written", ["chunks", "blocks", "message"])
def test_e5_b4_malformed_calls_are_answered_where_the_model_wrote_them(run: Any, order: str, written: str) -> None:
    """Also in a model of the streaming kind, of whole messages, and when the run goes on from a saver."""
    fragments = [
        {"index": place, "id": each, "name": "add", "args": '{"a": 1, "b": 2}' if each in "ab" else '{"a": 1, '}
        for place, each in enumerate(order)
    ]
    if written == "chunks":
        turn = sum((AIMessageChunk("", tool_call_chunks=[each]) for each in fragments), AIMessageChunk("")).to_message()
    elif written == "blocks":
        blocks: list[Any] = []
        for each in order:
            named = {"id": each, "name": "add"}
            blocks.append(
                {**named, "type": "tool_call", "args": {"a": 1, "b": 2}}
                if each in "ab"
                else {**named, "type": "invalid_tool_call", "args": "{", "error": "cut off"}
            )
        turn = AIMessage(blocks)
    else:
        turn = AIMessage.model_validate(
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {"id": each["id"], "function": {"name": "add", "arguments": each["args"]}} for each in fragments
                ],
            }
        )
    agent = create_agent(FakeChatModel([turn, "done"]), [add], checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": f"{order} {written}"}}
    result = run.invoke(agent, GO, config)
    answers = [m for m in result["messages"] if m.type == "tool"]
    assert "".join(m.tool_call_id for m in answers) == order
    assert [m.status for m in answers] == ["success" if each in "ab" else "error" for each in order]
    require_valid_history(result["messages"])
    kept = agent.get_state(config).values["messages"]
    assert kept[1] == result["messages"][1]
    assert "".join(each["id"] for each in calls_as_written(kept[1])) == order


# -- a failing sibling


@pytest.mark.parametrize("rule", ["wait", "cancel"])
def test_e6_calls_beside_a_failing_one_are_awaited_or_stopped(run: Any, rule: Any, thread: Any) -> None:
    """E6: what has finished is kept either way; only what failed, or was stopped, runs again."""
    ran: list[str] = []
    slow_done = threading.Event()

    @tool
    def quick() -> str:
        """Be quick."""
        ran.append("quick")
        return "q"

    @tool
    def fail() -> str:
        """Fail once."""
        ran.append("fail")
        if ran.count("fail") == 1:
            raise ValueError("broken")
        return "f"

    @tool
    def late() -> str:
        """Start after the others."""
        ran.append("late")
        slow_done.set()
        return "l"

    turn = asks(call("quick", "1"), call("fail", "2"), call("late", "3"))
    agent = create_agent(
        FakeChatModel([turn, "done"]),
        [quick, fail, late],
        limits=AgentLimits(on_sibling_failure=rule, max_concurrency=1),
        checkpointer=InMemorySaver(),
    )
    with pytest.raises(ValueError, match="broken"):
        run.invoke(agent, GO, thread)
    assert slow_done.is_set() is (rule == "wait")
    result = run.invoke(agent, None, thread)
    assert [m.text for m in result["messages"] if m.type == "tool"] == ["q", "f", "l"]
    assert (ran.count("quick"), ran.count("fail"), ran.count("late")) == (1, 2, 1)


def test_an_unknown_rule_for_siblings_is_refused() -> None:
    with pytest.raises(InvalidInput, match="on_sibling_failure='stop'"):
        AgentLimits(on_sibling_failure="stop")  # type: ignore[arg-type]


def test_a_cache_reaches_graphs_inside_tools(run: Any) -> None:
    from runwell.graph import END, START, StateGraph
    from runwell.graph.messages_state import MessagesState
    from runwell.graph.policies import CachePolicy
    from runwell.persistence.caches import InMemoryCache

    ran: list[str] = []

    def work(state: Any) -> Any:
        ran.append("work")
        return {"messages": [AIMessage("made", id="m")]}

    graph = StateGraph(MessagesState).add_node("work", work, cache_policy=CachePolicy())
    inner = graph.add_edge(START, "work").add_edge("work", END).compile()

    @tool
    def look(what: str) -> str:
        """Look."""
        return str(inner.invoke({"messages": [HumanMessage(what, id="h")]})["messages"][-1].text)

    model = FakeChatModel([asks(call("look", what="x")), asks(call("look", "2", what="x")), "done"])
    result = run.invoke(create_agent(model, [look], cache=InMemoryCache()), GO)
    assert texts(result)[2::2] == ["made", "made"]
    assert ran == ["work"]


def test_hooks_before_the_agent_see_no_tools_lent_before(run: Any, thread: Any) -> None:
    seen: list[Any] = []

    @before_agent
    def look(state: Any, runtime: Any) -> None:
        seen.append((state.get("ledger") or {}).get("lent"))

    model = FakeChatModel([asks(call("triple", a=1)), "one", "two"])

    @tool
    def triple(a: int) -> int:
        """Three times as much."""
        return 3 * a

    agent = create_agent(model, [], middleware=[lend(triple), look], checkpointer=InMemorySaver())
    run.invoke(agent, GO, thread)
    run.invoke(agent, GO, thread)
    assert seen == [None, None]
