"""What happened: the current run, handlers of its events, traces."""

from __future__ import annotations

from runwell.observe.context import CURRENT, RunContext, copy_context
from runwell.observe.handlers import AsyncCallbackHandler, BaseCallbackHandler, Handler
from runwell.observe.run import Run, dispatch_custom_event, observing, open_run, record_decision

__all__ = [
    "CURRENT",
    "AsyncCallbackHandler",
    "BaseCallbackHandler",
    "Handler",
    "Run",
    "RunContext",
    "copy_context",
    "dispatch_custom_event",
    "observing",
    "open_run",
    "record_decision",
]
