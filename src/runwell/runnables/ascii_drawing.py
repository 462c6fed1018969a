"""A graph as plain text: nodes in one column, edges between neighbours below them, all others in lanes beside.

__start__
    |
    v
  model ..+
    : <---:-+
    v     : |
  tools --:-+
__end__ <.+
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runwell.runnables.graph_view import Edge, Graph

__all__ = ["ascii_drawing"]


def ascii_drawing(graph: Graph) -> str:
    """The text, without a line break at its end."""
    order = _order(graph)
    place = {key: at for at, key in enumerate(order)}
    titles = [key if graph.nodes[key].group else graph.nodes[key].name for key in order]
    notes = [f" ({note})" if (note := graph.nodes[key].note) else "" for key in order]
    titles = [" ".join(title.split()) + note for title, note in zip(titles, notes, strict=True)]
    down: dict[int, Edge] = {}
    aside: list[Edge] = []
    for edge in graph.edges:
        at = place[edge.source]
        if place[edge.target] == at + 1 and at not in down:
            down[at] = edge
        else:
            aside.append(edge)
    # one row for each end of an edge in a lane, so that no two ends share a line
    rows: list[str] = []
    ends: dict[tuple[int, bool], int] = {}
    width = max(map(len, titles), default=0)
    middle = width // 2
    for at, title in enumerate(titles):
        mine = [(n, leaving) for n, edge in enumerate(aside) for leaving in (True, False)
                if place[edge.source if leaving else edge.target] == at]  # fmt: skip
        edge_below = down.get(at)
        stem = "" if edge_below is None else ":" if edge_below.conditional else "|"
        ends.update({end: len(rows) + row for row, end in enumerate(mine)})
        rows.append(title.center(width))
        rows += [stem.rjust(middle + 1).ljust(width)] * max(len(mine) - 1, 1 if edge_below else 0)
        if edge_below is not None:
            if edge_below.data:
                rows[-1] = f"{rows[-1].rstrip()} {' '.join(edge_below.data.split())}".ljust(width)
            rows.append("v".rjust(middle + 1).ljust(width))
    return "\n".join(line.rstrip() for line in _lanes(rows, middle, aside, ends))


def _lanes(rows: list[str], middle: int, edges: list[Edge], ends: dict[tuple[int, bool], int]) -> list[str]:
    """The rows with edges beside them, short ones nearest."""
    left = max(map(len, rows), default=0) + 1
    spans = {n: sorted((ends[n, True], ends[n, False])) for n in range(len(edges))}
    taken: list[list[list[int]]] = []
    lane: dict[int, int] = {}
    for n in sorted(spans, key=lambda n: spans[n][1] - spans[n][0]):
        low, high = spans[n]
        free = (at for at, used in enumerate(taken) if all(high < first or last < low for first, last in used))
        number = next(free, len(taken))
        if number == len(taken):
            taken.append([])
        taken[number].append([low, high])
        lane[n] = number
    texts = {n: f" {' '.join(edge.data.split())} " if edge.data else "" for n, edge in enumerate(edges)}
    start = left + 3 + max(map(len, texts.values()), default=0)
    grid = [list(row.ljust(start + 2 * len(taken))) for row in rows]
    for n, edge in enumerate(edges):
        low, high = spans[n]
        for at in range(low + 1, high):
            grid[at][start + 2 * lane[n]] = ":" if edge.conditional else "|"
    for n, edge in enumerate(edges):
        across = "." if edge.conditional else "-"
        column = start + 2 * lane[n]
        for leaving in (True, False):
            row = grid[ends[n, leaving]]
            first = max(len("".join(row[:left]).rstrip()), middle + 1) + 1
            for at in range(first, column):
                if row[at] == " ":
                    row[at] = across
            row[column] = "+"
            if leaving:
                row[first + 1 : first + 1 + len(texts[n])] = texts[n]
            else:
                row[first] = "<"
    return ["".join(row) for row in grid]


def _order(graph: Graph) -> list[str]:
    """Nodes so that edges lead down where they can: the reverse of the order in which a walk leaves them."""
    keys = list(graph.nodes)
    leads: dict[str, list[str]] = {key: [] for key in keys}
    for edge in graph.edges:
        leads[edge.source].append(edge.target)
    order: list[str] = []
    seen: set[str] = set(keys[1:][-1:])  # the end stays last
    for root in keys:
        left: list[str] = []
        stack = [(root, iter(reversed(leads[root])))] if root not in seen else []
        seen.add(root)
        while stack:
            key, rest = stack[-1]
            for target in rest:
                if target not in seen:
                    seen.add(target)
                    stack.append((target, iter(reversed(leads[target]))))
                    break
            else:
                left.append(key)
                stack.pop()
        order += reversed(left)
    return [*order, *keys[1:][-1:]]
