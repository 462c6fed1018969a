"""Keys of a state that nobody writes, and keys that are more than a value."""

from __future__ import annotations

import operator
import threading
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel

from runwell.errors import GraphError, InvalidInput, InvalidUpdateError
from runwell.graph import (
    END,
    START,
    BinaryOperatorAggregate,
    DeltaChannel,
    EphemeralValue,
    IsLastStep,
    LastValue,
    RemainingSteps,
    Send,
    StateGraph,
    Topic,
    UntrackedValue,
)
from runwell.persistence import InMemorySaver, SqliteSaver


class Typed(TypedDict):
    log: Annotated[list[Any], operator.add]
    left: RemainingSteps
    last: IsLastStep


@dataclass
class Data:
    log: Annotated[list[Any], operator.add]
    left: RemainingSteps
    last: IsLastStep


class Model(BaseModel):
    log: Annotated[list[Any], operator.add]
    left: RemainingSteps
    last: IsLastStep


def field(state: Any, name: str) -> Any:
    return state[name] if isinstance(state, dict) else getattr(state, name)


@pytest.mark.parametrize("schema", [Typed, Data, Model])
def test_the_steps_left_are_counted_down_to_one_in_the_last_permitted_step(run: Any, schema: Any) -> None:
    def step(state: Any) -> Any:
        return {"log": [(field(state, "left"), field(state, "last"))]}

    def on(state: Any) -> str:
        return END if field(state, "last") else "step"

    graph = StateGraph(schema).add_node("step", step).add_edge(START, "step")
    app = graph.add_conditional_edges("step", on, ["step", END]).compile()
    assert run.invoke(app, {"log": []}, {"recursion_limit": 4}) == {
        "log": [(4, False), (3, False), (2, False), (1, True)]
    }


def test_a_resumed_run_counts_anew(run: Any, thread: Any) -> None:
    graph = (
        StateGraph(Typed).add_node("a", lambda s: {"log": [s["left"]]}).add_node("b", lambda s: {"log": [s["left"]]})
    )
    app = graph.add_edge(START, "a").add_edge("a", "b").compile(InMemorySaver(), interrupt_before=["b"])
    run.invoke(app, {"log": []}, {**thread, "recursion_limit": 5})
    assert run.invoke(app, None, {**thread, "recursion_limit": 9})["log"] == [5, 9]


def test_managed_values_are_no_part_of_input_output_or_what_is_saved(run: Any, thread: Any) -> None:
    app = StateGraph(Typed).add_node("a", lambda s: {"log": [1]}).add_edge(START, "a").compile(InMemorySaver())
    assert run.invoke(app, {"log": []}, thread) == {"log": [1]}
    assert run.state(app, thread).values == {"log": [1]}
    with pytest.raises(InvalidInput, match="'left'"):
        run.invoke(app, {"log": [], "left": 3}, thread)
    writer = StateGraph(Typed).add_node("a", lambda s: {"left": 3}).add_edge(START, "a").compile()
    with pytest.raises(InvalidUpdateError, match="'left'"):
        run.invoke(writer, {"log": []})


def test_only_a_node_whose_schema_has_them_sees_them(run: Any) -> None:
    class Narrow(TypedDict):
        left: RemainingSteps

    class Plain(TypedDict):
        log: Annotated[list[Any], operator.add]

    graph = StateGraph(Plain).add_node("a", lambda s: {"log": [dict(s)]}, input_schema=Narrow)
    graph.add_node("b", lambda s: {"log": [list(s)]}).add_edge(START, "a").add_edge("a", "b")
    assert run.invoke(graph.compile(), {"log": []}, {"recursion_limit": 3})["log"] == [{"left": 3}, ["log"]]


# -- kinds of channels


