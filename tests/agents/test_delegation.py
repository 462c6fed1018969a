"""Agents that work for others: as a tool, by handoff, under a supervisor, in a swarm."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest
from pydantic import BaseModel

from runwell.agents import (
    AgentState,
    Budget,
    create_agent,
    create_handoff_tool,
    create_supervisor,
    create_swarm,
    handoff,
)
from runwell.errors import BudgetExceeded, InvalidInput, NoCheckpointer
from runwell.graph import END, START, Command, StateGraph, interrupt
from runwell.graph.messages_state import MessagesState
from runwell.messages import AIMessage, HumanMessage
from runwell.messages.validity import require_valid_history
from runwell.persistence import InMemorySaver, InMemoryStore
from runwell.testing.models import FakeChatModel
from runwell.tools import ToolRuntime, tool


def call(name: str, id: str = "1", **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


def asks(*calls: dict[str, Any], text: str = "") -> AIMessage:
    return AIMessage(text, tool_calls=list(calls))


def texts(result: Any) -> list[str]:
    return [message.text for message in result["messages"]]


GO = {"messages": [HumanMessage("the secret of the caller")]}


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def ask(question: str) -> str:
    """Ask a person."""
    return f"a person says {interrupt(question)}"


# -- as a tool


def test_h1_an_agent_is_a_tool_that_sees_only_what_it_is_given(run: Any) -> None:
    """H1: the model hands work to another agent; of the conversation it sees its task, and gives its last answer."""
    inner = FakeChatModel([asks(call("add", a=1, b=2)), "It is 3."])
    worker = create_agent(inner, [add], name="worker")
    outer = FakeChatModel([asks(call("worker", task="Add 1 and 2.")), "Three."])
    result = run.invoke(create_agent(outer, [worker.as_tool(description="Adds.")]), GO)
    assert texts(result) == ["the secret of the caller", "", "It is 3.", "Three."]
    assert [message.text for message in inner.requests[0].messages] == ["Add 1 and 2."]
    offered = outer.requests[0].tools[0]["function"]
    assert (offered["name"], offered["description"]) == ("worker", "Adds.")
    assert list(offered["parameters"]["properties"]) == ["task"]


def test_h1_arguments_of_ones_own_become_state_and_message(run: Any) -> None:
    class Job(BaseModel):
        city: str
        day: str
        user: str

    class State(AgentState):
        user: str

    seen: list[Any] = []

    @tool
    def who(runtime: ToolRuntime) -> str:
        """Say who."""
        seen.append(runtime.state["user"])
        return "ok"

    inner = FakeChatModel(responses=[asks(call("who")), "sunny"], cycle=True)
    worker = create_agent(inner, [who], name="weather", state_schema=State)
    job = call("weather", city="Oslo", day="Monday", user="Ann")
    outer = FakeChatModel(responses=[asks(job), "done"], cycle=True)
    run.invoke(create_agent(outer, [worker.as_tool("weather", "Tells the weather.", Job)]), GO)
    assert seen == ["Ann"]
    assert inner.requests[0].messages[0].text == '{"city": "Oslo", "day": "Monday"}'
    run.invoke(create_agent(outer, [worker.as_tool("weather", "x", Job, prompt="{city} on {day}?")]), GO)
    assert inner.requests[2].messages[0].text == "Oslo on Monday?"
    made = worker.as_tool("weather", "x", Job, prompt=lambda args: {"messages": args["city"], "user": "Bob"})
    run.invoke(create_agent(outer, [made]), GO)
    assert inner.requests[4].messages[0].text == "Oslo"
    assert seen[-1] == "Bob"


def test_h1_a_structured_response_is_what_the_caller_reads(run: Any) -> None:
    class Sum(BaseModel):
        value: int

    inner = FakeChatModel([asks(call("Sum", value=3))])
    worker = create_agent(inner, name="worker", response_format=Sum)
    outer = FakeChatModel([asks(call("worker", task="t")), "done"])
    assert texts(run.invoke(create_agent(outer, [worker.as_tool()]), GO))[2] == '{"value":3}'


def test_h1_it_can_be_called_by_hand_too(run: Any) -> None:
    worker = create_agent(FakeChatModel(["hi", "hi"]), name="worker")
    assert run.invoke(worker.as_tool(), {"task": "greet"}) == "hi"
    assert run.invoke(worker.as_tool(), call("worker", task="greet")).content == "hi"


def test_an_agent_without_a_name_is_no_tool() -> None:
    worker = create_agent(FakeChatModel([]))
    with pytest.raises(InvalidInput, match="without a name"):
        worker.as_tool(description="x")
    assert worker.as_tool("helper", "x").agent.name == "helper"
    assert worker.name == "agent"


def test_h3_a_childs_pause_pauses_its_caller_and_the_answer_resumes_into_it(run: Any, thread: Any) -> None:
    """H3: the child is saved by its caller's checkpointer, in a namespace of its own."""
    inner = FakeChatModel([asks(call("add", a=1, b=2)), asks(call("ask", "2", question="which?")), "it is blue"])
    worker = create_agent(inner, [add, ask], name="worker")
    saver = InMemorySaver()
    outer = FakeChatModel([asks(call("worker", task="t"), call("add", "2", a=5, b=5)), "done"])
    agent = create_agent(outer, [worker.as_tool(), add], checkpointer=saver)
    paused = run.invoke(agent, GO, thread)
    assert [question.value for question in paused["__interrupt__"]] == ["which?"]
    result = run.invoke(agent, Command(resume="blue"), thread)
    assert texts(result)[2:] == ["it is blue", "10", "done"]
    assert len(inner.requests) == 3  # nothing was asked twice
    assert inner.requests[2].messages[-1].text == "a person says blue"


