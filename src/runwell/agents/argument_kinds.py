"""Which arguments of `create_agent` are of the wrong kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import NoneType
from typing import Any

from typing_extensions import is_typeddict

from runwell.agents.limits import AgentLimits, Budget
from runwell.agents.middleware.middleware import AgentMiddleware
from runwell.errors import InvalidInput
from runwell.messages.message import SystemMessage

__all__ = ["is_list", "listed", "wrong_kinds"]


def wrong_kinds(given: Mapping[str, Any]) -> Iterator[tuple[str, InvalidInput]]:
    """The arguments that are of the wrong kind, and what is wrong."""

    def wrong(name: str, hint: str) -> tuple[str, InvalidInput]:
        return name, InvalidInput(f"{name}={given[name]!r:.100}.", hint=hint)

    for name, of in (("tools", "tools"), ("interrupt_before", "names"), ("interrupt_after", "names")):
        value = given[name]
        if value is not None and value not in ("*", "All") and not is_list(value):
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


def is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, Mapping))


def listed(value: Any) -> list[Any]:
    """A list as it was given; nothing where another complaint is about it."""
    return list(value) if is_list(value) else []
