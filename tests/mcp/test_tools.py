"""A server's tools as an agent's tools: results, errors, media, schemas, and what is taken of a server's text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ListToolsResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)

from runwell.agents import create_agent
from runwell.errors import DuplicateTool, InvalidConfig, MCPToolError, ToolArgumentsError, ToolDefinitionError
from runwell.mcp import MCPAdapter, MCPClient, MCPLimits, MCPTool, Stdio, as_langchain_tool
from runwell.messages import AIMessage, ToolMessage
from runwell.testing.models import FakeChatModel

from .conftest import named, tool_call

OPEN: dict[str, Any] = {"type": "object", "properties": {}}


def serving(*tools: Tool, results: dict[str, Any] | None = None) -> Server[Any]:
    """A server of the SDK's low level: it answers exactly what it is told to."""

    async def listed(ctx: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=list(tools))

    async def called(ctx: Any, params: Any) -> CallToolResult:
        return (results or {})[params.name]

    return Server("low", on_list_tools=listed, on_call_tool=called)


def one(result: CallToolResult, **more: Any) -> MCPClient:
    tool = Tool(name="look", description="Look.", input_schema=OPEN, **more)
    return MCPClient(serving(tool, results={"look": result}), name="low")


def answer(run: Any, client: MCPClient, name: str = "look", **args: Any) -> Any:
    return run.invoke(named(client)[name], tool_call(name, **args))


@pytest.fixture
def calculator() -> MCPServer:
    server = MCPServer("calculator", log_level="ERROR")

    @server.tool()
    def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    def divide(a: int, b: int) -> float:
        """Divide."""
        return a / b

    return server


def test_an_agent_uses_a_servers_tools(run: Any, calculator: MCPServer) -> None:
    with MCPClient(calculator, name="calc") as client:
        model = FakeChatModel(responses=[AIMessage("", tool_calls=[tool_call("add", a=2, b=3)]), "five"])
        agent = create_agent(model, client.tools())
        messages = run.invoke(agent, {"messages": [("user", "2+3?")]})["messages"]
    reply = messages[2]
    assert (reply.content, reply.artifact, reply.status) == ("5", {"result": 5}, "success")
    assert model.requests[0].tool_names == ["add", "divide"]
    assert messages[-1].content == "five"


def test_arguments_are_checked_before_anything_is_sent_e2(run: Any, calculator: MCPServer) -> None:
    with MCPClient(calculator) as client, pytest.raises(ToolArgumentsError, match='b: got "x"; expected integer'):
        run.invoke(named(client)["add"], {"a": 1, "b": "x"})


def test_what_a_server_calls_an_error_reaches_the_model_e12(run: Any, calculator: MCPServer) -> None:
    with MCPClient(calculator) as client:
        model = FakeChatModel(responses=[AIMessage("", tool_calls=[tool_call("divide", a=1, b=0)]), "no"])
        agent = create_agent(model, client.tools())
        reply = run.invoke(agent, {"messages": [("user", "1/0?")]})["messages"][2]
        assert reply.status == "error"
        assert "divi" in reply.content
        with pytest.raises(MCPToolError, match="divi"):
            run.invoke(named(client)["divide"], {"a": 1, "b": 0})


def test_mcp_01_a_structured_error_is_artifact_and_text(run: Any) -> None:
    payload = {"code": "RATE_LIMITED", "retry_after": 30}
    with one(CallToolResult(content=[], structured_content=payload, is_error=True)) as client:
        reply = answer(run, client)
    assert reply.status == "error"
    assert reply.artifact == payload
    assert reply.content == '{"code":"RATE_LIMITED","retry_after":30}'


def test_mcp_02_a_structured_result_alone_reaches_the_model(run: Any) -> None:
    payload = {"city": "Bern", "degrees": 21}
    with one(CallToolResult(content=[], structured_content=payload)) as client:
        reply = answer(run, client)
        assert run.invoke(named(client)["look"], {}) == '{"city":"Bern","degrees":21}'
    assert (reply.content, reply.artifact, reply.status) == ('{"city":"Bern","degrees":21}', payload, "success")


