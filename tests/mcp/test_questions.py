"""Servers that ask: a person answers through a pause, a handler answers in process, and the rest is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp.server import Server
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import (
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    InputRequiredResult,
    ListRootsRequest,
    ListToolsResult,
    SamplingMessage,
    TextContent,
    Tool,
)
from pydantic import BaseModel

from runwell.agents import create_agent
from runwell.errors import InvalidInput, InvalidResume, MCPToolError
from runwell.graph import Command
from runwell.mcp import MCPClient, Stdio
from runwell.messages import AIMessage
from runwell.persistence import InMemorySaver, SqliteSaver
from runwell.testing.models import FakeChatModel

from .conftest import named, tool_call

CONFIG = {"configurable": {"thread_id": "t"}}
GO = {"messages": [("user", "go")]}


def text(said: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=said)])


def form(message: str, **properties: Any) -> ElicitRequest:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def asking(called: Any) -> Server[Any]:
    async def listed(ctx: Any, params: Any) -> ListToolsResult:
        schema = {"type": "object", "properties": {}}
        return ListToolsResult(tools=[Tool(name="ask", description="Ask.", input_schema=schema)])

    return Server("asking", on_list_tools=listed, on_call_tool=called)


def once(request: Any, seen: list[Any] | None = None) -> Server[Any]:
    """A server that asks this, and tells how it was answered."""

    async def called(ctx: Any, params: Any) -> Any:
        if params.input_responses is None:
            return InputRequiredResult(input_requests={"q": request}, request_state="s")
        answer = params.input_responses["q"]
        if seen is not None:
            seen.append(answer)
        return text(answer.model_dump_json(exclude_none=True))

    return asking(called)


def agent_on(client: MCPClient, saver: Any = None, name: str = "ask") -> Any:
    model = FakeChatModel(responses=[AIMessage("", tool_calls=[tool_call(name)]), "done"])
    return create_agent(model, client.tools(), checkpointer=saver or InMemorySaver())


def asked(result: Any) -> Any:
    (question,) = result["__interrupt__"]
    return question.value


def replies(result: Any) -> list[str]:
    return [message.content for message in result["messages"] if message.type == "tool"]


def accept(**content: Any) -> Command[Any]:
    return Command(resume={"action": "accept", "content": content})


def test_d22_a_question_pauses_the_run_and_is_asked_once(run: Any, program: Stdio, notes: Path, tmp_path: Path) -> None:
    """Two rounds of questions, on a saver on disk, by agents made anew as after a crash: no round is done twice."""
    with SqliteSaver(tmp_path / "runs.db") as saver, MCPClient(program, name="m", include=["asks_twice"]) as client:

        def going_on(given: Any) -> Any:
            says = AIMessage("", tool_calls=[tool_call("asks_twice")]) if given is GO else "done"
            agent = create_agent(FakeChatModel(responses=[says]), client.tools(), checkpointer=saver)
            return run.invoke(agent, given, CONFIG)

        first = going_on(GO)
        assert asked(first) == {
            "type": "mcp_elicitation",
            "server": "m",
            "tool": "asks_twice",
            "mode": "form",
            "message": "What name?",
            "schema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        }
        second = going_on(accept(name="Ada"))
        assert asked(second)["message"] == "What colour?"
        assert replies(going_on(accept(colour="blue"))) == ["Ada likes blue"]
    assert notes.read_text().splitlines() == ["round [] ", "round ['name'] r1", "round ['colour'] Ada"]


def test_d22_a_server_that_forgot_is_given_the_answers_again(run: Any) -> None:
    from mcp.shared.exceptions import MCPError
    from mcp_types import INVALID_PARAMS

    rounds: list[Any] = []
    restarted = [False]

    async def called(ctx: Any, params: Any) -> Any:
        state = params.request_state
        rounds.append(state)
        if restarted[0] and state == "old":
            raise MCPError(code=INVALID_PARAMS, message="Invalid or expired requestState")
        given = params.input_responses or {}
        if "name" not in given:
            return InputRequiredResult(
                input_requests={"name": form("What name?", name={"type": "string"})},
                request_state="new" if restarted[0] else "old",
            )
        return text(f"hello {given['name'].content['name']}")

    client = MCPClient(asking(called))
    agent = agent_on(client)
    assert asked(run.invoke(agent, GO, CONFIG))["message"] == "What name?"
    restarted[0] = True
    assert replies(run.invoke(agent, accept(name="Ada"), CONFIG)) == ["hello Ada"]
    assert rounds == [None, "old", None, "new"]


def test_d23_an_answer_that_does_not_fit_leaves_the_run_paused(run: Any) -> None:
    agent = agent_on(MCPClient(once(form("How many?", n={"type": "integer"}))))
    run.invoke(agent, GO, CONFIG)
    for wrong in (Command(resume={"action": "accept"}), accept(n="many"), Command(resume="yes"), Command(resume={})):
        with pytest.raises(InvalidResume):
            run.invoke(agent, wrong, CONFIG)
    assert replies(run.invoke(agent, accept(n=3), CONFIG)) == ['{"action":"accept","content":{"n":3}}']


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_question_may_be_refused(run: Any, action: str) -> None:
    agent = agent_on(MCPClient(once(form("How many?", n={"type": "integer"}))))
    run.invoke(agent, GO, CONFIG)
    assert replies(run.invoke(agent, Command(resume={"action": action}), CONFIG)) == [f'{{"action":"{action}"}}']


def test_a_question_may_be_a_page_to_visit(run: Any) -> None:
    request = ElicitRequest(params=ElicitRequestURLParams(message="Log in.", url="https://login.example/x?y"))
    agent = agent_on(MCPClient(once(request)))
    value = asked(run.invoke(agent, GO, CONFIG))
    assert (value["mode"], value["url"], value["host"]) == ("url", "https://login.example/x?y", "login.example")
    done = run.invoke(agent, Command(resume={"action": "accept"}), CONFIG)
    assert replies(done) == ['{"action":"accept"}']


@pytest.mark.parametrize("url", ["file:///etc/passwd", "file://host/etc/passwd", "javascript:alert(1)", "https://"])
def test_d23_a_page_that_is_no_web_address_is_refused(run: Any, url: str) -> None:
    request = ElicitRequest(params=ElicitRequestURLParams(message="Log in.", url=url))
    assert "no web address" in replies(run.invoke(agent_on(MCPClient(once(request))), GO, CONFIG))[0]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"n": 3}, '{"action":"accept","content":{"n":3}}'),
        ("decline", '{"action":"decline"}'),
        (None, '{"action":"decline"}'),
        ({"action": "cancel"}, '{"action":"cancel"}'),
    ],
)
def test_a_handler_answers_in_process(run: Any, answer: Any, told: str) -> None:
    heard: list[Any] = []

    def handler(question: Any) -> Any:
        heard.append(question["message"])
        return answer

    client = MCPClient(once(form("How many?", n={"type": "integer"})), on_elicitation=handler)
    assert run.invoke(named(client)["ask"], {}) == told
    assert heard == ["How many?"]


def test_a_handlers_answer_that_does_not_fit_is_the_programs_error(run: Any) -> None:
    client = MCPClient(once(form("How many?", n={"type": "integer"})), on_elicitation=lambda question: {"n": "many"})
    with pytest.raises(InvalidInput, match="does not fit"):
        run.invoke(named(client)["ask"], {})


def test_outside_a_run_nobody_can_be_asked(run: Any) -> None:
    with pytest.raises(MCPToolError, match="nobody can be asked"):
        run.invoke(named(MCPClient(once(form("How many?", n={"type": "integer"}))))["ask"], {})


def test_a_server_that_never_stops_asking_is_given_up(run: Any) -> None:
    async def called(ctx: Any, params: Any) -> Any:
        return InputRequiredResult(input_requests={"q": form("Again?", n={"type": "integer"})}, request_state="s")

    count: list[Any] = []
    client = MCPClient(asking(called), on_elicitation=lambda question: count.append(1) or {"n": 1})
    with pytest.raises(MCPToolError, match="more than 10 times"):
        run.invoke(named(client)["ask"], {})
    assert len(count) == 1  # the same question is not asked twice


# -- what older servers do


class Name(BaseModel):
    name: str


def older() -> MCPServer:
    server = MCPServer("older", log_level="ERROR")

    @server.tool()
    async def ask(ctx: Context) -> str:
        """Ask."""
        result = await ctx.elicit("What name?", Name)
        return f"{result.action} {getattr(getattr(result, 'data', None), 'name', '')}"

    return server


def test_d22_a_session_that_waits_needs_a_handler(run: Any) -> None:
    with MCPClient(older(), protocol="legacy", on_elicitation=lambda question: {"name": "Ada"}) as client:
        assert run.invoke(named(client)["ask"], {}) == "accept Ada"
    with (
        MCPClient(older(), protocol="legacy") as client,
        pytest.raises(MCPToolError, match="no on_elicitation handler"),
    ):
        run.invoke(named(client)["ask"], {})


@pytest.mark.parametrize(("action", "told"), [("accept", "signed in"), ("decline", "that was refused")])
def test_d22_a_page_that_an_older_server_wants_visited_pauses_the_run(run: Any, action: str, told: str) -> None:
    from mcp.shared.exceptions import UrlElicitationRequiredError

    server = MCPServer("older", log_level="ERROR")
    calls: list[int] = []

    @server.tool()
    async def ask() -> str:
        """Ask."""
        calls.append(1)
        if len(calls) == 1:
            page = ElicitRequestURLParams(message="Log in.", url="https://login.example/", elicitation_id="1")
            raise UrlElicitationRequiredError([page])
        return "signed in"

    with MCPClient(server, protocol="legacy") as client:
        agent = agent_on(client)
        assert asked(run.invoke(agent, GO, CONFIG))["url"] == "https://login.example/"
        done = run.invoke(agent, Command(resume={"action": action}), CONFIG)
    assert told in replies(done)[0]
    assert len(calls) == (2 if action == "accept" else 1)


# -- D23: models and roots only where the program gives them


def sampling() -> CreateMessageRequest:
    said = SamplingMessage(role="user", content=TextContent(type="text", text="hi"))
    return CreateMessageRequest(
        params=CreateMessageRequestParams(messages=[said], max_tokens=10, system_prompt="Be short.")
    )


@pytest.mark.parametrize(("request_", "what"), [(sampling(), "a model's answer"), (ListRootsRequest(), "roots")])
def test_d23_models_and_roots_are_refused_unless_given(run: Any, request_: Any, what: str) -> None:
    with pytest.raises(MCPToolError, match=what):
        run.invoke(named(MCPClient(once(request_)))["ask"], {})


def test_d23_a_model_and_roots_that_are_given(run: Any, tmp_path: Path) -> None:
    seen: list[Any] = []
    model = FakeChatModel(responses=["hello"])
    run.invoke(named(MCPClient(once(sampling(), seen), on_sampling=model))["ask"], {})
    assert seen.pop().content.text == "hello"
    assert [message.type for message in model.requests[0].messages] == ["system", "human"]
    run.invoke(named(MCPClient(once(sampling(), seen), on_sampling=lambda messages, params: "by hand"))["ask"], {})
    assert seen.pop().content.text == "by hand"
    run.invoke(named(MCPClient(once(ListRootsRequest(), seen), roots=[tmp_path]))["ask"], {})
    assert str(seen.pop().roots[0].uri) == tmp_path.as_uri()


# -- handlers that are wrong


@pytest.mark.parametrize(
    ("answer", "error", "said"), [(17, InvalidInput, "answered 17"), (None, MCPToolError, "refused")]
)
def test_d23_a_samplers_answer_that_is_none_is_told(run: Any, answer: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        run.invoke(named(MCPClient(once(sampling()), on_sampling=lambda messages, params: answer))["ask"], {})


@pytest.mark.filterwarnings("ignore:The sampling capability is deprecated")
def test_errors_of_handlers_are_the_programs_and_no_server_hears_of_them(run: Any, caplog: Any) -> None:
    def broken(*given: Any) -> Any:
        raise ValueError("hunter2")

    for client in (
        MCPClient(once(form("How many?", n={"type": "integer"})), on_elicitation=broken),
        MCPClient(once(sampling()), on_sampling=broken),
    ):
        with pytest.raises(ValueError, match="hunter2"):
            run.invoke(named(client)["ask"], {})

    heard: list[str] = []
    server = MCPServer("older", log_level="CRITICAL")

    @server.tool()
    async def ask(ctx: Context) -> str:
        """Ask."""
        try:
            await ctx.elicit("What name?", Name)
        except Exception as error:
            heard.append(str(error))
        try:
            message = SamplingMessage(role="user", content=TextContent(type="text", text="hi"))
            await ctx.session.create_message([message], max_tokens=5, related_request_id=ctx.request_id)
        except Exception as error:
            heard.append(str(error))
        return "asked"

    with MCPClient(server, protocol="legacy", on_elicitation=broken, on_sampling=broken) as client:
        assert run.invoke(named(client)["ask"], {}) == "asked"
    assert heard == ["The program's handler failed."] * 2
    assert caplog.text.count("ValueError: hunter2") == 2
