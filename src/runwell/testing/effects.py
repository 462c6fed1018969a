"""A driver that writes down every effect, and can stop a run dead before any one of them.

With it a test tries what no test that starts and kills processes can: a crash between any two things a run does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextvars import copy_context
from itertools import count
from typing import Any, TypeVar

from runwell.drivers.sync import SyncDriver, foreign
from runwell.effects import Call, Effect, Emit, Flow, Outcome, RunTasks, Sleep, Then
from runwell.errors import RunCancelled

__all__ = ["EnumeratingDriver", "Killed", "kills"]

T = TypeVar("T")


class Killed(BaseException):
    """The run was stopped before the effect with number `.before`. None of its clean-up asked for has happened."""

    def __init__(self, before: int) -> None:
        super().__init__(f"killed before effect {before}")
        self.before = before


class EnumeratingDriver(SyncDriver):
    """Runs engine code in the calling thread, one effect after the other.

    `effects` lists what was carried out, in order, effects of tasks and of a hook's inner flow included; `emitted` is
    what the run emitted. Tasks run to their end one by one, in the order that `order(how many)` gives (default: as
    given), so that the same program asks for the same effects every time. `Sleep` does not wait.

    With `kill_before=n` the effect with number n (from 0) and all after it do not happen: `Killed` is raised instead,
    also from whatever clean-up asks for, as if the process had ended there.
    """

    __slots__ = ("_order", "effects", "emitted", "kill_before")

    def __init__(self, kill_before: int | None = None, *, order: Callable[[int], Sequence[int]] | None = None) -> None:
        self.kill_before = kill_before
        self.effects: list[Effect[Any]] = []
        self.emitted: list[Any] = []
        self._order: Callable[[int], Sequence[int]] = order or range
        super().__init__(self.emitted.append)

    def run(self, coroutine: Flow[T]) -> T:
        """Run engine code to its end, under a context of its own."""
        return copy_context().run(self.drive, coroutine)

    def drive(self, flow: Flow[T] | Then[T], thrown: BaseException | None = None) -> T:
        coroutine: Any = flow.__await__() if isinstance(flow, Then) else flow
        value: Any = thrown
        step: Callable[[Any], Any] = coroutine.send if thrown is None else coroutine.throw
        try:
            while True:
                effect = step(value)
                try:
                    value = self._carry_out(effect, coroutine)
                    step = coroutine.send
                except BaseException as error:
                    value, step = error, coroutine.throw
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    def _carry_out(self, effect: Any, coroutine: Flow[Any]) -> Any:
        perform = self._table.get(type(effect))
        if perform is None:
            raise foreign(effect, coroutine)
        if self.kill_before is not None and len(self.effects) >= self.kill_before:
            raise Killed(self.kill_before)
        self.effects.append(effect)
        return perform(self, effect)

    def _one_by_one(self, effect: RunTasks[Any]) -> list[Outcome[Any]]:
        outcomes: list[Outcome[Any]] = [Outcome(error=RunCancelled()) for _ in effect.tasks]
        for index in self._order(len(effect.tasks)):
            outcomes[index] = outcome = copy_context().run(self._task, effect.tasks[index])
            if effect.stop_on_error and isinstance(outcome.error, Exception):
                break
        return outcomes

    def _task(self, task: Callable[[], Flow[Any]]) -> Outcome[Any]:
        try:
            return Outcome(self.drive(task()))
        except (KeyboardInterrupt, Killed):
            raise
        except BaseException as error:
            return Outcome(error=error)

    def _at_once(self, effect: Sleep) -> None:
        return None

    def names(self) -> list[str]:
        """The effects in words: `"Call(search)"`, `"Now"`, `"Emit('x')"`."""
        return [_named(effect) for effect in self.effects]


EnumeratingDriver._table = {
    **SyncDriver._table,
    RunTasks: EnumeratingDriver._one_by_one,
    Sleep: EnumeratingDriver._at_once,
}


def kills(
    start: Callable[[], Flow[Any]], *, order: Callable[[int], Sequence[int]] | None = None
) -> Iterator[EnumeratingDriver]:
    """Every way in which a run can be cut off: killed before its first effect, before its second, and so on.

    `start` gives the flow to run, each time with everything new that the run changes. What comes is the driver, after
    the kill; the run that would have come to its end is not among them.
    """
    for before in count():
        driver = EnumeratingDriver(before, order=order)
        try:
            driver.run(start())
        except Killed:
            yield driver
        else:
            return


def _named(effect: Effect[Any]) -> str:
    if isinstance(effect, Call):
        return f"Call({str(effect.callee).rpartition('.')[2]})"
    if isinstance(effect, Emit):
        return f"Emit({effect.item!r})"
    if isinstance(effect, RunTasks):
        return f"RunTasks({len(effect.tasks)})"
    return type(effect).__name__
