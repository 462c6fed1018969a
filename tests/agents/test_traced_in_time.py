"""What stands in a trace's file at the moment when somebody's own code is called: all that was told so far.

So it is of a process that is killed there, and for whoever reads along.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from typing import Annotated, Any, TypedDict

import pytest

from runwell.agents import create_agent
from runwell.agents.middleware import AgentMiddleware
from runwell.graph import END, START, StateGraph
from runwell.messages import AIMessage, HumanMessage
from runwell.models import BaseChatModel
from runwell.models.outputs import ChatGeneration, ChatResult
from runwell.observe import DecisionLog, JsonlTrace
from runwell.observe.events import Chunk, RunEnded
from runwell.persistence import InMemorySaver
from runwell.testing.models import FakeChatModel


class Followed(JsonlTrace):
    """A trace that is asked, at each place, whether its file has a line for all that it was told."""

    def __init__(self, path):
        super().__init__(path, redact=None)
        self.told: list[Any] = []  # appended to, as several threads tell
        self.places: list[str] = []

    def handle(self, event):
        if type(event) is not Chunk:
            self.told.append(event)
        super().handle(event)

    def at(self, place):
        self.places.append(place)
        shown = [json.loads(line) for line in self.path.read_text().splitlines()]
        assert len(shown) == len(self.told), (place, shown[-1])
        return shown[-1]


class Recorded(Followed):
    """The same, told as a trace is where there is no other handler: without events."""

    def __init__(self, path):
        super().__init__(path)
        recorder = super().recorder()
        for name in ("started", "ended", "answered", "decided"):
            setattr(recorder, name, self._counted(getattr(recorder, name)))

    def _counted(self, make):
        def made(*facts):
            self.told.append(facts)
            return make(*facts)

        return made

    def handle(self, event):
        super().handle(event)

    def recorder(self):
        return super().recorder()


@pytest.fixture(params=[Followed, Recorded])
def trace(request, tmp_path):
    with request.param(tmp_path / "trace.jsonl") as made:
        yield made


class Model(BaseChatModel):
    trace: Any = None
    turns: int = 3

    def bind_tools(self, tools, **kwargs):
        self.trace.at("bind_tools")
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        assert self.trace.at("model")["kind"] == "chat_model"
        asked = sum(message.type == "ai" for message in messages)
        calls = [{"name": "look", "args": {"at": asked}, "id": f"c{asked}"}] if asked < self.turns else []
        return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=calls))])


def agent_of(trace, **options):
    def look(at: int) -> str:
        """Look at something."""
        assert trace.at("tool")["kind"] == "tool"
        return f"seen {at}"

    return create_agent(Model(trace=trace), [look], **options)


ASKED = {"messages": [HumanMessage("go", id="h")]}


def test_a_model_and_a_tool_find_all_in_the_file(run, trace):
    run.invoke(agent_of(trace), ASKED, {"callbacks": [trace]})
    trace.at("end")
    assert trace.places == ["bind_tools", *["model", "tool"] * 3, "model", "end"]


HOOKS = ("before_agent", "before_model", "after_model", "after_agent", "wrap_model_call", "wrap_tool_call")


@pytest.mark.parametrize("name", HOOKS)
def test_so_does_a_hook(name, run, trace):
    def around(self, request, handler):
        trace.at("hook")
        answer = handler(request)
        trace.at("hook")
        return answer

    def beside(self, state, runtime):
        trace.at("hook")

    middleware = type("Mine", (AgentMiddleware,), {name: around if name.startswith("wrap") else beside})()
    run.invoke(agent_of(trace, middleware=[middleware]), ASKED, {"callbacks": [trace]})
    trace.at("end")
    assert "hook" in trace.places


def _prompt(trace):
    def prompt(runtime):
        trace.at("mine")
        return "Look."

    return {"system_prompt": prompt}


def _done(trace):
    return {"done": lambda state: trace.at("mine") is not None}


def _reducer(trace):
    class Adds(AgentMiddleware):
        state_schema = TypedDict(  # noqa: UP013 - names what only this call knows
            "Seen", {"seen": Annotated[list, lambda old, new: trace.at("mine") and new]}, total=False
        )

        def after_model(self, state, runtime):
            return {"seen": [1]}

    return {"middleware": [Adds()]}


def _saver(trace):
    class Saver(InMemorySaver):
        def commit(self, *args, **kwargs):
            trace.at("mine")
            return super().commit(*args, **kwargs)

    return {"checkpointer": Saver()}


@pytest.mark.parametrize("made", [_prompt, _done, _reducer, _saver])
def test_so_does_other_code_that_an_agent_is_given(made, run, trace, thread):
    run.invoke(agent_of(trace, **made(trace)), ASKED, {**thread, "callbacks": [trace]})
    trace.at("end")
    assert "mine" in trace.places


def test_so_does_a_call_that_goes_on_when_another_beside_it_has_ended(run, tmp_path):
    ended = threading.Event()

    class Watched(Followed):
        def handle(self, event):
            super().handle(event)
            if type(event) is RunEnded and event.run.name == "tools":
                ended.set()

    def look(at: int) -> str:
        """Look at something."""
        if at:
            assert ended.wait(20)
            trace.at("second")
        return "seen"

    calls = [{"name": "look", "args": {"at": n}, "id": f"c{n}"} for n in range(2)]
    agent = create_agent(FakeChatModel(responses=[AIMessage("", tool_calls=calls), "done"]), [look])
    with Watched(tmp_path / "trace.jsonl") as trace:
        run.invoke(agent, ASKED, {"callbacks": [trace]})
        trace.at("end")
    assert trace.places == ["second", "end"]


def test_so_does_the_reader_of_a_stream(run, trace):
    agent, config = agent_of(trace), {"callbacks": [trace]}

    async def read():
        async for _ in agent.astream(ASKED, config, stream_mode="updates"):
            trace.at("reader")

    if run.name == "async":
        asyncio.run(read())
    else:
        for _ in agent.stream(ASKED, config, stream_mode="updates"):
            trace.at("reader")
    assert trace.places.count("reader") == 7


def test_so_do_nodes_edges_and_reducers_of_a_graph(run, trace):
    State = TypedDict(  # noqa: UP013 - names what only this call knows
        "State", {"count": Annotated[int, lambda old, new: trace.at("reducer") and new]}, total=False
    )

    def step(state):
        assert trace.at("node")["name"] in ("a", "b")
        return {"count": state.get("count", 0) + 1}

    graph = StateGraph(State)
    graph.add_node("a", step)
    graph.add_node("b", step)
    graph.add_edge(START, "a")
    graph.add_edge("a", "b")
    graph.add_conditional_edges("b", lambda state: END if trace.at("edge") and state["count"] > 5 else "a", ["a", END])
    run.invoke(graph.compile(), {"count": 0}, {"callbacks": [trace]})
    trace.at("end")
    assert {"node", "edge", "reducer", "end"} <= set(trace.places)


@pytest.mark.parametrize("wants", [True, False])
def test_a_second_handler_finds_all_in_the_file_too(wants, run, trace):
    class Other:
        raise_error = True
        wants_tokens = wants_chunks = False
        wants_runs = wants

        def handle(self, event):
            trace.at("other")

    run.invoke(agent_of(trace), ASKED, {"callbacks": [trace, Other()]})
    assert trace.places.count("other") > (20 if wants else 6)


def test_so_does_a_model_beside_a_list_of_decisions(run, trace):
    class Noted(DecisionLog):
        """One whose `handle` is somebody's own."""

        raise_error = True

        def handle(self, event):
            super().handle(event)
            trace.at("mine")

    for log in (DecisionLog(), Noted()):
        trace.places.clear()
        run.invoke(agent_of(trace), ASKED, {"callbacks": [trace, log]})
        trace.at("end")
        shown = [json.loads(line) for line in trace.path.read_text().splitlines()]
        told = [(line["seat"], line["outcome"], line["reason"]) for line in shown if line["event"] == "decision"]
        assert [(each.seat, each.outcome, each.reason) for each in log.decisions] == told[-len(log) :]
        assert len(log) == 7
        assert {"model", "tool", "end"} <= set(trace.places)


