"""The node that calls the model and takes in what it said."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from operator import is_
from types import MappingProxyType, coroutine
from typing import Any

from runwell.agents.binding_tools import with_tools
from runwell.agents.cut_results import any_cut
from runwell.agents.history import last_answers, stray_among
from runwell.agents.lent_tools import about, lent_in
from runwell.agents.metering import Meter
from runwell.agents.middleware.middleware import Hook
from runwell.agents.middleware.requests import (
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    Unread,
    given_request,
    has_all_of,
    own_history,
    own_request,
    refused_return,
)
from runwell.agents.overflow import check_fits
from runwell.agents.setup import Setup, settings_key
from runwell.agents.structured_output import (
    MultipleStructuredOutputsError,
    ProviderStrategy,
    StructuredOutputValidationError,
    ToolStrategy,
    strategy_of,
)
from runwell.agents.tool_errors import malformed, unknown
from runwell.drivers.colour import callee
from runwell.effects import Call, Callee, CallHook, Flow, Now, Then, flow
from runwell.errors import (
    BudgetExceeded,
    InvalidInput,
    InvalidUpdateError,
    OutputParserException,
    StructuredOutputError,
)
from runwell.graph.engine import Task
from runwell.messages.calls import ensure_call_ids
from runwell.messages.convert import convert_to_messages
from runwell.messages.history import fresh_reply_id
from runwell.messages.message import AIMessage, BaseMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from runwell.messages.validity import require_valid_history
from runwell.observe.run import record_decision, watched
from runwell.ports.command import Command

__all__ = ["model_node"]

NOTHING: Mapping[Any, Any] = MappingProxyType({})
"""One for all turns."""


def model_node(setup: Setup) -> Callable[[Task], Any]:
    """The model's node. What comes next is left to the graph's edges."""
    wraps = setup.wraps
    lends = any(hook.flow is None for hook in wraps)  # what hooks may change is a copy
    usual, after_cut = Unread(setup.offered, list.copy), Unread(setup.offered_after_cut, list.copy)

    @flow
    @coroutine  # to `yield` the model's call: `await` would keep a generator for it, and the call, while it waits
    def model(task: Task) -> Generator[Any, Any, Any]:
        turn = _begun(setup, task, (yield Now()) if task.budget.timed else None)
        if type(turn) is not _Turn:
            return turn
        if isinstance(setup.system, Callee):
            turn.system = yield from _system(setup, setup.system, task)
        try:
            if wraps:
                offered = usual if turn.tools is setup.offered else after_cut
                request = _lent(turn, offered) if lends else _request(turn)
                response = yield from _inside(turn, 0, request).__await__()
            else:  # `_ask`, written out: a frame less while the model speaks
                called, messages, asked, bound, counted = _asking(turn, None)
                response = yield Call(called, messages)
                response = _answered(turn, asked, bound, counted, response)
        except BudgetExceeded as met:
            if not turn.meter.bounds(met):
                raise
            return _stopped(setup, met)
        return (yield from _take_in(turn, task, response))

    return model


def _begun(setup: Setup, task: Task, now: float | None) -> Any:
    """A turn of the model, or what stands in its stead: a limit is reached."""
    meter: Meter = task.budget
    values = task.values
    ledger = values.get("ledger") or NOTHING
    history = values.get("messages") or []
    stray: Sequence[ToolMessage] = ()
    answers: Sequence[BaseMessage] = history
    begun = "checked" in ledger  # what came in has been looked at; what this run adds is valid by itself
    if begun:
        reply, answers = last_answers(history)
        if answers and answers[0] is history[-1] and (stray := stray_among(reply, answers)):
            gone = set(map(id, stray))
            history = [message for message in history if id(message) not in gone]
            task.values = {**values, "messages": history}
    if not history:
        raise InvalidInput(
            f"Agent {setup.name!r} has no messages to answer.",
            hint='Pass {"messages": [...]} with at least one message.',
        )
    if now is not None:
        meter.begin(now)
    over = meter.reached(now)
    if over is not None:
        return _stopped(setup, over)
    if not begun:
        require_valid_history(history)
    if setup.reader is not None and "cut" not in ledger and any_cut(answers):
        ledger = {**ledger, "cut": True}
    return _Turn(setup, task, ledger, history, stray)


def _with_extra(turn: _Turn, taken: dict[str, Any]) -> list[Any]:
    extra = [update for place in sorted(turn.extra, reverse=True) for update in turn.extra[place]]
    if turn.stray:
        extra = [{"messages": [RemoveMessage(id=message.id or "") for message in turn.stray]}, *extra]
    return [*extra, taken]


class _Turn:
    """One run of the node: `asked` is how often the model was, more than once where a hook asked again.

    `extra` are the updates that came with the responses of inner hooks, by the hook's place; those of an attempt
    that was made again are forgotten. `lent` are tools offered that are not the agent's. `stray` are answers in the
    state whose calls are gone.
    """

    __slots__ = (
        "asked",
        "extra",
        "history",
        "ledger",
        "lent",
        "meter",
        "setup",
        "strategy",
        "stray",
        "system",
        "task",
        "tools",
    )

    def __init__(
        self,
        setup: Setup,
        task: Task,
        ledger: Mapping[str, Any],
        history: list[BaseMessage],
        stray: Sequence[ToolMessage],
    ) -> None:
        self.history = history
        self.setup = setup
        self.task = task
        self.ledger = ledger
        self.meter: Meter = task.budget
        self.system: Any = setup.system
        """A SystemMessage, or None, once it has been asked for."""
        self.strategy = setup.response_format
        self.asked = 0
        self.stray = stray
        self.tools: list[Any] = setup.offered_after_cut if "cut" in ledger else setup.offered
        self.lent: Mapping[str, Any] = NOTHING
        self.extra: Mapping[int, list[Any]] = NOTHING


def _stopped(setup: Setup, over: BudgetExceeded) -> Command[str]:
    """The limit's owner says what comes of it: this agent's budget, or that of a run around it."""
    rule = over.owner.budget.on_limit
    if watched():
        record_decision("F1", rule, f"{over.kind}: {over.value} of {over.limit}", "code")
    if rule == "raise":
        raise over
    return Command(update={"stopped": f"{over.kind}: {over.value} of {over.limit}"}, goto=setup.end)


# -- asking


def _request(turn: _Turn) -> ModelRequest:
    """The request as the agent makes it."""
    setup, task = turn.setup, turn.task
    runtime = task.runtime if setup.wraps or setup.guards else None  # nobody else is shown it
    return given_request(
        setup.model, turn.history, turn.system, turn.tools, setup.response_format, task.values, runtime
    )


def _lent(turn: _Turn, tools: Unread) -> ModelRequest:
    """The same, for hooks, which may change what they find in it."""
    setup, task, messages = turn.setup, turn.task, Unread(turn.history, own_history)
    return given_request(setup.model, messages, turn.system, tools, setup.response_format, task.values, task)


async def _system(setup: Setup, called: Callee[Any], task: Task) -> SystemMessage | None:
    """What a `system_prompt` function gives."""
    made = await Call(called, task.runtime)
    system = SystemMessage(made) if isinstance(made, str) else made
    if system is not None and not isinstance(system, SystemMessage):
        raise InvalidInput(
            f"The system_prompt function of agent {setup.name!r} gave {made!r:.100}, which is not a SystemMessage.",
            hint="It gives a text, a SystemMessage, or None.",
        )
    return system


def _inside(turn: _Turn, index: int, request: Any) -> Flow[ModelResponse[Any]] | Then[ModelResponse[Any]]:
    """The model call, inside the wrap_model_call hooks from `index` on: what a hook's handler runs."""
    wraps = turn.setup.wraps
    if type(request) is not ModelRequest and not isinstance(request, ModelRequest):
        raise InvalidUpdateError(
            f"{wraps[index - 1].owner.name}.wrap_model_call called its handler with {request!r:.200}.",
            hint="Call handler(request), or handler(request.override(...)).",
        )
    if turn.extra:
        turn.extra = {place: extra for place, extra in turn.extra.items() if place < index}
    if index == len(wraps):
        return _ask_again(turn, request) if turn.asked else _ask(turn, request)
    hook = wraps[index]
    if hook.flow is not None:
        return _in_flow(turn, index, request)
    if index:
        request = own_request(request)  # which it may change in place, and who hands it on may do so again
    return _Around(turn, index, request)


