"""Everything that is wrong with a graph's definition, as one list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from runwell.errors import nearest
from runwell.graph.plan import JUMP, ROUTE
from runwell.graph.said import jumps_of, leads_of, may_jump
from runwell.graph.spent import USED
from runwell.graph.streaming import INTERRUPT, STOPPED
from runwell.ports.command import END, START

if TYPE_CHECKING:
    from runwell.graph.builder import StateGraph

__all__ = ["RESERVED", "problems_of"]

RESERVED = frozenset({START, END, INTERRUPT, STOPPED, "__input__", "__metadata__", "__parent__"})
"""Names that no node may have; nor may a key of the state, which has these two more."""
RESERVED_KEYS = RESERVED | {ROUTE, JUMP, USED}


def problems_of(graph: StateGraph[Any]) -> list[str]:
    """One line for each problem; empty when it can be compiled."""
    problems: list[str] = []
    if not graph.nodes:
        problems.append("it has no nodes")
    problems.extend(_keys(graph))
    problems.extend(_edges(graph))
    problems.extend(_branches(graph))
    problems.extend(_jumps(graph))
    starts = any(start == START for start, _ in graph.edges) or any(source == START for source, _ in graph.conditional)
    if graph.nodes and not starts:
        problems.append("nothing leads from START to a node: add_edge(START, ...)")
    elif starts:
        problems.extend(f"node {name!r} cannot be reached from START" for name in _unreachable(graph))
    return problems


def _keys(graph: StateGraph[Any]) -> Iterator[str]:
    seen = set()
    for schema in graph.schemas:
        for key in schema.visible:
            if key in RESERVED_KEYS and key not in seen:
                seen.add(key)
                yield f"the state has a key {key!r}, a name that is reserved"


def _edges(graph: StateGraph[Any]) -> Iterator[str]:
    sources, targets = {*graph.nodes, START}, {*graph.nodes, END}
    for start, end in [*graph.edges, *((source, join.target) for join in graph.joins for source in join.sources)]:
        if start not in sources:
            yield f"the edge {start!r} → {end!r} starts at an unknown node{nearest(start, sources)}"
        if end not in targets:
            yield f"the edge {start!r} → {end!r} leads to an unknown node{nearest(end, targets)}"
    for join in graph.joins:
        if not join.sources:
            yield f"the edge to {join.target!r} starts at an empty list of nodes"


def _branches(graph: StateGraph[Any]) -> Iterator[str]:
    sources, targets = {*graph.nodes, START}, {*graph.nodes, END}
    for source, branch in graph.conditional:
        if source not in sources:
            yield f"a conditional edge starts at {source!r}, an unknown node{nearest(source, sources)}"
        if branch.ends is not None and not branch.ends:
            yield (
                f"the conditional edge {branch.name!r} from {source!r} has an empty path map, so it can lead nowhere; "
                "leave it out, or name where it may lead"
            )
        for end in branch.ends.values() if branch.ends is not None else leads_of(branch):
            if end not in targets:
                yield (
                    f"the conditional edge {branch.name!r} from {source!r} may lead to {end!r}, "
                    f"an unknown node{nearest(end, targets)}"
                )


def _jumps(graph: StateGraph[Any]) -> Iterator[str]:
    targets = {*graph.nodes, END}
    for node in graph.nodes.values():
        if node.subgraph is None:  # what a graph inside says is about its own nodes
            for target in jumps_of(node):
                if target not in targets:
                    yield f"node {node.name!r} may jump to {target!r}, an unknown node{nearest(target, targets)}"


def _unreachable(graph: StateGraph[Any]) -> list[str]:
    """Nodes no edge leads to. Where code may jump anywhere that cannot be told, and none is reported."""
    leads: dict[str, set[str]] = {}
    for start, end in graph.edges:
        leads.setdefault(start, set()).add(end)
    for join in graph.joins:
        for source in join.sources:
            leads.setdefault(source, set()).add(join.target)
    for source, branch in graph.conditional:
        ends = leads_of(branch) or graph.nodes if branch.ends is None else branch.ends.values()
        leads.setdefault(source, set()).update(ends)
    for node in graph.nodes.values():
        leads.setdefault(node.name, set()).update(jumps_of(node))
        if may_jump(node) and (node.destinations or node.handler is not None or not jumps_of(node)):
            return []  # `destinations` are for drawing, and need not be all
    seen, todo = {START}, [START]
    while todo:
        for target in leads.get(todo.pop(), ()):
            if target not in seen:
                seen.add(target)
                todo.append(target)
    return [name for name in graph.nodes if name not in seen]
