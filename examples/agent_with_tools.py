"""An agent with tools that needs no network: the bundled model, and functions of your own.

python examples/agent_with_tools.py
"""

from __future__ import annotations

import sys

from runwell import create_agent, tool
from runwell.errors import ToolError

MODEL = "local:qwen2.5-coder-0.5b"
SHELVES = {"screws": 120, "nails": 45, "bolts": 0}


@tool
def stock(item: str) -> str:
    """How many pieces of an item are in stock."""
    if item not in SHELVES:
        raise ToolError(
            f"There is no {item!r}; there are {', '.join(SHELVES)}."
        )  # the model reads this, and tries again
    return f"{SHELVES[item]} {item}"


@tool
def multiply(a: float, b: float) -> float:
    """Multiply two numbers."""
    return a * b


def main(model: str = MODEL) -> None:
    agent = create_agent(model, [stock, multiply])
    result = agent.invoke({"messages": "How many screws are in stock?"})
    for message in result["messages"]:
        for call in getattr(message, "tool_calls", ()):
            print(f"→ {call['name']}({call['args']})")
    print(result["messages"][-1].text)


if __name__ == "__main__":
    main(*sys.argv[1:])
