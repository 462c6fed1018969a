"""create_react_agent, under the names of the older constructor; and the loop it stands for, written by hand."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from runwell.agents import Budget, ToolNode, create_react_agent
from runwell.errors import InvalidInput
from runwell.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from runwell.persistence import InMemorySaver
from runwell.prompts import ChatPromptTemplate
from runwell.runnables import RunnableLambda
from runwell.testing.models import FakeChatModel
from runwell.tools import tool


def call(name: str, id: str = "1", **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


def asks(*calls: dict[str, Any], text: str = "") -> AIMessage:
    return AIMessage(text, tool_calls=list(calls))


GO = {"messages": [HumanMessage("go")]}


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


# -- lab 1: the loop by hand and the constructor make the same calls


class Calculator(FakeChatModel):
    """Answers like a model that reads the question, and what its calls gave, and knows nothing else."""

    def _reply(self, request: Any) -> Any:
        question = next(m.text for m in request.messages if m.type == "human")
        results = [m.text for m in request.messages if m.type == "tool"]
        plan: dict[str, list[Any]] = {
            "What is (2 + 3) * 4?": [
                lambda: asks(call("add", "1", a=2, b=3)),
                lambda: asks(call("multiply", "2", a=int(results[0]), b=4)),
            ],
            "Add 1 and 2, and multiply 3 and 4.": [
                lambda: asks(call("add", "1", a=1, b=2), call("multiply", "2", a=3, b=4)),
            ],
            "Divide by nothing.": [lambda: asks(call("divide", "1")), lambda: asks(call("add", "2", a="x", b=1))],
            "Hello.": [],
        }
        step = sum(1 for m in request.messages if m.type == "ai")
        steps = plan[question]
        return steps[step]() if step < len(steps) else AIMessage(f"{question} {' '.join(results)}")


QUESTIONS = {"What is (2 + 3) * 4?": 2, "Add 1 and 2, and multiply 3 and 4.": 2, "Divide by nothing.": 2, "Hello.": 0}


def by_hand(run: Any, model: Any, tools: list[Any], question: str) -> list[BaseMessage]:
    """The loop as a beginner writes it: ask, look for calls, run them, ask again."""
    known = {each.name: each for each in tools}
    node = ToolNode(tools)
    messages: list[BaseMessage] = [HumanMessage(question)]
    bound = model.bind_tools(tools)
    for _ in range(10):
        reply = run.invoke(bound, messages)
        messages.append(reply)
        if not reply.tool_calls:  # "did the model ask for a tool?" is this line
            return messages
        for each in reply.tool_calls:
            if each["name"] in known and question != "Divide by nothing.":
                messages.append(run.invoke(known[each["name"]], each))
            else:
                messages += run.invoke(node, [AIMessage("", tool_calls=[each])])
    raise AssertionError("the loop did not end")


@pytest.mark.parametrize("question", QUESTIONS)
def test_lab_1_the_loop_by_hand_and_create_react_agent_make_the_same_calls(run: Any, question: str) -> None:
    def calls(messages: list[BaseMessage]) -> list[tuple[str, Any]]:
        return [(c["name"], c["args"]) for m in messages if isinstance(m, AIMessage) for c in m.tool_calls]

    tools = [add, multiply]
    hand = by_hand(run, Calculator(), tools, question)
    agent = run.invoke(create_react_agent(Calculator(), tools), {"messages": [HumanMessage(question)]})["messages"]
    assert calls(hand) == calls(agent)
    assert len(calls(agent)) == QUESTIONS[question]
    assert [(m.type, m.text) for m in hand] == [(m.type, m.text) for m in agent]


# -- its arguments


def test_a_prompt_may_be_a_text_a_message_or_a_function_of_the_state(run: Any) -> None:
    prompts: list[Any] = [
        "Be brief.",
        SystemMessage("Be brief."),
        lambda state: [SystemMessage("Be brief."), *state["messages"]],
        RunnableLambda(lambda state: [SystemMessage("Be brief."), *state["messages"]]),
        ChatPromptTemplate.from_messages([("system", "Be brief."), ("placeholder", "{messages}")]),
    ]
    for prompt in prompts:
        model = FakeChatModel([asks(call("add", a=1, b=2)), "3"])
        result = run.invoke(create_react_agent(model, [add], prompt=prompt), GO)
        assert [[m.text for m in request.messages][:2] for request in model.requests] == [["Be brief.", "go"]] * 2
        assert "system" not in [m.type for m in result["messages"]]
    model = FakeChatModel(["hi"])
    run.invoke(create_react_agent(model, [], state_modifier="Be brief."), GO)
    assert model.requests[0].messages[0].text == "Be brief."
    with pytest.raises(InvalidInput, match="one setting"):
        create_react_agent(model, [], prompt="a", state_modifier="b")


def test_a_hook_before_the_model_says_what_it_sees_this_time(run: Any, thread: Any) -> None:
    def last_only(state: Any) -> Any:
        shown = state["messages"][-1:] if len(state["messages"]) < 3 else None
        return {"llm_input_messages": shown} if shown else None

    model = FakeChatModel(["one", "two"])
    agent = create_react_agent(model, [], pre_model_hook=last_only, checkpointer=InMemorySaver())
    first = run.invoke(agent, {"messages": [HumanMessage("a"), HumanMessage("b")]}, thread)
    assert [m.text for m in first["messages"]] == ["a", "b", "one"]
    assert first.keys() == {"messages"}
    run.invoke(agent, {"messages": "c"}, thread)
    assert [[m.text for m in request.messages] for request in model.requests] == [["b"], ["a", "b", "one", "c"]]


def test_hooks_may_change_the_state_in_either_colour(run: Any) -> None:
    async def before(state: Any) -> Any:
        return {"messages": [HumanMessage("note")]}

    def after(state: Any) -> Any:
        return {"messages": [state["messages"][-1].model_copy(update={"content": "better"})]}

    agent = create_react_agent(FakeChatModel(["good"]), [], pre_model_hook=before, post_model_hook=after)
    assert [m.text for m in run.invoke(agent, GO)["messages"]] == ["go", "note", "better"]


def test_a_response_format_may_come_with_a_prompt(run: Any) -> None:
    class Sum(BaseModel):
        value: int

    model = FakeChatModel([asks(call("Sum", value=3))])
    agent = create_react_agent(model, [], prompt="Add.", response_format=("Give the sum.", Sum))
    assert run.invoke(agent, GO)["structured_response"] == Sum(value=3)
    assert model.requests[0].messages[0].text == "Add.\n\nGive the sum."


def test_a_tool_node_brings_its_tools_and_its_way_with_errors(run: Any) -> None:
    @tool
    def fail() -> str:
        """Fail."""
        raise ValueError("broken")

    def around(request: Any, handler: Any) -> Any:
        made = handler(request)
        return made.model_copy(update={"content": f"<{made.content}>"}) if isinstance(made, ToolMessage) else made

    node = ToolNode([fail, add], handle_tool_errors="sorry", wrap_tool_call=around)
    model = FakeChatModel([asks(call("fail"), call("add", "2", a=1, b=2)), "done"])
    result = run.invoke(create_react_agent(model, node), GO)
    assert [m.text for m in result["messages"]][2:] == ["sorry", "<3>", "done"]


def test_breakpoints_and_settings_of_create_agent_are_taken(run: Any, thread: Any) -> None:
    model = FakeChatModel([asks(call("add", a=1, b=2)), "3"])
    agent = create_react_agent(
        model,
        [add],
        interrupt_before=["agent"],
        checkpointer=InMemorySaver(),
        version="v1",
        budget=Budget(model_calls=5),
    )
    run.invoke(agent, GO, thread)
    assert not model.requests
    assert agent.get_state(thread).next == ("model",)
