"""What agents have of the graphs that they are: limits seen from inside, stops, principals."""

from __future__ import annotations

from typing import Any

from runwell.agents import AgentState, Budget, create_agent
from runwell.agents.middleware import before_model
from runwell.graph import STOPPED, Principal, RemainingSteps, RunControl, Runtime
from runwell.messages import AIMessage
from runwell.persistence import InMemorySaver
from runwell.testing import FakeChatModel
from runwell.tools import ToolRuntime, tool


def calling(*names: str) -> FakeChatModel:
    """A model that calls these tools, one after the other, and then answers."""
    calls = [
        AIMessage("", tool_calls=[{"name": name, "args": {}, "id": f"call_{n}", "type": "tool_call"}])
        for n, name in enumerate(names)
    ]
    return FakeChatModel([*calls, AIMessage("done")])


def test_hooks_see_the_budget_the_principal_and_the_steps_left(run: Any) -> None:
    seen: list[Any] = []

    class State(AgentState[Any]):
        left: RemainingSteps

    @before_model
    def look(state: Any, runtime: Runtime[Any]) -> None:
        seen.append((runtime.budget.left("model_calls"), runtime.principal, state["left"]))

    budget, me = Budget(model_calls=3), Principal("me")
    agent = create_agent(calling(), [], middleware=[look], state_schema=State, budget=budget)
    run.invoke(agent, {"messages": "hi"}, {"recursion_limit": 9}, principal=me)
    assert seen == [(3, me, 9)]


def test_an_agent_stops_after_the_tool_call_under_way_and_goes_on(run: Any, thread: Any) -> None:
    control, ran = RunControl(), list[str]()

    @tool
    def work(runtime: ToolRuntime[Any, Any]) -> str:
        """Work."""
        ran.append("work")
        assert runtime.control is control
        control.stop("redeploy")
        return "worked"

    agent = create_agent(calling("work"), [work], checkpointer=InMemorySaver())
    stopped = run.invoke(agent, {"messages": "hi"}, thread, control=control)
    assert stopped[STOPPED] == {"reason": "redeploy", "next": ["model"]}
    assert stopped["messages"][-1].text == "worked"
    assert run.invoke(agent, None, thread)["messages"][-1].text == "done"
    assert ran == ["work"]