class _Around(Then[ModelResponse[Any]]):
    """A hook of a user's around the call."""

    __slots__ = ("index", "turn")

    def __init__(self, turn: _Turn, index: int, request: ModelRequest) -> None:
        self.effect = CallHook(turn.setup.wraps[index].callee, request, partial(_inside, turn, index + 1))
        self.turn = turn
        self.index = index

    def then(self, made: Any) -> ModelResponse[Any]:
        return made if type(made) is ModelResponse and made.result else _outcome(self.turn, self.index, made)


async def _in_flow(turn: _Turn, index: int, request: ModelRequest) -> ModelResponse[Any]:
    """A hook that is engine code."""
    return _outcome(turn, index, await turn.setup.wraps[index].flow(request, partial(_inside, turn, index + 1)))


def _outcome(turn: _Turn, index: int, made: Any) -> ModelResponse[Any]:
    """What the hook's caller gets of what the hook gave."""
    response, extra = _response(made, turn.setup.wraps[index])
    if extra:
        turn.extra = {**turn.extra, index: extra}
    return response


async def _ask_again(turn: _Turn, request: ModelRequest) -> ModelResponse[Any]:
    """That counts like any other call."""
    over = turn.meter.reached(await Now() if turn.meter.timed else None)
    if over is not None:
        raise over
    return await _ask(turn, request)


