"""The HTTP endpoint, on a scripted engine: format, key, errors, streaming, a client that leaves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from runwell.errors import ContextOverflow, InvalidInput, ModelError, UnknownModel
from runwell.providers.local import LocalServer

from .conftest import ScriptedEngine, tool

Scripted = Callable[..., ScriptedEngine]
HI = {"messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with LocalServer() as running:
        yield running


@pytest.fixture
def client(server: LocalServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {server.key}"}) as made:
        yield made


def events(response: httpx.Response) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_an_answer(client: httpx.Client, scripted: Scripted) -> None:
    scripted("Hello")
    answer = client.post("/chat/completions", json=HI).json()
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "qwen2.5-coder-0.5b"
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "Hello"}
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["prompt_tokens"] == 10
    assert answer["usage"]["total_tokens"] == 12


def test_tool_calls(client: httpx.Client, scripted: Scripted) -> None:
    scripted('{"name": "find", "arguments": {"query": "x"}}')
    answer = client.post("/chat/completions", json={**HI, "tools": [tool("find", "query")]}).json()
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    assert (call["type"], call["function"]) == ("function", {"name": "find", "arguments": '{"query": "x"}'})
    assert answer["choices"][0]["message"]["content"] is None
    assert answer["choices"][0]["finish_reason"] == "tool_calls"


def test_a_stream(client: httpx.Client, scripted: Scripted) -> None:
    scripted("Hel\nlo")
    body = {**HI, "stream": True, "stream_options": {"include_usage": True}}
    response = client.post("/chat/completions", json=body)
    assert response.headers["content-type"] == "text/event-stream"
    chunks = events(response)
    assert [c["choices"][0]["delta"].get("content") for c in chunks[:-1]] == ["Hel\n", "lo", None]
    assert [c["choices"][0]["delta"].get("role") for c in chunks[:-1]] == ["assistant", None, None]
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["total_tokens"] == 12


def test_a_stream_without_usage_has_none(client: httpx.Client, scripted: Scripted) -> None:
    scripted("Hello")
    assert all("usage" not in c for c in events(client.post("/chat/completions", json={**HI, "stream": True})))


def test_streamed_tool_calls(client: httpx.Client, scripted: Scripted) -> None:
    scripted('{"name": "find", "arguments": {"query": "x"}}')
    chunks = events(client.post("/chat/completions", json={**HI, "tools": [tool("find", "query")], "stream": True}))
    (call,) = chunks[0]["choices"][0]["delta"]["tool_calls"]
    assert (call["index"], call["function"]["name"]) == (0, "find")
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_models(client: httpx.Client) -> None:
    assert [m["id"] for m in client.get("/models").json()["data"]] == ["qwen2.5-coder-0.5b", "all-minilm-l6-v2"]


def test_embeddings(client: httpx.Client, server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server.embedder, "embed_counted", lambda texts: ([[0.5, 0.25]] * len(texts), 4))
    answer = client.post("/embeddings", json={"input": ["a", "b"], "model": "all-minilm-l6-v2"}).json()
    assert [d["embedding"] for d in answer["data"]] == [[0.5, 0.25], [0.5, 0.25]]
    assert answer["usage"]["prompt_tokens"] == 4
    packed = client.post("/embeddings", json={"input": "a", "encoding_format": "base64"}).json()
    assert packed["data"][0]["embedding"] == "AAAAPwAAgD4="


@pytest.mark.parametrize("key", [None, "wrong"])
@pytest.mark.parametrize("path", ["/models", "/chat/completions", "/embeddings"])
def test_no_key_no_answer(server: LocalServer, key: str | None, path: str) -> None:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    method = "GET" if path == "/models" else "POST"
    response = httpx.request(method, server.url + path, headers=headers, json=None if method == "GET" else HI)
    assert response.status_code == 401
    assert server.key not in response.text


def test_health_needs_no_key(server: LocalServer) -> None:
    assert httpx.get(server.url.removesuffix("/v1") + "/health").json() == {"status": "ok"}


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ({"messages": []}, 400, "at least one message"),
        ({"messages": "hi"}, 400, "at least one message"),
        ({**HI, "n": 2}, 400, "`n`"),
        ({**HI, "model": "gpt-5"}, 404, "'gpt-5' is not served"),
        ({**HI, "response_format": {"type": "xml"}}, 400, "xml"),
        ({**HI, "tools": [{"type": "function"}]}, 400, "name"),
        ({**HI, "tools": [tool("a")], "tool_choice": "b"}, 400, "'b'"),
    ],
)
def test_bad_requests(client: httpx.Client, scripted: Scripted, body: Any, status: int, told: str) -> None:
    scripted("x")
    response = client.post("/chat/completions", json=body)
    assert response.status_code == status
    assert told in response.json()["error"]["message"]


def test_what_is_not_json_and_what_is_not_there(client: httpx.Client) -> None:
    assert client.post("/chat/completions", content=b"{").status_code == 400
    assert client.post("/chat/completions", content=b"[]").status_code == 400
    assert client.post("/nothing", json={}).status_code == 404
    assert client.get("/nothing").status_code == 404


class Failing(ScriptedEngine):
    def __init__(self, error: Exception, after: int) -> None:
        super().__init__(["one\ntwo\n"] * 2)
        self.error, self.after = error, after

    def stream(self, request: Any) -> Iterator[Any]:
        for count, delta in enumerate(super().stream(request)):
            if count == self.after:
                raise self.error
            yield delta


@pytest.mark.parametrize("stream", [False, True])
def test_an_early_error_is_a_status(
    client: httpx.Client, server: LocalServer, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    monkeypatch.setattr(server.chat, "engine", lambda: Failing(ContextOverflow("too long", over=3), 0))
    response = client.post("/chat/completions", json={**HI, "stream": stream})
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "context_length_exceeded"


def test_a_late_error_is_an_event(client: httpx.Client, server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server.chat, "engine", lambda: Failing(ModelError("broke"), 1))
    chunks = events(client.post("/chat/completions", json={**HI, "stream": True}))
    assert chunks[0]["choices"][0]["delta"]["content"] == "one\n"
    assert chunks[-1]["error"]["message"] == "broke"


def test_a_client_that_leaves_ends_the_generation(client: httpx.Client, scripted: Scripted) -> None:
    engine = scripted("word\n" * 200_000)
    with client.stream("POST", "/chat/completions", json={**HI, "stream": True}) as response:
        next(response.iter_lines())
    assert engine.closed.wait(10)
    assert client.get("/models").status_code == 200


def test_construction() -> None:
    with pytest.raises(InvalidInput, match="not a chat model"):
        LocalServer("all-minilm-l6-v2")
    with pytest.raises(UnknownModel):
        LocalServer("nope")
    with LocalServer() as taken, pytest.raises(InvalidInput, match="Cannot listen"):
        LocalServer(port=int(taken.url.split(":")[2].split("/")[0]))


def test_a_public_host_is_said(caplog: pytest.LogCaptureFixture) -> None:
    server = LocalServer(host="0.0.0.0")
    server._http.server_close()
    assert "reachable from other machines" in caplog.text
