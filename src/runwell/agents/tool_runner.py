"""ToolNode: the tools that a model asked for, run in a graph of one's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from runwell.agents.history import unanswered
from runwell.agents.limits import AgentLimits, Budget
from runwell.agents.middleware.decorators import wrap_tool_call as as_middleware
from runwell.agents.middleware.requests import ToolCallRequest, own_call
from runwell.agents.setup import Setup
from runwell.agents.tool_call_scope import apart, keep, kept, questions_of
from runwell.agents.tool_errors import answer_to, malformed, over_budget
from runwell.agents.tool_node import around_call
from runwell.effects import Flow, RunTasks
from runwell.errors import BudgetExceeded, GraphInterrupt, InvalidInput, InvalidUpdateError
from runwell.messages.convert import convert_to_messages
from runwell.messages.message import AIMessage, BaseMessage, ToolMessage
from runwell.ports.command import END, Command
from runwell.ports.runtime import CURRENT_TASK, Runtime, TaskScope
from runwell.runnables.config import ensure_config
from runwell.runnables.runnable import Runnable
from runwell.tools.runtime import runtime_for_call
from runwell.tools.toolbox import as_tools

__all__ = ["ToolNode", "tools_condition"]

OnError = bool | str | type[Exception] | tuple[type[Exception], ...] | Callable[..., Any]


class _Given(NamedTuple):
    calls: list[Any]
    state: Any
    listed: bool


class ToolNode(Runnable[Any, Any]):
    """Runs the tool calls of the newest AI message side by side, and gives their answers in the order asked.

    As a node (`graph.add_node("tools", ToolNode(tools))`) or by hand: of a state it gives `{"messages": answers}`, of a
    list of messages a list of answers, of a list of tool calls (or one, as a `Send` may bring it)
    `{"messages": answers}`. Calls that are answered already are left out; one whose arguments cannot be read is
    answered in its place, with what is wrong with them. Tools get injected what they get in an
    agent, and may pause, return a `Command`, or be agents.

    `handle_tool_errors` says which errors the model is told: "default" (bad arguments, `ToolError`, errors of the
    outside), True (all), False (none), exception classes, a text to say instead, or a function of the error that gives
    the text. `wrap_tool_call(request, handler)`, of either colour, is around each call. At most `max_concurrency` calls
    run at once, or as many as the run's config says if that is less. `limits` say more: how many of them, and how much
    of a result the answer shows (the whole is its artifact). When one fails or pauses the others end first, and are not
    made again.

    Raises DuplicateTool and ToolDefinitionError for tools that cannot be.
    """

    __runwell_flow__ = True
    run_kind = "chain"

    def __init__(
        self,
        tools: Sequence[Any],
        *,
        name: str = "tools",
        tags: Sequence[str] | None = None,
        handle_tool_errors: OnError = "default",
        messages_key: str = "messages",
        wrap_tool_call: Callable[..., Any] | None = None,
        awrap_tool_call: Callable[..., Any] | None = None,
        max_concurrency: int | None = 32,
        limits: AgentLimits | None = None,
    ) -> None:
        around = wrap_tool_call or awrap_tool_call
        self.name = name
        self.tags = list(tags or ())
        self.messages_key = messages_key
        self.limits = AgentLimits(max_concurrency=max_concurrency) if limits is None else limits
        self.setup = Setup(
            name=name,
            model=None,
            tools=as_tools(tools),
            system=None,
            middleware=() if around is None else (as_middleware(around),),
            response_format=None,
            budget=Budget(),
            limits=self.limits,
            on_tool_error=_rule(handle_tool_errors),
            done=None,
        )

    @property
    def tools_by_name(self) -> dict[str, Any]:
        """The tools, by name."""
        return dict(self.setup.local)

    def invoke(self, input: Any, config: Any = None, *, store: Any = None, **options: Any) -> Any:
        """Run the calls in a state, a list of messages or a list of calls."""
        from runwell.drivers.sync import run_sync

        return run_sync(self._flow(input, self._runtime(config, store), CURRENT_TASK.get()))

    async def ainvoke(self, input: Any, config: Any = None, *, store: Any = None, **options: Any) -> Any:
        """As `invoke`."""
        from runwell.drivers.aio import run_async

        return await run_async(self._flow(input, self._runtime(config, store), CURRENT_TASK.get()))

    def __call__(self, task: Any) -> Flow[Any]:
        """As a node of a graph: engine code."""
        given = task.arg if task.sent else task.values
        return self._flow(given, task.runtime, task, task.values)

    def _runtime(self, config: Any, store: Any) -> Runtime[Any]:
        scope = CURRENT_TASK.get()
        if scope is None:
            return Runtime(store=store, config=dict(ensure_config(config)))
        return scope.runtime if store is None else scope.runtime.override(store=store)

    async def _flow(self, given: Any, runtime: Runtime[Any], scope: TaskScope | None, values: Any = None) -> Any:
        asked = self._read(given, values)
        results: dict[int, Any] = {}
        for group in self._groups(asked.calls):
            flows = [lambda call=asked.calls[at]: self._call(call, asked.state, runtime, scope) for at in group]
            outcomes = await RunTasks(flows, self._at_once(runtime, scope))
            errors = [outcome.error for outcome in outcomes if outcome.error is not None]
            for at, outcome in zip(group, outcomes, strict=True):
                if outcome.error is None:
                    results[at] = outcome.value
                    if errors:
                        keep(scope, asked.calls[at]["id"], outcome.value)
            failed = [error for error in errors if not isinstance(error, GraphInterrupt)]
            if failed:
                raise failed[0]
            if errors:
                raise GraphInterrupt(questions_of(errors))
            if len(results) < len(asked.calls):
                for at in group:
                    keep(scope, asked.calls[at]["id"], results[at])
        return self._shaped([results[at] for at in range(len(asked.calls))], asked)

    def _at_once(self, runtime: Runtime[Any], scope: TaskScope | None) -> int | None:
        """How many calls may run side by side: by the node's limit, and by that of the run's config."""
        run = scope.run if scope is not None else None
        said = run.max_concurrency if run is not None else (runtime.config or {}).get("max_concurrency")
        return min((each for each in (self.limits.max_concurrency, said) if each is not None), default=None)

    def _groups(self, calls: list[Any]) -> list[list[int]]:
        """Places of calls to be run side by side; an exclusive tool's alone, after the others."""
        alone = [at for at, call in enumerate(calls) if getattr(self._tool(call), "exclusive", False)]
        together = [at for at in range(len(calls)) if at not in alone]
        return [group for group in (together, *([at] for at in alone)) if group]

    def _tool(self, call: Mapping[str, Any]) -> Any:
        return self.setup.local.get(call["name"])

    async def _call(self, call: Any, state: Any, runtime: Runtime[Any], scope: TaskScope | None) -> Any:
        known = kept(scope, call["id"])
        if known is not None:
            return known
        if call.get("type") == "invalid_tool_call":
            return [malformed(call)]
        made = self._made(call, state, runtime)
        return self._checked(call, await (made if scope is None else apart(scope, call["id"], runtime, made)))

    async def _made(self, call: Any, state: Any, runtime: Runtime[Any]) -> Any:
        tool = self._tool(call)
        given = own_call(call) if self.setup.hooks["wrap_tool_call"] else call  # which may change it in place
        own = runtime_for_call(runtime, state=state, tool_call_id=call["id"], tools=self.setup.offered)
        try:
            return await around_call(
                self.setup, 0, ToolCallRequest(tool_call=given, tool=tool, state=state, runtime=own)
            )
        except BudgetExceeded as over:
            if runtime.budget is None:
                raise
            return over_budget(self.setup, tool, call, over, runtime.budget)
        except Exception as error:
            return answer_to(self.setup, tool, call, error)

    def _checked(self, call: Mapping[str, Any], made: Any) -> list[Any]:
        """A call's answers and Commands: one answer to this call, none to another."""
        parts = list(made) if isinstance(made, list) else [made]
        answers = 0
        for part in parts:
            if isinstance(part, ToolMessage):
                said: list[Any] = [part]
            elif isinstance(part, Command):
                update = part.update if isinstance(part.update, Mapping) else {}
                found = update.get(self.messages_key) or []
                said = [
                    each for each in (found if isinstance(found, list) else [found]) if isinstance(each, ToolMessage)
                ]
                if part.graph is not None:
                    answers += 1  # what the graph above is told is its business
                    continue
            else:
                raise InvalidUpdateError(
                    f"The call of tool {call['name']!r} came back as {part!r:.200}.",
                    hint="A wrap_tool_call function returns what handler(request) gave, a ToolMessage or a Command.",
                )
            for message in said:
                if message.tool_call_id != call["id"]:
                    raise InvalidUpdateError(
                        f"Tool {call['name']!r}, called as {call['id']!r}, answered {message.tool_call_id!r}.",
                        hint=f"Use tool_call_id={call['id']!r}, or leave it out.",
                    )
                answers += 1
        if answers == 0:
            parts.insert(0, ToolMessage("Done.", tool_call_id=call["id"], name=call["name"]))
        if answers > 1:
            raise InvalidUpdateError(
                f"Call {call['id']!r} of tool {call['name']!r} was answered {answers} times.", hint="Answer it once."
            )
        return parts

    def _shaped(self, made: list[list[Any]], asked: _Given) -> Any:
        parts = [part for each in made for part in each]
        if all(isinstance(part, ToolMessage) for part in parts):
            return parts if asked.listed else {self.messages_key: parts}
        return [part if asked.listed or isinstance(part, Command) else {self.messages_key: [part]} for part in parts]

    def _read(self, given: Any, values: Any) -> _Given:
        """What was asked for, in whatever form."""
        if isinstance(given, Mapping) and "tool_call" in given:
            return _Given([_call(given["tool_call"])], given.get("state", values), False)
        if isinstance(given, Mapping) and "name" in given and "args" in given:
            return _Given([_call(given)], values if values is not None else {}, False)
        if isinstance(given, (list, tuple)):
            if given and all(isinstance(each, Mapping) and "name" in each and "args" in each for each in given):
                calls = self._told_apart([_call(each) for each in given])
                return _Given(calls, values if values is not None else {}, False)
            messages = convert_to_messages(list(given))
            return _Given(self._open(messages), {self.messages_key: messages}, True)
        found = given.get(self.messages_key) if isinstance(given, Mapping) else getattr(given, self.messages_key, None)
        if found is None:
            raise InvalidInput(
                f"ToolNode {self.name!r} got {given!r:.200}, which has no {self.messages_key!r}.",
                hint="Give it a state with messages, a list of messages, or a list of tool calls; messages_key= names "
                "another key.",
            )
        return _Given(self._open(convert_to_messages(found)), given, False)

    def _open(self, messages: Sequence[BaseMessage]) -> list[Any]:
        if not any(isinstance(message, AIMessage) for message in messages):
            raise InvalidInput(
                f"ToolNode {self.name!r} got {len(messages)} messages, and none of them is the model's.",
                hint="The last AI message says which tools to run.",
            )
        return self._told_apart(unanswered(messages))

    def _told_apart(self, calls: list[Any]) -> list[Any]:
        """The calls, if each has an id of its own."""
        seen: set[str] = set()
        for call in calls:
            if not call["id"] or call["id"] in seen:
                what = (
                    f"Several calls have the id {call['id']!r}" if call["id"] else f"The call {call!r:.200} has no id"
                )
                raise InvalidInput(
                    f"ToolNode {self.name!r}: {what}, and answers go by the id.",
                    hint="A model's calls have one each; give one to those that are written by hand.",
                )
            seen.add(call["id"])
        return calls


