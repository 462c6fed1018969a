"""The server that misbehaves, over both wires and in both versions of the protocol: it changes what its tools say,
floods, dies in the middle of a call and asks twice."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from runwell.agents import create_agent
from runwell.errors import MCPConnectionError, MCPToolChanged
from runwell.graph import Command
from runwell.mcp import MCPClient, Stdio
from runwell.messages import AIMessage
from runwell.persistence import SqliteSaver
from runwell.testing.models import FakeChatModel

from .conftest import MISBEHAVING, HttpServer, named, tool_call

pytestmark = pytest.mark.integration

PROTOCOLS = pytest.mark.parametrize("protocol", ["auto", "legacy"])
GO = {"messages": [("user", "go")]}
CONFIG = {"configurable": {"thread_id": "t"}}


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """One that these tests may kill and change."""
    server = HttpServer(tmp_path_factory.mktemp("own") / "notes")
    server.start()
    server.spoilt = False
    yield server
    server.stop()


@pytest.fixture
def notes(own_server: HttpServer) -> Path:
    """What the servers noted that they did in this test."""
    own_server.notes.write_text("")
    return own_server.notes


@pytest.fixture(params=["stdio", "http"])
def place(request: pytest.FixtureRequest, own_server: HttpServer, notes: Path) -> Any:
    """Gives a target: a server as it was at first."""

    @contextmanager
    def fresh() -> Iterator[Any]:
        if request.param == "stdio":
            yield Stdio(sys.executable, [str(MISBEHAVING)], env={"NOTES": str(notes)})
            return
        if own_server.spoilt:
            again()
        yield own_server.url

    def again() -> None:
        if request.param == "http":
            own_server.stop()
            own_server.start()
            own_server.spoilt = False

    def spoil() -> None:
        own_server.spoilt = own_server.spoilt or request.param == "http"

    fresh.again, fresh.spoil = again, spoil
    return fresh


@PROTOCOLS
def test_a9_what_a_tool_says_is_held_against_its_pin(place: Any, protocol: str) -> None:
    with place() as target, MCPClient(target, protocol=protocol, include=["greet", "change", "add"]) as client:
        pins = client.pins()
        with MCPClient(target, protocol=protocol, pin=pins) as pinned:
            tools = named(pinned)
            assert tools["greet"].invoke({}) == "hello"
            place.spoil()
            tools["change"].invoke({})
            until_changed(pinned)
            with pytest.raises(MCPToolChanged, match="'greet'"):
                tools["greet"].invoke({})
            assert tools["add"].invoke({"a": 1, "b": 2}) == "3"


def until_changed(client: MCPClient) -> None:
    import time

    until = time.monotonic() + 10
    while "tools" not in client._connection._live.changed:
        assert time.monotonic() < until
        time.sleep(0.01)


@PROTOCOLS
def test_mcp_04_e12_one_that_dies_is_told_to_the_model_and_the_next_call_connects(
    place: Any, protocol: str, notes: Path
) -> None:
    calls = [AIMessage("", tool_calls=[tool_call(name, f"c{at}")]) for at, name in enumerate(["die", "pid"])]
    with place() as target, MCPClient(target, name="m", protocol=protocol) as client:
        agent = create_agent(FakeChatModel(responses=[calls[0], "sorry"]), client.tools())
        died = agent.invoke(GO)["messages"][2]
        assert died.status == "error"
        assert "whether the call was carried out is not known" in died.content
        assert notes.read_text() == "die\n"  # once
        place.again()
        agent = create_agent(FakeChatModel(responses=[calls[1], "done"]), client.tools())
        assert int(agent.invoke(GO)["messages"][2].content) > 0


@PROTOCOLS
def test_a_flood_is_cut(place: Any, protocol: str) -> None:
    with place() as target, MCPClient(target, protocol=protocol) as client:
        said = named(client)["flood"].invoke({})
        assert len(said) < 201_000
        assert "1800000 characters left out" in said
        assert named(client)["add"].invoke({"a": 1, "b": 2}) == "3"


def test_d22_two_rounds_of_questions_are_asked_once_each(place: Any, notes: Path, tmp_path: Path) -> None:
    with (
        place() as target,
        SqliteSaver(tmp_path / "runs.db") as saver,
        MCPClient(target, name="m", include=["asks_twice"]) as client,
    ):

        def going_on(given: Any) -> Any:
            says = AIMessage("", tool_calls=[tool_call("asks_twice")]) if given is GO else "done"
            agent = create_agent(FakeChatModel(responses=[says]), client.tools(), checkpointer=saver)
            return agent.invoke(given, CONFIG)

        def answer(**content: Any) -> Command[Any]:
            return Command(resume={"action": "accept", "content": content})

        assert going_on(GO)["__interrupt__"][0].value["message"] == "What name?"
        assert going_on(answer(name="Ada"))["__interrupt__"][0].value["message"] == "What colour?"
        done = going_on(answer(colour="blue"))
        assert [each.content for each in done["messages"] if each.type == "tool"] == ["Ada likes blue"]
    assert notes.read_text().splitlines() == ["round [] ", "round ['name'] r1", "round ['colour'] Ada"]


def test_d22_answers_survive_a_server_that_was_started_anew(place: Any, notes: Path, tmp_path: Path) -> None:
    """Its seal of the first round is no longer known: it is asked again from the start, and a person is not."""
    with SqliteSaver(tmp_path / "runs.db") as saver:

        def going_on(target: Any, given: Any) -> Any:
            with MCPClient(target, name="m", include=["asks_twice"]) as client:
                says = AIMessage("", tool_calls=[tool_call("asks_twice")]) if given is GO else "done"
                agent = create_agent(FakeChatModel(responses=[says]), client.tools(), checkpointer=saver)
                return agent.invoke(given, CONFIG)

        asked: list[str] = []
        given: Any = GO
        for content in ({"name": "Ada"}, {"colour": "blue"}, None):
            with place() as target:
                result = going_on(target, given)
            place.spoil()
            if content is not None:
                asked.append(result["__interrupt__"][0].value["message"])
                given = Command(resume={"action": "accept", "content": content})
    assert asked == ["What name?", "What colour?"]
    assert [each.content for each in result["messages"] if each.type == "tool"] == ["Ada likes blue"]


def test_one_that_is_gone_for_good_is_told_each_time(own_server: HttpServer) -> None:
    with MCPClient(own_server.url) as client:
        tool = named(client)["add"]
        own_server.spoilt = True
        own_server.stop()
        for _ in range(2):
            with pytest.raises(MCPConnectionError):
                tool.invoke({"a": 1, "b": 2})
