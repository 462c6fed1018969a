"""An agent: a compiled graph that knows what it was built from."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

from runwell.graph.builder import StateGraph
from runwell.graph.compiled import CompiledStateGraph

if TYPE_CHECKING:
    from runwell.agents.agent_tool import AgentTool
    from runwell.agents.setup import Setup
    from runwell.seats.seat_map import SeatMap
    from runwell.tools.cost import ToolCost

__all__ = ["AgentGraph", "CompiledAgent"]


class CompiledAgent(CompiledStateGraph[Any]):
    """What `create_agent` gives. `setup` are its parts, to be read and not changed."""

    setup: Setup
    replaces_tools: bool = False

    @cached_property
    def shown(self) -> frozenset[str]:
        """The keys of a state that a snapshot shows."""
        return frozenset(self.channels) - self.hidden

    def watched_of(self, values: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in values.items() if name not in self.hidden}

    def input_of(self, run: Any, node: str) -> Any:
        return self.watched_of(super().input_of(run, node))

    def with_name(self, name: str) -> CompiledAgent:
        """The same agent under another name. This one stays as it is."""
        other = copy(self)
        other.name = name
        return other

    def as_tool(  # type: ignore[override]
        self,
        name: str | None = None,
        description: str | None = None,
        input_schema: Any = None,
        *,
        prompt: str | Callable[[dict[str, Any]], Any] | None = None,
        **fields: Any,
    ) -> AgentTool:
        """This agent as a tool of another one.

        A call runs the agent on the call's arguments and nothing else, and answers with its structured response, or
        the text of its last message. Without `input_schema` there is one argument, `task`, the message to the agent.
        With one (a Pydantic model, TypedDict, JSON schema) arguments that the agent's state has keys for go there and
        the others are its message, as JSON if there are several; `prompt` says it otherwise: a text with `{fields}`,
        or a function of the arguments that gives messages or a state.

        A pause in the agent pauses the caller, and the answer resumes into it. What the agent uses counts for the
        caller's budget; its own budget can only be tighter, and running out of it is a failed call. It remembers
        nothing from call to call unless it was made with `checkpointer=True`. `fields` are a tool's: `timeout`,
        `destructive`, `return_direct`, ...
        """
        from runwell.agents.agent_tool import as_tool

        return as_tool(self, name, description, input_schema, prompt, **fields)

    def tool_cost(self) -> list[ToolCost]:
        """The tokens that each of its tools adds to every request, the largest first, as its model counts them."""
        from runwell.tools.cost import tool_cost

        return tool_cost(self.setup.offered, self.setup.model)

    def seats(self) -> SeatMap:
        """Who decides what in this agent: one row for each judgment, with the code that holds it.

        `.to_markdown()` and `.to_html()` are pages of it, `.diff(other_agent)` what another one does differently.
        """
        from runwell.seats.live import seats_of  # a page about agents is not a part of them

        return seats_of(self)


class AgentGraph(StateGraph[Any]):
    """The graph that an agent is compiled from."""

    def _compiled_class(self) -> type[CompiledStateGraph[Any]]:
        return CompiledAgent