def _call(given: Mapping[str, Any]) -> dict[str, Any]:
    if not given.get("id"):
        raise InvalidInput(f"The tool call {dict(given)!r:.200} has no id to answer.", hint="Give it one: 'id': '1'.")
    return {"type": "tool_call", **given}


def _rule(given: Any) -> Any:
    """`handle_tool_errors` as the agent's `on_tool_error`."""
    if given == "default":
        return "default"
    if given is True:
        return "message"
    if given is False or given is None:
        return "raise"
    if isinstance(given, str):
        return lambda error, call: given
    if isinstance(given, (type, tuple)):
        return lambda error, call: f"{type(error).__name__}: {error}" if isinstance(error, given) else None
    if callable(given):
        return lambda error, call: given(error)
    raise InvalidInput(
        f"handle_tool_errors={given!r:.100}.", hint='It is "default", a bool, a text, exception classes or a function.'
    )


def tools_condition(state: Any, messages_key: str = "messages") -> Literal["tools", "__end__"]:
    """A path for `add_conditional_edges`: "tools" if the newest message is the model's and has tool calls, else END.

    A malformed call counts: `ToolNode` answers it, so that the model can call again.
    """
    found = state
    if not isinstance(state, (list, tuple)):
        found = state.get(messages_key) if isinstance(state, Mapping) else getattr(state, messages_key, None)
    if not found:
        raise InvalidInput(f"tools_condition got {state!r:.200}, which has no messages.", hint="Pass messages_key=.")
    last = found[-1]
    return "tools" if isinstance(last, AIMessage) and (last.tool_calls or last.invalid_tool_calls) else END  # type: ignore[return-value]
