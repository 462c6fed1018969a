"""The tasks that one piece of code has called: their numbers, how many run at once, and the wait for their end.

A call's place is the order in which it was made, among those of the same thread or asyncio task: so two pipelines that
run side by side number their calls alike in every run, however they interleave.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from runwell.effects import Call, Callee
from runwell.errors import CallOrderChanged, GraphInterrupt, NodeTimeoutError, RunCancelled
from runwell.graph.recorded import CALL
from runwell.ports.command import Interrupt
from runwell.ports.runtime import TaskScope
from runwell.ports.saver import TaskRecord

if TYPE_CHECKING:
    from concurrent.futures import Future

    from runwell.graph.future import TaskFuture

__all__ = ["Calls", "calls_of", "closed", "ended_by", "settled"]

T = TypeVar("T")


async def settled(scope: TaskScope, work: Coroutine[Any, Any, T]) -> T:
    """Run code of `scope`, and wait for the tasks it calls, however it ends.

    The pause it asked for holds even if it caught everything, or returned in a `finally`.
    """
    try:
        result = await work
        if scope.calls is not None or scope.pause is not None:
            await closed(scope)
        return result
    except BaseException as error:
        if scope.calls is not None:
            await ended_by(scope.calls, error)
        raise


async def closed(scope: TaskScope) -> None:
    """What `settled` does once the code has come to its end."""
    if scope.calls is not None:
        await scope.calls.close()
    if scope.pause is not None:
        raise scope.pause


async def ended_by(calls: Calls, error: BaseException) -> None:
    """What `settled` does with the tasks of code that did not come to its end. A pause that they add to is raised."""
    if isinstance(error, GraphInterrupt):
        pause = await calls.paused(error)
        if pause is not error:
            raise pause from None
    elif isinstance(error, Exception):
        await calls.failed(error)
    else:
        calls.cancel()


def calls_of(scope: TaskScope) -> Calls:
    """The calls of a task's code; made when it calls its first."""
    if scope.calls is None:
        scope.calls = Calls(scope)
    found: Calls = scope.calls
    return found


