"""Conversations kept by session: in memory, files, SQLite, PostgreSQL or Redis; and what of a long one to send on."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.chat_history.file import FileChatMessageHistory
    from runwell.chat_history.history import BaseChatMessageHistory
    from runwell.chat_history.memory import InMemoryChatMessageHistory
    from runwell.chat_history.postgres import PostgresChatMessageHistory
    from runwell.chat_history.redis import RedisChatMessageHistory
    from runwell.chat_history.sqlite import SqliteChatMessageHistory
    from runwell.chat_history.summary import asummarize_messages, summarize_messages
    from runwell.chat_history.window import last_exchanges

_HOME = {
    "BaseChatMessageHistory": "history",
    "FileChatMessageHistory": "file",
    "InMemoryChatMessageHistory": "memory",
    "PostgresChatMessageHistory": "postgres",
    "RedisChatMessageHistory": "redis",
    "SqliteChatMessageHistory": "sqlite",
    "asummarize_messages": "summary",
    "last_exchanges": "window",
    "summarize_messages": "summary",
}

__all__ = [
    "BaseChatMessageHistory",
    "FileChatMessageHistory",
    "InMemoryChatMessageHistory",
    "PostgresChatMessageHistory",
    "RedisChatMessageHistory",
    "SqliteChatMessageHistory",
    "asummarize_messages",
    "last_exchanges",
    "summarize_messages",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
