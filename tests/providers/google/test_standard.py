"""ChatGoogleGenerativeAI passes the suite that every adapter passes."""

from __future__ import annotations

from typing import Any

from runwell.providers.google import ChatGoogleGenerativeAI
from runwell.testing.chat_models import ChatModelSuite
from runwell.testing.wire import GoogleDialect


class TestChatGoogleGenerativeAI(ChatModelSuite):
    dialect = GoogleDialect()
    ambient = ("GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL")

    def make_model(self, base_url: str, **settings: Any) -> ChatGoogleGenerativeAI:
        return ChatGoogleGenerativeAI(model="m", api_key=self.key, base_url=base_url, **settings)
