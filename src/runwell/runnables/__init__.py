"""How parts compose: the protocol and its combinators."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.runnables.addable import AddableDict, aadd, add
    from runwell.runnables.batch import BatchResult
    from runwell.runnables.binding import RunnableBinding
    from runwell.runnables.branch import RunnableBranch
    from runwell.runnables.coerce import coerce_to_runnable
    from runwell.runnables.config import RunnableConfig, ensure_config, merge_configs
    from runwell.runnables.decorators import chain
    from runwell.runnables.each import RunnableEach
    from runwell.runnables.fallbacks import RunnableWithFallbacks
    from runwell.runnables.generator import RunnableGenerator
    from runwell.runnables.graph_view import Edge, Graph, Node
    from runwell.runnables.lambda_ import RunnableLambda
    from runwell.runnables.parallel import RunnableMap, RunnableParallel
    from runwell.runnables.passthrough import RunnableAssign, RunnablePassthrough, RunnablePick
    from runwell.runnables.retry import RunnableRetry
    from runwell.runnables.runnable import Input, Output, Runnable
    from runwell.runnables.sequence import RunnableSequence

_HOME = {
    "AddableDict": "addable",
    "BatchResult": "batch",
    "Edge": "graph_view",
    "Graph": "graph_view",
    "Input": "runnable",
    "Node": "graph_view",
    "Output": "runnable",
    "Runnable": "runnable",
    "RunnableAssign": "passthrough",
    "RunnableBinding": "binding",
    "RunnableBranch": "branch",
    "RunnableConfig": "config",
    "RunnableEach": "each",
    "RunnableGenerator": "generator",
    "RunnableLambda": "lambda_",
    "RunnableMap": "parallel",
    "RunnableParallel": "parallel",
    "RunnablePassthrough": "passthrough",
    "RunnablePick": "passthrough",
    "RunnableRetry": "retry",
    "RunnableSequence": "sequence",
    "RunnableWithFallbacks": "fallbacks",
    "aadd": "addable",
    "add": "addable",
    "chain": "decorators",
    "coerce_to_runnable": "coerce",
    "ensure_config": "config",
    "merge_configs": "config",
}

__all__ = [
    "AddableDict",
    "BatchResult",
    "Edge",
    "Graph",
    "Input",
    "Node",
    "Output",
    "Runnable",
    "RunnableAssign",
    "RunnableBinding",
    "RunnableBranch",
    "RunnableConfig",
    "RunnableEach",
    "RunnableGenerator",
    "RunnableLambda",
    "RunnableMap",
    "RunnableParallel",
    "RunnablePassthrough",
    "RunnablePick",
    "RunnableRetry",
    "RunnableSequence",
    "RunnableWithFallbacks",
    "aadd",
    "add",
    "chain",
    "coerce_to_runnable",
    "ensure_config",
    "merge_configs",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
