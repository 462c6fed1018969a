"""What all stores have in common: operations are checked, texts embedded, and rows of bytes read and written.

A store for another database implements the few methods of `ItemRows`, and gets everything else from here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias, TypeVar

from runwell.errors import InvalidConfig, InvalidInput, StorageError, UnserializableType
from runwell.persistence.checkpoints.worker import Worker
from runwell.persistence.serialization.encryption import Cipher
from runwell.persistence.serialization.serializer import Serializer
from runwell.persistence.stores.facts import facts_of
from runwell.persistence.stores.fields import check_path, texts_of
from runwell.persistence.stores.filters import check_filter, matches
from runwell.persistence.stores.namespaces import joined, listed, split
from runwell.persistence.stores.vectors import Index, nearness
from runwell.ports.store import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    check_namespace,
)

__all__ = ["ItemRow", "ItemRows", "RowStore"]

T = TypeVar("T")
Filter: TypeAlias = "Mapping[str, Any] | None"
PAGE = 200
"""Items that a search looks at in one read while it filters."""
SWEEP_MINUTES = 5.0
_log = logging.getLogger("runwell.persistence")


class ItemRow(NamedTuple):
    """An item as a database holds it. `written` grows with every put, of any item; times are seconds since the epoch.

    `ttl` is in seconds; an item without has neither that nor `expires_at`.
    """

    id: int
    ns: str
    key: str
    value: bytes
    created_at: float
    updated_at: float
    ttl: float | None
    expires_at: float | None
    written: int


class ItemRows:
    """What a database implements for `RowStore`. Namespaces are joined into one text, below which prefixes are ranges.

    Rows whose `expires_at` is at or before `now` are never given.
    """

    def run(self, work: Callable[[], T], *, writes: bool) -> T:
        """What `work` gives: all that it reads is of one moment, and all that it writes is kept, or nothing."""
        return work()

    def read_item(self, ns: str, key: str, now: float) -> ItemRow | None:
        raise NotImplementedError

    def read_items(
        self, prefix: str, now: float, before: int | None, limit: int, filter: Filter = None
    ) -> list[ItemRow]:
        """Up to `limit` items below the prefix with `written` below `before` (None: any), the last written first.

        Here and below, those that the filter does not mean may be left out, as far as a database can tell.
        """
        raise NotImplementedError

    def read_ids(self, ids: Sequence[int]) -> list[ItemRow]:
        """The items with these ids, in any order."""
        raise NotImplementedError

    def read_vectors(self, prefix: str, now: float, filter: Filter = None) -> Iterable[tuple[int, bytes]]:
        """(id of the item, vector) of everything embedded below the prefix."""
        raise NotImplementedError

    def read_nearest(
        self, query: bytes, prefix: str, now: float, size: int, filter: Filter = None
    ) -> Iterator[Sequence[tuple[float, int]]]:
        """(cosine, id of the item) of everything embedded below the prefix, the nearest first, in parts.

        `size` is how many will be looked at, as far as is known. A database that can compare vectors does it itself.
        """
        ranked = nearness(query, self.read_vectors(prefix, now, filter))
        for at in range(0, len(ranked), PAGE):
            yield ranked[at : at + PAGE]

    def read_namespaces(self, prefix: str, now: float) -> list[str]:
        """The joined namespaces below the prefix that hold items."""
        raise NotImplementedError

    def write_item(
        self,
        ns: str,
        key: str,
        value: bytes,
        now: float,
        ttl: float | None,
        vectors: Sequence[bytes],
        facts: str | None = None,
    ) -> None:
        """Store an item and its vectors in place of the old ones; `created_at` stays as it was, unless that expired.

        `facts` are what `facts_of` says of its value, for a store that `keeps_facts`.
        """
        raise NotImplementedError

    def expect_writes(self, items: Sequence[tuple[str, str]]) -> None:
        """Several items, (ns, key) each, are about to be written: a chance to lock them in an order of one's own."""

    def write_expiry(self, ids: Sequence[int], now: float) -> None:
        """Start the time to live of these items anew."""
        raise NotImplementedError

    def remove_item(self, ns: str, key: str) -> None:
        raise NotImplementedError

    def remove_expired(self, now: float) -> int:
        """Remove what has expired, with its vectors; gives how many items."""
        raise NotImplementedError


