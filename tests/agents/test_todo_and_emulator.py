"""The model's own list of tasks, and tools that a model stands in for."""

from __future__ import annotations

from typing import Any

import pytest

from runwell.agents import create_agent
from runwell.agents.middleware import LLMToolEmulator, TodoListMiddleware
from runwell.errors import InvalidInput
from runwell.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage, validate_history
from runwell.testing.models import FakeChatModel
from runwell.tools import tool

GO = {"messages": [HumanMessage("go")]}
PLAN = [{"content": "look", "status": "in_progress"}, {"content": "tell", "status": "pending"}]


def plans(*lists: Any) -> AIMessage:
    return AIMessage(
        "",
        tool_calls=[
            {"name": "write_todos", "args": {"todos": each}, "id": f"t{n}", "type": "tool_call"}
            for n, each in enumerate(lists)
        ],
    )


def test_the_models_list_is_in_the_state(run: Any) -> None:
    model = FakeChatModel(responses=[plans(PLAN), "done"])
    result = run.invoke(create_agent(model, system_prompt="Be brief.", middleware=[TodoListMiddleware()]), GO)
    assert result["todos"] == PLAN
    assert result["messages"][2].text == "The list is now:\n[in_progress] look\n[pending] tell"
    assert model.requests[0].messages[0].text.startswith("Be brief.\n\nYou have a list of tasks")


def test_blocks_of_a_system_prompt_stay_blocks(run: Any) -> None:
    block = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    model = FakeChatModel(responses=["done"])
    agent = create_agent(
        model, system_prompt=SystemMessage([block]), middleware=[TodoListMiddleware(system_prompt="Plan.")]
    )
    run.invoke(agent, GO)
    assert model.requests[0].messages[0].content == [block, {"type": "text", "text": "Plan."}]


def test_two_lists_in_one_turn_are_both_answered_and_neither_is_taken(run: Any) -> None:
    model = FakeChatModel(responses=[plans(PLAN, PLAN[:1]), plans(PLAN), "done"])
    result = run.invoke(create_agent(model, middleware=[TodoListMiddleware()]), GO)
    assert [m.status for m in result["messages"] if isinstance(m, ToolMessage)] == ["error", "error", "success"]
    assert not validate_history(result["messages"]) and result["todos"] == PLAN


def test_a_task_of_another_shape_goes_back_to_the_model(run: Any) -> None:
    model = FakeChatModel(responses=[plans([{"content": "x", "status": "maybe"}]), "done"])
    result = run.invoke(create_agent(model, middleware=[TodoListMiddleware()]), GO)
    assert result["messages"][2].status == "error" and "todos" not in result


def test_a_list_is_not_an_input() -> None:
    agent = create_agent(FakeChatModel(responses=["x"]), middleware=[TodoListMiddleware()])
    with pytest.raises(InvalidInput, match="todos"):
        agent.invoke({**GO, "todos": PLAN})


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    raise AssertionError("the real tool ran")


def asks(**args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "weather", "args": args, "id": "1", "type": "tool_call"}])


def test_an_emulated_tool_does_not_run(run: Any) -> None:
    actor = FakeChatModel(responses=["Rain."])
    agent = create_agent(
        FakeChatModel(responses=[asks(city="Oslo"), "ok"]), [weather], middleware=[LLMToolEmulator(model=actor)]
    )
    answer = run.invoke(agent, GO)["messages"][2]
    assert (answer.text, answer.artifact) == ("Rain.", {"emulated": True})
    asked = actor.requests[0].messages[0].text
    assert "weather" in asked and "The weather in a city." in asked and '{"city": "Oslo"}' in asked


def test_a_bad_call_is_answered_as_by_the_real_tool_and_others_run(run: Any) -> None:
    @tool
    def real() -> str:
        """Run."""
        return "ran"

    calls = AIMessage(
        "",
        tool_calls=[
            {"name": "weather", "args": {"town": "Oslo"}, "id": "1", "type": "tool_call"},
            {"name": "real", "args": {}, "id": "2", "type": "tool_call"},
        ],
    )
    emulator = LLMToolEmulator(tools=["weather"], model=FakeChatModel(responses=[]))
    agent = create_agent(FakeChatModel(responses=[calls, "ok"]), [weather, real], middleware=[emulator])
    messages = run.invoke(agent, GO)["messages"]
    assert messages[2].status == "error" and "town" in messages[2].text and messages[3].text == "ran"


def test_an_emulator_needs_a_model_and_tools_that_are_there() -> None:
    model = FakeChatModel(responses=[])
    with pytest.raises(InvalidInput, match="no model"):
        LLMToolEmulator()
    with pytest.raises(InvalidInput):
        LLMToolEmulator(tools=[], model=model)
    with pytest.raises(InvalidInput, match="wether"):
        create_agent(model, [weather], middleware=[LLMToolEmulator(tools=["wether"], model=model)])
