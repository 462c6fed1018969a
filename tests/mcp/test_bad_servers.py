"""Servers that are wrong or mean: schemas that are none or point elsewhere, lists without an end, floods in odd places;
and clients that are told what makes no sense."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from mcp.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp.types import (
    BlobResourceContents,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ImageContent,
    InputRequiredResult,
    ListToolsResult,
    ReadResourceResult,
    ResourceLink,
    TextContent,
    Tool,
)

from runwell.agents import create_agent
from runwell.errors import (
    DuplicateTool,
    InvalidConfig,
    InvalidInput,
    MCPConnectionError,
    MCPToolError,
    OutputParserException,
    RunwellError,
    ToolDefinitionError,
)
from runwell.graph import Command
from runwell.mcp import MCPClient, MCPLimits, MultiServerMCPClient
from runwell.messages import AIMessage
from runwell.persistence import InMemorySaver
from runwell.testing.models import FakeChatModel
from runwell.tools import tool

from .conftest import named, running, tool_call
from .test_tools import OPEN, serving

CONFIG = {"configurable": {"thread_id": "t"}}


class Elsewhere:
    """A place that a schema may point to, and who asked there."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b'{"type": "integer"}')

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/schema.json"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    made = Elsewhere()
    yield made
    made.server.shutdown()
    made.server.server_close()


def asking(schema: Any) -> Server[Any]:
    async def listed(ctx: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="ask", description="Ask.", input_schema=OPEN)])

    async def called(ctx: Any, params: Any) -> Any:
        if params.input_responses is None:
            question = ElicitRequestFormParams(message="What?", requested_schema=schema)
            return InputRequiredResult(input_requests={"q": ElicitRequest(params=question)}, request_state="s")
        said = json.dumps(params.input_responses["q"].content)
        return CallToolResult(content=[TextContent(type="text", text=said)])

    return Server("asking", on_list_tools=listed, on_call_tool=called)


def agent_on(client: MCPClient, name: str = "ask") -> Any:
    model = FakeChatModel(responses=[AIMessage("", tool_calls=[tool_call(name)]), "done"])
    return create_agent(model, client.tools(), checkpointer=InMemorySaver())


# -- schemas


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "object", "properties": []}, "not of type"),
        ({"type": "object", "properties": {"a": None}}, "null is not of types"),
        ({"type": "object", "properties": {"a": {"type": "wrong"}}}, "wrong"),
        ({"type": "object", "properties": {"a": {"pattern": "("}}}, "regex"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}, "does not exist"),
        ({"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}, "nothing is fetched"),
    ],
)
def test_b10_a_schema_that_is_none_is_refused_by_the_tools_name(schema: Any, problem: str) -> None:
    server = serving(Tool(name="odd", input_schema=schema), Tool(name="fine", input_schema=OPEN))
    with pytest.raises(
        ToolDefinitionError, match=f"The schema of tool 'odd' of MCP server 'low' .*{problem}"
    ) as caught:
        MCPClient(server, name="low").tools()
    assert "exclude=['odd']" in caught.value.hint
    assert list(named(MCPClient(server, exclude=["odd"]))) == ["fine"]


def test_a_schema_may_refer_to_itself(run: Any) -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#"}, "n": {"type": "integer"}}}
    done = CallToolResult(content=[TextContent(type="text", text="ok")])
    tool = named(MCPClient(serving(Tool(name="t", input_schema=node), results={"t": done})))["t"]
    assert run.invoke(tool, {"next": {"n": 1}}) == "ok"
    with pytest.raises(RunwellError, match="expected integer"):
        run.invoke(tool, {"next": {"n": "x"}})


def test_safe_nothing_is_fetched_for_any_schema(run: Any, elsewhere: Elsewhere) -> None:
    """Tools, answers and questions of servers, and schemas of the program: none makes this machine ask another."""
    pointing = {"type": "object", "properties": {"a": {"$ref": elsewhere.url}}, "required": ["a"]}
    for given in (Tool(name="t", input_schema=pointing), Tool(name="t", input_schema=OPEN, output_schema=pointing)):
        with pytest.raises(ToolDefinitionError, match="nothing is fetched"):
            MCPClient(serving(given)).tools()
    reply = run.invoke(agent_on(MCPClient(asking(pointing))), {"messages": "go"}, CONFIG)["messages"][2]
    assert reply.status == "error"
    assert "its question cannot be asked" in reply.content
    with pytest.raises(MCPToolError, match="its question cannot be asked"):
        run.invoke(named(MCPClient(asking(pointing), on_elicitation=lambda question: {"a": 1}))["ask"], {})

    from runwell.graph import interrupt
    from runwell.schemas.structured import StructuredSchema

    @tool
    def pause() -> str:
        """Pause."""
        return str(interrupt("?", response_schema=pointing))

    model = FakeChatModel(responses=[AIMessage("", tool_calls=[tool_call("pause")])])
    agent = create_agent(model, [pause], checkpointer=InMemorySaver())
    with pytest.raises(RunwellError):
        run.invoke(agent, {"messages": "go"}, CONFIG)
        run.invoke(agent, Command(resume={"a": "x"}), CONFIG)
    with pytest.raises((RunwellError, OutputParserException)):
        StructuredSchema(pointing).parse({"a": "x"})
    assert elsewhere.asked == []


