"""Servers that are programs or behind a URL: lost and found, changed under way, and gone when the work is done."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from runwell.agents import create_agent
from runwell.agents.middleware import wrap_tool_call
from runwell.errors import DuplicateTool, MCPConnectionError, MCPToolChanged, MCPToolError
from runwell.mcp import Http, MCPClient, MCPToolsMiddleware, Stdio
from runwell.messages import AIMessage
from runwell.testing.models import FakeChatModel
from runwell.tools import tool

from .conftest import HttpServer, named, tool_call

pytestmark = pytest.mark.integration


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_one_session_serves_threads_and_loops_and_leaves_no_process(program: Stdio, notes: Path) -> None:
    with MCPClient(program, name="m") as client:
        tools = named(client)
        pid = int(tools["pid"].invoke({}))
        found: list[Any] = []
        threads = [threading.Thread(target=lambda: found.append(tools["pid"].invoke({}))) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        found.append(asyncio.run(tools["pid"].ainvoke({})))
        assert {int(each) for each in found} == {pid}
        assert client._connection.opened == 1
        assert alive(pid)
    assert not alive(pid)


def test_a_session_per_call(program: Stdio) -> None:
    client = MCPClient(program, session="call")
    pid = int(named(client)["pid"].invoke({}))
    assert client._connection.opened == 2
    assert not alive(pid)


def test_the_end_of_the_program_ends_its_servers(program: Stdio, tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    script.write_text(
        textwrap.dedent(f"""
        from runwell.mcp import MCPClient, Stdio
        client = MCPClient(Stdio({program.command!r}, {list(program.args)!r}))
        print({{tool.name: tool for tool in client.tools()}}["pid"].invoke({{}}))
        """)
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert not alive(int(done.stdout))
    assert done.stderr == ""


def test_mcp_04_a_server_that_died_is_told_to_the_model_and_started_again_e12(program: Stdio, notes: Path) -> None:
    calls = [AIMessage("", tool_calls=[tool_call(name, f"c{at}")]) for at, name in enumerate(["pid", "die", "pid"])]
    with MCPClient(program, name="m") as client:
        agent = create_agent(FakeChatModel(responses=[*calls, "done"]), client.tools())
        messages = asyncio.run(agent.ainvoke({"messages": [("user", "go")]}))["messages"]
    first, died, second = (message for message in messages if message.type == "tool")
    assert died.status == "error"
    assert "whether the call was carried out is not known" in died.content
    assert notes.read_text() == "die\n"
    assert int(first.content) != int(second.content)
    assert not alive(int(first.content))
    assert not alive(int(second.content))


def test_a_call_whose_fate_is_not_known_is_sent_again_only_if_the_program_says_so_e12(
    program: Stdio, notes: Path
) -> None:
    with MCPClient(program, name="m", safe=["die"]) as client, pytest.raises(MCPConnectionError) as caught:
        named(client)["die"].invoke({})
    assert notes.read_text() == "die\ndie\n"
    assert not caught.value.retryable


def test_a_flood_over_the_wire_is_cut(run: Any, shared: MCPClient) -> None:
    content = run.invoke(named(shared)["flood"], {})
    assert len(content) < 201_000
    assert "1800000 characters left out" in content


def test_what_cannot_be_started_or_reached_says_why() -> None:
    with pytest.raises(MCPConnectionError, match="cannot be reached: FileNotFoundError"):
        MCPClient(Stdio("/no/such/program")).tools()
    with pytest.raises(MCPConnectionError, match="ended before it answered"):
        MCPClient(Stdio(sys.executable, ["-c", "pass"])).tools()
    with pytest.raises(MCPConnectionError, match="ConnectError") as caught:
        MCPClient("http://127.0.0.1:9/mcp").tools()
    assert caught.value.retryable
    with pytest.raises(MCPConnectionError, match=r"no answer within 0\.3 s"):
        MCPClient(
            Stdio(sys.executable, ["-c", "import sys; sys.stdin.read()"]), connect_timeout=0.3, protocol="legacy"
        ).tools()


# -- pins


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
def test_a9_a_pinned_tool_that_changes_is_refused_when_called(protocol: str, server: MCPServer, tmp_path: Path) -> None:
    pins = tmp_path / "pins.json"
    with MCPClient(server, include=["greet", "change", "add"]) as client:
        client.write_pins(pins)
    with MCPClient(server, pin=pins, protocol=protocol) as client:
        tools = named(client)
        assert list(tools) == ["add", "greet", "change"]
        assert tools["greet"].invoke({}) == "hello"
        tools["change"].invoke({})
        until_changed(client)
        with pytest.raises(MCPToolChanged, match=r"Tool 'greet' of MCP server .* changed its description") as caught:
            tools["greet"].invoke({})
        assert caught.value.tool == "greet"
        with pytest.raises(MCPToolChanged, match="greet"):
            client.tools()


def until_changed(client: MCPClient) -> None:
    """Wait until the server's notification is there: it may come after the answer of the call that caused it."""
    import time

    until = time.monotonic() + 10
    while "tools" not in client._connection._live.changed:
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a9_a_change_that_nobody_tells_of_is_found_on_the_next_connection(server: MCPServer) -> None:
    with MCPClient(server) as client:
        pins = client.pins()
        named(client)["change_in_silence"].invoke({})
    with MCPClient(server, pin=pins) as client, pytest.raises(MCPToolChanged, match="Tool 'greet'"):
        client.tools()
    wrong = {"add": pins["add"], "gone": pins["add"]}
    with MCPClient(server, pin=wrong) as client, pytest.raises(MCPToolChanged, match=r"Tool 'gone' .* is gone"):
        client.tools()


