"""A tool that an MCP server runs."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from runwell.effects import Callee
from runwell.errors import MCPToolError
from runwell.mcp.content import as_content, check_output, text_of
from runwell.mcp.loop import from_async
from runwell.messages.message import ToolMessage
from runwell.ports.command import Command
from runwell.ports.runtime import CURRENT_TASK
from runwell.ports.seat import Held
from runwell.tools.base_tool import BaseTool

if TYPE_CHECKING:
    from runwell.mcp.client import MCPClient

__all__ = ["MCPTool"]


class MCPTool(BaseTool):
    """A tool of an MCP server; `MCPClient.tools()` makes them.

    The model reads the result's text, or its structured content as JSON where there is no text; the structured content
    is the artifact. What the server reports as an error is told to the model, with its payload as the artifact; called
    by hand with plain arguments it raises MCPToolError.

    `remote_name` is the server's name for it. It counts as destructive, and its calls as not to be repeated, unless the
    client was told that it is safe.
    """

    client: Any = None
    remote_name: str = ""
    title: str | None = None
    output_schema: dict[str, Any] | None = None
    digest: str = ""
    annotations: dict[str, Any] = {}

    _validator: Any = None

    def _callee(self) -> Callee[Any]:
        async def call(**arguments: Any) -> Any:
            return await self._called(arguments)

        return Callee(None, call)

    def _place(self) -> str:
        return f"tool {self.remote_name!r} of MCP server {self.server!r}"

    @property
    def server(self) -> str:
        """The server's name in this program."""
        return self.client.name  # type: ignore[no-any-return]

    @property
    def origin(self) -> str:
        return f"{self.name} (MCP server {self.server!r}, {self.client.place})"

    async def _called(self, arguments: dict[str, Any]) -> Any:
        client: MCPClient = self.client
        wanted = client.on_progress is not None or CURRENT_TASK.get() is not None
        progress = _Progress(self) if wanted else None
        result = await client.asker.result(
            self.remote_name,
            arguments,
            lambda responses, state: client.send_call(self, arguments, responses, state, progress),
        )
        if progress is not None:
            await from_async(progress.told)
        content = as_content(result.content, client.limits)
        sent = "structured_content" in result.model_fields_set and result.structured_content is not None
        structured = result.structured_content
        if result.is_error:
            said = (
                text_of(content, structured, client.limits) or f"Tool {self.remote_name!r} failed and did not say why."
            )
            raise MCPToolError(said, payload=structured, content=content or said)
        if self._validator is not None:
            check_output(self.server, self.remote_name, self._validator, structured, sent)
        if not content and sent:
            content = text_of(content, structured, client.limits)
        return ToolMessage(content, tool_call_id="", name=self.name, artifact=structured)

    def seats(self) -> Iterable[Held]:
        """What the server decides, and what its client does."""
        yield from self.client.seats()

    def answer_error(self, error: BaseException, call: Mapping[str, Any]) -> ToolMessage | None:
        """The server's own words, with its payload as artifact, unless a handler of this tool says something else."""
        told = super().answer_error(error, call)
        if told is None and isinstance(error, MCPToolError):
            told = ToolMessage(
                error.content, tool_call_id=call.get("id") or "", name=self.name, status="error", artifact=error.payload
            )
        return told

    def _plain(self, result: Any) -> Any:
        return result.content if isinstance(result, ToolMessage) else super()._plain(result)

    def finish(self, result: Any, call: Mapping[str, Any]) -> ToolMessage | Command[Any] | list[Any]:
        if isinstance(result, ToolMessage):
            result = copy.copy(result)
        return super().finish(result, call)


class _Progress:
    """Carries a server's progress to the reader of `stream_mode="custom"` and to the client's `on_progress`."""

    def __init__(self, tool: MCPTool) -> None:
        self.tool = tool
        self.scope = CURRENT_TASK.get()
        self.heard = tool.client.on_progress
        self.loop = asyncio.get_running_loop()
        self.in_order = asyncio.Lock()  # of the MCP loop, where reports come in as tasks of their own

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        item = {
            "type": "mcp_progress",
            "server": self.tool.server,
            "tool": self.tool.name,
            "progress": progress,
            "total": total,
            "message": self.tool.client.shorten(message),
        }
        self.loop.call_soon_threadsafe(self._report, item)
        if self.heard is not None:
            async with self.in_order:
                await self.tool.client.tell(self.heard, item)

    def _report(self, item: dict[str, Any]) -> None:
        if self.scope is not None:
            self.scope.runtime.heartbeat()
            self.scope.runtime.stream_writer(item)

    async def told(self) -> None:
        """When the listener has heard all that came before."""
        if self.heard is not None:
            async with self.in_order:
                return
