"""What a reader of a run is given: every mode, several at once, and what happens in nested graphs."""

from __future__ import annotations

import asyncio
import operator
from datetime import datetime
from typing import Annotated, Any, TypedDict

import pytest

from runwell.errors import InvalidInput
from runwell.graph import START, Command, GraphOutput, MessagesState, Send, StateGraph, entrypoint, interrupt
from runwell.messages import AIMessage, HumanMessage
from runwell.observe import BaseCallbackHandler
from runwell.persistence import InMemorySaver
from runwell.testing.models import FakeChatModel


class Log(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    number: int


def say(text: str) -> Any:
    return lambda state: {"log": [text]}


def chain_of(**nodes: Any) -> StateGraph[Log]:
    graph = StateGraph(Log)
    graph.add_sequence(list(nodes.items()))
    return graph.add_edge(START, next(iter(nodes)))


def nested() -> StateGraph[Log]:
    return chain_of(before=say("before"), child=chain_of(inside=say("inside")).compile())


# -- tasks


def test_tasks_say_how_each_task_begins_and_ends(run: Any) -> None:
    app = chain_of(a=say("x"), b=lambda state: None).compile()
    assert run.stream(app, {"log": []}, stream_mode="tasks") == [
        {"id": "a:1", "name": "a", "input": {"log": []}},
        {"id": "a:1", "name": "a", "error": None, "result": {"log": ["x"]}, "interrupts": []},
        {"id": "b:2", "name": "b", "input": {"log": ["x"]}},
        {"id": "b:2", "name": "b", "error": None, "result": {}, "interrupts": []},
    ]


def test_tasks_of_sends_have_ids_and_inputs_of_their_own(run: Any) -> None:
    graph = StateGraph(Log).add_node("work", lambda state: {"log": [str(state["number"])]})
    graph.add_conditional_edges(START, lambda state: [Send("work", {"number": n}) for n in range(2)], ["work"])
    items = run.stream(graph.compile(), {"log": []}, stream_mode="tasks")
    begun = {item["id"]: item["input"] for item in items if "input" in item}
    ended = {item["id"]: item["result"] for item in items if "result" in item}
    assert begun == {"work:1:0": {"number": 0}, "work:1:1": {"number": 1}}
    assert ended == {"work:1:0": {"log": ["0"]}, "work:1:1": {"log": ["1"]}}


def test_a_task_that_fails_or_asks_says_so(run: Any, thread: Any) -> None:
    def fails(state: Log) -> None:
        raise ValueError("no luck")

    items: list[Any] = []
    with pytest.raises(ValueError, match="no luck"):
        items.extend(chain_of(a=fails).compile().stream({"log": []}, stream_mode="tasks"))
    assert items[-1] == {"id": "a:1", "name": "a", "error": "ValueError: no luck", "result": {}, "interrupts": []}

    app = chain_of(a=lambda state: {"log": [interrupt("name?")]}).compile(checkpointer=InMemorySaver())
    [_, ended] = run.stream(app, {"log": []}, thread, stream_mode="tasks")
    assert [question.value for question in ended["interrupts"]] == ["name?"]
    assert ended["interrupts"] == list(app.get_state(thread).interrupts)
    [begun, ended] = run.stream(app, Command(resume="Ann"), thread, stream_mode="tasks")
    assert (begun["id"], ended["result"]) == ("a:1", {"log": ["Ann"]})


# -- checkpoints and debug


def test_checkpoints_are_what_get_state_shows(run: Any, thread: Any) -> None:
    app = chain_of(a=say("x"), b=say("y")).compile(checkpointer=InMemorySaver())
    items = run.stream(app, {"log": []}, thread, stream_mode="checkpoints")
    saved = list(app.get_state_history(thread))[::-1]
    assert [item["config"] for item in items] == [one.config for one in saved]
    assert [item["parent_config"] for item in items] == [one.parent_config for one in saved]
    assert [item["values"] for item in items] == [one.values for one in saved]
    assert [tuple(item["next"]) for item in items] == [one.next for one in saved]
    assert [item["metadata"] for item in items] == [one.metadata for one in saved]
    assert [[task["id"] for task in item["tasks"]] for item in items] == [["a:1"], ["b:2"], []]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_every_checkpoint_that_is_told_of_can_be_loaded(run: Any, thread: Any, durability: str) -> None:
    app = chain_of(a=say("x"), b=say("y")).compile(checkpointer=InMemorySaver())
    items = run.stream(app, {"log": []}, thread, stream_mode="checkpoints", durability=durability)
    assert [run.state(app, item["config"]).values for item in items] == [item["values"] for item in items]
    assert items[-1]["values"] == {"log": ["x", "y"]}
    assert len(items) == (1 if durability == "exit" else 3)


def test_debug_is_tasks_and_checkpoints_with_step_and_time(run: Any, thread: Any) -> None:
    app = chain_of(a=say("x"), b=say("y")).compile(checkpointer=InMemorySaver())
    items = run.stream(app, {"log": []}, thread, stream_mode=["debug", "tasks", "checkpoints"])
    debug = [item for mode, item in items if mode == "debug"]
    assert [(item["step"], item["type"]) for item in debug] == [
        (0, "checkpoint"),
        (1, "task"),
        (1, "task_result"),
        (1, "checkpoint"),
        (2, "task"),
        (2, "task_result"),
        (2, "checkpoint"),
    ]
    assert [item["payload"] for item in debug] == [item for mode, item in items if mode != "debug"]
    assert all(datetime.fromisoformat(item["timestamp"]).tzinfo for item in debug)


# -- shapes


def test_one_mode_gives_chunks_a_list_gives_pairs_subgraphs_put_the_path_in_front(run: Any) -> None:
    app = nested().compile()
    one = run.stream(app, {"log": []}, stream_mode="updates")
    assert one == [{"before": {"log": ["before"]}}, {"child": {"log": ["inside"]}}]
    assert run.stream(app, {"log": []}, stream_mode=["updates"]) == [("updates", item) for item in one]
    deep = run.stream(app, {"log": []}, stream_mode="updates", subgraphs=True)
    assert [item for _, item in deep] == [one[0], {"inside": {"log": ["inside"]}}, one[1]]
    [path] = {path for path, item in deep if "inside" in item}
    assert [part.split(":")[0] for part in path] == ["child"]
    assert {path for path, item in deep if "inside" not in item} == {()}
    both = run.stream(app, {"log": []}, stream_mode=["updates", "values"], subgraphs=True)
    assert {len(item) for item in both} == {3}
    assert {mode for _, mode, _ in both} == {"updates", "values"}


@pytest.mark.parametrize("mode", ["tasks", "debug", "checkpoints"])
def test_what_happens_in_nested_graphs_comes_with_their_path(run: Any, thread: Any, mode: str) -> None:
    app = nested().compile(checkpointer=InMemorySaver())
    flat = run.stream(app, {"log": []}, thread, stream_mode=mode)
    deep = run.stream(app, {"log": []}, {"configurable": {"thread_id": "u"}}, stream_mode=mode, subgraphs=True)
    assert len([item for path, item in deep if not path]) == len(flat)
    inner = [item for path, item in deep if path]
    assert len(inner) == {"tasks": 2, "debug": 4, "checkpoints": 2}[mode]
    if mode == "checkpoints":
        [place] = {path for path, _ in deep if path}
        assert inner[-1]["config"]["configurable"]["checkpoint_ns"] == "|" + "|".join(place)
        assert run.state(app, inner[-1]["config"]).values == {"log": ["before", "inside"]}


def test_a_graph_that_a_function_calls_is_seen_inside_too(run: Any) -> None:
    inner = chain_of(inside=say("inside")).compile()
    app = chain_of(child=lambda state: inner.invoke({"log": []})).compile()

    async def child(state: Log) -> Any:
        return await inner.ainvoke({"log": []})

    for each in (app, chain_of(child=child).compile()):
        deep = run.stream(each, {"log": []}, stream_mode=["updates", "tasks"], subgraphs=True)
        assert [(path[0].split(":")[0], item) for path, mode, item in deep if path and mode == "updates"] == [
            ("child", {"inside": {"log": ["inside"]}})
        ]
        assert len([item for path, mode, item in deep if path and mode == "tasks"]) == 2
        assert run.stream(each, {"log": []}) == [{"child": {"log": ["inside"]}}]


def test_version_2_gives_parts_and_an_output_with_its_questions(run: Any, thread: Any) -> None:
    app = chain_of(a=say("x"), b=lambda state: {"log": [interrupt("ok?")]}).compile(checkpointer=InMemorySaver())
    parts = run.stream(app, {"log": []}, thread, stream_mode=["values", "updates"], version="v2")
    assert [(part["type"], part["ns"]) for part in parts][:3] == [("values", ()), ("updates", ()), ("values", ())]
    [last] = [part for part in parts if part["type"] == "values" and part["interrupts"]]
    assert last["data"] == {"log": ["x"]}
    assert [question.value for question in last["interrupts"]] == ["ok?"]
    again = run.invoke(app, Command(resume="y"), thread, version="v2")
    assert again == GraphOutput({"log": ["x", "y"]}, ())
    paused = run.invoke(app, {"log": []}, {"configurable": {"thread_id": "u"}}, version="v2")
    assert (paused.value, [each.value for each in paused.interrupts]) == ({"log": ["x"]}, ["ok?"])
    with pytest.raises(InvalidInput, match="'v3'"):
        run.invoke(app, {"log": []}, thread, version="v3")


# -- messages


def told(items: list[Any]) -> list[str]:
    return [message.text for message, _ in items]


def test_messages_that_were_there_before_are_not_told_again(run: Any) -> None:
    def answer(state: MessagesState) -> Any:
        return {"messages": [*state["messages"], AIMessage("new")]}

    app = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer").compile()
    given = {"messages": [HumanMessage("old", id="1"), AIMessage("older")]}
    assert told(run.stream(app, given, stream_mode="messages")) == ["new"]


def test_a_message_is_told_once_and_with_the_id_it_has_in_the_state(run: Any) -> None:
    model = FakeChatModel(responses=["from a model"], cycle=True)
    inner = StateGraph(MessagesState).add_node("plain", lambda state: {"messages": [AIMessage("plain")]})
    inner.add_node("model", lambda state: {"messages": [model.invoke("x")]})
    inner.add_edge(START, "plain").add_edge("plain", "model")
    for child in (inner.compile(), lambda state: inner.compile().invoke(state)):
        app = StateGraph(MessagesState).add_node("child", child).add_edge(START, "child").compile()
        items = run.stream(app, {"messages": "go"}, stream_mode=["messages", "values"], subgraphs=True)
        spoken = [(item[0], path) for path, mode, item in items if mode == "messages"]
        assert "".join(message.text for message, _ in spoken) == "plainfrom a model"
        final = items[-1][2]["messages"]
        assert {message.id for message, _ in spoken} == {message.id for message in final[1:]}
        assert all(path[0].startswith("child:") for _, path in spoken)


def test_messages_name_the_node_and_carry_the_tags_of_the_model(run: Any) -> None:
    model = FakeChatModel(responses=["hi there"]).with_config(tags=["joke"])
    graph = StateGraph(MessagesState).add_node("teller", lambda state: {"messages": [model.invoke("x")]})
    items = run.stream(graph.add_edge(START, "teller").compile(), {"messages": "go"}, stream_mode="messages")
    assert "".join(told(items)) == "hi there"
    assert {(where["langgraph_node"], where["langgraph_step"], tuple(where["tags"])) for _, where in items} == {
        ("teller", 1, ("joke",))
    }


# -- who watches nested graphs


class Words(TypedDict):
    said: str


def nested_graphs() -> Any:
    """A graph as a node, in a graph as a node; and a workflow as a node."""
    say = StateGraph(Words).add_node("say", lambda state: {"said": state["said"] + "!"}).add_edge(START, "say")
    inner = say.compile(name="inner")
    middle = StateGraph(Words).add_node("deep", inner).add_edge(START, "deep").compile(name="middle")

    @entrypoint()
    def flow(state: Any) -> Any:
        return {"said": state["said"] + "?"}

    graph = StateGraph(Words).add_node("sub", middle).add_node("work", flow)
    return graph.add_edge(START, "sub").add_edge("sub", "work").compile(name="outer")


def test_a_nested_graph_has_events_of_its_own_with_its_name_and_the_runs_around_it() -> None:
    told: dict[str, list[str]] = {}
    paths: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    chunks: dict[str, list[Any]] = {}

    async def read() -> None:
        async for event in nested_graphs().astream_events({"said": "go"}):
            names[event["run_id"]] = event["name"]
            path = [*(names[each] for each in event["parent_ids"]), event["name"]]
            paths.setdefault(event["run_id"], path)
            told.setdefault("/".join(path), []).append(event["event"])
            if event["event"] == "on_chain_stream":
                chunks.setdefault("/".join(path), []).append(event["data"]["chunk"])

    asyncio.run(read())
    once = ["on_chain_start", "on_chain_stream", "on_chain_end"]
    assert told == {
        "outer": ["on_chain_start", "on_chain_stream", "on_chain_stream", "on_chain_end"],
        "outer/sub": once,
        "outer/sub/middle": once,
        "outer/sub/middle/deep": once,
        "outer/sub/middle/deep/inner": once,
        "outer/sub/middle/deep/inner/say": once,
        "outer/work": once,
        "outer/work/flow": once,
        "outer/work/flow/flow": once,
    }
    assert chunks["outer"] == [{"sub": {"said": "go!"}}, {"work": {"said": "go!?"}}]
    assert chunks["outer/sub/middle/deep/inner"] == [{"say": {"said": "go!"}}]
    assert chunks["outer/sub/middle/deep/inner/say"] == [{"said": "go!"}]


def test_handlers_see_nested_graphs_too(run: Any) -> None:
    class Names(BaseCallbackHandler):
        def __init__(self) -> None:
            self.began: list[str] = []
            self.ended: list[str] = []

        def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
            self.began.append(kwargs["name"])

        def on_chain_end(self, outputs: Any, **kwargs: Any) -> None:
            self.ended.append(str(outputs.get("said")))

    seen = Names()
    run.invoke(nested_graphs(), {"said": "go"}, {"callbacks": [seen]})
    assert seen.began == ["outer", "sub", "middle", "deep", "inner", "say", "work", "flow", "flow"]
    assert seen.ended == ["go!"] * 5 + ["go!?"] * 4