def test_h3_a_child_forgets_from_call_to_call_unless_it_is_made_to_remember(run: Any, thread: Any) -> None:
    for checkpointer, expected in ((None, 1), (True, 3)):
        inner = FakeChatModel(["one", "two"])
        worker = create_agent(inner, name="worker", checkpointer=checkpointer)
        outer = FakeChatModel([asks(call("worker", task="a")), asks(call("worker", "2", task="b")), "done"])
        run.invoke(create_agent(outer, [worker.as_tool()], checkpointer=InMemorySaver()), GO, thread)
        assert len(inner.requests[1].messages) == expected


def test_h3_two_children_have_memories_of_their_own(run: Any, thread: Any) -> None:
    models = {name: FakeChatModel(responses=[f"{name} speaks"], cycle=True) for name in ("ann", "bob")}
    tools = [create_agent(model, name=name, checkpointer=True).as_tool() for name, model in models.items()]
    outer = FakeChatModel(
        [asks(call("ann", task="a1"), call("bob", "2", task="b1")), asks(call("ann", "3", task="a2")), "done"]
    )
    run.invoke(create_agent(outer, tools, checkpointer=InMemorySaver()), GO, thread)
    assert [m.text for m in models["ann"].requests[1].messages] == ["a1", "ann speaks", "a2"]
    assert len(models["bob"].requests) == 1


def test_h3_children_share_the_callers_store_and_context(run: Any) -> None:
    seen: list[Any] = []

    @tool
    def look(runtime: ToolRuntime) -> str:
        """Look."""
        seen.append((runtime.context, runtime.store.get(("notes",), "k").value))
        return "ok"

    store = InMemoryStore()
    store.put(("notes",), "k", {"v": 1})
    worker = create_agent(FakeChatModel([asks(call("look")), "x"]), [look], name="worker")
    outer = FakeChatModel([asks(call("worker", task="t")), "done"])
    run.invoke(create_agent(outer, [worker.as_tool()], store=store), GO, context="ctx")
    assert seen == [("ctx", {"v": 1})]


def test_a_child_that_may_pause_needs_someone_to_save_it(run: Any) -> None:
    worker = create_agent(FakeChatModel([asks(call("add", a=1, b=2))]), [add], name="worker", approvals=["add"])
    agent = create_agent(FakeChatModel([asks(call("worker", task="t"))]), [worker.as_tool()])
    with pytest.raises(NoCheckpointer):
        run.invoke(agent, GO)


def test_a_childs_tokens_are_streamed_under_its_name(run: Any) -> None:
    worker = create_agent(FakeChatModel(["It is three."]), name="worker")
    outer = FakeChatModel([asks(call("worker", task="t")), "So three."])
    agent = create_agent(outer, [worker.as_tool()], name="boss")
    items = run.stream(agent, GO, stream_mode="messages", subgraphs=True)
    spoken: dict[str, str] = {}
    for _, (chunk, metadata) in items:
        if chunk.type != "tool" and chunk.text:
            spoken[metadata["lc_agent_name"]] = spoken.get(metadata["lc_agent_name"], "") + chunk.text
    assert spoken == {"worker": "It is three.", "boss": "So three."}
    mine = run.stream(create_agent(FakeChatModel([asks(call("worker", task="t")), "So."]), [
        create_agent(FakeChatModel(["hidden"]), name="worker").as_tool()
    ]), GO, stream_mode="messages")  # fmt: skip
    assert not any("hidden" in chunk.text for chunk, _ in mine if chunk.type != "tool")


