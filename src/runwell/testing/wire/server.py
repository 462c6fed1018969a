"""A server that speaks a provider's API and answers what a test scripts."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self

from runwell.testing.wire.said import Asked, Said, WireDialect

__all__ = ["WireServer"]

Then = Literal["end", "cut", "hang", "flood"]


class WireServer:
    """A provider on this machine, for tests of programs and of integrations.

        with WireServer(OpenAIDialect()) as wire:
            wire.say("Hello.")
            model = ChatOpenAI(model="m", api_key="k", base_url=wire.base_url)
            assert model.invoke("Hi").text == "Hello."
            assert wire.asked.turns == [("user", "Hi")]

    Each request takes the next part of the script; one that finds none gets status 500. `requests` holds what came, as
    dicts of path, headers and body. It listens on 127.0.0.1 until `close()`, and may be asked from many threads.
    """

    WAIT_S = 20.0
    """How long `hang` lasts at most. `outwaited` is then set: the client did not give up by itself."""

    def __init__(self, dialect: WireDialect | None = None) -> None:
        self.dialect = dialect or WireDialect()
        self.script: list[Callable[[BaseHTTPRequestHandler], None]] = []
        self.otherwise = self._whole({"error": {"message": "the script of this test has ended"}}, 500)
        """What a request gets that finds no part of the script."""
        self.requests: list[dict[str, Any]] = []
        self.over = threading.Event()
        self.gone = threading.Event()
        """Set when a client went away in the middle of an answer."""
        self.outwaited = threading.Event()
        wire = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                wire._serve(self)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.block_on_close = False
        self.base_url = f"http://127.0.0.1:{self.server.server_port}{self.dialect.prefix}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving. Clients that still wait are cut off."""
        self.over.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @property
    def last(self) -> dict[str, Any]:
        """The latest request."""
        return self.requests[-1]

    @property
    def asked(self) -> Asked:
        """What the latest request asks for."""
        return self.dialect.asked(self.last)

    # -- what a request can get

    def say(self, text: str = "", **said: Any) -> None:
        """An answer with these fields of `Said`: as a stream if the request asks for one, otherwise whole."""
        answer = Said(text=text, **said)
        whole, stream = self._whole(self.dialect.answer(answer)), self._stream(self.dialect.events(answer))

        def either(handler: BaseHTTPRequestHandler) -> None:
            try:
                streamed = self.dialect.asked(vars(handler)["got"]).stream
            except (
                Exception
            ) as error:  # whatever it stumbles over: told to the client, which would see a cut connection
                told = f"{type(self.dialect).__name__} cannot read this request: {type(error).__name__}: {error}"
                self._whole(self.dialect.error(400, told), 400)(handler)
                return
            (stream if streamed else whole)(handler)

        self.script.append(either)

    def fail(self, status: int, message: str = "no", **headers: str) -> None:
        """An error in the vendor's form."""
        self.json(self.dialect.error(status, message), status, **headers)

    def json(self, body: Any, status: int = 200, **headers: str) -> None:
        """A whole answer; `body` may be a text that is no JSON. `_` in a header's name stands for `-`."""
        self.script.append(self._whole(body, status, headers))

    def events(self, *events: Any, then: Then = "end") -> None:
        """A stream of events. `then`: "end" it well, "cut" the connection, "hang", or "flood": more text until the
        client goes away."""
        self.script.append(self._stream(events, then))

    def hang(self) -> None:
        """No answer at all."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            self.wait()
            handler.close_connection = True

        self.script.append(answer)

    def wait(self) -> None:
        """Wait until the server closes, or the client should long have given up."""
        if not self.over.wait(self.WAIT_S):
            self.outwaited.set()

    # -- serving

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = _body(handler)
        headers = {name.lower(): value for name, value in handler.headers.items()}
        got = {"path": handler.path, "headers": headers, "body": json.loads(body)}
        vars(handler)["got"] = got  # others may come meanwhile
        self.requests.append(got)
        refused = self.dialect.refusal(got)
        try:
            if refused is not None:
                self._whole(refused[1], refused[0])(handler)
            else:
                try:
                    answer = self.script.pop(0)
                except IndexError:  # others may have come meanwhile
                    answer = self.otherwise
                answer(handler)
        except (BrokenPipeError, ConnectionResetError):
            self.gone.set()
            handler.close_connection = True

    def _whole(
        self, body: Any, status: int = 200, headers: dict[str, str] | None = None
    ) -> Callable[[BaseHTTPRequestHandler], None]:
        def answer(handler: BaseHTTPRequestHandler) -> None:
            data = (body if isinstance(body, str) else json.dumps(body)).encode()
            handler.send_response(status)
            for name, value in {"content-type": "application/json", **(headers or {})}.items():
                handler.send_header(name.replace("_", "-"), value)
            handler.send_header("content-length", str(len(data)))
            handler.end_headers()
            handler.wfile.write(data)

        return answer

    def _stream(self, events: Iterable[Any], then: Then = "end") -> Callable[[BaseHTTPRequestHandler], None]:
        events = list(events)
        told = {"sse": "text/event-stream", "lines": "application/x-ndjson"}[self.dialect.framing]

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.send_header("content-type", self.dialect.content_type or told)
            handler.send_header("transfer-encoding", "chunked")
            handler.end_headers()

            def send(event: Any) -> None:
                data = self.dialect.frame(event)
                handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
                handler.wfile.flush()

            for event in events:
                send(event)
            if then == "end":
                handler.wfile.write(b"0\r\n\r\n")
                return
            handler.close_connection = True
            if then == "hang":
                self.wait()
            elif then == "flood":
                more = self.dialect.piece("x" * 1000)
                while not self.over.is_set():
                    for event in more:
                        send(event)
            else:
                handler.connection.shutdown(socket.SHUT_RDWR)

        return answer


def _body(handler: BaseHTTPRequestHandler) -> bytes:
    if handler.headers.get("transfer-encoding", "").lower() != "chunked":
        return handler.rfile.read(int(handler.headers.get("content-length") or 0))
    parts = []
    while size := int(handler.rfile.readline().partition(b";")[0], 16):
        parts.append(handler.rfile.read(size))
        handler.rfile.readline()
    handler.rfile.readline()
    return b"".join(parts)
