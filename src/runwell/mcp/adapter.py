"""The names that other frameworks have for an MCP client."""

from __future__ import annotations

from typing import Any

from runwell.mcp.client import MCPClient
from runwell.mcp.tool import MCPTool

__all__ = ["MCPAdapter", "as_langchain_tool"]


class MCPAdapter(MCPClient):
    """An `MCPClient` whose `list_tools` is awaited: `tools = await MCPAdapter("https://...").list_tools()`."""

    async def list_tools(self) -> list[MCPTool]:
        """As `atools`."""
        return await self.atools()


def as_langchain_tool(client: MCPClient, tool: Any) -> MCPTool:
    """One tool of the SDK's listing as a tool of this framework, within the client's limits."""
    from runwell.mcp.selection import digest

    return client._tool(tool, digest(tool))
