"""An agent and tools to serve; printing is no harm to the protocol."""

from __future__ import annotations

import os
import time

from runwell.agents import create_agent
from runwell.graph import interrupt
from runwell.messages import AIMessage
from runwell.testing.models import FakeChatModel
from runwell.tools import ToolRuntime, tool

print("printed while it is loaded")  # noqa: T201


@tool(read_only=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    print("printed while it works")  # noqa: T201
    return a + b


@tool
def colour() -> str:
    """Ask for a colour."""
    said = interrupt("Which colour?", response_schema={"type": "string", "enum": ["red", "blue"]})
    return f"painted {said}"


@tool
def count(runtime: ToolRuntime) -> str:
    """Count to three, aloud."""
    for number in (1, 2, 3):
        runtime.stream_writer(f"at {number}")
    return "counted"


@tool(destructive=True)
def delete(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


class Clerk(FakeChatModel):
    """Deletes what it is told to, and says how that went."""

    def _reply(self, request):
        last = request.messages[-1]
        if last.type == "tool":
            return AIMessage(f"It went so: {last.content}")
        call = {"type": "tool_call", "id": "d1", "name": "delete", "args": {"path": last.text}}
        return AIMessage("", tool_calls=[call])


clerk = create_agent(Clerk(responses=[]), [delete], approvals="destructive", name="clerk")


@tool
def pid() -> int:
    """The server's process id."""
    return os.getpid()


@tool
def whoami(runtime: ToolRuntime) -> str:
    """Who calls."""
    return "nobody" if runtime.principal is None else runtime.principal.id


@tool
def sleep() -> str:
    """Sleep."""
    print("sleeping", flush=True)  # noqa: T201
    time.sleep(60)
    return "slept"
