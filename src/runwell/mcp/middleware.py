"""An agent whose MCP tools may change while it lives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from runwell.agents.middleware.middleware import AgentMiddleware
from runwell.agents.middleware.requests import ModelRequest
from runwell.errors import DuplicateTool
from runwell.mcp.client import MCPClient
from runwell.mcp.many import MultiServerMCPClient
from runwell.ports.seat import Held

__all__ = ["MCPToolsMiddleware"]


class MCPToolsMiddleware(AgentMiddleware):
    """Offers the tools of MCP servers as they are at each model call: `create_agent(..., middleware=[...])`.

    A list that a server changed is read again before the next call of the model, within the client's selection, pins
    and limits; servers are reached when the agent first runs, not when it is built. A tool under a name that the agent
    has already raises DuplicateTool.
    """

    def __init__(self, client: MCPClient | MultiServerMCPClient) -> None:
        self.client = client

    @property
    def clients(self) -> list[MCPClient]:
        """The clients of the servers."""
        return [self.client] if isinstance(self.client, MCPClient) else list(self.client.clients.values())

    def seats(self) -> Iterable[Held]:
        for client in self.clients:
            yield from client.seats()
        yield Held("A9", "The list is read again when a server says that it changed.", self.wrap_model_call, adds=True)

    async def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[Any]]) -> Any:
        tools = await self.client.atools()
        clients = self.clients
        others = [tool for tool in request.tools if getattr(tool, "client", None) not in clients]
        known = {getattr(tool, "name", None): tool for tool in others}
        for tool in tools:
            if tool.name in known:
                raise DuplicateTool(
                    f"Two tools are called {tool.name!r}: the agent's own and {tool.origin}.",
                    hint="Give the client a prefix=, or leave the tool out with exclude=.",
                )
        return await handler(request.override(tools=[*others, *tools]))
