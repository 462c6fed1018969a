"""How parts compose: the protocol and its combinators."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.runnables.addable import AddableDict, aadd, add
    from runwell.runnables.batch import BatchResult
    from runwell.runnables.binding import RunnableBinding
    from runwell.runnables.branch import RunnableBranch
    from runwell.runnables.cache import OutputCache, RunnableWithCache
    from runwell.runnables.coerce import coerce_to_runnable
    from runwell.runnables.config import RunnableConfig, ensure_config, merge_configs
    from runwell.runnables.configurable import (
        DynamicRunnable,
        RunnableConfigurableAlternatives,
        RunnableConfigurableFields,
    )
    from runwell.runnables.configurable_spec import (
        ConfigurableField,
        ConfigurableFieldMultiOption,
        ConfigurableFieldSingleOption,
        ConfigurableFieldSpec,
    )
    from runwell.runnables.decorators import chain
    from runwell.runnables.each import RunnableEach
    from runwell.runnables.explain import StreamingReport, StreamingStep
    from runwell.runnables.fallbacks import RunnableWithFallbacks
    from runwell.runnables.generator import RunnableGenerator
    from runwell.runnables.graph_view import Edge, Graph, Node
    from runwell.runnables.history import RunnableWithMessageHistory
    from runwell.runnables.lambda_ import RunnableLambda, get_lambda_source
    from runwell.runnables.listeners import ListenedRun, RunnableWithListeners
    from runwell.runnables.parallel import RunnableMap, RunnableParallel
    from runwell.runnables.passthrough import RunnableAssign, RunnablePassthrough, RunnablePick
    from runwell.runnables.retry import RunnableRetry
    from runwell.runnables.router import RouterInput, RouterRunnable
    from runwell.runnables.runnable import Input, Output, Runnable, RunnableLike
    from runwell.runnables.sequence import RunnableSequence
    from runwell.runnables.stream_events import StreamEvent
    from runwell.runnables.streamable import streamable
    from runwell.runnables.timeout import RunnableWithTimeout

_HOME = {
    "AddableDict": "addable",
    "BatchResult": "batch",
    "ConfigurableField": "configurable_spec",
    "ConfigurableFieldMultiOption": "configurable_spec",
    "ConfigurableFieldSingleOption": "configurable_spec",
    "ConfigurableFieldSpec": "configurable_spec",
    "DynamicRunnable": "configurable",
    "Edge": "graph_view",
    "Graph": "graph_view",
    "Input": "runnable",
    "ListenedRun": "listeners",
    "Node": "graph_view",
    "Output": "runnable",
    "OutputCache": "cache",
    "RouterInput": "router",
    "RouterRunnable": "router",
    "Runnable": "runnable",
    "RunnableAssign": "passthrough",
    "RunnableBinding": "binding",
    "RunnableBranch": "branch",
    "RunnableConfig": "config",
    "RunnableConfigurableAlternatives": "configurable",
    "RunnableConfigurableFields": "configurable",
    "RunnableEach": "each",
    "RunnableGenerator": "generator",
    "RunnableLambda": "lambda_",
    "RunnableLike": "runnable",
    "RunnableMap": "parallel",
    "RunnableParallel": "parallel",
    "RunnablePassthrough": "passthrough",
    "RunnablePick": "passthrough",
    "RunnableRetry": "retry",
    "RunnableSequence": "sequence",
    "RunnableWithCache": "cache",
    "RunnableWithFallbacks": "fallbacks",
    "RunnableWithListeners": "listeners",
    "RunnableWithMessageHistory": "history",
    "RunnableWithTimeout": "timeout",
    "StreamEvent": "stream_events",
    "StreamingReport": "explain",
    "StreamingStep": "explain",
    "aadd": "addable",
    "add": "addable",
    "chain": "decorators",
    "coerce_to_runnable": "coerce",
    "ensure_config": "config",
    "get_lambda_source": "lambda_",
    "merge_configs": "config",
    "streamable": "streamable",
}

__all__ = [
    "AddableDict",
    "BatchResult",
    "ConfigurableField",
    "ConfigurableFieldMultiOption",
    "ConfigurableFieldSingleOption",
    "ConfigurableFieldSpec",
    "DynamicRunnable",
    "Edge",
    "Graph",
    "Input",
    "ListenedRun",
    "Node",
    "Output",
    "OutputCache",
    "RouterInput",
    "RouterRunnable",
    "Runnable",
    "RunnableAssign",
    "RunnableBinding",
    "RunnableBranch",
    "RunnableConfig",
    "RunnableConfigurableAlternatives",
    "RunnableConfigurableFields",
    "RunnableEach",
    "RunnableGenerator",
    "RunnableLambda",
    "RunnableLike",
    "RunnableMap",
    "RunnableParallel",
    "RunnablePassthrough",
    "RunnablePick",
    "RunnableRetry",
    "RunnableSequence",
    "RunnableWithCache",
    "RunnableWithFallbacks",
    "RunnableWithListeners",
    "RunnableWithMessageHistory",
    "RunnableWithTimeout",
    "StreamEvent",
    "StreamingReport",
    "StreamingStep",
    "aadd",
    "add",
    "chain",
    "coerce_to_runnable",
    "ensure_config",
    "get_lambda_source",
    "merge_configs",
    "streamable",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
