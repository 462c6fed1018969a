"""A conditional edge from START may ask, as any other."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from runwell.errors import NoCheckpointer
from runwell.graph import END, START, Command, Send, StateGraph, interrupt
from runwell.graph.streaming import INTERRUPT
from runwell.persistence import InMemorySaver, SqliteSaver


class Log(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "memory":
        yield InMemorySaver()
    else:
        with SqliteSaver(tmp_path / "threads.sqlite") as made:
            yield made


def asking(saver: Any, route: Any = lambda state: interrupt("a or b?")) -> Any:
    graph = StateGraph(Log)
    for name in "abz":
        graph.add_node(name, lambda state, name=name: {"log": [name]})
    graph.add_conditional_edges(START, route, ["a", "b", END])
    return graph.add_edge("a", "z").add_edge("b", "z").compile(checkpointer=saver)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_int_the_answer_chooses_where_to_begin(run: Any, saver: Any, thread: Any, durability: Any) -> None:
    app = asking(saver)
    [question] = run.invoke(app, {"log": ["in"]}, thread, durability=durability)[INTERRUPT]
    state = run.state(app, thread)
    assert (question.value, state.interrupts, state.values) == ("a or b?", (question,), {"log": ["in"]})
    assert [each.interrupt for each in run.questions(app)] == [question]
    assert list(run.invoke(app, None, thread, durability=durability)[INTERRUPT]) == [question]
    assert run.invoke(app, Command(resume="b"), thread, durability=durability) == {"log": ["in", "b", "z"]}
    assert run.state(app, thread).interrupts == ()
    [again] = run.invoke(app, {"log": ["more"]}, thread, durability=durability)[INTERRUPT]
    assert again.id != question.id
    assert run.invoke(app, Command(resume="a"), thread)["log"] == ["in", "b", "z", "more", "a", "z"]


def test_several_questions_are_asked_in_turn(run: Any, saver: Any, thread: Any) -> None:
    def route(state: Log) -> Any:
        return [Send(interrupt("first?"), {}), Send(interrupt("second?"), {})]

    app = asking(saver, route)
    run.invoke(app, {"log": []}, thread)
    [second] = run.invoke(app, Command(resume="a"), thread)[INTERRUPT]
    assert second.value == "second?"
    assert run.invoke(app, Command(resume="b"), thread) == {"log": ["a", "b", "z"]}


def test_new_input_takes_the_question_back(run: Any, saver: Any, thread: Any) -> None:
    app = asking(saver, lambda state: interrupt("a or b?") if state["log"] == ["ask"] else "a")
    run.invoke(app, {"log": ["ask"]}, thread)
    assert run.invoke(app, {"log": ["go"]}, thread) == {"log": ["ask", "go", "a", "z"]}


def test_every_stream_tells_of_it(run: Any, saver: Any, thread: Any) -> None:
    app = asking(saver)
    for mode in ("updates", "values", "tasks", "debug", "checkpoints", "messages", "custom"):
        config = {"configurable": {"thread_id": mode}}
        list(app.stream({"log": []}, config, stream_mode=mode))
        list(app.stream(Command(resume="a"), config, stream_mode=mode))
        assert run.state(app, config).values == {"log": ["a", "z"]}
    first = list(app.stream({"log": []}, thread, stream_mode="updates"))
    assert [chunk[INTERRUPT][0].value for chunk in first] == ["a or b?"]
    assert list(app.stream(Command(resume="a"), thread, stream_mode="updates")) == [
        {"a": {"log": ["a"]}},
        {"z": {"log": ["z"]}},
    ]


def test_inside_another_graph_it_pauses_the_whole_run(run: Any, saver: Any, thread: Any) -> None:
    graph = StateGraph(Log).add_node("inner", asking(None)).add_node("end", lambda state: {"log": ["end"]})
    app = graph.add_edge(START, "inner").add_edge("inner", "end").compile(checkpointer=saver)
    assert [each.value for each in run.invoke(app, {"log": []}, thread)[INTERRUPT]] == ["a or b?"]
    assert run.invoke(app, Command(resume="a"), thread) == {"log": ["a", "z", "end"]}


def test_without_a_checkpointer_it_is_refused_or_answered_in_process(run: Any) -> None:
    with pytest.raises(NoCheckpointer, match=r"a or b\?"):
        run.invoke(asking(None), {"log": []})
    assert run.invoke(asking(None), {"log": []}, answer_interrupts=lambda question: "b") == {"log": ["b", "z"]}
