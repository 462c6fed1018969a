"""The certificates that clients go by whom the program gave none: read once for the process, not for each client.

Reading them takes longer than all else in making a client. A context is what the library makes of them by itself, for
the variables that it looks at; clients that share one share no connection, and closing one closes nothing of another's.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from importlib import import_module
from typing import Any

from runwell.errors import InvalidConfig

__all__ = ["trusted_by"]

_made: dict[tuple[Any, ...], Any] = {}
_lock = threading.Lock()


def trusted_by(library: str) -> Any:
    """What clients of the library ("httpx" or "httpx2") verify servers by: `verify=` of each that is made here.

    It follows SSL_CERT_FILE and SSL_CERT_DIR as they are now, and is made anew where what they name has changed.
    """
    key = (library, _written("SSL_CERT_FILE"), _written("SSL_CERT_DIR"), os.environ.get("SSLKEYLOGFILE"))
    context = _made.get(key)
    if context is None:
        with _lock:  # one thread reads, others wait for what it makes
            context = _made.get(key)
            if context is None:
                for old in [each for each in _made if each[0] == library]:
                    del _made[old]  # clients that have it keep it
                context = _made[key] = _read(library)
    return context


def _read(library: str) -> Any:
    try:
        return import_module(library).create_ssl_context()
    except OSError as error:
        named = [f"{name}={os.environ[name]!r}" for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name)]
        raise InvalidConfig(
            f"The certificates that servers are verified by cannot be read: {error}.",
            hint=f"{' and '.join(named) or 'The system'} says where they are; http_client= takes a client with others.",
        ) from error


def _written(variable: str) -> tuple[str, int] | None:
    """A variable's value, with when what it names was last written."""
    path = os.environ.get(variable)
    if not path:
        return None
    with suppress(OSError):
        return path, os.stat(path).st_mtime_ns
    return path, 0


def _after_fork() -> None:
    """Another thread of the parent's may have held the lock, and is not here to give it back."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