def test_a_line_that_cannot_be_made_is_told_of_and_takes_no_other_with_it(run, tmp_path, caplog):
    def redact(value):
        if value == "tools: look":  # what the agent decides between a model's end and a tool's start
            raise ValueError("no")
        return value

    def look() -> str:
        """Look at something."""
        return "seen"

    call = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c"}])
    path = tmp_path / "trace.jsonl"
    with JsonlTrace(path, redact=redact) as trace:
        run.invoke(create_agent(FakeChatModel(responses=[call, "done"]), [look]), ASKED, {"callbacks": [trace]})
    shown = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["outcome"] for line in shown if line["event"] == "decision"] == ["model", "end"]
    assert len(shown) == 16
    assert [record.exc_info[1].args for record in caplog.records] == [("no",)]


KILLED = """
import os, signal, sys
from runwell.agents import create_agent
from runwell.messages import AIMessage
from runwell.observe import DecisionLog, JsonlTrace
from runwell.testing.models import FakeChatModel

def stop(at: int) -> str:
    "Stop."
    if at == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return "not yet"

call = lambda at: AIMessage("", tool_calls=[{"name": "stop", "args": {"at": at}, "id": f"c{at}"}])
agent = create_agent(FakeChatModel(responses=[call(1), call(2)]), [stop])
agent.invoke({"messages": "go"}, {"callbacks": [JsonlTrace(sys.argv[1], redact=None)]})
"""


@pytest.mark.skipif(os.name != "posix", reason="kills by signal")
def test_the_trace_of_a_process_that_is_killed_ends_with_what_it_was_at(tmp_path):
    path = tmp_path / "trace.jsonl"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    shown = [json.loads(line) for line in path.read_text().splitlines()]
    assert (shown[-1]["event"], shown[-1]["kind"], shown[-1]["inputs"]) == ("start", "tool", {"at": 2})
    begun = {line["run_id"] for line in shown if line["event"] == "start"}
    ended = {line["run_id"] for line in shown if line["event"] == "end"}
    assert len(begun - ended) == 3  # the agent, its tools' node, the tool
