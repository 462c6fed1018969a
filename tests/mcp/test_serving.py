"""Tools and agents as an MCP server: for the SDK's client, for ours, and as a command."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp.types import ElicitResult
from pydantic import BaseModel

from mcp import Client
from runwell.agents import Budget, create_agent
from runwell.agents.structured_output import ToolStrategy
from runwell.errors import DuplicateTool, InvalidConfig, InvalidInput, MCPToolError, ToolError
from runwell.graph import START, MessagesState, StateGraph, interrupt
from runwell.mcp import MCPClient, Stdio, as_mcp_server, serve
from runwell.messages import AIMessage
from runwell.observe import BaseCallbackHandler
from runwell.persistence import InMemorySaver
from runwell.testing.models import FakeChatModel
from runwell.tools import tool

from .conftest import named, tool_call

pytestmark = pytest.mark.integration

COMMAND = [sys.executable, "-c", "from runwell.cli.main import main; main()"]
OFFICE = Path(__file__).parent / "servers" / "office.py"


@pytest.fixture(scope="module")
def office() -> Any:
    spec = importlib.util.spec_from_file_location("office", OFFICE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def served(office: Any) -> Any:
    return as_mcp_server(office.add, office.colour, office.count, office.clerk, name="office")


def call(server: Any, name: str, arguments: dict[str, Any], mode: str = "auto", **callbacks: Any) -> Any:
    async def run() -> Any:
        async with Client(server, mode=mode, **callbacks) as client:
            progress = callbacks.pop("progress", None)
            return await client.call_tool(name, arguments, progress_callback=progress)

    return asyncio.run(run())


def answering(*answers: Any, seen: list[Any] | None = None) -> Any:
    left = list(answers)

    async def answer(context: Any, params: Any) -> ElicitResult:
        if seen is not None:
            seen.append(params)
        said = left.pop(0)
        return ElicitResult(action=said) if isinstance(said, str) else ElicitResult(action="accept", content=said)

    return answer


MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])


@MODES
def test_tools_are_listed_and_called(served: Any, mode: str) -> None:
    async def run() -> Any:
        async with Client(served, mode=mode) as client:
            found = {each.name: each for each in (await client.list_tools()).tools}
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool("nothing", {})
            return found, await client.call_tool("add", {"a": 1, "b": 2}), await client.call_tool("add", {"a": "x"})

    found, good, bad = asyncio.run(run())
    assert list(found) == ["add", "colour", "count", "clerk"]
    assert found["add"].description == "Add two numbers."
    assert set(found["add"].input_schema["properties"]) == {"a", "b"}
    assert found["add"].annotations.read_only_hint is True
    assert (good.content[0].text, good.is_error) == ("3", False)
    assert bad.is_error
    assert "b: missing; expected integer" in bad.content[0].text


@MODES
def test_a_pause_is_a_question_to_the_client(served: Any, mode: str) -> None:
    seen: list[Any] = []
    done = call(served, "colour", {}, mode, elicitation_callback=answering({"answer": "blue"}, seen=seen))
    assert done.content[0].text == "painted blue"
    assert seen[0].message == "Which colour?"
    assert seen[0].requested_schema["properties"] == {"answer": {"type": "string", "enum": ["red", "blue"]}}


@MODES
def test_an_answer_that_does_not_fit_is_asked_for_again(served: Any, mode: str) -> None:
    seen: list[Any] = []
    answers = answering({"answer": "green"}, {"answer": "red"}, seen=seen)
    assert call(served, "colour", {}, mode, elicitation_callback=answers).content[0].text == "painted red"
    assert "does not fit" in seen[1].message


@MODES
def test_a_question_that_is_refused_ends_the_call(served: Any, mode: str) -> None:
    done = call(served, "colour", {}, mode, elicitation_callback=answering("decline"))
    assert done.is_error
    assert "the answer was: decline" in done.content[0].text


@MODES
def test_a_client_that_cannot_be_asked_is_told_so(served: Any, mode: str) -> None:
    done = call(served, "colour", {}, mode)
    assert done.is_error
    assert "Which colour?" in done.content[0].text
    assert "cannot be asked" in done.content[0].text


@MODES
@pytest.mark.parametrize(
    ("answer", "end"),
    [
        ({"decision": "approve"}, "It went so: deleted /tmp/x"),
        ({"decision": "respond", "message": "keep it"}, "It went so: keep it"),
        ("decline", "rejected this call"),
    ],
)
def test_an_agents_approval_is_a_question_to_the_client(served: Any, mode: str, answer: Any, end: str) -> None:
    seen: list[Any] = []
    done = call(served, "clerk", {"task": "/tmp/x"}, mode, elicitation_callback=answering(answer, seen=seen))
    assert end in done.content[0].text
    assert not done.is_error
    assert "delete({'path': '/tmp/x'})" in seen[0].message
    assert seen[0].requested_schema["properties"]["decision"]["enum"] == ["approve", "reject", "respond"]


@MODES
def test_what_tools_report_is_progress(served: Any, mode: str) -> None:
    heard: list[Any] = []

    async def run() -> Any:
        async def progress(done: float, total: float | None, message: str | None) -> None:
            heard.append((done, message))

        async with Client(served, mode=mode) as client:
            return await client.call_tool("count", {}, progress_callback=progress)

    assert asyncio.run(run()).content[0].text == "counted"
    assert heard == [(1, "at 1"), (2, "at 2"), (3, "at 3")]


def test_our_client_carries_the_questions_of_our_server_to_a_pause(run: Any, office: Any) -> None:
    """An agent on each side: what the served one asks pauses the one that calls it."""
    client = MCPClient(as_mcp_server(office.clerk), name="office")
    model = FakeChatModel(responses=[AIMessage("", tool_calls=[tool_call("clerk", task="/tmp/x")]), "done"])
    agent = create_agent(model, client.tools(), checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    first = run.invoke(agent, {"messages": [("user", "go")]}, config)
    (question,) = first["__interrupt__"]
    assert "delete" in question.value["message"]
    from runwell.graph import Command

    answer = {"action": "accept", "content": {"decision": "approve"}}
    done = run.invoke(agent, Command(resume=answer), config)
    assert done["messages"][-2].content == "It went so: deleted /tmp/x"


@MODES
def test_a_server_in_this_process_is_no_part_of_the_run_that_calls_it(run: Any, mode: str) -> None:
    from runwell.observe.context import CURRENT
    from runwell.ports.runtime import CURRENT_TASK

    server = MCPServer("near", log_level="ERROR")
    seen: list[Any] = []

    @server.tool()
    async def look() -> str:
        """Look around."""
        seen.append((CURRENT_TASK.get(), CURRENT.get()))
        return "seen"

    with MCPClient(server, protocol=mode) as client:
        agent = create_agent(
            FakeChatModel(responses=[AIMessage("", tool_calls=[tool_call("look")]), "done"]), client.tools()
        )
        run.invoke(agent, {"messages": [("user", "go")]}, {"callbacks": [BaseCallbackHandler()]})
    assert seen == [(None, None)]


def test_nothing_is_kept_of_a_call_that_is_over(office: Any) -> None:
    saver = InMemorySaver()
    server = as_mcp_server(office.add, office.colour, saver=saver)
    client = MCPClient(server, on_elicitation=lambda question: {"answer": "red"})
    tools = named(client)
    assert tools["add"].invoke({"a": 1, "b": 2}) == "3"
    assert tools["colour"].invoke({}) == "painted red"
    assert saver.read_threads() == []


def test_a_tool_that_breaks_tells_no_secrets() -> None:
    @tool
    def broken() -> str:
        """Break."""
        raise RuntimeError("password=hunter2")

    with pytest.raises(MCPToolError, match=r"'broken' failed: RuntimeError\.") as caught:
        named(MCPClient(as_mcp_server(broken)))["broken"].invoke({})
    assert "hunter2" not in str(caught.value)


def test_blocks_go_through_as_they_are(run: Any) -> None:
    blocks = [
        {"type": "text", "text": "see"},
        {"type": "image", "base64": "aGk=", "mime_type": "image/png"},
        {"type": "audio", "base64": "aGk=", "mime_type": "audio/wav"},
        {"type": "text-plain", "text": "n", "mime_type": "text/plain", "extras": {"uri": "note://1"}},
    ]

    @tool(response_format="content_and_artifact")
    def look() -> Any:
        """Look."""
        return blocks, {"seen": 4}

    reply = run.invoke(named(MCPClient(as_mcp_server(look)))["look"], tool_call("look"))
    assert reply.content == blocks
    assert reply.artifact == {"seen": 4}


def test_what_cannot_be_served_is_refused(office: Any) -> None:
    with pytest.raises(InvalidInput, match="no tools"):
        as_mcp_server()
    with pytest.raises(DuplicateTool):
        as_mcp_server(office.add, tool("add", description="x")(lambda a: a))
    with pytest.raises(InvalidInput, match="without a name"):
        as_mcp_server(create_agent(FakeChatModel(), []))


class Weather(TypedDict):
    city: str
    degrees: int


@tool(output_schema=Weather, read_only=True, idempotent=True, destructive=False, open_world=True)
def weather(city: str) -> Weather:
    """Tell the weather."""
    return {"city": city, "degrees": 21}


@tool(output_schema=list[int])
def dice(count: int) -> list[int]:
    """Throw dice."""
    return [6] * count


@tool(output_schema=str)
def quote(number: int) -> str:
    """Quote a number."""
    return f'"{number}"'


@tool(output_schema=Weather, response_format="content_and_artifact")
def forecast(city: str) -> Any:
    """Tell tomorrow's weather."""
    return "warm", {"city": city, "degrees": 25}


