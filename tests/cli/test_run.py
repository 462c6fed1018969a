"""`runwell run`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

GRAPHS = """
import threading
from typing import Annotated, TypedDict
import operator

from runwell import END, START, ChatPromptTemplate, InMemorySaver, StateGraph, StrOutputParser, create_agent, interrupt
from runwell.errors import ToolError
from runwell.runnables import RunnableLambda
from scripted import Scripted
from tools import delete_file


class State(TypedDict, total=False):
    topic: str
    notes: Annotated[list[str], operator.add]
    score: float


def research(state):
    return {"notes": [f"about {state['topic']}"]}


def ask(state):
    return {"notes": [f"they said {interrupt({'question': 'Go on?'})}"]}


def wait(state):
    print("waiting", flush=True)
    threading.Event().wait()


def broken(state):
    raise ZeroDivisionError("in a node")


def made(*nodes, **settings):
    graph = StateGraph(State)
    before = START
    for node in nodes:
        graph.add_node(node.__name__, node)
        graph.add_edge(before, node.__name__)
        before = node.__name__
    graph.add_edge(before, END)
    return graph.compile(**settings)


graph = made(research)
asking = made(research, ask)
waiting = made(wait)
failing = made(research, broken)
agent = create_agent(Scripted("any"))
gated = create_agent(Scripted("any"), [delete_file], approvals="destructive")
remembering = create_agent(Scripted("any"), checkpointer=InMemorySaver())
chain = ChatPromptTemplate([("human", "Say {word}")]) | Scripted("any") | StrOutputParser()
odd = RunnableLambda(lambda x: {("a", 1): {1, 1}, "nan": float("nan"), "bytes": b"x", "type": int})
text = "not a graph"
"""


@pytest.fixture(autouse=True)
def graphs(folder: Path) -> None:
    (folder / "graphs.py").write_text(GRAPHS)


def test_a_graph_runs_and_its_state_is_printed(runwell: Any) -> None:
    done = runwell("run", "graphs:graph", "--input", '{"topic": "tea"}')
    assert done.status == 0
    assert done.out == 'topic: tea\nnotes: ["about tea"]\n'
    assert "research" in done.err


def test_json_for_scripts(runwell: Any) -> None:
    done = runwell("run", "graphs:graph", "--input", '{"topic": "tea"}', "--json")
    assert done.json == {"topic": "tea", "notes": ["about tea"]}


def test_an_agent_prints_its_answer(runwell: Any) -> None:
    done = runwell("run", "graphs:agent", "--input", '{"messages": "hello"}')
    assert done.out == "[]1 said: hello\n"
    messages = runwell("run", "graphs:agent", "--input", '{"messages": "hello"}', "--json").json["messages"]
    assert [(message["type"], message["content"]) for message in messages] == [
        ("human", "hello"),
        ("ai", "[]1 said: hello"),
    ]


def test_a_chain_prints_its_result(runwell: Any) -> None:
    assert runwell("run", "graphs:chain", "--input", '{"word": "tea"}').out == "[]1 said: Say tea\n"
    assert runwell("run", "graphs:chain", "--input", '{"word": "tea"}', "--json").json == "[]1 said: Say tea"


def test_values_that_json_does_not_know(runwell: Any) -> None:
    found = runwell("run", "graphs:odd", "--input", "1", "--json").json
    assert found == {"('a', 1)": [1], "nan": "nan", "bytes": "b'x'", "type": "<class 'int'>"}


def test_a_file_is_found_by_its_path_and_sees_its_neighbours(runwell: Any, folder: Path) -> None:
    away = folder / "away" / "deep"
    away.mkdir(parents=True)
    (away / "neighbour.py").write_text("from graphs import graph\n")
    (away / "my-app.py").write_text("from neighbour import graph\n")
    done = runwell("run", "away/deep/my-app.py:graph", "--input", '{"topic": "tea"}', "--json")
    assert done.json["notes"] == ["about tea"]
    (away / "json.py").write_text("graph = 1\n")
    taken = runwell("run", "away/deep/json.py:graph", "--input", "{}")
    assert taken.status == 1
    assert "'json' is there already" in taken.err


def test_a_pause_ends_with_status_3_and_is_resumed(runwell: Any, folder: Path) -> None:
    saved = ("--thread", "t", "--db", "threads.sqlite")
    paused = runwell("run", "graphs:asking", "--input", '{"topic": "tea"}', *saved)
    assert paused.status == 3
    assert "waits for an answer" in paused.out
    assert '{"question": "Go on?"}' in paused.out
    again = runwell("run", "graphs:asking", *saved, "--json")
    assert again.status == 3
    assert [each["value"] for each in again.json["__interrupt__"]] == [{"question": "Go on?"}]
    done = runwell("run", "graphs:asking", *saved, "--resume", '"yes"', "--json")
    assert done.status == 0
    assert done.json["notes"] == ["about tea", "they said yes"]
    more = runwell("run", "graphs:asking", *saved, "--resume", '"yes"')
    assert more.status == 1
    assert "no open question" in more.err


def test_a_thread_of_its_own_unless_one_is_named(runwell: Any) -> None:
    """Two runs do not mix because nobody said where they belong; each says where it is kept."""
    runs = [runwell("run", "graphs:agent", "--input", '{"messages": "hello"}', "--db", "t.sqlite") for _ in range(2)]
    assert [run.out for run in runs] == ["[]1 said: hello\n"] * 2
    first, second = (run.err.splitlines()[0] for run in runs)
    assert first.startswith("thread '")
    assert first != second
    named = [
        runwell("run", "graphs:agent", "--input", '{"messages": "hello"}', "--db", "t.sqlite", "--thread", "t").out
        for _ in range(2)
    ]
    assert named == ["[]1 said: hello\n", "[]2 said: hello + hello\n"]


def test_ctrl_c_ends_it_with_130(terminal: Any) -> None:
    person = terminal("run", "graphs:waiting", "--input", "{}")
    person.expect("waiting")
    person.ctrl_c()
    assert person.end() == 130
    assert "Traceback" not in person.seen


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nothing:graph", "--input", "{}"], "There is no module 'nothing'"),
        (["graphs.deep:graph", "--input", "{}"], "graphs"),
        (["graphs:grap", "--input", "{}"], "did you mean 'graph'"),
        (["graphs", "--input", "{}"], "'graphs' is not of the form module:name"),
        (["missing.py:graph", "--input", "{}"], "There is no file 'missing.py'"),
        (["graphs:text", "--input", "{}"], "cannot be run"),
        (["graphs:State", "--input", "{}"], "cannot be run"),
        (["graphs:graph", "--input", "{topic"], "--input is not JSON"),
        (["graphs:graph", "--thread", "t", "--db", "t.sqlite", "--resume", "yes"], "--resume is not JSON"),
        (["graphs:graph"], "nothing to run"),
        (["graphs:graph", "--input", '{"topik": "tea"}'], "did you mean 'topic'"),
        (["graphs:graph", "--input", "{}", "--thread", "t"], "--thread needs a place"),
        (["graphs:chain", "--input", "{}", "--db", "t.sqlite"], "--db needs a graph or an agent"),
        (["graphs:asking", "--input", "{}", "--db", "t.sqlite", "--resume", "1"], "exclude each other"),
        (["graphs:asking", "--db", "t.sqlite", "--resume", "1"], "--thread NAME"),
        (["graphs:gated", "--input", '{"messages": "hello"}'], "nothing can save the pause"),
        (["graphs:graph", "--input", "{}", "--db", "graphs.py"], "graphs.py"),
    ],
)
def test_what_is_wrong_is_said_without_a_trace(runwell: Any, folder: Path, arguments: list[str], told: str) -> None:
    done = runwell("run", *arguments)
    assert done.status == 1
    assert told in done.err
    assert "Traceback" not in done.err
    assert done.out == ""
    as_json = runwell("run", *arguments, "--json")
    assert as_json.status == 1
    assert told in f"{as_json.json['error']['message']} {as_json.json['error']['hint']}"
    assert (folder / "graphs.py").read_text() == GRAPHS


def test_errors_of_the_users_own_code_keep_their_trace(runwell: Any) -> None:
    done = runwell("run", "graphs:failing", "--input", '{"topic": "tea"}', "--json")
    assert done.status == 1
    assert done.json["error"]["type"] == "ZeroDivisionError"
    assert "Traceback" in done.err
    assert "in broken" in done.err


@pytest.mark.parametrize("error", ["TypeError", "ValueError"])
def test_a_module_that_fails_says_what_failed(runwell: Any, folder: Path, error: str) -> None:
    (folder / "broken.py").write_text(f"raise {error}('the fault itself')\n")
    done = runwell("run", "broken:graph", "--input", "{}")
    assert done.status == 1
    assert "the fault itself" in done.err
    assert "not the name of a module" not in done.err


def test_a_module_that_misses_a_package_says_so(runwell: Any, folder: Path) -> None:
    (folder / "needy.py").write_text("import package_that_is_not_there\n")
    done = runwell("run", "needy:graph", "--input", "{}")
    assert done.status == 1
    assert "No module named 'package_that_is_not_there'" in done.err
