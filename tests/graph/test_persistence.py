"""Threads: saving, resuming, pausing, forking."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from runwell.errors import (
    InvalidConfig,
    InvalidInput,
    InvalidResume,
    NoCheckpointer,
    UnserializableType,
    UsageError,
)
from runwell.graph import INTERRUPT, START, Command, StateGraph, interrupt, record
from runwell.persistence import InMemorySaver, SqliteSaver


class Log(TypedDict):
    log: Annotated[list[str], operator.add]


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "memory":
        yield InMemorySaver()
    else:
        with SqliteSaver(tmp_path / "threads.sqlite") as made:
            yield made


def chain(saver: Any, *nodes: Any, **options: Any) -> Any:
    graph = StateGraph(Log)
    previous = START
    for node in nodes:
        graph.add_node(node).add_edge(previous, node.__name__)
        previous = node.__name__
    return graph.compile(saver, **options)


def step(name: str, counter: list[str] | None = None) -> Any:
    def node(state: Log) -> Any:
        if counter is not None:
            counter.append(name)
        return {"log": [name]}

    node.__name__ = name
    return node


# -- threads


def test_a_call_must_name_a_thread(run: Any, saver: Any) -> None:
    with pytest.raises(InvalidConfig, match="names no thread"):
        run.invoke(chain(saver, step("a")), {"log": []})


def test_f10_a_thread_picks_up_where_it_left_off(run: Any, saver: Any, thread: Any) -> None:
    app = chain(saver, step("a"))
    run.invoke(app, {"log": ["1"]}, thread)
    assert run.invoke(app, {"log": ["2"]}, thread) == {"log": ["1", "a", "2", "a"]}
    other = {"configurable": {"thread_id": "other"}}
    assert run.invoke(app, {"log": ["x"]}, other) == {"log": ["x", "a"]}


def test_f11_each_finished_step_is_saved_before_the_next_begins(run: Any, saver: Any, thread: Any) -> None:
    seen: list[Any] = []

    def look(state: Log) -> Any:
        seen.append(saver.load("t").values["log"])
        return {"log": ["look"]}

    run.invoke(chain(saver, step("a"), look, step("b")), {"log": ["0"]}, thread)
    assert seen == [["0", "a"]]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_f11_every_durability_ends_with_the_same_state(run: Any, saver: Any, thread: Any, durability: str) -> None:
    app = chain(saver, step("a"), step("b"), step("c"))
    result = run.invoke(app, {"log": ["0"]}, thread, durability=durability)
    assert result == {"log": ["0", "a", "b", "c"]} == run.state(app, thread).values
    assert run.state(app, thread).next == ()
    saved = len(run.history(app, thread))
    assert saved == (1 if durability == "exit" else 4)
    assert run.invoke(app, {"log": ["1"]}, thread)["log"][-4:] == ["1", "a", "b", "c"]


def test_f11_exit_saves_what_there_is_when_a_node_fails(run: Any, saver: Any, thread: Any) -> None:
    def boom(state: Log) -> Any:
        raise ValueError("boom")

    app = chain(saver, step("a"), boom)
    with pytest.raises(ValueError):
        run.invoke(app, {"log": ["0"]}, thread, durability="exit")
    assert run.state(app, thread).values == {"log": ["0", "a"]}
    assert run.state(app, thread).next == ("boom",)


def test_an_unknown_durability_is_refused(run: Any, saver: Any, thread: Any) -> None:
    with pytest.raises(InvalidInput, match="durability"):
        run.invoke(chain(saver, step("a")), {"log": []}, thread, durability="now")


def test_run_20_the_first_checkpoint_exists_before_the_first_node(run: Any, saver: Any, thread: Any) -> None:
    def first(state: Log) -> Any:
        assert saver.load("t").values == {"log": ["0"]}
        raise ValueError("stop here")

    app = chain(saver, first)
    with pytest.raises(ValueError):
        run.invoke(app, {"log": ["0"]}, thread)
    assert run.state(app, thread).next == ("first",)


def test_going_on_without_input_runs_what_is_left(run: Any, saver: Any, thread: Any) -> None:
    counter: list[str] = []
    broken = [True]

    def flaky(state: Log) -> Any:
        if broken:
            raise ValueError("boom")
        return {"log": ["flaky"]}

    app = chain(saver, step("a", counter), flaky, step("b", counter))
    with pytest.raises(ValueError):
        run.invoke(app, {"log": []}, thread)
    broken.clear()
    assert run.invoke(app, None, thread) == {"log": ["a", "flaky", "b"]}
    assert counter == ["a", "b"]


def test_nothing_to_go_on_with_is_an_error(run: Any, saver: Any, thread: Any) -> None:
    with pytest.raises(InvalidInput, match="nothing to continue"):
        run.invoke(chain(saver, step("a")), None, thread)


def test_d6_a_value_that_may_not_be_saved_is_refused_naming_key_and_type(run: Any, saver: Any, thread: Any) -> None:
    class Secret:
        pass

    def leak(state: Log) -> Any:
        return {"log": [Secret()]}

    app = chain(saver, leak)
    with pytest.raises(UnserializableType, match=r"(?s)'log.*Secret.*allow="):
        run.invoke(app, {"log": []}, thread)
    assert run.state(app, thread).values == {"log": []}


# -- pausing


def ask(state: Log) -> Any:
    return {"log": [interrupt("who?")]}


def test_d4_an_interrupt_without_checkpointer_raises_at_once(run: Any) -> None:
    with pytest.raises(NoCheckpointer, match="'ask' asks 'who"):
        run.invoke(chain(None, ask), {"log": []})


def test_d4_an_answer_in_process_needs_no_checkpointer(run: Any) -> None:
    result = run.invoke(chain(None, ask), {"log": []}, answer_interrupts=lambda question: question.value.upper())
    assert result == {"log": ["WHO?"]}


def test_an_interrupt_outside_a_graph_says_so() -> None:
    with pytest.raises(UsageError, match="outside"):
        interrupt("anyone?")


def test_a_run_pauses_and_goes_on_with_the_answer(run: Any, saver: Any, thread: Any) -> None:
    counter: list[str] = []
    app = chain(saver, step("before", counter), ask, step("after", counter))
    paused = run.invoke(app, {"log": []}, thread)
    assert [question.value for question in paused[INTERRUPT]] == ["who?"]
    assert [question.value for question in run.state(app, thread).interrupts] == ["who?"]
    assert run.invoke(app, Command(resume="me"), thread) == {"log": ["before", "me", "after"]}
    assert counter == ["before", "after"]
    assert run.state(app, thread).interrupts == ()


def test_d8_who_answered_is_kept(run: Any, saver: Any, thread: Any) -> None:
    app = chain(saver, ask)
    run.invoke(app, {"log": []}, thread)
    before = run.state(app, thread).config["configurable"]["checkpoint_id"]
    run.invoke(app, Command(resume="yes", actor="ann@example.com"), thread)
    [kept] = saver.load("t", "", before).tasks
    assert "ann@example.com" in [*kept.actors, *kept.records.values()]


def test_a_resume_with_nothing_open_is_refused(run: Any, saver: Any, thread: Any) -> None:
    app = chain(saver, step("a"))
    run.invoke(app, {"log": []}, thread)
    with pytest.raises(InvalidResume, match="nothing to resume"):
        run.invoke(app, Command(resume="x"), thread)


def test_d5_an_answer_that_does_not_fit_leaves_the_pause_as_it_was(run: Any, saver: Any, thread: Any) -> None:
    def age(state: Log) -> Any:
        return {"log": [str(interrupt("age?", response_schema={"type": "integer", "minimum": 0}))]}

    app = chain(saver, age)
    run.invoke(app, {"log": []}, thread)
    for wrong in ("abc", -1, {"a": 1}):
        with pytest.raises(InvalidResume, match="does not fit"):
            run.invoke(app, Command(resume=wrong), thread)
        assert [q.value for q in run.state(app, thread).interrupts] == ["age?"]
    assert run.invoke(app, Command(resume=30), thread) == {"log": ["30"]}


def test_int_07_a_validation_loop_takes_exactly_as_many_answers_as_it_asks(run: Any, saver: Any, thread: Any) -> None:
    def age(state: Log) -> Any:
        prompt = "age?"
        while True:
            answer = interrupt(prompt)
            if isinstance(answer, int) and answer >= 0:
                return {"log": [str(answer)]}
            prompt = f"{answer!r} is no age. age?"

    app = chain(saver, age)
    shown = [run.invoke(app, {"log": []}, thread)[INTERRUPT][0].value]
    for answer in ("abc", -1):
        shown.append(run.invoke(app, Command(resume=answer), thread)[INTERRUPT][0].value)
    assert run.invoke(app, Command(resume=30), thread) == {"log": ["30"]}
    assert shown == ["age?", "'abc' is no age. age?", "-1 is no age. age?"]


def parallel_askers(saver: Any, counter: list[str]) -> Any:
    graph = StateGraph(Log)
    for name in ("left", "right"):

        def node(state: Log, name: str = name) -> Any:
            counter.append(name)
            return {"log": [f"{name}={interrupt(f'{name}?')}"]}

        graph.add_node(name, node).add_edge(START, name)
    return graph.compile(saver)


def test_several_questions_are_answered_by_id(run: Any, saver: Any, thread: Any) -> None:
    app = parallel_askers(saver, [])
    paused = run.invoke(app, {"log": []}, thread)
    ids = {question.value: question.id for question in paused[INTERRUPT]}
    with pytest.raises(InvalidResume, match="2 questions are open"):
        run.invoke(app, Command(resume="x"), thread)
    assert len(run.state(app, thread).interrupts) == 2
    result = run.invoke(app, Command(resume={ids["left?"]: 1, ids["right?"]: 2}), thread)
    assert result == {"log": ["left=1", "right=2"]}


def test_int_05_int_06_answered_questions_do_not_come_back_and_open_ones_are_not_run_again(
    run: Any, saver: Any, thread: Any
) -> None:
    counter: list[str] = []
    app = parallel_askers(saver, counter)
    paused = run.invoke(app, {"log": []}, thread)
    ids = {question.value: question.id for question in paused[INTERRUPT]}
    paused = run.invoke(app, Command(resume={ids["left?"]: 1}), thread)
    assert [q.value for q in paused[INTERRUPT]] == ["right?"]
    assert [q.value for q in run.state(app, thread).interrupts] == ["right?"]
    assert sorted(counter) == ["left", "left", "right"]
    assert run.invoke(app, Command(resume=2), thread) == {"log": ["left=1", "right=2"]}
    assert sorted(counter) == ["left", "left", "right", "right"]


def test_int_01_an_answer_is_used_for_one_question_only(run: Any, saver: Any, thread: Any) -> None:
    def n1(state: Log) -> Any:
        return {"log": [f"1:{interrupt('Q1')}"]}

    def n2(state: Log) -> Any:
        return {"log": [f"2:{interrupt('Q2')}"]}

    inner = chain(None, n1, n2)

    def call(state: Log) -> Any:
        return {"log": inner.invoke({"log": []})["log"]}

    async def acall(state: Log) -> Any:
        return {"log": (await inner.ainvoke({"log": []}))["log"]}

    for name, node in (("plain", call), ("async", acall), ("node", inner)):
        app = StateGraph(Log).add_node("call", node).add_edge(START, "call").compile(saver)
        config = {"configurable": {"thread_id": name}}
        assert run.invoke(app, {"log": []}, config)[INTERRUPT][0].value == "Q1"
        assert run.invoke(app, Command(resume="x"), config)[INTERRUPT][0].value == "Q2"
        assert run.invoke(app, Command(resume="y"), config) == {"log": ["1:x", "2:y"]}


def test_int_16_a_recorded_result_is_not_computed_again(run: Any, saver: Any, thread: Any) -> None:
    computed: list[int] = []

    def work(state: Log) -> Any:
        value = record("cost", lambda: computed.append(1) or "cheap")
        return {"log": [f"{value}:{interrupt('ok?')}"]}

    inner = chain(None, work)
    outer = StateGraph(Log).add_node("inner", inner).add_edge(START, "inner").compile(saver)
    for name, app in (("alone", chain(saver, work)), ("nested", outer)):
        computed.clear()
        config = {"configurable": {"thread_id": name}}
        run.invoke(app, {"log": []}, config)
        assert run.invoke(app, Command(resume="yes"), config) == {"log": ["cheap:yes"]}
        assert computed == [1]


def test_a_signal_is_not_swallowed_by_except_exception(run: Any, saver: Any, thread: Any) -> None:
    def careful(state: Log) -> Any:
        try:
            return {"log": [interrupt("sure?")]}
        except Exception:
            return {"log": ["swallowed"]}

    app = chain(saver, careful)
    assert run.invoke(app, {"log": []}, thread)[INTERRUPT][0].value == "sure?"


def test_d7_breakpoints_pause_before_and_after(run: Any, saver: Any, thread: Any) -> None:
    app = chain(saver, step("a"), step("b"), step("c"), interrupt_before=["b"])
    assert run.invoke(app, {"log": []}, thread) == {"log": ["a"]}
    assert run.state(app, thread).next == ("b",)
    assert run.invoke(app, None, thread) == {"log": ["a", "b", "c"]}
    other = {"configurable": {"thread_id": "after"}}
    plain = chain(saver, step("a"), step("b"))
    assert run.invoke(plain, {"log": []}, other, interrupt_after=["a"]) == {"log": ["a"]}
    assert run.invoke(plain, None, other) == {"log": ["a", "b"]}


# -- history, forks, updates


def test_history_lists_every_step_newest_first(run: Any, saver: Any, thread: Any) -> None:
    app = chain(saver, step("a"), step("b"))
    run.invoke(app, {"log": ["0"]}, thread)
    assert [snapshot.values["log"] for snapshot in run.history(app, thread)] == [["0", "a", "b"], ["0", "a"], ["0"]]
    assert [snapshot.next for snapshot in run.history(app, thread)] == [(), ("b",), ("a",)]
    assert len(run.history(app, thread, limit=1)) == 1
    assert [s.metadata["step"] for s in run.history(app, thread, filter={"source": "input"})] == [0]


def test_going_on_from_the_past_is_a_branch(run: Any, saver: Any, thread: Any) -> None:
    counter: list[str] = []
    app = chain(saver, step("a", counter), step("b", counter))
    run.invoke(app, {"log": ["0"]}, thread)
    after_a = run.history(app, thread)[1]
    assert run.invoke(app, None, after_a.config) == {"log": ["0", "a", "b"]}
    assert counter == ["a", "b", "b"]
    assert any(snapshot.metadata["source"] == "fork" for snapshot in run.history(app, thread))


def test_int_09_the_same_pause_answered_twice_gives_two_outcomes(run: Any, saver: Any, thread: Any) -> None:
    class Sum(TypedDict):
        total: int

    def add(state: Sum) -> Any:
        return {"total": state["total"] + (1 if interrupt("add?") else 0)}

    app = StateGraph(Sum).add_node(add).add_edge(START, "add").compile(saver)
    run.invoke(app, {"total": 1}, thread)
    paused = run.state(app, thread).config
    assert run.invoke(app, Command(resume=True), paused) == {"total": 2}
    assert run.invoke(app, Command(resume=False), paused) == {"total": 1}


def test_int_10_a_replay_asks_again(run: Any, saver: Any, thread: Any) -> None:
    app = chain(saver, ask, step("use"))
    run.invoke(app, {"log": []}, thread)
    run.invoke(app, Command(resume="a"), thread)
    before_ask = run.history(app, thread)[-1]
    assert run.invoke(app, None, before_ask.config)[INTERRUPT][0].value == "who?"


def test_an_update_speaks_for_a_node(run: Any, saver: Any, thread: Any) -> None:
    app = chain(saver, step("a"), step("b"), interrupt_before=["b"])
    run.invoke(app, {"log": []}, thread)
    run.update(app, thread, {"log": ["edited"]})
    assert run.state(app, thread).next == ("b",)
    assert run.invoke(app, None, thread) == {"log": ["a", "edited", "b"]}
    run.update(app, thread, {"log": ["as b"]}, as_node="b")
    assert run.state(app, thread).next == ()


def test_int_13_an_edit_between_a_jump_and_its_target_is_seen(run: Any, saver: Any, thread: Any) -> None:
    class Topic(TypedDict):
        topic: int
        seen: Annotated[list[int], operator.add]

    def a(state: Topic) -> Any:
        return Command(update={"topic": 1}, goto="b")

    def b(state: Topic) -> Any:
        return Command(update={"seen": [state["topic"]]}, goto="__end__" if state["topic"] == 2 else "c")

    graph = StateGraph(Topic).add_node(a).add_node(b).add_node("c", lambda s: {"seen": [99]}).add_edge(START, "a")
    app = graph.compile(saver)
    run.invoke(app, {"topic": 0}, thread)
    between = next(s for s in run.history(app, thread) if s.next == ("b",))
    for edit, node in ((Command(update={"topic": 2}, goto="b"), "a"), ({"topic": 2}, "a"), ({"topic": 2}, None)):
        forked = run.update(app, between.config, edit, as_node=node)
        assert run.invoke(app, None, forked) == {"topic": 2, "seen": [2]}


def test_state_of_a_graph_without_checkpointer_says_so(run: Any, thread: Any) -> None:
    with pytest.raises(NoCheckpointer, match="no saved state"):
        run.state(chain(None, step("a")), thread)


def test_a_copied_threads_open_question_keeps_its_id_and_its_recorded_answers(
    run: Any, saver: Any, thread: Any
) -> None:
    asked: list[str] = []

    def ask(state: Log) -> Any:
        first = interrupt("first?")
        asked.append(first)
        return {"log": [first, interrupt("second?")]}

    inner = StateGraph(Log).add_node("ask", ask).add_edge(START, "ask").compile()
    app = StateGraph(Log).add_node("child", inner).add_edge(START, "child").compile(checkpointer=saver)
    run.invoke(app, {"log": []}, thread)
    run.invoke(app, Command(resume="one"), thread)
    saver.copy_thread("t", "copy")
    copy = {"configurable": {"thread_id": "copy"}}
    [question] = run.state(app, thread).interrupts
    assert run.state(app, copy).interrupts == (question,)
    assert run.invoke(app, Command(resume={question.id: "two"}), copy) == {"log": ["one", "two"]}
    assert run.invoke(app, Command(resume={question.id: "2"}), thread) == {"log": ["one", "2"]}
    assert asked == ["one", "one", "one"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_two_threads_never_have_the_same_question(run: Any, saver: Any, durability: str) -> None:
    app = (
        StateGraph(Log)
        .add_node("ask", lambda state: {"log": [interrupt("?")]})
        .add_edge(START, "ask")
        .compile(checkpointer=saver)
    )
    places = [{"configurable": {"thread_id": name}} for name in "ab"]
    ids = [run.invoke(app, {"log": []}, place, durability=durability)[INTERRUPT][0].id for place in places]
    assert ids[0] != ids[1]
    with pytest.raises(InvalidResume, match=ids[1]):
        run.invoke(app, Command(resume={ids[1]: "x"}), places[0])
    assert run.invoke(app, Command(resume={ids[0]: "x"}), places[0], durability=durability) == {"log": ["x"]}
