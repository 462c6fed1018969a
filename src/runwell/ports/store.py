"""Long-term memory: items under namespaces, found by key, by what they hold, and by meaning.

A namespace is a tuple of labels, outermost first: `("users", "ann", "notes")`. Labels are compared whole and exactly.
A store is written by its `batch` or its `abatch`; every other method is one of the two with a single operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypedDict, cast

from runwell.drivers.other_colour import answer_in_both, beneath, writes
from runwell.errors import InvalidInput, InvalidNamespaceError, UsageError
from runwell.ports.embeddings import Embeddings

__all__ = [
    "NOT_PROVIDED",
    "BaseStore",
    "GetOp",
    "IndexConfig",
    "Item",
    "ListNamespacesOp",
    "MatchCondition",
    "Namespace",
    "NotProvided",
    "Op",
    "PutOp",
    "Result",
    "SearchItem",
    "SearchOp",
    "TTLConfig",
    "check_label",
    "check_namespace",
    "validate_op_namespace",
]

Namespace = tuple[str, ...]
Value = dict[str, Any]


class NotProvided:
    """Nothing was said, which is not the same as None."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NOT_PROVIDED"


NOT_PROVIDED: Final = NotProvided()


@dataclass(slots=True)
class Item:
    """What is stored under a key of a namespace. Times are UTC. `value` is the caller's own copy."""

    value: Value
    key: str
    namespace: Namespace
    created_at: datetime
    updated_at: datetime

    def dict(self) -> Value:
        """As JSON data, as far as `value` is."""
        return {
            "namespace": list(self.namespace),
            "key": self.key,
            "value": self.value,
            "created_at": self.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
        }


@dataclass(slots=True)
class SearchItem(Item):
    """An item that was found. `score` is how near its meaning is to the query, at most 1; None without a query."""

    score: float | None = None

    def dict(self) -> Value:
        return {**Item.dict(self), "score": self.score}


@dataclass(slots=True, frozen=True)
class GetOp:
    """Gives the item, or None. `refresh_ttl` starts its time to live anew."""

    namespace: Namespace
    key: str
    refresh_ttl: bool = True


@dataclass(slots=True, frozen=True)
class PutOp:
    """Stores `value` under the key, or with None deletes what is there. Gives None.

    `index` says what semantic search finds it by: paths into the value, False for nothing, None for the store's own
    `fields`. `ttl` is how many minutes it lives, None for ever.
    """

    namespace: Namespace
    key: str
    value: dict[str, Any] | None
    index: Literal[False] | list[str] | None = None
    ttl: float | None = None


@dataclass(slots=True, frozen=True)
class SearchOp:
    """Gives the items in and below a namespace that match, as a list of SearchItem."""

    namespace_prefix: Namespace
    filter: dict[str, Any] | None = None
    limit: int = 10
    offset: int = 0
    query: str | None = None
    refresh_ttl: bool = True


@dataclass(slots=True, frozen=True)
class MatchCondition:
    """A namespace must begin (`prefix`) or end (`suffix`) with `path`, in which `"*"` stands for any one label."""

    match_type: Literal["prefix", "suffix"]
    path: Namespace


@dataclass(slots=True, frozen=True)
class ListNamespacesOp:
    """Gives the namespaces that hold items and meet all conditions, cut to `max_depth` labels, in order."""

    match_conditions: tuple[MatchCondition, ...] | None = None
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0


Op = GetOp | PutOp | SearchOp | ListNamespacesOp
Result = Item | list[Item] | list[SearchItem] | list[Namespace] | None


class IndexConfig(TypedDict, total=False):
    """How a store finds items by meaning.

    `embed` turns text into vectors of `dims` numbers. `fields` are the paths into values whose text is embedded:
    `"title"`, `"author.name"`, `"tags[*]"` (each by itself), `"chapters[*].text"`, `"$"` (all of it as JSON). Default:
    `["$"]`. `hnsw` (True, or a dict of `m` and `ef_construction`) lets PostgreSQL find nearly the nearest by an index
    of pgvector's, in place of exactly the nearest by looking at all.
    """

    dims: int
    embed: Embeddings | Callable[[Sequence[str]], list[list[float]]]
    fields: list[str] | None
    hnsw: bool | dict[str, int]