def _ask(turn: _Turn, request: ModelRequest) -> Then[ModelResponse[Any]]:
    """The call itself, of the request as the hooks leave it."""
    if _as_given(turn, request):
        turn.strategy = turn.setup.response_format
        called, messages, asked, bound, counted = _asking(turn, None)
    else:
        called, messages, asked, bound, counted = _asking(turn, _checked(turn, request))
    return Then(Call(called, messages), partial(_answered, turn, asked, bound, counted))


Asking = tuple[Callee[Any], list[BaseMessage], Any, Any, int]
"""What is called, with what; the model, that model bound and guarded, and how many calls the budget counts so far."""


def _asking(turn: _Turn, request: ModelRequest | None) -> Asking:
    """None is the request as the agent makes it, which need not be made where nobody looks at it."""
    setup, model = turn.setup, turn.setup.model
    if request is None and (
        setup.usual is None or setup.guards or turn.tools is not setup.offered or getattr(model, "profile", None)
    ):
        request = _request(turn)
    if request is None:
        messages, system, (called, bound) = turn.history, turn.system, setup.usual  # type: ignore[misc]
        turn.lent = NOTHING
    else:
        messages, system, model = request.messages, request.system_message, request.model
        if messages is not turn.history:  # a hook changed it
            require_valid_history(messages)
        if getattr(model, "profile", None):
            check_fits(request, setup.size)
        turn.lent = NOTHING
        if request.tools is not setup.offered:
            request, turn.lent = lent_in(request, setup.local)
        called, bound = _bound(setup, request)
        if setup.guards:
            for guard in setup.guards:
                bound = guard.guard_model(bound, request)
            called = callee(bound)
    turn.asked += 1
    if system is not None:
        messages = [system, *messages]
    return called, messages, model, bound, turn.meter.model_calls


def _answered(turn: _Turn, asked: Any, bound: Any, counted: int, reply: Any) -> ModelResponse[Any]:
    meter, setup = turn.meter, turn.setup
    if not isinstance(reply, AIMessage):
        raise InvalidUpdateError(
            f"The model {asked!r:.100} returned {reply!r:.200}, not an AIMessage.", hint="Use a chat model."
        )
    if meter.model_calls == counted:  # answered from a cache, or by a model that does not count
        meter.before(asked)
        meter.after(asked, None if getattr(asked, "cache", None) else reply.usage_metadata)
    if setup.guards and hasattr(bound, "update"):
        turn.extra = {**turn.extra, len(turn.setup.wraps): [bound.update()]}
    return ModelResponse([reply])