def test_d23_a_form_is_shown_without_hidden_characters(run: Any) -> None:
    colour = {"type": "string", "enum": ["red", "blue"], "description": "A \u202ecolour."}
    schema = {"type": "object", "properties": {"colour": colour}, "required": ["colour"]}
    agent = agent_on(MCPClient(asking(schema)))
    question = run.invoke(agent, {"messages": "go"}, CONFIG)["__interrupt__"][0].value
    assert question["schema"]["properties"]["colour"] == {
        "type": "string",
        "enum": ["red", "blue"],
        "description": "A colour.",
    }
    done = run.invoke(agent, Command(resume={"action": "accept", "content": {"colour": "red"}}), CONFIG)
    assert done["messages"][2].content == '{"colour": "red"}'


@pytest.mark.parametrize(
    "schema",
    [
        {"type": 3},
        {"type": "object", "properties": {"a": {"type": "x"}}},
        {"type": "object", "description": "x" * 40_000},
    ],
)
def test_d23_a_form_that_is_no_schema_is_the_servers_fault(run: Any, schema: Any) -> None:
    reply = run.invoke(agent_on(MCPClient(asking(schema), name="m")), {"messages": "go"}, CONFIG)["messages"][2]
    assert reply.status == "error"
    assert "MCP server 'm'" in reply.content


# -- lists


def test_a_list_without_an_end_is_given_up() -> None:
    pages: list[str | None] = []

    async def listed(ctx: Any, params: Any) -> ListToolsResult:
        pages.append(params.cursor if params else None)
        return ListToolsResult(tools=[], next_cursor=str(len(pages)))

    with pytest.raises(ToolDefinitionError, match="more than 20 tools, or pages of them"):
        MCPClient(Server("low", on_list_tools=listed), limits=MCPLimits(tools=20)).tools()
    assert len(pages) == 20


def test_all_pages_of_a_list_are_read() -> None:
    async def listed(ctx: Any, params: Any) -> ListToolsResult:
        at = int(params.cursor or 0) if params else 0
        return ListToolsResult(
            tools=[Tool(name=f"t{at}", input_schema=OPEN)], next_cursor=str(at + 1) if at < 3 else None
        )

    assert list(named(MCPClient(Server("low", on_list_tools=listed)))) == ["t0", "t1", "t2", "t3"]


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
def test_a_list_that_is_refused_or_broken_is_told(protocol: str) -> None:
    async def refused(ctx: Any, params: Any) -> ListToolsResult:
        raise MCPError(code=-32000, message="closed today\u202e")

    async def broken(ctx: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="t", input_schema={"type": "string"})])

    with pytest.raises(MCPToolError, match=r"'low' did not give its tools: closed today$"):
        MCPClient(Server("low", on_list_tools=refused), name="low", protocol=protocol).tools()
    with pytest.raises(MCPToolError, match="'low' did not give its tools: "):
        MCPClient(Server("low", on_list_tools=broken), name="low", protocol=protocol).tools()


def test_a_server_without_a_kind_of_thing_has_none_of_it() -> None:
    with MCPClient(serving(Tool(name="t", input_schema=OPEN))) as client:
        assert (client.resources(), client.resource_templates(), client.prompts()) == ([], [], [])
    with MCPClient(Server("empty")) as client:
        assert client.tools() == []


def test_one_name_twice_in_one_list_is_refused() -> None:
    with pytest.raises(DuplicateTool, match="both called 't' here: 't' and 't'"):
        MCPClient(serving(Tool(name="t", input_schema=OPEN), Tool(name="t", input_schema=OPEN))).tools()


def test_a_tool_called_like_one_of_the_program_is_refused() -> None:
    @tool
    def look() -> str:
        """Look."""
        return ""

    with pytest.raises(DuplicateTool, match=r"'look': .*look \(.*\.py:\d+\) and look \(MCP server 'low'"):
        create_agent(
            FakeChatModel(), [look, *MCPClient(serving(Tool(name="look", input_schema=OPEN)), name="low").tools()]
        )