def test_a_childs_updates_are_streamed_with_its_path(run: Any) -> None:
    worker = create_agent(FakeChatModel(["three"]), name="worker")
    outer = FakeChatModel([asks(call("worker", task="t")), "done"])
    items = run.stream(create_agent(outer, [worker.as_tool()]), GO, stream_mode="updates", subgraphs=True)
    assert [(len(path), next(iter(update))) for path, update in items] == [
        (0, "model"), (1, "model"), (0, "tools"), (0, "model"),
    ]  # fmt: skip


def test_a_childs_error_names_where_it_happened(run: Any) -> None:
    worker = create_agent(FakeChatModel([RuntimeError("broken")]), name="worker")
    agent = create_agent(FakeChatModel([asks(call("worker", task="t"))]), [worker.as_tool()])
    with pytest.raises(RuntimeError, match="broken") as caught:
        run.invoke(agent, GO)
    assert any("'worker'" in note for note in caught.value.__notes__)


# -- handoffs and swarms


def swarm(alice: list[Any], bob: list[Any], **settings: Any) -> Any:
    a = create_agent(FakeChatModel(alice), [handoff("bob"), add], name="alice")
    b = create_agent(FakeChatModel(bob), [create_handoff_tool(agent_name="alice", description="Back.")], name="bob")
    return create_swarm([a, b], default_active_agent="alice", **settings)


def test_h1_a_swarm_hands_the_conversation_over_and_remembers_who_speaks(run: Any, thread: Any) -> None:
    """H1: handing over is a call of the model's."""
    team = swarm([asks(call("transfer_to_bob"))], ["I am Bob.", "Still Bob."]).compile(checkpointer=InMemorySaver())
    result = run.invoke(team, GO, thread)
    assert texts(result)[1:] == ["", "Transferred to bob.", "I am Bob."]
    assert result["active_agent"] == "bob"
    require_valid_history(result["messages"])
    assert texts(run.invoke(team, {"messages": "again"}, thread))[-1] == "Still Bob."


def test_of_several_calls_the_others_run_first_and_one_handoff_counts(run: Any) -> None:
    turn = asks(call("transfer_to_bob", "1"), call("add", "2", a=1, b=2), call("transfer_to_bob", "3"))
    result = run.invoke(swarm([turn], ["ok"]).compile(), GO)
    require_valid_history(result["messages"])
    answers = {m.tool_call_id: m.text for m in result["messages"] if m.type == "tool"}
    assert answers["1"] == "Transferred to bob."
    assert answers["2"] == "3"
    assert answers["3"].startswith("Not run")
    assert texts(result)[-1] == "ok"


def test_agents_may_hand_back_and_forth(run: Any) -> None:
    team = swarm([asks(call("transfer_to_bob")), "bye"], [asks(call("transfer_to_alice", "2"))])
    result = run.invoke(team.compile(), GO)
    assert (texts(result)[-1], result["active_agent"]) == ("bye", "alice")


def test_h2_a_swarm_shares_one_budget(run: Any) -> None:
    script = [asks(call("transfer_to_bob"))], [asks(call("transfer_to_alice", "2"))]
    with pytest.raises(BudgetExceeded, match="budget of swarm is used up: 2 of 2"):
        run.invoke(swarm(*script, budget=Budget(model_calls=2)).compile(), GO)
    stopped = run.invoke(swarm(*script, budget=Budget(model_calls=2, on_limit="return")).compile(), GO)
    assert stopped["stopped"] == "model_calls: 2 of 2"


def test_h2_a_swarms_budget_is_counted_over_a_pause(run: Any, thread: Any) -> None:
    a = create_agent(FakeChatModel([asks(call("transfer_to_bob"))]), [handoff("bob")], name="alice")
    b = create_agent(FakeChatModel([asks(call("ask", question="?")), "never"]), [ask], name="bob")
    graph = create_swarm([a, b], default_active_agent="alice", budget=Budget(model_calls=2))
    team = graph.compile(checkpointer=InMemorySaver())
    assert run.invoke(team, GO, thread)["__interrupt__"]
    with pytest.raises(BudgetExceeded, match="2 of 2"):
        run.invoke(team, Command(resume="x"), thread)


def test_a_swarm_refuses_what_cannot_work() -> None:
    a = create_agent(FakeChatModel([]), [handoff("carl")], name="alice")
    with pytest.raises(InvalidInput, match="hands off to 'carl'"):
        create_swarm([a], default_active_agent="alice")
    with pytest.raises(InvalidInput, match="'alise' is not in the swarm; did you mean 'alice'"):
        create_swarm([a], default_active_agent="alise")
    with pytest.raises(InvalidInput, match="without a name"):
        create_swarm([create_agent(FakeChatModel([]))], default_active_agent="agent")
    with pytest.raises(InvalidInput, match="two agents called 'alice'"):
        create_swarm([a, a.with_name("alice")], default_active_agent="alice")
    with pytest.raises(InvalidInput, match="no agents"):
        create_swarm([], default_active_agent="x")
    with pytest.raises(InvalidInput, match="names no agent"):
        handoff(3)


