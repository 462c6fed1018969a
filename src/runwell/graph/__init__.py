"""State graphs: nodes over a shared state, run step by step, each step saved.

graph = StateGraph(State)
graph.add_node("plan", plan)
graph.add_edge(START, "plan")
app = graph.compile(checkpointer=InMemorySaver())
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runwell.graph.builder import StateGraph
from runwell.graph.channels import (
    BinaryOperatorAggregate,
    DeltaChannel,
    EphemeralValue,
    LastValue,
    Topic,
    UntrackedValue,
)
from runwell.graph.compiled import CompiledStateGraph
from runwell.graph.interrupts import interrupt, record
from runwell.graph.managed import IsLastStep, RemainingSteps
from runwell.graph.messages_state import MessagesState
from runwell.graph.policies import CachePolicy, RetryPolicy, TimeoutPolicy
from runwell.graph.pushing import push_message
from runwell.graph.run_options import Durability
from runwell.graph.snapshot import PregelTask, StateSnapshot
from runwell.graph.streaming import INTERRUPT, STOPPED, TAG_NOSTREAM, GraphOutput, StreamMode, StreamPart
from runwell.graph.thread import StateUpdate
from runwell.graph.where import get_config, get_runtime, get_store, get_stream_writer
from runwell.messages.history import REMOVE_ALL_MESSAGES, add_messages
from runwell.ports.command import END, START, Command, Interrupt, Overwrite, Send
from runwell.ports.control import RunControl
from runwell.ports.runtime import ExecutionInfo, Principal, Runtime, StreamWriter

if TYPE_CHECKING:
    from runwell.graph.func import Entrypoint, TaskFuture, entrypoint, task

__all__ = [
    "END",
    "INTERRUPT",
    "REMOVE_ALL_MESSAGES",
    "START",
    "STOPPED",
    "TAG_NOSTREAM",
    "BinaryOperatorAggregate",
    "CachePolicy",
    "Command",
    "CompiledStateGraph",
    "DeltaChannel",
    "Durability",
    "Entrypoint",
    "EphemeralValue",
    "ExecutionInfo",
    "GraphOutput",
    "Interrupt",
    "IsLastStep",
    "LastValue",
    "MessagesState",
    "Overwrite",
    "PregelTask",
    "Principal",
    "RemainingSteps",
    "RetryPolicy",
    "RunControl",
    "Runtime",
    "Send",
    "StateGraph",
    "StateSnapshot",
    "StateUpdate",
    "StreamMode",
    "StreamPart",
    "StreamWriter",
    "TaskFuture",
    "TimeoutPolicy",
    "Topic",
    "UntrackedValue",
    "add_messages",
    "entrypoint",
    "get_config",
    "get_runtime",
    "get_store",
    "get_stream_writer",
    "interrupt",
    "push_message",
    "record",
    "task",
]


def __getattr__(name: str) -> Any:
    if name in ("Entrypoint", "TaskFuture", "entrypoint", "task"):  # loaded when first used: most graphs have none
        from runwell.graph import func

        value = globals()[name] = getattr(func, name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