def _as_given(turn: _Turn, request: ModelRequest) -> bool:
    """Whether hooks left the request as the agent makes it: so most do."""
    setup = turn.setup
    return (
        has_all_of(request, turn.history, turn.tools)
        and request.model is setup.model
        and request.system_message is turn.system
        and request.tool_choice is None
        and request.response_format is setup.response_format
    )


def _checked(turn: _Turn, request: ModelRequest) -> ModelRequest:
    """The request as the hooks leave it, if it can be sent. The answer is judged by the format that it asks for."""
    setup = turn.setup
    changes: dict[str, Any] = {}
    problems: list[str] = []
    tools: Any = request.tools
    if tools is not setup.offered and tools is not setup.offered_after_cut:
        if type(tools) is not list and (isinstance(tools, (str, Mapping)) or not isinstance(tools, Iterable)):
            problems.append(f"tools={tools!r:.100} is not a list")
        else:
            tools = list(tools)
            if _same(tools, setup.offered):
                tools = setup.offered
            elif _same(tools, setup.offered_after_cut):
                tools = setup.offered_after_cut
            changes["tools"] = tools
    messages: Any = request.messages
    if messages is not turn.history:
        messages = messages if isinstance(messages, list) else convert_to_messages(messages)
        changes["messages"] = turn.history if _same(messages, turn.history) else messages
    if not hasattr(request.model, "bind_tools") and not hasattr(request.model, "invoke"):
        problems.append(f"model={request.model!r:.100} is not a chat model")
    settings: Any = request.model_settings
    if type(settings) is not dict and not isinstance(settings, Mapping):
        problems.append(f"model_settings={settings!r:.100} is not a dict")
    system: Any = request.system_message
    if system is not None and not isinstance(system, SystemMessage):
        if isinstance(system, str):
            changes["system_message"] = SystemMessage(system)
        else:
            problems.append(f"system_message={system!r:.100} is not a SystemMessage")
    if problems:
        raise InvalidInput(
            f"A wrap_model_call hook gave its handler a request that cannot be sent: {'; '.join(problems)}.",
            hint="Look at what it gives to request.override(...).",
        )
    wanted: Any = request.response_format
    if wanted is not setup.response_format:
        wanted = changes["response_format"] = strategy_of(wanted, request.model, tools=request.tools)
    turn.strategy = wanted
    return request.override(**changes) if changes else request


def _same(one: list[Any], other: list[Any]) -> bool:
    """Whether two lists hold the same objects."""
    return one is other or (len(one) == len(other) and all(map(is_, one, other)))


def _bound(setup: Setup, request: ModelRequest) -> tuple[Callee[Any], Any]:
    """The model with the request's tools, tool choice and format bound; made once for each combination."""
    usual = (
        request.tools is setup.offered
        and request.model is setup.model
        and request.response_format is setup.response_format
        and request.tool_choice is None
        and not request.model_settings
    )
    if usual and setup.usual is not None:
        return setup.usual
    key = (
        id(request.model),
        tuple(map(id, request.tools)),
        request.tool_choice if isinstance(request.tool_choice, str) else repr(request.tool_choice),
        id(request.response_format),
        settings_key(request.model_settings) if request.model_settings else (),
    )
    known = setup.bound.get(key)
    if known is not None:
        return known[:2]  # type: ignore[no-any-return]
    tools, choice, settings = list(request.tools), request.tool_choice, dict(request.model_settings)
    strategy = request.response_format
    if isinstance(strategy, ToolStrategy):
        tools.extend(strategy.tools())
        if choice is None and strategy.tool_choice == "any":
            choice = "any"
    elif isinstance(strategy, ProviderStrategy):
        settings.update(strategy.settings())
    model = request.model
    if tools:
        model = with_tools(model, tools, **({"tool_choice": choice} if choice is not None else {}), **settings)
    elif settings:
        model = model.bind(**settings)
    made = _called(model)
    if usual:
        setup.usual = made, model
        setup.goes_on.discard("model")
        if (
            _begins_at_once(model)
            and not (setup.wraps or setup.guards or setup.done)
            and setup.response_format is None
            and not isinstance(setup.system, Callee)
        ):
            setup.goes_on.add("model")
    if key[-1] is not None and len(setup.bound) < 256:  # what a hook makes anew each time is not kept for ever
        setup.bound[key] = (made, model, request.model, tuple(request.tools), strategy)  # held: the ids stay theirs
    return made, model


