"""How well the bundled model works with tools: the tasks of docs/local-models.md, with a floor under the score.

Run with `-s` to see the table.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from runwell.providers.local import LocalRuntime
from runwell.providers.local.completion import Settings

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.bundled_model,
]

# Looked for, not imported: the provider sets OpenMP up before the import.
if importlib.util.find_spec("xllamacpp") is None:
    pytest.skip("needs runwell[local]", allow_module_level=True)

FLOOR = 17  # 18 of 21 when it was last measured; one may tip over on another processor's rounding
MOST_CALLS = 5

Arguments = dict[str, Any]
Check = Callable[[Arguments], bool]


def tool(name: str, description: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TEXT = {"type": "string"}
MONEY = {"enum": ["USD", "EUR", "GBP", "JPY"]}
OFFICE = [
    tool("calculator", "Evaluate an arithmetic expression. Use for any math.", expression=TEXT),
    tool("current_time", "Get the current date and time."),
    tool("search_docs", "Search the product documentation.", query=TEXT),
    tool("get_weather", "Get the current weather in a city.", city=TEXT),
]
SHOP = [
    tool("list_files", "List the files in a folder.", folder=TEXT),
    tool("send_email", "Send an email.", to=TEXT, subject=TEXT, body=TEXT),
    tool(
        "convert_currency",
        "Convert an amount of money to another currency.",
        amount={"type": "number"},
        source=MONEY,
        target=MONEY,
    ),
    tool("lookup_order", "Look up the status of an order by its id.", order_id=TEXT),
]


def calculated(arguments: Arguments) -> str:
    """The value of an expression of digits and operators; percentages and `of` as people write them."""
    text = re.sub(r"(\d+)%", r"(\1/100)", arguments["expression"]).replace(" of ", "*")
    if not re.fullmatch(r"[\d\s.+*/()-]+", text):
        return "not an expression"
    try:
        return f"{eval(text):g}"
    except (SyntaxError, ZeroDivisionError) as error:
        return str(error)


def documentation(arguments: Arguments) -> str:
    query = arguments["query"].lower()
    if "key" in query:
        return "Rotate a key with `fw keys rotate NAME`; the old key works for 24 hours."
    return "Set max_attempts in config.toml." if "retr" in query else "Pass on_token=callback to run()."


RUN: dict[str, Callable[[Arguments], str]] = {
    "calculator": calculated,
    "current_time": lambda _: "2025-03-14 09:26",
    "search_docs": documentation,
    "get_weather": lambda a: {"paris": "18 C, sunny", "oslo": "4 C, snow"}.get(a["city"].lower(), "15 C, rain"),
    "list_files": lambda _: "notes.txt, data.csv",
    "send_email": lambda _: "sent",
    "convert_currency": lambda a: f"{a['amount'] * 0.9:.2f} {a['target']}",
    "lookup_order": lambda a: f"order {a['order_id']}: shipped yesterday",
}


def has(*words: str) -> Check:
    return lambda arguments: all(word.lower() in json.dumps(arguments).lower() for word in words)


def gives(value: str) -> Check:
    return lambda arguments: calculated(arguments) == value


@dataclass(frozen=True)
class Task:
    request: str
    tools: list[dict[str, Any]]
    expected: tuple[tuple[str, Check], ...] = ()


TASKS = [
    Task("What is 23 * 47?", OFFICE, (("calculator", gives("1081")),)),
    Task("What time is it?", OFFICE, (("current_time", has()),)),
    Task("What is 23*47, and what time is it?", OFFICE, (("calculator", gives("1081")), ("current_time", has()))),
    Task("Is it raining in Tokyo?", OFFICE, (("get_weather", has("tokyo")),)),
    Task("How do I rotate an API key? Check the docs.", OFFICE, (("search_docs", has("key")),)),
    Task("Thanks, that was very helpful!", OFFICE),
    Task(
        "Compare the weather in Paris and in Rome.",
        OFFICE,
        (("get_weather", has("paris")), ("get_weather", has("rome"))),
    ),
    Task(
        "What is the weather in Oslo, and what is 15% of 240?",
        OFFICE,
        (("get_weather", has("oslo")), ("calculator", gives("36"))),
    ),
    Task("Hello there!", OFFICE),
    Task(
        "Search the docs for retries and tell me what time it is.",
        OFFICE,
        (("search_docs", has("retr")), ("current_time", has())),
    ),
    Task("Multiply 128 by 4 and add 19.", OFFICE, (("calculator", gives("531")),)),
    Task("What does the documentation say about streaming?", OFFICE, (("search_docs", has("stream")),)),
    Task("Write a haiku about the sea.", OFFICE),
    Task("How many euros are 100 dollars?", SHOP, (("convert_currency", has("100", "USD", "EUR")),)),
    Task(
        "Send an email to bob@example.com that lunch is at noon.",
        SHOP,
        (("send_email", has("bob@example.com", "noon")),),
    ),
    Task(
        "Where is order A123, and how much is 50 EUR in USD?",
        SHOP,
        (("lookup_order", has("A123")), ("convert_currency", has("50", "EUR", "USD"))),
    ),
    Task("Which files are in /tmp?", SHOP, (("list_files", has("/tmp")),)),
    Task("Good evening, how are you?", SHOP),
    Task(
        "Look up order B77 and then email its status to ann@example.com.",
        SHOP,
        (("lookup_order", has("B77")), ("send_email", has("ann@example.com", "shipped"))),
    ),
    Task(
        "List the files in /home and look up order C5.",
        SHOP,
        (("list_files", has("/home")), ("lookup_order", has("C5"))),
    ),
    Task("What can you do for me?", SHOP),
]


def carried_out(runtime: LocalRuntime, task: Task) -> tuple[list[tuple[str, Arguments]], str]:
    """The calls made, in order, and the final text."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": task.request}]
    made: list[tuple[str, Arguments]] = []
    while True:
        text, calls, _ = runtime.complete(messages, tools=task.tools, settings=Settings(max_tokens=64))
        if not calls or len(made) >= MOST_CALLS:
            return made, text
        for call in calls:
            arguments = json.loads(call.arguments)
            made.append((call.name, arguments))
            wire = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            messages.append({"role": "assistant", "content": None, "tool_calls": [wire]})
            messages.append({"role": "tool", "tool_call_id": call.id, "content": RUN[call.name](arguments)})


def test_tool_tasks() -> None:
    runtime = LocalRuntime("qwen2.5-coder-0.5b")
    right = 0
    table = ["", "| request | calls | tools | arguments | stop |", "| --- | --- | --- | --- | --- |"]
    for task in TASKS:
        made, text = carried_out(runtime, task)
        left = list(task.expected)
        surplus = 0
        for name, arguments in made:
            hit = next((each for each in left if each[0] == name and each[1](arguments)), None)
            if hit is None:
                surplus += 1
            else:
                left.remove(hit)
        tools_right = {name for name, _ in made} == {name for name, _ in task.expected}
        stopped = not surplus and bool(text)
        right += tools_right and not left and stopped
        shown = "; ".join(f"{name}({json.dumps(arguments)})" for name, arguments in made) or "none"
        marks = " | ".join("yes" if good else "**no**" for good in (tools_right, not left, stopped))
        table.append(f"| {task.request} | `{shown}` | {marks} |")
        assert len(made) == len({json.dumps(call) for call in made}), "a call was repeated with the same arguments"
        assert len(made) < MOST_CALLS, "it did not stop"
    sys.stdout.write("\n".join([*table, "", f"{right} of {len(TASKS)} right", ""]))
    assert right >= FLOOR
