"""What the map of an agent says of its MCP servers."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

from runwell.agents import create_agent
from runwell.mcp import MCPClient
from runwell.testing.models import FakeChatModel


def test_the_map_names_the_server_once_and_what_was_chosen(server: MCPServer) -> None:
    client = MCPClient(server, name="m", include=["a*"], prefix="m_", on_elicitation=lambda question: "decline")
    seats = create_agent(FakeChatModel(), client.tools()).seats()
    assert seats["A9"].answer == (
        "MCP server 'm' (in memory: misbehaving): its tools a*, under the prefix 'm_'; "
        "not pinned: what they say may change."
    )
    assert "on_elicitation handler" in seats["D22"].answer
    assert (seats["B10"].holder, seats["H5"].holder, seats["D22"].holder) == ("external", "external", "code")
    places = {name: seats[name].anchors[0].place for name in ("A9", "A10", "B10", "D23", "E12", "H5")}
    assert all(place.startswith("runwell/mcp/") for place in places.values())
    assert len(seats["A9"].parts) == 1
