"""All that a server may offer, tell and ask, from a real server of the SDK: over stdio and over HTTP, in both versions
of the protocol, for both colours of caller."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runwell.agents import create_agent
from runwell.documents import Blob
from runwell.errors import MCPToolError, NodeTimeoutError
from runwell.graph import Command
from runwell.mcp import MCPClient, MultiServerMCPClient, Stdio
from runwell.messages import AIMessage, HumanMessage
from runwell.persistence import InMemorySaver
from runwell.testing.models import FakeChatModel

from .conftest import HttpServer, named, tool_call

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore:The logging capability is deprecated"),
]

LIBRARY = Path(__file__).parent / "servers" / "library.py"


class Echo(FakeChatModel):
    def _reply(self, request: Any) -> AIMessage:
        return AIMessage(" / ".join(message.text for message in request.messages))


class Equipped:
    """A client with every handler, and what they heard."""

    def __init__(self, target: Any, protocol: str, root: Path) -> None:
        self.progress: list[Any] = []
        self.log: list[Any] = []
        self.changes: list[str] = []
        self.client = MCPClient(
            target,
            name="lib",
            protocol=protocol,
            on_elicitation=lambda question: {"name": "Ada"},
            on_sampling=Echo(responses=[]),
            roots=[root],
            on_progress=self.progress.append,
            on_log=self.log.append,
            log_level="info",
            on_change=self.changes.append,
        )


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Any, Path]]]:
    folder = tmp_path_factory.mktemp("library")
    http, stdio = folder / "http", folder / "stdio"
    server = HttpServer(http, LIBRARY)
    server.start()
    program = Stdio(sys.executable, [str(LIBRARY)], env={"NOTES": str(stdio)})
    yield {"http": (server.url, http), "stdio": (program, stdio)}
    server.stop()


@pytest.fixture(params=["stdio", "http"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["auto", "legacy"])
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def noted(ways: Any, way: str) -> Any:
    """What the server noted since the test began."""
    notes: Path = ways[way][1]
    notes.write_text("")
    return notes.read_text


@pytest.fixture(scope="module")
def plain_clients(ways: Any) -> Iterator[dict[Any, MCPClient]]:
    made = {
        (way, protocol): MCPClient(target, name="lib", protocol=protocol)
        for way, (target, _) in ways.items()
        for protocol in ("auto", "legacy")
    }
    yield made
    for each in made.values():
        each.close()


@pytest.fixture(scope="module")
def equipped_clients(ways: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Any, Equipped]]:
    root = tmp_path_factory.mktemp("root")
    made = {
        (way, protocol): Equipped(target, protocol, root)
        for way, (target, _) in ways.items()
        for protocol in ("auto", "legacy")
    }
    yield made
    for each in made.values():
        each.client.close()


@pytest.fixture
def client(plain_clients: Any, way: str, protocol: str) -> MCPClient:
    """A client without handlers."""
    found: MCPClient = plain_clients[way, protocol]
    return found


@pytest.fixture
def equipped(equipped_clients: Any, way: str, protocol: str) -> Equipped:
    """A client with all of them."""
    found: Equipped = equipped_clients[way, protocol]
    for heard in (found.progress, found.log, found.changes):
        heard.clear()
    return found


def eventually(true: Any) -> None:
    until = time.monotonic() + 10
    while not true():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.005)


def agent_on(client: MCPClient, name: str, **options: Any) -> Any:
    model = FakeChatModel(responses=[AIMessage("", tool_calls=[tool_call(name)]), "done"])
    return create_agent(model, client.tools(), **options)


GO = {"messages": [("user", "go")]}


def test_structured_content_is_checked_and_kept(run: Any, client: MCPClient) -> None:
    reply = run.invoke(named(client)["weather"], tool_call("weather", city="Bern"))
    assert reply.artifact == {"city": "Bern", "degrees": 21}
    assert client.instructions == "Read before you write."


def test_pictures_sound_links_and_resources_are_blocks(run: Any, client: MCPClient) -> None:
    blocks = run.invoke(named(client)["show"], {})
    assert [each["type"] for each in blocks] == ["text", "image", "audio", "file", "text-plain"]
    assert blocks[1] == {"type": "image", "base64": "iVBORw0K", "mime_type": "image/png"}
    assert blocks[2]["mime_type"] == "audio/wav"
    assert blocks[3]["url"] == "https://example.org/a.pdf"
    assert blocks[4]["text"] == "n"


def test_progress_reaches_the_stream_and_the_listener_in_order(run: Any, equipped: Equipped) -> None:
    items = run.stream(agent_on(equipped.client, "count"), GO, stream_mode="custom")
    assert [each["message"] for each in items] == ["at 1", "at 2", "at 3"]
    assert equipped.progress == items


def test_log_lines_reach_the_listener(equipped: Equipped) -> None:
    named(equipped.client)["complain"].invoke({})
    eventually(lambda: equipped.log)
    assert equipped.log == [{"server": "lib", "level": "warning", "logger": "stove", "message": "it is hot"}]


def test_a_cancelled_run_stops_the_servers_work(client: MCPClient, noted: Any) -> None:
    agent = agent_on(client, "wait")

    async def main() -> None:
        task = asyncio.create_task(agent.ainvoke(GO))
        await asyncio.to_thread(eventually, lambda: "begun" in noted())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    eventually(lambda: "given up" in noted())
    assert named(client)["count"].invoke({}) == "counted"


def test_a_call_past_its_time_stops_the_servers_work(run: Any, client: MCPClient, noted: Any) -> None:
    tool = named(client)["wait"].model_copy(update={"timeout": 0.3})
    with pytest.raises(NodeTimeoutError):
        run.invoke(tool, {})
    eventually(lambda: "given up" in noted())


def test_lists_that_change_are_read_again(equipped: Equipped) -> None:
    client = equipped.client
    client.tools()
    name = named(client)["grow"].invoke({})
    eventually(lambda: {"tools", "prompts", "resources"} <= set(equipped.changes))
    assert f"tool_{name}" in [each.name for each in client.tools()]
    assert f"prompt_{name}" in [each["name"] for each in client.prompts()]
    assert f"note://{name}" in [each.uri for each in client.resources()]


def test_resources_are_documents_blobs_and_context(client: MCPClient) -> None:
    assert {each.uri for each in client.resources()} >= {"note://rain", "image://pixel"}
    note, pixel = client.read("note://rain", "image://pixel")
    assert (note.page_content, note.metadata["source"]) == ("It falls.", "note://rain")
    assert isinstance(pixel, Blob)
    (template,) = client.resource_templates()
    assert (template["uri_template"], template["description"]) == ("note://{town}/weather", "A town's weather.")
    (filled,) = asyncio.run(client.aread("note://Bern/weather"))
    assert filled.page_content == "Fine in Bern."
    blocks = client.context("note://rain", "image://pixel")
    assert [(each["type"], each["mime_type"]) for each in blocks] == [
        ("text-plain", "text/plain"),
        ("image", "image/png"),
    ]
    assert blocks == asyncio.run(client.acontext("note://rain", "image://pixel"))
    assert "It falls." in str(HumanMessage([{"type": "text", "text": "Sum this up."}, *blocks]).content)
    for call in (client.read, client.context):
        with pytest.raises(MCPToolError, match="did not give resource 'note://none/x/y'"):
            call("note://none/x/y")


def test_prompts_are_messages(client: MCPClient) -> None:
    assert "about" in [each["name"] for each in client.prompts()]
    messages = client.prompt("about", {"topic": "rain", "depth": 2})
    assert [type(each) for each in messages] == [HumanMessage, AIMessage]
    assert [each.text for each in messages] == ["What of rain?", "Depth 2."]
    with pytest.raises(MCPToolError, match="did not give prompt 'about'"):
        client.prompt("about")


def test_d23_a_model_and_roots_where_the_program_gives_them(run: Any, equipped: Equipped) -> None:
    tools = named(equipped.client)
    assert run.invoke(tools["think"], {}).endswith(": Be short. / 2 + 2?")
    assert run.invoke(tools["look"], {}).startswith("file:///")


def test_d23_a_model_and_roots_are_refused_otherwise(run: Any, client: MCPClient) -> None:
    for name in ("think", "look"):
        with pytest.raises(MCPToolError):
            run.invoke(named(client)[name], {})


def test_d22_a_handler_answers_in_process(run: Any, equipped: Equipped) -> None:
    assert run.invoke(named(equipped.client)["ask"], {}) == "accept Ada"


def test_d22_a_question_pauses_the_run_where_the_protocol_can_wait(run: Any, protocol: str, client: MCPClient) -> None:
    agent = agent_on(client, "ask", checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    first = run.invoke(agent, GO, config)
    if protocol == "legacy":  # the session would have to wait for a person
        assert "no on_elicitation handler" in first["messages"][2].content
        return
    assert first["__interrupt__"][0].value["message"] == "What name?"
    done = run.invoke(agent, Command(resume={"action": "accept", "content": {"name": "Ada"}}), config)
    assert done["messages"][2].content == "accept Ada"


def test_servers_of_both_kinds_are_one(run: Any, ways: Any) -> None:
    servers = {way: target for way, (target, _) in ways.items()}
    with MultiServerMCPClient(servers, tool_name_prefix=True) as client:
        tools = {tool.name: tool for tool in client.tools()}
        for way in ways:
            assert run.invoke(tools[f"{way}_count"], {}) == "counted"
