"""What happened: the current run, handlers of its events, traces."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.observe.console import ConsoleHandler
    from runwell.observe.context import CURRENT, RunContext, copy_context
    from runwell.observe.decisions import DecisionLog
    from runwell.observe.handlers import AsyncCallbackHandler, BaseCallbackHandler, Handler
    from runwell.observe.llm_result import LLMResult
    from runwell.observe.managers import (
        AsyncCallbackManagerForChainRun,
        AsyncCallbackManagerForLLMRun,
        AsyncCallbackManagerForRetrieverRun,
        AsyncCallbackManagerForToolRun,
        CallbackManagerForChainRun,
        CallbackManagerForLLMRun,
        CallbackManagerForRetrieverRun,
        CallbackManagerForToolRun,
    )
    from runwell.observe.run import (
        Run,
        adispatch_custom_event,
        dispatch_custom_event,
        observing,
        open_run,
        record_decision,
    )
    from runwell.observe.trace import JsonlTrace
    from runwell.observe.usage import UsageMetadataCallbackHandler, get_usage_metadata_callback

_HOME = {
    "CURRENT": "context",
    "AsyncCallbackHandler": "handlers",
    "AsyncCallbackManagerForChainRun": "managers",
    "AsyncCallbackManagerForLLMRun": "managers",
    "AsyncCallbackManagerForRetrieverRun": "managers",
    "AsyncCallbackManagerForToolRun": "managers",
    "BaseCallbackHandler": "handlers",
    "CallbackManagerForChainRun": "managers",
    "CallbackManagerForLLMRun": "managers",
    "CallbackManagerForRetrieverRun": "managers",
    "CallbackManagerForToolRun": "managers",
    "ConsoleHandler": "console",
    "DecisionLog": "decisions",
    "Handler": "handlers",
    "JsonlTrace": "trace",
    "LLMResult": "llm_result",
    "Run": "run",
    "RunContext": "context",
    "UsageMetadataCallbackHandler": "usage",
    "adispatch_custom_event": "run",
    "copy_context": "context",
    "dispatch_custom_event": "run",
    "get_usage_metadata_callback": "usage",
    "observing": "run",
    "open_run": "run",
    "record_decision": "run",
}

__all__ = [
    "CURRENT",
    "AsyncCallbackHandler",
    "AsyncCallbackManagerForChainRun",
    "AsyncCallbackManagerForLLMRun",
    "AsyncCallbackManagerForRetrieverRun",
    "AsyncCallbackManagerForToolRun",
    "BaseCallbackHandler",
    "CallbackManagerForChainRun",
    "CallbackManagerForLLMRun",
    "CallbackManagerForRetrieverRun",
    "CallbackManagerForToolRun",
    "ConsoleHandler",
    "DecisionLog",
    "Handler",
    "JsonlTrace",
    "LLMResult",
    "Run",
    "RunContext",
    "UsageMetadataCallbackHandler",
    "adispatch_custom_event",
    "copy_context",
    "dispatch_custom_event",
    "get_usage_metadata_callback",
    "observing",
    "open_run",
    "record_decision",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
