"""A disk that fills in the middle of a run: a clear error, nothing half saved, and with space again it goes on."""

from __future__ import annotations

import operator
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from runwell.errors import StorageError
from runwell.graph import START, StateGraph
from runwell.persistence import SqliteSaver

pytestmark = pytest.mark.integration

NODES = "abcdef"
CONFIG = {"configurable": {"thread_id": "t"}}


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def app(saver: SqliteSaver, ran: list[str]) -> Any:
    graph, before = StateGraph(State), START
    for name in NODES:

        def work(state: State, name: str = name) -> Any:
            ran.append(name)
            return {"log": [name + "x" * 50_000]}

        graph.add_node(name, work).add_edge(before, name)
        before = name
    return graph.compile(saver)


def goes_on(path: Path, done: str) -> None:
    """With space again: every finished step is there, whole, and the rest runs once."""
    ran: list[str] = []
    with SqliteSaver(path) as saver:
        graph = app(saver, ran)
        assert [text[0] for text in graph.get_state(CONFIG).values["log"]] == list(done)
        result = graph.invoke(None, CONFIG)
        assert [text[0] for text in result["log"]] == list(NODES)
        assert "".join(ran) == NODES[len(done) :]
        assert {len(text) for text in result["log"]} == {50_001}
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_no_more_pages(tmp_path: Path) -> None:
    ran: list[str] = []
    with SqliteSaver(tmp_path / "t.sqlite") as saver:
        saver._rows("PRAGMA max_page_count = 60")  # 240 KiB
        with pytest.raises(StorageError, match="space") as raised:
            app(saver, ran).invoke({"log": []}, CONFIG)
        assert str(tmp_path) in str(raised.value)
    assert ran  # some steps had ended
    goes_on(tmp_path / "t.sqlite", "".join(ran)[:-1])  # the last one ran, and could not be saved


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    program = f"""
        import resource, sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_full_disk import CONFIG, app
        from runwell.errors import StorageError
        from runwell.persistence import SqliteSaver
        ran = []
        with SqliteSaver(sys.argv[1]) as saver:
            graph = app(saver, ran)
            resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
            try:
                graph.invoke({{"log": []}}, CONFIG)
            except StorageError as error:
                print("".join(ran), str(error), sep="\\n")
    """
    path = tmp_path / "t.sqlite"
    command = [sys.executable, "-c", textwrap.dedent(program), str(path)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    ran, error = told.split("\n", 1)
    assert str(path) in error
    assert "may the file still grow" in error
    goes_on(path, ran[:-1])
