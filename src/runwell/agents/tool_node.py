"""The node that runs one tool call."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import partial
from types import coroutine
from typing import Any

from runwell.agents.cut_results import bounded
from runwell.agents.history import last_reply, was_lent
from runwell.agents.middleware.requests import ToolCallRequest, own_call, own_call_request, refused_return
from runwell.agents.setup import Setup
from runwell.agents.tool_errors import answer_to, over_budget, record_failure, unknown
from runwell.effects import Call, Callee, CallHook, Flow, flow
from runwell.errors import BudgetExceeded, InvalidUpdateError, nearest
from runwell.graph.engine import Task
from runwell.graph.updates import node_writes
from runwell.messages.message import AIMessage, RemoveMessage, ToolMessage
from runwell.observe.ids import random_hex
from runwell.observe.run import enter_run, fail_run, leave_run, watched
from runwell.ports.command import Command
from runwell.tools.base_tool import BaseTool
from runwell.tools.runtime import ToolRuntime, runtime_for_call

__all__ = ["around_call", "tool_node"]


def tool_node(setup: Setup) -> Callable[[Task], Any]:
    """The tools' node: each task of it is one call."""
    lent, local, hooked = setup.lent, setup.local, bool(setup.hooks["wrap_tool_call"])
    lends = any(hook.flow is None for hook in setup.hooks["wrap_tool_call"])  # what hooks may change is a copy

    @flow
    async def tools(task: Task) -> Any:
        call, state = task.arg, task.values
        ledger = state.get("ledger")
        if ledger and "lent" in ledger:
            tool = lent.find(task.run, call)
            if tool is None and was_lent(state, call["name"]) is None:
                tool = local.get(call["name"])
        else:
            tool = local.get(call["name"])
        try:
            runtime = None
            if hooked or (tool is not None and tool.definition.injected):
                runtime = _runtime(setup, task, call)  # else nobody sees it
            if hooked:
                given = own_call(call) if lends else call
                request = ToolCallRequest(tool_call=given, tool=tool, state=state, runtime=runtime)
                made = await around_call(setup, 0, request)
            else:
                made = await _execute(setup, call, tool, state, runtime)
        except BudgetExceeded as over:
            made = over_budget(setup, tool, call, over, task.runtime.budget)
        except Exception as error:
            made = answer_to(setup, tool, call, error)
            for guard in setup.guards:
                made = guard.guard_answer(made)
        return _checked(setup, task, call, made)

    return tools


def _runtime(setup: Setup, task: Task, call: Mapping[str, Any]) -> ToolRuntime[Any, Any]:
    return runtime_for_call(task.runtime, state=task.values, tool_call_id=call["id"], tools=setup.offered)


async def around_call(setup: Setup, index: int, request: Any) -> Any:
    """The call, inside the wrap_tool_call hooks from `index` on."""
    hooks = setup.hooks["wrap_tool_call"]
    if not isinstance(request, ToolCallRequest):
        raise InvalidUpdateError(
            f"{hooks[index - 1].owner.name}.wrap_tool_call called its handler with {request!r:.200}.",
            hint="Call handler(request), or handler(request.override(...)).",
        )
    if index < len(hooks):
        hook = hooks[index]
        if hook.flow is not None:
            return await hook.flow(request, lambda changed: around_call(setup, index + 1, changed))
        if index:
            request = own_call_request(request)  # which it may change in place, and who hands it on may do so again
        made = await CallHook(hook.callee, request, lambda changed: around_call(setup, index + 1, changed))
        if not isinstance(made, (ToolMessage, Command, list)):
            hint = "Return what handler(request) gave, a ToolMessage or a Command."
            raise refused_return(f"{hook.owner.name}.wrap_tool_call returned", made, hint)
        return made
    return await _execute(setup, request.tool_call, request.tool, request.state, request.runtime)


def _execute(setup: Setup, call: dict[str, Any], tool: BaseTool | None, state: Any, runtime: Any) -> Flow[Any]:
    """The call itself; told to handlers, where there are any."""
    if tool is None:
        return _absent(setup, call, state, runtime)
    return _run(setup, tool, call, state, runtime)


async def _absent(setup: Setup, call: dict[str, Any], state: Any, runtime: Any) -> Any:
    """A call whose tool nobody has found so far."""
    if was_lent(state, call["name"]) is not None:
        return _gone(call)
    tool = setup.local.get(call["name"])
    return unknown(setup, call) if tool is None else await _execute(setup, call, tool, state, runtime)


@coroutine  # to `yield` the tool's call: `await` would make a generator for it
def _run(setup: Setup, tool: BaseTool, call: dict[str, Any], state: Any, runtime: Any) -> Generator[Any, Any, Any]:
    observed = None if tool.calls_itself else enter_run("tool", tool.name, call["args"])
    try:
        try:
            if tool.calls_itself:
                result = yield _invoked(tool, call, runtime)
            else:
                asked: Any = tool.call(tool.prepare(call["args"], runtime))
                # engine code, of an agent as a tool
                result = (yield asked) if type(asked) is Call else (yield from asked)
            answer = tool.finish(result, call)
        except Exception as error:
            own = tool.answer_error(error, call)
            if own is None:
                raise
            if watched():
                record_failure(error, call, "told", f"{tool.name}'s own handler")
            answer = bounded(own, setup.limits, setup.reader is not None)
        else:
            if tool is not setup.reader:
                answer = bounded(answer, setup.limits, setup.reader is not None)
            if isinstance(answer, ToolMessage):
                if answer.id is None and not setup.hooks["wrap_tool_call"] and not isinstance(result, ToolMessage):
                    answer.id = random_hex(16)  # made here for this call: the history need not copy it to give it one
                edited = _edited(call, state)
                if edited is not None:
                    answer = _noted(answer, edited, call)
    except BaseException as error:
        if observed is not None:
            fail_run(observed, error)
        raise
    if observed is not None:
        leave_run(observed, answer)
    return answer


