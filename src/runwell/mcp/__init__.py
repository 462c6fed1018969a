"""MCP: tools, resources and prompts of MCP servers, and agents as such servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.errors import MCPConnectionError, MCPToolChanged, MCPToolError
    from runwell.mcp.adapter import MCPAdapter, as_langchain_tool
    from runwell.mcp.client import MCPClient
    from runwell.mcp.keys import read_keys
    from runwell.mcp.many import MultiServerMCPClient
    from runwell.mcp.middleware import MCPToolsMiddleware
    from runwell.mcp.over_http import as_http_app
    from runwell.mcp.resources import MCPResource
    from runwell.mcp.serving import as_mcp_server, serve
    from runwell.mcp.target import Http, Stdio
    from runwell.mcp.text import MCPLimits
    from runwell.mcp.tool import MCPTool

_HOME = {
    "Http": "runwell.mcp.target",
    "MCPAdapter": "runwell.mcp.adapter",
    "MCPClient": "runwell.mcp.client",
    "MCPConnectionError": "runwell.errors",
    "MCPLimits": "runwell.mcp.text",
    "MCPResource": "runwell.mcp.resources",
    "MCPTool": "runwell.mcp.tool",
    "MCPToolChanged": "runwell.errors",
    "MCPToolError": "runwell.errors",
    "MCPToolsMiddleware": "runwell.mcp.middleware",
    "MultiServerMCPClient": "runwell.mcp.many",
    "Stdio": "runwell.mcp.target",
    "as_http_app": "runwell.mcp.over_http",
    "as_langchain_tool": "runwell.mcp.adapter",
    "as_mcp_server": "runwell.mcp.serving",
    "read_keys": "runwell.mcp.keys",
    "serve": "runwell.mcp.serving",
}

__all__ = [
    "Http",
    "MCPAdapter",
    "MCPClient",
    "MCPConnectionError",
    "MCPLimits",
    "MCPResource",
    "MCPTool",
    "MCPToolChanged",
    "MCPToolError",
    "MCPToolsMiddleware",
    "MultiServerMCPClient",
    "Stdio",
    "as_http_app",
    "as_langchain_tool",
    "as_mcp_server",
    "read_keys",
    "serve",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
