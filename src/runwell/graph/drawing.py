"""A compiled graph as a picture: its nodes, and every way from one to the next that can be known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from runwell.errors import InvalidInput
from runwell.graph.said import jumps_of, leads_of, may_jump
from runwell.ports.command import END, START
from runwell.runnables.graph_view import Edge, Graph

if TYPE_CHECKING:
    from runwell.graph.compiled import CompiledStateGraph
    from runwell.graph.node import Branch, Node

__all__ = ["picture"]


def picture(graph: CompiledStateGraph, xray: bool | int = False) -> Graph:
    """The graph's nodes and edges. `xray` shows what nested graphs are made of: True all of it, a number so many deep.

    An edge is conditional where code decides: conditional edges (labelled as the path map says) and the targets of
    a node's `Command`s, taken from `destinations` or from its return annotation `Command[Literal[...]]`. A path that
    says nothing of where it leads may lead to any node, and is drawn so.
    """
    if not isinstance(xray, int):
        raise InvalidInput(f"xray is {xray!r:.100}.", hint="Give True, False, or how many graphs deep.")
    drawn = Graph()
    drawn.add_node(None, START, id=START)
    for name, node in graph.nodes.items():
        made = drawn.add_node(_action(node), name, id=name)
        made.note = ", ".join(_notes(graph, name)) or None
    drawn.add_node(None, END, id=END)
    for edge in _edges(graph):
        if edge not in drawn.edges:
            drawn.edges.append(edge)
    deeper = xray if isinstance(xray, bool) else xray - 1
    for name, node in graph.nodes.items():
        inner = node.subgraph or node.around
        if xray and inner is not None:
            drawn.expand(name, picture(inner, deeper))
    return drawn


def _notes(graph: CompiledStateGraph, name: str) -> Iterator[str]:
    if name in graph.blueprint.deferred:
        yield "deferred"
    if name in graph.breaks_before:
        yield "pauses before"
    if name in graph.breaks_after:
        yield "pauses after"


def _action(node: Node) -> Any:
    return node.subgraph or node.flow or node.callee.sync or node.callee.aio


def _edges(graph: CompiledStateGraph) -> Iterator[Edge]:
    """All edges, by source, in the order in which nodes were added."""
    blueprint = graph.blueprint
    for source in (START, *graph.nodes):
        known = [Edge(source, target) for target in blueprint.edges.get(source, ())]
        known += [Edge(source, join.target) for join in blueprint.joins if source in join.sources]
        branches = [*graph.branches.get(source, ()), *([graph.joint[source]] if source in graph.joint else [])]
        for branch in branches:
            known += [Edge(source, target, label, True) for target, label in _choices(graph, branch)]
        if source != START:
            node = graph.nodes[source]
            jumps = jumps_of(node)
            drawn = {edge.target for edge in known}
            known += [Edge(source, target, node.labels.get(target), True) for target in jumps if target not in drawn]
            if not known:  # nothing follows it, as far as anyone can tell
                known = [Edge(source, END, None, node.flow is None and may_jump(node))]
        yield from known


def _choices(graph: CompiledStateGraph, branch: Branch) -> Iterator[tuple[str, str | None]]:
    """Where a conditional edge may lead, with a label where its answer is not simply the node's name."""
    if branch.ends is not None:
        for answer, target in branch.ends.items():
            yield target, None if answer == target else str(answer)
        return
    said = [name for name in leads_of(branch) if name == END or name in graph.nodes]
    yield from ((name, None) for name in (said or [*graph.nodes, END]))
