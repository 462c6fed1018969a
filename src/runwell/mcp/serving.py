"""Tools and agents as an MCP server."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from runwell.agents.tool_runner import ToolNode
from runwell.errors import InvalidInput, InvalidResume
from runwell.graph.builder import StateGraph
from runwell.graph.messages_state import MessagesState
from runwell.mcp.forms import Declined, answer_of, request_of
from runwell.mcp.outgoing import as_error, as_result
from runwell.mcp.target import sdk
from runwell.mcp.text import bounded
from runwell.messages.message import AIMessage
from runwell.ports.command import START, Command
from runwell.tools.base_tool import BaseTool
from runwell.tools.result import to_text
from runwell.tools.toolbox import as_tools

__all__ = ["as_mcp_server", "serve"]

_log = logging.getLogger("runwell.mcp")

KEEP_S = 600.0
"""How long a question waits for its answer before its run is forgotten."""


def as_mcp_server(
    *parts: Any,
    name: str = "runwell",
    instructions: str | None = None,
    saver: Any = None,
    keep: float = KEEP_S,
    keys: Sequence[bytes | str] | None = None,
) -> Any:
    """An MCP server (the SDK's `Server`) whose tools are these: tools, functions, agents and graphs.

    An agent is one tool that takes a task and answers with the end of its work; it must have a name. What tools and
    agents report while they work is sent as progress. A pause (`interrupt()`, an approval) is sent to the client as a
    question and the run goes on with its answer; a client that cannot be asked is told so.

    Runs that wait are kept in `saver` (default: in memory) for `keep` seconds. Where questions must outlive the
    process, or several processes serve, give a saver that they share and `keys`: secrets that seal what the client
    carries from question to answer.

    Raises DuplicateTool and ToolDefinitionError for parts that cannot be tools.
    """
    sdk()
    from mcp.server import Server
    from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity

    from runwell import __version__

    host = _Host(parts, saver, keep)
    server: Any = Server(
        name=name,
        version=__version__,
        instructions=instructions,
        on_list_tools=host.listed,
        on_call_tool=host.called,
    )
    sealed = (
        RequestStateSecurity.ephemeral(ttl=keep) if keys is None else RequestStateSecurity(keys=list(keys), ttl=keep)
    )
    server.middleware.append(RequestStateBoundary(sealed, default_audience=name))
    return server


def _as_part(part: Any) -> Any:
    """Agents and graphs as tools; the rest as it is."""
    from runwell.graph.compiled import CompiledStateGraph

    return part.as_tool() if isinstance(part, CompiledStateGraph) else part


class _Host:
    """Runs the calls of one server, each in a thread of its own."""

    def __init__(self, parts: Sequence[Any], saver: Any, keep: float) -> None:
        from runwell.persistence.checkpoints.memory import InMemorySaver

        if not parts:
            raise InvalidInput("An MCP server of no tools.", hint="Give it tools, functions or agents.")
        self.tools: dict[str, BaseTool] = {}
        for tool in as_tools([_as_part(part) for part in parts]).values():
            if not isinstance(tool, BaseTool):
                raise InvalidInput(f"{tool.name!r} is run by a model's provider, and cannot be served.")
            self.tools[tool.name] = tool
        self.saver = InMemorySaver() if saver is None else saver
        self.keep = keep
        self.waiting: dict[str, float] = {}
        graph: Any = StateGraph(MessagesState)
        graph.add_node("tools", ToolNode(list(self.tools.values())))
        graph.add_edge(START, "tools")
        self.graph = graph.compile(checkpointer=self.saver)

    async def listed(self, ctx: Any, params: Any) -> Any:
        from mcp_types import ListToolsResult, Tool, ToolAnnotations

        return ListToolsResult(
            tools=[
                Tool(
                    name=tool.name,
                    description=tool.description,
                    input_schema=tool.json_schema(),
                    annotations=ToolAnnotations(
                        read_only_hint=tool.read_only,
                        destructive_hint=tool.destructive,
                        idempotent_hint=tool.idempotent,
                        open_world_hint=tool.open_world,
                    ),
                )
                for tool in self.tools.values()
            ]
        )

    async def called(self, ctx: Any, params: Any) -> Any:
        from mcp.shared.exceptions import MCPError
        from mcp_types import INVALID_PARAMS

        if params.name not in self.tools:
            raise MCPError(code=INVALID_PARAMS, message=f"Unknown tool: {params.name}")
        await self._forget_old()
        if params.request_state is None:
            thread = uuid.uuid4().hex
            call = {"type": "tool_call", "name": params.name, "args": dict(params.arguments or {}), "id": thread}
            given: Any = {"messages": [AIMessage("", tool_calls=[call])]}
        else:
            thread = json.loads(params.request_state)["thread"]
            given = params.input_responses or {}
            if thread not in self.waiting and not (await self.graph.aget_state(_config(thread))).interrupts:
                raise MCPError(code=INVALID_PARAMS, message="Invalid or expired requestState")
        try:
            made = await self._worked(ctx, thread, given)
        except Declined as said:
            made = as_error(f"It asked, and the answer was: {said}. Nothing more was done.")
        except Exception as error:
            _log.exception("tool %r failed", params.name)
            made = as_error(f"The tool {params.name!r} failed: {type(error).__name__}.")
        if made.result_type != "input_required":
            await self._forget(thread)
        return made

    async def _worked(self, ctx: Any, thread: str, given: Any) -> Any:
        """Run until there is a result, or questions that the client is to carry to whoever answers them."""
        from mcp_types import InputRequiredResult
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        config = _config(thread)
        problem: str | None = None
        answers: Mapping[str, Any] | None = None
        if "messages" in given:
            await self._run(ctx, given, config)
        else:
            answers = given
        while True:
            questions = {each.id: each for each in (await self.graph.aget_state(config)).interrupts}
            if answers is not None and questions.keys() <= answers.keys():
                resume = {id_: answer_of(each, answers[id_]) for id_, each in questions.items()}
                try:
                    await self._run(ctx, Command(resume=resume), config)
                    problem = None
                except InvalidResume as error:
                    problem = error.message
                questions = {each.id: each for each in (await self.graph.aget_state(config)).interrupts}
            if not questions:
                state = await self.graph.aget_state(config)
                return as_result(state.values["messages"][-1])
            requests = {id_: request_of(each, problem) for id_, each in questions.items()}
            if not _can_be_asked(ctx):
                asked = "; ".join(each.params.message for each in requests.values())
                return as_error(f"It asks: {asked}\nThis client cannot be asked (it does not support elicitation).")
            if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
                self.waiting[thread] = time.monotonic() + self.keep
                return InputRequiredResult(input_requests=requests, request_state=json.dumps({"thread": thread}))
            answers = {id_: await _ask(ctx, each) for id_, each in requests.items()}

    async def _run(self, ctx: Any, given: Any, config: Any) -> None:
        """Run a step of a call; what is reported meanwhile is the client's progress."""
        stream = self.graph.astream(given, config, stream_mode=["custom", "updates"], subgraphs=True, version="v2")
        count = 0
        try:
            async for part in stream:
                said = to_text(part["data"]) if part["type"] == "custom" else ", ".join(part["data"])
                if part["type"] == "updates" and not part["ns"]:
                    continue  # the host's own step
                count += 1
                await ctx.session.report_progress(count, None, bounded(said, 1_000))
        finally:
            await stream.aclose()

    async def _forget(self, thread: str) -> None:
        self.waiting.pop(thread, None)
        await self.saver.adelete_thread(thread)

    async def _forget_old(self) -> None:
        now = time.monotonic()
        for thread in [thread for thread, until in self.waiting.items() if until < now]:
            await self._forget(thread)


def _config(thread: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread}}