def test_arguments_may_have_any_name(run: Any) -> None:
    names = [
        "config",
        "runtime",
        "callbacks",
        "run_manager",
        "state",
        "store",
        "tool_call_id",
        "self",
        "args",
        "kwargs",
    ]

    async def listed(ctx: Any, params: Any) -> ListToolsResult:
        schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": names}
        return ListToolsResult(tools=[Tool(name="echo", input_schema=schema)])

    async def called(ctx: Any, params: Any) -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text=" ".join(sorted(params.arguments)))])

    with MCPClient(Server("low", on_list_tools=listed, on_call_tool=called)) as client:
        given = dict.fromkeys(names, "x")
        model = FakeChatModel(responses=[AIMessage("", tool_calls=[tool_call("echo", **given)]), "done"])
        messages = run.invoke(create_agent(model, client.tools()), {"messages": "go"})["messages"]
    assert messages[2].content == " ".join(sorted(names))


# -- floods in odd places


def test_a_flood_in_any_part_of_an_answer_is_cut(run: Any) -> None:
    big = "x" * 50_000
    link = ResourceLink(type="resource_link", uri="https://a.example/", name=big, title=big, description=big)
    far = ResourceLink(type="resource_link", uri=f"https://a.example/{big}", name="far", mime_type=big)
    many = [TextContent(type="text", text="y")] * 2_000
    results = {
        "links": CallToolResult(content=[link, far]),
        "many": CallToolResult(content=many),
        "structured": CallToolResult(content=[], structured_content={"a": big, "b": "\u202e"}),
        "failed": CallToolResult(content=[], structured_content={"a": big}, is_error=True),
    }
    server = serving(*(Tool(name=name, input_schema=OPEN) for name in results), results=results)
    with MCPClient(server, limits=MCPLimits(result=1_000, message=500)) as client:
        tools = named(client)
        replies = {name: run.invoke(tools[name], tool_call(name)) for name in ("links", "many", "structured")}
        with pytest.raises(MCPToolError) as caught:
            run.invoke(tools["failed"], {})
    assert len(str(replies["links"].content)) < 5_000
    assert "link of 50018 characters left out" in str(replies["links"].content)
    assert len(replies["many"].content) < 2_200
    assert "1000 more parts left out" in replies["many"].content
    assert len(replies["structured"].content) < 1_100
    assert "\u202e" not in replies["structured"].content
    assert len(caught.value.message) < 1_100


def test_halves_of_characters_are_dropped(run: Any, tmp_path: Path) -> None:
    from runwell.persistence import SqliteSaver

    text = CallToolResult(content=[TextContent(type="text", text="a\ud800b")])
    schema = {"type": "object", "properties": {"q": {"type": "string", "description": "c\udfffd"}}}
    with MCPClient(serving(Tool(name="t", input_schema=schema), results={"t": text})) as client:
        (found,) = client.tools()
        assert found.args["q"]["description"] == "cd"
        model = FakeChatModel(responses=[AIMessage("", tool_calls=[tool_call("t")]), "done"])
        with SqliteSaver(tmp_path / "runs.db") as saver:
            agent = create_agent(model, [found], checkpointer=saver)
            assert run.invoke(agent, {"messages": "go"}, CONFIG)["messages"][2].content == "ab"


# -- addresses where no such server is


async def _answering(scope: Any, receive: Any, send: Any) -> None:
    status = int(scope["path"].strip("/") or 200)
    headers = [(b"content-type", b"text/html")]
    if status == 302:
        headers.append((b"location", b"http://elsewhere.example/"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"<html>\xff</html>"})


@pytest.mark.integration
@pytest.mark.parametrize("protocol", ["auto", "legacy"])
def test_a_page_that_is_no_server_is_told_as_such(protocol: str) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await _answering(scope, receive, send)

    with running(app) as url:
        base = url.removesuffix("/mcp")
        for status in (200, 302, 404, 405, 500, 503):
            with pytest.raises(MCPConnectionError) as caught:
                MCPClient(f"{base}/{status}", protocol=protocol, connect_timeout=5).tools()
            said = caught.value.message
            assert f"{base}/{status}" in said
            assert {200: "text/html", 302: "Redirect to"}.get(status, f"HTTP {status}") in said


