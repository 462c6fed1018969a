"""Savers written for the interface put/put_writes/get_tuple/list pass the suite through the adapter."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from runwell.errors import InvalidInput, StorageError, UsageError
from runwell.persistence import InMemorySaver, SaverAdapter
from runwell.ports.saver import Commit
from runwell.testing.savers import CheckpointSaverSuite


class Tuple(NamedTuple):
    config: Any
    checkpoint: Any
    metadata: Any
    parent_config: Any = None
    pending_writes: Any = None


class Foreign:
    """A saver as its authors would write one: newest is the highest id, a task's first writes win."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], dict[str, tuple[Any, Any, str | None]]] = {}
        self.blobs: dict[Any, Any] = {}
        self.writes: dict[Any, dict[tuple[str, int], tuple[str, str, Any]]] = {}

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        thread, ns = config["configurable"]["thread_id"], config["configurable"]["checkpoint_ns"]
        stored = dict(checkpoint)
        values = stored.pop("channel_values")
        for channel, version in new_versions.items():
            assert type(values[channel]) is bytes
            self.blobs[thread, ns, channel, version] = values[channel]
        parent = config["configurable"].get("checkpoint_id")
        self.rows.setdefault((thread, ns), {})[stored["id"]] = (stored, copy.deepcopy(metadata), parent)
        return {"configurable": {**config["configurable"], "checkpoint_id": stored["id"]}}

    def put_writes(self, config: Any, writes: Sequence[Any], task_id: str, task_path: str = "") -> None:
        where = tuple(config["configurable"].values())
        for at, (channel, value) in enumerate(writes):
            self.writes.setdefault(where, {}).setdefault((task_id, at), (task_id, channel, value))

    def get_tuple(self, config: Any) -> Any:
        thread, ns = config["configurable"]["thread_id"], config["configurable"]["checkpoint_ns"]
        rows = self.rows.get((thread, ns), {})
        wanted = config["configurable"].get("checkpoint_id") or max(rows, default=None)
        if wanted not in rows:
            return None
        stored, metadata, parent = rows[wanted]
        values = {c: self.blobs[thread, ns, c, v] for c, v in stored["channel_versions"].items()}
        here = {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": wanted}}
        pending = list(self.writes.get((thread, ns, wanted), {}).values())
        above = {"configurable": {**here["configurable"], "checkpoint_id": parent}} if parent else None
        return Tuple(here, {**stored, "channel_values": values}, metadata, above, pending[::-1])

    def list(self, config: Any, *, filter: Any = None, before: Any = None, limit: Any = None) -> Iterator[Any]:
        key = (config["configurable"]["thread_id"], config["configurable"]["checkpoint_ns"])
        for each in sorted(self.rows.get(key, {}), reverse=True):
            if before is None or each < before["configurable"]["checkpoint_id"]:
                yield self.get_tuple({"configurable": {**config["configurable"], "checkpoint_id": each}})

    def delete_thread(self, thread_id: str) -> None:
        for table in (self.rows, self.blobs, self.writes):
            for key in [key for key in table if key[0] == thread_id]:
                del table[key]


class BaseCheckpointSaver:
    """The abstract base of theirs."""

    def put(self, *args: Any) -> Any:
        raise NotImplementedError

    put_writes = get_tuple = list = delete_thread = put


class AsyncOnly:
    """The same, written in the other colour only, with versions that are text."""

    def __init__(self) -> None:
        self.inner = Foreign()

    def get_next_version(self, current: str | None, channel: Any) -> str:
        return f"{int(current or 0) + 1:08d}"

    async def aput(self, *args: Any) -> Any:
        await asyncio.sleep(0)
        return self.inner.put(*args)

    async def aput_writes(self, *args: Any) -> None:
        await asyncio.sleep(0)
        self.inner.put_writes(*args)

    async def aget_tuple(self, config: Any) -> Any:
        await asyncio.sleep(0)
        return self.inner.get_tuple(config)

    async def alist(self, config: Any, **kwargs: Any) -> AsyncIterator[Any]:
        for each in self.inner.list(config, **kwargs):
            yield each

    async def adelete_thread(self, thread_id: str) -> None:
        self.inner.delete_thread(thread_id)


class AsyncForeign(AsyncOnly, BaseCheckpointSaver):
    """With the plain methods of an abstract base."""


class Half(Foreign):
    """Has methods of the other colour only to say that it has none."""

    async def aput(self, *args: Any) -> Any:
        raise NotImplementedError("use the async saver")

    async def aget_tuple(self, config: Any) -> Any:
        raise NotImplementedError("use the async saver")


class Numbered(SaverAdapter):
    """The suite's ids are in no order, as a graph's are: here they are numbered on their way to the saver."""

    def __init__(self, saver: Any, **settings: Any) -> None:
        super().__init__(saver, **settings)
        self.given: dict[tuple[str, str, str], str] = {}

    def to(self, thread: str, ns: str, id: str | None) -> Any:
        return None if id is None else self.given.get((thread, ns, id), id)

    def back(self, found: Any) -> Any:
        names = {number: name for (*at, name), number in self.given.items() if at == [found.thread_id, found.ns]}
        found.id, found.parent_id = names[found.id], names.get(found.parent_id)
        return found

    async def _commit(self, ask: Any, commit: Commit, types: Any) -> None:
        where = commit.thread_id, commit.ns
        number = f"{len(self.given):06d}"
        ids = {"parent_id": self.to(*where, commit.parent_id), "expect_head": self.to(*where, commit.expect_head)}
        await super()._commit(ask, replace(commit, id=number, **ids), types)
        self.given[*where, commit.id] = number

    async def _save_task(self, ask: Any, thread: str, ns: str, checkpoint_id: str, record: Any, types: Any) -> None:
        await super()._save_task(ask, thread, ns, self.to(thread, ns, checkpoint_id), record, types)

    async def _load(self, ask: Any, thread: str, ns: str, checkpoint_id: str | None, types: Any) -> Any:
        found = await super()._load(ask, thread, ns, self.to(thread, ns, checkpoint_id), types)
        return found and self.back(found)

    async def _history(self, ask: Any, thread: str, ns: str, before: str | None, *rest: Any) -> Any:
        return [self.back(one) for one in await super()._history(ask, thread, ns, self.to(thread, ns, before), *rest)]


class OnForeign(CheckpointSaverSuite):
    foreign: type = Foreign

    def make_saver(self, **settings: Any) -> SaverAdapter:
        return Numbered(self.foreign(), **settings)


class TestForeign(OnForeign):
    pass


class TestAsyncOnly(OnForeign):
    foreign = AsyncOnly


class TestAsyncForeign(OnForeign):
    foreign = AsyncForeign


def test_what_is_no_saver_is_refused() -> None:
    for bad in (InMemorySaver(), object()):
        with pytest.raises(InvalidInput, match="put_writes"):
            SaverAdapter(bad)


def test_a_thread_of_another_framework_is_not_continued() -> None:
    foreign = Foreign()
    checkpoint = {"v": 4, "id": "1", "channel_values": {"x": b"1"}, "channel_versions": {"x": 1}}
    foreign.put({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, checkpoint, {"step": 1}, {"x": 1})
    saver = SaverAdapter(foreign)
    with pytest.raises(UsageError, match="not written by runwell"):
        saver.load("t")


def test_metadata_can_be_read_by_others() -> None:
    foreign = Foreign()
    SaverAdapter(foreign).commit(Commit("1", "t", "", None, None, 3, 1.0, "loop", {}, [], metadata={"tenant": "acme"}))
    found = foreign.get_tuple({"configurable": {"thread_id": "t", "checkpoint_ns": ""}})
    assert found.metadata == {"tenant": "acme", "source": "loop", "step": 3, "parents": {}}


def test_a_checkpoint_that_such_a_saver_would_not_find_again_is_refused() -> None:
    saver = SaverAdapter(Foreign())
    saver.commit(Commit("5", "t", "", None, None, 0, 1.0, "loop", {}, []))
    with pytest.raises(StorageError, match="clock"):
        saver.commit(Commit("4", "t", "", "5", "5", 1, 1.0, "loop", {}, []))
    assert saver.load("t").id == "5"  # type: ignore[union-attr]


def test_a_graph_runs_pauses_and_goes_on() -> None:
    from typing import TypedDict

    from runwell.graph import END, START, StateGraph
    from runwell.ports.command import Command

    class State(TypedDict):
        items: list[str]

    def ask(state: State) -> Any:
        from runwell.graph import interrupt

        return {"items": [*state["items"], interrupt("name?")]}

    for foreign in (Foreign, AsyncForeign, AsyncOnly, Half):
        builder = StateGraph(State)
        builder.add_node("ask", ask)
        builder.add_edge(START, "ask")
        builder.add_edge("ask", END)
        graph = builder.compile(checkpointer=foreign())
        assert isinstance(graph.checkpointer, SaverAdapter)
        config = {"configurable": {"thread_id": "t"}}
        assert "__interrupt__" in graph.invoke({"items": ["a"]}, config)
        assert asyncio.run(graph.ainvoke(Command(resume="Ann"), config)) == {"items": ["a", "Ann"]}
        assert next(iter(graph.get_state_history(config))).values["items"] == ["a", "Ann"]
        graph.update_state(config, {"items": ["by hand"]})
        assert graph.get_state(config).values == {"items": ["by hand"]}
        graph.checkpointer.delete_thread("t")
        assert graph.get_state(config).values == {}
