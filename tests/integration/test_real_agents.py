"""An agent on a real model calls tools, waits for a person, answers in a shape, and survives being killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from runwell import Command, InMemorySaver, create_agent
from runwell.messages import AIMessageChunk

sys.path.insert(0, str(Path(__file__).parent))

from tools import calculator, current_time, delete_file

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.bundled_model,
]

TASK = {"messages": [{"role": "user", "content": "What is 23 * 47, and what time is it now?"}]}


def asked(result: Any) -> list[str]:
    return [call["name"] for message in result["messages"] if message.type == "ai" for call in message.tool_calls]


def test_a_two_tool_task(run: Any, model: Any) -> None:
    result = run.invoke(create_agent(model, [calculator, current_time]), TASK)
    assert sorted(asked(result)) == ["calculator", "current_time"]
    assert {m.content for m in result["messages"] if m.type == "tool"} == {"1081", "14:30 on Monday, 30 November"}
    answer = result["messages"][-1]
    assert answer.type == "ai" and not answer.tool_calls and answer.text
    assert answer.usage_metadata["total_tokens"] > 0


def test_tokens_stream(run: Any, model: Any) -> None:
    items = run.stream(create_agent(model, [calculator]), {"messages": "What is 12 * 12?"}, stream_mode="messages")
    pieces = [m.text for m, where in items if isinstance(m, AIMessageChunk) and m.text]
    assert len(pieces) > 3
    assert [m.content for m, where in items if where["node"] == "tools"] == ["144"]
    assert "144" in "".join(pieces)


def test_an_approval_with_an_edit(run: Any, model: Any) -> None:
    agent = create_agent(model, [delete_file], approvals="destructive", checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    paused = run.invoke(agent, {"messages": "Delete the file /tmp/report.txt"}, config)
    [question] = paused["__interrupt__"]
    [request] = question.value["action_requests"]
    assert request["name"] == "delete_file" and "report.txt" in request["args"]["path"]
    edit = {"type": "edit", "edited_action": {"name": "delete_file", "args": {"path": "/tmp/old.txt"}}}
    result = run.invoke(agent, Command(resume={"decisions": {request["id"]: edit}}), config)
    [answer] = [m for m in result["messages"] if m.type == "tool"]
    assert "/tmp/old.txt was deleted" in answer.content
    assert result["messages"][-1].type == "ai"


class Person(BaseModel):
    """A person mentioned in the text."""

    name: str
    age: int


def test_a_structured_answer(run: Any, model: Any) -> None:
    agent = create_agent(model, response_format=Person)
    result = run.invoke(agent, {"messages": "Alice is 31 years old. Extract the person."})
    assert result["structured_response"] == Person(name="Alice", age=31)


def test_kill_and_resume(tmp_path: Path, environment: dict[str, str]) -> None:
    """kill -9 while the second tool runs: a new process goes on, and the first tool is not run again."""
    log = tmp_path / "tools.log"
    script = [sys.executable, str(Path(__file__).with_name("crash_agent.py")), str(tmp_path / "threads.sqlite")]
    environment["TOOL_LOG"] = str(log)
    with subprocess.Popen(script, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "killable\n"
        process.kill()
    done = subprocess.run([*script, "resume"], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    assert log.read_text().splitlines().count("current_time") == 2
    assert len([line for line in log.read_text().splitlines() if line.startswith("calculator")]) == 1
    assert "tool: 1081" in done.stdout and "14:30" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("ai: ")
