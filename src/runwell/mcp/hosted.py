"""The runs behind a server's calls: of a tool, over with its call, and of an agent, on a thread that is kept."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from runwell.agents.agent_tool import AgentTool
from runwell.errors import InvalidInput, ToolDefinitionError
from runwell.mcp.announcing import answer_of_tool
from runwell.messages.message import ToolMessage
from runwell.ports.runtime import Principal
from runwell.tools.base_tool import BaseTool
from runwell.tools.result import to_content

__all__ = ["THREAD", "AgentThreads", "HostedRun", "caller", "is_thread_id", "thread_name"]

THREAD = "thread_id"
"""The argument of an agent's tool that names a conversation."""

_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


@dataclass(slots=True)
class HostedRun:
    """One run: its graph, the name of its thread in the saver, and how its end is told. `shown` is its name for the
    client; `kept` says whether the thread outlives the run. A new one has an `input`."""

    tool: BaseTool
    graph: Any
    thread: str
    shown: str
    kept: bool
    told: Callable[[Mapping[str, Any]], Any]
    input: Any = None
    principal: Principal | None = None

    @property
    def config(self) -> dict[str, Any]:
        return {"configurable": {"thread_id": self.thread}}


def caller() -> Principal | None:
    """Who calls, as the server's authentication says; None where there is none."""
    from mcp.server.auth.middleware.auth_context import get_access_token
    from mcp.server.auth.provider import principal_components

    token = get_access_token()
    if token is None:
        return None
    client, issuer, subject = principal_components(token)
    return Principal(
        "/".join(quote(part, safe="") for part in (issuer, client, subject) if part), roles=(*token.scopes,)
    )


def is_thread_id(given: Any) -> bool:
    """Whether a client may call a conversation so: nothing in it can lead to another tool's or caller's."""
    return isinstance(given, str) and _ID.fullmatch(given) is not None


def thread_name(tool: str, principal: Principal | None, name: str) -> str:
    """A thread's name in the saver: nobody can name the thread of another tool or caller."""
    return f"{tool}/{name}" if principal is None else f"{tool}/{quote(principal.id, safe='')}/{name}"


class AgentThreads:
    """An agent as a tool that goes on with its conversations: `thread_id` says with which."""

    def __init__(self, tool: AgentTool, saver: Any) -> None:
        self.tool = tool
        self.graph = tool.agent if saver is None else tool.agent.with_checkpointer(saver)
        schema = tool.json_schema()
        if THREAD in schema["properties"]:
            raise ToolDefinitionError(
                f"The agent {tool.name!r} has an argument {THREAD!r} of its own, which names its threads here.",
                hint="Rename it, or serve the agent without a saver.",
            )
        about = (
            "The conversation to go on with, from an earlier answer. Without it a new one begins. Alone, without other "
            "arguments, it goes on with what was left open there."
        )
        schema["properties"][THREAD] = {"type": "string", "description": about, "pattern": f"^{_ID.pattern}$"}
        schema["required"] = []
        self.schema = schema

    def run(self, arguments: Mapping[str, Any], principal: Principal | None) -> HostedRun:
        """The run that a call is about. Raises ToolArgumentsError and InvalidInput for arguments that do not fit."""
        given = dict(arguments)
        name = given.pop(THREAD, None)
        if name is not None and not is_thread_id(name):
            raise InvalidInput(
                f"{THREAD}={name!r:.200} names no conversation.", hint="1 to 128 letters, digits, '.', '_', ':' or '-'."
            )
        begins = None if name is not None and not given else self.tool.given(self.tool.prepare(given))
        return self.at(name or uuid.uuid4().hex, principal, input=begins, tell=name is None)

    def at(self, name: str, principal: Principal | None, *, input: Any = None, tell: bool = False) -> HostedRun:
        """The conversation of this name."""

        def told(values: Mapping[str, Any]) -> Any:
            from mcp_types import TextContent

            made = self.tool.answer(values)
            artifact = None
            if self.tool.response_format == "content_and_artifact":
                made, artifact = made
            message = ToolMessage(to_content(made), tool_call_id=name, name=self.tool.name, artifact=artifact)
            result = answer_of_tool(self.tool, message)
            result.meta = {"runwell/thread_id": name}
            if tell:
                said = f"({THREAD} of this conversation, to go on with it: {name})"
                result.content = [*result.content, TextContent(type="text", text=said)]
            return result

        return HostedRun(
            self.tool,
            self.graph,
            thread_name(self.tool.name, principal, name),
            f"{self.tool.name}/{name}",
            True,
            told,
            input,
            principal,
        )
