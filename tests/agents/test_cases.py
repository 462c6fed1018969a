"""Cases that go through a whole agent, by their ids."""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

from runwell.agents import create_agent
from runwell.agents.middleware import RetrievalToolSelectorMiddleware
from runwell.graph import END, START, Command, StateGraph, interrupt
from runwell.messages import AIMessage, HumanMessage
from runwell.persistence import InMemorySaver
from runwell.testing.models import FakeChatModel
from runwell.tools import StructuredTool, ToolRuntime, tool, tool_cost


def call(name: str, id: str = "1", **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


def test_agent_04_async_code_pauses_and_writes_to_the_stream_in_both_kinds_of_run(run: Any, thread: Any) -> None:
    @tool
    async def count(who: str, runtime: ToolRuntime) -> str:
        """Count aloud."""
        for number in range(2):
            runtime.stream_writer(f"{who}{number}")
            await asyncio.sleep(0)
        return who

    @tool
    async def ask(question: str) -> str:
        """Ask a person."""
        await asyncio.sleep(0)
        return f"a person says {interrupt(question)}"

    calls = [call("count", "1", who="a"), call("ask", "2", question="?"), call("count", "3", who="b")]
    turn = AIMessage("", tool_calls=calls)
    agent = create_agent(FakeChatModel([turn, "done"]), [count, ask], checkpointer=InMemorySaver())
    written = run.stream(agent, {"messages": "go"}, thread, stream_mode="custom")
    assert sorted(written) == ["a0", "a1", "b0", "b1"]
    assert [question.value for question in agent.get_state(thread).interrupts] == ["?"]
    result = run.invoke(agent, Command(resume="yes"), thread)
    assert [m.text for m in result["messages"] if m.type == "tool"] == ["a", "a person says yes", "b"]


def test_agent_04_an_async_node_pauses(run: Any, thread: Any) -> None:
    class State(TypedDict, total=False):
        said: str

    async def node(state: State) -> State:
        await asyncio.sleep(0)
        return {"said": interrupt("?")}

    graph = StateGraph(State).add_node("node", node).add_edge(START, "node").add_edge("node", END)
    compiled = graph.compile(InMemorySaver())
    assert run.invoke(compiled, {"said": ""}, thread)["__interrupt__"][0].value == "?"
    assert run.invoke(compiled, Command(resume="x"), thread)["said"] == "x"


def company_tools() -> list[Any]:
    """40 tools whose definitions are about 150 tokens each."""
    made = []
    for number in range(40):
        topic = ["invoice", "holiday", "server", "printer", "contract", "meeting", "parcel", "badge"][number % 8]
        text = f"Handle requests number {number} about the {topic} of an employee. " + "Details of how it works. " * 15

        def work(request: str) -> str:
            return "done"

        made.append(StructuredTool.from_function(work, name=f"{topic}_{number}", description=text))
    return made


def test_case_7_a_selection_of_tools_costs_900_tokens_instead_of_6000(run: Any) -> None:
    """Case 7: definitions are paid for at every call, so only those that the request needs are bound."""
    tools = company_tools()

    def tokens(request: Any) -> int:
        return sum(cost.tokens for cost in tool_cost([each for each in tools if each.name in request.tool_names]))

    everything, some = FakeChatModel(["hi"]), FakeChatModel(["hi"])
    question = {"messages": [HumanMessage("My printer is broken, and where is my parcel?")]}
    run.invoke(create_agent(everything, tools), question)
    run.invoke(create_agent(some, tools, middleware=[RetrievalToolSelectorMiddleware(max_tools=6)]), question)
    before, after = tokens(everything.requests[0]), tokens(some.requests[0])
    assert 5_400 <= before <= 6_600
    assert 800 <= after <= 1_000
    assert abs(after - before * 6 / 40) < 30
    assert all(name.startswith(("printer", "parcel")) for name in some.requests[0].tool_names)