def test_an_ephemeral_value_is_seen_in_the_next_step_and_then_gone(run: Any, thread: Any, tmp_path: Any) -> None:
    class State(TypedDict):
        hint: Annotated[str, EphemeralValue]
        log: Annotated[list[Any], operator.add]

    def seen(name: str, **more: Any) -> Any:
        return lambda s: {"log": [(name, s.get("hint"))], **more}

    graph = StateGraph(State).add_sequence([("a", seen("a", hint="from a")), ("b", seen("b")), ("c", seen("c"))])
    with SqliteSaver(tmp_path / "db") as saver:
        app = graph.add_edge(START, "a").compile(saver)
        end = run.invoke(app, {"log": [], "hint": "from outside"}, thread)
        assert end == {"log": [("a", "from outside"), ("b", "from a"), ("c", None)]}
        assert "hint" not in run.state(app, thread).values
        hints = [state.values.get("hint") for state in run.history(app, thread)]
        assert hints == [None, None, "from a", "from outside"]


@pytest.mark.parametrize("accumulate", [False, True])
def test_a_topic_collects_what_a_step_wrote(run: Any, accumulate: bool) -> None:
    found = Annotated[list[int], Topic(int, accumulate=accumulate)]
    State = TypedDict("State", {"found": found, "log": Annotated[list[Any], operator.add]})  # type: ignore[valid-type]  # noqa: UP013
    graph = StateGraph(State).add_node("work", lambda n: {"found": n}).add_node("more", lambda s: {"found": [8, 9]})
    graph.add_node("see", lambda s: {"log": [s["found"]]}).add_node("end", lambda s: {"log": [s.get("found")]})
    graph.add_conditional_edges(START, lambda s: [Send("work", n) for n in range(3)], ["work"])
    graph.add_edge("work", "more").add_edge("work", "see").add_edge("more", "end")
    expected = [[0, 1, 2], [0, 1, 2, 8, 9] if accumulate else [8, 9]]
    assert run.invoke(graph.compile(), {"log": []})["log"] == expected


def test_an_untracked_value_lives_in_the_run_and_is_never_saved(run: Any, thread: Any) -> None:
    class State(TypedDict):
        lock: Annotated[Any, UntrackedValue]
        log: Annotated[list[Any], operator.add]

    graph = StateGraph(State).add_node("a", lambda s: {"lock": threading.Lock()})  # what no saver could store
    graph.add_node("beside", lambda s: {"log": ["beside"]}).add_node("b", lambda s: {"log": [s["lock"].acquire()]})
    graph.add_node("c", lambda s: {"log": ["lock" in s]}).add_edge(START, "a").add_edge(START, "beside")
    app = graph.add_edge(["a", "beside"], "b").add_edge("b", "c").compile(InMemorySaver(), interrupt_before=["c"])
    assert run.invoke(app, {"log": []}, thread)["log"] == ["beside", True]
    assert "lock" not in run.state(app, thread).values
    assert run.invoke(app, None, thread)["log"] == ["beside", True, False]


def test_reducers_said_as_channels_reduce(run: Any) -> None:
    class State(TypedDict):
        total: Annotated[int, BinaryOperatorAggregate(int, operator.add)]
        log: Annotated[list[str], DeltaChannel(operator.add)]
        one: Annotated[str, LastValue]

    graph = StateGraph(State)
    for name in "ab":
        graph.add_node(name, lambda s, name=name: {"total": 2, "log": [name]}).add_edge(START, name)
    assert run.invoke(graph.compile(), {"total": 1, "log": [], "one": "x"}) == {
        "total": 5,
        "log": ["a", "b"],
        "one": "x",
    }
    both = StateGraph(State)
    for name in "ab":
        both.add_node(name, lambda s: {"one": "y"}).add_edge(START, name)
    with pytest.raises(InvalidUpdateError, match="'a' and 'b' both wrote 'one'"):
        run.invoke(both.compile(), {"total": 1, "log": [], "one": "x"})


@pytest.mark.parametrize("kind", [BinaryOperatorAggregate, DeltaChannel])
def test_a_channel_that_reduces_needs_its_reducer(kind: Any) -> None:
    State = TypedDict("State", {"log": Annotated[list[str], kind]})  # noqa: UP013
    with pytest.raises(GraphError, match="needs its reducer"):
        StateGraph(State)
