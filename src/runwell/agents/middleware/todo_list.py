"""A list of tasks that the model writes for itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from runwell.agents.history import open_calls
from runwell.agents.middleware.middleware import AgentMiddleware
from runwell.agents.middleware.requests import ModelRequest
from runwell.agents.middleware.system_text import with_system_text
from runwell.agents.state import AgentState, OmitFromInput
from runwell.effects import flow
from runwell.errors import InvalidInput
from runwell.messages.message import ToolMessage
from runwell.ports.command import Command
from runwell.ports.seat import Held
from runwell.schemas.arguments import checked_arguments
from runwell.tools.decorator import tool
from runwell.tools.runtime import ToolRuntime

__all__ = ["PlanningState", "Todo", "TodoListMiddleware", "write_todos"]

NAME = "write_todos"

SYSTEM_PROMPT = """\
You have a list of tasks of your own, which `write_todos` replaces as a whole. Use it for work of several steps: write
the steps before you begin, keep the one you are at "in_progress", mark each "completed" as soon as it is done, and
add or drop steps as you learn more. Do not use it for what takes one or two steps. Call it once in a turn."""

TOOL_DESCRIPTION = """\
Replace your list of tasks by `todos`: every task, in order, each with a status of "pending", "in_progress" or
"completed"."""


class Todo(TypedDict):
    """One task."""

    content: str
    status: Literal["pending", "in_progress", "completed"]


class PlanningState(AgentState):
    """The list, which callers see in the result."""

    todos: NotRequired[Annotated[list[Todo], OmitFromInput]]


class TodoListMiddleware(AgentMiddleware):
    """Gives the model a tool `write_todos`, and keeps what it writes in the state under `"todos"`.

    `system_prompt` is added to the agent's own, `tool_description` is what the model reads of the tool. Two lists in
    one turn contradict each other: neither is taken, and the model is told.

    Seats: none is taken from the model; C1 (tools or answer) stays its own.
    """

    lends_tools = False

    state_schema = PlanningState

    @checked_arguments
    def __init__(self, *, system_prompt: str = SYSTEM_PROMPT, tool_description: str = TOOL_DESCRIPTION) -> None:
        if not tool_description.strip():
            raise InvalidInput("tool_description is empty.", hint="The model needs to know what the tool is for.")
        self.system_prompt = system_prompt
        self.tool_description = tool_description
        self.tools = (write_todos if tool_description == TOOL_DESCRIPTION else _write_todos(tool_description),)

    def seats(self) -> Iterable[Held]:
        answer = f"{self.name} adds {len(self.system_prompt)} characters on keeping a list."
        yield Held("B1", answer, self.wrap_model_call, adds=True)

    @flow
    async def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        return await handler(with_system_text(request, self.system_prompt) if self.system_prompt else request)

    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        lists = [call for call in open_calls(state["messages"]) if call["name"] == NAME]
        if len(lists) < 2:
            return None
        text = f"Not taken: {len(lists)} lists in one turn. Call {NAME} once, with the whole list."
        return {"messages": [ToolMessage(text, tool_call_id=c["id"], name=NAME, status="error") for c in lists]}


def _write_todos(description: str) -> Any:
    @tool(NAME, description=description)
    def write_todos(todos: list[Todo], runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        said = "\n".join(f"[{todo['status']}] {todo['content']}" for todo in todos) or "(empty)"
        answer = ToolMessage(f"The list is now:\n{said}", tool_call_id=runtime.tool_call_id or "", name=NAME)
        return Command(update={"todos": todos, "messages": [answer]})

    return write_todos


write_todos = _write_todos(TOOL_DESCRIPTION)
"""The tool, as the middleware offers it when nothing else is said."""
