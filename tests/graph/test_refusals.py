"""Things a graph refuses or sees through, so that nothing goes wrong in silence."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import pytest

from runwell.errors import GraphError, InvalidInput, InvalidResume, InvalidUpdateError, NoCheckpointer
from runwell.graph import INTERRUPT, START, Command, StateGraph, interrupt
from runwell.persistence import InMemorySaver


class State(TypedDict):
    value: Any


def graph(node: Any, **options: Any) -> Any:
    checkpointer = options.pop("checkpointer", None)
    return StateGraph(State, **options).add_node("a", node).add_edge(START, "a").compile(checkpointer)


def test_d4_d7_a_breakpoint_that_nothing_can_save_is_refused_when_the_run_starts(run: Any) -> None:
    ran: list[int] = []
    app = graph(lambda state: ran.append(1))
    with pytest.raises(NoCheckpointer, match="breakpoint at"):
        run.invoke(app, {"value": 1}, interrupt_before=["a"])
    assert ran == []


def test_d5_an_id_that_was_answered_already_is_not_taken_for_an_answer(run: Any, thread: Any) -> None:
    app = graph(lambda state: {"value": [interrupt(n) for n in range(2)]}, checkpointer=InMemorySaver())
    [first] = run.invoke(app, {"value": 0}, thread)[INTERRUPT]
    run.invoke(app, Command(resume={first.id: "A"}), thread)
    for stale in (first.id, "f" * 32):
        with pytest.raises(InvalidResume, match="No open question has the id"):
            run.invoke(app, Command(resume={stale: "B"}), thread)
    assert run.invoke(app, Command(resume="C"), thread) == {"value": ["A", "C"]}


def swallow(state: State) -> Any:
    try:
        return {"value": interrupt("sure?")}
    except:  # noqa: E722
        return {"value": "swallowed"}


def overrule(state: State) -> Any:
    answer = "overruled"
    try:
        answer = interrupt("sure?")
    finally:
        return {"value": answer}  # noqa: B012


@pytest.mark.parametrize("node", [swallow, overrule])
def test_a_pause_holds_even_if_the_node_swallows_it(run: Any, thread: Any, node: Any) -> None:
    app = graph(node, checkpointer=InMemorySaver())
    assert run.invoke(app, {"value": 0}, thread)[INTERRUPT][0].value == "sure?"
    assert run.invoke(app, Command(resume="yes"), thread) == {"value": "yes"}


async def waits(old: Any, new: Any) -> Any:
    return new


@pytest.mark.parametrize("reducer", [waits, lambda one: one, lambda a, b, c: a])
def test_what_cannot_be_a_reducer_is_refused(reducer: Any) -> None:
    with pytest.raises(GraphError, match="reducer"):
        StateGraph(TypedDict("Bad", {"value": Annotated[list, reducer]}))  # type: ignore[operator]


def add(old: Any, new: Any) -> Any:
    return old + new


class Adding(TypedDict):
    value: Annotated[list, add]


def test_a_reducers_error_names_key_and_node(run: Any) -> None:
    app = StateGraph(Adding).add_node("a", lambda state: {"value": 3}).add_edge(START, "a").compile()
    with pytest.raises(TypeError) as caught:
        run.invoke(app, {"value": []})
    assert any("'value'" in note and "'a'" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("wrong", [{"graph": "other"}, {"resume": 1}])
def test_a_command_that_a_node_cannot_give_is_refused(run: Any, wrong: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="returned a Command with"):
        run.invoke(graph(lambda state: Command(update={"value": 5}, **wrong)), {"value": 1})


def test_a_class_is_no_checkpointer() -> None:
    with pytest.raises(GraphError, match="the class 'InMemorySaver'"):
        graph(lambda state: None, checkpointer=InMemorySaver)


def test_an_unknown_key_in_the_context_is_refused(run: Any) -> None:
    class Context(TypedDict):
        user: str

    app = graph(lambda state: None, context_schema=Context)
    with pytest.raises(InvalidInput, match=r"'usr'.*did you mean 'user'"):
        run.invoke(app, {"value": 1}, context={"usr": "ann"})
