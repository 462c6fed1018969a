"""Served agents that keep their conversations: by name, past a killed process, for each caller apart (D4, D22)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.types import ElicitResult

from mcp import Client
from runwell.agents import create_agent
from runwell.errors import InvalidInput, MCPConnectionError, ToolDefinitionError
from runwell.graph import Command, interrupt
from runwell.mcp import MCPClient, Stdio, as_mcp_server
from runwell.messages import AIMessage
from runwell.persistence import InMemorySaver, SqliteSaver
from runwell.testing.models import FakeChatModel
from runwell.tools import tool

from .conftest import named, tool_call
from .test_serving import COMMAND, MODES, OFFICE, answering, call, office

pytestmark = pytest.mark.integration

__all__ = ["office"]


class Counter(FakeChatModel):
    """Says how many messages it has seen."""

    def _reply(self, request: Any) -> AIMessage:
        return AIMessage(f"{len(request.messages)} messages")


@pytest.fixture
def counter() -> Any:
    return create_agent(Counter(responses=[]), [], name="counter")


def texts(result: Any) -> list[str]:
    return [each.text for each in result.content]


@MODES
def test_a_conversation_goes_on_under_its_name(counter: Any, mode: str) -> None:
    server = as_mcp_server(counter, saver=InMemorySaver())
    first = call(server, "counter", {"task": "a", "thread_id": "t"}, mode)
    second = call(server, "counter", {"task": "b", "thread_id": "t"}, mode)
    other = call(server, "counter", {"task": "b", "thread_id": "u"}, mode)
    assert [texts(each) for each in (first, second, other)] == [["1 messages"], ["3 messages"], ["1 messages"]]
    assert second.meta["runwell/thread_id"] == "t"
    again = call(server, "counter", {"thread_id": "t"}, mode)
    assert texts(again) == ["3 messages"]  # its last answer


def test_a_new_conversation_tells_its_name(counter: Any) -> None:
    server = as_mcp_server(counter, saver=InMemorySaver())
    first = call(server, "counter", {"task": "a"})
    name = first.meta["runwell/thread_id"]
    assert texts(first) == ["1 messages", f"(thread_id of this conversation, to go on with it: {name})"]
    assert texts(call(server, "counter", {"task": "b", "thread_id": name})) == ["3 messages"]


def test_an_agents_own_saver_keeps_its_threads_too() -> None:
    agent = create_agent(Counter(responses=[]), [], name="counter", checkpointer=InMemorySaver())
    server = as_mcp_server(agent)
    call(server, "counter", {"task": "a", "thread_id": "t"})
    assert texts(call(server, "counter", {"task": "b", "thread_id": "t"})) == ["3 messages"]
    state = agent.get_state({"configurable": {"thread_id": "counter/t"}})
    assert len(state.values["messages"]) == 4


def test_what_a_thread_is_called_by_is_announced_only_where_it_is_kept(counter: Any) -> None:
    async def told(server: Any) -> Any:
        async with Client(server) as client:
            return (await client.list_tools()).tools[0]

    keeping = asyncio.run(told(as_mcp_server(counter, saver=InMemorySaver())))
    forgetting = asyncio.run(told(as_mcp_server(counter)))
    assert [("keeps its conversations" in each.description) for each in (keeping, forgetting)] == [True, False]
    kept, fresh = keeping.input_schema, forgetting.input_schema
    assert (set(kept["properties"]), kept["required"]) == ({"task", "thread_id"}, [])
    assert (set(fresh["properties"]), fresh["required"]) == ({"task"}, ["task"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "task: missing"),
        ({"thread_id": "new"}, "There is no conversation 'counter/new' yet"),
        ({"task": "a", "thread_id": "../x"}, "names no conversation"),
        ({"task": "a", "thread_id": 3}, "names no conversation"),
        ({"task": 3, "thread_id": "t"}, "task: got 3"),
    ],
)
def test_what_fits_no_conversation_is_told(counter: Any, arguments: Any, said: str) -> None:
    result = call(as_mcp_server(counter, saver=InMemorySaver()), "counter", arguments)
    assert result.is_error
    assert said in result.content[0].text


def test_an_agent_whose_argument_has_the_name_is_refused(counter: Any) -> None:
    schema = {"type": "object", "properties": {"thread_id": {"type": "string"}}}
    with pytest.raises(ToolDefinitionError, match="'thread_id' of its own"):
        as_mcp_server(counter.as_tool(input_schema=schema), saver=InMemorySaver())


# -- questions that wait


@MODES
def test_a_question_waits_and_is_asked_when_the_conversation_is_called_again(office: Any, mode: str) -> None:
    server = as_mcp_server(office.clerk, saver=InMemorySaver())
    given = {"task": "/tmp/x", "thread_id": "t"}
    told = call(server, "clerk", given, mode)  # a client that cannot be asked
    assert told.is_error
    assert "delete({'path': '/tmp/x'})" in told.content[0].text
    assert "call clerk with thread_id='t' alone" in told.content[0].text
    refused = call(server, "clerk", given, mode, elicitation_callback=answering({"decision": "approve"}))
    assert "waits for an answer, and nothing new was begun" in refused.content[0].text
    aside = call(server, "clerk", {"thread_id": "t"}, mode, elicitation_callback=answering("cancel"))
    assert "The question stays open" in aside.content[0].text
    seen: list[Any] = []
    answer = answering({"decision": "approve"}, seen=seen)
    done = call(server, "clerk", {"thread_id": "t"}, mode, elicitation_callback=answer)
    assert texts(done) == ["It went so: deleted /tmp/x"]
    assert len(seen) == 1
    assert texts(call(server, "clerk", {"thread_id": "t"}, mode)) == ["It went so: deleted /tmp/x"]


def test_a_client_that_cannot_be_asked_is_told_the_command_that_answers(office: Any) -> None:
    server = as_mcp_server(office.clerk, saver=InMemorySaver(), answer_hint="runwell run x --thread {thread}")
    told = call(server, "clerk", {"task": "/tmp/x", "thread_id": "t"})
    assert "Where the server runs: runwell run x --thread clerk/t" in told.content[0].text


@MODES
def test_a_tool_answers_only_where_the_program_lets_it(office: Any, mode: str) -> None:
    server = as_mcp_server(office.clerk, office.colour, saver=InMemorySaver(), answers_by_tool=True)
    told = call(server, "clerk", {"task": "/tmp/x", "thread_id": "t"}, mode).content[0].text
    (question,) = server_questions(told)
    given = {"run": "clerk/t", "answers": {question: {"decision": "approve"}}}
    assert texts(call(server, "answer_question", given, mode)) == ["It went so: deleted /tmp/x"]
    again = call(server, "answer_question", given, mode)
    assert "'clerk/t' waits for no answer" in again.content[0].text

    told = call(server, "colour", {}, mode).content[0].text
    run = told.partition("run='")[2].partition("'")[0]
    (question,) = server_questions(told)
    wrong = call(server, "answer_question", {"run": run, "answers": {question: "green"}}, mode)
    assert "does not fit" in wrong.content[0].text
    assert texts(call(server, "answer_question", {"run": run, "answers": {question: "blue"}}, mode)) == ["painted blue"]
    for odd in ({}, {"run": "clerk"}, {"run": "nobody/t", "answers": {}}, {"run": run, "answers": {}}):
        assert call(server, "answer_question", odd, mode).is_error
    assert list(named(MCPClient(as_mcp_server(office.clerk)))) == ["clerk"]


def server_questions(told: str) -> list[str]:
    import json

    return list(json.loads(told.partition("its schema: ")[2].partition("\n")[0]))


def test_two_questions_of_calls_side_by_side_are_one_round(office: Any) -> None:
    @tool
    def paint(thing: str) -> str:
        """Paint something."""
        return f"{thing} is {interrupt(f'Which colour for the {thing}?', response_schema={'type': 'string'})}"

    class Painter(FakeChatModel):
        def _reply(self, request: Any) -> AIMessage:
            said = [message.content for message in request.messages if message.type == "tool"]
            if said:
                return AIMessage("; ".join(said))
            return AIMessage("", tool_calls=[tool_call("paint", thing, thing=thing) for thing in ("door", "wall")])

    agent = create_agent(Painter(responses=[]), [paint], name="painter")
    seen: list[Any] = []

    async def answer(context: Any, params: Any) -> ElicitResult:
        seen.append(params.message)
        return ElicitResult(action="accept", content={"answer": "red" if "door" in params.message else "blue"})

    for saver in (None, InMemorySaver()):
        done = call(as_mcp_server(agent, saver=saver), "painter", {"task": "go"}, elicitation_callback=answer)
        assert texts(done)[0] == "door is red; wall is blue"
    assert sorted(seen) == sorted(["Which colour for the door?", "Which colour for the wall?"] * 2)


def test_a_client_that_fails_to_ask_leaves_the_question_open(office: Any) -> None:
    async def broken(context: Any, params: Any) -> ElicitResult:
        raise RuntimeError("the window was closed")

    server = as_mcp_server(office.clerk, saver=InMemorySaver())
    given = {"task": "/tmp/x", "thread_id": "t"}
    told = call(server, "clerk", given, "legacy", elicitation_callback=broken)
    assert told.is_error
    assert "The question stays open" in told.content[0].text


def test_an_answer_that_never_fits_is_given_up(office: Any) -> None:
    server = as_mcp_server(office.colour)
    answer = answering(*({"answer": "green"},) * 20)
    told = call(server, "colour", {}, "legacy", elicitation_callback=answer)
    assert told.is_error
    assert "asked 10 times" in told.content[0].text


class Asking(FakeChatModel):
    """Paints two things, one after the other."""

    def _reply(self, request: Any) -> AIMessage:
        done = [message for message in request.messages if message.type == "tool"]
        if len(done) == 2:
            return AIMessage("; ".join(message.content for message in done))
        return AIMessage("", tool_calls=[tool_call("colour", f"c{len(done)}")])


def test_an_answer_by_tool_may_lead_to_the_next_question(office: Any) -> None:
    agent = create_agent(Asking(responses=[]), [office.colour], name="painter")
    server = as_mcp_server(agent, saver=InMemorySaver(), answers_by_tool=True)
    told = call(server, "painter", {"task": "go", "thread_id": "t"}).content[0].text
    (question,) = server_questions(told)
    given = {"run": "painter/t", "answers": {question: "red"}}
    done = call(server, "answer_question", given, elicitation_callback=answering({"answer": "blue"}))
    assert texts(done) == ["painted red; painted blue"]


@pytest.mark.parametrize("run", ["clerk/ada/t", "clerk/../t", "colour/t", "t", "", None, 3, "clerk/" + "x" * 200])
def test_what_a_client_carries_leads_to_no_other_thread(office: Any, run: Any, tmp_path: Path) -> None:
    """With a saver on disk and no seal a client may write what it likes there."""
    import base64
    import json

    from mcp.shared.exceptions import MCPError

    with SqliteSaver(tmp_path / "runs.db") as saver:
        server = as_mcp_server(office.clerk, office.colour, saver=saver, name="office")
        call(server, "clerk", {"task": "/tmp/x", "thread_id": "t"})
        carried: list[str] = []

        async def forged() -> None:
            async with Client(server, elicitation_callback=answering("cancel")) as client:
                first = await client.session.send_request(_call("clerk", {"thread_id": "t"}), _either())
                claims = json.loads(base64.urlsafe_b64decode(first.request_state))
                assert json.loads(claims["s"]) == {"run": "clerk/t"}
                claims["s"] = json.dumps({"run": run})
                state = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode()
                carried.append(state)
                with pytest.raises(MCPError, match="Invalid or expired requestState"):
                    await client.session.send_request(_call("clerk", {"thread_id": "t"}, state), _either())

        asyncio.run(forged())
        assert carried


def _call(name: str, arguments: dict[str, Any], state: str | None = None) -> Any:
    from mcp.types import CallToolRequest, CallToolRequestParams

    params = CallToolRequestParams(
        name=name, arguments=arguments, request_state=state, input_responses=None if state is None else {}
    )
    return CallToolRequest(params=params)


def _either() -> Any:
    from mcp.types import CallToolResult, InputRequiredResult
    from pydantic import TypeAdapter

    return TypeAdapter(CallToolResult | InputRequiredResult)


# -- past the end of the process


@pytest.mark.integration
@pytest.mark.parametrize("protocol", ["auto", "legacy"])
def test_d22_a_question_outlives_a_killed_server(tmp_path: Path, protocol: str) -> None:
    """kill -9 while an approval waits: the server starts again, the answer is given, the run finishes."""
    db = tmp_path / "runs.db"
    command = [*COMMAND, "mcp", "serve", f"{OFFICE}:clerk,pid", "--saver", f"sqlite:{db}"]
    program = Stdio(command[0], command[1:], env={"PYTHONPATH": os.pathsep.join(sys.path)})
    asked: list[str] = []

    def killed(question: Any) -> Any:
        asked.append(question["message"])
        os.kill(pid, signal.SIGKILL)
        return {"decision": "approve"}

    with MCPClient(program, name="office", protocol=protocol, on_elicitation=killed) as client:
        tools = named(client)
        pid = int(tools["pid"].invoke({}))
        told = None
        with contextlib.suppress(MCPConnectionError):  # the session that waited is gone; the conversation is not
            told = tools["clerk"].invoke({"task": "/tmp/x", "thread_id": "t"})
    assert len(asked) == 1
    with MCPClient(
        program, name="office", protocol=protocol, on_elicitation=lambda question: {"decision": "approve"}
    ) as client:
        tools = named(client)
        assert int(tools["pid"].invoke({})) != pid
        assert told is None or told == "It went so: deleted /tmp/x"
        assert tools["clerk"].invoke({"thread_id": "t"}) == "It went so: deleted /tmp/x"
    with SqliteSaver(db) as saver:
        assert saver.read_threads() == ["clerk/t"]


@pytest.mark.integration
def test_d22_a_pause_of_ours_waits_for_a_pause_of_theirs_past_both_processes(run: Any, tmp_path: Path) -> None:
    """What a served tool asks pauses the agent that calls it; both sides are made anew before the answer comes."""

    def side(given: Any, responses: list[Any]) -> Any:
        with SqliteSaver(tmp_path / "theirs.db") as theirs, SqliteSaver(tmp_path / "ours.db") as ours:
            import importlib.util

            spec = importlib.util.spec_from_file_location("office", OFFICE)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            with MCPClient(as_mcp_server(module.colour, saver=theirs), name="office") as client:
                agent = create_agent(FakeChatModel(responses=responses), client.tools(), checkpointer=ours)
                return run.invoke(agent, given, {"configurable": {"thread_id": "t"}}), theirs.read_threads()

    first, waiting = side({"messages": "go"}, [AIMessage("", tool_calls=[tool_call("colour")])])
    assert first["__interrupt__"][0].value["message"] == "Which colour?"
    assert len(waiting) == 1
    done, waiting = side(Command(resume={"action": "accept", "content": {"answer": "blue"}}), ["done"])
    assert done["messages"][-2].content == "painted blue"
    assert waiting == []


@pytest.mark.integration
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "postgresql"])
def test_conversations_are_kept_where_the_command_is_told(
    kind: str, counter: Any, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    from runwell.cli.savers import saver_of

    if kind == "sqlite":
        text = f"sqlite:{tmp_path / 'runs.db'}"
    else:
        url = request.getfixturevalue("postgres_url")
        text = url if kind == "postgresql" else f"postgres:{url}"
    for answer in ("1 messages", "3 messages"):
        with saver_of(text) as saver:
            server = as_mcp_server(counter, saver=saver)
            assert texts(call(server, "counter", {"task": "a", "thread_id": "t"})) == [answer]


def test_the_command_refuses_what_names_no_saver() -> None:
    from runwell.cli.savers import saver_of

    assert isinstance(saver_of("memory"), InMemorySaver)
    for text in ("runs.db", "sqlite:", "mysql:x", ""):
        with pytest.raises(InvalidInput, match="names no saver"):
            saver_of(text)