def _called(model: Any) -> Callee[Any]:
    """The model, to be called; a chat model in the form that holds least while it waits."""
    begin = getattr(type(model), "_begin_acall", None)
    if begin is None:
        return callee(model)

    def invoke(*args: Any, **kwargs: Any) -> Any:
        return model.invoke(*args, **kwargs)  # as it is then: a test may put another one in its place

    return Callee(invoke, partial(begin, model))


def _begins_at_once(model: Any) -> bool:
    """Whether a call of a model begins with its run, told to handlers, and ends with it."""
    if getattr(type(model), "_begin_acall", None) is None:
        return False
    from runwell.models.bound import BoundModel  # here: a chat model has brought them along, another model need not
    from runwell.models.chat_model import BaseChatModel

    chat = type(model.bound if type(model) is BoundModel else model)
    return chat.invoke is BaseChatModel.invoke and chat.ainvoke is BaseChatModel.ainvoke


def _response(made: Any, hook: Hook) -> tuple[ModelResponse[Any], list[Any]]:
    """What came out of a hook, and updates that came with it."""
    extra: list[Any] = []
    if isinstance(made, ExtendedModelResponse):
        command: Any = made.command
        if command is not None:
            if not isinstance(command, Command) or command.targets() or command.resume is not None or command.graph:
                raise InvalidUpdateError(
                    f"{hook.owner.name}.wrap_model_call gave {command!r:.200} with its response.",
                    hint="Give Command(update={...}) there. To go elsewhere, return jump_to from an after_model hook.",
                )
            if command.update is not None:
                extra.append(command.update)
        made = made.model_response
    if isinstance(made, AIMessage):
        made = ModelResponse([made])
    if not isinstance(made, ModelResponse) or not made.result:
        hint = "Return what handler(request) gave, a ModelResponse, or an AIMessage."
        raise refused_return(f"{hook.owner.name}.wrap_model_call returned", made, hint)
    return made, extra


# -- taking in the answer


async def _take_in(turn: _Turn, task: Task, response: ModelResponse[Any]) -> Any:
    """The state's update from what the model said: the reply, answers to calls that will not run, what is used up."""
    setup, ledger = turn.setup, turn.ledger
    result = response.result
    before, reply = result[:-1], result[-1]
    if before and (lost := _unanswered(before)):
        raise InvalidUpdateError(
            f"A wrap_model_call hook gave a message with the calls {lost} before the last one: nothing would run them.",
            hint="Only the last message of a ModelResponse may ask for tools; put ToolMessages after the others.",
        )
    if not isinstance(reply, AIMessage):
        return _with_extra(turn, {"messages": response.result, "ledger": {**ledger, "checked": True}})
    given_id = reply.id
    reply = fresh_reply_id(task.values["messages"], ensure_call_ids(reply))
    heard = watched()
    if heard and reply.id != given_id and given_id is not None:
        record_decision("B3", reply.id, f"the id {given_id!r} is another message's", "code")
    calls: list[Any] = reply.tool_calls
    told: list[BaseMessage] = []
    ledger = dict(ledger)
    ledger.pop("ask_again", None)
    ledger.pop("lent", None)
    update: dict[str, Any] = {}
    if task.values.get("structured_response") is not None:
        update["structured_response"] = None
    repairs = 0
    if reply.invalid_tool_calls:
        told += map(malformed, reply.invalid_tool_calls)
        repairs = 0 if calls else ledger.get("repairs", 0) + 1
        if heard:
            names = ", ".join(str(call.get("name")) for call in reply.invalid_tool_calls)
            outcome = "stopped" if repairs > setup.limits.max_repairs else "told"
            record_decision("B4", outcome, f"the arguments for {names} cannot be read", "code")
        if repairs > setup.limits.max_repairs:
            update["stopped"] = f"malformed tool calls, {repairs} times in a row"
    if turn.strategy is not None:
        calls = _formed(turn, reply, response, told, update, ledger)
    if response.structured_response is not None:
        update["structured_response"] = response.structured_response

    if calls:
        allowed, limit = turn.meter.take_tool_calls(len(calls))
        if limit is not None:
            told += [_refused(call, f"The limit of {limit} tool calls is reached.") for call in calls[allowed:]]
            if heard and len(calls) > allowed:
                record_decision("F9", "refused", f"{len(calls) - allowed} calls beyond {limit}", "code")
            calls = calls[:allowed]
        if not setup.has_tools:  # there is no node that would answer them
            told += [unknown(setup, call) for call in calls]
            calls = []
    finished = not calls and not told and not reply.tool_calls
    if finished and setup.done is not None:
        told += await _judged(setup, task, reply, update, ledger)
    ledger["checked"], ledger["repairs"] = True, repairs
    if turn.lent and (asked := {call["name"]: turn.lent[call["name"]] for call in calls if call["name"] in turn.lent}):
        ledger["lent"] = about(asked)
        for call in calls:
            if call["name"] in asked:
                setup.lent.remember(task.run, str(call["id"]), asked[call["name"]])
    if ledger != task.values.get("ledger"):
        update["ledger"] = ledger
    update["messages"] = [*before, reply, *told]
    return update if not (turn.extra or turn.stray) else _with_extra(turn, update)