class _Plan(NamedTuple):
    """A batch that has been checked, and what must be embedded for it."""

    ops: list[Op]
    texts: list[list[str]]  # of each put
    documents: list[str]
    queries: list[str]


class _Vectors(NamedTuple):
    documents: dict[str, bytes]
    queries: dict[str, bytes]


class RowStore(BaseStore, ItemRows):
    """A store over rows of bytes. Safe to share between threads.

    `index` turns semantic search on, `ttl` sets how long items live. `allow` lists classes of yours that values may
    hold, `encryption` encrypts values (not namespaces, keys and vectors).
    """

    supports_ttl = True
    cheap: ClassVar[bool] = False
    approximates: ClassVar[bool] = False
    """Whether it can search by an approximate index."""
    judges: ClassVar[bool] = False
    """Whether its database can tell of some items that a filter does not mean them."""

    def __init__(
        self,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        allow: Iterable[type] = (),
        encryption: Cipher | None = None,
        workers: int = 1,
    ) -> None:
        name = type(self).__name__
        self.index = Index(index, name) if index is not None else None
        if self.index is not None and self.index.hnsw is not None and not self.approximates:
            raise InvalidConfig(
                f"{name} got index={{'hnsw': ...}}, which PostgreSQL alone has.", hint="Use PostgresStore, or leave it."
            )
        self.ttl_config = _checked_ttl(ttl, name)
        self.keeps_facts = self.judges and encryption is None  # they stand beside the value, readable
        self.serializer = Serializer(allow, owner=name, encryption=encryption)
        self._worker = Worker(workers)
        self._swept_at = 0.0

    # -- batches

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """The result of each operation, in order."""
        plan = self._plan(ops)
        if self.index is None or not (plan.documents or plan.queries):
            return self._apply(plan, _NOTHING)
        embed = self.index.embed
        documents = embed.embed_documents(plan.documents) if plan.documents else []
        return self._apply(plan, self._vectors(plan, documents, [embed.embed_query(text) for text in plan.queries]))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The result of each operation, in order."""
        plan = self._plan(ops)
        vectors = _NOTHING
        if self.index is not None and (plan.documents or plan.queries):
            embed = self.index.embed
            documents = await embed.aembed_documents(plan.documents) if plan.documents else []
            vectors = self._vectors(plan, documents, [await embed.aembed_query(text) for text in plan.queries])
        return self._apply(plan, vectors) if self.cheap else await self._worker.run(self._apply, plan, vectors)

    def _plan(self, ops: Iterable[Op]) -> _Plan:
        """Check every operation before any is done, and find what must be embedded."""
        ops = list(ops)
        texts: list[list[str]] = []
        queries: list[str] = []
        for op in ops:
            found: list[str] = []
            if type(op) is PutOp:
                found = self._check_put(op)
            elif type(op) is GetOp:
                check_namespace(op.namespace)
                _check_key(op.key)
            elif type(op) is SearchOp:
                check_namespace(op.namespace_prefix, empty=True)
                check_filter(op.filter)
                _check_range("search", op.limit, op.offset)
                if op.query is not None:
                    queries.append(self._check_query(op.query))
            elif type(op) is ListNamespacesOp:
                _check_range("list_namespaces", op.limit, op.offset)
                if op.max_depth is not None and (type(op.max_depth) is not int or op.max_depth < 1):
                    raise InvalidInput(f"list_namespaces() got max_depth={op.max_depth!r}.", hint="1 or more, or None.")
                for condition in op.match_conditions or ():
                    check_namespace(condition.path, wild=True)
            else:
                raise InvalidInput(
                    f"A batch holds {op!r:.100}.", hint="It takes GetOp, PutOp, SearchOp and ListNamespacesOp."
                )
            texts.append(found)
        return _Plan(
            ops, texts, list(dict.fromkeys(text for each in texts for text in each)), list(dict.fromkeys(queries))
        )

    def _check_put(self, op: PutOp) -> list[str]:
        check_namespace(op.namespace)
        _check_key(op.key)
        if op.value is not None and not isinstance(op.value, dict):
            raise InvalidInput(
                f"{op.namespace!r} {op.key!r} is to hold a {type(op.value).__name__}; a value is a dict.",
                hint='Wrap it: {"value": ...}.',
            )
        if op.ttl is not None and not 0 < op.ttl < 1e12:
            raise InvalidInput(f"{op.key!r} got ttl={op.ttl!r}.", hint="Give minutes above 0, or None for ever.")
        paths: Any = op.index or ()
        if not isinstance(paths, (list, tuple)):
            raise InvalidInput(f"{op.key!r} got index={paths!r}.", hint="Give a list of paths, False or None.")
        for path in paths:
            check_path(path)
        if self.index is None or op.value is None or op.index is False:
            return []
        return texts_of(op.value, op.index or self.index.fields)

    def _check_query(self, query: Any) -> str:
        if self.index is None:
            raise InvalidConfig(
                f"search(query={query!r:.60}) needs a store that finds by meaning, and this one has no index.",
                hint=f'Make it with {type(self).__name__}(..., index={{"dims": ..., "embed": ...}}).',
            )
        if not isinstance(query, str):
            raise InvalidInput(f"search() got query={query!r:.60}.", hint="A query is text.")
        return query

    def _vectors(self, plan: _Plan, documents: Any, queries: Any) -> _Vectors:
        assert self.index is not None
        if len(documents) != len(plan.documents):
            raise InvalidConfig(
                f"{len(plan.documents)} texts were embedded as {len(documents)} vectors; nothing was stored.",
                hint="embed must give one vector for each text, in order.",
            )
        stored = self.index.stored
        return _Vectors(
            {text: stored(vector, text) for text, vector in zip(plan.documents, documents, strict=True)},
            {text: stored(vector, text) for text, vector in zip(plan.queries, queries, strict=True)},
        )

    def _apply(self, plan: _Plan, vectors: _Vectors) -> list[Result]:
        values = [self._encoded(op) if type(op) is PutOp else b"" for op in plan.ops]
        written = [(joined(op.namespace), op.key) for op in plan.ops if type(op) is PutOp]
        puts = bool(written)

        def work() -> list[Result]:
            now = time.time()
            if len(written) > 1:
                self.expect_writes(written)
            touched: list[ItemRow] = []
            results: list[Result] = []
            for op, value, texts in zip(plan.ops, values, plan.texts, strict=True):
                if type(op) is PutOp:
                    self._put_now(op, value, [vectors.documents[text] for text in texts], now)
                    results.append(None)
                elif type(op) is GetOp:
                    row = self.read_item(joined(op.namespace), op.key, now)
                    if row is not None and op.refresh_ttl:
                        touched.append(row)
                    results.append(self._item(row) if row is not None else None)
                elif type(op) is SearchOp:
                    found = self._found(op, vectors, now)
                    if op.refresh_ttl:
                        touched += [row for row, _ in found]
                    results.append([self._search_item(row, score) for row, score in found])
                elif type(op) is ListNamespacesOp:
                    results.append(listed(op, lambda prefix: self.read_namespaces(prefix, now)))
            expiring = [row.id for row in touched if row.ttl is not None]
            if expiring and puts:
                self.write_expiry(expiring, now)
            elif expiring:
                refresh.update(expiring)
            return results

        refresh: set[int] = set()
        results = self.run(work, writes=puts)
        if refresh:  # after the reading, which was no transaction that writes
            self.run(lambda: self.write_expiry(sorted(refresh), time.time()), writes=True)
        if puts:
            self._sweep_sometimes()
        return results

    def _encoded(self, op: PutOp) -> bytes:
        if op.value is None:
            return b""
        try:
            return self.serializer.dumps(op.value, "value")
        except UnserializableType as error:
            message = error.message.replace("State key", f"Item {op.namespace!r} {op.key!r}:", 1)
            raise UnserializableType(message, hint=error.hint) from None

    def _put_now(self, op: PutOp, value: bytes, vectors: list[bytes], now: float) -> None:
        if op.value is None:
            self.remove_item(joined(op.namespace), op.key)
        else:
            ttl = None if op.ttl is None else op.ttl * 60
            facts = facts_of(op.value) if self.keeps_facts else None
            self.write_item(joined(op.namespace), op.key, value, now, ttl, vectors, facts)

    # -- searching

    def _found(self, op: SearchOp, vectors: _Vectors, now: float) -> list[tuple[ItemRow, float | None]]:
        if op.limit == 0:
            return []
        prefix = joined(op.namespace_prefix)
        size = min(PAGE, op.offset + op.limit) if not op.filter else PAGE
        candidates: Iterator[tuple[ItemRow, float | None]]
        if op.query is None:
            candidates = self._newest(prefix, now, size, op.filter)
        else:
            candidates = self._nearest(vectors.queries[op.query], prefix, now, size, op.filter)
        found: list[tuple[ItemRow, float | None]] = []
        skip = op.offset
        for row, score in candidates:
            if op.filter and not matches(op.filter, self._value(row)):
                continue
            if skip:
                skip -= 1
                continue
            found.append((row, score))
            if len(found) == op.limit:
                break
        return found

    def _newest(self, prefix: str, now: float, size: int, filter: Filter) -> Iterator[tuple[ItemRow, None]]:
        before: int | None = None
        while True:
            rows = self.read_items(prefix, now, before, size, filter)
            for row in rows:
                yield row, None
            if len(rows) < size:
                return
            before, size = rows[-1].written, PAGE

    def _nearest(
        self, query: bytes, prefix: str, now: float, size: int, filter: Filter
    ) -> Iterator[tuple[ItemRow, float]]:
        for page in self.read_nearest(query, prefix, now, size, filter):
            rows = {row.id: row for row in self.read_ids([owner for _, owner in page])}
            for score, owner in page:
                if owner in rows:
                    yield rows[owner], score

    def _value(self, row: ItemRow) -> dict[str, Any]:
        def where() -> str:
            return f"item {split(row.ns)!r} {row.key!r}"

        value: dict[str, Any] = self.serializer.loads(row.value, where=where)
        return value

    def _item(self, row: ItemRow) -> Item:
        return Item(self._value(row), row.key, split(row.ns), _moment(row.created_at), _moment(row.updated_at))

    def _search_item(self, row: ItemRow, score: float | None) -> SearchItem:
        created_at, updated_at = _moment(row.created_at), _moment(row.updated_at)
        return SearchItem(self._value(row), row.key, split(row.ns), created_at, updated_at, score)

    # -- expiry

    def sweep_ttl(self) -> int:
        """Remove what has expired from storage; gives how many items. Expired items are not given before either."""
        self._swept_at = time.monotonic()
        return self.run(lambda: self.remove_expired(time.time()), writes=True)

    async def asweep_ttl(self) -> int:
        return self.sweep_ttl() if self.cheap else await self._worker.run(self.sweep_ttl)

    def _sweep_sometimes(self) -> None:
        minutes = (self.ttl_config or {}).get("sweep_interval_minutes", SWEEP_MINUTES)
        if minutes is not None and time.monotonic() - self._swept_at > minutes * 60:
            try:
                self.sweep_ttl()
            except StorageError:  # what was to be stored is stored: that must not look like a failure
                _log.warning("Expired items could not be removed", exc_info=True)

    # -- lifetime

    def close(self) -> None:
        """Let go of what the store holds open. Harmless when repeated."""
        self._worker.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._worker.run(self.close)


_NOTHING = _Vectors({}, {})


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _check_key(key: Any) -> None:
    if not isinstance(key, str) or not key or "\x00" in key:
        raise InvalidInput(f"{key!r} is not a key.", hint="A key is text, not empty, without zero characters.")
    try:
        key.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{key!r} is not a key: it has half a character.", hint="Use whole text.") from None


def _check_range(name: str, limit: Any, offset: Any) -> None:
    for what, number in (("limit", limit), ("offset", offset)):
        if type(number) is not int or number < 0:
            raise InvalidInput(f"{name}() got {what}={number!r}.", hint="Give a whole number from 0 up.")


def _checked_ttl(ttl: TTLConfig | None, owner: str) -> TTLConfig | None:
    unknown = set(ttl or ()) - set(TTLConfig.__annotations__)
    if unknown:
        raise InvalidConfig(
            f"{owner} got ttl= with {sorted(unknown)}.", hint=f"It takes {', '.join(TTLConfig.__annotations__)}."
        )
    minutes = (ttl or {}).get("default_ttl")
    if minutes is not None and minutes <= 0:
        raise InvalidConfig(f"{owner} got default_ttl={minutes!r}.", hint="Give minutes above 0, or None.")
    return ttl
