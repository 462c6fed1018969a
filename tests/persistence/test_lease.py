"""Holds that are short and renewed: another machine's crash is seen soon, and a run that lives keeps its thread."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, TypedDict

import psycopg
import pytest

from runwell.errors import InvalidConfig, StorageError, ThreadBusy
from runwell.graph import START, StateGraph
from runwell.persistence import InMemorySaver, PostgresSaver
from runwell.persistence.checkpoints import threads
from runwell.persistence.checkpoints.lease import Lease

# -- the beats


class Holds:
    """Notes what it is asked to renew."""

    def __init__(self, failures: int = 0) -> None:
        self.beats: list[list[tuple[str, int]]] = []
        self.failures = failures
        self.beaten = threading.Condition()

    def renew(self, held: list[tuple[str, int]]) -> None:
        with self.beaten:
            self.beats.append(held)
            self.beaten.notify_all()
        if len(self.beats) <= self.failures:
            raise StorageError("away")

    def wait_for(self, count: int) -> bool:
        with self.beaten:
            return self.beaten.wait_for(lambda: len(self.beats) >= count, 5)


def beating() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "runwell-lease"]


def test_a_hold_is_renewed_until_it_is_released_and_the_thread_goes() -> None:
    holds = Holds()
    lease = Lease(0.03, holds.renew)
    lease.held("a", 1)
    assert holds.wait_for(2)
    assert holds.beats[0] == [("a", 1)]
    (thread,) = beating()
    lease.released("a", 7)  # another attempt's
    assert holds.wait_for(len(holds.beats) + 1)
    lease.released("a", 1)
    thread.join(5)
    assert not thread.is_alive()
    seen = len(holds.beats)
    lease.held("b", 2)  # and begins again
    assert holds.wait_for(seen + 1)
    assert holds.beats[-1] == [("b", 2)]
    lease.close()


def test_one_that_fails_is_followed_by_the_next(caplog: pytest.LogCaptureFixture) -> None:
    holds = Holds(failures=2)
    lease = Lease(0.03, holds.renew)
    lease.held("a", 1)
    assert holds.wait_for(3)
    lease.close()
    assert "could not be renewed" in caplog.text


def test_a_saver_that_nobody_has_is_renewed_no_more() -> None:
    holds = Holds()
    Lease(0.03, holds.renew).held("a", 1)
    (thread,) = beating()
    del holds
    thread.join(5)
    assert not thread.is_alive()


# -- on a server


class Numbers(TypedDict):
    n: int


@pytest.fixture
def savers(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[PostgresSaver, PostgresSaver]]:
    """Of two machines, as far as each can tell."""
    count = itertools.count()
    monkeypatch.setattr(threads, "new_holder", lambda: f"machine{next(count)} 1 2 x")
    with PostgresSaver(postgres_url, lease=1) as here, PostgresSaver(postgres_url, lease=timedelta(seconds=1)) as there:
        yield here, there


@pytest.mark.integration
def test_another_machine_that_crashed_is_seen_after_the_lease(savers: Any) -> None:
    here, there = savers
    first = here.take("t")
    here._lease.close()  # as if its machine had lost its power
    began = time.monotonic()
    with pytest.raises(ThreadBusy):
        there.take("t")
    second = None
    while second is None and time.monotonic() - began < 5:
        with contextlib.suppress(ThreadBusy):
            second = there.take("t")
    assert second is not None
    assert second > first
    there.release("t", second)


@pytest.mark.integration
def test_a_renewed_hold_lasts_and_a_released_one_does_not_come_back(savers: Any) -> None:
    here, there = savers
    attempt = here.take("t")

    def left() -> float:
        query = "SELECT until - extract(epoch FROM clock_timestamp()) FROM runwell_attempts WHERE thread = 't'"
        return float(here._rows(query)[0][0])

    here._rows("UPDATE runwell_attempts SET until = until - 0.9 WHERE thread = 't'")
    here.write_renewals([("t", attempt), ("other", 1)])
    assert left() > 0.5
    with pytest.raises(ThreadBusy):
        there.take("t")
    here.release("t", attempt)
    here.write_renewals([("t", attempt)])  # a beat that was under way
    assert left() < 0
    there.release("t", there.take("t"))


@pytest.mark.integration
def test_a_run_holds_its_thread_by_its_lease_and_lets_it_go(savers: Any, driver: Any) -> None:
    here, there = savers
    held: list[float] = []

    def node(state: Any) -> Any:
        held.append(float(there._rows("SELECT hold FROM runwell_attempts WHERE thread = 't'")[0][0]))
        assert here._lease._held
        return {"n": 1}

    graph = StateGraph(Numbers).add_node("node", node).add_edge(START, "node")
    driver.invoke(graph.compile(here), {"n": 0}, {"configurable": {"thread_id": "t"}})
    assert held == [1.0]
    assert not here._lease._held
    there.release("t", there.take("t"))


@pytest.mark.parametrize("lease", [0, 0.5, -1, "5", True, timedelta(0)])
def test_a_lease_is_a_second_or_more(lease: Any) -> None:
    with pytest.raises(InvalidConfig, match="lease="):
        PostgresSaver("postgresql://nowhere", lease=lease)


@pytest.mark.integration
def test_a_connection_of_yours_is_not_shared_with_a_lease(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection, pytest.raises(InvalidConfig, match="connection"):
        PostgresSaver(connection, lease=5)


def test_without_a_lease_nothing_is_renewed() -> None:
    saver = InMemorySaver()
    saver.release("t", saver.take("t"))
    assert beating() == []