def test_pictures_sound_and_resources_are_content_blocks(run: Any) -> None:
    blocks = [
        TextContent(type="text", text="see"),
        ImageContent(type="image", data="aGk=", mime_type="image/png"),
        AudioContent(type="audio", data="aGk=", mime_type="audio/wav"),
        ResourceLink(type="resource_link", uri="https://example.org/a.pdf", name="a", mime_type="application/pdf"),
        EmbeddedResource(
            type="resource", resource=TextResourceContents(uri="note://1", text="n", mime_type="text/plain")
        ),
    ]
    with one(CallToolResult(content=blocks)) as client:
        content = answer(run, client).content
    assert content == [
        {"type": "text", "text": "see"},
        {"type": "image", "base64": "aGk=", "mime_type": "image/png"},
        {"type": "audio", "base64": "aGk=", "mime_type": "audio/wav"},
        {
            "type": "file",
            "url": "https://example.org/a.pdf",
            "mime_type": "application/pdf",
            "extras": {"mcp": "resource_link", "name": "a"},
        },
        {"type": "text-plain", "text": "n", "mime_type": "text/plain", "extras": {"uri": "note://1"}},
    ]


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        ({"structured_content": {"degrees": "warm"}}, "degrees:"),
        ({}, "sent none"),
    ],
)
def test_an_answer_that_breaks_its_own_schema_is_not_used_e13_h5(run: Any, sent: Any, problem: str) -> None:
    schema = {"type": "object", "properties": {"degrees": {"type": "number"}}, "required": ["degrees"]}
    text = [TextContent(type="text", text="21 degrees")]
    with one(CallToolResult(content=text, **sent), output_schema=schema) as client:
        reply = answer(run, client)
    assert reply.status == "error"
    assert problem in reply.content
    assert "21 degrees" not in reply.content


# -- A9: which tools


def test_a9_tools_are_selected_and_prefixed(calculator: MCPServer) -> None:
    assert list(named(MCPClient(calculator, include=["a*"], prefix="calc_"))) == ["calc_add"]
    assert list(named(MCPClient(calculator, exclude=["a*"]))) == ["divide"]
    with pytest.raises(InvalidConfig, match="has no tool 'ad'; did you mean 'add'"):
        MCPClient(calculator, include=["ad"]).tools()
    with pytest.raises(InvalidConfig, match="one text"):
        MCPClient(calculator, include="add")


@pytest.mark.parametrize("option", ["exclude", "safe"])
def test_a9_a_misspelt_name_is_told(calculator: MCPServer, caplog: pytest.LogCaptureFixture, option: str) -> None:
    client = MCPClient(calculator, name="c", prefix="c_", **{option: ["c_add", "divide", "z*"]})
    client.tools()
    assert [each.getMessage() for each in caplog.records] == [
        f"{option}=['c_add']: MCP server 'c' has no tool of that name"
    ]


def test_names_no_provider_takes_are_changed_and_may_not_collide(run: Any) -> None:
    tools = [Tool(name="a/b", description="x", input_schema=OPEN), Tool(name="a b", description="y", input_schema=OPEN)]
    result = CallToolResult(content=[TextContent(type="text", text="ok")])
    client = MCPClient(serving(tools[0], results={"a/b": result}))
    assert answer(run, client, "a_b").content == "ok"
    with pytest.raises(DuplicateTool, match=r"'a/b' and 'a b'"):
        MCPClient(serving(*tools)).tools()


# -- A10: text starts no process


@pytest.mark.parametrize("text", ["server.py", "python server.py", "file:///etc/passwd", "stdio://x", "", "http:///x"])
def test_a10_text_is_a_url_and_never_starts_a_program(text: str) -> None:
    for wrap in (MCPClient, MCPAdapter):
        with pytest.raises(InvalidConfig):
            wrap(text)
    with pytest.raises(InvalidConfig):
        MCPClient({"url": text})
    with pytest.raises(InvalidConfig):
        MCPClient(lambda: text).tools()


def test_headers_are_for_urls_only() -> None:
    with pytest.raises(InvalidConfig, match="servers behind a URL"):
        MCPClient(Stdio("python"), headers={"Authorization": "Bearer x"})


@pytest.mark.parametrize("value", ["Bearer hunter2\n", " hunter2", "hunter2\r\nX: y", "hünter2", 3])
def test_a_header_that_cannot_be_sent_is_refused_without_its_value(value: Any) -> None:
    with pytest.raises(InvalidConfig, match=r"'Authorization' of .* cannot be sent") as caught:
        MCPClient("https://x.example/mcp", headers={"Authorization": value})
    assert "unter2" not in str(caught.value)


def test_secrets_of_a_command_are_told_to_nobody() -> None:
    args = ["-y", "srv", "--api-key", "hunter2", "--token=hunter2", "SECRET_KEY=hunter2", "postgresql://u:hunter2@db/x"]
    target = Stdio("npx", args, env={"KEY": "hunter2"})
    client = MCPClient(target)
    for told in (repr(target), client.name, client.place, repr(client), str(list(client.seats()))):
        assert "hunter2" not in told
    assert client.place == "npx -y srv --api-key *** --token=*** SECRET_KEY=*** postgresql://u:***@db/x"
    assert target.args == args
    assert "hunter2" not in repr(MCPClient("https://u:hunter2@x.example/mcp?key=hunter2").target)
    with pytest.raises(InvalidConfig) as caught:
        MCPClient({"comand": "x", "headers": {"Authorization": "hunter2"}})
    assert "hunter2" not in str(caught.value)
    with pytest.raises(InvalidConfig) as caught:
        MCPClient({"args": ["x"], "env": {"KEY": "hunter2"}})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ({"args": "-y srv"}, "no list of texts"),
        ({"args": ["-p", 8000]}, "no list of texts"),
        ({"transport": "http"}, "transport='http'"),
        ({"type": "sse"}, "type='sse'"),
        ({"env": {"KEY": None}}, "'KEY' of 'npx' is no text but a NoneType"),
    ],
)
def test_a_command_of_other_things_than_texts_is_refused(command: Any, said: str) -> None:
    with pytest.raises(InvalidConfig, match=said):
        MCPClient({"command": "npx", **command})


