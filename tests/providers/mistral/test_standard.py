"""ChatMistralAI passes the suite that every adapter passes."""

from __future__ import annotations

from typing import Any

from runwell.providers.mistral import ChatMistralAI
from runwell.testing.chat_models import ChatModelSuite
from runwell.testing.wire import MistralDialect


class TestChatMistralAI(ChatModelSuite):
    dialect = MistralDialect()
    ambient = ("MISTRAL_BASE_URL",)
    tells_overflow = False

    def make_model(self, base_url: str, **settings: Any) -> ChatMistralAI:
        return ChatMistralAI(model="m", api_key=self.key, base_url=base_url, **settings)
