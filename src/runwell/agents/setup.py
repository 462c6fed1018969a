"""What an agent was built from, worked out once: its nodes read it at every step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from runwell.agents.lent_tools import LentTools
from runwell.agents.limits import AgentLimits, Budget
from runwell.agents.metering import Meter
from runwell.agents.middleware.middleware import AgentMiddleware, Hook, hooks_of
from runwell.agents.middleware.request_size import RequestSize
from runwell.agents.structured_output import ProviderStrategy, ToolStrategy
from runwell.effects import Callee
from runwell.graph.spent import used_before
from runwell.messages.message import SystemMessage
from runwell.tools.base_tool import BaseTool
from runwell.tools.provider_tool import ProviderTool

__all__ = ["OnToolError", "Setup"]

OnToolError = Literal["default", "message", "raise"] | Callable[..., Any]


@dataclass(slots=True, kw_only=True)
class Setup:
    """An agent's parts."""

    name: str
    model: Any
    tools: dict[str, BaseTool | ProviderTool]
    system: SystemMessage | Callee[Any] | None
    middleware: tuple[AgentMiddleware, ...]
    response_format: ToolStrategy[Any] | ProviderStrategy[Any] | None
    budget: Budget
    limits: AgentLimits
    on_tool_error: OnToolError
    done: Callee[Any] | None
    hooks: dict[str, list[Hook]] = field(init=False)
    wraps: list[Hook] = field(init=False)
    """The hooks around a call of the model."""
    local: dict[str, BaseTool] = field(init=False)
    offered: list[Any] = field(init=False)
    exclusive: frozenset[str] = field(init=False)
    return_direct: frozenset[str] = field(init=False)
    """Names of the tools that are so."""
    guards: tuple[AgentMiddleware, ...] = field(init=False)
    """Those that stand between the agent and its models."""
    bound: dict[Any, Any] = field(default_factory=dict)
    """Models with tools bound, by what they were bound with."""
    usual: tuple[Callee[Any], Any] | None = None
    """The agent's model as it is bound for a request that no hook has changed, once there was one."""
    goes_on: set[str] = field(default_factory=set)
    """Nodes in which nobody's code is called but the model's or tool's, in a run of its own: as known so far."""
    lent: LentTools = field(default_factory=LentTools)
    reader: BaseTool | None = None
    """What shows the rest of a result that was cut: offered once there is one."""
    size: RequestSize = field(default_factory=RequestSize)
    offered_after_cut: list[Any] = field(init=False)

    def __post_init__(self) -> None:
        names = ("before_agent", "before_model", "after_model", "after_agent", "wrap_model_call", "wrap_tool_call")
        self.hooks = {name: hooks_of(self.middleware, name) for name in names}
        self.hooks["after_model"].reverse()
        self.hooks["after_agent"].reverse()
        self.wraps = self.hooks["wrap_model_call"]
        if not self.hooks["wrap_tool_call"]:
            self.goes_on.add("tools")
        self.local = {name: tool for name, tool in self.tools.items() if isinstance(tool, BaseTool)}
        self.offered = list(self.tools.values())
        if self.reader is not None:
            self.local[self.reader.name] = self.reader
        self.offered_after_cut = [*self.offered, self.reader] if self.reader is not None else self.offered
        self.exclusive = frozenset(name for name, tool in self.local.items() if tool.exclusive)
        self.return_direct = frozenset(name for name, tool in self.local.items() if tool.return_direct)
        guarding = (AgentMiddleware.guard_model, AgentMiddleware.guard_answer)
        self.guards = tuple(
            each for each in self.middleware if (type(each).guard_model, type(each).guard_answer) != guarding
        )

    def open(self, run: Any) -> None:
        """A run begins or goes on: count what it uses, for it and for the run around it."""
        run.base.budget = Meter(self.budget, run.base.budget, used_before(run), self.name, told=not run.nested)

    # -- which nodes there are, and what follows what

    @property
    def has_tools(self) -> bool:
        return bool(self.local) or bool(self.hooks["wrap_tool_call"]) or self.may_lend

    @property
    def may_lend(self) -> bool:
        """Whether a hook may offer tools that are not the agent's."""
        return any(hook.owner.lends_tools for hook in self.hooks["wrap_model_call"])

    @property
    def loop(self) -> str:
        """Where a round of the model begins."""
        return "before_model" if self.hooks["before_model"] else "model"

    @property
    def end(self) -> str:
        """Where a run that finishes goes."""
        return "after_agent" if self.hooks["after_agent"] else "__end__"

    def place(self, jump: str, hook: str) -> str:
        """The node that `jump_to` of such a hook means. To the tools the way is past the hooks that review calls."""
        reviewed = self.hooks["after_model"] and hook != "after_model"
        return {"model": self.loop, "tools": "after_model" if reviewed else "tools", "end": self.end}[jump]


def settings_key(settings: Mapping[str, Any]) -> Any:
    """A hashable form of model settings, or None where they have none."""
    try:
        key = tuple(sorted(settings.items()))
        hash(key)
    except TypeError:
        return None
    return key
