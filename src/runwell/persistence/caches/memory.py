"""A cache in this process's memory."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import ClassVar

from runwell.persistence.caches.cache import RowCache
from runwell.persistence.serialization.encryption import Cipher

__all__ = ["InMemoryCache"]


class InMemoryCache(RowCache):
    """Keeps results until the process ends, for nodes and models; at most `maxsize` of them."""

    cheap: ClassVar[bool] = True

    def __init__(
        self, *, maxsize: int | None = 10_000, allow: Iterable[type] = (), encryption: Cipher | None = None
    ) -> None:
        super().__init__(maxsize=maxsize, allow=allow, encryption=encryption)
        self._rows: dict[tuple[str, str], tuple[bytes, float | None]] = {}
        self._lock = threading.Lock()

    def read_values(self, keys: Sequence[tuple[str, str]], now: float) -> dict[tuple[str, str], bytes]:
        with self._lock:
            rows = {where: self._rows[where] for where in keys if where in self._rows}
        return {where: data for where, (data, expires) in rows.items() if expires is None or expires > now}

    def write_values(self, rows: Sequence[tuple[str, str, bytes, float | None]], now: float) -> None:
        with self._lock:
            for ns, key, data, expires in rows:
                self._rows.pop((ns, key), None)
                self._rows[ns, key] = data, expires
            if self.maxsize is not None and len(self._rows) > self.maxsize:
                for where in [at for at, (_, expires) in self._rows.items() if expires is not None and expires <= now]:
                    del self._rows[where]
                for where in list(self._rows)[: max(0, len(self._rows) - self.maxsize)]:
                    del self._rows[where]

    def remove_values(self, keys: Sequence[tuple[str, str]]) -> None:
        with self._lock:
            for where in keys:
                self._rows.pop(where, None)

    def remove_namespaces(self, namespaces: Sequence[str] | None) -> None:
        with self._lock:
            for where in [at for at in self._rows if namespaces is None or at[0] in namespaces]:
                del self._rows[where]
