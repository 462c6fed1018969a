"""What caches have in common: values are kept as strictly as checkpoints, and what cannot be kept is not."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

from runwell.drivers.other_colour import answer_in_both, beneath
from runwell.errors import ForbiddenType, InvalidConfig, SerializationError, StorageError, UnserializableType
from runwell.persistence.checkpoints.worker import Worker
from runwell.persistence.serialization.encryption import Cipher
from runwell.persistence.serialization.serializer import Serializer
from runwell.persistence.stores.namespaces import joined
from runwell.ports.cache import FullKey, Namespace

__all__ = ["RowCache"]

NO_TYPES: frozenset[type] = frozenset()
_log = logging.getLogger("runwell.cache")


class RowCache:
    """A cache over rows of bytes, for nodes and tasks (`get`, `set`) and for models (`lookup`, `update`).

    A value that may not be serialised exactly is not kept, and a warning is logged: nothing is pickled, ever. A row
    that cannot be read is forgotten, and counts as not there. `allow` lists classes of yours that may be kept. At most
    `maxsize` results are kept (None: any number); then the ones kept longest go first. Safe to share between threads.
    """

    cheap: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        answer_in_both(cls, {name: f"a{name}" for name in ("get", "set", "clear", "lookup", "update")})

    def __init__(
        self,
        *,
        maxsize: int | None = None,
        allow: Iterable[type] = (),
        encryption: Cipher | None = None,
        workers: int = 1,
    ) -> None:
        if maxsize is not None and (type(maxsize) is not int or maxsize < 1):
            raise InvalidConfig(f"{type(self).__name__} got maxsize={maxsize!r}.", hint="Give a number, or None.")
        self.maxsize = maxsize
        self.serializer = Serializer(allow, owner=type(self).__name__, encryption=encryption)
        self._worker = Worker(workers)

    # -- what a database implements

    def read_values(self, keys: Sequence[tuple[str, str]], now: float) -> dict[tuple[str, str], bytes]:
        """What is kept under (namespace, key) and has not expired."""
        raise NotImplementedError

    def write_values(self, rows: Sequence[tuple[str, str, bytes, float | None]], now: float) -> None:
        """Keep (namespace, key, value, expires_at) each, drop what has expired and what is beyond `maxsize`."""
        raise NotImplementedError

    def remove_values(self, keys: Sequence[tuple[str, str]]) -> None:
        raise NotImplementedError

    def remove_namespaces(self, namespaces: Sequence[str] | None) -> None:
        """Remove these namespaces; None: everything."""
        raise NotImplementedError

    # -- results of nodes and tasks

    def get(self, keys: Sequence[FullKey], types: frozenset[type] = NO_TYPES) -> dict[FullKey, Any]:
        """What is kept under the keys, as copies; those that are not there are left out."""
        wanted = {(_whole(joined(ns)), _whole(key)): (ns, key) for ns, key in keys}
        found: dict[FullKey, Any] = {}
        for where, data in self.read_values(list(wanted), time.time()).items():
            try:
                found[wanted[where]] = self.serializer.loads(data, types)
            except ForbiddenType:
                _log.warning("A cached result was not used: its type is not allowed here", exc_info=True)
            except (SerializationError, StorageError):
                _log.warning("A cached result could not be read and is forgotten", exc_info=True)
                self.remove_values([where])
        return found

    def set(self, pairs: Mapping[FullKey, tuple[Any, float | None]], types: frozenset[type] = NO_TYPES) -> None:
        """Keep values, each for so many seconds (None: for ever)."""
        now = time.time()
        rows: list[tuple[str, str, bytes, float | None]] = []
        for (ns, key), (value, ttl) in pairs.items():
            if ttl is not None and ttl <= 0:
                raise InvalidConfig(f"A cached result got ttl={ttl!r}.", hint="Give seconds above 0, or None.")
            try:
                data = self.serializer.dumps(value, "value", types)
            except UnserializableType as error:
                _log.warning("A result of %s is not cached. %s", "/".join(ns), error)
                continue
            rows.append((_whole(joined(ns)), _whole(key), data, None if ttl is None else now + ttl))
        if rows:
            self.write_values(rows, now)

    def clear(self, namespaces: Sequence[Namespace] | None = None, **kwargs: Any) -> None:
        """Forget these namespaces; None: everything."""
        self.remove_namespaces(None if namespaces is None else [_whole(joined(ns)) for ns in namespaces])

    # -- answers of models

    def lookup(self, prompt: str, llm_string: str) -> list[Any] | None:
        """The generations kept for this question to this model, or None."""
        key = _model_key(prompt, llm_string)
        found: list[Any] | None = self.get([key]).get(key)
        return found

    def update(self, prompt: str, llm_string: str, return_val: Sequence[Any]) -> None:
        """Keep generations."""
        self.set({_model_key(prompt, llm_string): (list(return_val), None)})

    # -- from an event loop

    async def aget(self, keys: Sequence[FullKey], types: frozenset[type] = NO_TYPES) -> dict[FullKey, Any]:
        get = beneath(self, "get")
        return get(keys, types) if self.cheap else await self._worker.run(get, keys, types)

    async def aset(self, pairs: Mapping[FullKey, tuple[Any, float | None]], types: frozenset[type] = NO_TYPES) -> None:
        set_ = beneath(self, "set")
        set_(pairs, types) if self.cheap else await self._worker.run(set_, pairs, types)

    async def aclear(self, namespaces: Sequence[Namespace] | None = None, **kwargs: Any) -> None:
        clear = beneath(self, "clear")
        clear(namespaces) if self.cheap else await self._worker.run(clear, namespaces)

    async def alookup(self, prompt: str, llm_string: str) -> list[Any] | None:
        key = _model_key(prompt, llm_string)
        return (await self.aget([key])).get(key)

    async def aupdate(self, prompt: str, llm_string: str, return_val: Sequence[Any]) -> None:
        await self.aset({_model_key(prompt, llm_string): (list(return_val), None)})

    # -- lifetime

    def close(self) -> None:
        """Let go of what the cache holds open. Harmless when repeated."""
        self._worker.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _whole(text: str) -> str:
    """The text, or one that stands for it when it has half characters, which no database holds."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return "\x1a" + text.encode("utf-8", "surrogatepass").hex()
    return text


def _model_key(prompt: str, llm_string: str) -> FullKey:
    from hashlib import blake2b

    digest = blake2b(digest_size=20)
    for part in (prompt, llm_string):  # each with its length: no two pairs read the same
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return ("models",), digest.hexdigest()
