"""A server that speaks the chat completions API and answers what a test scripts."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from runwell.models.retry import RetryPolicy
from runwell.providers.openai import ChatOpenAI

KEY = "sk-test-0123456789-secret"


def completion(content: str | None = "Hello.", *, finish: str = "stop", **message: Any) -> dict[str, Any]:
    """The body of an answer."""
    return {
        "id": "chatcmpl-1",
        "model": "served-model-1",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}
        ],
        "usage": {
            "prompt_tokens": 9,
            "completion_tokens": 3,
            "total_tokens": 12,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
    }


def event(delta: dict[str, Any] | None = None, *, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """An event of a stream."""
    choices = [] if delta is None and finish is None else [{"index": 0, "delta": delta or {}, "finish_reason": finish}]
    return {"id": "chatcmpl-1", "model": "served-model-1", "choices": choices, **fields}


def call_event(index: int, arguments: str, name: str | None = None, id: str | None = None) -> dict[str, Any]:
    """An event with a fragment of a tool call."""
    call: dict[str, Any] = {"index": index, "function": {"arguments": arguments}}
    if name:
        call |= {"id": id, "type": "function"}
        call["function"]["name"] = name
    return event({"tool_calls": [call]})


class Wire:
    """`script` holds what the next requests get, `requests` what came: dicts of path, headers and body."""

    completion = staticmethod(completion)
    event = staticmethod(event)
    call_event = staticmethod(call_event)
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
    text = [event({"role": "assistant", "content": ""}), event({"content": "Hel"}), event({"content": "lo."})]
    end = [event({}, finish="stop"), event(usage=usage), "[DONE]"]

    def __init__(self) -> None:
        self.script: list[Callable[[BaseHTTPRequestHandler], None]] = []
        self.requests: list[dict[str, Any]] = []
        self.over = threading.Event()
        self.gone = threading.Event()
        self.outwaited = threading.Event()
        wire = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                wire.requests.append({"path": self.path, "headers": headers, "body": json.loads(body)})
                try:
                    wire.script.pop(0)(self)
                except (BrokenPipeError, ConnectionResetError):
                    wire.gone.set()
                    self.close_connection = True

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.block_on_close = False
        self.base_url = f"http://127.0.0.1:{self.server.server_port}/v1"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    @property
    def last(self) -> dict[str, Any]:
        return self.requests[-1]

    def close(self) -> None:
        self.over.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    # -- what a request can get

    def json(self, body: Any, status: int = 200, **headers: str) -> None:
        """A whole answer; `body` may be a text that is no JSON."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            data = (body if isinstance(body, str) else json.dumps(body)).encode()
            handler.send_response(status)
            for name, value in {"content-type": "application/json", **headers}.items():
                handler.send_header(name.replace("_", "-"), value)
            handler.send_header("content-length", str(len(data)))
            handler.end_headers()
            handler.wfile.write(data)

        self.script.append(answer)

    def error(self, status: int, message: str = "no", *, code: Any = None, type: str = "", **headers: str) -> None:
        self.json({"error": {"message": message, "code": code, "type": type}}, status, **headers)

    def events(self, *events: Any, then: str = "end") -> None:
        """A stream of events (dicts, or texts as they are). `then`: "end" it well, "cut" the connection, "hang", or
        "flood": more text until the client goes away."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.send_header("content-type", "text/event-stream")
            handler.send_header("transfer-encoding", "chunked")
            handler.end_headers()

            def send(item: Any) -> None:
                line = f"data: {item if isinstance(item, str) else json.dumps(item)}\n\n".encode()
                handler.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
                handler.wfile.flush()

            for item in events:
                send(item)
            if then == "end":
                handler.wfile.write(b"0\r\n\r\n")
            elif then == "hang":
                self.wait()
                handler.close_connection = True
            elif then == "flood":
                while not self.over.is_set():
                    send(event({"content": "x" * 1000}))
            else:
                handler.connection.shutdown(socket.SHUT_RDWR)
                handler.close_connection = True

        self.script.append(answer)

    def hang(self) -> None:
        """No answer at all."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            self.wait()
            handler.close_connection = True

        self.script.append(answer)

    def wait(self) -> None:
        if not self.over.wait(20):
            self.outwaited.set()


class Colour:
    """Calls a model in one colour."""

    def __init__(self, name: str) -> None:
        self.name = name

    def invoke(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        if self.name == "sync":
            return model.invoke(*args, **kwargs)
        return asyncio.run(model.ainvoke(*args, **kwargs))

    def stream(self, model: Any, *args: Any, into: list[Any] | None = None, **kwargs: Any) -> list[Any]:
        """All chunks; those before an error are in `into`."""
        chunks: list[Any] = [] if into is None else into
        if self.name == "sync":
            for chunk in model.stream(*args, **kwargs):
                chunks.append(chunk)
            return chunks

        async def read() -> None:
            async for chunk in model.astream(*args, **kwargs):
                chunks.append(chunk)

        asyncio.run(read())
        return chunks


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS"):
        monkeypatch.delenv(name, raising=False)
    server = Wire()
    yield server
    server.close()


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> Colour:
    return Colour(request.param)


class QuickRetries(ChatOpenAI):
    retry_policy = RetryPolicy(first_s=0.001)


@pytest.fixture
def model(wire: Wire) -> Callable[..., ChatOpenAI]:
    """Makes a model that talks to the server; its retries hardly wait."""

    def make(**given: Any) -> ChatOpenAI:
        return QuickRetries(**{"model": "m", "api_key": KEY, "base_url": wire.base_url, **given})

    return make
