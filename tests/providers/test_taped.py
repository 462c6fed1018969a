"""What these vendors' SDKs exchange can be put on tape and played again, streams and binary framing included."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from runwell.models import BaseChatModel, init_chat_model
from runwell.testing import cassette
from runwell.testing.wire import (
    BedrockDialect,
    CohereDialect,
    GoogleDialect,
    MistralDialect,
    OllamaDialect,
    WireDialect,
    WireServer,
)

KEY = "key-of-the-tape-0123456789"
AWS = {"region_name": "us-east-1", "aws_access_key_id": "AKIATAPE", "aws_secret_access_key": KEY}
VENDORS: dict[str, tuple[WireDialect, dict[str, Any]]] = {
    "google_genai": (GoogleDialect(), {"api_key": KEY}),
    "mistralai": (MistralDialect(), {"api_key": KEY}),
    "ollama": (OllamaDialect(), {"api_key": KEY}),
    "cohere": (CohereDialect(), {"api_key": KEY}),
    "bedrock_converse": (BedrockDialect(), {**AWS, "aws_session_token": KEY[::-1]}),
}


def talk(model: BaseChatModel) -> list[str]:
    streamed = "".join(chunk.text for chunk in model.stream("And?"))
    return [model.invoke("Hi").text, streamed, asyncio.run(model.ainvoke("Sure?")).text]


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_tape_says_what_the_vendor_said_and_holds_no_key(vendor: str, tmp_path: Path) -> None:
    dialect, account = VENDORS[vendor]
    tape = tmp_path / "tape.yaml"
    with WireServer(dialect) as wire:
        address = wire.base_url
        wire.say(pieces=["Hel", "lo é."])
        wire.say("One.")
        wire.say("Two.")
        with cassette(tape):
            said = talk(init_chat_model(f"{vendor}:m", base_url=address, **account))
    assert said == ["One.", "Hello é.", "Two."]
    with cassette(tape, record="none"):  # nobody listens any more
        assert talk(init_chat_model(f"{vendor}:m", base_url=address, **account)) == said
    written = tape.read_text()
    for secret in (KEY, KEY[::-1], "AKIATAPE"):
        assert secret not in written
