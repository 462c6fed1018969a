"""A saver's methods as effects."""

from __future__ import annotations

from functools import partial
from typing import Any

from runwell.drivers.colour import is_async
from runwell.effects import Call, Callee, Later, Sleep
from runwell.errors import GraphError, InvalidConfig, ThreadBusy
from runwell.ports.saver import Checkpoint, Commit, TaskRecord

__all__ = ["SaverCalls", "checked_saver"]

GRACE_S = 0.3
"""How long a busy thread is asked for again before it counts as busy: a run whose stream was just dropped by its
reader, or that has just told of a pause, is still letting it go."""
FIRST_LOOK_S, LAST_LOOK_S = 0.01, 0.5
""" and how often, at first and in the long run."""


class SaverCalls:
    """A saver's methods as effects, each in whatever colour the saver has it, with the graph's own types allowed."""

    __slots__ = ("_commit", "_history", "_load", "_release", "_save_task", "_take", "copier", "saver", "types")

    def __init__(self, saver: Any, types: frozenset[type]) -> None:
        self.saver = saver
        self.types = types
        self.copier: Any = None
        self._commit = _method(saver, "commit")
        self._save_task = _method(saver, "save_task")
        self._load = _method(saver, "load")
        self._history = _method(saver, "history")
        self._take = _method(saver, "take") if hasattr(saver, "take") and hasattr(saver, "release") else None
        self._release = _method(saver, "release") if self._take is not None else None

    def commit(self, commit: Commit) -> Call[None]:
        return Call(self._commit, commit, self.types, shield=True)

    async def save_task(
        self,
        thread_id: str | None,
        ns: str,
        checkpoint_id: str | None,
        record: TaskRecord,
        fence: int | None = None,
    ) -> None:
        fenced = () if fence is None else (fence,)
        await Call(self._save_task, thread_id, ns, checkpoint_id, record, self.types, *fenced, shield=True)

    async def take(self, thread_id: str | None, on_busy: str) -> int | None:
        """Begin to run a thread: the attempt that everything saved carries, or None where the saver knows none.

        Raises ThreadBusy when another run has the thread. `on_busy="wait"` waits until it is free, `"take"` takes it.
        """
        if self._take is None:
            return None
        callee, pause, left = self._take, FIRST_LOOK_S, GRACE_S
        if on_busy == "take":
            callee = _with(callee, {"force": True})
        taking = None if callee.cheap else _Taking(callee, self._release)
        while True:
            try:
                attempt: int = await Call(callee if taking is None else taking.callee, thread_id, shield=True)
            except ThreadBusy as busy:
                if not busy.retryable or (on_busy == "raise" and left <= 0):
                    raise
            except BaseException:
                if taking is not None and (taken := taking.given_up()) is not None:
                    await self.release(thread_id, taken)
                raise
            else:
                return attempt
            await Sleep(pause)
            left -= pause
            pause = min(pause * 2, LAST_LOOK_S)

    async def release(self, thread_id: str | None, attempt: int) -> None:
        assert self._release is not None
        await Call(self._release, thread_id, attempt, shield=True)

    async def load(self, thread_id: str | None, ns: str, checkpoint_id: str | None) -> Checkpoint | None:
        found: Checkpoint | None = await Call(self._load, thread_id, ns, checkpoint_id, self.types)
        return found

    async def history(self, thread_id: str, ns: str, options: dict[str, Any]) -> list[Checkpoint]:
        return list(await Call(_with(self._history, {**options, "types": self.types}), thread_id, ns))

    async def questions(self, limit: int | None) -> list[Any]:
        """The open questions of all threads."""
        if not hasattr(self.saver, "list_interrupts"):
            raise InvalidConfig(
                f"{type(self.saver).__name__} cannot list questions across threads.",
                hint="Use a saver of runwell's, or look at get_state(config).interrupts thread by thread.",
            )
        return list(await Call(_with(_method(self.saver, "list_interrupts"), {"limit": limit, "types": self.types})))


class _Taking:
    """A saver's `take` for a run that may be cancelled meanwhile. The thread is taken all the same, and who does not
    learn by which attempt cannot let it go: then it is let go here."""

    __slots__ = ("callee", "gone", "release", "taken")

    def __init__(self, take: Callee[int], release: Callee[None] | None) -> None:
        self.taken: list[int] = []  # popped by the one who lets go: its caller, or the call that ends after that
        self.gone = False
        self.release: Any = release
        sync: Any = None if take.sync is None else partial(self._plain, take.sync)
        now = None if take.now is None else partial(self._now, take.now)
        self.callee = Callee(sync, None if take.aio is None else partial(self._awaited, take.aio), now=now)

    def given_up(self) -> int | None:
        """The attempt to be let go by who does not wait any more, if there is one by now."""
        self.gone = True
        return self._popped()

    def _popped(self) -> int | None:
        try:
            return self.taken.pop()
        except IndexError:
            return None

    def _now(self, take: Any, thread_id: str) -> Any:
        attempt = take(thread_id)
        return Later(partial(self._plain, lambda _: attempt.work(), thread_id)) if type(attempt) is Later else attempt

    def _plain(self, take: Any, thread_id: str) -> Any:
        attempt = take(thread_id)
        if not isinstance(attempt, int):  # a coroutine, for the driver to await
            return attempt
        self.taken.append(attempt)
        if self.gone and self.release.sync is not None and (late := self._popped()) is not None:
            self.release.sync(thread_id, late)
        return attempt

    async def _awaited(self, take: Any, thread_id: str) -> int:
        attempt: int = await take(thread_id)
        self.taken.append(attempt)
        if self.gone and self.release.aio is not None and (late := self._popped()) is not None:
            await self.release.aio(thread_id, late)
        return attempt


def _with(called: Callee[Any], options: dict[str, Any]) -> Callee[Any]:
    return Callee(
        None if called.sync is None else partial(called.sync, **options),
        None if called.aio is None else partial(called.aio, **options),
        cheap=called.cheap,
        now=None if called.now is None else partial(called.now, **options),
    )


def _method(saver: Any, name: str) -> Callee[Any]:
    method = getattr(saver, name)
    if is_async(method):
        return Callee(None, method)
    twin = getattr(saver, f"a{name}", None)
    if getattr(twin, "__off_loop__", False):  # the same in another thread: that the driver does by itself
        twin = None
    now = getattr(saver, "at_once", None) if twin is None else None
    cheap = bool(getattr(saver, "cheap", False))
    return Callee(method, twin, cheap=cheap, now=None if now is None or cheap else partial(now, method))


def checked_saver(given: Any) -> Any:
    """What a graph saves with, as it asks for it; GraphError if it cannot."""
    if isinstance(given, type):
        raise GraphError(f"checkpointer is the class {given.__name__!r}.", hint=f"Pass one: {given.__name__}(...).")
    if not hasattr(given, "commit") and (hasattr(given, "get_tuple") or hasattr(given, "aget_tuple")):
        from runwell.persistence.checkpoints.adapter import SaverAdapter  # written for another framework

        return SaverAdapter(given)
    if not (given is None or isinstance(given, bool) or callable(getattr(given, "commit", 0))):
        raise GraphError(
            f"checkpointer={given!r} cannot save a graph.",
            hint="Pass a saver such as InMemorySaver() or SqliteSaver(path). Inside another graph None saves each "
            "call by itself, True keeps a memory per thread, False saves nothing.",
        )
    return given
