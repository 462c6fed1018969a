"""ChatOpenAI on the Responses API passes the suite that every adapter passes."""

from __future__ import annotations

from typing import Any

from runwell.providers.openai import ChatOpenAI
from runwell.testing.chat_models import ChatModelSuite
from runwell.testing.wire import ResponsesDialect


class TestResponses(ChatModelSuite):
    dialect = ResponsesDialect()
    ambient = ("OPENAI_BASE_URL",)
    takes_stop = False

    def make_model(self, base_url: str, **settings: Any) -> ChatOpenAI:
        return ChatOpenAI(model="m", api_key=self.key, base_url=base_url, use_responses_api=True, **settings)
