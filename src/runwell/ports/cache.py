"""Results kept so that the same work is not done twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

__all__ = ["BaseCache", "FullKey", "Namespace"]

Namespace = tuple[str, ...]
FullKey = tuple[Namespace, str]
"""What was done (say, which node), and with what."""


@runtime_checkable
class BaseCache(Protocol):
    """The port for results of nodes and tasks. Every method may be plain or `async`. Called from several threads.

    `types` is the graph's own allow-list, added to the cache's.
    """

    def get(self, keys: Sequence[FullKey], types: frozenset[type] = frozenset()) -> dict[FullKey, Any]:
        """What is kept under the keys; those that are not there are left out."""
        ...

    def set(self, pairs: Mapping[FullKey, tuple[Any, float | None]], types: frozenset[type] = frozenset()) -> None:
        """Keep values, each for so many seconds (None: for ever). What cannot be kept exactly is not kept."""
        ...

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Forget these namespaces; None: everything."""
        ...
