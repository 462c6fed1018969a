"""Types that say what an agent's context and state are, as few of them as programs write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NotRequired

import pytest

from runwell.agents import AgentState, create_agent
from runwell.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from runwell.graph import Runtime
from runwell.messages import AIMessage
from runwell.testing.models import FakeChatModel
from runwell.tools import ToolRuntime, tool


@dataclass
class Context:
    user: str


class State(AgentState):
    visits: NotRequired[int]


class Count(AgentMiddleware[State, Context]):
    state_schema = State

    def before_agent(self, state: State, runtime: Runtime[Context]) -> dict[str, Any]:
        return {"visits": state.get("visits", 0) + len(runtime.context.user)}

    def wrap_model_call(self, request: ModelRequest[Context], handler: Any) -> ModelResponse[Any]:
        made: ModelResponse[Any] = handler(request.override(system_prompt=f"You help {request.runtime.context.user}."))
        return made


@tool
def who(runtime: ToolRuntime[Context]) -> str:
    """Tell who asks."""
    return runtime.context.user


@tool
def how_often(runtime: ToolRuntime[Context, State]) -> str:
    """Tell how often somebody came."""
    return str(runtime.state["visits"])


def test_context_and_state_by_their_types(run: Any) -> None:
    calls = [{"name": name, "args": {}, "id": name, "type": "tool_call"} for name in ("who", "how_often")]
    model = FakeChatModel([AIMessage("", tool_calls=calls), "Done."])
    agent = create_agent(model, [who, how_often], middleware=[Count()], context_schema=Context)
    result = run.invoke(agent, {"messages": "Hi"}, context=Context("ann"))
    assert [message.text for message in result["messages"][2:]] == ["ann", "3", "Done."]
    assert model.requests[0].messages[0].text == "You help ann."


@pytest.mark.parametrize(
    "kind",
    [AgentMiddleware[State], AgentMiddleware[State, Context, Any], ToolRuntime[None, State], ModelRequest[Context]],
    ids=["middleware", "middleware with all", "tool runtime", "request"],
)
def test_how_many_are_said_is_free(kind: Any) -> None:
    assert kind.__args__