# -- what a client is told


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"timeout": 0}, "timeout=0"),
        ({"timeout": "x"}, "timeout='x'"),
        ({"connect_timeout": -1}, "connect_timeout=-1"),
        ({"protocol": "legasy"}, "'legasy'; did you mean 'legacy'"),
        ({"session": "cal"}, "'cal'; did you mean 'call'"),
        ({"log_level": "warn"}, "log_level='warn'"),
        ({"include": [1]}, "no list of names"),
        ({"safe": "read_*"}, "one text"),
        ({"pin": {"x": 1}}, "no mapping of names to digests"),
        ({"pin": 3}, "pin=3"),
        ({"prefix": "a b"}, "cannot begin the name of a tool"),
        ({"prefix": None}, "cannot begin the name of a tool"),
        ({"limits": {"name": 3}}, "limits="),
        ({"on_elicitation": "yes"}, "'yes' cannot be called"),
        ({"on_progress": 3}, "cannot be called"),
        ({"on_sampling": 3}, "on_sampling=3"),
        ({"roots": "x"}, "roots='x'"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_when_it_is_given(options: Any, said: str) -> None:
    with pytest.raises(InvalidConfig, match=said):
        MCPClient(MCPServer("x", log_level="ERROR"), **options)


@pytest.mark.parametrize(("options", "said"), [({"headers": "x"}, "no mapping"), ({"auth": ("a", "b")}, "is a tuple")])
def test_what_goes_with_requests_is_checked_when_it_is_given(options: Any, said: str) -> None:
    with pytest.raises(InvalidConfig, match=said):
        MCPClient("https://x.example/mcp", **options)


def test_limits_are_whole_and_positive() -> None:
    for wrong in ({"name": 0}, {"result": -1}, {"tools": "many"}):
        with pytest.raises(InvalidConfig, match=f"MCPLimits\\({next(iter(wrong))}="):
            MCPLimits(**wrong)


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
@pytest.mark.parametrize("code", [-32000, -32600, -32603, -32001, 1])
def test_an_error_of_the_servers_own_is_no_lost_connection(run: Any, protocol: str, code: int) -> None:
    calls: list[int] = []

    async def listed(ctx: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="t", input_schema=OPEN)])

    async def called(ctx: Any, params: Any) -> CallToolResult:
        calls.append(1)
        raise MCPError(code=code, message="the disk is full")

    with MCPClient(Server("low", on_list_tools=listed, on_call_tool=called), protocol=protocol, safe=["*"]) as client:
        with pytest.raises(MCPToolError, match="did not carry out 't': the disk is full"):
            run.invoke(named(client)["t"], {})
        assert (len(calls), client._connection.opened) == (1, 1)


def test_what_is_no_address_no_argument_and_no_file_is_told(tmp_path: Path) -> None:
    server = MCPServer("library", log_level="ERROR")

    @server.resource("note://rain")
    def rain() -> str:
        return "It falls."

    @server.prompt()
    def about(topic: str, depth: str = "1") -> str:
        return f"{topic} {depth}"

    with MCPClient(server) as client:
        assert [each.page_content for each in client.read(*client.resources())] == ["It falls."]
        with pytest.raises(InvalidInput, match="no address of a resource"):
            client.read(["note://rain"])
        assert client.prompt("about", {"topic": "rain", "depth": None})[0].text == "rain 1"
        with pytest.raises(InvalidInput, match="no mapping of names to values"):
            client.prompt("about", "rain")
        with pytest.raises(InvalidConfig, match="cannot be written to"):
            client.write_pins(tmp_path / "none" / "pins.json")
    with pytest.raises(InvalidConfig, match="cannot be read"):
        MCPClient(server, pin=tmp_path)
    with pytest.raises(InvalidConfig, match="no mapping"):
        MultiServerMCPClient([server])


def test_what_is_not_base64_or_too_large_is_left_out(run: Any) -> None:
    """A provider would refuse the whole conversation for it, in every later turn."""
    pictures = [
        ImageContent(type="image", data="!!!", mime_type="image/png"),
        ImageContent(type="image", data="aGVs\nbG8=", mime_type="image/png"),
    ]
    blobs = {"a://bad": "!!!", "a://big": "AAAA" * 500, "a://good": "aGVs\nbG8="}

    async def read(ctx: Any, params: Any) -> ReadResourceResult:
        return ReadResourceResult(contents=[BlobResourceContents(uri=params.uri, blob=blobs[str(params.uri)])])

    server = serving(Tool(name="t", input_schema=OPEN), results={"t": CallToolResult(content=pictures)})
    with MCPClient(server) as client:
        assert run.invoke(named(client)["t"], {}) == [
            {"type": "text", "text": "[image left out: it is not base64]"},
            {"type": "image", "base64": "aGVsbG8=", "mime_type": "image/png"},
        ]
    with MCPClient(Server("r", on_read_resource=read), limits=MCPLimits(media=1_000)) as client:
        assert client.read("a://good")[0].as_bytes() == b"hello"
        with pytest.raises(MCPToolError, match="is not base64"):
            client.read("a://bad")
        with pytest.raises(MCPToolError, match="has 1500 bytes; 1000 are taken"):
            client.read("a://big")
        assert "left out" in client.context("a://big")[0]["text"]
