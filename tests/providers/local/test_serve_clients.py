"""Clients of the local server that go away."""

from __future__ import annotations

import socket
import struct
import threading
from typing import Any
from urllib.request import urlopen

from runwell.providers.local.serve import LocalServer


def test_a_client_that_resets_its_connection_is_no_news(capfd: Any, caplog: Any) -> None:
    with LocalServer("smollm2-135m") as server:
        port = int(server.url.rsplit(":", 1)[1].partition("/")[0])
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(65536).startswith(b"HTTP/1.1 200")
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for thread in threading.enumerate():
            if "process_request_thread" in thread.name:
                thread.join(10)
        with urlopen(f"http://127.0.0.1:{port}/health") as answer:
            assert answer.status == 200
    assert capfd.readouterr().err == ""
    assert not caplog.records