def _formed(
    turn: _Turn,
    reply: AIMessage,
    response: ModelResponse[Any],
    told: list[BaseMessage],
    update: dict[str, Any],
    ledger: dict[str, Any],
) -> list[Any]:
    """Where an answer in a form is due: what comes of the reply goes to `told`, `update` and `ledger`. Gives the calls
    that are to run."""
    setup, strategy = turn.setup, turn.strategy
    spoke = not reply.tool_calls and not reply.invalid_tool_calls
    if isinstance(strategy, ProviderStrategy):
        if spoke:
            told += _native(setup, strategy, reply, response, update, ledger)
        return reply.tool_calls
    assert isinstance(strategy, ToolStrategy)
    answers = [call for call in reply.tool_calls if call["name"] in strategy.shapes]
    calls = [call for call in reply.tool_calls if call["name"] not in strategy.shapes]
    if answers:
        told += _structured(setup, strategy, reply, answers, calls, update, ledger)
        if strategy.on_mixed == "reject" and calls:
            told += [_refused(call, "Give the final answer and call other tools in separate turns.") for call in calls]
            return []
    elif spoke:
        told += _plain_text(setup, strategy, reply, ledger)
    return calls


def _unanswered(messages: list[BaseMessage]) -> list[str | None]:
    """The ids of calls in these messages that none of them answers."""
    answered = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    asked = [call["id"] for message in messages if isinstance(message, AIMessage) for call in message.tool_calls]
    return [each for each in asked if each not in answered]


def _refused(call: Any, why: str) -> ToolMessage:
    return ToolMessage(f"Not run: {why}", tool_call_id=call["id"], name=call["name"], status="error")


def _structured(
    setup: Setup,
    strategy: ToolStrategy[Any],
    reply: AIMessage,
    answers: list[Any],
    others: list[Any],
    update: dict[str, Any],
    ledger: dict[str, Any],
) -> list[BaseMessage]:
    """Parse the answer calls; each is answered, so that the history stays valid whatever comes of them."""
    parsed: list[Any] = []
    problem: Exception | None = None
    for call in answers:
        try:
            parsed.append(strategy.shapes[call["name"]].parse(call["args"]))
        except OutputParserException as error:
            problem = StructuredOutputValidationError(error.message)
            problem.__cause__ = error
    if problem is None and any(one != parsed[0] for one in parsed[1:]):
        problem = MultipleStructuredOutputsError(f"{len(answers)} different answers were given in one turn; give one.")
    rejected = strategy.on_mixed == "reject" and bool(others)
    if watched():
        record_decision("G3", "fits" if problem is None else "does not fit", str(problem or answers[0]["name"]), "code")
    if problem is None and not rejected:
        update["structured_response"] = parsed[0]
        said = strategy.tool_message_content or f"Answer received: {answers[0]['name']}."
        if strategy.on_mixed == "continue" and others:
            ledger["ask_again"] = True
            update.pop("structured_response")
            said = "Noted. Look at the results of the other calls, then give the final answer again."
        return [ToolMessage(said, tool_call_id=call["id"], name=call["name"]) for call in answers]
    ledger["ask_again"] = True
    text = "Not accepted: give the final answer alone, without other calls."
    if problem is not None:
        text = _counted(setup, strategy, problem, reply, ledger)
    return [ToolMessage(text, tool_call_id=call["id"], name=call["name"], status="error") for call in answers]