def _invoked(tool: BaseTool, call: dict[str, Any], runtime: Any) -> Call[Any]:
    """By the `invoke` that a class of the user's writes, as by hand."""
    given = {**call, "type": "tool_call"}
    return Call(Callee(partial(tool.invoke, given, injected=runtime), partial(tool.ainvoke, given, injected=runtime)))


def _gone(call: Mapping[str, Any]) -> ToolMessage:
    """The answer to a call of a tool that was offered for one turn, and that this process does not have."""
    return ToolMessage(
        f"Not run: the tool {call['name']!r} was offered for one turn, and the run has gone on elsewhere since. "
        "Call it again if it is offered again.",
        tool_call_id=call["id"],
        name=call["name"],
        status="error",
    )


def _edited(call: Mapping[str, Any], state: Any) -> Any:
    """The call as the model wrote it, if a person changed it."""
    messages = state.get("messages") if type(state) is dict else _messages(state)
    if messages and type(messages[-1]) is AIMessage and not messages[-1]._kwargs:
        return None  # as nearly always
    reply, _ = last_reply(messages or ())
    edited = reply.additional_kwargs.get("edited_calls") if reply is not None else None
    return edited.get(call["id"]) if edited else None


def _noted(answer: ToolMessage, original: Mapping[str, Any], call: Mapping[str, Any]) -> ToolMessage:
    """Tell the model that what ran is not what it wrote, so that it does not try again."""
    note = (
        f"[A person changed this call before it ran: you asked for {original['name']}({original['args']}), "
        f"what ran is {call['name']}({call['args']}). Do not repeat the original call.]"
    )
    content = answer.content
    changed = f"{note}\n{content}" if isinstance(content, str) else [{"type": "text", "text": note}, *content]
    return answer.model_copy(update={"content": changed})


def _checked(setup: Setup, task: Task, call: Mapping[str, Any], made: Any) -> Any:
    """What a tool or hook gave, as the node's update: this call is answered exactly once, and no sibling's is."""
    if type(made) is ToolMessage:
        if made.tool_call_id != call["id"]:
            _own(call, made)
        return {"messages": [made]}
    parts = made if isinstance(made, list) else [made]
    update: list[Any] = []
    answers = 0
    for part in parts:
        if isinstance(part, ToolMessage):
            _own(call, part)
            answers += 1
            update.append({"messages": [part]})
        elif isinstance(part, Command):
            answers += _answers_in(setup, task, call, part)
            update.append(part)
        else:
            hint = "A wrap_tool_call hook returns what handler(request) gave, a ToolMessage or a Command."
            raise refused_return(f"The call of tool {call['name']!r} came back as", part, hint)
    if answers == 0:
        said = ToolMessage("Done.", tool_call_id=call["id"], name=call["name"])
        if all(isinstance(part, Command) and part.graph is None for part in parts):
            return [{"messages": [said]}, *update]
        if _hands_over(setup, call):
            return update
        raise InvalidUpdateError(
            f"Tool {call['name']!r} jumped to the parent graph without answering call {call['id']!r}.",
            hint=f"Put ToolMessage(..., tool_call_id={call['id']!r}) among the messages of its Command.",
        )
    if answers > 1:
        raise InvalidUpdateError(
            f"Call {call['id']!r} of tool {call['name']!r} was answered {answers} times.", hint="Answer it once."
        )
    return update


def _own(call: Mapping[str, Any], answer: ToolMessage) -> None:
    if answer.tool_call_id != call["id"]:
        raise InvalidUpdateError(
            f"Tool {call['name']!r}, called as {call['id']!r}, answered {answer.tool_call_id!r}.",
            hint=f"Use tool_call_id={call['id']!r}, or leave it out.",
        )


def _hands_over(setup: Setup, call: Mapping[str, Any]) -> bool:
    """Whether the call is a handoff, which closes the turn: it ran alone, and answers for the calls left open."""
    return bool(getattr(setup.local.get(call["name"]), "to", ""))


def _answers_in(setup: Setup, task: Task, call: Mapping[str, Any], command: Command[Any]) -> int:
    """How often a tool's Command answers the call; its update is checked against the state's schema."""
    pairs = node_writes(task.run.graph, "tools", Command(update=command.update)) if command.update is not None else []
    if command.graph is None:
        known = task.run.graph.channels
        for name, _ in pairs:
            if name not in known:
                raise InvalidUpdateError(
                    f"Tool {call['name']!r} wrote {name!r}, which is not a key of the state{nearest(name, known)}.",
                    hint="Add it to the agent's state_schema.",
                )
    count = 0
    closes = command.graph is not None and _hands_over(setup, call)
    for name, value in pairs:
        if name == "messages":
            for message in value if isinstance(value, list) else [value]:
                if isinstance(message, ToolMessage) and message.tool_call_id == call["id"]:
                    count += 1
                elif isinstance(message, ToolMessage) and not closes and not _handed_on(task, command, message):
                    _own(call, message)
                elif isinstance(message, RemoveMessage):
                    continue
    return count


def _handed_on(task: Task, command: Command[Any], message: ToolMessage) -> bool:
    """Whether it is a message of the history, which a jump to the parent graph takes along."""
    return command.graph is not None and any(message is known for known in task.values["messages"])


def _messages(state: Any) -> Any:
    mapping = type(state) is dict or isinstance(state, Mapping)
    return (state.get("messages") if mapping else getattr(state, "messages", None)) or ()
