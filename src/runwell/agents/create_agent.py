"""create_agent: a model, tools and middleware as a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from types import NoneType
from typing import Any, Literal, NotRequired, Required, TypedDict, get_args, get_origin, get_type_hints

from typing_extensions import is_typeddict

from runwell.agents.binding_tools import check_takes_tools
from runwell.agents.compiled import AgentGraph, CompiledAgent
from runwell.agents.cut_results import READER, artifact_reader
from runwell.agents.history import abandoned_answers
from runwell.agents.hook_nodes import hook_node
from runwell.agents.limits import AgentLimits, Budget
from runwell.agents.middleware.human_in_the_loop import HumanInTheLoopMiddleware
from runwell.agents.middleware.middleware import HOOKS, WRAPS, AgentMiddleware, hooks_of
from runwell.agents.model_node import model_node
from runwell.agents.problems import Problems
from runwell.agents.roles import check_roles, message_types
from runwell.agents.routing import after_model, after_tools
from runwell.agents.setup import OnToolError, Setup
from runwell.agents.state import PRIVATE, AgentState, Ledger, mark_of
from runwell.agents.state_fields import check_state_fields
from runwell.agents.structured_output import ToolStrategy, strategy_of
from runwell.agents.tool_node import tool_node
from runwell.drivers.colour import callee
from runwell.errors import DuplicateTool, InvalidInput, NoCheckpointer
from runwell.graph.builder import StateGraph
from runwell.messages.convert import convert_to_messages
from runwell.messages.message import SystemMessage, ToolMessage
from runwell.ports.command import START, Overwrite
from runwell.tools.base_tool import BaseTool
from runwell.tools.toolbox import as_tool, as_tools

__all__ = ["create_agent"]

Approvals = Literal["off", "destructive", "all"] | Sequence[str] | Mapping[str, Any]

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
    wrong = dict(_wrong_kinds(locals()))
    for error in wrong.values():
        problems.add(error)
    # what is of the wrong kind has been said: what follows is judged without it
    budget, limits = (None if "budget" in wrong else budget), (None if "limits" in wrong else limits)
    state_schema = None if "state_schema" in wrong else state_schema
    tools = () if "tools" in wrong else tools
    chat = problems.of(partial(_model, model))
    hooks = _middleware(middleware, problems)
    given = [*(tool for hook in hooks for tool in problems.of(partial(_tools_of, hook), [])), *_listed(tools)]
    server_side = getattr(chat, "server_side_tools", ())
    made: list[Any] = [problems.of(partial(as_tool, tool, server_side=server_side)) for tool in given]
    usable: dict[str, Any] = {tool.name: tool for tool in made if tool is not None}
    found: dict[str, Any] = problems.of(
        partial(as_tools, [tool for tool in made if tool is not None], server_side=server_side, replace=replace_tools),
        usable,
    )
    hooks = _middleware([*hooks, *_second_tries(hooks, found, fallbacks, model_retry, tool_retry, problems)], problems)
    if isinstance(limits, AgentLimits) and limits.overflow != "error":
        from runwell.agents.overflow_hooks import overflow_hook

        hooks = _middleware([*hooks, overflow_hook(limits.overflow, chat)], problems)
    if model_retry == 0 and hasattr(chat, "with_max_retries"):
        chat = chat.with_max_retries(0)
    around: list[Any] = Problems().of(partial(hooks_of, hooks, "wrap_model_call"), [])  # told below
    gate = problems.of(partial(_gate, approvals, found, any(hook.owner.lends_tools for hook in around)))
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
        hooks = _with_hooks(hooks, problems)
        setup = make_setup(middleware=tuple(hooks))
    keys = _keys(setup, state_schema, problems)
    problems.of(partial(check_state_fields, setup.local.values(), keys))
    pauses = tuple(reason for each in hooks if (reason := each.pauses()))
    kept = tuple(reason for each in hooks if (reason := each.needs_checkpointer()))
    if checkpointer is False:
        if pauses:
            problems.add(_unpausing(called, pauses))
        if kept:
            problems.add(_unsaved(called, kept))
    agent: Any = problems.of(
        lambda: _graph(setup, keys, None if "context_schema" in wrong else context_schema).compile(
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
    agent.replaces_tools = replace_tools
    agent.pauses = pauses
    agent.needs_store = (
        *(f"tool {each.name!r}" for each in setup.local.values() if each.needs_store),
        *(reason for each in hooks if (reason := each.needs_store())),
    )
    agent.on_open = setup.open
    agent.hidden = PRIVATE.union(key for key, hint in keys.items() if mark_of(hint).unseen)
    agent.default_limit = NO_STEP_LIMIT
    if setup.limits.allowed_roles is not None:
        agent.check_caller = partial(check_roles, allowed=message_types(setup.limits.allowed_roles), owner=name)
    agent.stop_on_error = setup.limits.on_sibling_failure == "cancel"
    agent.default_concurrency = setup.limits.max_concurrency
    agent.on_input = _on_input(setup, kept, [key for key, hint in keys.items() if mark_of(hint).run])
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


def _wrong_kinds(given: Mapping[str, Any]) -> Iterator[tuple[str, InvalidInput]]:
    """The arguments that are of the wrong kind, and what is wrong."""

    def wrong(name: str, hint: str) -> tuple[str, InvalidInput]:
        return name, InvalidInput(f"{name}={given[name]!r:.100}.", hint=hint)

    for name, of in (("tools", "tools"), ("interrupt_before", "names"), ("interrupt_after", "names")):
        value = given[name]
        if value is not None and value not in ("*", "All") and not _is_list(value):
            problem = InvalidInput(f"{name}={value!r:.100} is not a list.", hint=f"Pass a list of {of}: {name}=[...].")
            yield name, problem
    for name, kind, hint in (
        ("budget", Budget, "a Budget"),
        ("limits", AgentLimits, "AgentLimits"),
    ):
        if given[name] is not None and not isinstance(given[name], kind):
            problem = InvalidInput(f"{name}={given[name]!r:.100} is not {hint}.", hint=f"Pass {kind.__name__}(...).")
            yield name, problem
    if given["on_tool_error"] not in ("default", "message", "raise") and not callable(given["on_tool_error"]):
        yield wrong("on_tool_error", 'It is "default", "message", "raise" or a function.')
    if given["state_schema"] is not None and not is_typeddict(given["state_schema"]):
        problem = InvalidInput(
            f"state_schema={given['state_schema']!r:.100} is not a TypedDict.",
            hint="Derive it: class MyState(AgentState): user_id: str",
        )
        yield "state_schema", problem
    if given["context_schema"] is not None and not isinstance(given["context_schema"], type):
        yield wrong("context_schema", "Pass a class: a dataclass, a TypedDict or a pydantic model.")
    system = given["system_prompt"]
    if system is not None and not isinstance(system, (str, SystemMessage)) and not callable(system):
        yield wrong("system_prompt", "Pass a text, a SystemMessage, or a function of the runtime that gives one.")
    if given["store"] is not None and not hasattr(given["store"], "search"):
        yield wrong("store", "Pass a store such as InMemoryStore() or SqliteStore(path).")
    if given["done"] is not None and not callable(given["done"]):
        yield wrong("done", "Pass a function of the state: True accepts the answer, a text says what is missing.")
    if given["name"] is not None and (not isinstance(given["name"], str) or not given["name"]):
        yield wrong("name", "Pass a text, or leave it out.")
    for name in ("model_retry", "tool_retry"):
        value = given[name]
        if isinstance(value, bool) or not isinstance(value, (int, AgentMiddleware, NoneType)):
            yield wrong(name, "Pass a number of retries (0: none), or a middleware.")


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, Mapping))


def _listed(value: Any) -> list[Any]:
    """A list as it was given; nothing where another complaint is about it."""
    return list(value) if _is_list(value) else []


def _tools_of(middleware: AgentMiddleware) -> list[Any]:
    if not _is_list(middleware.tools):
        raise InvalidInput(f"{middleware.name}.tools is {middleware.tools!r:.100}, not a list.", hint="tools = [...]")
    return list(middleware.tools)


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


def _gate(approvals: Approvals, tools: Mapping[str, Any], lends: bool) -> HumanInTheLoopMiddleware | None:
    """The middleware that `approvals=` stands for."""
    if approvals == "off":
        return None
    local = {name: tool for name, tool in tools.items() if isinstance(tool, BaseTool)}
    chosen: Mapping[str, Any]
    if approvals == "destructive":
        chosen = {name: True for name, tool in local.items() if tool.destructive}
    elif approvals == "all":
        chosen = dict.fromkeys(local, True)
    elif isinstance(approvals, Mapping):
        chosen = approvals
    elif isinstance(approvals, str):
        raise InvalidInput(
            f"approvals={approvals!r}.", hint='It is "off", "destructive", "all", a list of tool names, or a dict.'
        )
    elif not isinstance(approvals, Iterable):
        raise InvalidInput(
            f"approvals={approvals!r:.100}.", hint='It is "off", "destructive", "all", a list of tool names, or a dict.'
        )
    else:
        chosen = dict.fromkeys(approvals, True)
    if not chosen and approvals not in ("all", "destructive"):
        raise InvalidInput(
            f"approvals={approvals!r} asks about no tool.",
            hint='Name tools, or write "off" where nothing is to be asked.',
        )
    rule = str(approvals) if lends and approvals in ("all", "destructive") else None
    if not chosen and rule is None:
        return None
    gate = HumanInTheLoopMiddleware(chosen or {str(rule): False})  # none of the agent's own: those that hooks will add
    gate.lent_rule = rule
    return gate


def _second_tries(
    hooks: Sequence[AgentMiddleware],
    tools: Mapping[str, Any],
    fallbacks: Sequence[Any],
    model_retry: int | AgentMiddleware | None,
    tool_retry: int | AgentMiddleware | None,
    problems: Problems,
) -> list[AgentMiddleware]:
    """The middleware that `fallbacks=`, `model_retry=` and `tool_retry=` stand for: each model has its retries."""
    made: list[Any] = []
    if isinstance(fallbacks, str) or not isinstance(fallbacks, Sequence):
        problems.add(InvalidInput(f"fallbacks={fallbacks!r:.100}.", hint="Pass a list of models."))
    elif fallbacks:
        from runwell.agents.middleware.model_fallback import ModelFallbackMiddleware

        made.append(problems.of(lambda: ModelFallbackMiddleware(*fallbacks)))
    if isinstance(model_retry, AgentMiddleware):
        made.append(model_retry)
    elif model_retry and type(model_retry) is int:
        from runwell.agents.middleware.model_retry import ModelRetryMiddleware

        made.append(problems.of(lambda: ModelRetryMiddleware(max_retries=model_retry)))
    if isinstance(tool_retry, AgentMiddleware):
        made.append(tool_retry)
    elif tool_retry is None or (type(tool_retry) is int and tool_retry != 0):
        safe = [name for name, tool in tools.items() if getattr(tool, "idempotent", None)]
        if tool_retry is not None or safe:
            from runwell.agents.middleware.tool_retry import ToolRetryMiddleware

            if tool_retry is not None:
                made.append(problems.of(lambda: ToolRetryMiddleware(max_retries=tool_retry)))
            elif not any(isinstance(each, ToolRetryMiddleware) for each in hooks):
                made.append(ToolRetryMiddleware(tools=safe))
    return [each for each in made if each is not None]


def _middleware(given: Sequence[Any], problems: Problems) -> list[AgentMiddleware]:
    """Those that are middlewares of different names."""
    if not _is_list(given):
        problems.add(InvalidInput(f"middleware={given!r:.100} is not a list.", hint="Pass a list: middleware=[...]."))
        return []
    named: dict[str, AgentMiddleware] = {}
    for each in given:
        problems.of(partial(_name_in, named, each))
    return list(named.values())


def _name_in(named: dict[str, AgentMiddleware], each: Any) -> None:
    if not isinstance(each, AgentMiddleware):
        raise InvalidInput(
            f"middleware holds {each!r:.200}, which is not a middleware.",
            hint="Pass instances of AgentMiddleware, or functions decorated with @before_model, @wrap_tool_call, …",
        )
    called: Any = each.name
    if not isinstance(called, str) or not called:
        raise InvalidInput(f"{type(each).__name__} has the name {called!r}.", hint="A name is a text.")
    if called in named:
        raise InvalidInput(
            f"Two middlewares are called {called!r}.", hint="Give one another name (its `name` property)."
        )
    named[called] = each


def _with_hooks(hooks: Sequence[AgentMiddleware], problems: Problems) -> list[AgentMiddleware]:
    """Those whose hooks can all be called; what is wrong with others is told of each hook."""
    fine: list[AgentMiddleware] = []
    for each in hooks:
        called = [problems.of(partial(hooks_of, [each], name)) for name in (*HOOKS, *WRAPS)]
        if None not in called:
            fine.append(each)
    return fine


def _graph(setup: Setup, keys: Mapping[str, Any], context_schema: type | None) -> StateGraph[Any]:
    """The nodes there are for these parts, and nothing else."""
    state = _typed("AgentState", {**keys, **_hints(Ledger)})
    own = ("structured_response", "stopped")
    given = {name: hint for name, hint in keys.items() if name not in own and not mark_of(hint).input}
    told = {name: hint for name, hint in keys.items() if not mark_of(hint).output}
    graph: StateGraph[Any] = AgentGraph(
        state,
        context_schema,
        input_schema=_typed("AgentInput", given),
        output_schema=_typed("AgentOutput", told),
    )
    hooks = setup.hooks
    loop, end = setup.loop, setup.end
    graph.add_node("model", model_node(setup), destinations=(end,))
    places = [loop, end, *(["tools"] if setup.has_tools else [])]
    entry = loop
    for name in ("before_agent", "before_model", "after_model", "after_agent"):
        if hooks[name]:
            jumps = {setup.place(jump, name) for hook in hooks[name] for jump in hook.jumps}
            graph.add_node(name, hook_node(setup, name), destinations=tuple(sorted(jumps)), quiet=True)
    if hooks["before_agent"]:
        graph.add_edge("before_agent", loop)
        entry = "before_agent"
    graph.add_edge(START, entry)
    if hooks["before_model"]:
        graph.add_edge("before_model", "model")
    decider = "model"
    if hooks["after_model"]:
        graph.add_edge("model", "after_model")
        decider = "after_model"

    graph.add_conditional_edges(decider, after_model(setup), places, joint=True)
    if setup.has_tools:
        graph.add_node("tools", tool_node(setup))
        graph.add_conditional_edges("tools", after_tools(setup), places, joint=True)
    return graph


def _typed(name: str, keys: Mapping[str, Any]) -> type:
    """A TypedDict class made of these keys, all of which may be absent."""
    make: Any = TypedDict
    return make(name, dict(keys), total=False)  # type: ignore[no-any-return]


@lru_cache(maxsize=256)
def _hints(schema: type) -> dict[str, Any]:
    return get_type_hints(schema, include_extras=True)


def _read(schema: type) -> dict[str, Any]:
    try:
        return _hints(schema)
    except (NameError, TypeError) as error:
        raise InvalidInput(
            f"{schema.__qualname__} has an annotation that cannot be read: {error}.",
            hint="Define or import the name where the schema is defined, at module level.",
        ) from error


def _plain(hint: Any) -> Any:
    """An annotation without the word whether the key must be there."""
    return get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint


def _keys(setup: Setup, state_schema: type | None, problems: Problems) -> dict[str, Any]:
    """The state's keys with their annotations: the agent's own, the middlewares', the caller's."""
    keys: dict[str, Any] = {}
    origin: dict[str, tuple[type, Any]] = {}
    for schema in (AgentState, *(each.state_schema for each in setup.middleware), state_schema):
        if schema is None:
            continue
        for key, hint in problems.of(partial(_read, schema), {}).items():
            first = origin.setdefault(key, (schema, hint))
            if _plain(hint) != _plain(first[1]) and first[0] is not AgentState:
                problems.add(
                    InvalidInput(
                        f"{first[0].__qualname__} and {schema.__qualname__} mean different things by the state's key "
                        f"{key!r}: {first[1]!r:.100} and {hint!r:.100}.",
                        hint="Rename it in one of them, or declare it alike.",
                    )
                )
            keys[key] = hint
    for name in PRIVATE:
        keys.pop(name, None)
    return keys


def _unpausing(name: str, pauses: Sequence[str]) -> NoCheckpointer:
    return NoCheckpointer(
        f"{name!r} may pause ({'; '.join(pauses)}), and checkpointer=False means that nothing can save the pause.",
        hint="Give it a checkpointer, or leave the argument out to use the one of a graph around it.",
    )


def _unsaved(name: str, kept: Sequence[str]) -> NoCheckpointer:
    return NoCheckpointer(
        f"{name!r} needs a saved thread ({'; '.join(kept)}), and nothing saves it.",
        hint="Give it a checkpointer (InMemorySaver, SqliteSaver) and a thread_id, or leave that setting out.",
    )


def _on_input(setup: Setup, kept: Sequence[str], anew: Sequence[str]) -> Callable[[Any, list[Any]], list[Any]]:
    """What a new input does first: calls of an unfinished run are answered, what the last run left is cleared."""

    def on_input(run: Any, writes: list[Any]) -> list[Any]:
        if kept and run.saver is None:
            raise _unsaved(setup.name, kept)
        values = run.values
        history = values.get("messages") or []
        given = dict(writes)
        new = convert_to_messages(_as_list(given["messages"])) if given.get("messages") else []
        if not new and not history:
            raise InvalidInput(
                f"Agent {setup.name!r} got no messages, and its thread has none.",
                hint='Pass {"messages": [{"role": "user", "content": "..."}]}.',
            )
        finished: list[Any] = []
        if history:
            finished = _close(run, history, new)
        if new:
            given["messages"] = new
        if "ledger" in values:
            given["ledger"] = {}
        if "spent" in values:
            given["spent"] = Overwrite({})
        for name in ("structured_response", "stopped", *anew):
            if values.get(name) is not None:
                given[name] = None
        return [*finished, *given.items()]

    return on_input


def _close(run: Any, history: Sequence[Any], new: list[Any]) -> list[Any]:
    """Put answers to calls of an unfinished run before the `new` messages, unless these answer them. Gives what calls
    that finished changed beside their answers, which is kept with these."""
    answered = {message.tool_call_id for message in new if isinstance(message, ToolMessage)}
    finished = [write for record in run.records.values() if record.done for write in record.writes]
    kept_answers = {
        message.tool_call_id: message
        for channel, value in finished
        if channel == "messages"
        for message in _as_list(value)
        if isinstance(message, ToolMessage)
    }
    new[:0] = [each for each in abandoned_answers(history, kept_answers) if each.tool_call_id not in answered]
    if not kept_answers:
        return []
    known = run.graph.channels.keys() - {"messages", "ledger", "spent"}
    return [(name, value) for name, value in finished if name in known]


def _as_list(messages: Any) -> list[Any]:
    return messages if isinstance(messages, list) else [messages]


def _shapes(strategy: Any) -> frozenset[type]:
    """The classes a structured answer may be, so that it can be saved."""
    from runwell.persistence.serialization import reachable_types

    shapes = strategy.shapes.values() if isinstance(strategy, ToolStrategy) else [strategy.shape]
    found: set[type] = set()
    for shape in shapes:
        if isinstance(shape.schema, type):
            found |= reachable_types(shape.schema)
    return frozenset(found)
