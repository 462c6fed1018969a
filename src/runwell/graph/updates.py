"""What a node returned, as writes."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from runwell.errors import InvalidUpdateError, ParentCommand, nearest
from runwell.graph.plan import JUMP, Write
from runwell.graph.schema import Channel
from runwell.ports.command import END, Command, Send

if TYPE_CHECKING:
    from runwell.graph.compiled import CompiledStateGraph

__all__ = ["Seen", "changed_only", "checked_targets", "no_task", "node_writes", "same"]


_SHARED = (list, dict, set, bytearray, deque)
"""What two states have in common only if one was made of the other: nothing else tells by being the very same."""


class Seen(NamedTuple):
    """What a node was called with, and the state as it was then: the node may have changed the former."""

    given: Any
    values: Mapping[str, Any]


def checked_targets(graph: CompiledStateGraph, node: str, command: Command[Any]) -> list[str | Send]:
    targets = command.targets()
    for target in targets:
        if isinstance(target, Send) and target.node not in graph.nodes:
            raise no_task(repr(node), target.node, graph.nodes)
        name = target.node if isinstance(target, Send) else target
        if name != END and name not in graph.nodes:
            raise InvalidUpdateError(
                f"{node!r} jumps to {name!r}, no node of graph {graph.name!r}{nearest(str(name), graph.nodes)}.",
                hint=f"Nodes are {sorted(graph.nodes)}, and END; for the graph above pass graph=Command.PARENT.",
            )
    return targets


def said_by(result: Any, seen: Seen | None) -> dict[str, Any] | None:
    """The fields that an object of a schema's class says something of; None for any other object.

    Those of a Pydantic model that were set. Those of a dataclass that are not at their default, since there nothing
    tells one that was left out; all of them if it is the very object that the node was given.
    """
    if hasattr(type(result), "model_fields"):
        return {name: getattr(result, name) for name in type(result).model_fields if name in result.model_fields_set}
    if not dataclasses.is_dataclass(result) or isinstance(result, type):
        return None
    said = {each.name: getattr(result, each.name) for each in dataclasses.fields(result) if hasattr(result, each.name)}
    if seen is not None and result is seen.given:
        return said
    return {each.name: said[each.name] for each in dataclasses.fields(result) if not _at_default(each, said)}


def _at_default(each: dataclasses.Field[Any], said: Mapping[str, Any]) -> bool:
    if each.name not in said:
        return True
    default = each.default if each.default_factory is dataclasses.MISSING else each.default_factory()
    return same(said[each.name], default)


def _fields_of(result: Any) -> Iterable[str]:
    fields: Iterable[str] = getattr(type(result), "model_fields", getattr(result, "__dataclass_fields__", {}))
    return fields


def _of_object(graph: CompiledStateGraph, node: str, result: Any, said: Mapping[str, Any], seen: Seen) -> list[Write]:
    """The writes of an object of a schema's class: an update of what it says, or the state that the node was given, or
    a copy of that, with changes.

    What the latter two leave as it was is no change. A copy is known by a list or the like that it shares with what it
    was made of; see `_refuse_doubtful` for one without.
    """
    fields, before = frozenset(_fields_of(result)), seen.values
    copied = result is seen.given or any(
        isinstance(value := _field(result, name), _SHARED) and value is _field(seen.given, name) for name in fields
    )
    writes: list[Write] = []
    merged: dict[str, bool] = {}
    for name, value in said.items():
        channel = graph.channels.get(name)
        if channel is None:
            continue
        if name in before and (channel.reducer is None or copied):
            kept = value is before[name] if isinstance(value, _SHARED) else same(value, before[name])
            if kept and not (channel.reducer is None and isinstance(value, _SHARED)):
                continue
        elif channel.reducer is not None:
            merged[name] = name in before and same(value, before[name])
        writes.append((name, value))
    if any(merged.values()):
        here = before.keys() & fields
        whole = len(here) > 1 and all(name in said or same(_field(result, name), before[name]) for name in here)
        if whole:
            _refuse_doubtful(node, result, merged)
    return writes


def _refuse_doubtful(node: str, result: Any, merged: Mapping[str, bool]) -> None:
    """Refuse an object that says all that the state has, shares nothing with it, and equals it in what reducers would
    merge: it may be a copy, which leaves that as it was, or be made anew, to be merged once more.

    `merged` are its keys with a reducer, and whether each equals the state's. Numbers and texts are equal by chance
    too, so among others that are not they count as meant.
    """
    equal = [name for name, is_equal in merged.items() if is_equal]
    if len(equal) < len(merged) and not any(isinstance(_field(result, name), _SHARED) for name in equal):
        return
    raise InvalidUpdateError(
        f"Node {node!r} returned a {type(result).__qualname__!r} in which {', '.join(map(repr, equal))} equals what "
        "the state has: it cannot be told whether that is left as it was, or to be merged once more.",
        hint="Return a dict of what changed. (An object that shares a list or dict with the one the node was given, as "
        "dataclasses.replace(state, ...) and state.model_copy() do, is known to be a copy of it.)",
    )


def _field(thing: Any, name: str) -> Any:
    """A key of a state in whatever form, None where it has none."""
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def no_task(who: str, name: Any, nodes: Mapping[str, Any]) -> InvalidUpdateError:
    """For a `Send` to what is no node."""
    return InvalidUpdateError(
        f"{who} sends to {name!r}, which is not a node{nearest(str(name), nodes)}.",
        hint=f"Nodes are {sorted(nodes)}. To end, name END instead of sending to it.",
    )


def node_writes(graph: CompiledStateGraph, node: str, result: Any, seen: Seen | None = None) -> list[Write]:
    """What a node returned, as writes: a dict, a Command, a list of these, an object of a schema's class, or None.

    Of an object only what differs from what the node has `seen` is written.
    """
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
        writes = node_writes(graph, node, result.update, seen)
        writes.extend((JUMP, target) for target in checked_targets(graph, node, result))
        return writes
    if isinstance(result, dict):
        return list(result.items())
    if isinstance(result, (list, tuple)):
        if result and all(isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str) for one in result):
            return list(result)
        return [write for one in result for write in node_writes(graph, node, one, seen)]
    said = said_by(result, seen)
    if said is not None and not graph.channels.keys().isdisjoint(_fields_of(result)):
        return _of_object(graph, node, result, said, seen or Seen(None, {}))
    raise InvalidUpdateError(
        f"Node {node!r} returned {result!r:.200}, of type {type(result).__name__!r}.",
        hint="Return a dict of state keys, a Command, a list of these, or None.",
    )


def changed_only(channels: Mapping[str, Channel], before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Write]:
    """What a graph inside a node changed, from the state it was given and the one it gave: only that is written."""
    return [
        (name, _grown(channels[name], before.get(name), value))
        for name, value in after.items()
        if name in channels and not (name in before and same(value, before[name]))
    ]


def _grown(channel: Channel, before: Any, after: Any) -> Any:
    """What a nested graph's value adds, for a channel that merges lists: its new tail if the rest is untouched."""
    if channel.reducer is not None and isinstance(before, list) and isinstance(after, list):
        size = len(before)
        if len(after) >= size and all(same(a, b) for a, b in zip(before, after, strict=False)):
            return after[size:]
    return after


def same(one: Any, other: Any) -> bool:
    """The same value; when the nested graph was resumed, a value that it never touched is an equal one, read back."""
    if one is other:
        return True
    try:
        return (one == other) is True
    except (TypeError, ValueError):  # a container of arrays cannot say
        return False