class TTLConfig(TypedDict, total=False):
    """How long items live. `default_ttl` in minutes, for items put without `ttl=`. `refresh_on_read` (True): reading an
    item starts its time anew, unless the read says otherwise. What has expired is never given; it is removed from
    storage when something is put, at most every `sweep_interval_minutes` (5), or by `sweep_ttl()`."""

    default_ttl: float | None
    refresh_on_read: bool
    sweep_interval_minutes: float | None


def check_label(label: Any, namespace: Any) -> None:
    if not isinstance(label, str):
        raise InvalidNamespaceError(
            f"Namespace {namespace!r} has the label {label!r}; labels are text.", hint="Use str(label)."
        )
    if not label:
        raise InvalidNamespaceError(f"Namespace {namespace!r} has an empty label.", hint="Leave it out.")
    if not label.isascii():
        try:
            label.encode()
        except UnicodeEncodeError:
            raise InvalidNamespaceError(f"Namespace {namespace!r} has a label with half a character.") from None
    if "\x00" in label:
        raise InvalidNamespaceError(f"Namespace {namespace!r} has a label with a zero character.")


def check_namespace(namespace: Any, *, empty: bool = False, wild: bool = False) -> None:
    """Raise InvalidNamespaceError unless it is a tuple of labels; `empty` lets none, `wild` lets `"*"` through."""
    if isinstance(namespace, str) or not isinstance(namespace, (tuple, list)):
        raise InvalidNamespaceError(
            f"{namespace!r} is not a namespace.", hint='A namespace is a tuple of labels: ("users", "ann").'
        )
    if not namespace and not empty:
        raise InvalidNamespaceError("A namespace cannot be empty here.", hint='Give at least one label: ("notes",).')
    for label in namespace:
        check_label(label, namespace)
        if label == "*" and not wild:
            raise InvalidNamespaceError(
                f'Namespace {namespace!r} has the label "*", which stands for any label in list_namespaces().',
                hint="Use another label.",
            )


validate_op_namespace = check_namespace
"""By this name for stores of one's own."""


