"""Local models behind an OpenAI-compatible HTTP endpoint, tools included.

llama.cpp's own server does not make small models call tools, so requests come in here and go through the same
constrained decisions as the chat model in process. Standard library only; loopback and a bearer key by default.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import secrets
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from runwell.errors import (
    ContextOverflow,
    FetchError,
    InvalidInput,
    ModelBadRequest,
    ModelTimeout,
    RunwellError,
    UnknownModel,
)
from runwell.providers.local.catalogue import DEFAULT_CHAT, DEFAULT_EMBEDDING, MODELS, find, is_gguf_path
from runwell.providers.local.completion import Call, Calls, End, LocalRuntime, Settings, Text
from runwell.providers.local.embeddings import LocalEmbeddings
from runwell.providers.local.runtime import EngineOptions

__all__ = ["LocalServer"]

logger = logging.getLogger("runwell.local.serve")

_POLL_S = 0.05  # how soon it notices that it should stop
_MAX_BODY = 16 * 1024 * 1024
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class LocalServer:
    """Serves chat completions, embeddings and the list of models on a port.

    `with LocalServer() as server:` gives `server.url` (ends in /v1) and `server.key`, and stops at the end of the
    block; `run()` serves until interrupted. `model` is the chat model that answers, `embeddings` the embedding model
    (None: no embeddings). `port` 0 takes a free one. `key` None makes a random one.

    A host that is not loopback exposes the models to the network: only when asked for, and said in the log.
    """

    def __init__(
        self,
        model: str = DEFAULT_CHAT,
        *,
        embeddings: str | None = DEFAULT_EMBEDDING,
        host: str = "127.0.0.1",
        port: int = 0,
        key: str | None = None,
        options: EngineOptions | None = None,
    ) -> None:
        if not is_gguf_path(model) and find(model).kind != "chat":
            raise InvalidInput(
                f"{model!r} is not a chat model.", hint=f"Serve {DEFAULT_CHAT!r} and pass it as embeddings=."
            )
        self.model = model if is_gguf_path(model) else find(model).name
        self.chat = LocalRuntime(self.model, options)
        self.embedder = LocalEmbeddings(embeddings) if embeddings is not None else None
        self.key = key or secrets.token_urlsafe(24)
        self.host = host
        if host not in _LOOPBACK:
            logger.warning("Serving %s on %s: reachable from other machines by whoever has the key.", self.model, host)
        try:
            self._http = _Http((host, port), _Handler)
        except OSError as error:
            raise InvalidInput(
                f"Cannot listen on {host}:{port}: {error.strerror or error}.",
                hint="Choose another port, or 0 for any free one.",
            ) from error
        self._http.owner = self
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The base address for clients, such as `http://127.0.0.1:8080/v1`."""
        port = self._http.server_address[1]
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{port}/v1"

    def load(self) -> None:
        """Fetch and load the chat model now; the embedding model is loaded when first asked for."""
        self.chat.engine()

    def start(self) -> None:
        """Serve in a background thread."""
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(_POLL_S,), name="runwell-serve", daemon=True
        )
        self._thread.start()

    def run(self) -> None:
        """Serve in this thread until interrupted or closed from another one."""
        try:
            self._http.serve_forever(_POLL_S)
        finally:
            self._http.server_close()

    def close(self) -> None:
        """Stop taking requests. The engines stay loaded for other users of this process."""
        self._http.shutdown()
        self._http.server_close()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- what the routes give

    def models(self) -> dict[str, Any]:
        names = [self.model] + ([self.embedder.model] if self.embedder is not None else [])
        listed = [{"id": _id(name), "object": "model", "created": 0, "owned_by": _owner(name)} for name in names]
        return {"object": "list", "data": listed}

    def events(self, body: Mapping[str, Any]) -> Iterator[Text | Calls | End]:
        """The answer to a chat completion request, as events. Bad requests raise before the first."""
        _served(body.get("model"), self.model)
        if not isinstance(body.get("messages"), list) or not body["messages"]:
            raise InvalidInput("`messages` must be a list with at least one message.")
        if body.get("n") not in (None, 1):
            raise InvalidInput("`n` greater than 1 is not served.")
        stop = body.get("stop")
        settings: dict[str, Any] = {
            name: body[name] for name in ("temperature", "seed", "top_p") if body.get(name) is not None
        }
        if limit := body.get("max_completion_tokens") or body.get("max_tokens"):
            settings["max_tokens"] = limit
        return self.chat.stream(
            body["messages"],
            settings=Settings(stop=(stop,) if isinstance(stop, str) else tuple(stop or ()), **settings),
            tools=body.get("tools") or (),
            tool_choice=body.get("tool_choice"),
            parallel_tool_calls=bool(body.get("parallel_tool_calls", False)),
            response_format=body.get("response_format"),
        )

    def embed(self, body: Mapping[str, Any]) -> dict[str, Any]:
        if self.embedder is None:
            raise UnknownModel("This server has no embedding model.")
        _served(body.get("model"), self.embedder.model)
        texts = body.get("input")
        if isinstance(texts, str):
            texts = [texts]
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
            raise InvalidInput("`input` must be a text or a list of texts.")
        found, tokens = self.embedder.embed_counted(texts)
        vectors: list[Any] = list(found)
        if body.get("encoding_format") == "base64":
            vectors = [_packed(vector) for vector in vectors]
        data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "model": _id(self.embedder.model), "data": data, "usage": usage}