def test_handoffs_work_in_a_graph_of_ones_own(run: Any) -> None:
    a = create_agent(FakeChatModel([asks(call("transfer_to_billing"))]), [handoff("billing")], name="front")
    b = create_agent(FakeChatModel(["paid"]), name="billing")
    graph = StateGraph(MessagesState).add_node("front", a).add_node("billing", b).add_edge(START, "front")
    result = run.invoke(graph.add_edge("front", END).add_edge("billing", END).compile(), GO)
    assert texts(result)[-1] == "paid"


# -- supervisors


def test_h1_a_supervisor_gives_work_and_hears_what_came_of_it(run: Any) -> None:
    worker = create_agent(FakeChatModel([asks(call("add", "a", a=1, b=2)), "3"]), [add], name="math")
    model = FakeChatModel([asks(call("transfer_to_math")), "It is 3."])
    result = run.invoke(create_supervisor([worker], model=model, prompt="Lead.").compile(), GO)
    require_valid_history(result["messages"])
    assert texts(result)[1:] == [
        "", "Transferred to math.", "3", "Transferring back to supervisor.", "Transferred back to supervisor.",
        "It is 3.",
    ]  # fmt: skip
    assert result["messages"][3].name == "math"
    assert model.requests[0].messages[0].text == "Lead."


def test_a_supervisor_can_keep_all_that_was_done_or_none_of_the_handoffs(run: Any) -> None:
    def team(**settings: Any) -> Any:
        worker = create_agent(FakeChatModel([asks(call("add", "a", a=1, b=2)), "3"]), [add], name="math")
        model = FakeChatModel([asks(call("transfer_to_math")), "It is 3."])
        return create_supervisor([worker], model=model, **settings).compile()

    whole = run.invoke(team(output_mode="full_history", add_handoff_back_messages=False), GO)
    assert [m.type for m in whole["messages"]] == ["human", "ai", "tool", "ai", "tool", "ai", "ai"]
    bare = run.invoke(team(add_handoff_messages=False), GO)
    assert texts(bare) == ["the secret of the caller", "3", "It is 3."]


def test_h2_a_supervisor_and_its_agents_share_one_budget(run: Any) -> None:
    worker = create_agent(FakeChatModel([asks(call("add", "a", a=1, b=2)), "3"]), [add], name="math")
    model = FakeChatModel([asks(call("transfer_to_math")), "It is 3."])
    team = create_supervisor([worker], model=model, budget=Budget(model_calls=3, on_limit="return")).compile()
    result = run.invoke(team, GO)
    assert result["stopped"] == "model_calls: 3 of 3"
    assert len(model.requests) == 1


def test_a_pause_in_a_supervised_agent_resumes_into_it(run: Any, thread: Any) -> None:
    inner = FakeChatModel([asks(call("ask", question="colour?")), "blue it is"])
    worker = create_agent(inner, [ask], name="asker")
    model = FakeChatModel([asks(call("transfer_to_asker")), "done"])
    team = create_supervisor([worker], model=model).compile(checkpointer=InMemorySaver())
    assert run.invoke(team, GO, thread)["__interrupt__"][0].value == "colour?"
    assert "blue it is" in texts(run.invoke(team, Command(resume="blue"), thread))
    assert len(inner.requests) == 2


def test_a_supervisor_refuses_what_cannot_work() -> None:
    worker = create_agent(FakeChatModel([]), name="math")
    with pytest.raises(InvalidInput, match="as the supervisor"):
        create_supervisor([worker], model=FakeChatModel([]), supervisor_name="math")
    with pytest.raises(InvalidInput, match="output_mode='all'"):
        create_supervisor([worker], model=FakeChatModel([]), output_mode="all")  # type: ignore[arg-type]


def test_h1_h2_the_map_says_who_is_asked_and_what_they_may_use() -> None:
    class Args(TypedDict):
        task: str

    worker = create_agent(FakeChatModel([]), name="worker", budget=Budget(model_calls=3))
    agent = create_agent(FakeChatModel([]), [worker.as_tool("worker", "Works.", Args), handoff("bob")])
    rows = {row.seat.id: row for row in agent.seats()}
    assert "By calling worker; by handing over with transfer_to_bob" in rows["H1"].answer
    assert "draw on this budget" in rows["H2"].answer
    assert "worker: 3 model calls" in rows["H2"].answer