class BaseStore:
    """A store of either colour: write `batch` or `abatch`, and get the rest in both.

    Operations of a batch are done in order, each seeing the ones before, and all of its puts are kept or none. Values
    are dicts; what is given back is always a copy. Raises InvalidNamespaceError and InvalidInput (both ValueErrors)
    before anything is done.
    """

    supports_ttl: bool = False
    ttl_config: TTLConfig | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        answer_in_both(cls, {"batch": "abatch"}, BaseStore)
        answer_in_both(cls, {name: f"a{name}" for name in ("get", "put", "delete", "search", "list_namespaces")})

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """The result of each operation, in order."""
        if not writes(type(self), "abatch", BaseStore):
            raise _unwritten(self)
        from runwell.drivers.sync import call_sync
        from runwell.effects import Callee

        return call_sync(Callee(None, beneath(self, "abatch")), ops)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The result of each operation, in order. A plain implementation runs in a worker thread."""
        if not writes(type(self), "batch", BaseStore):
            raise _unwritten(self)
        from runwell.drivers.aio import in_worker

        return await in_worker(beneath(self, "batch"), ops)

    # -- one operation

    def get(self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        """The item, or None."""
        return cast("Item | None", self.batch([self._get(namespace, key, refresh_ttl)])[0])

    async def aget(self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        return cast("Item | None", await self._one(self._get(namespace, key, refresh_ttl)))

    def put(
        self,
        namespace: Namespace,
        key: str,
        value: dict[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """Store a value, in place of what was there. See PutOp; `ttl` not given: the store's `default_ttl`."""
        self.batch([self._put(namespace, key, value, index, ttl)])

    async def aput(
        self,
        namespace: Namespace,
        key: str,
        value: dict[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        await self._one(self._put(namespace, key, value, index, ttl))

    def delete(self, namespace: Namespace, key: str) -> None:
        """Remove an item; no error when there is none."""
        self.batch([PutOp(tuple(namespace), key, None)])

    async def adelete(self, namespace: Namespace, key: str) -> None:
        await self._one(PutOp(tuple(namespace), key, None))

    def search(
        self,
        namespace_prefix: Namespace,
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        """The items in and below a namespace that match the filter.

        With a `query`: those nearest in meaning first. Without: the last written first. A filter names fields of the
        value and what they must be, `{"kind": "note", "stars": {"$gte": 3}}`; see `runwell.persistence.stores.filters`.
        """
        op = self._search(namespace_prefix, query, filter, limit, offset, refresh_ttl)
        return cast("list[SearchItem]", self.batch([op])[0])

    async def asearch(
        self,
        namespace_prefix: Namespace,
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        op = self._search(namespace_prefix, query, filter, limit, offset, refresh_ttl)
        return cast("list[SearchItem]", await self._one(op))

    def list_namespaces(
        self,
        *,
        prefix: Namespace | None = None,
        suffix: Namespace | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Namespace]:
        """The namespaces that hold items, in order. In `prefix` and `suffix` the label `"*"` stands for any one."""
        op = _list_op(prefix, suffix, max_depth, limit, offset)
        return cast("list[Namespace]", self.batch([op])[0])

    async def alist_namespaces(
        self,
        *,
        prefix: Namespace | None = None,
        suffix: Namespace | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Namespace]:
        op = _list_op(prefix, suffix, max_depth, limit, offset)
        return cast("list[Namespace]", await self._one(op))

    async def _one(self, op: Op) -> Result:
        return (await self.abatch([op]))[0]

    def _refresh(self, asked: bool | None) -> bool:
        return (self.ttl_config or {}).get("refresh_on_read", True) if asked is None else asked

    def _get(self, namespace: Namespace, key: str, refresh_ttl: bool | None) -> GetOp:
        return GetOp(tuple(namespace), key, self._refresh(refresh_ttl))

    def _put(
        self,
        namespace: Namespace,
        key: str,
        value: dict[str, Any],
        index: Literal[False] | list[str] | None,
        ttl: float | NotProvided | None,
    ) -> PutOp:
        check_namespace(namespace)
        if not isinstance(value, dict):
            raise InvalidInput(
                f"put({namespace!r}, {key!r}) got a {type(value).__name__}; a value is a dict.",
                hint='Wrap it: {"value": ...}. To remove an item: delete(namespace, key).',
            )
        if isinstance(ttl, NotProvided):
            ttl = (self.ttl_config or {}).get("default_ttl")
        if ttl is not None and not self.supports_ttl:
            raise InvalidInput(f"{type(self).__name__} cannot let items expire.", hint="Leave ttl out.")
        return PutOp(tuple(namespace), key, value, index, ttl)

    def _search(
        self,
        prefix: Namespace,
        query: str | None,
        filter: dict[str, Any] | None,
        limit: int,
        offset: int,
        refresh_ttl: bool | None,
    ) -> SearchOp:
        check_namespace(prefix, empty=True)
        return SearchOp(tuple(prefix), filter, limit, offset, query, self._refresh(refresh_ttl))


def _list_op(
    prefix: Namespace | None, suffix: Namespace | None, max_depth: int | None, limit: int, offset: int
) -> ListNamespacesOp:
    conditions = [MatchCondition("prefix", tuple(prefix))] if prefix else []
    conditions += [MatchCondition("suffix", tuple(suffix))] if suffix else []
    return ListNamespacesOp(tuple(conditions) or None, max_depth, limit, offset)


def _unwritten(store: BaseStore) -> UsageError:
    return UsageError(
        f"{type(store).__name__} writes neither batch nor abatch.", hint="Write one of them; the other follows."
    )
