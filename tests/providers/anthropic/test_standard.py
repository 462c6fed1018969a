"""ChatAnthropic passes the suite that every adapter passes."""

from __future__ import annotations

from typing import Any

from runwell.providers.anthropic import ChatAnthropic
from runwell.testing.chat_models import ChatModelSuite
from runwell.testing.wire import AnthropicDialect


class TestChatAnthropic(ChatModelSuite):
    dialect = AnthropicDialect()
    ambient = ("ANTHROPIC_BASE_URL",)

    def make_model(self, base_url: str, **settings: Any) -> ChatAnthropic:
        return ChatAnthropic(model="m", api_key=self.key, base_url=base_url, **settings)
