"""Results of nodes, kept and given again: what makes two runs of a node the same, and the cache as effects."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from runwell.drivers.colour import is_async
from runwell.effects import Call, Callee
from runwell.errors import GraphError, UnserializableType
from runwell.graph.plan import ROUTE, Write
from runwell.ports.cache import FullKey, Namespace

if TYPE_CHECKING:
    from runwell.graph.node import Node
    from runwell.ports.runtime import Runtime

__all__ = ["CacheCalls", "caller_of", "checked_cache", "identity", "key_of", "namespace_of", "seen_in"]

_log = logging.getLogger("runwell.cache")
PLACES = frozenset({"thread_id", "checkpoint_id", "checkpoint_ns"})
"""Configurable values that say where a run is kept, not what it works on."""


def checked_cache(given: Any) -> Any:
    """The cache if it is one; GraphError if not. None takes that of a graph around this one, False none at all."""
    if isinstance(given, type):
        raise GraphError(f"cache is the class {given.__name__!r}.", hint=f"Pass one: {given.__name__}(...).")
    if given is None or given is False or all(callable(getattr(given, n, None)) for n in ("get", "set", "clear")):
        return given
    raise GraphError(
        f"cache={given!r} cannot keep results.",
        hint="Pass a cache such as InMemoryCache() or SqliteCache(path) of runwell.persistence.caches.",
    )


class CacheCalls:
    """A cache's methods as effects, in whatever colour it has them. A cache that fails costs a warning, not the run."""

    __slots__ = ("_clear", "_get", "_set", "cache")

    def __init__(self, cache: Any) -> None:
        self.cache = cache
        self._get = _method(cache, "get")
        self._set = _method(cache, "set")
        self._clear = _method(cache, "clear")

    async def get(self, key: FullKey, types: frozenset[type]) -> list[Write] | None:
        """The writes kept under the key, or None."""
        try:
            found = await Call(self._get, [key], types)
        except Exception:
            _log.warning("A cache could not be read; the node runs", exc_info=True)
            return None
        kept = found.get(key)
        return None if kept is None else [(str(name), value) for name, value in kept]

    async def set(self, key: FullKey, writes: Sequence[Write], ttl: float | None, types: frozenset[type]) -> None:
        """Keep writes; where conditional edges led is not kept, since those look at the whole state."""
        kept = [[name, value] for name, value in writes if name != ROUTE]
        try:
            await Call(self._set, {key: (kept, ttl)}, types)
        except Exception:
            _log.warning("A cache could not be written; the result of %s is not kept", "/".join(key[0]), exc_info=True)

    async def clear(self, namespaces: Sequence[Namespace]) -> None:
        """Forget what is kept in these."""
        await Call(self._clear, namespaces)


def _method(cache: Any, name: str) -> Callee[Any]:
    method = getattr(cache, name)
    if is_async(method):
        return Callee(None, method)
    return Callee(method, getattr(cache, f"a{name}", None), cheap=bool(getattr(cache, "cheap", False)))


def namespace_of(graph: str, node: str) -> Namespace:
    """Where the results of a node are kept."""
    return ("nodes", graph, node)


def caller_of(runtime: Runtime[Any]) -> Any:
    """On whose behalf a run acts, as plain values."""
    principal = runtime.principal
    return None if principal is None else (principal.id, principal.tenant, tuple(sorted(principal.roles)))


def seen_in(runtime: Runtime[Any]) -> dict[str, Any]:
    """What code that takes `config` can see in it."""
    configurable = runtime.config.get("configurable") or {}
    return {name: value for name, value in configurable.items() if name not in PLACES}


def key_of(node: Node, graph: str, given: Any, runtime: Runtime[Any]) -> FullKey:
    """The key of one run of a node. Raises UnserializableType for an input that cannot be told from others.

    The code of the node counts, and on whose behalf the run acts; without a `key_func` also all else it can see.
    """
    from runwell.persistence.caches.keys import cache_key

    policy = node.cache
    assert policy is not None
    who = caller_of(runtime)
    code = _code_of(node)
    try:
        if policy.key_func is not None:
            key = cache_key(code, who, policy.key_func(given))
        else:
            seen = seen_in(runtime) if "config" in node.wants else {}
            key = cache_key(code or _here_only(node), who, given, runtime.context, seen)
    except UnserializableType as error:
        error.add_note(f"for the cache of node {node.name!r} of graph {graph!r}")
        raise
    return namespace_of(graph, node.name), key


def _code_of(node: Node) -> list[Any] | None:
    """What code a node is, worked out once: what it closes over may change as it runs."""
    if node.code is False:
        node.code = identity(node.subgraph or node.flow or node.callee.sync or node.callee.aio)
    return node.code  # type: ignore[no-any-return]


def _here_only(node: Node) -> str:
    """For code that cannot be told from other code: its results are kept for this very node, in this process."""
    if not node.token:
        node.token = os.urandom(12).hex()
    return node.token


def identity(action: Any, around: tuple[Any, ...] = ()) -> list[Any] | None:
    """What code this is, as plain values: equal in every process that has the same code. None if that cannot be said.

    A function is its name, byte code, defaults and what it closes over; what it finds in its module does not count.
    """
    if any(action is one for one in around):  # a function that names itself
        return ["itself"]
    around = (*around, action)
    if isinstance(action, partial):
        return _with(identity(action.func, around), action.args, action.keywords)
    if isinstance(action, MethodType):
        if isinstance(action.__self__, type):
            return _with(identity(action.__func__, around), action.__self__.__qualname__)
        return _with(identity(action.__func__, around), action.__self__)
    if not isinstance(action, FunctionType):
        return None
    cells = []
    for cell in action.__closure__ or ():
        try:
            content = cell.cell_contents
        except ValueError:  # a name that has no value yet
            return None
        inner = identity(content, around) if callable(content) else None
        if callable(content) and inner is None:
            return None
        cells.append(inner if inner is not None else content)
    made = [action.__module__, action.__qualname__, _code(action.__code__)]
    return _with(made, action.__defaults__, action.__kwdefaults__, cells)


def _code(code: CodeType) -> str:
    from hashlib import blake2b

    digest = blake2b(digest_size=16)
    todo: list[Any] = [code]
    while todo:
        one = todo.pop()
        if isinstance(one, CodeType):
            digest.update(one.co_code + repr((one.co_names, one.co_varnames, one.co_freevars)).encode())
            todo.extend(one.co_consts)
        else:
            shown = repr(sorted(one, key=repr)) if isinstance(one, frozenset) else repr(one)
            digest.update(shown.encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


def _with(made: list[Any] | None, *more: Any) -> list[Any] | None:
    """An identity with the values that belong to it; None if these cannot be told from others."""
    from runwell.persistence.caches.keys import cache_key

    if made is None:
        return None
    try:
        return [*made, cache_key(*more)]
    except UnserializableType:
        return None
