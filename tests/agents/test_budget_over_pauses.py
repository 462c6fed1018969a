"""What was used before a pause, a failure or a crash counts after it, whatever is inside what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from runwell.agents import Budget, create_agent, create_supervisor
from runwell.errors import BudgetExceeded
from runwell.graph import END, START, Command, Send, StateGraph, interrupt
from runwell.messages import AIMessage, HumanMessage
from runwell.persistence import InMemorySaver
from runwell.testing.models import FakeChatModel
from runwell.tools import ToolRuntime, tool

GO = {"messages": [HumanMessage("go")]}
COUNTED = ("model_calls", "tool_calls", "tokens")


def call(name: str, id: str = "1", **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


def says(text: str = "", *calls: dict[str, Any]) -> AIMessage:
    usage: Any = {"input_tokens": 10, "output_tokens": 0, "total_tokens": 10}
    return AIMessage(text, tool_calls=list(calls), usage_metadata=usage)


class Said(TypedDict, total=False):
    said: Annotated[list[str], lambda left, right: left + right]


class Models:
    """Scripted models, and how often they were asked in all."""

    def __init__(self) -> None:
        self.made: list[FakeChatModel] = []

    def __call__(self, *answers: AIMessage) -> FakeChatModel:
        self.made.append(FakeChatModel(list(answers) * 4))
        return self.made[-1]

    @property
    def asked(self) -> int:
        return sum(len(model.requests) for model in self.made)


@pytest.fixture
def models() -> Models:
    return Models()


def node_of(model: FakeChatModel) -> Callable[[Any], Any]:
    return lambda state: {"said": [model.invoke("?").text]}


def asks(state: Any) -> Any:
    return {"said": [str(interrupt("go on?"))]}


def plain(models: Models) -> Any:
    """Nodes before and after one that asks."""
    graph = StateGraph(Said).add_node("before", node_of(models(says("a")))).add_node("ask", asks)
    graph.add_node("after", node_of(models(says("b"))))
    return graph.add_edge(START, "before").add_edge("before", "ask").add_edge("ask", "after").compile()


def remembering(models: Models) -> Any:
    """With a memory of its own in the outer thread."""
    graph = StateGraph(Said).add_node("before", node_of(models(says("a")))).add_node("ask", asks)
    return graph.add_edge(START, "before").add_edge("before", "ask").compile(True, name="remembering")


def side_by_side(models: Models) -> Any:
    """One node ends beside one that asks after it has used something itself."""
    model = models(says("b"))

    def late(state: Any) -> Any:
        return {"said": [model.invoke("?").text, str(interrupt("go on?"))]}

    graph = StateGraph(Said).add_node("one", node_of(models(says("a")))).add_node("two", late)
    return graph.add_edge(START, "one").add_edge(START, "two").compile()


def sent(models: Models) -> Any:
    """Three tasks of a node, of which one asks."""
    model = models(says("a"))

    def work(arg: Any) -> Any:
        said = model.invoke("?").text
        return {"said": [said if arg else str(interrupt("go on?"))]}

    graph = StateGraph(Said).add_node("work", work)
    return graph.add_conditional_edges(START, lambda state: [Send("work", n) for n in range(3)], ["work"]).compile()


def two_deep(models: Models) -> Any:
    """Plain graphs in a plain graph."""
    graph = StateGraph(Said).add_node("first", node_of(models(says("a")))).add_node("inner", plain(models))
    graph.add_node("beside", side_by_side(models)).add_edge(START, "first").add_edge("first", "inner")
    return graph.add_edge("inner", "beside").add_edge("beside", END).compile()


def with_agents(models: Models) -> Any:
    """Agents inside it, one of which asks."""

    @tool
    def ask() -> str:
        """Ask a person."""
        return str(interrupt("go on?"))

    first = create_agent(models(says("x")), name="first")
    second = create_agent(models(says("", call("ask")), says("y")), [ask], name="second")

    def called(agent: Any) -> Any:
        return lambda state: {"said": [agent.invoke(GO)["messages"][-1].text]}

    graph = StateGraph(Said).add_node("first", called(first)).add_node("second", called(second))
    return graph.add_edge(START, "first").add_edge("first", "second").compile()


def unsaved(models: Models) -> Any:
    """Saved by nobody: it begins anew."""
    graph = StateGraph(Said).add_node("before", node_of(models(says("a"))))
    return graph.add_edge(START, "before").compile(False)


SHAPES = (plain, remembering, side_by_side, sent, two_deep, with_agents)


def work_of(inner: Any, models: Models | None = None, *, asks_too: bool = False) -> Any:
    model = models(says("t")) if models is not None else None

    @tool
    def work() -> str:
        """Work."""
        if model is not None:
            model.invoke("before")
        said = inner.invoke({"said": []})["said"]
        return f"{said}{interrupt('and now?') if asks_too else ''}"

    return work


def look_at(seen: list[Any]) -> Any:
    @tool
    def look(runtime: ToolRuntime) -> str:
        """Look at what is used."""
        seen.append({kind: runtime.budget.spent[kind] for kind in COUNTED})
        return "seen"

    return look


def finish(run: Any, agent: Any, thread: Any) -> Any:
    """Run it to the end, every question answered; gives how often it paused."""
    result, pauses = run.invoke(agent, GO, thread), 0
    while "__interrupt__" in result:
        assert pauses < 9
        pauses += 1
        result = run.invoke(agent, Command(resume={each.id: "yes" for each in result["__interrupt__"]}), thread)
    return pauses


@pytest.mark.parametrize("asks_too", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_h2_what_plain_graphs_between_agents_used_counts_after_a_pause(
    run: Any, thread: Any, models: Models, shape: Any, asks_too: bool
) -> None:
    seen: list[Any] = []
    agent = create_agent(
        models(says("", call("work")), says("", call("look", "2")), says("done")),
        [work_of(shape(models), models, asks_too=asks_too), look_at(seen)],
        checkpointer=InMemorySaver(),
    )
    assert finish(run, agent, thread) >= 1 + asks_too
    assert seen[0]["model_calls"] == models.asked - 1  # the last call comes after the look
    assert seen[0]["tokens"] == 10 * (models.asked - 1)


def test_h2_what_a_tool_used_before_it_asks_counts(run: Any, thread: Any, models: Models) -> None:
    """Also when what it called saves nothing, so that it is done again: it was used twice."""
    seen: list[Any] = []
    agent = create_agent(
        models(says("", call("work")), says("", call("look", "2")), says("done")),
        [work_of(unsaved(models), models, asks_too=True), look_at(seen)],
        checkpointer=InMemorySaver(),
    )
    assert finish(run, agent, thread) == 1
    assert seen[0]["model_calls"] == models.asked - 1 == 6


def test_h2_a_limit_holds_for_what_ended_beside_a_pause(run: Any, thread: Any, models: Models) -> None:
    """Two calls side by side: the one that ended has used what there was before the other goes on."""
    worker = create_agent(models(says("x")), name="worker")

    @tool
    def ask() -> str:
        """Ask a person."""
        interrupt("go on?")
        return worker.invoke(GO)["messages"][-1].text

    model = models(says("", call("worker", "1", task="t"), call("ask", "2")), says("done"))
    budget = Budget(model_calls=2, on_limit="raise")
    agent = create_agent(model, [worker.as_tool(), ask], budget=budget, checkpointer=InMemorySaver())
    assert run.invoke(agent, GO, thread)["__interrupt__"]
    with pytest.raises(BudgetExceeded, match="2 of 2"):
        run.invoke(agent, Command(resume="yes"), thread)
    assert models.asked == 2


def test_h2_a_limit_holds_through_a_plain_graph(run: Any, thread: Any, models: Models) -> None:
    model = models(says("", call("work")), says("done"))
    agent = create_agent(
        model,
        [work_of(plain(models))],
        budget=Budget(model_calls=2, on_limit="raise"),
        checkpointer=InMemorySaver(),
    )
    assert run.invoke(agent, GO, thread)["__interrupt__"]
    with pytest.raises(BudgetExceeded, match="2 of 2"):
        run.invoke(agent, Command(resume="yes"), thread)
    assert models.asked == 2


def test_h2_what_was_used_before_a_failure_counts(run: Any, thread: Any, models: Models) -> None:
    seen: list[Any] = []
    failures = [ValueError("first"), ValueError("second")]

    def fail(state: Any) -> Any:
        if failures:
            raise failures.pop()
        return {}

    graph = StateGraph(Said).add_node("before", node_of(models(says("a")))).add_node("fail", fail)
    inner = graph.add_edge(START, "before").add_edge("before", "fail").compile()
    agent = create_agent(
        models(says("", call("work")), says("", call("look", "2")), says("done")),
        [work_of(inner, models), look_at(seen)],
        checkpointer=InMemorySaver(),
    )
    for message in ("second", "first"):
        with pytest.raises(ValueError, match=message):
            run.invoke(agent, GO if message == "second" else None, thread)
    run.invoke(agent, None, thread)
    assert seen[0]["model_calls"] == models.asked - 1 == 6


class PowerCut(BaseException):
    """Ends the process, as far as anything can be kept after it."""


def test_h2_what_was_used_before_a_crash_counts(run: Any, thread: Any, models: Models) -> None:
    """What was saved: the step that ended in the plain graph. The call that was cut off left no trace."""
    seen: list[Any] = []
    cuts = [PowerCut()]

    def cut(state: Any) -> Any:
        if cuts:
            raise cuts.pop()
        return {}

    graph = StateGraph(Said).add_node("before", node_of(models(says("a")))).add_node("cut", cut)
    inner = graph.add_edge(START, "before").add_edge("before", "cut").compile()
    agent = create_agent(
        models(says("", call("work")), says("", call("look", "2")), says("done")),
        [work_of(inner), look_at(seen)],
        checkpointer=InMemorySaver(),
    )
    with pytest.raises(PowerCut):
        run.invoke(agent, GO, thread)
    run.invoke(agent, None, thread)
    assert seen[0]["model_calls"] == models.asked - 1 == 3


def test_h2_teams_count_what_a_plain_graph_in_a_member_used(run: Any, thread: Any, models: Models) -> None:
    seen: list[Any] = []
    work = says("", call("work", "1"))
    own = models(work, says("", call("look", "2")), says("ok"))
    member = create_agent(own, [work_of(two_deep(models)), look_at(seen)], name="member")
    lead = models(says("", call("transfer_to_member", "9")), says("done"))
    budget = Budget(model_calls=50)
    team = create_supervisor([member], model=lead, budget=budget).compile(checkpointer=InMemorySaver())
    assert finish(run, team, thread) == 2
    assert seen[0]["model_calls"] == models.asked - 3  # the member's last word, and the lead's two


def test_a_new_input_begins_to_count_anew(run: Any, thread: Any, models: Models) -> None:
    seen: list[Any] = []
    agent = create_agent(
        models(says("", call("work")), says("", call("look", "2")), says("done")),
        [work_of(remembering(models)), look_at(seen)],
        checkpointer=InMemorySaver(),
    )
    finish(run, agent, thread)
    finish(run, agent, thread)
    assert seen[0] == seen[1] == {"model_calls": 3, "tool_calls": 2, "tokens": 30}


def test_a_state_may_have_a_key_called_spent(run: Any, thread: Any, models: Models) -> None:
    """It is the program's, and no place for what the engine counts."""

    class Purse(TypedDict, total=False):
        spent: float
        said: list[str]

    model = models(says("a"))

    def pay(state: Any) -> Any:
        return {"spent": 2.5, "said": [model.invoke("?").text]}

    def ask(state: Any) -> Any:
        return {"said": [f"{state['spent']} {interrupt('go on?')}"]}

    inner = StateGraph(Purse).add_node("pay", pay).add_node("ask", ask).add_edge(START, "pay").add_edge("pay", "ask")
    agent = create_agent(
        models(says("", call("work")), says("done")), [work_of(inner.compile())], checkpointer=InMemorySaver()
    )
    assert finish(run, agent, thread) == 1
    assert agent.get_state(thread).values["messages"][2].text == "['2.5 yes']"


def test_what_a_thread_of_its_own_used_is_not_counted_twice(run: Any, thread: Any, models: Models) -> None:
    """A tool runs another thread in two calls: each call counts for what it used itself."""
    seen: list[Any] = []

    @tool
    def ask() -> str:
        """Ask a person."""
        return str(interrupt("go on?"))

    worker = create_agent(models(says("", call("ask")), says("ok")), [ask], name="worker", checkpointer=InMemorySaver())

    @tool
    def work() -> str:
        """Work."""
        own = {"configurable": {"thread_id": "own"}}
        assert worker.invoke(GO, own)["__interrupt__"]
        return str(worker.invoke(Command(resume="yes"), own)["messages"][-1].text)

    agent = create_agent(
        models(says("", call("work")), says("", call("look", "2")), says("done")), [work, look_at(seen)]
    )
    run.invoke(agent, GO)
    assert seen[0]["model_calls"] == models.asked - 1 == 4