class Calls:
    """The calls of one attempt at one task. Safe to use from the threads and asyncio tasks that its code starts."""

    __slots__ = ("_branches", "_claimed", "_closed", "_idle", "_limit", "_lock", "_open", "_waiting", "ended", "scope")

    def __init__(self, scope: TaskScope) -> None:
        self.scope = scope
        self.ended: list[TaskFuture[Any]] = []
        """Calls that failed or paused."""
        self._limit: int | None = scope.run.max_concurrency if scope.run is not None else None
        self._lock = threading.Lock()
        self._branches: dict[Any, list[int]] = {}
        self._claimed: set[str] = set()
        self._closed = False
        self._open: set[TaskFuture[Any]] = set()
        self._waiting: deque[tuple[TaskFuture[Any], Callable[[], None]]] = deque()
        self._idle: Future[None] | None = None

    # -- which call it is

    def place(self) -> str:
        """The id of the call that is being made. Raises RunCancelled once the code around it has ended."""
        aio = sys.modules.get("asyncio")
        loop = aio._get_running_loop() if aio is not None else None
        here = threading.current_thread() if loop is None else sys.modules["asyncio"].current_task(loop)
        with self._lock:
            if self._closed:  # made by a thread or asyncio task that was left behind
                raise RunCancelled()
            branch = self._branches.setdefault(here, [len(self._branches), 0])
            which, number = branch
            branch[1] += 1
        return f"{self.scope.task_id}:{f'b{which}' if which else ''}t{number}"

    def known(self, id_: str, name: str, mark: str | None) -> TaskRecord | None:
        """The record of this very call, if it ended in an earlier attempt. Raises CallOrderChanged."""
        records: dict[str, TaskRecord] = self.scope.run.records
        found = records.get(id_)
        if found is None or CALL not in found.records or not found.done:
            self._claimed.add(id_)
            return None
        with self._lock:
            if id_ not in self._claimed and _fits(found, name, mark):
                self._claimed.add(id_)
                return found
            start = id_[: id_.rindex(":") + 1]
            for other, record in list(records.items()):  # the same calls in another order
                mine = other.startswith(start) and ":" not in other[len(start) :] and other not in self._claimed
                if mine and record.done and CALL in record.records and _fits(record, name, mark):
                    self._claimed.add(other)
                    return record
        was = found.records[CALL][0]
        what = f"task {was!r} was called, and now {name!r}" if was != name else f"{name!r} got other arguments"
        raise CallOrderChanged(
            f"Node {self.scope.node!r} runs again and does not call the tasks that it called before: at {id_!r} {what}"
            f"{' is' if was != name else ''}.",
            hint="Up to where it got before, code that calls tasks must make the same calls: keep times, random values "
            "and what comes from outside in tasks of their own. If a task's arguments may differ, say "
            "@task(check_arguments=False). To start over, send new input.",
        )

    # -- running

    def start(self, future: TaskFuture[Any], begin: Callable[[], None]) -> None:
        """Begin a call, now or when one of those before it has ended."""
        future.on_end = self._ended
        with self._lock:
            if self._limit is not None and len(self._open) >= self._limit:
                self._waiting.append((future, begin))
                return
            self._open.add(future)
        begin()

    def _ended(self, future: TaskFuture[Any]) -> None:
        then: Callable[[], None] | None = None
        with self._lock:
            self._open.discard(future)
            if not future.cancelled() and future.problem() is not None:
                self.ended.append(future)
            while self._waiting and then is None:
                following, then = self._waiting.popleft()
                if following.cancelled():
                    then = None
                else:
                    self._open.add(following)
            idle = self._idle if not self._open else None
        if then is not None:
            then()
        if idle is not None and not idle.done():
            idle.set_result(None)

    # -- their end

    async def close(self) -> None:
        """After the code has returned: wait for all; raise an error nobody looked at, or the pause some asked for."""
        await self._wait()
        self._raise_unseen()
        questions = self._questions()
        if questions:
            raise GraphInterrupt(questions)

    async def paused(self, pause: GraphInterrupt) -> GraphInterrupt:
        """After the code was paused: wait for all; the pause with the questions of each."""
        await self._wait()
        self._raise_unseen()
        known = {question.id: question for question in (*pause.interrupts, *self._questions())}
        return GraphInterrupt(list(known.values())) if len(known) > len(pause.interrupts) else pause

    async def failed(self, error: Exception) -> None:
        """After the code has failed: begin no more, wait for the rest, which is kept; note what else failed."""
        if isinstance(error, NodeTimeoutError) and all(future.problem() is not error for future in self.ended):
            self.cancel()  # the time of the code itself is up
            return
        with self._lock:
            not_begun = [future for future, _ in self._waiting]
            self._waiting.clear()
        for future in not_begun:
            future.cancel()
        await self._wait()
        for future in self.ended:
            other = future.problem()
            if other is not error and not future.seen and isinstance(other, Exception):
                error.add_note(f"task {future.name!r} failed too: {type(other).__name__}: {other}")
                future.seen = True

    def cancel(self) -> None:
        """Stop what can be stopped, without waiting."""
        with self._lock:
            under_way = [*self._open, *(future for future, _ in self._waiting)]
            self._waiting.clear()
            self._closed = True
        for future in under_way:
            future.cancel()

    async def _wait(self) -> None:
        with self._lock:
            self._closed = True
            if not self._open:
                return
            from concurrent.futures import Future

            idle = self._idle = Future()
        await Call(Callee(idle.result, lambda: _awaited(idle)))

    def _questions(self) -> list[Interrupt]:
        pauses = [future.problem() for future in self.ended]
        asked = [question for pause in pauses if isinstance(pause, GraphInterrupt) for question in pause.interrupts]
        return list({question.id: question for question in asked}.values())

    def _raise_unseen(self) -> None:
        for future in self.ended:
            problem = future.problem()
            if not future.seen and problem is not None and not isinstance(problem, GraphInterrupt):
                raise problem


async def _awaited(idle: Future[None]) -> None:
    from asyncio import wrap_future

    await wrap_future(idle)


def _fits(record: TaskRecord, name: str, mark: str | None) -> bool:
    known, then = record.records[CALL]
    return known == name and (mark is None or then is None or then == mark)
