"""Middleware: hooks before, after and around what an agent does, written once in either colour."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, cast

from runwell.agents.middleware.requests import ModelRequest, ResponseT, ToolCallRequest
from runwell.drivers.colour import is_async
from runwell.drivers.other_colour import stands_for_both
from runwell.effects import Callee, is_flow
from runwell.errors import InvalidInput
from runwell.graph.schema import ContextT, StateT

if TYPE_CHECKING:
    from runwell.ports.seat import Held

__all__ = ["HOOKS", "JUMPS", "WRAPS", "AgentMiddleware", "Hook", "hook_config", "hooks_of"]

HOOKS = ("before_agent", "before_model", "after_model", "after_agent")
"""Hooks that see the state between steps."""
WRAPS = ("wrap_model_call", "wrap_tool_call")
"""Hooks around a call."""
JUMPS = ("model", "tools", "end")
"""Where a hook may send the agent."""


class AgentMiddleware(Generic[StateT, ContextT, ResponseT]):
    """Derive from it and write any of the hooks, plain or `async`: each works in both kinds of run.

    `before_agent(state, runtime)`, `before_model`, `after_model`, `after_agent` return None, or a dict for the state;
    `"jump_to"` in it (`"model"`, `"tools"`, `"end"`) goes there instead, if the hook is marked with
    `@hook_config(can_jump_to=[...])`. `wrap_model_call(request, handler)` returns what `handler(request)` gives, or
    anything in its place; `wrap_tool_call(request, handler)` likewise. Plain before/after hooks must not block.

    `before_*` run in the order given, `after_*` in reverse, the first `wrap_*` is the outermost. `state_schema` adds
    keys to the agent's state, `tools` adds tools. `name` must be unique in an agent.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        hooks = (*HOOKS, *WRAPS)
        for name, value in vars(cls).items():
            if (
                callable(value)
                and not hasattr(AgentMiddleware, name)
                and name.removeprefix("a") not in hooks
                and not name.startswith("_")
            ):
                from difflib import get_close_matches

                close = get_close_matches(name, hooks, n=1, cutoff=0.9)
                if close:
                    raise InvalidInput(
                        f"{cls.__qualname__}.{name} is no hook; did you mean {close[0]!r}?",
                        hint="Name a helper of your own with a leading underscore.",
                    )

    state_schema: ClassVar[type | None] = None
    tools: Sequence[Any] = ()
    lends_tools: ClassVar[bool] = True
    """False promises that `wrap_model_call` offers no tools but the agent's, so that none needs no node to run them."""

    @property
    def name(self) -> str:
        return type(self).__name__

    def before_agent(self, state: Any, runtime: Any) -> Any:
        """Once, before anything else in a run."""

    def before_model(self, state: Any, runtime: Any) -> Any:
        """Before each model call."""

    def after_model(self, state: Any, runtime: Any) -> Any:
        """After each model call, before its tool calls run."""

    def after_agent(self, state: Any, runtime: Any) -> Any:
        """Once, at the end of a run that finishes."""

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        """Around each model call."""
        return handler(request)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        """Around each tool call."""
        return handler(request)

    def guard_model(self, model: Any, request: ModelRequest) -> Any:
        """What is called in the place of `model`, nearest to it, whichever model the hooks have chosen.

        It has `invoke(messages)` and `ainvoke(messages)`. If it has `update()`, what that gives afterwards goes into
        the state with the reply.
        """
        return model

    def guard_answer(self, answer: Any) -> Any:
        """What is told in the place of `answer`, the ToolMessage about a call that failed."""
        return answer

    def pauses(self) -> str | None:
        """Why a run may pause because of this middleware; None if it does not."""
        return None

    def needs_checkpointer(self) -> str | None:
        """What of this middleware only a saved thread can hold; None if nothing."""
        return None

    def needs_store(self) -> str | None:
        """What of this middleware needs the run's long-term store; None if nothing."""
        return None

    def seats(self) -> Iterable[Held]:
        """The judgments it takes, as it is configured, for `agent.seats()`."""
        return ()

    def check(self, tools: dict[str, Any]) -> None:
        """Called when the agent is built, with all its tools by name: raise for a setting that cannot work."""


