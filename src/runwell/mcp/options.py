"""What an `MCPClient` may be told, checked when it is made and not when a server is reached."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runwell.errors import InvalidConfig, nearest
from runwell.mcp.text import MCPLimits

__all__ = ["check_options"]

_PREFIX = re.compile(r"[A-Za-z0-9_.:-]*")
_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def check_options(given: Mapping[str, Any]) -> None:
    """Raise InvalidConfig for the first option that is not what it must be."""
    for option in ("include", "exclude", "safe"):
        names = given[option]
        if isinstance(names, str):
            raise InvalidConfig(f"{option}={names!r} is one text.", hint=f"Give a list: {option}=[{names!r}].")
        if names is not None and not (
            isinstance(names, (list, tuple, set, frozenset)) and all(isinstance(each, str) for each in names)
        ):
            raise InvalidConfig(f"{option}={names!r:.200} is no list of names.", hint="Names of tools, or globs.")
    for option in ("timeout", "connect_timeout"):
        seconds = given[option]
        if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or seconds <= 0):
            raise InvalidConfig(f"{option}={seconds!r:.200}.", hint="Seconds, more than 0, or None.")
    _one_of("session", given["session"], ("shared", "call"))
    if given["log_level"] is not None:
        _one_of("log_level", given["log_level"], _LEVELS)
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    _one_of("protocol", given["protocol"], ("auto", "legacy", *MODERN_PROTOCOL_VERSIONS))
    for option in ("on_elicitation", "on_progress", "on_log", "on_change"):
        handler = given[option]
        if handler is not None and not callable(handler) and not hasattr(handler, "ainvoke"):
            raise InvalidConfig(f"{option}={handler!r:.200} cannot be called.", hint="Give a function.")
    prefix = given["prefix"]
    if not isinstance(prefix, str) or not _PREFIX.fullmatch(prefix):
        raise InvalidConfig(
            f"prefix={prefix!r:.200} cannot begin the name of a tool.", hint="Letters, digits, '_', '-', '.' and ':'."
        )
    limits = given["limits"]
    if limits is not None and not isinstance(limits, MCPLimits):
        raise InvalidConfig(f"limits={limits!r:.200}.", hint="Give MCPLimits(...).")
    pin = given["pin"]
    if pin is not None and not isinstance(pin, (Mapping, str, Path)):
        raise InvalidConfig(f"pin={pin!r:.200}.", hint="A mapping of names to digests, or the path of a file of pins.")
    if isinstance(pin, Mapping) and not all(isinstance(each, str) for pair in pin.items() for each in pair):
        raise InvalidConfig(
            f"pin={dict(pin)!r:.200} is no mapping of names to digests.", hint="As client.pins() gives."
        )


def _one_of(option: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InvalidConfig(
            f"{option}={value!r:.200}{nearest(value, known) if isinstance(value, str) else ''}.",
            hint=f"It is one of: {', '.join(known)}.",
        )