def _served(asked: Any, model: str) -> None:
    if asked is not None and asked not in (_id(model), model, f"local:{model}"):
        raise UnknownModel(f"The model {asked!r} is not served here.", hint=f"Served: {_id(model)!r}.")


def _id(model: str) -> str:
    return os.path.basename(model) if is_gguf_path(model) else model


def _owner(model: str) -> str:
    return MODELS[model].author if model in MODELS else "local"


def _packed(vector: Sequence[float]) -> str:
    import base64
    import struct

    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


# -- HTTP


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    owner: LocalServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away between two requests is no news; the rest is logged, not printed."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError):
            logger.error("A request from %s failed", client_address, exc_info=error)


class _Gone(Exception):
    """The client went away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http

    def log_message(self, format: str, *args: Any) -> None:
        logger.debug(format, *args)

    def do_GET(self) -> None:
        if self.path == "/health":
            self._json(200, {"status": "ok"})
        elif self._allowed():
            if self.path == "/v1/models":
                self._json(200, self.server.owner.models())
            else:
                self._error(404, f"Nothing is served at GET {self.path}.", "not_found")

    def do_POST(self) -> None:
        body = self._body()  # read before any answer, or a kept connection would take it for the next request
        if body is None or not self._allowed():
            return
        routes = {"/v1/chat/completions": self._chat, "/v1/embeddings": self._embeddings}
        route = routes.get(self.path.split("?")[0])
        if route is None:
            self._error(404, f"Nothing is served at POST {self.path}.", "not_found")
            return
        try:
            request = json.loads(body)
            if not isinstance(request, dict):
                raise InvalidInput("The body must be a JSON object.")
            route(request)
        except (_Gone, BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        except Exception as error:
            self._fail(error)

    def _allowed(self) -> bool:
        given = self.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        if hmac.compare_digest(given.encode(), self.server.owner.key.encode()):
            return True
        self._error(401, "The key is missing or wrong. Send it as `Authorization: Bearer <key>`.", "invalid_api_key")
        return False

    def _body(self) -> bytes | None:
        try:
            size = int(self.headers.get("Content-Length", ""))
        except ValueError:
            size = -1
        if not 0 <= size <= _MAX_BODY:
            self.close_connection = True
            self._error(
                413 if size > 0 else 411, f"The body must say its length, at most {_MAX_BODY} bytes.", "bad_length"
            )
            return None
        return self.rfile.read(size)

    # -- routes

    def _embeddings(self, request: dict[str, Any]) -> None:
        self._json(200, self.server.owner.embed(request))

    def _chat(self, request: dict[str, Any]) -> None:
        events = self.server.owner.events(request)
        head = {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": _id(self.server.owner.model),
        }
        with closing(events):  # type: ignore[type-var]
            if request.get("stream"):
                with_usage = bool((request.get("stream_options") or {}).get("include_usage"))
                self._sse(_chunks(events, head, with_usage))
            else:
                self._json(200, _whole(events, head))

    # -- writing

    def _sse(self, chunks: Iterator[dict[str, Any]]) -> None:
        first = next(chunks)  # an error before the first piece is still a plain HTTP error
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            self._event(first)
            for chunk in chunks:
                self._event(chunk)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise _Gone from error
        except Exception as error:  # too late for a status: clients of this format read an error event
            status, told = _told(error)
            self._event({"error": {**told, "code": status}})
        self._piece(b"data: [DONE]\n\n")
        self._piece(b"")

    def _event(self, value: Mapping[str, Any]) -> None:
        self._piece(b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n")

    def _piece(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _json(self, status: int, value: Mapping[str, Any]) -> None:
        data = json.dumps(value, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _error(self, status: int, message: str, code: str) -> None:
        self._json(
            status,
            {"error": {"message": message, "type": _TYPES.get(status, "server_error"), "code": code, "param": None}},
        )

    def _fail(self, error: Exception) -> None:
        status, told = _told(error)
        if status >= 500:
            logger.error("%s failed", self.path, exc_info=error)
        self._json(status, {"error": told})


_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    411: "invalid_request_error",
}


def _told(error: Exception) -> tuple[int, dict[str, Any]]:
    """An error as (HTTP status, what the client is told)."""
    status, code = 500, "internal_error"
    if isinstance(error, ContextOverflow):
        status, code = 400, "context_length_exceeded"
    elif isinstance(error, UnknownModel):
        status, code = 404, "model_not_found"
    elif isinstance(error, (InvalidInput, ModelBadRequest, json.JSONDecodeError)):
        status, code = 400, "invalid_request"
    elif isinstance(error, (KeyError, TypeError, AttributeError)):
        status, code = 400, "malformed_request"
    elif isinstance(error, ModelTimeout):
        status, code = 504, "timeout"
    elif isinstance(error, FetchError):
        status, code = 503, "model_unavailable"
    message = error.message if isinstance(error, RunwellError) else f"{type(error).__name__}: {error}"
    return status, {"message": message, "type": _TYPES.get(status, "server_error"), "code": code, "param": None}


# -- the format


def _call(call: Call) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _whole(events: Iterator[Text | Calls | End], head: Mapping[str, Any]) -> dict[str, Any]:
    text: list[str] = []
    calls: list[dict[str, Any]] = []
    end: End | None = None
    for event in events:
        if isinstance(event, Text):
            text.append(event.text)
        elif isinstance(event, Calls):
            calls = [_call(call) for call in event.calls]
        else:
            end = event
    message: dict[str, Any] = {"role": "assistant", "content": "".join(text) or (None if calls else "")}
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": end.reason if end else "stop", "logprobs": None}
    answer = {**head, "object": "chat.completion", "choices": [choice]}
    return {**answer, "usage": end.usage.to_wire()} if end else answer


def _chunks(
    events: Iterator[Text | Calls | End], head: Mapping[str, Any], with_usage: bool
) -> Iterator[dict[str, Any]]:
    def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        return {**head, "object": "chat.completion.chunk", "choices": [choice]}

    role: dict[str, Any] = {"role": "assistant"}  # on the first piece only
    for event in events:
        if isinstance(event, Text):
            yield chunk({**role, "content": event.text})
        elif isinstance(event, Calls):
            yield chunk({**role, "tool_calls": [{"index": i, **_call(call)} for i, call in enumerate(event.calls)]})
        else:
            yield chunk(dict(role), event.reason)
            if with_usage:
                yield {**head, "object": "chat.completion.chunk", "choices": [], "usage": event.usage.to_wire()}
        role = {}
