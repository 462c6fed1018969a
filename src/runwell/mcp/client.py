"""A client of one MCP server."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self

from runwell.drivers.aio import call_async
from runwell.drivers.colour import callee
from runwell.errors import DuplicateTool, MCPToolChanged, ToolDefinitionError
from runwell.mcp.connection import Callbacks, Connection, Session
from runwell.mcp.content import check_output, output_validator
from runwell.mcp.handlers import in_session, legacy_elicitation, logging_callback, roots_callback, sampling_callback
from runwell.mcp.loop import from_async, from_plain
from runwell.mcp.offers import Offers
from runwell.mcp.options import check_options
from runwell.mcp.questions import PAGE, Asker, pages_to_visit, question_of
from runwell.mcp.selection import check_pin, digest, matches, read_pins, selected, unknown, write_pins
from runwell.mcp.target import Http, Target, sdk, target_of
from runwell.mcp.text import MCPLimits, bounded, clean_schema, tool_name
from runwell.mcp.tool import MCPTool
from runwell.ports.seat import Held

__all__ = ["MCPClient"]

_log = logging.getLogger("runwell.mcp")


CONNECT_S = 30.0
LOGIN_S = 300.0


class MCPClient(Offers):
    """A client of one MCP server: its tools, resources and prompts, for callers of either colour.

    `target` is a URL, `Stdio(...)`, `Http(...)`, the `Path` of a Python file, a mapping with `url` or `command`, or a
    server object of the SDK in this process. Text is always a URL: it never starts a program. Nothing is connected
    before first use; then one session serves all callers and is opened again when it was lost. `session="call"` opens
    one for each call instead. `close()`, `aclose()`, a `with` block or the end of the program end it, and the
    server's process with it.

    Which tools: `include` and `exclude` are names or globs, `prefix` is put before each name. `pin` (name → digest, or
    a file that `write_pins` wrote) takes only tools whose text is the one that was accepted: a changed one raises
    MCPToolChanged, when listed and when called; one that is not pinned is left out. `limits` bounds what is taken of
    the server's text.

    Every tool counts as destructive, whatever the server says, but those named by `safe` (names or globs): they are
    read-only, and a call whose fate is not known is made again. Without that a call is made again only if the first
    never reached the server.

    `headers` and `auth` (an `httpx2.Auth`, such as the SDK's OAuth provider) go with HTTP requests. `timeout` bounds
    each request in seconds, `connect_timeout` the opening of a session: 30 s, and 300 with `auth`, where a person may
    have to log in.

    What the server may ask: `on_elicitation(question)` answers its questions in process; without it the run pauses.
    A server of an older protocol holds its session open while it asks: it needs the handler. `on_sampling` (a chat
    model, or a function of messages and request) and `roots` (folders or file URLs) are told to it only if given.
    `on_progress(item)`, `on_log(item)` and `on_change(what)` hear of what it tells; `log_level` asks newer servers for
    their log. Handlers are plain or `async`.
    """

    def __init__(
        self,
        target: Any,
        *,
        name: str | None = None,
        include: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        prefix: str = "",
        pin: Mapping[str, str] | str | Path | None = None,
        safe: Sequence[str] = (),
        limits: MCPLimits | None = None,
        headers: Mapping[str, str] | None = None,
        auth: Any = None,
        session: Literal["shared", "call"] = "shared",
        timeout: float | None = 300.0,
        connect_timeout: float | None = None,
        protocol: str = "auto",
        on_elicitation: Callable[[dict[str, Any]], Any] | None = None,
        on_sampling: Any = None,
        roots: Sequence[str | Path] | None = None,
        on_progress: Callable[[dict[str, Any]], Any] | None = None,
        on_log: Callable[[dict[str, Any]], Any] | None = None,
        log_level: str | None = None,
        on_change: Callable[[str], Any] | None = None,
    ) -> None:
        sdk()
        self.target: Target = target_of(target, headers=headers, auth=auth)
        self.name = name or self.target.place
        check_options(
            {
                "include": include,
                "exclude": exclude,
                "safe": safe,
                "timeout": timeout,
                "connect_timeout": connect_timeout,
                "session": session,
                "protocol": protocol,
                "log_level": log_level,
                "on_elicitation": on_elicitation,
                "on_progress": on_progress,
                "on_log": on_log,
                "on_change": on_change,
                "prefix": prefix,
                "limits": limits,
                "pin": pin,
            }
        )
        self.include, self.exclude, self.safe = include, tuple(exclude or ()), tuple(safe or ())
        self.prefix = prefix
        self.limits = limits or MCPLimits()
        self.on_progress = on_progress
        self._on_change = on_change
        self._pins = read_pins(pin)
        sample = None if on_sampling is None else sampling_callback(on_sampling)
        root = None if roots is None else roots_callback(roots)
        self.asker = Asker(self.name, self.limits, elicit=on_elicitation, sample=sample, roots=root)
        self._connection = Connection(
            self.target,
            self.name,
            scope=session,
            timeout=timeout,
            connect_timeout=connect_timeout or (CONNECT_S if _auth(self.target) is None else LOGIN_S),
            mode=protocol,
            callbacks=Callbacks(
                elicitation=legacy_elicitation(self.asker),
                sampling=in_session(sample, self.name),
                roots=root,
                logging=logging_callback(self.name, self.limits, on_log),
                log_level=log_level,
            ),
            on_change=self._changed,
        )
        self._listed: dict[str, Any] = {}
        self._tools: list[MCPTool] | None = None

    @property
    def place(self) -> str:
        """Where the server is: its URL without secrets, or its command."""
        return self.target.place

    # -- tools

    def tools(self) -> list[MCPTool]:
        """The server's tools, as selected. The list is read again when the server said that it changed.

        Raises MCPConnectionError; MCPToolChanged for a pinned tool whose text changed; ToolDefinitionError for text
        beyond the limits; InvalidConfig for an `include` name that the server does not have.
        """
        return from_plain(self._get_tools)

    async def atools(self) -> list[MCPTool]:
        """As `tools`."""
        return await from_async(self._get_tools)

    async def _get_tools(self) -> list[MCPTool]:
        await self._asked(self._refresh, "its tools")
        assert self._tools is not None
        return list(self._tools)

    async def _refresh(self, session: Session) -> None:
        async with session.listing:
            if self._tools is not None and "tools" not in session.changed:
                return
            found = await self._list_tools(session)
            self._tools = None
            self._tools = self._made(found)
            self._listed = {tool.name: tool for tool in found}

    async def _list_tools(self, session: Session) -> list[Any]:
        session.changed.discard("tools")  # before: what changes meanwhile is read again
        try:
            return await self._read_list(session, "tools")
        except BaseException:
            session.changed.add("tools")
            raise

    def _made(self, found: list[Any]) -> list[MCPTool]:
        names = [each.name for each in found]
        taken = selected(self.name, names, self.include, self.exclude)
        for option in ("exclude", "safe"):
            for pattern in unknown(getattr(self, option), names):
                _log.warning("%s=[%r]: MCP server %r has no tool of that name", option, pattern, self.name)
        digests = {each.name: digest(each) for each in found}
        if self._pins is not None:
            for name in sorted(self._pins):
                if self.include is None or matches(name, self.include):
                    check_pin(self.name, name, digests.get(name), self._pins[name])
            for name in sorted(taken - self._pins.keys()):
                _log.warning("tool %r of MCP server %r is not pinned: it is left out", name, self.name)
            taken &= self._pins.keys()
        made: dict[str, MCPTool] = {}
        for each in found:
            if each.name in taken:
                tool = self._tool(each, digests[each.name])
                if tool.name in made:
                    raise DuplicateTool(
                        f"MCP server {self.name!r} has two tools that are both called {tool.name!r} here: "
                        f"{made[tool.name].remote_name!r} and {each.name!r}.",
                        hint=f"Leave it out with exclude=[{each.name!r}].",
                    )
                made[tool.name] = tool
        return list(made.values())

    def _tool(self, found: Any, its_digest: str) -> MCPTool:
        import jsonschema_rs

        told = bounded(found.description or found.title or "", self.limits.description).strip()
        hints = found.annotations
        said = {} if hints is None else hints.model_dump(exclude_none=True)
        safe = matches(found.name, self.safe)
        schema = clean_schema(self.name, found.name, found.input_schema, self.limits)
        try:
            validator = output_validator(found.output_schema)
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            raise ToolDefinitionError(
                f"The output schema of tool {found.name!r} of MCP server {self.name!r} is none: {error}",
                hint=f"Leave it out with exclude=[{found.name!r}].",
            ) from error
        tool = MCPTool(
            name=tool_name(self.name, found.name, self.prefix, self.limits),
            description=told or f"The tool {found.name!r} of the MCP server {self.name!r}.",
            args_schema={**schema, "type": "object"},
            client=self,
            remote_name=found.name,
            title=found.title,
            output_schema=found.output_schema,
            digest=its_digest,
            annotations=said,
            metadata={"mcp": {"server": self.name, "tool": found.name}},
            read_only=True if safe else None,
            idempotent=True if safe else None,
            # What the server says may tighten, never loosen.
            destructive=not safe or said.get("destructive_hint") is True,
            open_world=said.get("open_world_hint", True),
        )
        tool._validator = validator
        return tool

    def pins(self) -> dict[str, str]:
        """Digests of the selected tools by the server's names, for `pin=`."""
        return {tool.remote_name: tool.digest for tool in self.tools()}

    async def apins(self) -> dict[str, str]:
        """As `pins`."""
        return {tool.remote_name: tool.digest for tool in await self.atools()}

    def write_pins(self, path: str | Path) -> None:
        """Accept the selected tools as they are now: write their digests to a file for `pin=path`."""
        write_pins(path, self.pins())

    async def send_call(
        self, tool: MCPTool, arguments: dict[str, Any], responses: Any, state: str | None, progress: Any
    ) -> Any:
        """One round of a tool's call."""
        return await from_async(self._send_call, tool, arguments, responses, state, progress)

    async def _send_call(
        self, tool: MCPTool, arguments: dict[str, Any], responses: Any, state: str | None, progress: Any
    ) -> Any:
        from mcp.shared.exceptions import MCPError
        from mcp_types import HEADER_MISMATCH, URL_ELICITATION_REQUIRED, CallToolRequest, CallToolRequestParams
        from pydantic import ValidationError

        if responses is not None:
            responses = {name: each for name, each in responses.items() if not name.startswith(PAGE)} or None
        request = CallToolRequest(
            params=CallToolRequestParams(
                name=tool.remote_name, arguments=arguments, input_responses=responses, request_state=state
            )
        )

        async def use(session: Session) -> Any:
            if self._pins is not None:
                await self._still_pinned(session, tool)
            send = session.client.session.send_request
            try:
                return await send(request, adapter, progress_callback=progress)
            except MCPError as error:
                if error.code != HEADER_MISMATCH:
                    raise
            session.changed.add("tools")  # it wants headers that its list tells of
            await self._refresh(session)
            return await send(request, adapter, progress_callback=progress)

        adapter = _answers()
        try:
            return await self._connection.send(use, again=tool.idempotent is True)
        except MCPError as error:
            if error.code == URL_ELICITATION_REQUIRED:
                return pages_to_visit(error, state)
            if state is not None:
                raise
            raise self._refused(tool, error) from error
        except ValidationError as error:
            raise self._refused(tool, error) from error

    def _refused(self, tool: MCPTool, error: Exception) -> Exception:
        from runwell.errors import MCPToolError

        said = bounded(str(error), self.limits.message)
        return MCPToolError(f"MCP server {self.name!r} did not carry out {tool.remote_name!r}: {said}")

    async def _still_pinned(self, session: Session, tool: MCPTool) -> None:
        """Look again whether a tool is the accepted one, after the server said that its list changed, or came back."""
        assert self._pins is not None
        async with session.listing:
            if not self._listed or "tools" in session.changed:
                # This tool alone is judged: the others when they are called, or listed.
                self._listed = {each.name: each for each in await self._list_tools(session)}
                self._tools = None
        now = self._listed.get(tool.remote_name)
        if tool.remote_name not in self._pins:
            raise MCPToolChanged(f"Tool {tool.remote_name!r} of {self.name!r} is not pinned.", tool=tool.remote_name)
        check_pin(self.name, tool.remote_name, None if now is None else digest(now), self._pins[tool.remote_name])

    def seats(self) -> Iterable[Held]:
        """The seats it holds in an agent that has its tools."""
        name = f"MCP server {self.name!r} ({self.place})"
        picked = "all its tools" if self.include is None else f"its tools {', '.join(self.include)}"
        left = f" but {', '.join(self.exclude)}" if self.exclude else ""
        pinned = "not pinned: what they say may change" if self._pins is None else "pinned: a changed one is refused"
        yield Held("A9", f"{name}: {picked}{left}, under the prefix {self.prefix!r}; {pinned}.", selected)
        yield Held("A10", f"{name}: text is an http or https URL only.", target_of)
        limits = self.limits
        yield Held(
            "B10",
            f"{name}, up to {limits.name} characters of a name, {limits.description} of a description and "
            f"{limits.schema} of a schema, without hidden characters.",
            clean_schema,
            "external",
        )
        if self.asker.elicit is not None:
            yield Held("D22", f"{name}: the program's on_elicitation handler.", callee(self.asker.elicit))
        else:
            yield Held(
                "D22", f"{name}: a person, through a pause; earlier answers are replayed.", Asker.result, "human"
            )
        given = [what for what, one in (("models", self.asker.sample), ("roots", self.asker.roots)) if one is not None]
        yield Held("D23", f"{name}: questions; wishes for {' and '.join(given) or 'nothing else'}.", question_of)
        again = f"again if they are {', '.join(self.safe)}" if self.safe else "again only if they never reached it"
        yield Held("E12", f"{name}: yes; lost calls are sent {again}.", Connection.send)
        yield Held("H5", f"{name}: yes, if its answer fits the schema that it declared.", check_output, "external")

    # -- the connection

    @property
    def instructions(self) -> str | None:
        """What the server says about its use, bounded; None before it is connected, or when it says nothing."""
        live = self._connection._live
        said = None if live is None or live.client is None or live.ended else live.client.instructions
        return None if not said else bounded(said, self.limits.description)

    async def _changed(self, what: str) -> None:
        if self._on_change is not None:
            await self.tell(self._on_change, what)

    async def tell(self, heard: Any, item: Any) -> None:
        """Call a listener of the program's; its error is logged and disturbs nothing."""
        try:
            await call_async(callee(heard), item)
        except Exception:
            _log.exception("a listener of MCP server %r failed", self.name)

    def shorten(self, text: str | None) -> str | None:
        """A server's text within the limit of messages."""
        return None if text is None else bounded(text, self.limits.message)

    def close(self) -> None:
        """End the session, and the server's process if there is one. The next use begins anew."""
        from_plain(self._connection.close)

    async def aclose(self) -> None:
        """As `close`."""
        await from_async(self._connection.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.place!r}, name={self.name!r})"


def _auth(target: Target) -> Any:
    return target.auth if isinstance(target, Http) else None


@cache
def _answers() -> Any:
    """What reads the answer to a call."""
    from mcp_types import CallToolResult, InputRequiredResult
    from pydantic import TypeAdapter

    return TypeAdapter(CallToolResult | InputRequiredResult)