def _counted(
    setup: Setup, strategy: ToolStrategy[Any], problem: Exception, reply: AIMessage, ledger: dict[str, Any]
) -> str:
    """What to tell the model about a bad answer; raises once it has had all its attempts."""
    text = strategy.told(problem)
    if text is None:
        raise problem
    _attempt(setup, reply, text, ledger)
    return text


def _attempt(setup: Setup, reply: AIMessage, text: str, ledger: dict[str, Any]) -> None:
    attempts = [*ledger.get("attempts", ()), [_shown(reply), text]]
    ledger["attempts"] = attempts
    if watched():
        outcome = "raised" if len(attempts) >= setup.limits.max_answers else "tried again"
        record_decision("G4", outcome, f"attempt {len(attempts)} of {setup.limits.max_answers}: {text}", "code")
    if len(attempts) >= setup.limits.max_answers:
        raise StructuredOutputError(
            f"The model gave no valid structured answer in {len(attempts)} attempts; the last problem: {text}",
            attempts=[tuple(attempt) for attempt in attempts],
            hint="All attempts are in `.attempts`. Simplify the schema, use a stronger model, or raise "
            "AgentLimits(max_answers=...).",
        )


def _shown(reply: AIMessage) -> str:
    return reply.text or "; ".join(f"{call['name']}({call['args']})" for call in reply.tool_calls)


def _plain_text(
    setup: Setup, strategy: ToolStrategy[Any], reply: AIMessage, ledger: dict[str, Any]
) -> list[BaseMessage]:
    """Text where a structured answer is due goes back to the model."""
    names = " or ".join(strategy.shapes)
    text = f"Give the final answer by calling the tool {names}."
    _attempt(setup, reply, text, ledger)
    ledger["ask_again"] = True
    return [_from_program(text)]


def _native(
    setup: Setup,
    strategy: ProviderStrategy[Any],
    reply: AIMessage,
    response: ModelResponse[Any],
    update: dict[str, Any],
    ledger: dict[str, Any],
) -> list[BaseMessage]:
    if response.structured_response is not None:
        return []
    try:
        update["structured_response"] = strategy.shape.parse_text(reply.text)
    except OutputParserException as error:
        if watched():
            record_decision("G3", "does not fit", error.message, "code")
        text = f"{error.message} Answer again, with JSON that fits the schema."
        _attempt(setup, reply, text, ledger)
        ledger["ask_again"] = True
        return [_from_program(text)]
    if watched():
        record_decision("G3", "fits", strategy.shape.name, "code")
    return []


async def _judged(
    setup: Setup, task: Task, reply: AIMessage, update: dict[str, Any], ledger: dict[str, Any]
) -> list[BaseMessage]:
    """Ask `done=` about a final answer; a reason sends it back, a bounded number of times."""
    assert setup.done is not None
    state = {**task.values, **update, "messages": [*task.values["messages"], reply]}
    verdict = await Call(setup.done, state)
    accepted = verdict is True or verdict is None
    if watched():
        record_decision("G1", "accepted" if accepted else "not accepted", f"done= said {verdict!r:.500}", "code")
    if accepted:
        return []
    sent_back = ledger.get("sent_back", 0)
    if sent_back >= setup.limits.max_sent_back:
        update["stopped"] = f"not accepted after being sent back {sent_back} times: {verdict}"
        return []
    ledger["sent_back"] = sent_back + 1
    ledger["ask_again"] = True
    reason = verdict if isinstance(verdict, str) else "The answer is not complete yet."
    return [_from_program(reason)]


def _from_program(text: str) -> HumanMessage:
    """A message of the program's own, marked as such."""
    return HumanMessage(text, additional_kwargs={"from": "runwell"})
