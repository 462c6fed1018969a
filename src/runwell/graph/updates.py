"""What a node returned, as writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from runwell.errors import InvalidUpdateError, ParentCommand, nearest
from runwell.graph.plan import JUMP, ROUTE, Write
from runwell.graph.schema import Channel
from runwell.ports.command import END, Command, Send

if TYPE_CHECKING:
    from runwell.graph.compiled import CompiledStateGraph

__all__ = ["as_update", "changed_only", "checked_targets", "node_writes"]


def as_update(writes: list[Write], hidden: frozenset[str] = frozenset()) -> dict[str, Any] | None:
    """A task's writes as the update its node returned, without the `hidden` keys."""
    update = {name: value for name, value in writes if name not in (ROUTE, JUMP) and name not in hidden}
    return update or None


def checked_targets(graph: CompiledStateGraph, node: str, command: Command[Any]) -> list[str | Send]:
    targets = command.targets()
    for target in targets:
        name = target.node if isinstance(target, Send) else target
        if name != END and name not in graph.nodes:
            raise InvalidUpdateError(
                f"{node!r} jumps to {name!r}, no node of graph {graph.name!r}{nearest(str(name), graph.nodes)}.",
                hint=f"Nodes are {sorted(graph.nodes)}, and END; for the graph above pass graph=Command.PARENT.",
            )
    return targets


def node_writes(graph: CompiledStateGraph, node: str, result: Any) -> list[Write]:
    """What a node returned, as writes: a dict, a Command, a list of these, an object of the state's class, or None."""
    if result is None:
        return []
    if type(result) is dict:
        return list(result.items())
    if isinstance(result, Command):
        if result.graph == Command.PARENT:
            raise ParentCommand(result)
        if result.graph is not None or result.resume is not None:
            wrong = f"graph={result.graph!r}" if result.graph is not None else f"resume={result.resume!r:.100}"
            raise InvalidUpdateError(
                f"{node!r} returned a Command with {wrong}.",
                hint="A node may use graph=Command.PARENT or leave graph out; resume= is for the caller of the graph.",
            )
        writes = node_writes(graph, node, result.update)
        writes.extend((JUMP, target) for target in checked_targets(graph, node, result))
        return writes
    if isinstance(result, dict):
        return list(result.items())
    if isinstance(result, (list, tuple)):
        if result and all(isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str) for one in result):
            return list(result)
        return [write for one in result for write in node_writes(graph, node, one)]
    if hasattr(type(result), "__pydantic_validator__"):
        return [(name, getattr(result, name)) for name in result.model_fields_set if name in graph.channels]
    if hasattr(type(result), "__dataclass_fields__"):
        names = [name for name in type(result).__dataclass_fields__ if name in graph.channels]
        if names:
            return [(name, getattr(result, name)) for name in names]
    raise InvalidUpdateError(
        f"Node {node!r} returned {result!r:.200}, of type {type(result).__name__!r}.",
        hint="Return a dict of state keys, a Command, a list of these, or None.",
    )


def changed_only(channels: Mapping[str, Channel], before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Write]:
    """What a graph inside a node changed, from the state it was given and the one it gave: only that is written."""
    return [
        (name, _grown(channels[name], before.get(name), value))
        for name, value in after.items()
        if name in channels and not (name in before and _same(value, before[name]))
    ]


def _grown(channel: Channel, before: Any, after: Any) -> Any:
    """What a nested graph's value adds, for a channel that merges lists: its new tail if the rest is untouched."""
    if channel.reducer is not None and isinstance(before, list) and isinstance(after, list):
        size = len(before)
        if len(after) >= size and all(_same(a, b) for a, b in zip(before, after, strict=False)):
            return after[size:]
    return after


def _same(one: Any, other: Any) -> bool:
    """The same value; when the nested graph was resumed, a value that it never touched is an equal one, read back."""
    if one is other:
        return True
    try:
        return (one == other) is True
    except (TypeError, ValueError):  # a container of arrays cannot say
        return False