@tool(output_schema=Weather)
def wrong(city: str) -> Any:
    """Break its word."""
    return {"city": city, "degrees": "warm"}


class Verdict(BaseModel):
    good: bool
    why: str


@MODES
def test_what_a_tool_declares_is_announced_and_sent_e13(run: Any, mode: str) -> None:
    judge = create_agent(
        FakeChatModel(responses=[AIMessage("", tool_calls=[tool_call("Verdict", good=True, why="it is")])]),
        [],
        response_format=ToolStrategy(Verdict),
        name="judge",
    )
    server = as_mcp_server(weather, dice, quote, forecast, wrong, judge)

    async def listed() -> Any:
        async with Client(server, mode=mode) as client:
            return {each.name: each for each in (await client.list_tools()).tools}

    found = asyncio.run(listed())
    hints = found["weather"].annotations
    assert (hints.read_only_hint, hints.idempotent_hint, hints.destructive_hint, hints.open_world_hint) == (
        True,
        True,
        False,
        True,
    )
    assert set(found["weather"].output_schema["properties"]) == {"city", "degrees"}
    assert found["dice"].output_schema["properties"]["result"]["type"] == "array"
    assert set(found["judge"].output_schema["properties"]) == {"good", "why"}
    sent = {
        name: call(server, name, arguments, mode)
        for name, arguments in {
            "weather": {"city": "Bern"},
            "dice": {"count": 2},
            "quote": {"number": 3},
            "forecast": {"city": "Bern"},
            "wrong": {"city": "Bern"},
            "judge": {"task": "this"},
        }.items()
    }
    assert {name: each.structured_content for name, each in sent.items()} == {
        "weather": {"city": "Bern", "degrees": 21},
        "dice": {"result": [6, 6]},
        "quote": {"result": '"3"'},
        "forecast": {"city": "Bern", "degrees": 25},
        "wrong": None,
        "judge": {"good": True, "why": "it is"},
    }
    assert sent["forecast"].content[0].text == "warm"
    assert [name for name, each in sent.items() if each.is_error] == ["wrong"]
    with MCPClient(server, protocol=mode) as client:  # our own client checks them by what was announced
        reply = run.invoke(named(client)["weather"], tool_call("weather", city="Bern"))
    assert reply.artifact == {"city": "Bern", "degrees": 21}


