"""What a provider answered once is answered again, nothing secret is written, and another request is told by a diff."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from runwell import create_agent, init_chat_model
from runwell.errors import CassetteMismatch, InvalidInput
from runwell.messages import HumanMessage
from runwell.testing import Call, WireServer, cassette
from runwell.testing.chat_wire import Colour
from runwell.testing.wire import (
    AnthropicDialect,
    BedrockDialect,
    CohereDialect,
    GoogleDialect,
    MistralDialect,
    OllamaDialect,
    OpenAIDialect,
)

KEY = "sk-live-0123456789-abcdef"
DIALECTS = {
    "openai": OpenAIDialect,
    "anthropic": AnthropicDialect,
    "bedrock_converse": BedrockDialect,
    "cohere": CohereDialect,
    "google_genai": GoogleDialect,
    "mistralai": MistralDialect,
    "ollama": OllamaDialect,
}


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> Colour:
    return Colour(request.param)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.mark.parametrize("prefix", DIALECTS)
def test_answers_and_streams_of_each_sdk_come_again_without_the_provider(
    prefix: str, colour: Colour, tmp_path: Path
) -> None:
    tape = tmp_path / "tapes" / "run.yaml"

    def program(url: str, key: str) -> list[Any]:
        model = init_chat_model(f"{prefix}:m", base_url=url, api_key=key)
        answer = colour.invoke(model.bind_tools([add]), "1 + 2?")
        chunks = colour.stream(model, "And é?")
        return [
            answer.text,
            [(call["name"], call["args"]) for call in answer.tool_calls],
            answer.usage_metadata,
            [chunk.text for chunk in chunks if chunk.text],
            chunks[-1].chunk_position,
        ]

    with WireServer(DIALECTS[prefix]()) as wire:
        url = wire.base_url
        wire.say("Let me see.", calls=[Call("add", {"a": 1, "b": 2})])
        wire.say(pieces=["Hel", "lo ", "é."])
        with cassette(tape) as recording:
            first = program(url, KEY)
        assert recording.played == 0
        assert len(wire.requests) == 2
    text = tape.read_text()
    assert KEY not in text
    assert "authorization" not in text.lower()
    with cassette(tape, record="none") as playing:
        assert program(url, "another-key") == first
    assert playing.all_played
    assert first[3] == ["Hel", "lo ", "é."]


def test_a_recorded_stream_can_be_left_in_the_middle(colour: Colour, tmp_path: Path) -> None:
    with WireServer(OpenAIDialect()) as wire:
        url = wire.base_url
        wire.say(pieces=["a ", "b ", "c "])
        with cassette(tmp_path / "run.yaml"):
            list(init_chat_model("openai:m", base_url=url, api_key=KEY).stream("Hi"))

    def plain() -> str:
        stream = init_chat_model("openai:m", base_url=url, api_key=KEY).stream("Hi")
        said = next(chunk.text for chunk in stream if chunk.text)
        stream.close()  # type: ignore[attr-defined]
        return said

    async def asynchronous() -> str:
        stream = init_chat_model("openai:m", base_url=url, api_key=KEY).astream("Hi")
        async for chunk in stream:
            if chunk.text:
                await stream.aclose()  # type: ignore[attr-defined]
                return chunk.text
        return ""

    with cassette(tmp_path / "run.yaml"):
        assert (plain() if colour.name == "sync" else asyncio.run(asynchronous())) == "a "


def recorded(path: Path, *, say: str = "3") -> str:
    with WireServer(OpenAIDialect()) as wire:
        wire.say(say)
        with cassette(path):
            init_chat_model("openai:m", base_url=wire.base_url, api_key=KEY).invoke("What is 1 + 2?")
        return wire.base_url


def test_another_request_ends_the_block_with_a_diff_whatever_is_in_between(colour: Colour, tmp_path: Path) -> None:
    url = recorded(tmp_path / "run.yaml")
    asked = 0

    def counted(messages: Any) -> Any:
        nonlocal asked
        asked += 1
        return "fallback"

    model = init_chat_model("openai:m", base_url=url, api_key=KEY, max_retries=5)
    runnable = model.with_fallbacks([counted])
    with pytest.raises(CassetteMismatch, match=r"What is 1 [+] 3") as caught, cassette(tmp_path / "run.yaml"):
        colour.invoke(runnable, "What is 1 + 3?")
    assert "-" in str(caught.value)
    assert "What is 1 + 2?" in str(caught.value)
    assert KEY not in str(caught.value)
    assert asked == 0
    with pytest.raises(CassetteMismatch, match=r"What is 1 [+] 3"), cassette(tmp_path / "run.yaml"):
        colour.invoke(create_agent(model, [add]), {"messages": "What is 1 + 3?"})


def test_a_program_that_swallows_everything_fails_all_the_same(tmp_path: Path) -> None:
    url = recorded(tmp_path / "run.yaml")
    model = init_chat_model("openai:m", base_url=url, api_key=KEY)
    with pytest.raises(CassetteMismatch), cassette(tmp_path / "run.yaml"), contextlib.suppress(BaseException):
        model.invoke("Something else")


def test_an_answer_is_given_once(tmp_path: Path) -> None:
    url = recorded(tmp_path / "run.yaml")
    model = init_chat_model("openai:m", base_url=url, api_key=KEY)
    with pytest.raises(CassetteMismatch, match="already been played"), cassette(tmp_path / "run.yaml"):
        assert model.invoke("What is 1 + 2?").text == "3"
        model.invoke("What is 1 + 2?")


def test_new_episodes_and_recording_anew(tmp_path: Path) -> None:
    tape = tmp_path / "run.yaml"
    with WireServer(OpenAIDialect()) as wire:
        model = init_chat_model("openai:m", base_url=wire.base_url, api_key=KEY)
        wire.say("one")
        with cassette(tape):
            model.invoke("1")
        wire.say("two")
        with cassette(tape, record="new_episodes") as both:
            assert [model.invoke("1").text, model.invoke("2").text] == ["one", "two"]
        assert (both.played, len(both.requests)) == (1, 2)
        wire.say("other")
        with cassette(tape, record="all"):
            assert model.invoke("1").text == "other"
        with cassette(tape):
            assert [model.invoke("1").text, model.invoke("2").text] == ["other", "two"]


@pytest.fixture
def echo() -> Iterator[Callable[..., str]]:
    """A server that tells back all that it was sent, and sets a cookie."""

    class Echo(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            said = {"path": self.path, "headers": dict(self.headers), "body": self.rfile.read(size).decode()}
            body = json.dumps(said).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("set-cookie", "session=cookie-0123456789")
            self.send_header("openai-organization", "org-0123456789")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def _httpx(url: str, **sent: Any) -> Any:
    import httpx

    return httpx.post(url, **sent).json()


def _httpx2(url: str, **sent: Any) -> Any:
    import httpx2

    return httpx2.post(url, **sent).json()


def _requests(url: str, **sent: Any) -> Any:
    import requests

    return requests.post(url, **sent).json()


def _urllib3(url: str, *, headers: Any, json: Any) -> Any:
    import urllib3

    return urllib3.request("POST", url, headers=headers, json=json).json()


@pytest.mark.parametrize("client", [_httpx, _httpx2, _requests, _urllib3])
def test_nothing_secret_is_written(
    client: Callable[..., Any], echo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "env-key-0123456789")
    secrets = {
        "header": "hdr-0123456789",
        "azure": "azure-0123456789",
        "query": "query-0123456789",
        "field": "field-0123456789",
        "told": "told-0123456789",
        "env": "env-key-0123456789",
        "session": "session-0123456789",
    }
    tape = tmp_path / "run.yaml"
    sent: dict[str, Any] = {
        "headers": {"Authorization": f"Bearer {secrets['header']}", "api-key": secrets["azure"], "x-my-own": "private"},
        "json": {
            "auth": {"client_secret": secrets["field"], "session_token": secrets["session"]},
            "text": f"my key is {secrets['env']}, hers {secrets['told']}; name Ada",
            "max_tokens": 5,
            "signature": "EqQBCgIYAhIM",
        },
    }

    def call() -> Any:
        return client(f"{echo}/v1/x?key={secrets['query']}&model=m", **sent)

    for mode in ("once", "none"):
        with cassette(tape, record=mode, secrets=[secrets["told"]], scrub=lambda text: text.replace("Ada", "N.N.")):  # type: ignore[arg-type]
            found = call()
    text = tape.read_text()
    for kind, secret in secrets.items():
        assert secret not in text, kind
    for word in ("cookie-0123", "org-0123", "x-my-own: ", "Ada"):
        assert word not in text, word
    assert '"max_tokens": 5' in text or '"max_tokens":5' in text
    assert "EqQBCgIYAhIM" in text
    assert "model=m" in text
    assert "N.N." in found["body"]


def test_a_secret_that_is_not_sent_is_masked_by_its_name_only(echo: str, tmp_path: Path) -> None:
    """What plays is what is written: the masked answer."""
    import httpx

    tape = tmp_path / "run.yaml"
    for _ in range(2):
        with cassette(tape):
            found = httpx.post(f"{echo}/x", json={"access_token": "abc"}).json()
    assert "abc" in found["body"]  # a text in a text; no field of the answer
    assert '"access_token": "**********"' in tape.read_text().replace("\\", "")


def test_bad_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="always"), cassette(tmp_path / "x.yaml", record="always"):  # type: ignore[arg-type]
        pass
    with pytest.raises(InvalidInput, match="no cassette"), cassette(tmp_path / "x.yaml", record="none"):
        pass


def test_what_fails_in_the_block_fails_as_itself(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), cassette(tmp_path / "x.yaml"):
        raise ZeroDivisionError


def test_messages_are_those_that_were_sent(tmp_path: Path) -> None:
    url = recorded(tmp_path / "run.yaml", say="é")
    with cassette(tmp_path / "run.yaml") as tape:
        answer = init_chat_model("openai:m", base_url=url, api_key=KEY).invoke([HumanMessage("What is 1 + 2?")])
    assert answer.text == "é"
    assert json.loads(tape.requests[0].body)["messages"][0]["content"] == "What is 1 + 2?"
