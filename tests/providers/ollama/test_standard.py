"""ChatOllama passes the suite that every adapter passes."""

from __future__ import annotations

from typing import Any

from runwell.providers.ollama import ChatOllama
from runwell.testing.chat_models import ChatModelSuite
from runwell.testing.wire import OllamaDialect


class TestChatOllama(ChatModelSuite):
    dialect = OllamaDialect()
    ambient = ("OLLAMA_HOST",)
    counts_cached = False
    names_calls = False
    tells_overflow = False

    def make_model(self, base_url: str, **settings: Any) -> ChatOllama:
        return ChatOllama(model="m", api_key=self.key, base_url=base_url, **settings)
