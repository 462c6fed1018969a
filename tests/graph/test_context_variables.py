"""What a node sets in its context is seen by what comes later in its task, and by no other task."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, TypedDict

import pytest

from runwell.graph import END, START, StateGraph
from runwell.graph.policies import RetryPolicy

SEEN: ContextVar[str] = ContextVar("seen", default="-")


class State(TypedDict, total=False):
    seen: list[str]


@pytest.mark.parametrize("colour", ["plain", "async"])
def test_the_next_attempt_sees_it_and_the_next_node_does_not(run: Any, colour: str) -> None:
    tries: list[str] = []

    def work(name: str) -> dict[str, Any]:
        tries.append(f"{name}: {SEEN.get()}")
        SEEN.set(f"{name}, attempt {len(tries)}")
        if len(tries) == 1:
            raise ConnectionError("again")
        return {}

    async def first(state: State) -> dict[str, Any]:
        return work("first")

    async def second(state: State) -> dict[str, Any]:
        return work("second")

    builder = StateGraph(State)
    policy = RetryPolicy(initial_interval=0, jitter=False)
    builder.add_node("first", first if colour == "async" else lambda state: work("first"), retry_policy=policy)
    builder.add_node("second", second if colour == "async" else lambda state: work("second"))
    builder.add_edge(START, "first").add_edge("first", "second").add_edge("second", END)
    run.invoke(builder.compile(), {})
    assert tries == ["first: -", "first: first, attempt 1", "second: -"]
    assert SEEN.get() == "-"
