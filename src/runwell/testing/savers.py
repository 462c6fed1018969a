"""A ready test suite for checkpoint savers: subclass it, say how to make one, run pytest.

    class TestMySaver(CheckpointSaverSuite):
        def make_saver(self, *, allow=()):
            return MySaver(url, allow=allow)

Every saver of runwell passes it. A saver may have plain or `async` methods.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any

from runwell.errors import ForbiddenType, InvalidInput, StorageError, ThreadBusy, UnserializableType
from runwell.messages.message import AIMessage, HumanMessage, ToolMessage
from runwell.ports.command import Interrupt
from runwell.ports.saver import GONE, Checkpoint, CheckpointSaver, Commit, PlannedTask, TaskRecord

__all__ = ["CheckpointSaverSuite", "Thread"]


class Colour(Enum):
    """A class of a user's."""

    RED = "red"


@dataclass
class Ticket:
    """A class of a user's."""

    title: str
    colour: Colour


class NotListed:
    """A class that cannot be saved."""


@contextmanager
def raises(*kinds: type[BaseException]) -> Iterator[list[BaseException]]:
    """The block must raise one of `kinds`; the list then holds it."""
    caught: list[BaseException] = []
    try:
        yield caught
    except kinds as error:
        caught.append(error)
        return
    raise AssertionError(f"nothing was raised; expected {' or '.join(kind.__name__ for kind in kinds)}")


class Thread:
    """Writes commits to one thread of a saver as a graph would, and remembers what must come back."""

    def __init__(self, suite: CheckpointSaverSuite, saver: CheckpointSaver, thread_id: str = "t", ns: str = "") -> None:
        self.suite, self.saver, self.id, self.ns = suite, saver, thread_id, ns
        self.head: str | None = None
        self.values: dict[str, dict[str, Any]] = {}
        self.order: list[str] = []

    def commit(
        self,
        id: str,
        update: dict[str, Any],
        *,
        parent: str | None = None,
        types: frozenset[type] = frozenset(),
        **facts: Any,
    ) -> None:
        """Save a checkpoint with some channels changed (GONE removes one), on the newest or on `parent`."""
        parent = parent or self.head
        old = self.values.get(parent, {}) if parent else {}
        step = Commit(
            id=id,
            thread_id=self.id,
            ns=self.ns,
            parent_id=parent,
            expect_head=self.head,
            step=len(self.order),
            created_at=1_700_000_000.25 + len(self.order),
            source="loop" if parent == self.head else "fork",
            changes={key: (old.get(key, GONE), new) for key, new in update.items()},
            next=[],
        )
        for name, value in facts.items():
            setattr(step, name, value)
        self.suite.call(self.saver.commit, step, types)
        self.head = id
        self.order.append(id)
        self.values[id] = {key: value for key, value in {**old, **update}.items() if value is not GONE}

    def load(self, id: str | None = None, types: frozenset[type] = frozenset()) -> Checkpoint:
        found = self.suite.call(self.saver.load, self.id, self.ns, id, types)
        assert isinstance(found, Checkpoint), found
        return found

    def check(self) -> None:
        """Every checkpoint comes back as it was, alone and in the history."""
        for each_id, values in self.values.items():
            assert self.load(each_id).values == values, each_id
        listed = list(self.suite.call(self.saver.history, self.id, self.ns))
        assert [each.id for each in listed] == self.order[::-1]
        for each in listed:
            assert each.values == self.values[each.id], each.id


