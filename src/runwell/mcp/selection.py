"""Which of a server's tools are taken, and whether they are the ones that were accepted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from runwell.errors import InvalidConfig, MCPToolChanged, nearest

__all__ = ["check_pin", "digest", "matches", "read_pins", "selected", "unknown", "write_pins"]

Pins = Mapping[str, str] | str | Path


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name is one of these, which may be globs."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def unknown(patterns: Iterable[str], names: Sequence[str]) -> list[str]:
    """Those that are plain names, and none of these names: misspelt, or with the prefix that the server knows not."""
    return [each for each in patterns if not any(mark in each for mark in "*?[") and each not in names]


def selected(server: str, names: Sequence[str], include: Sequence[str] | None, exclude: Sequence[str]) -> set[str]:
    """The names that are taken. Raises InvalidConfig for a plain name among `include` that the server does not have."""
    for pattern in unknown(include or (), names):
        raise InvalidConfig(
            f"MCP server {server!r} has no tool {pattern!r}{nearest(pattern, names)}.",
            hint=f"It has: {', '.join(sorted(names)[:50]) or 'none'}.",
        )
    return {name for name in names if (include is None or matches(name, include)) and not matches(name, exclude)}


def digest(tool: Any) -> str:
    """What identifies a tool's text: its name, description and schemas."""
    said = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "input": tool.input_schema,
        "output": tool.output_schema,
    }
    return (
        "sha256:"
        + hashlib.sha256(
            json.dumps(said, sort_keys=True, ensure_ascii=False).encode(errors="surrogatepass")
        ).hexdigest()
    )


def check_pin(server: str, name: str, found: str | None, pinned: str) -> None:
    """Raise MCPToolChanged if a tool is not the one that was accepted, or is gone (`found` is None)."""
    if found == pinned:
        return
    what = "is gone" if found is None else "changed its description or schema"
    raise MCPToolChanged(
        f"Tool {name!r} of MCP server {server!r} {what} since it was accepted "
        f"({pinned[:19]}…, now {'none' if found is None else found[:19] + '…'}).",
        tool=name,
        hint="Read what it says now (MCPClient without pin=), and accept it with client.write_pins(path) or new pins.",
    )


def read_pins(given: Pins | None) -> dict[str, str] | None:
    """Pins from a mapping, or a JSON file that `write_pins` wrote."""
    if given is None or isinstance(given, Mapping):
        return None if given is None else dict(given)
    path = Path(given)
    try:
        made = json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise InvalidConfig(
            f"There is no file of pins {str(path)!r}.", hint="Write it once: MCPClient(server).write_pins(path)."
        ) from error
    except OSError as error:
        raise InvalidConfig(f"The pins in {str(path)!r} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise InvalidConfig(f"The pins in {str(path)!r} are no JSON: {error}.") from error
    if not isinstance(made, dict) or not all(isinstance(each, str) for each in made.values()):
        raise InvalidConfig(f"The pins in {str(path)!r} are not an object of texts by tool name.")
    return made


def write_pins(path: str | Path, pins: Mapping[str, str]) -> None:
    """Write pins for `pin=path`."""
    text = json.dumps(pins, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    try:
        Path(path).write_text(text, "utf-8")
    except OSError as error:
        raise InvalidConfig(f"The pins cannot be written to {str(path)!r}: {error.strerror}.") from error