@pytest.mark.integration
def test_the_command_serves_over_stdio() -> None:
    command = [*COMMAND, "mcp", "serve", f"{OFFICE}:add,clerk"]
    env = {"PYTHONPATH": os.pathsep.join(sys.path)}
    with MCPClient(
        Stdio(command[0], command[1:], env=env), on_elicitation=lambda question: {"decision": "approve"}
    ) as client:
        tools = named(client)
        assert tools["add"].invoke({"a": 1, "b": 2}) == "3"
        assert tools["clerk"].invoke({"task": "/tmp/x"}) == "It went so: deleted /tmp/x"


@pytest.mark.integration
def test_the_command_serves_over_http(tmp_path: Path) -> None:
    import socket
    import time

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [*COMMAND, "mcp", "serve", f"{OFFICE}:add", "--http", "--port", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 30
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.05)
        with MCPClient(f"http://127.0.0.1:{port}/mcp") as client:
            assert named(client)["add"].invoke({"a": 1, "b": 2}) == "3"
    finally:
        process.kill()
        process.wait()


def test_what_the_program_keeps_to_itself_is_told_to_no_caller() -> None:
    """Errors of the outside, which an agent's own model would be told of, name hosts and files."""

    @tool
    def lookup() -> str:
        """Look up."""
        raise ConnectionError("db.internal refused hunter2")

    class Broken(FakeChatModel):
        def _reply(self, request: Any) -> AIMessage:
            raise ConnectionError("model.internal refused hunter2")

    agent = create_agent(Broken(responses=[]), [], name="agent_7")
    for server, name in (
        (as_mcp_server(lookup), "lookup"),
        (as_mcp_server(agent), "agent_7"),
        (as_mcp_server(agent, saver=InMemorySaver()), "agent_7"),
    ):
        done = call(server, name, {} if name == "lookup" else {"task": "x"})
        assert (done.is_error, done.content[0].text) == (True, f"The tool {name!r} failed: ConnectionError.")


