"""Tools with marks for the provider: definitions in the place of the tools, which run as before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from runwell.errors import InvalidInput, UnsupportedByProvider
from runwell.schemas.dialects import MARKS, function_definition
from runwell.tools.base_tool import BaseTool

__all__ = [
    "MarkedTools",
    "Unsupported",
    "check_unsupported",
    "is_deferred",
    "name_of",
    "profile_of_model",
    "unsupported",
]

Unsupported = Literal["ignore", "warn", "raise"]


class MarkedTools:
    """Makes definitions of an agent's own tools, each once: what is bound to a model is known by its objects."""

    def __init__(self) -> None:
        self._own: dict[int, Any] = {}
        self._made: dict[Any, dict[str, Any]] = {}

    def learn(self, tools: Mapping[str, Any]) -> None:
        """These are the tools of an agent; those that a hook adds for a turn are left as they are."""
        self._own |= {id(tool): tool for tool in tools.values() if isinstance(tool, BaseTool)}

    def takes(self, tool: Any) -> bool:
        """Whether it can be marked: a tool of the agent's, or a definition made of one."""
        return id(tool) in self._own or (isinstance(tool, Mapping) and "function" in tool)

    def marked(self, tool: Any, **marks: Any) -> dict[str, Any]:
        """The definition with these marks and no others."""
        key = (id(tool), repr(marks))
        made = self._made.get(key)
        if made is None:
            plain = {name: value for name, value in function_definition(tool).items() if name not in MARKS}
            made = {**plain, **marks}
            if len(self._made) < 1024:
                self._made[key] = made
                self._own.setdefault(id(tool), tool)  # held: its id stays its own
        return made


def name_of(tool: Any) -> str:
    """A tool's name, whatever form it has."""
    if isinstance(tool, Mapping):
        function = tool.get("function")
        return str(function["name"] if isinstance(function, Mapping) else tool.get("name") or tool.get("type"))
    return str(tool.name)


def is_deferred(tool: Any) -> bool:
    """Whether its description is left for the provider to load."""
    given = tool if isinstance(tool, Mapping) else getattr(tool, "extras", None)
    return isinstance(given, Mapping) and given.get("defer_loading") is True


def profile_of_model(model: Any) -> Mapping[str, Any]:
    """What is known of a model, under what is bound to it."""
    return getattr(model, "profile", None) or {}


def check_unsupported(given: Any, owner: str) -> None:
    if given not in ("ignore", "warn", "raise"):
        raise InvalidInput(f"{owner}: unsupported={given!r}.", hint='It is "ignore", "warn" or "raise".')


def unsupported(how: Unsupported, what: str, model: Any, key: str, warn: Callable[[str], None]) -> None:
    """A model's profile does not say that it can do something."""
    if how == "ignore":
        return
    said = f"{model!r:.100} is not known to have {what}"
    if how == "raise":
        raise UnsupportedByProvider(
            f"{said}.", hint=f"If it has, say so: profile={{{key!r}: ...}}; unsupported='warn' goes on without."
        )
    warn(said)