class Hook:
    """One hook of one middleware, ready to be called.

    `flow` is set for a hook that is engine code itself (`@flow`): it is awaited in place, with a handler that gives
    a flow, and costs no change of colour in either kind of run.
    """

    __slots__ = ("callee", "flow", "jumps", "owner")

    def __init__(self, owner: AgentMiddleware, callee: Callee[Any], jumps: tuple[str, ...], flow: Any = None) -> None:
        self.owner = owner
        self.callee = callee
        self.jumps = jumps
        self.flow = flow


def hook_config(*, can_jump_to: Sequence[str] = ()) -> Callable[[Any], Any]:
    """Says where a hook may jump to: any of "model", "tools", "end"."""
    for target in can_jump_to:
        if target not in JUMPS:
            raise InvalidInput(f"A hook cannot jump to {target!r}.", hint=f"It can jump to {', '.join(JUMPS)}.")

    def mark(function: Any) -> Any:
        function.__runwell_can_jump_to__ = tuple(can_jump_to)
        return function

    return mark


def _written(owner: AgentMiddleware, name: str) -> Any:
    """The hook if the middleware's class (or the object) has its own, else None."""
    own = getattr(owner, "__dict__", {}).get(name) is not None or _has_own(cast("Any", type(owner)), name)
    return getattr(owner, name) if own else None


def _takes_two(hook: Any) -> bool:
    """Whether a hook can be called with two arguments. What is not a plain function is left alone."""
    function = getattr(hook, "__func__", hook)
    code = getattr(function, "__code__", None)
    if code is None or hasattr(function, "__wrapped__"):
        return True
    most = code.co_argcount - hasattr(hook, "__self__")
    if len(function.__kwdefaults__ or ()) < code.co_kwonlyargcount:
        return False
    return most - len(function.__defaults__ or ()) <= 2 and (most >= 2 or bool(code.co_flags & 0x04))


@lru_cache(maxsize=2048)
def _has_own(cls: Any, name: str) -> bool:
    """Whether a class of middleware has a hook that is not the base's. What `__getattr__` makes up is not asked for."""
    found = next((vars(each)[name] for each in cls.__mro__ if name in vars(each)), None)
    return found is not None and found is not vars(AgentMiddleware).get(name)


def hooks_of(middleware: Sequence[AgentMiddleware], name: str) -> list[Hook]:
    """The hooks called `name`, in the order of the middleware.

    An `a`-prefixed twin is used in async runs; one of the two that a class writes anew stands for both.
    """
    found: list[Hook] = []
    for owner in middleware:
        plain, twin = _written(owner, name), _written(owner, f"a{name}")
        if plain is None and twin is None:
            continue
        if plain is not None and twin is not None:
            both = stands_for_both(type(owner), name, f"a{name}", AgentMiddleware)
            plain, twin = (None if both == f"a{name}" else plain), (None if both == name else twin)
        for hook in (plain, twin):
            if hook is not None and not _takes_two(hook):
                arguments = "state, runtime" if name in HOOKS else "request, handler"
                raise InvalidInput(
                    f"{owner.name}.{getattr(hook, '__name__', name)} cannot be called with ({arguments}).",
                    hint=f"Write it as {name}({arguments}).",
                )
        sync, aio = (None, plain) if plain is not None and is_async(plain) else (plain, None)
        jumps = tuple(getattr(plain or twin, "__runwell_can_jump_to__", ()))
        made = plain if is_flow(plain) else None
        found.append(Hook(owner, Callee(sync, twin or aio, cheap=name in HOOKS), jumps, made))
    return found
