"""What cannot be meant is refused where it is given, and everything that is wrong in one error."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest

from runwell.agents import (
    AgentState,
    Budget,
    Price,
    ToolNode,
    ToolStrategy,
    create_agent,
    create_react_agent,
    create_swarm,
)
from runwell.agents.middleware import (
    AgentMiddleware,
    BubblewrapPolicy,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    FilesystemFileSearchMiddleware,
    HumanInTheLoopMiddleware,
    LLMToolSelectorMiddleware,
    ModelCallLimitMiddleware,
    ModelChoice,
    ModelRefusalMiddleware,
    ModelResponse,
    ModelRetryMiddleware,
    ModelRouterMiddleware,
    PIIMiddleware,
    ProviderToolSearchMiddleware,
    ShellToolMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    ToolCallLimitMiddleware,
    ToolErrorMiddleware,
    ToolRetryMiddleware,
    wrap_model_call,
)
from runwell.errors import InvalidInput, InvalidUpdateError, RunwellError, UnknownModel
from runwell.graph import Command
from runwell.messages import AIMessage, HumanMessage
from runwell.persistence import InMemorySaver
from runwell.testing.models import FakeChatModel
from runwell.tools import InjectedState, tool

GO = {"messages": [HumanMessage("go")]}
THREAD = {"configurable": {"thread_id": "1"}}


def call(name: str, id: str = "1", **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


def asks(*calls: dict[str, Any]) -> AIMessage:
    return AIMessage("", tool_calls=list(calls))


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def talker(*said: Any) -> FakeChatModel:
    return FakeChatModel(list(said) or ["Hello."])


WRONG: list[tuple[str, Callable[[], Any]]] = [
    ("middleware", lambda: create_agent(talker(), middleware=TodoListMiddleware())),  # type: ignore[arg-type]
    ("middleware", lambda: create_agent(talker(), middleware=None)),  # type: ignore[arg-type]
    ("name", lambda: create_agent(talker(), name="")),
    ("system_prompt", lambda: create_agent(talker(), system_prompt=["Be brief."])),  # type: ignore[arg-type]
    ("done", lambda: create_agent(talker(), done=True)),  # type: ignore[arg-type]
    ("store", lambda: create_agent(talker(), store={})),
    ("context_schema", lambda: create_agent(talker(), context_schema=3)),  # type: ignore[arg-type]
    ("interrupt_before", lambda: create_agent(talker(), interrupt_before="model")),
    ("model_retry", lambda: create_agent(talker(), model_retry="1")),  # type: ignore[arg-type]
    ("tool_retry", lambda: create_agent(talker(), tool_retry=True)),
    ("approvals", lambda: create_agent(talker(), approvals=3)),  # type: ignore[arg-type]
    ("tokens", lambda: Budget(tokens="9")),  # type: ignore[arg-type]
    ("tokens", lambda: Budget(tokens=True)),
    ("seconds", lambda: Budget(seconds=float("nan"))),
    ("input", lambda: Price(input="1", output=2)),  # type: ignore[arg-type]
    ("interrupt_on", lambda: HumanInTheLoopMiddleware(["add"])),  # type: ignore[arg-type]
    ("interrupt_on['add']", lambda: HumanInTheLoopMiddleware({"add": 3})),  # type: ignore[dict-item]
    ("when", lambda: HumanInTheLoopMiddleware({"add": {"when": 3}})),  # type: ignore[dict-item]
    ("trigger", lambda: SummarizationMiddleware(talker(), trigger=("messages", "5"))),  # type: ignore[arg-type]
    ("edits", lambda: ContextEditingMiddleware(edits=ClearToolUsesEdit())),  # type: ignore[arg-type]
    ("keep", lambda: ClearToolUsesEdit(keep=None)),  # type: ignore[arg-type]
    ("exclude_tools", lambda: ClearToolUsesEdit(exclude_tools="search")),
    ("run_limit", lambda: ModelCallLimitMiddleware(run_limit="3")),  # type: ignore[arg-type]
    ("thread_limit", lambda: ToolCallLimitMiddleware(thread_limit=1.5)),  # type: ignore[arg-type]
    ("tool_name", lambda: ToolCallLimitMiddleware(tool_name=["add"], run_limit=1)),  # type: ignore[arg-type]
    ("max_retries", lambda: ModelRetryMiddleware(max_retries=None)),  # type: ignore[arg-type]
    ("initial_delay", lambda: ToolRetryMiddleware(initial_delay="1")),  # type: ignore[arg-type]
    ("tools", lambda: ToolRetryMiddleware(tools=[3])),
    ("max_tools", lambda: LLMToolSelectorMiddleware(max_tools="3")),  # type: ignore[arg-type]
    ("always_include", lambda: LLMToolSelectorMiddleware(always_include="add")),
    ("tool_description", lambda: TodoListMiddleware(tool_description=None)),  # type: ignore[arg-type]
    ("choices", lambda: ModelRouterMiddleware(talker())),  # type: ignore[arg-type]
    ("cost", lambda: ModelChoice(model=talker(), cost="1")),  # type: ignore[arg-type]
    ("root_path", lambda: FilesystemFileSearchMiddleware(root_path=None)),  # type: ignore[arg-type]
    ("env['KEY']", lambda: ShellToolMiddleware(env={"KEY": 3})),  # type: ignore[dict-item]
    ("command_timeout", lambda: BubblewrapPolicy(command_timeout="1")),  # type: ignore[arg-type]
    ("pii_type", lambda: PIIMiddleware(None)),  # type: ignore[arg-type]
    ("apply_to_output", lambda: PIIMiddleware("email", apply_to_output="yes")),  # type: ignore[arg-type]
    ("handle_errors", lambda: ToolStrategy({"type": "object"}, handle_errors=3)),  # type: ignore[arg-type]
    ("ToolStrategy", lambda: create_agent(talker(), response_format=ToolStrategy)),
    ("None", lambda: ToolStrategy(None)),
    ("nope", lambda: create_agent(talker(), name="a").as_tool(prompt="{nope}")),
    ("prompt", lambda: create_agent(talker(), name="a").as_tool(prompt="{task")),
    ("prompt", lambda: create_agent(talker(), name="a").as_tool(prompt=3)),  # type: ignore[arg-type]
    ("prompt", lambda: create_react_agent(talker(), [add], prompt=3)),  # type: ignore[arg-type]
    ("pre_model_hook", lambda: create_react_agent(talker(), [add], pre_model_hook=3)),
    ("tools", lambda: ToolNode(add)),  # type: ignore[arg-type]
    ("create_swarm", lambda: create_swarm(create_agent(talker(), name="a"), default_active_agent="a")),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("named", "make"), WRONG, ids=[f"{i}-{named}" for i, (named, _) in enumerate(WRONG)])
def test_what_is_of_the_wrong_kind_is_refused_by_name(named: str, make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidInput) as raised:
        make()
    assert named in raised.value.message
    assert raised.value.hint


NOTHING: dict[str, Callable[[], Any]] = {
    "interrupt_on={}": lambda: HumanInTheLoopMiddleware({}),
    "approvals={}": lambda: create_agent(FakeChatModel(["Hi"]), [], approvals={}),
    "approvals=[]": lambda: create_agent(FakeChatModel(["Hi"]), [], approvals=[]),
    "handle_tool_errors=''": lambda: ToolErrorMiddleware(""),
    "message=''": lambda: ModelRefusalMiddleware(on_refusal="message", message=""),
    "tool_name=' '": lambda: ShellToolMiddleware(tool_name=" "),
    "edits=[]": lambda: ContextEditingMiddleware(edits=[]),
    "tools=[]": lambda: ToolRetryMiddleware(tools=[]),
    "trigger": lambda: SummarizationMiddleware(FakeChatModel(["Hi"]), trigger=[]),
    "searchable_tools": lambda: create_agent(
        FakeChatModel(["Hi"]), [], middleware=[ProviderToolSearchMiddleware(searchable_tools=[])]
    ),
    "roles=[]": lambda: PIIMiddleware("email", roles=[]),
    "choices": lambda: ModelRouterMiddleware([]),
}


@pytest.mark.parametrize("said", NOTHING)
def test_settings_by_which_nothing_would_be_done_are_refused(said: str) -> None:
    with pytest.raises(RunwellError, match=re.escape(said)):
        NOTHING[said]()


def test_tools_that_are_said_to_need_no_approval_are_settings_too() -> None:
    agent = create_agent(FakeChatModel(["Hi"]), [add], approvals={"add": False})
    assert agent.invoke({"messages": "Hello"})["messages"][-1].text == "Hi"


@pytest.mark.parametrize("path", ["missing", "missing/deeper", "file", ""])
@pytest.mark.parametrize("make", [ShellToolMiddleware, lambda path: FilesystemFileSearchMiddleware(root_path=path)])
def test_a_folder_to_work_in_has_to_be_there(tmp_path: Path, monkeypatch: Any, make: Any, path: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match=f"'{path}'"):
        make(path)
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_everything_that_is_wrong_with_an_agent_stands_in_one_error() -> None:
    with pytest.raises(InvalidInput) as raised:
        create_agent(
            "nobody:x",
            [add, 3],
            middleware=[TodoListMiddleware(), TodoListMiddleware(), HumanInTheLoopMiddleware({"ad": True})],
            budget=3,  # type: ignore[arg-type]
            approvals=["ad"],
        )
    for said in ("budget=3", "'nobody:x'", "3 is not a tool", "'TodoListMiddleware'", "'ad'"):
        assert said in raised.value.message
    with pytest.raises(UnknownModel):  # one alone is what it is
        create_agent("nobody:x", [add])


class Reserved(AgentState):
    __goto__: int


class Unread(AgentState):
    a: Nowhere  # type: ignore[name-defined]  # noqa: F821


class NumberState(AgentState):
    k: int


class CountsAsNumber(AgentMiddleware):
    state_schema = NumberState


class TextState(AgentState):
    k: str


class CountsAsText(AgentMiddleware):
    state_schema = TextState


@tool
def needs(user: Annotated[str, InjectedState("user")]) -> str:
    """Need a key of the state."""
    return user


LATE: list[tuple[str, dict[str, Any]]] = [
    ("a breakpoint names 'nowhere'", {"interrupt_before": ["nowhere"]}),
    ("a breakpoint names 'nothing'", {"interrupt_after": ["nothing"]}),
    ("extra is 'maybe'", {"extra": "maybe"}),
    ("checkpointer=5 cannot save", {"checkpointer": 5}),
    ("cache=4 cannot keep", {"cache": 4}),
    ("store=3", {"store": 3}),
    ("has no such key", {"tools": [needs]}),
    ("a key '__goto__', a name that is reserved", {"state_schema": Reserved}),
    ("mean different things by the state's key 'k'", {"middleware": [CountsAsNumber(), CountsAsText()]}),
    ("done=7", {"done": 7}),
    ("name=''", {"name": ""}),
]


@pytest.mark.parametrize("build", [create_agent, create_react_agent])
def test_what_is_wrong_with_the_graph_stands_in_the_same_error(build: Any) -> None:
    """All of it at once, and each by itself; the parts that are well are judged beside those that are not."""
    given = {name: value for _, part in LATE for name, value in part.items()}
    with pytest.raises(InvalidInput) as caught:
        build("nonsense", **{"tools": [], **given})
    for said, _ in LATE:
        assert said in str(caught.value), said
    assert "No provider is known for the model 'nonsense'" in str(caught.value)
    assert str(caught.value).count("\n- ") == len(LATE) + 1


@pytest.mark.parametrize(("said", "part"), LATE, ids=[next(iter(part)) for _, part in LATE])
def test_what_is_wrong_with_the_graph_is_told_beside_the_model(said: str, part: dict[str, Any]) -> None:
    for model, count in ((FakeChatModel(["hi"]), 0), ("nonsense", 2)):
        with pytest.raises(RunwellError) as caught:
            create_agent(model, **{"tools": [], **part})
        assert said in str(caught.value)
        assert str(caught.value).count("\n- ") == count


def test_annotations_that_cannot_be_read_and_pauses_that_nothing_saves_are_told_too() -> None:
    with pytest.raises(InvalidInput) as caught:
        create_agent("nonsense", [needs], state_schema=Unread, checkpointer=False, approvals="all")
    for said in ("'Nowhere' is not defined", "calls of needs wait for approval", "has no such key", "nonsense"):
        assert said in str(caught.value)


def test_an_error_about_a_constructor_names_all_its_arguments_and_no_secret() -> None:
    with pytest.raises(InvalidInput) as raised:
        ShellToolMiddleware(env={"A": 3, "B": "hunter2"}, tool_name=4)  # type: ignore[dict-item, arg-type]
    assert "env['A']" in raised.value.message and "tool_name=4" in raised.value.message
    assert "hunter2" not in raised.value.message
    with pytest.raises(InvalidInput) as about_key:
        PIIMiddleware("email", key=["hunter2"])  # type: ignore[arg-type]
    assert "hunter2" not in about_key.value.message


def test_a_hook_that_cannot_be_called_is_refused_when_the_agent_is_built() -> None:
    class NoArguments(AgentMiddleware):
        def before_model(self) -> None:  # type: ignore[override]
            raise AssertionError

    class Anything(AgentMiddleware):
        def before_model(self, *args: Any, more: int = 1) -> None:
            pass

    with pytest.raises(InvalidInput, match="before_model cannot be called with"):
        create_agent(talker(), middleware=[NoArguments()])
    create_agent(talker(), middleware=[Anything()])


def test_two_middlewares_that_mean_different_things_by_a_key_are_refused() -> None:
    class One(AgentState):
        count: int

    class Other(AgentState):
        count: str

    class Counts(AgentMiddleware):
        state_schema = One

    class Words(AgentMiddleware):
        state_schema = Other

    with pytest.raises(InvalidInput, match="'count'"):
        create_agent(talker(), middleware=[Counts(), Words()])


@pytest.mark.parametrize(
    "changes", [{"tools": add}, {"tools": None}, {"model": "x"}, {"model_settings": 3}, {"system_message": 3}]
)
def test_a_request_that_cannot_be_sent_is_refused(run: Any, changes: dict[str, Any]) -> None:
    @wrap_model_call
    def around(request: Any, handler: Any) -> Any:
        return handler(request.override(**changes))

    with pytest.raises(InvalidInput, match=next(iter(changes))):
        run.invoke(create_agent(talker(), [add], middleware=[around]), GO)


def test_what_a_hook_appends_to_its_request_is_in_that_request_only(run: Any) -> None:
    @wrap_model_call
    def around(request: Any, handler: Any) -> Any:
        request.messages.append(HumanMessage("and be brief"))
        request.tools.clear()
        return handler(request)

    model = talker(asks(call("add", a=1, b=2)), "3")
    result = run.invoke(create_agent(model, [add], middleware=[around]), GO)
    assert [message.type for message in result["messages"]] == ["human", "ai", "tool", "ai"]
    assert [each.messages[-1].text for each in model.requests] == ["and be brief"] * 2
    assert [each.tool_names for each in model.requests] == [[], []]


def test_calls_that_nothing_would_run_are_refused(run: Any) -> None:
    @wrap_model_call
    def around(request: Any, handler: Any) -> Any:
        return ModelResponse([asks(call("add", a=1, b=2)), AIMessage("3")])

    with pytest.raises(InvalidUpdateError, match="before the last one"):
        run.invoke(create_agent(talker(), [add], middleware=[around]), GO)


def test_a_thread_that_goes_on_at_a_node_which_is_gone_says_so(run: Any) -> None:
    saver = InMemorySaver()
    run.invoke(
        create_agent(talker(asks(call("add", a=1, b=2))), [add], approvals="all", checkpointer=saver), GO, THREAD
    )
    later = create_agent(talker("Fine."), [add], checkpointer=saver)
    with pytest.raises(InvalidInput, match="'after_model'"):
        run.invoke(later, Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    assert run.invoke(later, GO, THREAD)["messages"][-1].text == "Fine."
