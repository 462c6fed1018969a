"""A caller's hand on a run that is under way."""

from __future__ import annotations

__all__ = ["RunControl"]


class RunControl:
    """Pass it as `control=` to a graph's `invoke` or `stream`, and call `stop()` from anywhere: another thread, a
    signal handler, a node.

    The run then ends after the step under way, saved, and its result says so under `"__stopped__"`;
    `invoke(None, config)` goes on from there. One control may serve several runs; once stopped it stays so.
    """

    __slots__ = ("_reason", "_stopped")

    def __init__(self) -> None:
        self._stopped = False
        self._reason = ""

    def stop(self, reason: str = "") -> None:
        """Ask the run to end after the step under way. Harmless when repeated: the first reason stands."""
        if not self._stopped:
            self._reason = reason
            self._stopped = True

    def request_drain(self, reason: str = "") -> None:
        """`stop`, by another name."""
        self.stop(reason)

    @property
    def stopped(self) -> bool:
        """Whether a stop was asked for. A node with much to do may look at it and return early."""
        return self._stopped

    @property
    def drain_requested(self) -> bool:
        """`stopped`, by another name."""
        return self._stopped

    @property
    def reason(self) -> str:
        """What `stop` was told."""
        return self._reason

    @property
    def drain_reason(self) -> str | None:
        """`reason`, by another name; None while none was asked for."""
        return self._reason if self._stopped else None

    def __repr__(self) -> str:
        return f"RunControl(stopped={self._stopped}, reason={self._reason!r})"
