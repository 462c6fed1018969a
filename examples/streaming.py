"""Streaming in both colours: the same agent, and the same plain tool, read by plain code and by a coroutine.

python examples/streaming.py
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from runwell import create_agent, tool

MODEL = "local:qwen2.5-coder-0.5b"
QUESTION = {"messages": "What is 12 times 12?"}


@tool
def multiply(a: float, b: float) -> float:
    """Multiply two numbers."""
    return a * b


def show(mode: str, item: Any) -> None:
    if mode == "messages":
        piece, where = item
        if where["node"] == "model":
            print(piece.text, end="", flush=True)
    else:
        for node in item:
            print(f"\n[{node} is done]")


def plain(agent: Any) -> None:
    for mode, item in agent.stream(QUESTION, stream_mode=["messages", "updates"]):
        show(mode, item)


async def coroutine(agent: Any) -> None:
    async for mode, item in agent.astream(QUESTION, stream_mode=["messages", "updates"]):
        show(mode, item)


def main(model: str = MODEL) -> None:
    agent = create_agent(model, [multiply])
    plain(agent)
    asyncio.run(coroutine(agent))


if __name__ == "__main__":
    main(*sys.argv[1:])
