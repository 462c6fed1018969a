"""One connection to one server: opened when first needed, shared by all calls, opened again when it was lost.

Everything here runs on the MCP loop. A session is entered and left by one task of its own, as the SDK asks; calls
come from other tasks.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import dataclass
from typing import Any, Literal

from runwell.errors import MCPConnectionError, RunwellError
from runwell.mcp.loop import at_exit, bridge
from runwell.mcp.program import Complaints
from runwell.mcp.target import Http, Stdio, Target, connector
from runwell.mcp.text import bounded

__all__ = ["Callbacks", "Connection", "Session"]

_log = logging.getLogger("runwell.mcp")

_REFUSALS = (401, 403)
_WHO = "401 and 403: headers= or auth= are missing or wrong."

_TIMED_OUT = re.compile(r"Request '.*' timed out|Timed out after .*s waiting for .*")
"""What the SDK says when a request took too long."""

_NO_SESSION = ("Session terminated", "Session not found")
"""What the SDK says, and its servers, when a session is over; others answer with status 404."""

LEAVING_S = 12.0
"""How long to wait for a session to be left: the SDK's own stages (closing, SIGTERM, SIGKILL) take up to 7."""


@dataclass(slots=True)
class Callbacks:
    """What the SDK's client calls; each None is a capability that the server is not told of."""

    elicitation: Any = None
    sampling: Any = None
    roots: Any = None
    logging: Any = None
    log_level: Any = None


class Session:
    """A session that is open, or was. `lost` once the other side is gone; `changed` names the lists that are old."""

    def __init__(self, home: Any) -> None:
        self.home = home
        self.client: Any = None
        self.task: asyncio.Task[None] | None = None
        self.stop = asyncio.Event()
        self.lost = False
        self.cause: BaseException | None = None
        self.status: int | None = None
        self.changed = {"tools", "prompts", "resources"}
        self.listing = asyncio.Lock()
        """Held while tools are listed: a call that depends on the list waits for it."""
        self.why: str | None = None
        """Why a program was ended, if it did not end by itself."""
        self.complaints = Complaints()

    @property
    def ended(self) -> bool:
        return self.lost or self.task is None or self.task.done() or self.stop.is_set()

    def end(self, why: str | None = None) -> None:
        self.why = why or self.why
        self.lost = True
        self.stop.set()

    async def heard(self, response: Any) -> None:
        self.status = response.status_code

    def never_reached(self) -> bool:
        """Whether no connection was made at all, so that nothing was sent."""
        return any(
            type(each).__name__ in ("ConnectError", "ConnectTimeout", "ProxyError") for each in leaves(self.cause)
        )