def test_what_a_tool_says_of_its_failure_is_told() -> None:
    @tool
    def refuse() -> str:
        """Refuse."""
        raise ToolError("not on Sundays")

    @tool(timeout=0.1)
    async def hang() -> str:
        """Hang."""
        await asyncio.Event().wait()
        return ""

    server = as_mcp_server(refuse, hang)
    assert call(server, "refuse", {}).content[0].text == "not on Sundays"
    assert "hang took longer than its timeout" in call(server, "hang", {}).content[0].text


def test_an_agents_own_limit_ends_the_call() -> None:
    class Looping(FakeChatModel):
        def _reply(self, request: Any) -> AIMessage:
            return AIMessage("", tool_calls=[tool_call("dice", str(len(request.messages)), count=1)])

    agent = create_agent(Looping(responses=[]), [dice], name="looping", budget=Budget(model_calls=3))
    for saver in (None, InMemorySaver()):
        done = call(as_mcp_server(agent, saver=saver), "looping", {"task": "x"})
        assert done.is_error
        assert "3 of 3 model_calls" in done.content[0].text


def test_halves_of_characters_end_no_server() -> None:
    @tool
    def half() -> str:
        """Give half."""
        return "a\ud800"

    @tool(output_schema=Weather, response_format="content_and_artifact")
    def odd(city: str) -> Any:
        """Give an odd place."""
        return "odd", {"city": "b\udfff", "degrees": 1}

    @tool
    def ask() -> str:
        """Ask oddly."""
        return str(interrupt("What\ud800?"))

    with MCPClient(
        as_mcp_server(half, odd, ask),
        protocol="legacy",
        on_elicitation=lambda question: {"answer": question["message"]},
    ) as client:
        tools = named(client)
        assert tools["half"].invoke({}) in ("a?", r"a\ud800")
        assert tools["odd"].invoke(tool_call("odd", city="x")).artifact == {"city": "b?", "degrees": 1}
        assert tools["ask"].invoke({}) == "What??"


def test_a_tool_may_have_a_store() -> None:
    from runwell.persistence import InMemoryStore
    from runwell.tools import InjectedStore

    @tool
    def remember(what: str, store: Annotated[Any, InjectedStore()]) -> str:
        """Remember."""
        store.put(("notes",), what, {"text": what})
        return "kept"

    store = InMemoryStore()
    assert call(as_mcp_server(remember, store=store), "remember", {"what": "rain"}).content[0].text == "kept"
    assert store.get(("notes",), "rain").value == {"text": "rain"}
    with pytest.raises(InvalidInput, match="'remember' needs a long-term store"):
        as_mcp_server(remember)


