"""A run that is cancelled while it takes its thread leaves the thread free."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, TypedDict

import pytest

from runwell.graph import END, START, StateGraph
from runwell.persistence import SqliteSaver


class State(TypedDict):
    x: int


class Slow(SqliteSaver):
    """Takes a thread once it may."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.asked, self.may = threading.Event(), threading.Event()

    def take(self, *args: Any, **kwargs: Any) -> int:
        self.asked.set()
        assert self.may.wait(10)
        return super().take(*args, **kwargs)


@pytest.mark.parametrize("how", ["ainvoke", "astream", "aupdate_state"])
@pytest.mark.parametrize("cancels", [1, 3])
def test_run_19_a_run_cancelled_while_it_takes_its_thread_lets_it_go(tmp_path: Path, how: str, cancels: int) -> None:
    saver = Slow(tmp_path / "threads.db")
    builder = StateGraph(State)
    builder.add_node("add", lambda state: {"x": state["x"] + 1})
    builder.add_edge(START, "add")
    builder.add_edge("add", END)
    graph = builder.compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "t"}}

    async def begin() -> None:
        if how == "ainvoke":
            await graph.ainvoke({"x": 1}, config)
        elif how == "astream":
            async for _ in graph.astream({"x": 1}, config):
                pass
        else:
            await graph.aupdate_state(config, {"x": 1}, as_node="add")

    async def main() -> Any:
        run = asyncio.create_task(begin())
        await asyncio.to_thread(saver.asked.wait, 10)
        for _ in range(cancels):
            run.cancel()
            await asyncio.sleep(0)
        saver.may.set()
        with pytest.raises(asyncio.CancelledError):
            await run
        return await graph.ainvoke({"x": 5}, config, on_busy="wait")

    with saver:
        assert asyncio.run(asyncio.wait_for(main(), 8)) == {"x": 6}
