"""Bearer keys: who may call a server over HTTP."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runwell.errors import InvalidConfig

__all__ = ["KeyVerifier", "read_keys"]

SHORTEST = 16


class KeyVerifier:
    """The SDK's `TokenVerifier` for a few keys, each with the name of its holder.

    Raises InvalidConfig for keys that are too short, twice there, or missing.
    """

    def __init__(self, keys: Mapping[str, str]) -> None:
        if not keys:
            raise InvalidConfig("There is no key: nobody could call this server.", hint="Give one for each caller.")
        self._names: dict[bytes, str] = {}
        for name, key in keys.items():
            if len(key) < SHORTEST or any(each.isspace() for each in key):
                raise InvalidConfig(
                    f"The key of {name!r} has {len(key)} characters, or spaces among them; "
                    f"{SHORTEST} are the least, without spaces.",
                    hint='Make one: python -c "import secrets; print(secrets.token_urlsafe(32))"',
                )
            if (seen := self._names.setdefault(_digest(key), name)) != name:
                raise InvalidConfig(f"{seen!r} and {name!r} have the same key.", hint="Give each its own.")

    async def verify_token(self, token: str) -> Any:
        """The holder of a key, or None. Digests are compared, so the time it takes tells nothing of the keys."""
        from mcp.server.auth.provider import AccessToken

        name = self._names.get(_digest(token))
        return None if name is None else AccessToken(token=token, client_id=name, scopes=[])

    def __repr__(self) -> str:
        return f"KeyVerifier({', '.join(sorted(self._names.values()))})"


def read_keys(source: str) -> dict[str, str]:
    """Keys by name from a file, or from the variable NAME for `env:NAME`: a line for each, `name: key` or only the
    key; lines that begin with # say nothing. Raises InvalidConfig for a source that is not there."""
    kind, _, name = source.partition(":")
    if kind == "env":
        if not os.environ.get(name):
            raise InvalidConfig(f"The environment has no variable {name!r} with keys.", hint="Set it, or name a file.")
        text = os.environ[name]
    else:
        try:
            text = Path(source).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidConfig(
                f"The keys in {source!r} cannot be read: {error}.",
                hint="Write a file with a line `name: key` for each caller, or name a variable: env:NAME.",
            ) from error
    found: dict[str, str] = {}
    for line in filter(None, (each.strip() for each in text.splitlines())):
        if line.startswith("#"):
            continue
        name, sep, key = (part.strip() for part in line.rpartition(":"))
        if not sep:
            name = f"key-{_digest(key).hex()[:8]}"
        if not name or name in found:
            raise InvalidConfig(f"In the keys of {source!r} the name {name!r} is missing or there twice.")
        found[name] = key
    return found


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
