"""A scripted vendor reads every request that an adapter sends, and says of others that it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from runwell import init_chat_model
from runwell.errors import ModelBadRequest
from runwell.messages import AIMessage, HumanMessage, ToolMessage
from runwell.testing import WireServer
from runwell.testing.wire import AnthropicDialect, CohereDialect, OpenAIDialect, ResponsesDialect

CALL: Any = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}
BY_ADDRESS, BY_ID = {"type": "image", "url": "https://x/y.png"}, {"type": "image", "file_id": "file_1"}
SENT: list[Any] = [
    ("anthropic", AnthropicDialect, [BY_ADDRESS, BY_ID, {"type": "file", "url": "https://x/y.pdf"}]),
    ("openai", OpenAIDialect, [BY_ADDRESS, {"type": "file", "file_id": "file_2"}]),
    ("openai", ResponsesDialect, [BY_ADDRESS, BY_ID, {"type": "file", "url": "https://x/y.pdf"}]),
    ("cohere", CohereDialect, [BY_ADDRESS]),
]


@pytest.mark.parametrize(("name", "dialect", "media"), SENT, ids=[each[1].__name__ for each in SENT])
def test_media_by_address_and_by_id_are_read(name: str, dialect: Any, media: list[Any]) -> None:
    further = {"use_responses_api": True} if dialect is ResponsesDialect else {}
    history = [HumanMessage(["See:", *media]), AIMessage("", tool_calls=[CALL]), ToolMessage(media, tool_call_id="c1")]
    with WireServer(dialect()) as wire:
        wire.say("A cat.")
        model = init_chat_model(f"{name}:m", base_url=wire.base_url, api_key="none", **further)
        assert model.invoke(history).text == "A cat."
        pictures = [each.get("url") or each["file_id"] for each in media if each["type"] == "image"]
        assert wire.asked.images == pictures * 2


def test_a_request_that_the_dialect_cannot_read_is_told() -> None:
    with WireServer(AnthropicDialect()) as wire:
        wire.say("Hello.")
        model = init_chat_model("openai:m", base_url=wire.base_url, api_key="none")
        with pytest.raises(ModelBadRequest, match="AnthropicDialect cannot read this request: KeyError: 'max_tokens'"):
            model.invoke("Hi")