def test_a9_without_pins_a_changed_list_is_read_again(server: MCPServer) -> None:
    heard: list[str] = []
    with MCPClient(server, on_change=heard.append) as client:
        before = named(client)["greet"].description
        named(client)["change"].invoke({})
        until_changed(client)
        assert "secrets" not in before
        assert "secrets" in named(client)["greet"].description
    assert "tools" in heard


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
def test_a9_an_agent_may_follow_a_list_that_changes(run: Any, server: MCPServer, protocol: str) -> None:
    calls = [AIMessage("", tool_calls=[tool_call(name, name)]) for name in ("change", "greet")]
    model = FakeChatModel(responses=[*calls, "done"])
    with MCPClient(server, include=["greet", "change"], protocol=protocol) as client:

        @wrap_tool_call
        def wait(request: Any, handler: Any) -> Any:
            made = handler(request)
            if request.tool_call["name"] == "change":
                until_changed(client)
            return made

        agent = create_agent(model, [], middleware=[MCPToolsMiddleware(client), wait])
        messages = run.invoke(agent, {"messages": [("user", "go")]})["messages"]
    said = [
        {tool["function"]["name"]: tool["function"]["description"] for tool in each.tools} for each in model.requests
    ]
    assert [message.content for message in messages if message.type == "tool"] == ["changed", "hello"]
    assert ["secrets" in each["greet"] for each in said] == [False, True, True]
    assert "read again" in agent.seats()["A9"].answer


def test_a9_a_tool_of_a_server_does_not_stand_in_for_the_agents_own(run: Any, server: MCPServer) -> None:
    @tool
    def add() -> str:
        """Add."""
        return ""

    with MCPClient(server, include=["add"]) as client:
        agent = create_agent(FakeChatModel(responses=["x"]), [add], middleware=[MCPToolsMiddleware(client)])
        with pytest.raises(DuplicateTool, match="the agent's own and add"):
            run.invoke(agent, {"messages": [("user", "go")]})


# -- HTTP


def test_tools_over_http_in_both_colours(run: Any, http_server: HttpServer) -> None:
    with MCPClient(http_server.url) as client:
        assert run.invoke(named(client)["add"], {"a": 1, "b": 2}) == "3"
        assert client.place == http_server.url


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
def test_mcp_04_tools_work_after_a_restart_of_a_server_over_http(protocol: str, http_server: HttpServer) -> None:
    with MCPClient(http_server.url, protocol=protocol) as client:
        tool = named(client)["add"]
        assert tool.invoke({"a": 1, "b": 2}) == "3"
        http_server.stop()
        with pytest.raises(MCPConnectionError):
            tool.invoke({"a": 1, "b": 2})
        http_server.start()
        assert tool.invoke({"a": 1, "b": 2}) == "3"


@pytest.mark.parametrize(
    ("protocol", "error", "said"),
    [
        ("auto", MCPToolError, "the answer has more than 100000 bytes"),
        ("legacy", MCPConnectionError, "SSE stream failed"),
    ],
)
def test_a_flood_over_http_is_cut_and_one_past_all_bounds_ends_that_call_alone(
    protocol: str, error: type[Exception], said: str, http_server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MCPClient(http_server.url, protocol=protocol) as client:
        assert "1800000 characters left out" in named(client)["flood"].invoke({})
    monkeypatch.setattr("runwell.mcp.target.MAX_EVENT", 100_000)
    with MCPClient(http_server.url, protocol=protocol) as client:
        with pytest.raises(error, match=said):
            named(client)["flood"].invoke({})
        assert named(client)["add"].invoke({"a": 1, "b": 2}) == "3"
        assert client._connection.opened == 1


def test_headers_and_auth_go_with_every_request(http_server: HttpServer) -> None:
    import httpx2

    seen: list[Any] = []

    class Auth(httpx2.Auth):
        def auth_flow(self, request: Any) -> Any:
            request.headers["Authorization"] = "Bearer t"
            seen.append((request.headers.get("X-Team"), request.headers["Authorization"]))
            yield request

    with MCPClient(Http(http_server.url, {"X-Team": "a"}), auth=Auth()) as client:
        named(client)["add"].invoke({"a": 1, "b": 2})
        assert "Bearer" not in repr(client.target)
    assert len(seen) >= 3
    assert set(seen) == {("a", "Bearer t")}


def test_an_http_status_is_named(http_server: HttpServer) -> None:
    with pytest.raises(MCPConnectionError, match="HTTP 404"):
        MCPClient(http_server.url + "/nowhere").tools()


def test_a_refusal_by_http_is_told_with_its_status(http_server: HttpServer) -> None:
    """A server, or what stands before it, that takes a token back in the middle of a session."""
    import httpx2

    refuse = [False]

    class Guard(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: Any) -> Any:
            if refuse[0]:
                return httpx2.Response(403, request=request)
            return await super().handle_async_request(request)

    with MCPClient(Http(http_server.url, client=lambda: httpx2.AsyncClient(transport=Guard()))) as client:
        tool = named(client)["add"]
        assert tool.invoke({"a": 1, "b": 2}) == "3"
        refuse[0] = True
        with pytest.raises(MCPConnectionError, match="answered with HTTP status 403"):
            tool.invoke({"a": 1, "b": 2})
        refuse[0] = False
        assert tool.invoke({"a": 1, "b": 2}) == "3"
