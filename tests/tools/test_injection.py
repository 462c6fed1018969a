"""What a tool gets that the model did not choose (SEATS E4, cases TOOL-09, TOOL-15)."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, model_validator
from typing_extensions import TypedDict

from runwell.agents import AgentState, create_agent
from runwell.errors import InvalidInput, ToolArgumentsError, ToolDefinitionError
from runwell.messages import AIMessage
from runwell.ports.runtime import CURRENT_TASK, ExecutionInfo, Runtime, TaskScope
from runwell.testing import FakeChatModel
from runwell.tools import (
    InjectedState,
    InjectedStore,
    InjectedToolArg,
    InjectedToolCallId,
    ToolRuntime,
    convert_to_openai_tool,
    tool,
)

CALL = {"type": "tool_call", "name": "t", "id": "call-1"}


@tool
def everything(
    q: str,
    state: Annotated[dict[str, Any], InjectedState],
    messages: Annotated[list[Any], InjectedState("messages")],
    store: Annotated[Any, InjectedStore()],
    call_id: Annotated[str, InjectedToolCallId],
    runtime: ToolRuntime[Any, Any],
    plain: Runtime[Any],
    unset: Annotated[str, InjectedState("absent")] = "default",
) -> Any:
    """Return all of it."""
    return {
        "q": q,
        "state": state,
        "messages": messages,
        "store": store,
        "call_id": call_id,
        "context": runtime.context,
        "same": plain is runtime,
        "unset": unset,
    }


def runtime(**more: Any) -> ToolRuntime[Any, Any]:
    return ToolRuntime(state={"messages": [1]}, store="the store", context="ctx", tool_call_id="call-1", **more)


EXPECTED = {
    "q": "x",
    "state": {"messages": [1]},
    "messages": [1],
    "store": "the store",
    "call_id": "call-1",
    "context": "ctx",
    "same": True,
    "unset": "default",
}


def test_every_injected_parameter_is_filled_and_the_model_sees_one_argument() -> None:
    assert everything.invoke({"q": "x"}, injected=runtime()) == EXPECTED
    assert list(everything.args) == ["q"]
    text = str(convert_to_openai_tool(everything))
    assert not any(name in text for name in ("state", "messages", "store", "call_id", "runtime", "plain", "unset"))


def test_the_model_cannot_forge_an_injected_value() -> None:
    forged = {
        "q": "x",
        "state": {"admin": True},
        "store": "mine",
        "call_id": "other",
        "runtime": None,
        "unset": "forged",
    }
    assert everything.invoke(forged, injected=runtime()) == EXPECTED
    assert everything.invoke({**CALL, "args": forged}, injected=runtime()).tool_call_id == "call-1"
    assert everything.prepare(forged, runtime())["state"] == {"messages": [1]}


def test_error_texts_do_not_name_injected_parameters() -> None:
    with pytest.raises(ToolArgumentsError) as caught:
        everything.invoke({"state": 1, "stor": 2, "plain": 3}, injected=runtime())
    text = str(caught.value)
    assert "stor" in text
    assert not any(name in text for name in ("state", "store", "plain", "runtime", "unset", "messages"))


def test_tool_15_the_callers_dict_is_left_as_it_was() -> None:
    @tool(description="d")
    def run(x: int, items: list[Any] | None = None, deep: Any = None, runtime: ToolRuntime | None = None) -> Any:
        if items is not None:
            items.append("added")
        if deep is not None:
            deep["inner"].append("added")
        return x

    given = {"x": 1, "items": [1], "deep": {"inner": []}, "runtime": "forged"}
    before = {"x": 1, "items": [1], "deep": {"inner": []}, "runtime": "forged"}
    run.invoke(given)
    assert given == before
    call = {**CALL, "args": given}
    run.invoke(call)
    assert call == {**CALL, "args": before}


def test_tool_15_a_json_schema_tool_does_not_change_it_either() -> None:
    @tool(
        args_schema={"type": "object", "properties": {"deep": {"type": "object"}}, "required": ["deep"]},
        description="d",
    )
    def run(deep: Any) -> Any:
        deep["inner"].append("added")

    given = {"deep": {"inner": []}}
    run.invoke(given)
    assert given == {"deep": {"inner": []}}


def test_tool_09_the_runtime_reaches_a_tool_with_a_json_schema() -> None:
    @tool(args_schema={"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}, description="d")
    def f(x, runtime):  # type: ignore[no-untyped-def]
        return x, runtime.tool_call_id

    assert f.invoke({**CALL, "args": {"x": 1}}).content == '[1,"call-1"]'
    assert f.invoke({"x": 1}, injected=runtime()) == (1, "call-1")
    assert list(f.args) == ["x"]


def test_a_schema_that_declares_runtime_makes_it_an_argument() -> None:
    @tool(
        args_schema={"type": "object", "properties": {"runtime": {"type": "integer"}}, "required": ["runtime"]},
        description="d",
    )
    def film(runtime):  # type: ignore[no-untyped-def]
        return runtime

    assert film.invoke({"runtime": 90}) == 90


class Args(BaseModel):
    """Look something up."""

    q: str
    state: Annotated[dict[str, Any], InjectedState]
    user: Annotated[str, InjectedToolArg] = "nobody"

    @model_validator(mode="after")
    def check(self) -> Args:
        if self.q == "bad":
            raise ValueError("q is bad")
        return self


def test_markers_in_a_pydantic_schema_are_hidden_filled_and_never_shown() -> None:
    @tool(args_schema=Args)
    def look(q: str, state: dict[str, Any], user: str = "nobody") -> Any:
        return q, state, user

    assert list(look.args) == ["q"]
    shared = {"messages": [object()]}
    assert look.invoke({"q": "x", "state": 1, "user": "forged"}, injected=ToolRuntime(state=shared))[1] is shared
    assert look.invoke({"q": "x", "user": "forged"}, injected={"state": {}, "user": "u1"}) == ("x", {}, "u1")
    with pytest.raises(ToolArgumentsError) as caught:
        look.invoke({"q": "bad"}, injected=ToolRuntime(state={"secret": "s3cret"}))
    assert "q is bad" in str(caught.value)
    assert "s3cret" not in str(caught.value)


class Typed(TypedDict):
    q: str
    call: Annotated[str, InjectedToolCallId]


def test_markers_in_a_typed_dict_schema() -> None:
    @tool(args_schema=Typed, description="d")
    def run(q: str, call: str) -> Any:
        return q, call

    assert list(run.args) == ["q"]
    assert run.invoke({**CALL, "args": {"q": "x", "call": "forged"}}).content == '["x","call-1"]'


def test_values_from_the_program() -> None:
    @tool(description="d")
    def run(x: int, user: Annotated[str, InjectedToolArg]) -> Any:
        return x, user

    assert run.with_injected(user="u1").invoke({"x": 1, "user": "forged"}) == (1, "u1")
    assert run.invoke({"x": 1}, injected={"user": "u2"}) == (1, "u2")
    assert run.with_injected(user="u1").prepare({"x": 1}, runtime())["user"] == "u1"
    with pytest.raises(InvalidInput, match="'user'"):
        run.invoke({"x": 1, "user": "forged"})
    with pytest.raises(InvalidInput, match="no injected parameter 'usr'; did you mean 'user'"):
        run.with_injected(usr="u1")


def test_a_store_that_is_needed_and_missing() -> None:
    @tool(description="d")
    def run(x: int, store: Annotated[Any, InjectedStore()]) -> Any:
        return store

    @tool(description="d")
    def can_do_without(x: int, store: Annotated[Any, InjectedStore()] = None) -> Any:
        return store

    assert run.needs_store
    assert not can_do_without.needs_store
    assert can_do_without.invoke({"x": 1}) is None
    with pytest.raises(InvalidInput, match="needs a store"):
        run.invoke({"x": 1})


def test_a_tool_invoked_by_hand_inside_a_graph_task_gets_the_tasks_runtime() -> None:
    seen = []
    outer = Runtime(context="ctx", store="st", stream_writer=seen.append, execution_info=ExecutionInfo(thread_id="t1"))

    @tool(description="d")
    def run(x: int, runtime: ToolRuntime[Any, Any]) -> Any:
        runtime.stream_writer("progress")
        return runtime.context, runtime.store, runtime.idempotency_key

    token = CURRENT_TASK.set(TaskScope("task", "tools", outer))
    try:
        assert run.invoke({**CALL, "args": {"x": 1}}).content == '["ctx","st","t1:call-1"]'
    finally:
        CURRENT_TASK.reset(token)
    assert seen == ["progress"]


def test_the_idempotency_key_is_stable_in_a_thread_and_unique_outside() -> None:
    def key(**fields: Any) -> str:
        return ToolRuntime(**fields).idempotency_key

    thread = ExecutionInfo(thread_id="t")
    assert key(execution_info=thread, tool_call_id="c") == key(execution_info=thread, tool_call_id="c") == "t:c"
    assert key(tool_call_id="c") != key(tool_call_id="c")
    one = ToolRuntime(execution_info=thread)
    assert one.idempotency_key == one.idempotency_key


def test_a_field_that_the_state_cannot_have_is_refused_when_the_agent_is_built() -> None:
    @tool
    def count(q: str, n: Annotated[int, InjectedState("cuont")]) -> str:
        """Count."""
        return str(n)

    @tool
    def other(q: str, n: Annotated[int, InjectedState("cuont")] = 7) -> str:
        """Count."""
        return str(n)

    class Counting(AgentState):
        count: int

    def asking(name: str) -> FakeChatModel:
        calls = [{"name": name, "args": {"q": "x"}, "id": "1"}]
        return FakeChatModel(responses=[AIMessage("", tool_calls=calls), "done"])

    with pytest.raises(ToolDefinitionError, match=r"'count' takes 'cuont' of the state .*; did you mean 'count'\?"):
        create_agent(asking("count"), [count], state_schema=Counting)
    agent = create_agent(asking("other"), [other], state_schema=Counting)
    assert agent.invoke({"messages": [("user", "go")]})["messages"][-2].text == "7"


def test_a_field_that_is_not_set_is_named() -> None:
    @tool
    def count(q: str, n: Annotated[int, InjectedState("count")]) -> str:
        """Count."""
        return str(n)

    class Counting(AgentState):
        count: int

    calls = [{"name": "count", "args": {"q": "x"}, "id": "1"}]
    model = FakeChatModel(responses=[AIMessage("", tool_calls=calls), "done"], cycle=True)
    agent = create_agent(model, [count], state_schema=Counting)
    with pytest.raises(InvalidInput, match="needs 'count' of the state for its parameter 'n', and it is not set"):
        agent.invoke({"messages": [("user", "go")]})
