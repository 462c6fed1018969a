"""Several servers as one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Self

from runwell.errors import DuplicateTool, InvalidConfig, nearest
from runwell.mcp.client import MCPClient
from runwell.mcp.loop import from_async, from_plain
from runwell.mcp.tool import MCPTool

__all__ = ["MultiServerMCPClient"]


class MultiServerMCPClient:
    """Several servers, by name: `MultiServerMCPClient({"files": Stdio(...), "web": "https://..."})`.

    Each is an `MCPClient`, or what one is made of: a target, or a mapping with `url` or `command` and, beside it, any
    of the client's settings (`include`, `pin`, `safe`, ...). `settings` hold for all that are made here. With
    `tool_name_prefix` a tool's name begins with its server's: `files_read`.

    Two tools under one name raise DuplicateTool. The servers are asked side by side, and one that cannot be reached is
    an error: its tools are not left out in silence.
    """

    def __init__(self, servers: Mapping[str, Any], *, tool_name_prefix: bool = False, **settings: Any) -> None:
        if not isinstance(servers, Mapping):
            raise InvalidConfig(
                f"servers={servers!r:.100} is no mapping.", hint='Give each a name: {"files": Stdio(...), ...}.'
            )
        self.clients: dict[str, MCPClient] = {
            name: _client(name, given, {**({"prefix": f"{name}_"} if tool_name_prefix else {}), **settings})
            for name, given in servers.items()
        }

    def __getitem__(self, server: str) -> MCPClient:
        """One server's client."""
        found = self.clients.get(server)
        if found is None:
            raise InvalidConfig(
                f"There is no MCP server {server!r}{nearest(server, self.clients)}.",
                hint=f"There are: {', '.join(self.clients) or 'none'}.",
            )
        return found

    def tools(self, server: str | None = None) -> list[MCPTool]:
        """The tools of all servers, or of one."""
        return from_plain(self._tools, server)

    async def atools(self, server: str | None = None) -> list[MCPTool]:
        """As `tools`."""
        return await from_async(self._tools, server)

    async def get_tools(self, *, server_name: str | None = None) -> list[MCPTool]:
        """As `atools`."""
        return await self.atools(server_name)

    async def get_prompt(
        self, server_name: str, prompt_name: str, *, arguments: Mapping[str, Any] | None = None
    ) -> list[Any]:
        """A prompt of one server's, as messages."""
        return await self[server_name].aprompt(prompt_name, arguments)

    async def get_resources(self, server_name: str, *, uris: str | Sequence[str] | None = None) -> list[Any]:
        """Resources of one server's as documents and blobs: those named, or all it lists."""
        client = self[server_name]
        if uris is None:
            uris = [each.uri for each in await client.aresources()]
        return await client.aread(*([uris] if isinstance(uris, str) else uris))

    async def _tools(self, server: str | None) -> list[MCPTool]:
        asked = [self[server]] if server is not None else list(self.clients.values())
        found = await asyncio.gather(*(client.atools() for client in asked))
        made: dict[str, MCPTool] = {}
        for tool in (each for tools in found for each in tools):
            if tool.name in made:
                raise DuplicateTool(
                    f"Two tools are called {tool.name!r}: {made[tool.name].origin} and {tool.origin}.",
                    hint="Pass tool_name_prefix=True, or prefix= or exclude= for one of the servers.",
                )
            made[tool.name] = tool
        return list(made.values())

    def close(self) -> None:
        """Close all connections."""
        from_plain(self._close)

    async def aclose(self) -> None:
        """As `close`."""
        await from_async(self._close)

    async def _close(self) -> None:
        await asyncio.gather(*(client.aclose() for client in self.clients.values()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


def _client(name: str, given: Any, settings: dict[str, Any]) -> MCPClient:
    if isinstance(given, MCPClient):
        return given
    if isinstance(given, Mapping):
        import inspect

        known = inspect.signature(MCPClient).parameters.keys() - {"target", "name", "headers", "auth"}
        settings = {**settings, **{key: value for key, value in given.items() if key in known}}
        given = {key: value for key, value in given.items() if key not in known}
    return MCPClient(given, name=name, **settings)
