"""Tools among other runnables: in chains, batches and traces, and runnables as tools."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from runwell.errors import ToolArgumentsError, ToolDefinitionError
from runwell.observe import BaseCallbackHandler
from runwell.runnables import RunnableConfig, RunnableLambda
from runwell.tools import InjectedToolArg, convert_runnable_to_tool, tool


@tool
def double(x: int) -> int:
    """Double it."""
    return 2 * x


class Log(BaseCallbackHandler):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_tool_start(self, serialized: Any, input_str: Any, **kwargs: Any) -> None:
        self.seen.append(("start", serialized["name"], kwargs["inputs"]))

    def on_tool_end(self, output: Any, **kwargs: Any) -> None:
        self.seen.append(("end", output))

    def on_tool_error(self, error: BaseException, **kwargs: Any) -> None:
        self.seen.append(("error", type(error)))


def test_a_tool_in_a_chain_and_in_a_batch() -> None:
    chain = (lambda n: {"x": n}) | double | (lambda n: n + 1)
    assert chain.invoke(4) == 9
    assert double.batch([{"x": 1}, {"x": 2}]) == [2, 4]
    assert list(double.stream({"x": 1})) == [2]
    assert double.bind(x=7).invoke({}) == 14


def test_observers_hear_of_it_as_a_tool_run() -> None:
    log = Log()
    double.invoke({"x": 1}, {"callbacks": [log]})
    asyncio.run(double.ainvoke({"x": 2}, {"callbacks": [log]}))
    with pytest.raises(ToolArgumentsError):
        double.invoke({"x": "one"}, {"callbacks": [log]})
    assert log.seen == [
        ("start", "double", {"x": 1}),
        ("end", 2),
        ("start", "double", {"x": 2}),
        ("end", 4),
        ("start", "double", {"x": "one"}),
        ("error", ToolArgumentsError),
    ]


def test_the_config_reaches_a_parameter_that_asks_for_it() -> None:
    @tool(description="d")
    def where(x: int, config: RunnableConfig) -> Any:
        return config["configurable"]["thread_id"], config["tags"]

    assert list(where.args) == ["x"]
    assert where.invoke({"x": 1, "config": "forged"}, {"configurable": {"thread_id": "t"}, "tags": ["a"]}) == (
        "t",
        ["a"],
    )
    outer: Any = RunnableLambda(lambda _: where.invoke({"x": 1}))
    assert outer.invoke(0, {"configurable": {"thread_id": "t"}, "tags": ["a"]}) == ("t", ["a"])


def test_bound_values_do_not_open_a_way_for_the_model() -> None:
    @tool(description="d")
    def run(x: int, user: Annotated[str, InjectedToolArg]) -> Any:
        return x, user

    assert run.bind(injected={"user": "u1"}).invoke({"x": 1, "user": "forged"}) == (1, "u1")


class Question(TypedDict):
    text: str
    limit: int


def test_a_runnable_as_a_tool() -> None:
    shout: Any = RunnableLambda(lambda given: given["text"].upper() * given["limit"])
    made = convert_runnable_to_tool(shout.with_types(input_type=Question), name="shout", description="Shout.")
    assert set(made.args) == {"text", "limit"}
    assert made.invoke({"text": "a", "limit": 2}) == "AA"
    assert asyncio.run(made.ainvoke({"text": "a", "limit": 2})) == "AA"
    with pytest.raises(ToolArgumentsError, match="limit: missing"):
        made.invoke({"text": "a"})

    def length(text: str) -> int:
        return len(text)

    whole = tool("length", RunnableLambda(length), description="Count letters.")
    assert whole.args == {"input": {"type": "string"}}
    assert whole.invoke({"input": "abc"}) == 3
    assert (
        convert_runnable_to_tool(shout, arg_types={"text": str, "limit": int}, name="s", description="d").invoke(
            {"text": "b", "limit": 1}
        )
        == "B"
    )
    with pytest.raises(ToolDefinitionError, match="no docstring"):
        convert_runnable_to_tool(shout)


def test_the_input_schema_is_that_of_the_arguments() -> None:
    assert issubclass(double.get_input_schema(), BaseModel)
    assert double.get_input_jsonschema() == {
        "type": "object",
        "properties": {"x": {"type": "integer"}},
        "required": ["x"],
    }
