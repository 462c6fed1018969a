"""Ending a request of AWS's SDK from another thread: it blocks a thread until the answer is there, and a task that was
cancelled wants none."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from functools import cache, lru_cache
from typing import Any, TypeVar

__all__ = ["Call", "let_calls_be_severed"]

T = TypeVar("T")


class Call:
    """One request. `sever` makes what waits for its answer fail, and never touches a connection that has gone back to
    the pool, where another call may have taken it."""

    __slots__ = ("_connection", "_lock", "_severed")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: Any = None
        self._severed = False

    def run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """`function(...)`, whose request this is."""
        token = _CALL.set(self)
        try:
            return function(*args, **kwargs)
        finally:
            _CALL.reset(token)

    def steps(self, iterator: Iterator[T]) -> Iterator[T]:
        """The iterator, for one thread that reads it all: its request is this."""
        token = _CALL.set(self)
        try:
            yield from iterator
        except Exception:
            if not self._severed:  # else nobody wants to know
                raise
        finally:
            _CALL.reset(token)

    def sever(self) -> None:
        """From any thread, at any time."""
        with self._lock:
            self._severed = True
            self._shut()

    def takes(self, connection: Any) -> None:
        """It is sent over this one, until None gives it back."""
        with self._lock:
            self._connection = connection
            if self._severed:
                self._shut()

    def _shut(self) -> None:
        open_ = getattr(self._connection, "sock", None)
        if isinstance(open_, socket.socket):
            with suppress(OSError):
                # the plain socket's own: that of TLS would take away what the reading thread is using
                socket.socket.shutdown(open_, socket.SHUT_RDWR)


_CALL: ContextVar[Call | None] = ContextVar("runwell_bedrock_call", default=None)


def let_calls_be_severed(client: Any) -> None:
    """Have a client of the SDK's tell which connection a `Call` uses. One that is made otherwise than those known is
    left as it is: its calls end by themselves."""
    session: Any = getattr(getattr(client, "_endpoint", None), "http_session", None)
    known = getattr(session, "_pool_classes_by_scheme", None)
    manager = getattr(session, "_manager", None)
    if not isinstance(known, dict) or manager is None:
        return
    session._pool_classes_by_scheme = {scheme: _telling(kind) for scheme, kind in known.items()}
    manager.pool_classes_by_scheme = session._pool_classes_by_scheme


@cache
def _telling(kind: Any) -> Any:
    """The SDK's class of connection pools, which tells a call what it takes and gives back."""

    class Telling(kind):  # type: ignore[misc]
        @property
        def ConnectionCls(self) -> Any:  # asked each time: recorders put in theirs
            return _telling_connection(kind.ConnectionCls)

        def _make_request(self, conn: Any, *args: Any, **kwargs: Any) -> Any:
            _tell(conn)
            return super()._make_request(conn, *args, **kwargs)

        def _put_conn(self, conn: Any) -> None:
            _tell(None)
            super()._put_conn(conn)

    return Telling


@lru_cache(maxsize=8)
def _telling_connection(kind: Any) -> Any:
    class Connection(kind):  # type: ignore[misc]
        def connect(self) -> None:
            super().connect()
            _tell(self)  # again, as there is something to sever from now on

    return Connection


def _tell(connection: Any) -> None:
    call = _CALL.get()
    if call is not None:
        call.takes(connection)
