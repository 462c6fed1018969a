"""Where code says that it leads: by the annotation of what it returns, or by what it names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from runwell.effects import is_flow
from runwell.ports.command import Command

if TYPE_CHECKING:
    from runwell.graph.node import Branch, Node

__all__ = ["jumps_of", "leads_of", "may_jump"]


def leads_of(branch: Branch) -> list[str]:
    """Where a conditional edge without a path map says that it leads: the texts in `-> Literal["a", "b"]`."""
    return list(_annotated(branch.callee.sync or branch.callee.aio))


def jumps_of(node: Node) -> list[str]:
    """Where a node's `Command`s go: its `destinations`, or what it says by `-> Command[Literal["a", "b"]]`."""
    if node.destinations:
        return list(node.destinations)
    action = node.subgraph or node.flow or node.callee.sync or node.callee.aio
    return list(dict.fromkeys(_annotated(action, Command)))


def may_jump(node: Node) -> bool:
    """Whether a node's code could return a Command: its names mention the class, or it cannot be read."""
    if node.subgraph is not None:  # what is inside may jump out
        return any(may_jump(inner) for inner in node.subgraph.nodes.values())
    if node.flow is not None:
        return True
    handler = None if node.handler is None else node.handler.callee
    return any(
        _mentions_command(one.sync or one.aio) for one in (node.callee, handler) if one is not None
    )  # fmt: skip


def _mentions_command(function: Any) -> bool:
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code is None or "Command" in code.co_names


def _annotated(function: Any, inside: Any = None) -> Iterator[str]:
    """The texts in `Literal`s of a return annotation; with `inside` only those in `inside[...]`."""
    function = getattr(function, "func", function)
    if not hasattr(function, "__annotations__"):
        function = getattr(function, "__call__", None)  # noqa: B004
    if "return" not in (getattr(function, "__annotations__", None) or ()) or is_flow(function):
        return
    try:
        hint = get_type_hints(function).get("return")
    except (NameError, TypeError, AttributeError):  # a name that only a type checker knows: nothing is said
        return
    waiting = [(hint, inside is None)]
    while waiting:
        one, within = waiting.pop(0)
        if isinstance(one, str):
            if within:
                yield one
            continue
        within = within or get_origin(one) is inside
        waiting += [(argument, within) for argument in get_args(one)]
