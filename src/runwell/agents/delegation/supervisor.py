"""An agent that gives work to others and hears what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from runwell.agents.calling import call_graph
from runwell.agents.create_agent import create_agent
from runwell.agents.delegation.team import TeamGraph, TeamState, check_members
from runwell.agents.handing_over import handoff
from runwell.agents.limits import Budget
from runwell.effects import flow
from runwell.errors import InvalidInput, ParentCommand
from runwell.graph.engine import Task
from runwell.messages.message import AIMessage, BaseMessage, ToolMessage, new_id
from runwell.ports.command import START, Command

__all__ = ["create_supervisor"]


def create_supervisor(
    agents: Sequence[Any],
    *,
    model: Any,
    tools: Sequence[Any] = (),
    prompt: Any = None,
    response_format: Any = None,
    state_schema: type = TeamState,
    context_schema: type | None = None,
    output_mode: Literal["last_message", "full_history"] = "last_message",
    add_handoff_messages: bool = True,
    add_handoff_back_messages: bool | None = None,
    handoff_tool_prefix: str = "transfer_to_",
    supervisor_name: str = "supervisor",
    budget: Budget | None = None,
    **settings: Any,
) -> TeamGraph:
    """A graph of a supervisor and the agents it hands work to; `compile()` it.

    The supervisor is an agent of `model`, `tools` and `prompt`, with a handoff to each of `agents`. An agent sees the
    conversation and answers into it: its last message, or all it said and did (`output_mode="full_history"`), marked
    with its name and followed by a note that the supervisor speaks again (`add_handoff_back_messages`, by default as
    `add_handoff_messages`). `budget` is for all of them together. Further `settings` are `create_agent`'s.

    Raises InvalidInput for agents without a name or with the same one.
    """
    members = check_members(agents, "create_supervisor")
    if supervisor_name in members:
        raise InvalidInput(f"An agent is called {supervisor_name!r}, as the supervisor.", hint="Pass supervisor_name=.")
    if output_mode not in ("last_message", "full_history"):
        raise InvalidInput(f"output_mode={output_mode!r}.", hint='It is "last_message" or "full_history".')
    back = add_handoff_messages if add_handoff_back_messages is None else add_handoff_back_messages
    handoffs = [
        handoff(
            called,
            name=f"{handoff_tool_prefix}{called}",
            description=f"Hand the conversation to the agent {called!r}.",
            add_handoff_messages=add_handoff_messages,
        )
        for called in members
    ]
    supervisor = create_agent(
        model,
        [*tools, *handoffs],
        system_prompt=prompt,
        response_format=response_format,
        context_schema=context_schema,
        name=supervisor_name,
        **settings,
    )
    graph = TeamGraph(state_schema, context_schema, budget, "supervised")
    graph.add_node(supervisor_name, supervisor, destinations=tuple(members))
    graph.add_edge(START, supervisor_name)
    for called, agent in members.items():
        graph.add_node(called, _member(agent, called, supervisor_name, output_mode == "last_message", back))
        graph.add_edge(called, supervisor_name)
    return graph


def _member(agent: Any, called: str, supervisor: str, only_last: bool, back: bool) -> Callable[[Task], Any]:
    """A node that lets an agent work on the conversation and keeps what it said."""
    known = agent.input_schema.channels

    @flow
    async def work(task: Task) -> Any:
        given = {key: value for key, value in task.values.items() if key in known}
        try:
            result = await call_graph(agent, given)
        except ParentCommand as jump:  # a handoff of its own
            return Command(update=jump.command.update, goto=jump.command.goto)
        before = {message.id for message in given["messages"]}
        said = [_signed(message, called) for message in result["messages"] if message.id not in before]
        update: dict[str, Any] = {"messages": said[-1:] if only_last else said}
        if back:
            update["messages"] += _returned(called, supervisor)
        if result.get("stopped"):
            update["stopped"] = result["stopped"]
        return update

    work.__name__ = work.__qualname__ = called
    return work


def _signed(message: BaseMessage, name: str) -> BaseMessage:
    if isinstance(message, AIMessage) and message.name is None:
        return message.model_copy(update={"name": name})
    return message


def _returned(called: str, supervisor: str) -> list[BaseMessage]:
    """What stands in the history where the supervisor speaks again."""
    call: Mapping[str, Any] = {
        "name": f"transfer_back_to_{supervisor}",
        "args": {},
        "id": new_id(),
        "type": "tool_call",
    }
    return [
        AIMessage(f"Transferring back to {supervisor}.", tool_calls=[dict(call)], name=called),
        ToolMessage(f"Transferred back to {supervisor}.", tool_call_id=call["id"], name=call["name"]),
    ]