def test_what_says_not_what_it_does_is_refused() -> None:
    graph = StateGraph(MessagesState).add_node("n", _node).add_edge(START, "n").compile()
    for part in (FakeChatModel(responses=["x"]), graph):
        with pytest.raises(InvalidInput, match="does not say to a model what it does") as caught:
            as_mcp_server(part)
        assert "as_tool(name=" in caught.value.hint


def _node(state: Any) -> Any:
    return {}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"seal": ["short"]}, "32 bytes"),
        ({"seal": "x" * 40}, "no list of secrets"),
        ({"seal": []}, "no list of secrets"),
        ({"keep": -1}, "keep=-1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(office: Any, options: Any, said: str) -> None:
    with pytest.raises(InvalidConfig, match=said):
        as_mcp_server(office.add, **options)


@pytest.mark.integration
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_and_sigterm_end_the_command_at_once(number: int, status: int) -> None:
    """In the middle of a call, while the SDK would wait for another line."""
    process = subprocess.Popen(
        [*COMMAND, "mcp", "serve", f"{OFFICE}:sleep"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def say(**message: Any) -> None:
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        process.stdin.flush()

    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    say(id=1, method="initialize", params=about)
    assert json.loads(process.stdout.readline())["id"] == 1
    say(method="notifications/initialized")
    say(id=2, method="tools/call", params={"name": "sleep", "arguments": {}})
    while "sleeping" not in process.stderr.readline():
        pass
    process.send_signal(number)
    said = process.communicate(timeout=20)[1]
    assert process.returncode == status
    assert "Traceback" not in said


@pytest.mark.integration
def test_a_port_that_is_taken_is_told() -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            InvalidConfig, match=f"Nothing can listen on '127.0.0.1', port {port}: Address already in use"
        ):
            serve(weather, http=True, port=port)
    for wrong in (99_999, -1):
        with pytest.raises(InvalidConfig, match=f"port={wrong}"):
            serve(weather, http=True, port=wrong)


@MODES
@pytest.mark.parametrize("kept", [False, True])
def test_a_call_that_the_client_gives_up_stops_the_work(mode: str, kept: bool) -> None:
    """Of a tool nothing is left; an agent's conversation goes on where it was when it is called again."""
    events: list[str] = []

    @tool
    async def wait() -> str:
        """Wait until it is given up, the first time."""
        events.append("begun")
        if len(events) > 1:
            return "done"
        try:
            await asyncio.Event().wait()
        finally:
            events.append("given up")
        return ""

    class Waiter(FakeChatModel):
        def _reply(self, request: Any) -> AIMessage:
            last = request.messages[-1]
            return AIMessage(last.content) if last.type == "tool" else AIMessage("", tool_calls=[tool_call("wait")])

    saver = InMemorySaver()
    part = create_agent(Waiter(responses=[]), [wait], name="waiter") if kept else wait
    server = as_mcp_server(part, saver=saver)

    async def main() -> Any:
        async with Client(server, mode=mode) as client:
            given = {"task": "go", "thread_id": "t"} if kept else {}
            task = asyncio.create_task(client.call_tool("waiter" if kept else "wait", given))
            while "begun" not in events:
                await asyncio.sleep(0.005)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            while "given up" not in events:
                await asyncio.sleep(0.005)
            if kept:
                return await client.call_tool("waiter", {"thread_id": "t"})
            while saver.read_threads():
                await asyncio.sleep(0.005)
            return None

    done = asyncio.run(asyncio.wait_for(main(), 20))
    assert events == (["begun", "given up", "begun"] if kept else ["begun", "given up"])
    if kept:
        assert done.content[0].text == "done"


@pytest.mark.integration
@pytest.mark.skipif(sys.platform == "win32", reason="terminals")
def test_a_person_who_starts_it_by_hand_is_told_what_it_is() -> None:
    import pty

    terminal, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [*COMMAND, "mcp", "serve", f"{OFFICE}:add"], stdin=theirs, stderr=subprocess.PIPE, text=True
        )
        lines = iter(process.stderr.readline, "")
        assert any("Ctrl-C ends it" in line for line in lines)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        assert process.returncode in (130, -signal.SIGINT)  # the latter before its own handler is there
    finally:
        os.close(terminal)
        os.close(theirs)
