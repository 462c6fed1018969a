"""What the map needs to know of an agent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from runwell.agents.limits import Budget
from runwell.agents.middleware.middleware import AgentMiddleware
from runwell.errors import InvalidInput
from runwell.tools.base_tool import BaseTool
from runwell.tools.provider_tool import ProviderTool

if TYPE_CHECKING:
    from runwell.agents.compiled import CompiledAgent
    from runwell.agents.setup import Setup

__all__ = ["Facts", "named"]


class Facts:
    """An agent's parts, with the words for them."""

    def __init__(self, given: Any) -> None:
        agent = _layers(given)[-1]
        setup = getattr(agent, "setup", None)
        if setup is None:
            raise InvalidInput(
                f"{given!r:.200} is not an agent, so nobody sits in its seats.", hint="Pass what create_agent gave."
            )
        self.agent: CompiledAgent = agent
        self.setup: Setup = setup

    # -- the model

    @property
    def model(self) -> Any:
        """The model itself, under what binds, configures or retries it."""
        return _layers(self.setup.model)[-1]

    def around_model(self, attribute: str) -> list[Any]:
        """What stands around the model and has this attribute: fallbacks, retries."""
        return [each for each in _layers(self.setup.model)[:-1] if getattr(each, attribute, None)]

    @property
    def model_name(self) -> str:
        """`OpenAI's gpt-5` or so."""
        model = self.model
        name = getattr(model, "model_name", None) or getattr(model, "model", None)
        kind = type(model).__name__
        return f"{name} ({kind})" if isinstance(name, str) and name else kind

    @property
    def profile(self) -> dict[str, Any]:
        found = getattr(self.model, "profile", None)
        return dict(found) if found else {}

    # -- tools

    @property
    def local(self) -> dict[str, BaseTool]:
        return {name: tool for name, tool in self.setup.local.items() if tool is not self.setup.reader}

    @property
    def at_provider(self) -> list[str]:
        return [name for name, tool in self.setup.tools.items() if isinstance(tool, ProviderTool)]

    def which(self, **wanted: Any) -> list[str]:
        """Names of local tools whose attributes are these."""
        return [
            name
            for name, tool in self.local.items()
            if all(getattr(tool, key, None) == value for key, value in wanted.items())
        ]

    # -- middleware

    def hooked(self, *hooks: str) -> list[Any]:
        """The middleware that has one of these hooks and does not say what it is for, in the order given."""
        with_hook = {id(hook.owner) for name in hooks for hook in self.setup.hooks[name]}
        return [
            each
            for each in self.setup.middleware
            if id(each) in with_hook and type(each).seats is AgentMiddleware.seats
        ]


def _layers(part: Any) -> list[Any]:
    """The part, and what is inside it, down to what does the work."""
    found = [part]
    while len(found) < 20:
        outer = vars(found[-1]) if hasattr(found[-1], "__dict__") else {}
        inner = next((outer[name] for name in ("bound", "runnable", "default") if outer.get(name) is not None), None)
        if inner is None:
            break
        found.append(inner)
    return found


def named(names: Iterable[Any], none: str = "none") -> str:
    """Names in a row."""
    return ", ".join(str(name) for name in names) or none


def said_of(budget: Budget) -> str:
    """A budget's limits in words."""
    units = {"model_calls": "model calls", "tool_calls": "tool calls", "tokens": "tokens", "cost": "US dollars"}
    limits = ((getattr(budget, name), words) for name, words in {**units, "seconds": "seconds"}.items())
    return ", ".join(f"{value:,} {words}" for value, words in limits if value is not None)
