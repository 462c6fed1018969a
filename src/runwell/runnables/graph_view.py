"""The parts of a runnable, or of a state graph, and how they are connected: to look at."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Edge", "Graph", "Node"]


@dataclass(slots=True)
class Node:
    """A part: `id` is unique in its graph, `data` the part itself (None for a graph's beginning and end).

    `group` is the node it is inside of, if that one is drawn with what it is made of; `note` a remark to show with it.
    """

    id: str
    name: str
    data: Any = None
    group: str | None = None
    note: str | None = None


@dataclass(slots=True)
class Edge:
    """`source` leads to `target`; `conditional` says that it is one of several, `data` labels it."""

    source: str
    target: str
    data: str | None = None
    conditional: bool = False


class _End(NamedTuple):
    """Where what follows is to be connected, and how."""

    node: Node
    label: str | None = None
    conditional: bool = False


@dataclass(slots=True)
class Graph:
    """`nodes` by id, and `edges`, the first and last node being the beginning and the end.

    `groups` are nodes drawn with what they are made of: id to (name, the group that it is in itself).
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    groups: dict[str, tuple[str, str | None]] = field(default_factory=dict)

    @classmethod
    def of(cls, runnable: Any, xray: bool | int = False) -> Graph:
        """The graph of a runnable. `xray` opens state graphs among its parts: True all, a number so many deep."""
        graph = cls()
        start = graph.add_node(None, runnable.get_name("input"))
        ends = graph._part(runnable, [_End(start)])
        graph._lead(ends, graph.add_node(None, runnable.get_name("output")))
        for node in [node for node in graph.nodes.values() if xray and hasattr(node.data, "run_nested")]:
            graph.expand(node.id, node.data.get_graph(xray=xray if isinstance(xray, bool) else xray - 1))
        return graph

    def add_node(self, data: Any, name: str, *, id: str | None = None) -> Node:
        """A new node."""
        node = Node(str(len(self.nodes)) if id is None else id, name, data)
        self.nodes[node.id] = node
        return node

    def add_edge(self, source: Node, target: Node, data: str | None = None, conditional: bool = False) -> Edge:
        """A new edge."""
        edge = Edge(source.id, target.id, data, conditional)
        self.edges.append(edge)
        return edge

    def _lead(self, ends: list[_End], target: Node) -> None:
        for end in ends:
            self.add_edge(end.node, target, end.label, end.conditional)

    def _part(self, runnable: Any, ends: list[_End]) -> list[_End]:
        """Add a runnable behind `ends`; the ends that what follows it is behind."""
        from runwell.runnables.anatomy import choices_of

        steps: Any = getattr(runnable, "steps", None)
        if isinstance(steps, list):
            for step in steps:
                ends = self._part(step, ends)
            return ends
        own = vars(runnable) if hasattr(runnable, "__dict__") else {}
        if "mapper" in own:
            steps = own["mapper"].steps
        if hasattr(steps, "items"):
            joined = [
                end
                for key, step in steps.items()
                for end in self._part(step, [_End(end.node, key, end.conditional) for end in ends])
            ]
            join = self.add_node(runnable, runnable.get_name("output"))
            self._lead(joined, join)
            if "mapper" in own:  # the other keys pass by
                self._lead(ends, join)
            return [_End(join)]
        choices = list(choices_of(runnable))
        if len(choices) == 1 and choices[0][0] is None:  # a wrapper: what it wraps is what there is to see
            return self._part(choices[0][1], ends)
        node = self.add_node(runnable, runnable.get_name())
        self._lead(ends, node)
        if not choices:
            return [_End(node)]
        return [end for label, step in choices for end in self._part(step, [_End(node, label, True)])]

    def expand(self, id: str, inner: Graph) -> None:
        """Put `inner` in the place of a node, as a group of its own.

        Its nodes are called `id:name`; what led to the node leads to what `inner` begins with, and so at its end.
        """
        was = self.nodes[id]
        first, *_, last = inner.nodes
        renamed = {key: f"{id}:{key}" for key in inner.nodes}
        self.groups[id] = (was.name, was.group)
        for key, (name, group) in inner.groups.items():
            self.groups[f"{id}:{key}"] = (name, id if group is None else f"{id}:{group}")
        inside = {
            renamed[key]: Node(
                renamed[key], node.name, node.data, f"{id}:{node.group}" if node.group else id, node.note
            )
            for key, node in inner.nodes.items()
        }
        nodes: dict[str, Node] = {}
        for key, node in self.nodes.items():
            nodes.update(inside if key == id else {key: node})
        self.nodes = nodes
        for edge in self.edges:
            edge.source = renamed[last] if edge.source == id else edge.source
            edge.target = renamed[first] if edge.target == id else edge.target
        self.edges += [Edge(renamed[e.source], renamed[e.target], e.data, e.conditional) for e in inner.edges]
        self._splice(renamed[first])
        self._splice(renamed[last])

    def _splice(self, id: str) -> None:
        """Take a node out and connect what led to it with what it led to."""
        into = [edge for edge in self.edges if edge.target == id]
        out = [edge for edge in self.edges if edge.source == id]
        through = [
            Edge(
                before.source,
                after.target,
                " / ".join(label for label in (before.data, after.data) if label) or None,
                before.conditional or after.conditional,
            )
            for before in into
            for after in out
        ]
        kept: list[Edge] = []
        for edge in [*(edge for edge in self.edges if id not in (edge.source, edge.target)), *through]:
            if edge not in kept:
                kept.append(edge)
        self.edges = kept
        del self.nodes[id]

    def to_json(self) -> dict[str, Any]:
        """The graph as plain data, for a page that draws it."""
        return {
            "nodes": [
                {"id": node.id, "name": node.name, "group": node.group, "note": node.note}
                for node in self.nodes.values()
            ],
            "edges": [
                {"source": edge.source, "target": edge.target, "label": edge.data, "conditional": edge.conditional}
                for edge in self.edges
            ],
            "groups": [{"id": key, "name": name, "group": outer} for key, (name, outer) in self.groups.items()],
        }

    def draw_mermaid(self) -> str:
        """The graph as Mermaid text: conditional edges dashed, groups as boxes. Made here, offline, for any names."""
        from runwell.runnables.mermaid import mermaid

        return mermaid(self)

    def draw_ascii(self) -> str:
        """The graph as plain text: nodes below each other, conditional edges dotted, other edges in lanes beside."""
        from runwell.runnables.ascii_drawing import ascii_drawing

        return ascii_drawing(self)

    def draw_svg(self, output_file_path: str | Path | None = None) -> str:
        """The graph as the text of an SVG document, and written to a file if one is named.

        Laid out by Mermaid itself, in this process (`pip install "runwell[draw]"`); conditional edges are dashed.
        """
        from runwell.runnables.image_drawing import svg_drawing

        drawn = svg_drawing(self)
        if output_file_path is not None:
            Path(output_file_path).write_text(drawn, encoding="utf-8")
        return drawn

    def draw_png(self, output_file_path: str | Path | None = None, *, background_color: str = "white") -> bytes:
        """`draw_svg()` as a PNG image, on a background of any CSS colour ("transparent": none)."""
        from runwell.runnables.image_drawing import png_drawing

        drawn = png_drawing(self, background_color)
        if output_file_path is not None:
            Path(output_file_path).write_bytes(drawn)
        return drawn

    def draw_mermaid_png(self, *, output_file_path: str | Path | None = None, background_color: str = "white") -> bytes:
        """`draw_png()`, by its other name."""
        return self.draw_png(output_file_path, background_color=background_color)

    def print_ascii(self) -> None:
        """Print `draw_ascii()`."""
        print(self.draw_ascii())  # noqa: T201
