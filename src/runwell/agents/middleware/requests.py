"""What is handed to hooks around a model call and a tool call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, fields
from functools import cache
from operator import attrgetter, is_
from typing import Any, Generic

from typing_extensions import TypeVar

from runwell.drivers.colour import is_coroutine
from runwell.errors import InvalidInput, InvalidUpdateError, nearest
from runwell.graph.engine import Task
from runwell.graph.schema import ContextT
from runwell.messages.history import MessageList
from runwell.messages.message import AIMessage, BaseMessage, SystemMessage
from runwell.ports.command import Command
from runwell.ports.runtime import Runtime

__all__ = [
    "ExtendedModelResponse",
    "ModelCallResult",
    "ModelRequest",
    "ModelResponse",
    "ResponseT",
    "ToolCallRequest",
    "Unread",
    "given_request",
    "has_all_of",
    "own_call",
    "own_call_request",
    "own_history",
    "own_request",
    "refused_return",
]

ResponseT = TypeVar("ResponseT", default=Any)


@cache
def _fields_of(kind: Any) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    """The names of its fields, and what reads them all at once."""
    names = tuple(each.name for each in fields(kind))
    return names, attrgetter(*names)


def _overridden(value: Any, changes: dict[str, Any]) -> Any:
    kind: Any = type(value)
    known, read = _fields_of(kind)
    for name in changes:
        if name not in known:
            raise InvalidInput(
                f"{kind.__name__}.override() has no {name!r}{nearest(name, known)}.",
                hint=f"It takes {sorted(known)}.",
            )
    return kind(**(dict(zip(known, read(value), strict=True)) | changes))


@dataclass(slots=True, kw_only=True)
class ModelRequest(Generic[ContextT]):
    """One call of the model, before it is made. Give the handler a changed copy: `request.override(messages=...)`.

    `messages` is the history without the system message. `tools` are those the model is offered. `state` is the agent's
    state (not to be changed), `model_settings` are further keyword arguments for the model.
    """

    model: Any
    messages: list[BaseMessage]
    system_message: SystemMessage | None = None
    tools: list[Any] = field(default_factory=list)
    tool_choice: Any = None
    response_format: Any = None
    state: Mapping[str, Any] = field(default_factory=dict)
    runtime: Runtime[ContextT] = field(default_factory=Runtime)
    model_settings: dict[str, Any] = field(default_factory=dict)

    @property
    def system_prompt(self) -> str | None:
        """The system message's text."""
        return self.system_message.text if self.system_message is not None else None

    def override(self, **changes: Any) -> ModelRequest[ContextT]:
        """A copy with some fields changed; `system_prompt="..."` is taken too."""
        if "system_prompt" in changes:
            prompt = changes.pop("system_prompt")
            changes["system_message"] = SystemMessage(prompt) if prompt is not None else None
        return _overridden(self, changes)  # type: ignore[no-any-return]


@dataclass(slots=True)
class ModelResponse(Generic[ResponseT]):
    """What came of a model call: `result` messages (the reply last), and a `structured_response` parsed from it."""

    result: list[BaseMessage]
    structured_response: ResponseT | None = None


@dataclass(slots=True)
class ExtendedModelResponse(Generic[ResponseT]):
    """A model response and a `Command` whose update goes into the state with it."""

    model_response: ModelResponse[ResponseT]
    command: Command[Any] | None = None


ModelCallResult = ModelResponse[Any] | AIMessage | ExtendedModelResponse[Any]
"""What a `wrap_model_call` hook may return."""


@dataclass(slots=True, kw_only=True)
class ToolCallRequest:
    """One tool call, before it is made. `tool` is None when the model named one that does not exist.

    Give the handler a changed copy: `request.override(tool_call={**request.tool_call, "args": ...})`.
    """

    tool_call: dict[str, Any]
    tool: Any
    state: Mapping[str, Any]
    runtime: Any

    def override(self, **changes: Any) -> ToolCallRequest:
        """A copy with some fields changed."""
        return _overridden(self, changes)  # type: ignore[no-any-return]


ToolHandler = Callable[[ToolCallRequest], Any]


class Unread:
    """What a field of a request holds until it is read for the first time: then `made(of)`, which is the hook's own.

    Most hooks look at little of what they are given. What it is made `of` is nobody's to change.
    """

    __slots__ = ("made", "of")

    def __init__(self, of: Any, made: Callable[[Any], Any]) -> None:
        self.of = of
        self.made = made

    def own(self) -> Any:
        return self.made(self.of)


