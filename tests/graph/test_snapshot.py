"""What `get_state` and `get_state_history` give: complete, comparable, and their reader's own."""

from __future__ import annotations

import copy
import dataclasses
import operator
import pickle
from typing import Annotated, Any, TypedDict

import pytest

from runwell.graph import START, PregelTask, StateGraph, StateSnapshot
from runwell.persistence import InMemorySaver


class Log(TypedDict):
    log: Annotated[list[str], operator.add]


@pytest.fixture
def app(thread: dict[str, Any]) -> Any:
    graph = StateGraph(Log)
    graph.add_node("a", lambda state: {"log": ["a"]}).add_edge(START, "a")
    graph.add_node("b", lambda state: {"log": ["b"]}).add_edge("a", "b")
    app = graph.compile(InMemorySaver(), interrupt_before=["b"])
    app.invoke({"log": ["in"]}, thread)
    return app


def test_a_snapshot_has_every_field(app: Any, thread: Any) -> None:
    now, before = list(app.get_state_history(thread))
    assert isinstance(now, StateSnapshot)
    assert (now.values, now.next) == ({"log": ["in", "a"]}, ("b",))
    assert now.metadata is not None
    assert (now.metadata["source"], now.metadata["step"]) == ("loop", now.metadata["step"])
    assert now.parent_config == before.config
    assert before.parent_config is None
    assert now.created_at is not None
    assert now.created_at >= str(before.created_at)
    assert now.tasks == (PregelTask(now.tasks[0].id, "b"),)
    assert now.interrupts == ()
    assert app.get_state(now.config) == now == app.get_state(thread)
    assert now != before


def test_a_snapshot_is_printed_copied_and_changed_as_any_dataclass(app: Any, thread: Any) -> None:
    now = app.get_state(thread)
    fields = [getattr(now, field.name) for field in dataclasses.fields(StateSnapshot)]
    twin = StateSnapshot(*fields)
    assert repr(now) == repr(twin)
    assert copy.copy(now) == copy.deepcopy(now) == pickle.loads(pickle.dumps(now)) == now == twin
    assert dataclasses.replace(now, next=()).next == ()
    assert dataclasses.asdict(now)["values"] == {"log": ["in", "a"]}
    with pytest.raises(AttributeError, match="value_"):
        _ = now.value_


def test_a_snapshot_is_its_readers_own(app: Any, thread: Any) -> None:
    now, before = list(app.get_state_history(thread))
    now.values["log"].append("mine")
    now.config["configurable"]["checkpoint_id"] = "mine"
    assert now.values["log"][-1] == "mine"
    assert before.values == {"log": ["in"]}
    assert app.get_state(thread).values == {"log": ["in", "a"]}
