"""Who carries out effects, and the bridges between plain and `async` code.

`run_sync` and `run_async` drive engine code. The rest lets one function, hook or generator, written in either
colour, serve callers of both. Submodules are loaded on first use, so that importing this package costs nothing and
does not load asyncio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.drivers.aio import AsyncDriver, acompleted, afan_out, call_async, run_async
    from runwell.drivers.colour import callee, cheap, is_async
    from runwell.drivers.streams import AsyncStream, Pipe, SyncStream, drained, iterate_async, iterate_sync
    from runwell.drivers.sync import InlineStream, SyncDriver, call_sync, run_sync
    from runwell.drivers.threads import completed, fan_out

_HOME = {
    "AsyncDriver": "aio",
    "AsyncStream": "streams",
    "InlineStream": "sync",
    "Pipe": "streams",
    "SyncDriver": "sync",
    "SyncStream": "streams",
    "acompleted": "aio",
    "afan_out": "aio",
    "call_async": "aio",
    "call_sync": "sync",
    "callee": "colour",
    "cheap": "colour",
    "completed": "threads",
    "drained": "streams",
    "fan_out": "threads",
    "is_async": "colour",
    "iterate_async": "streams",
    "iterate_sync": "streams",
    "run_async": "aio",
    "run_sync": "sync",
}

__all__ = [
    "AsyncDriver",
    "AsyncStream",
    "InlineStream",
    "Pipe",
    "SyncDriver",
    "SyncStream",
    "acompleted",
    "afan_out",
    "call_async",
    "call_sync",
    "callee",
    "cheap",
    "completed",
    "drained",
    "fan_out",
    "is_async",
    "iterate_async",
    "iterate_sync",
    "run_async",
    "run_sync",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
