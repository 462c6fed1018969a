"""A graph as SVG or PNG: Mermaid's own layout and renderer, run in this process by a library, without a network."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from runwell.errors import MissingExtra

if TYPE_CHECKING:
    from runwell.runnables.graph_view import Graph

__all__ = ["png_drawing", "svg_drawing"]

_SETTINGS = {"flowchart": {"wrappingWidth": 10_000}}  # a name stays on its line
_ID = "my-svg"
"""What the renderer calls every picture."""
_LINE = 24
"""Height of a line of text, as the layout counts it."""


def svg_drawing(graph: Graph) -> str:
    """The text of an SVG document that any viewer shows. Several can stand in one page: their ids are their own."""
    from xml.dom.minidom import parseString

    text = graph.draw_mermaid()
    name = f"graph-{blake2b(text.encode(), digest_size=5).hexdigest()}"
    page: Any = parseString(_library("draw_svg()").render(text, config=_SETTINGS).svg())
    for label in list(page.getElementsByTagName("foreignObject")):
        _as_text(page, label)
    for element in page.getElementsByTagName("*"):
        for key, value in list(element.attributes.items()):
            if key == "id":
                element.setAttribute(
                    key, name + value.removeprefix(_ID) if value.startswith(_ID) else f"{name}-{value}"
                )
            elif "#" + _ID in value:
                element.setAttribute(key, value.replace("#" + _ID, "#" + name))
    for style in page.getElementsByTagName("style"):
        style.firstChild.data = style.firstChild.data.replace("#" + _ID, "#" + name)
    drawn: str = page.documentElement.toxml()
    return drawn


def _as_text(page: Any, label: Any) -> None:
    """Put SVG text in the place of a label in HTML, which browsers alone would show."""
    width, height = float(label.getAttribute("width")), float(label.getAttribute("height"))
    group = page.createElement("g")
    lines = _lines(label)
    if any(lines) and any("labelBkg" in each.getAttribute("class") for each in label.getElementsByTagName("div")):
        group.appendChild(_element(page, "rect", width=width, height=height, fill="#e8e8e8", fill_opacity=0.8))
    for at, line in enumerate(lines):
        middle = height / 2 + (at - (len(lines) - 1) / 2) * _LINE
        row = _element(page, "text", x=width / 2, y=middle, dy="0.35em", fill="#333", style="text-anchor: middle")
        row.appendChild(page.createTextNode(line))
        group.appendChild(row)
    label.parentNode.replaceChild(group, label)


def _lines(label: Any) -> list[str]:
    lines = [""]

    def walk(node: Any) -> None:
        if node.nodeType == node.TEXT_NODE:
            lines[-1] += node.data
        elif node.nodeName == "br":
            lines.append("")
        for child in node.childNodes:
            walk(child)

    walk(label)
    return lines


def _element(page: Any, name: str, **attributes: object) -> Any:
    made = page.createElement(name)
    for key, value in attributes.items():
        made.setAttribute(key.replace("_", "-"), str(value))
    return made


def png_drawing(graph: Graph, background_color: str) -> bytes:
    """The picture as a PNG."""
    made: bytes = _library("draw_png()").svg_to_png(svg_drawing(graph), background=background_color)
    return made


def _library(asked: str) -> Any:
    try:
        import mermaidx  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtra(f"{asked} of a graph", "draw") from None
    return mermaidx
