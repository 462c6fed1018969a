"""A store in this process's memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, TypeVar

from runwell.persistence.serialization.encryption import Cipher
from runwell.persistence.stores.store import Filter, ItemRow, RowStore
from runwell.ports.store import IndexConfig, TTLConfig

__all__ = ["InMemoryStore"]

T = TypeVar("T")


class InMemoryStore(RowStore):
    """Keeps items until the process ends. It holds the same bytes as a store with a database, and behaves the same."""

    cheap: ClassVar[bool] = True

    def __init__(
        self,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        allow: Iterable[type] = (),
        encryption: Cipher | None = None,
    ) -> None:
        super().__init__(index=index, ttl=ttl, allow=allow, encryption=encryption)
        self._items: dict[tuple[str, str], ItemRow] = {}  # the last written at the end
        self._by_id: dict[int, ItemRow] = {}
        self._vectors_of: dict[int, tuple[bytes, ...]] = {}
        self._undo: list[tuple[tuple[str, str], ItemRow | None, tuple[bytes, ...]]] = []
        self._lock = threading.RLock()
        self._count = 0

    def run(self, work: Callable[[], T], *, writes: bool) -> T:
        with self._lock:
            if not writes:
                return work()
            self._undo = []
            try:
                return work()
            except BaseException:
                for where, row, vectors in self._undo[::-1]:
                    self.remove_item(*where)
                    if row is not None:
                        self._keep(row, vectors)
                self._items = dict(sorted(self._items.items(), key=lambda each: each[1].written))
                raise
            finally:
                self._undo = []

    def _keep(self, row: ItemRow, vectors: tuple[bytes, ...]) -> None:
        self._items[row.ns, row.key] = self._by_id[row.id] = row
        self._vectors_of[row.id] = vectors

    def read_item(self, ns: str, key: str, now: float) -> ItemRow | None:
        row = self._items.get((ns, key))
        return row if row is not None and _lives(row, now) else None

    def read_items(
        self, prefix: str, now: float, before: int | None, limit: int, filter: Filter = None
    ) -> list[ItemRow]:
        found: list[ItemRow] = []
        for row in reversed(self._items.values()):
            if (before is None or row.written < before) and row.ns.startswith(prefix) and _lives(row, now):
                found.append(row)
                if len(found) == limit:
                    break
        return found

    def read_ids(self, ids: Sequence[int]) -> list[ItemRow]:
        return [self._by_id[each] for each in ids if each in self._by_id]

    def read_vectors(self, prefix: str, now: float, filter: Filter = None) -> list[tuple[int, bytes]]:
        return [
            (row.id, vector)
            for row in self._items.values()
            if row.ns.startswith(prefix) and _lives(row, now)
            for vector in self._vectors_of.get(row.id, ())
        ]

    def read_namespaces(self, prefix: str, now: float) -> list[str]:
        return list({row.ns for row in self._items.values() if row.ns.startswith(prefix) and _lives(row, now)})

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
        old = self._items.pop((ns, key), None)
        self._undo.append(((ns, key), old, self._vectors_of.get(old.id, ()) if old is not None else ()))
        created_at = old.created_at if old is not None and _lives(old, now) else now
        self._count += 1
        number = old.id if old is not None else self._count
        row = ItemRow(number, ns, key, value, created_at, now, ttl, None if ttl is None else now + ttl, self._count)
        self._keep(row, tuple(vectors))

    def write_expiry(self, ids: Sequence[int], now: float) -> None:
        for number in ids:
            row = self._by_id.get(number)
            if row is not None and row.ttl is not None:
                self._items[row.ns, row.key] = self._by_id[number] = row._replace(expires_at=now + row.ttl)

    def remove_item(self, ns: str, key: str) -> None:
        row = self._items.pop((ns, key), None)
        if row is not None:
            self._by_id.pop(row.id)
            self._undo.append(((ns, key), row, self._vectors_of.pop(row.id)))

    def remove_expired(self, now: float) -> int:
        gone = [row for row in self._items.values() if not _lives(row, now)]
        for row in gone:
            self.remove_item(row.ns, row.key)
        return len(gone)


def _lives(row: ItemRow, now: float) -> bool:
    return row.expires_at is None or row.expires_at > now
