"""An agent's nodes and edges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from runwell.agents.compiled import AgentGraph
from runwell.agents.hook_nodes import hook_node
from runwell.agents.model_node import model_node
from runwell.agents.routing import after_model, after_tools
from runwell.agents.setup import Setup
from runwell.agents.state import Ledger, mark_of
from runwell.agents.state_keys import hints_of
from runwell.agents.tool_node import tool_node
from runwell.graph.builder import StateGraph
from runwell.ports.command import START

__all__ = ["agent_graph"]


def agent_graph(setup: Setup, keys: Mapping[str, Any], context_schema: type | None) -> StateGraph[Any]:
    """The nodes there are for these parts, and nothing else."""
    state = _typed("AgentState", {**keys, **hints_of(Ledger)})
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
