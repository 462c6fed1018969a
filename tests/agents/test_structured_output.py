"""An agent that answers in a given shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import pytest
from pydantic import BaseModel

from runwell.agents import AgentLimits, ProviderStrategy, ToolStrategy, create_agent
from runwell.agents.structured_output import StructuredOutputValidationError
from runwell.errors import DuplicateTool, StructuredOutputError
from runwell.messages import AIMessage, HumanMessage
from runwell.persistence import InMemorySaver
from runwell.testing.models import FakeChatModel
from runwell.tools import tool


class Result(BaseModel):
    """The result."""

    result: Literal["valid"]


@dataclass
class Point:
    x: int
    y: int


class Pair(TypedDict):
    left: str


SCHEMA = {"title": "Size", "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return f"content of {path}"


def call(name: str, id: str, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


def asks(*calls: Any) -> AIMessage:
    return AIMessage("", tool_calls=list(calls))


GO = {"messages": [HumanMessage("go")]}


@pytest.mark.parametrize(
    ("schema", "name", "args", "value"),
    [
        (Result, "Result", {"result": "valid"}, Result(result="valid")),
        (Point, "Point", {"x": 1, "y": 2}, Point(1, 2)),
        (Pair, "Pair", {"left": "l"}, {"left": "l"}),
        (SCHEMA, "Size", {"n": 3}, {"n": 3}),
    ],
)
def test_every_kind_of_schema_gives_its_own_kind_of_value(
    run: Any, schema: Any, name: str, args: Any, value: Any
) -> None:
    model = FakeChatModel(responses=[asks(call(name, "1", **args))])
    result = run.invoke(create_agent(model, [read_file], response_format=schema), GO)
    assert result["structured_response"] == value
    assert type(result["structured_response"]) is type(value)
    assert model.requests[0].tool_choice == "required" and name in model.requests[0].tool_names


def test_a_union_offers_one_tool_for_each_member(run: Any) -> None:
    model = FakeChatModel(responses=[asks(call("Point", "1", x=1, y=2))])
    result = run.invoke(create_agent(model, response_format=ToolStrategy(Result | Point)), GO)
    assert model.requests[0].tool_names == ["Result", "Point"]
    assert result["structured_response"] == Point(1, 2)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (Annotated[Result | Point, "told apart by name"], Point(1, 2)),
        ({"oneOf": [SCHEMA, {**SCHEMA, "title": "Point", "required": []}]}, {"x": 1, "y": 2}),
    ],
    ids=["annotated", "a JSON schema"],
)
def test_a_union_in_other_words_offers_one_tool_for_each_member_too(run: Any, schema: Any, value: Any) -> None:
    model = FakeChatModel(responses=[asks(call("Point", "1", x=1, y=2))])
    agent = create_agent(model, response_format=ToolStrategy(schema), checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    assert run.invoke(agent, GO, config)["structured_response"] == value
    assert len(model.requests[0].tool_names) == 2
    assert agent.get_state(config).values["structured_response"] == value


def test_b6_with_auto_the_model_is_left_free(run: Any) -> None:
    model = FakeChatModel(responses=[asks(call("Result", "1", result="valid"))])
    run.invoke(create_agent(model, response_format=ToolStrategy(Result, tool_choice="auto")), GO)
    assert model.requests[0].tool_choice is None


def test_g3_g4_a_bad_answer_is_told_and_tried_again(run: Any) -> None:
    model = FakeChatModel(responses=[asks(call("Size", "1", n="x")), asks(call("Size", "2", n=4))])
    result = run.invoke(create_agent(model, response_format=SCHEMA), GO)
    assert result["structured_response"] == {"n": 4}
    assert result["messages"][2].status == "error" and "n" in result["messages"][2].content


def test_g8_a_call_of_an_unknown_tool_ends_no_run_without_an_answer(run: Any) -> None:
    model = FakeChatModel(responses=[asks(call("Wrong", "1", n=1)), asks(call("Size", "2", n=4))])
    result = run.invoke(create_agent(model, response_format=ToolStrategy(SCHEMA)), GO)
    assert result["structured_response"] == {"n": 4}
    assert [m.tool_call_id for m in result["messages"] if m.type == "tool"] == ["1", "2"]


def test_g4_three_bad_answers_end_with_all_attempts(run: Any) -> None:
    model = FakeChatModel(responses=[asks(call("Result", str(n), result=f"bad{n}")) for n in range(9)])
    with pytest.raises(StructuredOutputError) as caught:
        run.invoke(create_agent(model, response_format=Result), GO)
    assert len(caught.value.attempts) == 3 == len(model.requests)
    assert ["bad0" in caught.value.attempts[0][0], "bad2" in caught.value.attempts[2][0]] == [True, True]


def test_g4_the_number_of_attempts_can_be_set(run: Any) -> None:
    model = FakeChatModel(responses=[asks(call("Result", str(n), result="bad")) for n in range(9)])
    with pytest.raises(StructuredOutputError):
        run.invoke(create_agent(model, response_format=Result, limits=AgentLimits(max_answers=5)), GO)
    assert len(model.requests) == 5


def test_without_error_handling_a_bad_answer_raises_at_once(run: Any) -> None:
    model = FakeChatModel(responses=[asks(call("Result", "1", result="bad"))])
    with pytest.raises(StructuredOutputValidationError):
        run.invoke(create_agent(model, response_format=ToolStrategy(Result, handle_errors=False)), GO)


def test_c2_plain_text_where_an_answer_is_due_goes_back_counted(run: Any) -> None:
    model = FakeChatModel(responses=["just text", asks(call("Result", "1", result="valid"))])
    result = run.invoke(create_agent(model, response_format=Result), GO)
    assert result["structured_response"] == Result(result="valid")
    with pytest.raises(StructuredOutputError):
        run.invoke(create_agent(FakeChatModel(responses=["text"] * 9), response_format=Result), GO)


def answered(result: Any) -> set[str]:
    return {m.tool_call_id for m in result["messages"] if m.type == "tool"}


def test_out_03_c6_g8_an_invalid_answer_beside_a_call_goes_back_with_both_answered(run: Any) -> None:
    first = asks(call("read_file", "r", path="p"), call("Result", "a", result="wrong"))
    model = FakeChatModel(responses=[first, asks(call("Result", "b", result="valid"))])
    result = run.invoke(create_agent(model, [read_file], response_format=Result), GO)
    assert result["structured_response"] == Result(result="valid")
    assert answered(result) == {"r", "a", "b"}
    assert any(m.content == "content of p" for m in result["messages"])


def test_c6_finish_runs_the_other_calls_and_ends(run: Any) -> None:
    model = FakeChatModel(responses=[asks(call("read_file", "r", path="p"), call("Result", "a", result="valid"))])
    result = run.invoke(create_agent(model, [read_file], response_format=Result), GO)
    assert result["structured_response"] == Result(result="valid") and answered(result) == {"r", "a"}


def test_c6_continue_asks_again_after_the_other_calls(run: Any) -> None:
    first = asks(call("read_file", "r", path="p"), call("Result", "a", result="valid"))
    model = FakeChatModel(responses=[first, asks(call("Result", "b", result="valid"))])
    strategy = ToolStrategy(Result, on_mixed="continue")
    result = run.invoke(create_agent(model, [read_file], response_format=strategy), GO)
    assert len(model.requests) == 2 and answered(result) == {"r", "a", "b"}


def test_c6_reject_runs_none_of_them(run: Any) -> None:
    first = asks(call("read_file", "r", path="p"), call("Result", "a", result="valid"))
    model = FakeChatModel(responses=[first, asks(call("Result", "b", result="valid"))])
    strategy = ToolStrategy(Result, on_mixed="reject")
    result = run.invoke(create_agent(model, [read_file], response_format=strategy), GO)
    assert answered(result) == {"r", "a", "b"}
    assert not any("content of" in str(m.content) for m in result["messages"])


def test_out_04_g7_two_equal_answers_count_and_both_are_answered(run: Any) -> None:
    twice = asks(call("Result", "1", result="valid"), call("Result", "2", result="valid"))
    result = run.invoke(create_agent(FakeChatModel(responses=[twice]), response_format=Result), GO)
    assert result["structured_response"] == Result(result="valid") and answered(result) == {"1", "2"}


def test_out_04_g7_two_different_answers_go_back_and_both_are_answered(run: Any) -> None:
    differ = asks(call("Point", "1", x=1, y=1), call("Point", "2", x=2, y=2))
    model = FakeChatModel(responses=[differ, asks(call("Point", "3", x=3, y=3))])
    result = run.invoke(create_agent(model, response_format=Point), GO)
    assert result["structured_response"] == Point(3, 3) and answered(result) == {"1", "2", "3"}


def test_f12_a_stale_answer_is_cleared_when_the_next_run_starts(run: Any, thread: Any) -> None:
    strategy = ToolStrategy(Result, tool_choice="auto")
    model = FakeChatModel(responses=[asks(call("Result", "1", result="valid")), RuntimeError("down")])
    agent = create_agent(model, response_format=strategy, checkpointer=InMemorySaver())
    run.invoke(agent, GO, thread)
    with pytest.raises(RuntimeError):
        run.invoke(agent, GO, thread)
    assert run.state(agent, thread).values["structured_response"] is None


def test_an_answer_is_saved_and_comes_back_as_its_own_type(run: Any, thread: Any) -> None:
    model = FakeChatModel(responses=[asks(call("Point", "1", x=1, y=2))])
    agent = create_agent(model, response_format=Point, checkpointer=InMemorySaver())
    run.invoke(agent, GO, thread)
    assert run.state(agent, thread).values["structured_response"] == Point(1, 2)


def test_g6_a_native_answer_that_does_not_parse_is_tried_again(run: Any) -> None:
    model = FakeChatModel(responses=["not json", '{"result": "valid"}'])
    result = run.invoke(create_agent(model, response_format=ProviderStrategy(Result)), GO)
    assert result["structured_response"] == Result(result="valid")
    assert len(model.requests) == 2


def test_a_schema_with_the_name_of_a_tool_is_refused() -> None:
    class read_file_(BaseModel):  # noqa: N801
        x: int

    read_file_.__name__ = "read_file"
    with pytest.raises(DuplicateTool):
        create_agent(
            FakeChatModel(responses=[]), [read_file], response_format=ToolStrategy({**SCHEMA, "title": "read_file"})
        )
