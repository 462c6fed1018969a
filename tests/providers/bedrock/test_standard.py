"""ChatBedrockConverse passes the suite that every adapter passes, by access keys and by an API key."""

from __future__ import annotations

from typing import Any

from runwell.providers.bedrock import ChatBedrockConverse
from runwell.testing.chat_models import ChatModelSuite
from runwell.testing.wire import BedrockDialect


class TestChatBedrockConverse(ChatModelSuite):
    dialect = BedrockDialect()
    ambient = ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "AWS_ENDPOINT_URL")
    names_model = False

    def make_model(self, base_url: str, **settings: Any) -> ChatBedrockConverse:
        return ChatBedrockConverse(
            model="m",
            region_name="us-east-1",
            aws_access_key_id="AKIATEST",
            aws_secret_access_key=self.key,
            base_url=base_url,
            **settings,
        )
