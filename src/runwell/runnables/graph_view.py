"""The parts of a runnable and how they are connected, to look at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Edge", "Graph", "Node"]


@dataclass(slots=True)
class Node:
    """A part: `id` is unique in its graph, `data` the runnable itself (None for the graph's ends)."""

    id: str
    name: str
    data: Any = None


@dataclass(slots=True)
class Edge:
    """`source` leads to `target`; `conditional` says that it is one of several, `data` labels it."""

    source: str
    target: str
    data: str | None = None
    conditional: bool = False


@dataclass(slots=True)
class Graph:
    """Nodes by id, and edges, the first and last node being the input and the output."""

    nodes: dict[str, Node] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)

    @classmethod
    def of(cls, runnable: Any) -> Graph:
        """The graph of a runnable."""
        graph = cls()
        start = graph.add_node(None, runnable.get_name("input"))
        ends = graph._part(runnable, [(start, None)])
        finish = graph.add_node(None, runnable.get_name("output"))
        for source, label in ends:
            graph.edges.append(Edge(source.id, finish.id, label))
        return graph

    def add_node(self, data: Any, name: str) -> Node:
        """A new node."""
        node = Node(str(len(self.nodes)), name, data)
        self.nodes[node.id] = node
        return node

    def add_edge(self, source: Node, target: Node, data: str | None = None, conditional: bool = False) -> Edge:
        """A new edge."""
        edge = Edge(source.id, target.id, data, conditional)
        self.edges.append(edge)
        return edge

    def _part(self, runnable: Any, sources: list[tuple[Node, str | None]]) -> list[tuple[Node, str | None]]:
        """Add a runnable behind `sources`; the nodes that what follows it is behind."""
        steps: Any = getattr(runnable, "steps", None)
        if isinstance(steps, list):
            for step in steps:
                sources = self._part(step, sources)
            return sources
        if hasattr(steps, "items"):
            ends = [end for key, step in steps.items() for end in self._part(step, [(s, key) for s, _ in sources])]
            join = self.add_node(runnable, runnable.get_name("output"))
            for source, _ in ends:
                self.add_edge(source, join)
            return [(join, None)]
        node = self.add_node(runnable, runnable.get_name())
        for source, label in sources:
            self.add_edge(source, node, label)
        return [(node, None)]

    def draw_mermaid(self) -> str:
        """The graph as Mermaid text."""
        lines = ["graph TD;"]
        lines += [f'    n{node.id}["{_quoted(node.name)}"];' for node in self.nodes.values()]
        for edge in self.edges:
            arrow = "-.->" if edge.conditional else "-->"
            label = f'|"{_quoted(edge.data)}"|' if edge.data is not None else ""
            lines.append(f"    n{edge.source} {arrow}{label} n{edge.target};")
        return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
