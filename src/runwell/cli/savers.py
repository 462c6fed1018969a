"""Savers by name: where a command keeps threads."""

from __future__ import annotations

from typing import Any

from runwell.cli.extras import require
from runwell.errors import InvalidInput

__all__ = ["saver_of"]


def saver_of(text: str) -> Any:
    """The saver that `memory`, `sqlite:FILE` or `postgres:URL` names. Raises InvalidInput for what names none."""
    from runwell.persistence import InMemorySaver, PostgresSaver, SqliteSaver

    kind, _, rest = text.partition(":")
    if text == "memory":
        return InMemorySaver()
    if kind == "sqlite" and rest:
        return SqliteSaver(rest.removeprefix("///") if rest.startswith("///") else rest)
    if kind in ("postgres", "postgresql") and rest:
        require("a PostgreSQL saver", "postgres")
        return PostgresSaver(f"postgresql:{rest}" if rest.startswith("//") else rest)
    raise InvalidInput(f"{text!r} names no saver.", hint="It is memory, sqlite:FILE or postgres:URL.")