class CheckpointSaverSuite:
    """What the graph engine relies on. Subclass it as `Test...` and implement `make_saver`."""

    def make_saver(self, *, allow: Iterable[type] = ()) -> CheckpointSaver:
        """A saver with nothing in it."""
        raise NotImplementedError

    def another_on_the_same_storage(self, saver: CheckpointSaver) -> CheckpointSaver:
        """A second saver, as another process would have it. The default says there cannot be one."""
        return saver

    def call(self, method: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a method of either colour."""
        result = method(*args, **kwargs)
        return asyncio.run(_awaited(result)) if inspect.isawaitable(result) else result

    # -- one thread

    def test_an_unknown_thread_has_nothing(self) -> None:
        saver = self.make_saver()
        assert self.call(saver.load, "t") is None
        assert list(self.call(saver.history, "t")) == []
        self.call(saver.delete_thread, "t")

    def test_a_checkpoint_comes_back_with_every_fact(self) -> None:
        thread = Thread(self, self.make_saver())
        thread.commit("a", {"n": 1})
        planned = [PlannedTask("t1", "model"), PlannedTask("t2", "tool", sent=True, arg={"city": ("Rome", 1)})]
        thread.commit(
            "b",
            {"n": 2, "messages": [HumanMessage("hi", id="m1")]},
            next=planned,
            joins={"join": ["left"]},
            metadata={"tenant": "acme", "n": 3},
            step=7,
            source="update",
            created_at=1_700_000_123.5,
        )
        assert thread.load() == Checkpoint(
            id="b",
            thread_id="t",
            ns="",
            parent_id="a",
            step=7,
            created_at=1_700_000_123.5,
            source="update",
            values={"n": 2, "messages": [HumanMessage("hi", id="m1")]},
            next=planned,
            joins={"join": ["left"]},
            metadata={"tenant": "acme", "n": 3},
        )
        assert thread.load("a").parent_id is None

    def test_a_checkpoint_that_does_not_exist_is_none(self) -> None:
        thread = Thread(self, self.make_saver())
        thread.commit("a", {"n": 1})
        assert self.call(thread.saver.load, "t", "", "b") is None
        assert self.call(thread.saver.load, "t", "sub") is None
        assert self.call(thread.saver.load, "other") is None

    def test_values_that_grow_shrink_change_and_vanish(self) -> None:
        thread = Thread(self, self.make_saver())
        messages: list[Any] = []
        for turn in range(30):
            messages = [*messages, HumanMessage(f"question {turn}", id=f"q{turn}"), AIMessage("answer", id=f"a{turn}")]
            thread.commit(f"{turn}", {"messages": messages, "n": turn})
        thread.commit("edited", {"messages": [*messages[:5], HumanMessage("edited", id="q"), *messages[6:]]})
        thread.commit("trimmed", {"messages": messages[-4:], "n": GONE})
        thread.commit("dict", {"files": {"a.txt": "A", "b.txt": "B"}})
        thread.commit("dict 2", {"files": {"b.txt": "new", "c.txt": "C"}})
        thread.commit("back", {"n": 1, "files": GONE})
        thread.commit("empty", {"messages": []})
        thread.commit("nothing", {})
        thread.check()

    def test_long_values_edited_many_times_come_back(self) -> None:
        thread = Thread(self, self.make_saver())
        items = [f"item {n} " + "x" * 50 for n in range(40)]
        thread.commit("first", {"items": items})
        for n in range(200):
            items = [*items[: n % 40], f"edit {n} " + "y" * 50, *items[n % 40 + 1 :]]
            thread.commit(f"{n}", {"items": items})
        thread.check()

    def test_a_list_changed_in_place_is_saved_as_it_is_now(self) -> None:
        thread = Thread(self, self.make_saver())
        items = ["a"]
        thread.commit("1", {"items": items})
        items.append("b")
        thread.commit("2", {"items": items})  # the same list
        items.append("c")
        thread.commit("3", {"items": [*items, "d"]})  # a new list of one that is not what was saved
        assert thread.load("1").values == {"items": ["a"]}
        assert thread.load("2").values == {"items": ["a", "b"]}
        assert thread.load("3").values == {"items": ["a", "b", "c", "d"]}

    def test_nothing_is_shared_with_what_was_saved(self) -> None:
        thread = Thread(self, self.make_saver())
        inner = {"city": "Rome"}
        thread.commit("a", {"items": [inner]}, metadata={"tags": ["x"]})
        inner["city"] = "Oslo"
        loaded = thread.load()
        assert loaded.values == {"items": [{"city": "Rome"}]}
        loaded.values["items"].append("mine")
        loaded.metadata["tags"].append("mine")
        assert thread.load().values == {"items": [{"city": "Rome"}]}
        assert thread.load().metadata == {"tags": ["x"]}

    # -- forks

    def test_a_fork_leaves_the_other_branch_exact(self) -> None:
        thread = Thread(self, self.make_saver())
        for n in range(5):
            old = thread.values[thread.head]["items"] if thread.head else []
            thread.commit(f"{n}", {"items": [*old, n], "n": n})
        thread.commit("fork", {"items": [*thread.values["2"]["items"], "fork"]}, parent="2")
        assert thread.load().id == "fork"
        assert thread.load().parent_id == "2"
        thread.commit("fork 2", {"items": [*thread.values["fork"]["items"], "more"], "n": 9})
        thread.commit("again", {"items": [*thread.values["4"]["items"], "again"]}, parent="4")
        thread.commit("of fork", {"items": [*thread.values["fork"]["items"], "other"]}, parent="fork")
        thread.commit("of of", {"items": [*thread.values["of fork"]["items"], "deep"]})
        thread.commit("root", {"n": 0}, parent="0")
        thread.check()

    def test_a_fork_of_a_fork_is_listed_beside_what_came_after_it(self) -> None:
        thread = Thread(self, self.make_saver())
        thread.commit("c0", {"old": "x", "n": 0})
        thread.commit("c1", {"n": 1})
        thread.commit("fork", {"n": 2}, parent="c0")
        thread.commit("on", {"n": 3})
        thread.commit("fork 2", {}, parent="fork")
        thread.commit("new", {"old": "y"})  # reaches less far back than the one before
        thread.check()
        listed = self.call(thread.saver.history, "t", limit=2)
        assert [each.values for each in listed] == [{"old": "y", "n": 2}, {"old": "x", "n": 2}]

    def test_a_fork_of_something_unknown_is_refused(self) -> None:
        thread = Thread(self, self.make_saver())
        thread.commit("a", {"n": 1})
        with raises(InvalidInput):
            thread.commit("b", {"n": 2}, parent="nowhere")
        thread.check()

    # -- one writer

    def test_run_19_of_two_writers_on_one_checkpoint_the_second_is_refused(self) -> None:
        saver = self.make_saver()
        first = Thread(self, saver)
        first.commit("a", {"n": 1})
        second = Thread(self, self.another_on_the_same_storage(saver))
        second.head, second.values, second.order = first.head, dict(first.values), list(first.order)
        first.commit("b", {"n": 2})
        with raises(ThreadBusy) as caught:
            second.commit("c", {"n": 3})
        assert "'t'" in str(caught[0])
        first.check()

    def test_run_19_a_new_thread_has_one_first_commit(self) -> None:
        saver = self.make_saver()
        first, second = Thread(self, saver), Thread(self, self.another_on_the_same_storage(saver))
        first.commit("a", {"n": 1})
        with raises(ThreadBusy):
            second.commit("b", {"n": 2})
        first.check()

    def test_run_19_of_many_threads_at_once_one_wins(self) -> None:
        saver = self.make_saver()
        start = Thread(self, saver)
        start.commit("a", {"n": 0})
        outcomes: list[str] = []
        gate = threading.Barrier(8)

        def attempt(name: str) -> None:
            mine = Thread(self, saver)
            mine.head, mine.values, mine.order = "a", dict(start.values), ["a"]
            gate.wait()
            try:
                mine.commit(name, {"n": name})
            except ThreadBusy:
                outcomes.append("busy")
            else:
                outcomes.append(name)

        workers = [threading.Thread(target=attempt, args=(f"w{n}",)) for n in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        [winner] = [name for name in outcomes if name != "busy"]
        assert len(outcomes) == 8
        assert start.load().id == winner
        assert len(list(self.call(saver.history, "t"))) == 2

    def test_many_threads_write_their_own_conversations_at_once(self) -> None:
        saver = self.make_saver()
        threads = [Thread(self, saver, f"t{n}") for n in range(6)]
        failed: list[BaseException] = []

        def talk(thread: Thread) -> None:
            try:
                for turn in range(20):
                    old = thread.values[thread.head]["items"] if thread.head else []
                    thread.commit(f"{turn}", {"items": [*old, f"{thread.id} {turn}"]})
            except BaseException as error:
                failed.append(error)

        workers = [threading.Thread(target=talk, args=(thread,)) for thread in threads]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert failed == []
        for thread in threads:
            thread.check()

    # -- tasks

    def test_task_records_come_back_exactly_and_in_order(self) -> None:
        thread = Thread(self, self.make_saver())
        thread.commit("a", {"n": 1}, next=[PlannedTask("t1", "model"), PlannedTask("t2", "tool")])
        done = TaskRecord(
            "t2", "tool", done=True, writes=[("messages", [ToolMessage("4", tool_call_id="c1", id="m")]), ("n", (1, 2))]
        )
        waiting = TaskRecord(
            "t1",
            "model",
            interrupts=[Interrupt({"sure": True}, "i1", {"type": "boolean"})],
            answers=["yes", 2],
            actors=["ann", None],
            records={"0": {"cached": 1}},
            error="ValueError: no",
        )
        for record in (done, waiting):
            self.call(thread.saver.save_task, "t", "", "a", record)
        assert thread.load().tasks == [done, waiting]
        assert [each.tasks for each in self.call(thread.saver.history, "t")] == [[done, waiting]]

    def test_a_second_record_replaces_the_first_and_older_checkpoints_keep_theirs(self) -> None:
        thread = Thread(self, self.make_saver())
        thread.commit("a", {"n": 1})
        first, second = TaskRecord("t1", "x", error="no"), TaskRecord("t1", "x", done=True, writes=[("n", 2)])
        self.call(thread.saver.save_task, "t", "", "a", first)
        self.call(thread.saver.save_task, "t", "", "a", second)
        thread.commit("b", {"n": 2})
        assert thread.load().tasks == []
        assert thread.load("a").tasks == [second]

    def test_a_task_of_an_unknown_checkpoint_is_refused(self) -> None:
        thread = Thread(self, self.make_saver())
        with raises(StorageError):
            self.call(thread.saver.save_task, "t", "", "a", TaskRecord("t1", "x"))
        thread.commit("a", {"n": 1})
        self.call(thread.saver.delete_thread, "t")
        with raises(StorageError):
            self.call(thread.saver.save_task, "t", "", "a", TaskRecord("t1", "x"))
        assert self.call(thread.saver.load, "t") is None

    # -- namespaces and deleting

    def test_a_namespace_has_checkpoints_of_its_own(self) -> None:
        saver = self.make_saver()
        parent, child = Thread(self, saver), Thread(self, saver, ns="node:1")
        parent.commit("a", {"n": 1})
        child.commit("a", {"n": "child"})
        child.commit("b", {"n": "child 2"})
        parent.check()
        child.check()

    def test_a_deleted_thread_is_gone_with_its_subgraphs_and_no_other_is(self) -> None:
        saver = self.make_saver()
        gone, sub, kept = Thread(self, saver), Thread(self, saver, ns="node:1"), Thread(self, saver, "other")
        for thread in (gone, sub, kept):
            thread.commit("a", {"n": 1})
            self.call(saver.save_task, thread.id, thread.ns, "a", TaskRecord("t1", "x", done=True))
        self.call(saver.delete_thread, "t")
        assert self.call(saver.load, "t") is None
        assert self.call(saver.load, "t", "node:1") is None
        assert list(self.call(saver.history, "t")) == []
        kept.check()
        again = Thread(self, saver)
        again.commit("a", {"n": 2})
        again.check()
        assert again.load().tasks == []

    # -- history

    def test_history_is_newest_first_from_before_and_up_to_limit(self) -> None:
        thread = Thread(self, self.make_saver())
        for n in range(6):
            thread.commit(f"c{n}", {"n": n})

        def ids(**selection: Any) -> list[str]:
            return [each.id for each in self.call(thread.saver.history, "t", **selection)]

        assert ids(limit=2) == ["c5", "c4"]
        assert ids(before="c3") == ["c2", "c1", "c0"]
        assert ids(before="c3", limit=1) == ["c2"]
        assert ids(before="c0") == []
        assert ids(limit=0) == []
        assert ids(limit=100) == ["c5", "c4", "c3", "c2", "c1", "c0"]
        with raises(InvalidInput):
            ids(before="nowhere")

    def test_every_checkpoint_of_a_listing_is_the_one_that_is_loaded(self) -> None:
        thread = Thread(self, self.make_saver())
        thread.commit("a", {"n": 1})
        thread.commit("b", {"n": 2, "log": ["x"]})
        thread.commit("fork", {"n": 3}, parent="a")
        thread.commit("c", {"n": 3, "log": ["y"]})
        parents = {"a": None, "b": "a", "fork": "a", "c": "fork"}
        for selection in (
            {},
            {"limit": 1},
            {"limit": 2},
            {"before": "fork"},
            {"before": "b"},
        ):  # their parents are listed, or are not
            listed = list(self.call(thread.saver.history, "t", **selection))
            assert listed == [thread.load(each.id) for each in listed]
            assert [each.parent_id for each in listed] == [parents[each.id] for each in listed]

    def test_a_listed_checkpoint_is_printed_copied_and_changed_as_any(self) -> None:
        thread = Thread(self, self.make_saver())
        thread.commit("a", {"log": ["x"]}, next=[PlannedTask("a:1", "a")], metadata={"ran": ["a"]})
        self._check_listed(thread, *self.call(thread.saver.history, "t"))
        thread.commit("b", {"log": ["x", "y"]}, next=[], metadata={"ran": ["b"]})
        self._check_listed(thread, self.call(thread.saver.history, "t")[1])

    def _check_listed(self, thread: Thread, listed: Checkpoint) -> None:
        plain = copy.deepcopy(Checkpoint(*(getattr(listed, field.name) for field in fields(Checkpoint))))
        assert repr(listed) == repr(plain)
        assert copy.deepcopy(listed) == replace(listed) == listed == plain
        listed.next.append(PlannedTask("b:1", "b"))
        listed.metadata["mine"] = True
        assert ([task.node for task in listed.next], listed.metadata) == (["a", "b"], {"ran": ["a"], "mine": True})
        assert listed != plain
        assert thread.load("a").metadata == {"ran": ["a"]}

    def test_an_id_with_half_a_character_is_refused_and_such_text_in_values_is_kept(self) -> None:
        saver = self.make_saver()
        thread = Thread(self, saver)
        thread.commit("c0", {"text": "lone \ud800", "deep": [{"\udfff": "\ud800"}]})
        thread.check()
        with raises(InvalidInput) as caught:
            Thread(self, saver, "t\ud800").commit("c0", {"n": 1})
        assert "half a character" in str(caught[0])
        for read in (saver.load, saver.history, saver.delete_thread):
            with raises(InvalidInput):
                self.call(read, "t\ud800")
        thread.check()

    def test_store_07_a_negative_limit_is_refused(self) -> None:
        thread = Thread(self, self.make_saver())
        thread.commit("a", {"n": 1})
        with raises(InvalidInput, ValueError):
            list(self.call(thread.saver.history, "t", limit=-1))

    def test_store_09_a_filter_matches_exactly(self) -> None:
        thread = Thread(self, self.make_saver())
        for n in range(300):
            thread.commit(f"c{n}", {"n": n}, metadata={"tenant": "acme" if n % 100 == 7 else "globex", "flag": True})

        def ids(limit: int | None = None, **filter: Any) -> list[str]:
            return [each.id for each in self.call(thread.saver.history, "t", filter=filter, limit=limit)]

        assert ids(tenant="acme") == ["c207", "c107", "c7"]
        assert ids(limit=2, tenant="acme") == ["c207", "c107"]
        assert ids(tenant="acme", step=107) == ["c107"]
        assert ids(source="loop", step=3) == ["c3"]
        assert ids(source="update") == []
        assert ids(tenant="acm") == []
        assert ids(unknown=None) == []
        assert ids(flag=1, step=1) == []

    # -- types

    def test_a_listed_type_round_trips(self) -> None:
        ticket = Ticket("broken", Colour.RED)
        for saver, types in (
            (self.make_saver(allow=[Ticket, Colour]), frozenset[type]()),
            (self.make_saver(), frozenset({Ticket, Colour})),
        ):
            thread = Thread(self, saver)
            thread.commit("a", {"ticket": ticket}, types=types, next=[PlannedTask("t", "n", sent=True, arg=[ticket])])
            record = TaskRecord("t", "n", writes=[("ticket", replace(ticket, title="new"))])
            self.call(saver.save_task, "t", "", "a", record, types)
            loaded = thread.load(types=types)
            assert loaded.values == {"ticket": ticket}
            assert loaded.next[0].arg == [ticket]
            assert loaded.tasks == [record]

    def test_an_unlisted_type_is_refused_by_name_and_nothing_is_saved(self) -> None:
        thread = Thread(self, self.make_saver())
        thread.commit("a", {"n": 1})
        message = ToolMessage("x", tool_call_id="c", artifact=NotListed(), id="m")
        with raises(UnserializableType, TypeError) as caught:
            thread.commit("b", {"n": 2, "messages": [HumanMessage("hi"), message]})
        assert "messages[1].artifact" in str(caught[0])
        assert "NotListed" in str(caught[0])
        with raises(UnserializableType) as caught:
            thread.commit("b", {"ticket": Ticket("x", Colour.RED)})
        assert f"{type(thread.saver).__name__}(..., allow=[Ticket])" in str(caught[0])
        with raises(UnserializableType) as caught:
            record = TaskRecord("t1", "x", done=True, writes=[("n", 1), ("tools", [NotListed()])])
            self.call(thread.saver.save_task, "t", "", "a", record)
        assert "tools[0]" in str(caught[0])
        with raises(UnserializableType) as caught:
            thread.commit("b", {"n": 2}, metadata={"user": NotListed()})
        assert "metadata" in str(caught[0])
        with raises(UnserializableType) as caught:
            thread.commit("b", {"n": 2}, next=[PlannedTask("t", "worker", sent=True, arg=NotListed())])
        assert "worker" in str(caught[0])
        thread.check()
        assert thread.load().tasks == []

    def test_an_unlisted_type_is_not_loaded(self) -> None:
        thread = Thread(self, self.make_saver())
        types = frozenset({Ticket, Colour})
        thread.commit("a", {"ticket": Ticket("x", Colour.RED)}, types=types)
        with raises(ForbiddenType) as caught:
            thread.load(types=frozenset({Colour}))
        assert "Ticket" in str(caught[0])
        assert "'t'" in str(caught[0])
        assert thread.load(types=types).values == {"ticket": Ticket("x", Colour.RED)}

    def test_an_unlisted_type_in_what_is_planned_is_refused_by_the_listing_itself(self) -> None:
        thread = Thread(self, self.make_saver())
        types, sent = frozenset({Ticket, Colour}), Ticket("x", Colour.RED)
        thread.commit("a", {"n": 1}, next=[PlannedTask("a:1", "a")])
        thread.commit("b", {"n": 2}, next=[PlannedTask("b:1", "b", sent=True, arg=sent)], types=types)
        thread.commit("c", {"n": 3}, next=[PlannedTask("c:1", "c")])
        with raises(ForbiddenType) as caught:
            self.call(thread.saver.history, "t", types=frozenset({Colour}))
        assert "Ticket" in str(caught[0])
        assert "'t', checkpoint '" in str(caught[0])
        listed = self.call(thread.saver.history, "t", types=types)
        assert [each.next[0].arg for each in listed] == [None, sent, None]

    def test_safe_07_data_that_imitates_an_envelope_stays_data(self) -> None:
        thread = Thread(self, self.make_saver())
        envelope = {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "true"}}
        thread.commit("a", {"user_field": envelope, "messages": [HumanMessage("x", additional_kwargs=dict(envelope))]})
        thread.check()
        assert type(thread.load().values["user_field"]) is dict

    # -- from an event loop

    def test_async_forms_give_the_same(self) -> None:
        saver: Any = self.make_saver()
        if not hasattr(saver, "acommit"):
            return  # its plain names are async already, or it has one colour only
        thread = Thread(self, saver)
        thread.commit("a", {"n": 1})

        async def use() -> None:
            step = Commit("b", "t", "", "a", "a", 1, 1.0, "loop", {"n": (1, 2)}, [])
            await saver.acommit(step)
            with raises(ThreadBusy):
                await saver.acommit(step)
            await saver.asave_task("t", "", "b", TaskRecord("t1", "x", done=True))
            assert (await saver.aload("t")).tasks == [TaskRecord("t1", "x", done=True)]
            await asyncio.gather(*(saver.aload("t") for _ in range(20)))
            assert [each.id for each in await saver.ahistory("t", limit=5)] == ["b", "a"]
            await saver.adelete_thread("t")
            assert await saver.aload("t") is None

        asyncio.run(use())


async def _awaited(value: Any) -> Any:
    return await value
