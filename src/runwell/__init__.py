"""runwell: programs built around language models.

The names below are the ones a first program needs. Each is loaded from its room when it is first used, so
`import runwell` costs next to nothing. Everything else is imported from its room: `runwell.messages`,
`runwell.graph`, `runwell.agents.middleware`, `runwell.errors`, ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.agents import create_agent
    from runwell.graph import StateGraph, interrupt
    from runwell.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
    from runwell.models import init_chat_model
    from runwell.observe import copy_context
    from runwell.parsers import JsonOutputParser, StrOutputParser
    from runwell.persistence import InMemorySaver, SqliteSaver
    from runwell.ports.command import END, START, Command, Send
    from runwell.prompts import ChatPromptTemplate
    from runwell.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough
    from runwell.tools import tool

__version__ = "0.1.0"

__all__ = [
    "END",
    "START",
    "AIMessage",
    "ChatPromptTemplate",
    "Command",
    "HumanMessage",
    "InMemorySaver",
    "JsonOutputParser",
    "RunnableLambda",
    "RunnableParallel",
    "RunnablePassthrough",
    "Send",
    "SqliteSaver",
    "StateGraph",
    "StrOutputParser",
    "SystemMessage",
    "ToolMessage",
    "copy_context",
    "create_agent",
    "init_chat_model",
    "interrupt",
    "tool",
]

_HOME = {
    "END": "ports.command",
    "START": "ports.command",
    "AIMessage": "messages",
    "ChatPromptTemplate": "prompts",
    "Command": "ports.command",
    "HumanMessage": "messages",
    "InMemorySaver": "persistence",
    "JsonOutputParser": "parsers",
    "RunnableLambda": "runnables",
    "RunnableParallel": "runnables",
    "RunnablePassthrough": "runnables",
    "Send": "ports.command",
    "SqliteSaver": "persistence",
    "StateGraph": "graph",
    "StrOutputParser": "parsers",
    "SystemMessage": "messages",
    "ToolMessage": "messages",
    "copy_context": "observe",
    "create_agent": "agents",
    "init_chat_model": "models",
    "interrupt": "graph",
    "tool": "tools",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value  # the next use does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