def _can_be_asked(ctx: Any) -> bool:
    from mcp_types import ClientCapabilities, ElicitationCapability

    return bool(ctx.session.check_client_capability(ClientCapabilities(elicitation=ElicitationCapability())))


async def _ask(ctx: Any, request: Any) -> Any:
    """Ask a client of an older protocol, in the middle of its call."""
    params = request.params
    if params.mode == "url":
        return await ctx.session.elicit_url(params.message, params.url, uuid.uuid4().hex, ctx.request_id)
    return await ctx.session.elicit_form(params.message, params.requested_schema, ctx.request_id)


def serve(
    *parts: Any,
    name: str = "runwell",
    http: bool = False,
    host: str = "127.0.0.1",
    port: int = 8000,
    path: str = "/mcp",
    **options: Any,
) -> None:
    """Serve tools and agents until it is stopped: over standard input and output, or over HTTP at `path`.

    `options` are those of `as_mcp_server`. Over standard output only the protocol is spoken: what tools print goes to
    standard error. Over HTTP whoever reaches the port may call the tools: there is no authentication here, so it
    listens on this machine alone unless `host` says otherwise.
    """
    server = as_mcp_server(*parts, name=name, **options)
    if http:
        import uvicorn

        app = server.streamable_http_app(streamable_http_path=path, host=host)
        uvicorn.run(app, host=host, port=port, log_level="warning")
        return
    import asyncio

    from mcp.server.stdio import stdio_server

    async def run() -> None:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    asyncio.run(run())
