"""How much a tool's type hints and docstring are worth: one tool told in three ways, thirty requests, a table.

python examples/tool_descriptions.py [MODEL] [REQUESTS]

On the bundled model (four minutes on two quiet cores):

| told | called | what | minutes | priority |
| --- | --- | --- | --- | --- |
| bare | 30 of 30 | 15 of 30 | 21 of 30 | 0 of 30 |
| typed | 30 of 30 | 13 of 30 | 22 of 30 | 0 of 30 |
| described | 30 of 30 | 20 of 30 | 24 of 30 | 15 of 30 |

The model always calls: there is one tool, and every request is for it. Types alone change nothing. Where the allowed
values are named, what is urgent is "high" each time (without them it is "urgent", which the tool does not know); what
is not urgent is "high" or "low" too, never left alone. "An hour" is 60 minutes once the description says so, and "two
hours" are still 2. A larger model will do better at all of it; measure yours.
"""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any, Literal

from pydantic import Field

from runwell import init_chat_model, tool
from runwell.tools import StructuredTool, convert_to_openai_function

MODEL = "local:qwen2.5-coder-0.5b"


def remind_anyhow(**kwargs: Any) -> str:
    return "set"


bare = StructuredTool.from_function(
    remind_anyhow,
    name="remind",
    description="remind",
    args_schema={"type": "object", "properties": {"what": {}, "minutes": {}, "priority": {}}},
)


@tool("remind")
def typed(what: str, minutes: int, priority: str = "normal") -> str:
    """Set a reminder."""
    return "set"


@tool("remind")
def described(
    what: str, minutes: Annotated[int, Field(ge=1)], priority: Literal["low", "normal", "high"] = "normal"
) -> str:
    """Remind the user of something after some time.

    Use it whenever the user wants to be reminded, told, or not to forget something.

    Args:
        what: What to do, without the time: 'call Ann'.
        minutes: Minutes from now. An hour is 60, half an hour 30, a day 1440.
        priority: 'high' if it is urgent, 'low' if it can wait.
    """
    return "set"


TIMES = [("10 minutes", 10), ("half an hour", 30), ("an hour", 60), ("two hours", 120), ("45 minutes", 45)]
THINGS = ["call Ann", "water the plants", "take the cake out"]
WAYS = [
    ("Remind me in {time} to {what}.", "normal"),
    ("In {time} I must {what}, it is urgent, remind me.", "high"),
]
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    (way.format(time=time, what=what), {"what": what, "minutes": minutes, "priority": priority})
    for what in THINGS
    for time, minutes in TIMES
    for way, priority in WAYS
]


def main(model: str = MODEL, requests: str = str(len(REQUESTS))) -> None:
    asked = REQUESTS[: int(requests)]
    chat = init_chat_model(model, temperature=0)
    fields = ("what", "minutes", "priority")
    print("| told | called | " + " | ".join(fields) + " |")
    print("| --- " * (2 + len(fields)) + "|")
    for name, variant in (("bare", bare), ("typed", typed), ("described", described)):
        bound = chat.bind_tools([variant])
        called, right = 0, dict.fromkeys(fields, 0)
        for text, wanted in asked:
            calls = bound.invoke(text).tool_calls
            called += bool(calls)
            args = {"priority": "normal", **calls[0]["args"]} if calls else {}
            for field in fields:
                right[field] += _same(args.get(field), wanted[field])
        shares = [called, *right.values()]
        print(f"| {name} | " + " | ".join(f"{each} of {len(asked)}" for each in shares) + " |")
    for variant in (bare, typed, described):
        print(json.dumps(convert_to_openai_function(variant)["parameters"]["properties"]))


def _same(said: Any, wanted: Any) -> bool:
    if isinstance(wanted, str):
        return isinstance(said, str) and said.strip(" .").lower() == wanted.lower()
    return bool(said == wanted)


if __name__ == "__main__":
    main(*sys.argv[1:])
