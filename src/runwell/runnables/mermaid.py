"""A graph as Mermaid text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runwell.runnables.graph_view import Graph, Node

__all__ = ["mermaid"]

PLAIN = frozenset(" _(),/|=+?!'")
"""What may stand in a quoted label beside letters and digits. All else is written as a code, since Mermaid reads
entities (#), markdown (`, *, 1.) and HTML (<, &) even inside quotes."""


def mermaid(graph: Graph) -> str:
    """The text. Nodes have ids of their own (`n0`, ...), so no name can be a word of the language, such as `end`."""
    ids = {key: f"n{at}" for at, key in enumerate(graph.nodes)}
    lines = ["graph TD;"]

    def box(group: str | None, indent: str) -> None:
        for key, node in graph.nodes.items():
            if node.group == group:
                lines.append(f"{indent}{ids[key]}{_shape(node)};")
        for at, (key, (name, outer)) in enumerate(graph.groups.items()):
            if outer == group:
                lines.append(f'{indent}subgraph g{at}["{label(name)}"]')
                box(key, indent + "    ")
                lines.append(f"{indent}end")

    box(None, "    ")
    for edge in graph.edges:
        arrow = "-.->" if edge.conditional else "-->"
        text = f'|"{label(edge.data)}"|' if edge.data else ""
        lines.append(f"    {ids[edge.source]} {arrow}{text} {ids[edge.target]};")
    return "\n".join(lines) + "\n"


def _shape(node: Node) -> str:
    text = label(node.name) or " "
    if node.note:
        text += f"<br/>{label(node.note)}"
    return f'(["{text}"])' if node.data is None else f'["{text}"]'


def label(text: str) -> str:
    """Text for inside the quotes of a label, to be shown as it is."""
    return "".join(
        "<br/>" if char == "\n" else char if char.isalnum() or char in PLAIN else f"#{ord(char)};" for char in text
    )
