"""What a server offers besides tools: resources and prompts; and how its lists are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runwell.errors import InvalidInput, MCPToolError, ToolDefinitionError
from runwell.mcp.connection import Connection, Session
from runwell.mcp.content import as_blocks
from runwell.mcp.loop import from_async, from_plain
from runwell.mcp.prompts import as_messages
from runwell.mcp.resources import MCPResource, as_documents
from runwell.mcp.text import MCPLimits, bounded, clean

__all__ = ["Offers"]


class Offers:
    """The half of a client that reads. `MCPClient` is the whole."""

    name: str
    limits: MCPLimits
    _connection: Connection

    def resources(self) -> list[MCPResource]:
        """What the server offers to read; `resource_templates` are not among them."""
        return from_plain(self._resources)

    async def aresources(self) -> list[MCPResource]:
        """As `resources`."""
        return await from_async(self._resources)

    async def _resources(self) -> list[MCPResource]:
        return [MCPResource.of(each, self.limits) for each in await self._all("resources")]

    def resource_templates(self) -> list[dict[str, Any]]:
        """Families of resources, whose addresses are to be filled in: `uri_template`, `name`, `description` and
        `mime_type` of each."""
        return from_plain(self._templates)

    async def aresource_templates(self) -> list[dict[str, Any]]:
        """As `resource_templates`."""
        return await from_async(self._templates)

    async def _templates(self) -> list[dict[str, Any]]:
        found = await self._all("resource_templates")
        return [
            {
                "uri_template": clean(each.uri_template),
                "name": bounded(each.name, self.limits.description),
                "description": bounded(each.description or "", self.limits.description),
                "mime_type": each.mime_type,
            }
            for each in found
        ]

    def read(self, *uris: str | MCPResource) -> list[Any]:
        """Resources, by address or as they were listed, as documents: text as `Document`, bytes as `Blob`.

        Their metadata has `source`, `mime_type` and `server`. Raises MCPToolError if the server refuses.
        """
        return from_plain(self._read, uris)

    async def aread(self, *uris: str | MCPResource) -> list[Any]:
        """As `read`."""
        return await from_async(self._read, uris)

    async def _read(self, uris: Sequence[str | MCPResource]) -> list[Any]:
        made = []
        for uri in uris:
            made += as_documents(await self._contents(uri), self.name, self.limits)
        return made

    def context(self, *uris: str | MCPResource) -> list[dict[str, Any]]:
        """Resources as content blocks for a message: `HumanMessage(["Sum this up.", *client.context(uri)])`.

        Text within the limit of a result, media within theirs. Raises MCPToolError if the server refuses.
        """
        return from_plain(self._context, uris)

    async def acontext(self, *uris: str | MCPResource) -> list[dict[str, Any]]:
        """As `context`."""
        return await from_async(self._context, uris)

    async def _context(self, uris: Sequence[str | MCPResource]) -> list[dict[str, Any]]:
        from mcp_types import EmbeddedResource

        made = []
        for contents in [await self._contents(uri) for uri in uris]:
            made += as_blocks([EmbeddedResource(type="resource", resource=each) for each in contents], self.limits)
        return made

    async def _contents(self, uri: str | MCPResource) -> Sequence[Any]:
        if isinstance(uri, MCPResource):
            uri = uri.uri
        if not isinstance(uri, str):
            raise InvalidInput(f"{uri!r:.200} is no address of a resource.", hint="Give texts: read(uri, other_uri).")
        result = await self._asked(lambda session: session.client.read_resource(uri), f"resource {uri!r}")
        return result.contents  # type: ignore[no-any-return]

    def prompts(self) -> list[dict[str, Any]]:
        """The server's prompts: `name`, `description` and `arguments` (each `name`, `description`, `required`)."""
        return from_plain(self._prompts)

    async def aprompts(self) -> list[dict[str, Any]]:
        """As `prompts`."""
        return await from_async(self._prompts)

    async def _prompts(self) -> list[dict[str, Any]]:
        found = await self._all("prompts")
        return [
            {
                "name": each.name,
                "description": bounded(each.description or "", self.limits.description),
                "arguments": [
                    {
                        "name": one.name,
                        "description": bounded(one.description or "", self.limits.description),
                        "required": bool(one.required),
                    }
                    for one in each.arguments or ()
                ],
            }
            for each in found
        ]

    def prompt(self, name: str, arguments: Mapping[str, Any] | None = None) -> list[Any]:
        """A prompt of the server's as messages. Arguments are sent as text, those that are None not at all."""
        return from_plain(self._prompt, name, arguments)

    async def aprompt(self, name: str, arguments: Mapping[str, Any] | None = None) -> list[Any]:
        """As `prompt`."""
        return await from_async(self._prompt, name, arguments)

    async def _prompt(self, name: str, arguments: Mapping[str, Any] | None) -> list[Any]:
        if arguments is not None and not isinstance(arguments, Mapping):
            raise InvalidInput(
                f"The arguments {arguments!r:.200} of prompt {name!r} are no mapping of names to values."
            )
        given = None if arguments is None else {k: str(each) for k, each in arguments.items() if each is not None}
        result = await self._asked(lambda session: session.client.get_prompt(name, given), f"prompt {name!r}")
        return as_messages(result.messages, self.limits)

    # -- how it is asked

    async def _read_list(self, session: Session, what: str) -> list[Any]:
        """All pages of a list of the server's."""
        found: list[Any] = []
        if getattr(session.client.server_capabilities, "resources" if what == "resource_templates" else what) is None:
            return found  # it has none at all
        cursor: str | None = None
        for _ in range(self.limits.tools):
            page = await getattr(session.client, f"list_{what}")(cursor=cursor)
            found += getattr(page, what)
            if len(found) > self.limits.tools:
                break
            if page.next_cursor is None or page.next_cursor == cursor:
                return found
            cursor = page.next_cursor
        raise ToolDefinitionError(
            f"MCP server {self.name!r} lists more than {self.limits.tools} {what.replace('_', ' ')}, or pages of them.",
            hint="Raise limits=MCPLimits(tools=...) if that is meant.",
        )

    async def _all(self, what: str) -> list[Any]:
        """All of a list of the server's. Raises MCPToolError if the server does not give it."""
        found: list[Any] = await self._asked(
            lambda session: self._read_list(session, what), f"its {what.replace('_', ' ')}"
        )
        return found

    async def _asked(self, use: Any, what: str) -> Any:
        from mcp.shared.exceptions import MCPError
        from pydantic import ValidationError

        try:
            return await self._connection.send(use)
        except (MCPError, ValidationError) as error:
            said = bounded(str(error), self.limits.message)
            raise MCPToolError(f"MCP server {self.name!r} did not give {what}: {said}") from error
