"""What a server tells while it works, what it offers besides tools, several servers, and calls that are given up."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import AssistantMessage, Message, UserMessage

from runwell.agents import create_agent
from runwell.documents import Blob, Document
from runwell.errors import DuplicateTool, InvalidConfig, MCPConnectionError, MCPToolError, NodeTimeoutError
from runwell.mcp import Http, MCPClient, MCPLimits, MultiServerMCPClient, Stdio
from runwell.messages import AIMessage, HumanMessage
from runwell.testing.models import FakeChatModel

from .conftest import named, tool_call

PIXEL = b"\x89PNG\r\n"


@pytest.fixture
def library() -> MCPServer:
    server = MCPServer("library", log_level="ERROR", instructions="Read \u202ebefore you write.")
    server.events = []

    @server.tool()
    async def count(ctx: Context) -> str:
        """Count aloud."""
        for number in (1, 2):
            await ctx.report_progress(number, 2, f"at {number}")
        return "counted"

    @server.tool()
    async def complain(ctx: Context) -> str:
        """Log something."""
        await ctx.session.send_log_message("warning", "it is \u202ehot", related_request_id=ctx.request_id)
        return "told"

    @server.tool()
    async def wait() -> str:
        """Wait until it is given up."""
        server.events.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            server.events.append("given up")
        return ""

    @server.resource("note://one", description="A note.", mime_type="text/plain")
    def note() -> str:
        return "first note"

    @server.resource("image://pixel", mime_type="image/png")
    def pixel() -> bytes:
        return PIXEL

    @server.prompt(description="Ask about a topic.")
    def about(topic: str, depth: str = "1") -> list[Message]:
        return [
            UserMessage(f"What of {topic}?"),
            AssistantMessage(f"Depth {depth}."),
        ]

    return server


MODES = pytest.mark.parametrize("protocol", ["auto", "legacy"])


@MODES
def test_progress_goes_to_the_reader_of_the_stream(run: Any, library: MCPServer, protocol: str) -> None:
    heard: list[Any] = []
    with MCPClient(library, name="lib", protocol=protocol, on_progress=heard.append) as client:
        model = FakeChatModel(responses=[AIMessage("", tool_calls=[tool_call("count")]), "done"])
        agent = create_agent(model, client.tools())
        items = run.stream(agent, {"messages": [("user", "go")]}, stream_mode="custom")
    assert [(each["progress"], each["total"], each["message"]) for each in items] == [(1, 2, "at 1"), (2, 2, "at 2")]
    assert {(each["type"], each["server"], each["tool"]) for each in items} == {("mcp_progress", "lib", "count")}
    assert heard == items


def eventually(true: Any) -> None:
    import time

    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.005)


@pytest.mark.filterwarnings("ignore:The logging capability is deprecated")
def test_a_servers_log_goes_to_the_listener_or_the_logger(library: MCPServer, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Any] = []
    with MCPClient(library, name="lib", protocol="legacy", on_log=heard.append) as client:
        named(client)["complain"].invoke({})
        eventually(lambda: heard)  # it may come after the answer
    assert heard == [{"server": "lib", "level": "warning", "logger": None, "message": "it is hot"}]
    with (
        caplog.at_level(logging.INFO, "runwell.mcp.server"),
        MCPClient(library, name="lib", log_level="info") as client,
    ):
        named(client)["complain"].invoke({})
        eventually(lambda: caplog.messages)
    assert "lib: it is hot" in caplog.messages


def test_a_listener_that_fails_disturbs_nothing(library: MCPServer, caplog: pytest.LogCaptureFixture) -> None:
    with MCPClient(library, on_progress=lambda item: 1 / 0) as client:
        assert named(client)["count"].invoke({}) == "counted"
    assert "a listener of MCP server" in caplog.text


def until(events: list[str], what: str) -> None:
    eventually(lambda: what in events)


@MODES
def test_a_cancelled_call_is_given_up_at_the_server(library: MCPServer, protocol: str) -> None:
    async def main(tool: Any) -> None:
        task = asyncio.create_task(tool.ainvoke({}))
        await asyncio.to_thread(until, library.events, "begun")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with MCPClient(library, protocol=protocol) as client:
        asyncio.run(main(named(client)["wait"]))
        until(library.events, "given up")
        assert named(client)["count"].invoke({}) == "counted"


def test_a_call_past_its_tools_own_timeout_is_given_up_at_the_server(run: Any, library: MCPServer) -> None:
    with MCPClient(library) as client:
        tool = named(client)["wait"].model_copy(update={"timeout": 0.2})
        with pytest.raises(NodeTimeoutError):
            run.invoke(tool, {})
        until(library.events, "given up")


def test_a_call_that_takes_too_long_is_told(run: Any, library: MCPServer) -> None:
    with MCPClient(library, timeout=0.2) as client, pytest.raises(MCPConnectionError, match=r"within 0\.2 s"):
        run.invoke(named(client)["wait"], {})


# -- resources and prompts


def test_resources_are_documents_and_blobs(library: MCPServer) -> None:
    with MCPClient(library, name="lib") as client:
        listed = client.resources()
        note, pixel = client.read("note://one", "image://pixel")
        again = asyncio.run(client.aread("note://one"))
        with pytest.raises(MCPToolError, match="did not give resource 'note://none'"):
            client.read("note://none")
        assert client.instructions == "Read before you write."
    assert [(each.uri, each.description, each.mime_type) for each in listed] == [
        ("note://one", "A note.", "text/plain"),
        ("image://pixel", "", "image/png"),
    ]
    about = {"source": "note://one", "server": "lib", "mime_type": "text/plain"}
    assert note == again[0] == Document("first note", about, id="note://one")
    assert isinstance(pixel, Blob)
    assert (pixel.as_bytes(), pixel.mimetype) == (PIXEL, "image/png")


def test_prompts_are_messages(library: MCPServer) -> None:
    with MCPClient(library) as client:
        (prompt,) = client.prompts()
        messages = client.prompt("about", {"topic": "rain", "depth": 2})
        assert asyncio.run(client.aprompt("about", {"topic": "rain", "depth": 2})) == messages
        with pytest.raises(MCPToolError, match="did not give prompt 'nothing'"):
            client.prompt("nothing")
    assert prompt["description"] == "Ask about a topic."
    assert [(each["name"], each["required"]) for each in prompt["arguments"]] == [("topic", True), ("depth", False)]
    assert [type(each) for each in messages] == [HumanMessage, AIMessage]
    assert [each.text for each in messages] == ["What of rain?", "Depth 2."]


# -- several servers


def test_several_servers_are_one(run: Any, library: MCPServer, server: MCPServer) -> None:
    servers = {"lib": library, "bad": MCPClient(server, name="bad", include=["add"], prefix="bad_")}
    with MultiServerMCPClient(servers, tool_name_prefix=True) as client:
        tools = {tool.name: tool for tool in client.tools()}
        assert set(tools) == {"lib_count", "lib_complain", "lib_wait", "bad_add"}
        assert run.invoke(tools["bad_add"], {"a": 1, "b": 2}) == "3"
        assert [tool.name for tool in asyncio.run(client.get_tools(server_name="bad"))] == ["bad_add"]
        assert len(asyncio.run(client.get_prompt("lib", "about", arguments={"topic": "x"}))) == 2
        assert len(asyncio.run(client.get_resources("lib"))) == 2
        assert asyncio.run(client.get_resources("lib", uris="note://one"))[0].page_content == "first note"
        with pytest.raises(InvalidConfig, match="no MCP server 'libs'; did you mean 'lib'"):
            client["libs"]


def test_two_servers_with_one_name_are_told_apart_or_refused(server: MCPServer) -> None:
    with pytest.raises(DuplicateTool, match=r"'add': add \(MCP server 'a', .*\) and add \(MCP server 'b'"):
        MultiServerMCPClient({"a": server, "b": server}, include=["add"]).tools()


def test_a_server_that_cannot_be_reached_is_not_left_out_in_silence(server: MCPServer) -> None:
    with pytest.raises(MCPConnectionError, match="'gone'"):
        MultiServerMCPClient({"here": server, "gone": Stdio("/no/such/program")}).tools()


def test_settings_stand_beside_a_server_in_a_mapping() -> None:
    client = MultiServerMCPClient(
        {
            "files": {"transport": "stdio", "command": "files", "args": ["/tmp"], "include": ["read_*"]},
            "web": {"transport": "streamable_http", "url": "https://x.example/mcp", "headers": {"A": "b"}},
        },
        limits=MCPLimits(name=10),
    )
    assert client["files"].target == Stdio("files", ["/tmp"])
    assert client["files"].include == ["read_*"]
    assert client["web"].target == Http("https://x.example/mcp", {"A": "b"})
    assert client["web"].limits.name == 10
    with pytest.raises(InvalidConfig, match="'comand' is no setting"):
        MultiServerMCPClient({"files": {"comand": "x"}})


def test_a_missing_sdk_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import builtins

    from runwell.errors import MissingExtra

    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "mcp":
            raise ModuleNotFoundError("No module named 'mcp'", name="mcp")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"runwell\[mcp\]"):
        MCPClient("https://x.example/mcp")
