"""A change by hand while a thread is paused: what was asked stays open, and its answer is for that question only."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from runwell.errors import InvalidResume
from runwell.graph import END, START, Command, Send, StateGraph, StateUpdate, interrupt
from runwell.graph.streaming import INTERRUPT
from runwell.persistence import InMemorySaver, SqliteSaver


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "memory":
        yield InMemorySaver()
    else:
        with SqliteSaver(tmp_path / "threads.sqlite") as made:
            yield made


class Trip(TypedDict, total=False):
    city: str
    log: Annotated[list[str], operator.add]


def plan(state: Trip) -> Any:
    return {"city": "Rome", "log": ["plan"]}


def approve(state: Trip) -> Any:
    return {"log": [f"{state['city']}: {interrupt('go?')}"]}


def approve_by_name(state: Trip) -> Any:
    return {"log": [f"{state['city']}: {interrupt('go to ' + state['city'] + '?')}"]}


def trip(saver: Any, ask: Any = approve) -> Any:
    graph = StateGraph(Trip).add_node("plan", plan).add_node("ask", ask).add_node("book", lambda s: {"log": ["booked"]})
    return graph.add_edge(START, "plan").add_edge("plan", "ask").add_edge("ask", "book").compile(checkpointer=saver)


def asked(result: Any) -> list[Any]:
    return [question.value for question in result[INTERRUPT]]


@pytest.mark.parametrize("as_node", [None, "plan"])
@pytest.mark.parametrize("by_id", [False, True])
def test_the_question_stays_open_and_its_answer_goes_on(
    run: Any, saver: Any, thread: Any, as_node: str | None, by_id: bool
) -> None:
    app = trip(saver)
    [question] = run.invoke(app, {"log": []}, thread)[INTERRUPT]
    run.update(app, thread, {"city": "Oslo"}, as_node=as_node)
    state = run.state(app, thread)
    assert (state.next, state.interrupts, state.values["city"]) == (("ask",), (question,), "Oslo")
    assert [each.interrupt for each in run.questions(app)] == [question]
    answer = {question.id: "yes"} if by_id else "yes"
    assert run.invoke(app, Command(resume=answer), thread)["log"] == ["plan", "Oslo: yes", "booked"]
    assert run.state(app, thread).interrupts == ()


def test_going_on_without_an_answer_asks_anew(run: Any, saver: Any, thread: Any) -> None:
    app = trip(saver, approve_by_name)
    run.invoke(app, {"log": []}, thread)
    run.update(app, thread, {"city": "Oslo"})
    assert asked(run.invoke(app, None, thread)) == ["go to Oslo?"]
    assert [each.value for each in run.state(app, thread).interrupts] == ["go to Oslo?"]
    assert run.invoke(app, Command(resume="yes"), thread)["log"] == ["plan", "Oslo: yes", "booked"]


def test_an_answer_to_what_was_asked_before_is_not_taken_for_one_to_another_question(
    run: Any, saver: Any, thread: Any
) -> None:
    app = trip(saver, approve_by_name)
    run.invoke(app, {"log": []}, thread)
    run.update(app, thread, {"city": "Oslo"})
    assert asked(run.invoke(app, Command(resume="yes"), thread)) == ["go to Oslo?"]
    assert [each.value for each in run.state(app, thread).interrupts] == ["go to Oslo?"]
    assert asked(run.invoke(app, None, thread)) == ["go to Oslo?"]
    assert run.invoke(app, Command(resume="no"), thread)["log"] == ["plan", "Oslo: no", "booked"]


def test_several_changes_keep_it(run: Any, saver: Any, thread: Any) -> None:
    app = trip(saver)
    run.invoke(app, {"log": []}, thread)
    run.bulk(app, thread, [[StateUpdate({"city": "Oslo"}, "plan")], [StateUpdate({"city": "Bern"}, "plan")]])
    assert [each.value for each in run.state(app, thread).interrupts] == ["go?"]
    assert run.invoke(app, Command(resume="yes"), thread)["log"] == ["plan", "Bern: yes", "booked"]


@pytest.mark.parametrize(("as_node", "log"), [("ask", ["plan", "by hand", "booked"]), (END, ["plan", "by hand"])])
def test_a_change_in_its_stead_takes_it_back(run: Any, saver: Any, thread: Any, as_node: str, log: list[str]) -> None:
    app = trip(saver)
    run.invoke(app, {"log": []}, thread)
    run.update(app, thread, {"log": ["by hand"]}, as_node=as_node)
    assert run.state(app, thread).interrupts == ()
    with pytest.raises(InvalidResume, match="no open question"):
        run.invoke(app, Command(resume="yes"), thread)
    assert run.invoke(app, None, thread)["log"] == log


def test_a_branch_from_before_the_answer_has_no_answer(run: Any, saver: Any, thread: Any) -> None:
    app = trip(saver)
    run.invoke(app, {"log": []}, thread)
    paused = run.state(app, thread).config
    run.invoke(app, Command(resume="yes"), thread)
    branch = run.update(app, paused, {"city": "Oslo"})
    assert asked(run.invoke(app, None, branch)) == ["go?"]
    assert run.invoke(app, Command(resume="no"), thread)["log"] == ["plan", "Oslo: no", "booked"]


def test_of_several_paused_each_has_its_own_answer(run: Any, saver: Any, thread: Any) -> None:
    def ask(name: str) -> Any:
        return lambda state: {"log": [f"{name}: {interrupt(name + '?')} {state['city']}"]}

    graph = StateGraph(Trip).add_node("plan", plan).add_node("a", ask("a")).add_node("b", ask("b"))
    app = graph.add_edge(START, "plan").add_edge("plan", "a").add_edge("plan", "b").compile(checkpointer=saver)
    first, second = run.invoke(app, {"log": []}, thread)[INTERRUPT]
    run.update(app, thread, {"city": "Oslo"}, as_node="plan")
    assert run.state(app, thread).interrupts == (first, second)
    assert asked(run.invoke(app, Command(resume={second.id: 2}), thread)) == ["a?"]
    assert run.invoke(app, Command(resume={first.id: 1}), thread)["log"] == ["plan", "a: 1 Oslo", "b: 2 Oslo"]


def test_a_sent_task_is_a_new_one(run: Any, saver: Any, thread: Any) -> None:
    graph = StateGraph(Trip).add_node("plan", plan)
    graph.add_node("ask", lambda city: {"log": [f"{city}: {interrupt(city + '?')}"]})
    graph.add_conditional_edges("plan", lambda state: [Send("ask", state["city"])], ["ask"])
    app = graph.add_edge(START, "plan").compile(checkpointer=saver)
    run.invoke(app, {"log": []}, thread)
    run.update(app, thread, {"city": "Oslo"})
    assert run.state(app, thread).interrupts == ()
    assert asked(run.invoke(app, None, thread)) == ["Oslo?"]
    assert run.invoke(app, Command(resume="yes"), thread)["log"] == ["plan", "Oslo: yes"]


@pytest.mark.parametrize("resume", [True, False])
def test_a_question_inside_a_nested_graph_stays_open_over_a_change_there(
    run: Any, saver: Any, thread: Any, resume: bool
) -> None:
    graph = StateGraph(Trip).add_node("trip", trip(None, approve)).add_node("z", lambda state: {"log": ["z"]})
    app = graph.add_edge(START, "trip").add_edge("trip", "z").compile(checkpointer=saver)
    [question] = run.invoke(app, {"log": []}, thread)[INTERRUPT]
    [task] = run.state(app, thread).tasks
    run.update(app, task.state, {"city": "Oslo"})
    assert run.state(app, thread).interrupts == (question,)
    if not resume:
        assert asked(run.invoke(app, None, thread)) == ["go?"]
    assert run.invoke(app, Command(resume="yes"), thread)["log"] == ["plan", "Oslo: yes", "booked", "z"]


def test_a_change_outside_begins_a_nested_graph_anew(run: Any, saver: Any, thread: Any) -> None:
    graph = StateGraph(Trip).add_node("plan", plan)
    graph.add_node("ask", StateGraph(Trip).add_node("ask", approve_by_name).add_edge(START, "ask").compile())
    app = graph.add_edge(START, "plan").add_edge("plan", "ask").compile(checkpointer=saver)
    assert asked(run.invoke(app, {"log": []}, thread)) == ["go to Rome?"]
    run.update(app, thread, {"city": "Oslo"})
    assert run.state(app, thread).interrupts == ()
    assert asked(run.invoke(app, None, thread)) == ["go to Oslo?"]
    assert run.invoke(app, Command(resume="yes"), thread)["log"] == ["plan", "Oslo: yes"]
