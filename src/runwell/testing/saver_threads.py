"""A ready test suite for what savers do with whole threads: fences, copies, pruning, expiry, questions, JSON.

    class TestMySaver(SaverThreadsSuite):
        def make_saver(self, **settings):
            return MySaver(url, **settings)

It is for savers made of `BaseCheckpointSaver`; every one of runwell's passes it.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from typing import Any

from runwell.errors import InvalidConfig, InvalidInput, ThreadBusy
from runwell.messages.message import AIMessage, HumanMessage, ToolMessage
from runwell.persistence.checkpoints.saver import BaseCheckpointSaver
from runwell.ports.command import Interrupt
from runwell.ports.saver import GONE, Commit, PlannedTask, TaskRecord
from runwell.testing.savers import CheckpointSaverSuite, Colour, NotListed, Thread, Ticket, raises

__all__ = ["SaverThreadsSuite"]

ODD: list[Any] = [
    {"$bytes": "not bytes"},
    {"$dict": {"$x": 1}},
    b"\x00\xff",
    float("inf"),
    2**100,
    "lone \ud800",
    {1: "a", (2, 3): "b"},
    (1, [2, (3,)]),
    {"a", "b"},
]


class SaverThreadsSuite:
    """Subclass it as `Test...` and implement `make_saver`."""

    def make_saver(self, **settings: Any) -> BaseCheckpointSaver:
        """A saver with nothing in it, made with `allow=` or `ttl=` if that is given."""
        raise NotImplementedError

    def _thread(self, saver: BaseCheckpointSaver, thread_id: str = "t", ns: str = "") -> Thread:
        return Thread(CheckpointSaverSuite(), saver, thread_id, ns)

    def _talk(self, saver: BaseCheckpointSaver, thread_id: str = "t", turns: int = 6) -> Thread:
        """A thread with messages, a counter, forks, task results and a subgraph."""
        thread = self._thread(saver, thread_id)
        messages: list[Any] = []
        for turn in range(turns):
            messages = [*messages, HumanMessage(f"question {turn}", id=f"q{turn}"), AIMessage("answer", id=f"a{turn}")]
            thread.commit(f"c{turn}", {"messages": messages, "n": turn})
            saver.save_task(thread_id, "", f"c{turn}", TaskRecord("t1", "model", done=True, writes=[("n", turn)]))
        thread.commit(
            "fork", {"messages": [*thread.values["c2"]["messages"], HumanMessage("else", id="e")]}, parent="c2"
        )
        thread.commit("fork 2", {"n": 99})
        child = self._thread(saver, thread_id, "sub")
        child.commit("s1", {"inner": [1]})
        child.commit("s2", {"inner": [1, 2]})
        return thread

    def _keeps(self, thread: Thread, ids: list[str]) -> None:
        """The thread has exactly these checkpoints, newest last, as they were."""
        thread.order = [each for each in thread.order if each in ids]
        thread.values = {each: thread.values[each] for each in thread.order}
        thread.check()

    # -- one run at a time

    def test_run_19_a_run_that_lost_its_thread_stops_at_its_next_save(self) -> None:
        saver = self.make_saver()
        thread = self._thread(saver)
        old = saver.take("t")
        thread.commit("a", {"n": 1}, fence=old)
        saver.save_task("t", "", "a", TaskRecord("t1", "x", done=True), fence=old)
        new = saver.take("t", force=True)
        assert new > old
        with raises(ThreadBusy) as caught:
            thread.commit("b", {"n": 2}, fence=old)
        assert "'t'" in str(caught[0])
        assert str(new) in str(caught[0])
        with raises(ThreadBusy):
            saver.save_task("t", "", "a", TaskRecord("t1", "x", error="late"), fence=old)
        with raises(ThreadBusy):
            self._thread(saver, "t", "sub").commit("s", {"n": 1}, fence=old)
        assert thread.load().tasks == [TaskRecord("t1", "x", done=True)]
        thread.commit("c", {"n": 3}, fence=new)
        thread.check()
        thread.commit("d", {"n": 4})  # without a fence only the head is compared

    def test_run_19_a_held_thread_is_refused_until_it_is_released(self) -> None:
        saver = self.make_saver()
        attempt = saver.take("t")
        with raises(ThreadBusy) as caught:
            saver.take("t")
        assert isinstance(caught[0], ThreadBusy)
        assert caught[0].retryable
        other = saver.take("other")
        saver.release("t", attempt)
        again = saver.take("t")
        saver.release("t", attempt)  # not the one who holds it now: no effect
        with raises(ThreadBusy):
            saver.take("t")
        saver.release("t", again)
        saver.release("other", other)
        saver.release("unknown", 1)

    def test_run_19_a_save_that_was_under_way_at_the_release_is_kept_and_holds_nothing(self) -> None:
        saver = self.make_saver()
        thread = self._thread(saver)
        ended = saver.take("t")
        thread.commit("a", {"n": 1}, fence=ended)
        saver.release("t", ended)
        saver.save_task("t", "", "a", TaskRecord("t1", "x", done=True), fence=ended)
        thread.commit("b", {"n": 2}, fence=ended)
        thread.check()
        following = saver.take("t")
        thread.commit("c", {"n": 3}, fence=following)
        thread.check()
        saver.release("t", following)

    def test_run_19_a_hold_ends_by_itself_and_saving_goes_on_holding(self) -> None:
        saver = self.make_saver()
        first = saver.take("t", hold_s=0)
        second = saver.take("t", hold_s=0.2)
        assert second > first
        deadline = time.monotonic() + 0.6
        thread = self._thread(saver)
        number = 0
        while time.monotonic() < deadline:  # three times as long as the hold
            thread.commit(f"{number}", {"n": number}, fence=second)
            number += 1
        while True:  # again, if the machine was away for as long as the hold between saving and asking
            saved = time.monotonic()
            thread.commit(f"{number}", {"n": number}, fence=second)
            number += 1
            try:
                other = saver.take("t")
            except ThreadBusy:
                break
            assert time.monotonic() - saved >= 0.2, "a thread that saves is not held"
            saver.release("t", other)
            second = saver.take("t", hold_s=0.2)
        while True:  # nothing is saved any more: it ends
            try:
                third = saver.take("t")
            except ThreadBusy:
                continue
            break
        assert third > second
        with raises(InvalidConfig):
            saver.take("t", hold_s=-1)

    def test_an_attempt_of_a_deleted_thread_never_comes_back(self) -> None:
        saver = self.make_saver()
        thread = self._thread(saver)
        old = saver.take("t")
        thread.commit("a", {"n": 1}, fence=old)
        saver.delete_thread("t")
        late = self._thread(saver)
        with raises(ThreadBusy) as caught:
            late.commit("b", {"n": 2}, fence=old)
        assert "deleted" in str(caught[0])
        assert saver.take("t") > old
        with raises(ThreadBusy):
            late.commit("b", {"n": 2}, fence=old)
        assert saver.load("t") is None

    def test_writes_in_a_transaction_are_kept_together_or_not_at_all(self) -> None:
        saver = self.make_saver()
        thread = self._thread(saver)
        thread.commit("a", {"n": 1})
        doomed = self._thread(saver)
        doomed.head, doomed.values, doomed.order = "a", dict(thread.values), ["a"]
        with raises(ZeroDivisionError), saver.transaction():
            doomed.commit("b", {"n": 2})
            saver.save_task("t", "", "b", TaskRecord("t1", "x"))
            self._thread(saver, "new").commit("z", {"n": 1})
            _fail()
        thread.check()
        assert saver.load("new") is None
        with saver.transaction():
            thread.commit("c", {"n": 3})
            with raises(ThreadBusy):
                doomed.commit("d", {"n": 4})
            thread.commit("e", {"n": 5})
        thread.check()

    # -- copies

    def test_a_copy_has_everything_and_goes_its_own_way(self) -> None:
        saver = self.make_saver()
        source = self._talk(saver)
        saver.copy_thread("t", "copy")
        copy = self._thread(saver, "copy")
        copy.head, copy.values, copy.order = source.head, dict(source.values), list(source.order)
        copy.check()
        assert [each.tasks for each in saver.history("copy")] == [each.tasks for each in saver.history("t")]
        assert [each.values for each in saver.history("copy", "sub")] == [{"inner": [1, 2]}, {"inner": [1]}]
        copy.commit("mine", {"n": -1})
        source.commit("theirs", {"n": -2})
        copy.check()
        source.check()
        saver.delete_thread("t")
        copy.check()

    def test_a_copy_onto_something_or_of_nothing_is_refused(self) -> None:
        saver = self.make_saver()
        source, target = self._talk(saver), self._talk(saver, "u", 3)
        for names in (("t", "u"), ("t", "t"), ("nothing", "v")):
            with raises(InvalidInput):
                saver.copy_thread(*names)
        source.check()
        target.check()
        assert saver.load("v") is None

    # -- forgetting

    def test_pruning_keeps_the_newest_exactly(self) -> None:
        for keep in (1, 2, 3, 5):
            saver = self.make_saver()
            thread = self._talk(saver)
            other = self._talk(saver, "u", 3)
            ids = thread.order[-keep:]
            assert saver.prune(["t"], keep=keep) == len(thread.order) - keep + max(0, 2 - keep)
            self._keeps(thread, ids)
            assert self._parents(saver) == {
                each: None if at == 0 else self._parent(each) for at, each in enumerate(ids)
            }
            other.check()
            thread.commit("on", {"n": 1000, "messages": [*thread.values[thread.order[-1]]["messages"], "more"]})
            thread.commit("back", {"n": 5}, parent=ids[0])
            thread.check()
            assert saver.load("t", checkpoint_id="c0") is None
            with raises(InvalidInput):
                saver.history("t", before="c0")
            assert saver.prune("t", keep=100) == 0

    def _parents(self, saver: BaseCheckpointSaver) -> dict[str, str | None]:
        return {each.id: each.parent_id for each in reversed(saver.history("t"))}

    def _parent(self, checkpoint_id: str) -> str | None:
        if checkpoint_id == "fork":
            return None  # of a checkpoint that went
        return "fork" if checkpoint_id == "fork 2" else f"c{int(checkpoint_id[1:]) - 1}"

    def test_pruning_twice_and_after_more_turns_stays_exact(self) -> None:
        saver = self.make_saver()
        thread = self._talk(saver, turns=4)
        for turn in range(10, 16):
            old = thread.values[thread.order[-1]]["messages"]
            thread.commit(f"{turn}", {"messages": [*old, HumanMessage(f"{turn}", id=f"q{turn}")], "n": turn})
            thread.commit(f"{turn} fork", {"n": -turn}, parent=thread.order[-2])
            ids = thread.order[-2:]
            saver.prune(keep=2)
            self._keeps(thread, ids)
            thread.head = thread.order[-1]

    def test_long_values_set_again_and_again_stay_exact(self) -> None:
        saver = self.make_saver()
        thread = self._thread(saver)
        texts = ["a" * 2000, "b" * 2000, "c" * 511]
        for number in range(9):
            thread.commit(f"c{number}", {"one": texts[number % 3], "two": [texts[(number + 1) % 2]], "three": texts[0]})
        thread.commit("fork", {"one": texts[1], "two": {"x": texts[0]}}, parent="c3")
        thread.check()
        saver.copy_thread("t", "copy")
        saver.import_thread(saver.export_thread("t"), thread_id="again")
        before = saver.history("t")
        assert saver.prune("t", keep=2) == 8
        thread.commit("on", {"one": texts[0], "two": [texts[1]]})  # of which some was there before, and went
        self._keeps(thread, ["c8", "fork", "on"])
        for other in ("copy", "again"):
            assert [replace(each, thread_id="t") for each in saver.history(other)] == before
        saver.delete_thread("t")
        assert [each.values for each in saver.history("copy")] == [each.values for each in before]

    def test_a_branch_off_a_checkpoint_that_is_pruned_meanwhile_is_refused(self) -> None:
        saver = self.make_saver()
        thread = self._talk(saver)
        real = saver._known

        def overtaken(*args: Any) -> Any:
            known = real(*args)
            saver._known = real  # type: ignore[method-assign]
            saver.prune(["t"], keep=1)
            return known

        saver._known = overtaken  # type: ignore[method-assign,assignment]
        old = dict(thread.values["c1"])
        with raises(InvalidInput):
            thread.commit("late", {"messages": [*old["messages"], "x"]}, parent="c1")
        self._keeps(thread, ["fork 2"])
        thread.head = "fork 2"
        thread.commit("on", {"n": 5})
        thread.check()

    def test_pruning_removes_subgraphs_called_from_what_went(self) -> None:
        saver = self.make_saver()
        thread = self._talk(saver, turns=3)
        for origin in ("c0", "fork 2"):
            self._thread(saver, "t", f"|task@{origin}").commit(f"x {origin}", {"n": 1})
            self._thread(saver, "t", f"|task@{origin}|inner@x {origin}.1").commit(f"y {origin}", {"n": 1})
        saver.prune(["t"], keep=1)
        assert saver.read_namespaces("t") == ["", "sub", "|task@fork 2", "|task@fork 2|inner@x fork 2.1"]
        self._keeps(thread, ["fork 2"])

    def test_pruning_to_nothing_forgets_and_bad_numbers_are_refused(self) -> None:
        saver = self.make_saver()
        self._talk(saver)
        for keep in (-1, 1.5, True):
            with raises(InvalidInput):
                saver.prune(keep=keep)  # type: ignore[arg-type]
        assert len(saver.history("t")) == 8
        saver.prune(keep=0)
        assert saver.threads() == []
        assert saver.prune(["unknown"]) == 0

    def test_threads_that_are_too_old_are_swept(self) -> None:
        saver = self.make_saver(ttl=3600)
        now = time.time()
        for name, age in (("old", 4000), ("older", 9000), ("fresh", 10), ("busy", 9000)):
            self._thread(saver, name).commit("a", {"n": 1}, created_at=now - age)
        self._thread(saver, "busy", "sub").commit("b", {"n": 1}, created_at=now)
        saver.sweep()  # the first commit may have swept already
        assert set(saver.threads()) == {"busy", "fresh"}
        assert saver.load("old") is None
        assert saver.sweep() == []

    # -- questions

    def test_open_questions_of_all_threads_are_listed_the_longest_waiting_first(self) -> None:
        saver = self.make_saver()
        for at, name in enumerate(("c", "a", "b")):
            thread = self._thread(saver, name)
            thread.commit("1", {"n": 1}, next=[PlannedTask("t1", "ask")], created_at=1000.0 - at)
            question = Interrupt({"sure": name}, f"i-{name}", {"type": "boolean"})
            saver.save_task(name, "", "1", TaskRecord("t1", "ask", interrupts=[question, Interrupt("2", f"j-{name}")]))
            saver.save_task(name, "", "1", TaskRecord("t2", "other", done=True, writes=[("n", 1)]))
        found = saver.list_interrupts()
        assert [each.interrupt.id for each in found] == ["i-b", "j-b", "i-a", "j-a", "i-c", "j-c"]
        assert found[0].interrupt == Interrupt({"sure": "b"}, "i-b", {"type": "boolean"})
        assert found[0].config == {"configurable": {"thread_id": "b"}}
        assert (found[0].node, found[0].checkpoint_id, found[0].asked_at) == ("ask", "1", 998.0)
        assert [each.interrupt.id for each in saver.list_interrupts(limit=3)] == ["i-b", "j-b", "i-a"]
        answered = TaskRecord(
            "t1", "ask", interrupts=[Interrupt("1", "i-b"), Interrupt("2", "j-b")], records={"answer/i-b": True}
        )
        saver.save_task("b", "", "1", answered)
        saver.save_task("a", "", "1", TaskRecord("t1", "ask", done=True))
        thread.head = "1"
        self._go_on(saver, "c")
        assert [each.interrupt.id for each in saver.list_interrupts()] == ["j-b"]
        saver.delete_thread("b")
        assert saver.list_interrupts() == []
        with raises(InvalidInput):
            saver.list_interrupts(limit=-1)

    def _go_on(self, saver: BaseCheckpointSaver, thread_id: str) -> None:
        saver.commit(Commit("2", thread_id, "", "1", "1", 2, 2000.0, "loop", {"n": (1, 2)}, []))

    # -- as JSON

    def test_an_exported_thread_is_json_and_comes_back_exactly(self) -> None:
        saver = self.make_saver(allow=[Ticket, Colour])
        thread = self._talk(saver)
        thread.commit(
            "odd",
            {"odd": ODD, "ticket": Ticket("x", Colour.RED), "n": GONE},
            metadata={"tenant": "acme"},
            next=[PlannedTask("t9", "tool", sent=True, arg=(1, 2))],
            joins={"j": ["a"]},
        )
        saver.save_task("t", "", "odd", TaskRecord("t9", "tool", interrupts=[Interrupt("ok?", "i1")], error="no"))
        text = json.dumps(saver.export_thread("t"))
        assert "question 3" in text
        other = self.make_saver(allow=[Ticket, Colour])
        assert other.import_thread(json.loads(text)) == "t"
        thread.saver = other
        thread.check()
        assert other.history("t") == saver.history("t")
        assert other.history("t", "sub") == saver.history("t", "sub")
        assert [each.interrupt.id for each in other.list_interrupts()] == ["i1"]
        assert other.import_thread(json.loads(text), thread_id="u") == "u"
        thread.id = "u"
        thread.check()
        thread.commit("more", {"n": 7})
        thread.check()
        other.prune(["u"], keep=2)
        again = json.loads(json.dumps(other.export_thread("u")))
        other.import_thread(again, thread_id="v")
        assert [each.values for each in other.history("v")] == [each.values for each in other.history("u")]

    def test_an_export_needs_no_class_and_an_import_brings_none_in(self) -> None:
        saver = self.make_saver()
        types = frozenset({Ticket, Colour})
        thread = self._thread(saver)
        thread.commit("a", {"ticket": Ticket("x", Colour.RED), "m": [ToolMessage("4", tool_call_id="c")]}, types=types)
        data = saver.export_thread("t")
        data["namespaces"][0]["checkpoints"][0]["changes"]["ticket"] = {
            "set": {"$object": [f"{NotListed.__module__}:NotListed", {}]}
        }
        saver.import_thread(data, thread_id="u")
        with raises(TypeError) as caught:
            saver.load("u", types=types)
        assert "NotListed" in str(caught[0])
        assert thread.load(types=types).values["ticket"] == Ticket("x", Colour.RED)

    def test_an_import_of_something_else_or_onto_something_stores_nothing(self) -> None:
        saver = self.make_saver()
        self._talk(saver)
        data = saver.export_thread("t")
        broken = json.loads(json.dumps(data))
        broken["namespaces"][0]["checkpoints"][3]["changes"]["n"] = {"set": {"$what": 1}}
        twice = json.loads(json.dumps(data))
        twice["namespaces"][0]["checkpoints"][3]["id"] = "c0"
        for bad in (None, {}, {"runwell_thread": 99}, {"runwell_thread": 1, "thread_id": "u"}, broken):
            with raises(InvalidInput):
                saver.import_thread(bad, thread_id="u")  # type: ignore[arg-type]
        with raises(Exception):
            saver.import_thread(twice, thread_id="u")
        assert saver.threads() == ["t"]
        with raises(InvalidInput):
            saver.import_thread(data)
        with raises(InvalidInput):
            saver.export_thread("unknown")

    def test_async_forms_do_the_same(self) -> None:
        saver = self.make_saver()
        self._talk(saver, turns=3)

        async def use() -> None:
            attempt = await saver.atake("t")
            await saver.arelease("t", attempt)
            await saver.acopy_thread("t", "u")
            assert await saver.aprune(["u"], keep=1) == 5
            data = await saver.aexport_thread("t")
            assert await saver.aimport_thread(data, thread_id="v") == "v"
            assert sorted(await saver.athreads()) == ["t", "u", "v"]
            assert await saver.alist_interrupts() == []
            assert await saver.asweep() == []

        asyncio.run(use())


def _fail() -> None:
    raise ZeroDivisionError
