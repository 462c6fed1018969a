"""A program for type checkers (`test_typing.py`): they must find wrong the lines ending in `# wrong`, and no other."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict, assert_type

from pydantic import BaseModel

from runwell.graph import (
    START,
    Command,
    CompiledStateGraph,
    GraphOutput,
    RetryPolicy,
    Runtime,
    Send,
    StateGraph,
    StateSnapshot,
    StateUpdate,
    StreamPart,
    interrupt,
)
from runwell.persistence import InMemorySaver


class State(TypedDict):
    log: Annotated[list[str], operator.add]
    number: int


class Given(TypedDict):
    number: int


class Result(TypedDict):
    log: list[str]


class Private(TypedDict):
    secret: str


@dataclass
class Context:
    user: str


class Model(BaseModel):
    number: int = 0


@dataclass
class Data:
    number: int = 0


def plain(state: State) -> dict[str, Any]:
    return {"log": [interrupt("name?")]}


async def later(state: State, runtime: Runtime[Context]) -> Command[Literal["plain", "private"]]:
    return Command(update={"log": [runtime.context.user.upper()]}, goto="private")


def private(state: Private) -> Private:
    return {"secret": state["secret"]}


def route(state: State) -> Literal["plain", "__end__"]:
    return "plain"


def fan(state: State) -> list[Send]:
    return [Send("plain", {"number": 1})]


graph = StateGraph(State, Context, input_schema=Given, output_schema=Result)
assert_type(graph, StateGraph[State, Context, Given, Result])
graph.add_node(plain).add_node("later", later, retry_policy=RetryPolicy())
graph.add_node("private", private, input_schema=Private)
graph.add_node("short", lambda state: {"log": [str(state["number"])]})
graph.add_edge(START, "plain").add_edge(["plain", "later"], "private")
graph.add_conditional_edges("plain", route).add_conditional_edges("later", fan, ["plain"])
graph.add_edge(START, 5)  # wrong
graph.add_node("spelled", plain, retry=RetryPolicy())  # wrong

app = graph.compile(checkpointer=InMemorySaver())
assert_type(app, CompiledStateGraph[State, Context, Given, Result])
thread = {"configurable": {"thread_id": "1"}}
assert_type(app.invoke({"number": 1}, thread, context=Context("Ann"), durability="exit"), dict[str, Any])
assert_type(app.invoke({"number": 1}, thread, version="v2"), GraphOutput[Result])
assert_type(app.invoke({"number": 1}, version="v2").value["log"], list[str])
assert_type(app.stream({"number": 1}, thread, version="v2"), Iterator[StreamPart])
app.invoke(Command(resume="Ann"), thread)
app.invoke(None, thread)
app.invoke(5, thread)  # wrong
app.invoke({"number": 1}, thread, durability="never")  # wrong
app.invoke({"number": 1}, thread, stream_mode="values")  # wrong
app.stream({"number": 1}, thread, stream_mode=["updates", "debug"], subgraphs=True)
app.stream({"number": 1}, thread, stream_mode="update")  # wrong
assert_type(app.get_state(thread), StateSnapshot)
assert_type(app.update_state(thread, {"log": ["x"]}, as_node="plain"), dict[str, Any])
app.bulk_update_state(thread, [[StateUpdate({"log": ["x"]}, "plain")]])


async def main() -> None:
    assert_type(await app.ainvoke({"number": 1}), dict[str, Any])
    async for part in app.astream({"number": 1}, version="v2"):
        assert_type(part["ns"], tuple[str, ...])


def of_model(state: Model) -> dict[str, int]:
    return {"number": state.number}


def of_data(state: Data) -> dict[str, int]:
    return {"number": state.number}


models = StateGraph(Model).add_node(of_model).add_edge(START, "of_model").compile()
assert_type(models, CompiledStateGraph[Model, Any, Model, Model])
models.invoke(Model(number=1))
models.invoke({"number": 1})
data = StateGraph(Data).add_node(of_data).add_edge(START, "of_data").compile()
data.invoke(Data(1))
data.invoke("1")  # wrong
outer = StateGraph(State).add_node("child", app).compile()
assert_type(outer, CompiledStateGraph[State, Any, State, State])
