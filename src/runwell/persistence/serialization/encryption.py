"""Values encrypted before they are stored, so that whoever reads the database learns nothing of them."""

from __future__ import annotations

import os
from typing import Any, Protocol, runtime_checkable

from runwell.errors import InvalidConfig, MissingExtra, StorageError

__all__ = ["AesEncryption", "Cipher"]


@runtime_checkable
class Cipher(Protocol):
    """What a saver or store is given as `encryption=`. Called from several threads."""

    reads_plain: bool
    """Whether values stored before encryption was turned on may still be read."""

    def encrypt(self, plain: bytes) -> bytes:
        """Bytes that say nothing of `plain`, and that `decrypt` can tell from changed ones."""
        ...

    def decrypt(self, data: bytes) -> bytes:
        """What `encrypt` was given; raises StorageError when the bytes were changed or the key is another one."""
        ...


class AesEncryption:
    """AES-GCM with keys of 16, 24 or 32 bytes (or their base64 text, as `new_key()` gives it).

    New values are written with `key`; `older` keys can still read what was written with them, so a key is changed by
    moving it there. `reads_plain=True` also reads what was stored before encryption was turned on.

    Thread ids, namespaces, names of state keys and nodes, times and sizes stay readable: the database finds rows by
    them. Needs the extra `encryption`.
    """

    def __init__(self, key: bytes | str, *older: bytes | str, reads_plain: bool = False) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise MissingExtra("AesEncryption", "encryption") from error
        self.reads_plain = reads_plain
        self._ciphers: dict[bytes, Any] = {}
        for each in (_bytes(key), *map(_bytes, older)):
            self._ciphers.setdefault(_name(each), AESGCM(each))
        self._current = _name(_bytes(key))

    @staticmethod
    def new_key() -> str:
        """A fresh 256-bit key as base64 text, to be kept where secrets are."""
        import base64

        return base64.b64encode(os.urandom(32)).decode()

    def encrypt(self, plain: bytes) -> bytes:
        nonce = os.urandom(12)
        sealed: bytes = self._ciphers[self._current].encrypt(nonce, plain, self._current)
        return self._current + nonce + sealed

    def decrypt(self, data: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        name, nonce, sealed = data[:4], data[4:16], data[16:]
        cipher = self._ciphers.get(name)
        if cipher is None:
            raise StorageError(
                f"A stored value was encrypted with a key that is not given (its mark is {name.hex()}).",
                hint="Pass the older key too: AesEncryption(key, older_key).",
            )
        try:
            plain: bytes = cipher.decrypt(nonce, sealed, name)
        except InvalidTag as error:
            raise StorageError(
                "A stored value was changed after it was encrypted.", hint="Restore the database from a backup."
            ) from error
        return plain

    def __repr__(self) -> str:
        return f"AesEncryption(<{len(self._ciphers)} keys>)"


def _bytes(key: bytes | str) -> bytes:
    import base64
    import binascii

    raw = key
    if isinstance(key, str):
        try:
            raw = base64.b64decode(key, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidConfig(
                "AesEncryption got a key as text that is not base64.", hint="Make one with AesEncryption.new_key()."
            ) from error
    if not isinstance(raw, bytes) or len(raw) not in (16, 24, 32):
        size = f"{len(raw)} bytes" if isinstance(raw, bytes) else type(raw).__name__
        raise InvalidConfig(
            f"AesEncryption got a key of {size}; AES has keys of 16, 24 or 32 bytes.",
            hint="Make one with AesEncryption.new_key().",
        )
    return raw


def _name(key: bytes) -> bytes:
    """Tells keys apart without telling what they are."""
    from hashlib import blake2b

    return blake2b(key, digest_size=4, person=b"runwell-key").digest()