def leaves(error: BaseException | None) -> list[BaseException]:
    """The errors in a group of groups."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in leaves(each)]
    return [] if error is None else [error]


class Connection:
    """Sessions with one server. With `scope="call"` each use opens one of its own and closes it after."""

    def __init__(
        self,
        target: Target,
        name: str,
        *,
        scope: Literal["shared", "call"] = "shared",
        connect_timeout: float = 30.0,
        timeout: float | None = 300.0,
        mode: str = "auto",
        callbacks: Callbacks | None = None,
        on_change: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self.target = target
        self.name = name
        self.scope = scope
        self.connect_timeout = connect_timeout
        self.timeout = timeout
        self.mode = mode
        self.callbacks = callbacks or Callbacks()
        self.on_change = on_change
        self.opened = 0
        """How many sessions were opened so far."""
        self._live: Session | None = None
        self._opening: tuple[Any, asyncio.Lock] | None = None

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """A session to use now. Raises MCPConnectionError if the server cannot be reached."""
        if self.scope == "call":
            own = await self._open()
            try:
                yield own
            finally:
                await self._leave(own)
        else:
            yield await self._shared()

    async def _shared(self) -> Session:
        home = bridge()
        if self._opening is None or self._opening[0] is not home:  # first use, or a forked child's
            self._opening, self._live = (home, asyncio.Lock()), None
        async with self._opening[1]:
            live = self._live
            if live is None or live.ended:
                if live is not None:
                    await self._leave(live)
                live = self._live = await self._open()
                at_exit(self, self.close)
            return live

    async def send(self, use: Callable[[Session], Awaitable[Any]], *, again: bool = True) -> Any:
        """`use(session)`; after a lost connection once more, if the first try never reached the server or `again`."""
        from mcp.shared.exceptions import MCPError

        for last in (False, True):
            async with self.session() as session:
                try:
                    return await use(session)
                except MCPError as error:
                    self._not_an_answer(session, error)
                    sent = await self._lost(session, error)
                    if sent is None:
                        raise
                    if last or (sent and not again):
                        raise self._gone(session, error, sent) from error
                    _log.info("MCP server %r went away; connecting again", self.name)
        raise AssertionError

    def _not_an_answer(self, session: Session, error: Any) -> None:
        """Raise MCPConnectionError for what the SDK tells as an answer, and is a missing or unreadable one."""
        from mcp_types import INTERNAL_ERROR, REQUEST_TIMEOUT

        # The codes are also what servers take for errors of their own.
        if error.code == REQUEST_TIMEOUT and _TIMED_OUT.fullmatch(error.message):
            raise MCPConnectionError(
                f"MCP server {self.name!r} ({self.target.place}) did not answer within {self.timeout:g} s: "
                "whether the call was carried out is not known.",
                hint="Give it longer with MCPClient(..., timeout=...).",
            ) from error
        if error.code == INTERNAL_ERROR and error.message == "Server returned an error response":
            raise MCPConnectionError(
                f"MCP server {self.name!r} ({self.target.place}) answered with HTTP status {session.status}.",
                hint=_WHO if session.status in _REFUSALS else None,
            ) from error

    async def _lost(self, session: Session, error: Any) -> bool | None:
        """None if the error is the server's own answer; else whether the request may have reached it."""
        from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST

        if error.code == INVALID_REQUEST and (error.message in _NO_SESSION or session.status == 404):
            session.end()  # it was started anew, or waited too long: it knows nothing of this session, nor of the call
            return False
        if error.code != CONNECTION_CLOSED:
            return None
        if error.message.startswith("SSE stream ") and isinstance(self.target, Http):
            return True  # only this request's own stream broke; others go on
        if error.message != "Connection closed":
            return None  # the code is also what servers take for an error of their own
        session.end()
        if session.task is not None:
            await asyncio.wait({session.task}, timeout=LEAVING_S)
        return not session.never_reached()

    def _gone(self, session: Session, error: Any, sent: bool) -> MCPConnectionError:
        if not sent:
            return self._unreachable(session.cause or error, session)
        why = f" ({session.why})" if session.why else ""
        why = why if error.message == "Connection closed" else f" ({error.message})"
        made = MCPConnectionError(
            f"MCP server {self.name!r} ({self.target.place}) went away before it answered{why}: "
            "whether the call was carried out is not known.",
            hint="The next call connects again. It is sent again by itself only for tools that you say are idempotent "
            "(MCPClient(..., safe=[...])).",
        )
        return _with_complaints(made, session)

    async def _open(self) -> Session:
        session = Session(bridge())
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # A context of its own: the session outlives the run that opens it.
        session.task = asyncio.get_running_loop().create_task(self._own(session, ready), context=Context())
        self.opened += 1
        try:
            await asyncio.shield(ready)
        except asyncio.CancelledError:
            session.task.cancel()
            raise
        except RunwellError:
            raise
        except Exception as error:
            session.cause = session.cause or error
            raise self._unreachable(error, session) from error
        return session

    async def _own(self, session: Session, ready: asyncio.Future[None]) -> None:
        try:
            async with contextlib.AsyncExitStack() as stack:
                async with asyncio.timeout(self.connect_timeout):
                    session.client = await stack.enter_async_context(self._client(session))
                ready.set_result(None)
                listening = asyncio.create_task(self._listen(session))
                try:
                    await session.stop.wait()
                finally:
                    listening.cancel()
                    await asyncio.wait({listening})
        except (Exception, asyncio.CancelledError) as error:
            session.cause = error
            if not ready.done():
                ready.set_exception(
                    error if isinstance(error, Exception) else MCPConnectionError("The connection was given up.")
                )
            elif not session.stop.is_set():
                _log.info("the connection to MCP server %r ended: %r", self.name, leaves(error))
        finally:
            session.lost = True

    def _client(self, session: Session) -> Any:
        from mcp_types import Implementation

        from mcp import Client
        from runwell import __version__

        given = self.callbacks
        made = connector(self.target, self.name, session.complaints, session.heard, session.end)
        if isinstance(made, Client):
            return made
        return Client(
            made,
            read_timeout_seconds=self.timeout,
            sampling_callback=given.sampling,
            list_roots_callback=given.roots,
            elicitation_callback=given.elicitation,
            logging_callback=given.logging,
            log_level=given.log_level,
            message_handler=lambda message: self._notified(session, message),
            client_info=Implementation(name="runwell", version=__version__),
            mode=self.mode,
            cache=None,
        )

    async def _notified(self, session: Session, message: Any) -> None:
        method = getattr(message, "method", "")
        if method.endswith("/list_changed"):
            await self._changed(session, method.split("/")[1])

    async def _changed(self, session: Session, what: str) -> None:
        session.changed.add(what)
        if self.on_change is not None:
            await self.on_change(what)

    async def _listen(self, session: Session) -> None:
        """Hear of changed lists, which newer servers tell only those who subscribe."""
        from mcp.client.subscriptions import SubscriptionLost
        from mcp.shared.exceptions import MCPError
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        can = session.client.server_capabilities
        wanted = {
            f"{what}_list_changed": bool(getattr(getattr(can, what), "list_changed", False))
            for what in ("tools", "prompts", "resources")
        }
        if session.client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not any(wanted.values()):
            return
        try:
            async with session.client.listen(**wanted) as events:
                async for event in events:
                    name = type(event).__name__.removesuffix("ListChanged").lower()
                    if name in ("tools", "prompts", "resources"):
                        await self._changed(session, name)
        except (MCPError, SubscriptionLost, TimeoutError) as error:
            _log.debug("MCP server %r tells of no changes: %r", self.name, error)

    def _unreachable(self, error: BaseException, session: Session) -> MCPConnectionError:
        said = "; ".join(_short(each) for each in leaves(error)) or repr(error)
        if isinstance(self.target, Stdio) and said == "MCPError: Connection closed":
            said = session.why or "the program ended before it answered"
        if isinstance(error, TimeoutError):
            said = f"no answer within {self.connect_timeout:g} s"
        if session.status is not None and session.status >= 400:
            said = f"HTTP {session.status} ({said})"
        made = MCPConnectionError(
            f"MCP server {self.name!r} ({self.target.place}) cannot be reached: {said}.", hint=self._hint(session)
        )
        made.retryable = session.status not in _REFUSALS
        return _with_complaints(made, session)

    def _hint(self, session: Session) -> str:
        if session.status in _REFUSALS:
            return _WHO
        if isinstance(self.target, Stdio):
            return "Is the program installed? What it wrote to its standard error stands there too."
        return "Is the server running, and the address right, its path included (often /mcp)?"

    async def _leave(self, session: Session) -> None:
        session.stop.set()
        if session.task is not None:
            await asyncio.wait({session.task}, timeout=LEAVING_S)

    async def close(self) -> None:
        """Leave the session and end the server's process, if it is one. The next use opens another."""
        live, self._live = self._live, None
        at_exit(self, None)
        if live is not None and live.home is bridge():
            await self._leave(live)


def _short(error: BaseException) -> str:
    """An error in one line: pydantic's have a line for each kind of message that it is not."""
    return bounded(f"{type(error).__name__}: {error}".partition("\n")[0], 500)


def _with_complaints(error: MCPConnectionError, session: Session) -> MCPConnectionError:
    """The error with a program's last words as a note: for whoever reads the trace, not for a model."""
    if said := session.complaints.end:
        error.add_note(f"Its standard error ended with:\n{said}")
    return error
