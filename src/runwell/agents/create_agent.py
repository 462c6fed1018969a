"""create_agent: a model, tools and middleware as a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from runwell.agents.agent_graph import agent_graph
from runwell.agents.argument_kinds import listed, wrong_kinds
from runwell.agents.binding_tools import check_takes_tools
from runwell.agents.compiled import CompiledAgent
from runwell.agents.cut_results import READER, artifact_reader
from runwell.agents.limits import AgentLimits, Budget
from runwell.agents.middleware.middleware import AgentMiddleware, hooks_of
from runwell.agents.middleware_list import named_middlewares, tools_of, with_hooks
from runwell.agents.new_input import on_input_of, unsaved
from runwell.agents.problems import Problems
from runwell.agents.roles import check_roles, message_types
from runwell.agents.setup import OnToolError, Setup
from runwell.agents.shortcuts import Approvals, gate_for, second_tries
from runwell.agents.state import PRIVATE, mark_of
from runwell.agents.state_fields import check_state_fields
from runwell.agents.state_keys import state_keys
from runwell.agents.structured_output import ToolStrategy, strategy_of
from runwell.drivers.colour import callee
from runwell.errors import DuplicateTool, InvalidInput, NoCheckpointer
from runwell.graph.plan import BESIDE_STATE
from runwell.messages.message import SystemMessage
from runwell.tools.base_tool import BaseTool
from runwell.tools.toolbox import as_tool, as_tools

__all__ = ["create_agent"]


NO_STEP_LIMIT = 1_000_000
"""An agent is bounded by its Budget; a `recursion_limit` in the config still counts."""


def create_agent(
    model: Any,
    tools: Sequence[Any] | None = None,
    *,
    system_prompt: str | SystemMessage | Callable[[Any], Any] | None = None,
    middleware: Sequence[AgentMiddleware] = (),
    response_format: Any = None,
    state_schema: type | None = None,
    context_schema: type | None = None,
    checkpointer: Any = None,
    store: Any = None,
    interrupt_before: Sequence[str] | None = (),
    interrupt_after: Sequence[str] | None = (),
    debug: bool = False,
    name: str = "agent",
    cache: Any = None,
    budget: Budget | None = None,
    approvals: Approvals = "off",
    on_tool_error: OnToolError = "default",
    extra: Literal["forbid", "ignore"] = "forbid",
    done: Callable[[Any], Any] | None = None,
    limits: AgentLimits | None = None,
    replace_tools: bool = False,
    fallbacks: Sequence[Any] = (),
    model_retry: int | AgentMiddleware | None = None,
    tool_retry: int | AgentMiddleware | None = None,
) -> CompiledAgent:
    """An agent: the model is asked, the tools it calls are run, and so on until it answers.

    Call it with `agent.invoke({"messages": [{"role": "user", "content": "..."}]})`; the answer is the last of the
    result's `messages`. `stream(..., stream_mode="messages")` gives its tokens. All of it works in both colours,
    whatever the colour of tools and middleware.

    `model` is a chat model or a string such as `"openai:gpt-5"` or `"local:qwen2.5-coder-0.5b"`. `tools` are
    functions with type hints and a docstring, `@tool`s, or `ProviderTool`s. `system_prompt` (or a function of the
    runtime that gives it) is put before the history at each call and never stored. `response_format` (a Pydantic
    model, dataclass, TypedDict, JSON schema, or a strategy) makes the agent end with
    `result["structured_response"]`. With a `checkpointer` a conversation goes on under its `thread_id`, and a run
    can pause, or be resumed after a crash. `cache` keeps the results of graphs inside tools whose nodes have a
    `cache_policy`.

    `budget` bounds a run (default: 200 model calls). `approvals` asks a person before tools run: "destructive"
    ones, "all", some by name, or as for `HumanInTheLoopMiddleware`. `on_tool_error`: which errors of tools the
    model is told ("default": the tool's own `ToolError`, bad arguments and errors of the outside; "message": all;
    "raise": none; or a function of (error, tool_call)). `done(state)` judges a final answer: True accepts it, a
    reason sends it back. `limits` holds the rarer settings.

    `fallbacks` are models to ask in turn when the agent's fails, as by `ModelFallbackMiddleware`. `model_retry` says
    how often a model call that fails is tried again, in place of the model's own `max_retries`: a number, or a
    `ModelRetryMiddleware`. `tool_retry` likewise for calls of tools; without it those of `idempotent` tools are tried
    twice more after errors that may pass, others never.

    Raises DuplicateTool, ToolDefinitionError, UnknownModel, InvalidInput or GraphError for what can be known to be
    wrong.
    """
    problems = Problems()
    wrong = dict(wrong_kinds(locals()))
    for error in wrong.values():
        problems.add(error)
    # what is of the wrong kind has been said: what follows is judged without it
    budget, limits = (None if "budget" in wrong else budget), (None if "limits" in wrong else limits)
    state_schema = None if "state_schema" in wrong else state_schema
    tools = () if "tools" in wrong else tools
    chat = problems.of(partial(_model, model))
    hooks = named_middlewares(middleware, problems)
    given = [*(tool for hook in hooks for tool in problems.of(partial(tools_of, hook), [])), *listed(tools)]
    server_side = getattr(chat, "server_side_tools", ())
    made: list[Any] = [problems.of(partial(as_tool, tool, server_side=server_side)) for tool in given]
    usable: dict[str, Any] = {tool.name: tool for tool in made if tool is not None}
    found: dict[str, Any] = problems.of(
        partial(as_tools, [tool for tool in made if tool is not None], server_side=server_side, replace=replace_tools),
        usable,
    )
    hooks = named_middlewares(
        [*hooks, *second_tries(hooks, found, fallbacks, model_retry, tool_retry, problems)], problems
    )
    if isinstance(limits, AgentLimits) and limits.overflow != "error":
        from runwell.agents.overflow_hooks import overflow_hook

        hooks = named_middlewares([*hooks, overflow_hook(limits.overflow, chat)], problems)
    if model_retry == 0 and hasattr(chat, "with_max_retries"):
        chat = chat.with_max_retries(0)
    around: list[Any] = Problems().of(partial(hooks_of, hooks, "wrap_model_call"), [])  # told below
    gate = problems.of(partial(gate_for, approvals, found, any(hook.owner.lends_tools for hook in around)))
    if gate is not None:
        hooks.append(gate)
    for each in hooks:
        problems.of(partial(each.check, found))
    strategy = problems.of(partial(strategy_of, response_format, chat, tools=list(found), settled=not around))
    if isinstance(strategy, ToolStrategy):
        for shape in strategy.shapes:
            if shape in found:
                problems.add(
                    DuplicateTool(
                        f"The response_format {shape!r} has the name of a tool: {found[shape].origin}.",
                        hint="Rename the tool or the schema.",
                    )
                )
    if chat is not None and (found or isinstance(strategy, ToolStrategy)):
        problems.of(partial(check_takes_tools, chat))
    system: Any = system_prompt
    if isinstance(system_prompt, str):
        system = SystemMessage(system_prompt)
    elif callable(system_prompt):
        system = callee(system_prompt, cheap=True)
    called = name if "name" not in wrong else "agent"
    bounds = limits or AgentLimits()
    make_setup = partial(
        Setup,
        name=called,
        model=chat,
        tools=found,
        system=system,
        response_format=strategy,
        budget=budget or Budget(),
        limits=bounds,
        on_tool_error=on_tool_error,
        done=callee(done, cheap=True) if done is not None and "done" not in wrong else None,
        reader=problems.of(partial(_reader, found, bounds)),
    )
    try:
        setup = make_setup(middleware=tuple(hooks))
    except InvalidInput:  # a hook that cannot be called
        hooks = with_hooks(hooks, problems)
        setup = make_setup(middleware=tuple(hooks))
    keys = state_keys(setup, state_schema, problems)
    problems.of(partial(check_state_fields, setup.local.values(), keys))
    pauses = tuple(reason for each in hooks if (reason := each.pauses()))
    kept = tuple(reason for each in hooks if (reason := each.needs_checkpointer()))
    if checkpointer is False:
        if pauses:
            problems.add(_unpausing(called, pauses))
        if kept:
            problems.add(unsaved(called, kept))
    agent: Any = problems.of(
        lambda: agent_graph(setup, keys, None if "context_schema" in wrong else context_schema).compile(
            checkpointer,
            store=None if "store" in wrong else store,
            interrupt_before=() if "interrupt_before" in wrong else interrupt_before,
            interrupt_after=() if "interrupt_after" in wrong else interrupt_after,
            name=called,
            debug=debug,
            extra=extra,
            cache=cache,
        )
    )
    problems.settle(name)
    agent.setup = setup
    agent.goes_on = setup.goes_on
    agent.replaces_tools = replace_tools
    agent.pauses = pauses
    agent.needs_store = (
        *(f"tool {each.name!r}" for each in setup.local.values() if each.needs_store),
        *(reason for each in hooks if (reason := each.needs_store())),
    )
    agent.on_open = setup.open
    agent.hidden = BESIDE_STATE.union(PRIVATE).union(key for key, hint in keys.items() if mark_of(hint).unseen)
    agent.default_limit = NO_STEP_LIMIT
    if setup.limits.allowed_roles is not None:
        agent.check_caller = partial(check_roles, allowed=message_types(setup.limits.allowed_roles), owner=name)
    agent.stop_on_error = setup.limits.on_sibling_failure == "cancel"
    agent.default_concurrency = setup.limits.max_concurrency
    agent.on_input = on_input_of(setup, kept, [key for key, hint in keys.items() if mark_of(hint).run])
    if strategy is not None:
        agent.types = _shapes(strategy)
    return agent  # type: ignore[no-any-return]  # an AgentGraph makes one


def _reader(found: Mapping[str, Any], limits: AgentLimits) -> Any:
    """The tool that shows the rest of cut results, if any can be cut."""
    if limits.max_tool_chars is None or not any(isinstance(each, BaseTool) for each in found.values()):
        return None
    if READER in found:
        raise DuplicateTool(
            f"The name {READER!r} is that of the tool that shows the rest of results that were cut.",
            hint="Rename your tool, or leave results whole: limits=AgentLimits(max_tool_chars=None).",
        )
    return artifact_reader(limits.max_tool_media_bytes)


def _model(model: Any) -> Any:
    if not isinstance(model, str):
        if not hasattr(model, "invoke") or not hasattr(model, "ainvoke") or isinstance(model, type):
            raise InvalidInput(
                f"model={model!r:.100} is not a chat model.",
                hint='Pass a chat model, or a string such as "openai:gpt-5.5" or "local:qwen2.5-coder-0.5b".',
            )
        return model
    from runwell.models.init import init_chat_model

    return init_chat_model(model)


def _unpausing(name: str, pauses: Sequence[str]) -> NoCheckpointer:
    return NoCheckpointer(
        f"{name!r} may pause ({'; '.join(pauses)}), and checkpointer=False means that nothing can save the pause.",
        hint="Give it a checkpointer, or leave the argument out to use the one of a graph around it.",
    )


def _shapes(strategy: Any) -> frozenset[type]:
    """The classes a structured answer may be, so that it can be saved."""
    from runwell.persistence.serialization import reachable_types

    shapes = strategy.shapes.values() if isinstance(strategy, ToolStrategy) else [strategy.shape]
    found: set[type] = set()
    for shape in shapes:
        if isinstance(shape.schema, type):
            found |= reachable_types(shape.schema)
    return frozenset(found)