def _on_reading(name: str, kind: type, make: Callable[[Any], Any]) -> None:
    """Have a field made, by `make`, when it is read and holds a `kind`. What it holds before is under its name with
    `_held` in front."""
    slot: Any = vars(ModelRequest)[name]
    held, hold = slot.__get__, slot.__set__

    def read(request: Any) -> Any:
        found = held(request)
        if type(found) is kind:
            found = make(found)
            hold(request, found)
        return found

    setattr(ModelRequest, f"_held_{name}", slot)
    setattr(ModelRequest, name, property(read, hold))


for _name in ("messages", "tools", "model_settings"):
    _on_reading(_name, Unread, Unread.own)
_on_reading("runtime", Task, attrgetter("runtime"))
_NO_SETTINGS = Unread({}, dict.copy)


def given_request(
    model: Any,
    messages: Any,
    system: Any,
    tools: Any,
    form: Any,
    state: Any,
    runtime: Any,
    choice: Any = None,
    settings: Any = _NO_SETTINGS,
) -> ModelRequest:
    """A request, for code that makes one at every step; the messages, tools and settings may be `Unread`, and the
    runtime the task whose it is."""
    made: Any = object.__new__(ModelRequest)
    made.model = model
    made._held_messages = messages
    made.system_message = system
    made._held_tools = tools
    made.tool_choice = choice
    made.response_format = form
    made.state = state
    made._held_runtime = runtime
    made._held_model_settings = settings
    return made  # type: ignore[no-any-return]


def own_history(history: Any) -> Any:
    """A list of its own, of the messages of a history, which it knows that it has while nobody changes it."""
    if type(history) is not MessageList:
        return history.copy()
    own = MessageList(history, history.places)
    own.left = history
    return own


def _own_messages(messages: Any) -> Any:
    if type(messages) is MessageList:
        own = MessageList(messages, messages.places)
        if messages.left is not None and len(messages.left) == len(messages):
            own.left = messages.left
        return own
    return messages.copy() if isinstance(messages, list) else messages


def own_request(request: ModelRequest) -> ModelRequest:
    """The request with lists of its own, for a hook that may change them in place."""
    given: Any = request
    messages = given._held_messages
    if type(messages) is not Unread:
        messages = _own_messages(messages)
    tools = given._held_tools
    if isinstance(tools, list):
        tools = tools.copy()
    settings = given._held_model_settings
    if isinstance(settings, dict):
        settings = settings.copy()
    if type(request) is not ModelRequest:
        return request.override(messages=messages, tools=tools, model_settings=settings)
    return given_request(
        request.model, messages, request.system_message, tools, request.response_format, request.state,
        given._held_runtime, request.tool_choice, settings,
    )  # fmt: skip


def has_all_of(request: ModelRequest, history: list[BaseMessage], tools: list[Any]) -> bool:
    """Whether its messages and tools are these, and it has no settings, so far as that can be told at once."""
    given: Any = request
    messages = given._held_messages
    if type(messages) is Unread:
        messages = messages.of
    elif type(messages) is MessageList and messages.left is not None and len(messages.left) == len(messages):
        messages = messages.left
    offered = given._held_tools
    if type(offered) is Unread:
        offered = offered.of
    settings = given._held_model_settings
    return (
        messages is history
        and (settings is _NO_SETTINGS or settings == {})
        and (
            offered is tools or (type(offered) is list and len(offered) == len(tools) and all(map(is_, offered, tools)))
        )
    )


def own_call_request(request: ToolCallRequest) -> ToolCallRequest:
    """The request with a call of its own, likewise."""
    return request.override(tool_call=own_call(request.tool_call))


def refused_return(said: str, made: Any, hint: str) -> InvalidUpdateError:
    """What is wrong with what a hook around a call gave back."""
    if is_coroutine(made):
        made.close()
        return InvalidUpdateError(
            f"{said} a coroutine that nothing awaited.", hint="In an `async` hook write: return await handler(request)."
        )
    return InvalidUpdateError(f"{said} {made!r:.200}.", hint=hint)


def own_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """A call whose arguments may be changed in place: the history's stays as the model wrote it."""
    args = call["args"]
    plain = type(args) is dict and _FIXED.issuperset(map(type, args.values()))
    return {**call, "args": args.copy() if plain else deepcopy(args)}


_FIXED = frozenset((str, int, float, bool, type(None)))
