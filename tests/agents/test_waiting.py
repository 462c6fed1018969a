"""Runs that wait for their model: what a server's memory is full of."""

from __future__ import annotations

import asyncio
import gc
import sys
import tracemalloc
from typing import Any

from runwell import create_agent
from runwell.agents import Budget
from runwell.messages import AIMessage, HumanMessage
from runwell.models import BaseChatModel
from runwell.models.outputs import ChatGeneration, ChatResult

RUNS = 200
MOST_KIB = 6.8 if sys.version_info < (3, 12) else 8.0
"""What one may hold, with what asyncio and the caller hold for it: 6.6 when this was written, on Python 3.11."""


class Slow(BaseChatModel):
    """Answers once it may."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        waiting.append(asyncio.get_running_loop().create_future())
        await waiting[-1]
        return ChatResult(generations=[ChatGeneration(AIMessage("done"))])


waiting: list[asyncio.Future[None]] = []


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def begun(runs: int, ask: Any) -> list[asyncio.Task[str]]:
    """So many runs, all of which wait for the model."""
    tasks = [asyncio.ensure_future(ask(number)) for number in range(runs)]
    while len(waiting) < runs:
        await asyncio.sleep(0)
    await asyncio.sleep(0)  # the tasks that user code waits in take it over in the next round
    return tasks


async def answered(tasks: list[asyncio.Task[str]]) -> list[str]:
    for each in waiting:
        each.set_result(None)
    waiting.clear()
    return await asyncio.gather(*tasks)


def test_a_run_that_waits_for_its_model_holds_little() -> None:
    agent = create_agent(Slow(), tools=[add], budget=Budget(model_calls=3))

    async def ask(number: int) -> str:
        config: dict[str, Any] = {"recursion_limit": 100, "configurable": {"thread_id": f"t{number}"}}
        result = await agent.ainvoke({"messages": [HumanMessage("go")]}, config)
        return str(result["messages"][-1].content)

    async def main() -> tuple[float, list[str]]:
        await answered(await begun(RUNS, ask))  # what is made once for all is there
        gc.collect()
        tracemalloc.start()
        try:
            tasks = await begun(RUNS, ask)
            gc.collect()
            held = tracemalloc.get_traced_memory()[0] / RUNS / 1024
        finally:
            tracemalloc.stop()
        return held, await answered(tasks)

    held, said = asyncio.run(main())
    assert said == ["done"] * RUNS
    assert held < MOST_KIB, f"{held:.2f} KiB"