# -- B10: a server's text


def test_b10_a_servers_text_is_bounded_and_clean() -> None:
    hidden = "Look.\u202e\u200b\x07 \U000e0041Now"
    schema = {"type": "object", "properties": {"q": {"type": "string", "description": "a\u202eb"}}}
    tool = named(MCPClient(serving(Tool(name="look", description=hidden + "x" * 5_000, input_schema=schema))))["look"]
    assert tool.description.startswith("Look. Now")
    assert len(tool.description) < 4_200
    assert "characters left out" in tool.description
    assert tool.args["q"]["description"] == "ab"
    assert "MCP server 'in memory: low'" in tool.origin


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        (Tool(name="n" * 65, input_schema=OPEN), "65 characters long; 64 are taken"),
        (Tool(name="big", input_schema={**OPEN, "description": "x" * 40_000}), "32768 are taken"),
        (Tool(name="sly", input_schema={"type": "object", "properties": {"a\u202eb": {}}}), "hidden characters"),
        (Tool(name="odd", input_schema=OPEN, output_schema={"type": 3}), "output schema of tool 'odd'"),
    ],
)
def test_b10_what_is_too_long_or_hidden_is_refused_by_name(tool: Tool, said: str) -> None:
    with pytest.raises(ToolDefinitionError, match=said):
        MCPClient(serving(tool)).tools()
    assert MCPClient(serving(tool), exclude=[tool.name]).tools() == []


def test_a_tool_that_says_nothing_is_told_as_such() -> None:
    tool = named(MCPClient(serving(Tool(name="look", input_schema=OPEN)), name="low"))["look"]
    assert tool.description == "The tool 'look' of the MCP server 'low'."


def test_a_flood_is_cut_and_says_so(run: Any) -> None:
    blocks = [TextContent(type="text", text="x" * 800), TextContent(type="text", text="y" * 800)]
    picture = ImageContent(type="image", data="A" * 4_000, mime_type="image/png")
    tool = Tool(name="look", description="Look.", input_schema=OPEN)
    server = serving(tool, results={"look": CallToolResult(content=[*blocks, picture])})
    content = answer(run, MCPClient(server, limits=MCPLimits(result=1_000, media=1_000))).content
    assert content.count("x") == 800
    assert "y" * 200 + "\n[..." in content
    assert "600 characters left out" in content
    assert "image of 3000 bytes left out" in content


# -- D1: what a call does


def test_d1_a_servers_hints_tighten_and_never_loosen() -> None:
    harmless = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True)
    tools = [
        Tool(name="says", input_schema=OPEN, annotations=harmless),
        Tool(name="plain", input_schema=OPEN),
        Tool(name="warns", input_schema=OPEN, annotations=ToolAnnotations(destructive_hint=True)),
    ]
    found = named(MCPClient(serving(*tools)))
    assert [found[name].destructive for name in ("says", "plain", "warns")] == [True, True, True]
    assert found["says"].idempotent is None
    trusted = named(MCPClient(serving(*tools), safe=["*"]))
    assert [trusted[name].destructive for name in ("says", "plain", "warns")] == [False, False, True]
    assert trusted["plain"].idempotent is True


# -- names known from elsewhere


async def _listed(server: Any) -> list[MCPTool]:
    async with MCPAdapter(server) as adapter:
        return await adapter.list_tools()


def test_names_of_other_frameworks(calculator: MCPServer) -> None:
    import asyncio

    assert [tool.name for tool in asyncio.run(_listed(calculator))] == ["add", "divide"]
    client = MCPClient(calculator)
    tool = as_langchain_tool(client, Tool(name="add", description="Add.", input_schema=OPEN))
    assert isinstance(tool.invoke(tool_call("add", a=1)), ToolMessage)


def test_a_file_of_python_may_be_named_as_a_path() -> None:
    assert MCPClient(Path("server.py")).target == Stdio(__import__("sys").executable, ["server.py"])
    with pytest.raises(InvalidConfig, match="not a Python file"):
        MCPClient(Path("server.js"))
