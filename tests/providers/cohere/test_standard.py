"""ChatCohere passes the suite that every adapter passes."""

from __future__ import annotations

from typing import Any

from runwell.providers.cohere import ChatCohere
from runwell.testing.chat_models import ChatModelSuite
from runwell.testing.wire import CohereDialect


class TestChatCohere(ChatModelSuite):
    dialect = CohereDialect()
    ambient = ("CO_API_URL",)
    names_model = False

    def make_model(self, base_url: str, **settings: Any) -> ChatCohere:
        return ChatCohere(model="m", api_key=self.key, base_url=base_url, **settings)
