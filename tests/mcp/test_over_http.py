"""A served HTTP side: who may call it, from where, and under which names."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from runwell.errors import InvalidConfig, MCPConnectionError
from runwell.mcp import MCPClient, as_http_app, as_mcp_server, serve
from runwell.mcp.keys import KeyVerifier, read_keys
from runwell.tools import ToolRuntime, tool

from .conftest import free_port, listening, named, running
from .test_serving import COMMAND, OFFICE

pytestmark = pytest.mark.integration

ADA, BOB = "a" * 20, "b" * 20
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The command, with keys for two callers; its URL."""
    folder, port = tmp_path_factory.mktemp("guarded"), free_port()
    keys = folder / "keys"
    keys.write_text(f"# who may call\nada: {ADA}\nbob: {BOB}\n")
    command = [*COMMAND, "mcp", "serve", f"{OFFICE}:add,whoami,clerk", "--http", "--port", str(port)]
    command += ["--keys", str(keys), "--saver", f"sqlite:{folder / 'runs.db'}"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 30
        while not listening(port):
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


def client(url: str, key: str, **options: Any) -> MCPClient:
    return MCPClient(url, headers={"Authorization": f"Bearer {key}"}, **options)


@pytest.mark.integration
@pytest.mark.parametrize("protocol", ["auto", "legacy"])
def test_a_key_says_who_calls(guarded: str, protocol: str) -> None:
    with client(guarded, ADA, protocol=protocol) as ada, client(guarded, BOB, protocol=protocol) as bob:
        assert named(ada)["add"].invoke({"a": 1, "b": 2}) == "3"
        assert [named(each)["whoami"].invoke({}) for each in (ada, bob)] == ["ada", "bob"]


@pytest.mark.integration
def test_each_caller_has_threads_of_its_own(guarded: str) -> None:
    approving: Any = {"on_elicitation": lambda question: {"decision": "approve"}}
    waiting: Any = {"on_elicitation": lambda question: "cancel"}
    with client(guarded, ADA, **waiting) as ada, client(guarded, BOB, **approving) as bob:
        with pytest.raises(Exception, match="stays open"):
            named(ada)["clerk"].invoke({"task": "/tmp/ada", "thread_id": "t"})
        with pytest.raises(Exception, match="There is no conversation"):
            named(bob)["clerk"].invoke({"thread_id": "t"})
        assert named(bob)["clerk"].invoke({"task": "/tmp/bob", "thread_id": "t"}) == "It went so: deleted /tmp/bob"
    with client(guarded, ADA, **approving) as ada:
        assert named(ada)["clerk"].invoke({"thread_id": "t"}) == "It went so: deleted /tmp/ada"


@pytest.mark.integration
@pytest.mark.parametrize("key", ["-", "x" * 20, ADA[:-1], ADA.upper()])
def test_without_a_key_nobody_is_served(guarded: str, key: str) -> None:
    with pytest.raises(MCPConnectionError, match=r"HTTP 401(.|\n)*headers= or auth= are missing or wrong"):
        client(guarded, key).tools()
    with pytest.raises(MCPConnectionError, match="HTTP 401"):
        MCPClient(guarded).tools()
    answer = httpx2.post(guarded, json=INITIALIZE, headers={"Authorization": f"Bearer {key}"}, trust_env=False)
    assert answer.status_code == 401
    assert "Bearer" in answer.headers["www-authenticate"]
    assert ADA not in answer.text


@pytest.mark.integration
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example:80"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://localhost.evil.example:80"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:3000"}, 200),
        ({}, 200),
    ],
)
def test_a_page_elsewhere_cannot_call_even_with_a_key(guarded: str, headers: Any, status: int) -> None:
    given = {"Authorization": f"Bearer {ADA}", "Accept": "application/json, text/event-stream", **headers}
    assert httpx2.post(guarded, json=INITIALIZE, headers=given, trust_env=False).status_code == status


@pytest.mark.integration
def test_tokens_of_ones_own_and_names_of_ones_own() -> None:
    from mcp.server.auth.provider import AccessToken

    class Verifier:
        async def verify_token(self, token: str) -> AccessToken | None:
            who, _, role = token.partition(".")
            return AccessToken(token=token, client_id="app", subject=who, scopes=[role]) if role else None

    @tool
    def whoami(runtime: ToolRuntime) -> str:
        """Who calls."""
        return f"{runtime.principal.id} {runtime.principal.roles}"

    app = as_http_app(
        as_mcp_server(whoami),
        token_verifier=Verifier(),
        allow_hosts=["mcp.example"],
        allow_origins=["https://ui.example"],
    )
    with running(app) as url:
        with client(url, "eve.admin") as eve:
            assert named(eve)["whoami"].invoke({}) == "app/eve ('admin',)"
        with pytest.raises(MCPConnectionError, match="HTTP 401"):
            client(url, "eve").tools()
        accepted = {"Authorization": "Bearer eve.admin", "Accept": "application/json, text/event-stream"}
        for headers, status in (
            ({"Host": "mcp.example"}, 200),
            ({"Host": "mcp.example:8443", "Origin": "https://mcp.example"}, 200),
            ({"Origin": "https://ui.example"}, 200),
            ({"Origin": "https://ui.example:444"}, 403),
        ):
            answer = httpx2.post(url, json=INITIALIZE, headers={**accepted, **headers}, trust_env=False)
            assert answer.status_code == status, headers


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"host": "0.0.0.0"}, "nobody is asked who they are"),
        ({"host": "::"}, "nobody is asked who they are"),
        ({"host": "192.0.2.1"}, "nobody is asked who they are"),
        ({"host": "mcp.example"}, "nobody is asked who they are"),
        ({"host": "0.0.0.0", "keys": {"ada": ADA}}, "by which names it is called is not known"),
        ({"host": "", "anyone": True}, "by which names it is called is not known"),
        ({"keys": {}}, "There is no key"),
        ({"keys": {"ada": "short"}}, "'ada' has 5 characters"),
        ({"keys": {"ada": ADA, "bob": ADA}}, "'ada' and 'bob' have the same key"),
        ({"keys": {"ada": ADA}, "token_verifier": KeyVerifier({"ada": ADA})}, "exclude each other"),
        ({"allow_hosts": "mcp.example"}, "one text"),
        ({"auth": object()}, "nothing checks them"),
        ({"http": False, "keys": {"ada": ADA}}, "over HTTP only"),
        ({"http": False, "anyone": True}, "over HTTP only"),
    ],
)
def test_a_reach_that_is_not_meant_is_refused(options: Any, said: str) -> None:
    @tool
    def add(a: int) -> int:
        """Add."""
        return a

    with pytest.raises(InvalidConfig, match=said):
        serve(add, **{"http": True, "port": free_port(), **options})


@pytest.mark.integration
def test_the_command_refuses_a_public_address_without_keys() -> None:
    command = [*COMMAND, "mcp", "serve", f"{OFFICE}:add", "--http", "--host", "0.0.0.0", "--port", str(free_port())]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "nobody is asked who they are" in done.stderr
    assert "--keys FILE" in done.stderr
    assert "Traceback" not in done.stderr


def test_keys_are_read_from_a_file_or_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys"
    file.write_text(f"\n# all\nada : {ADA}\n{BOB}\n")
    found = read_keys(str(file))
    assert found["ada"] == ADA
    assert [name.startswith("key-") for name, key in found.items() if key == BOB] == [True]
    monkeypatch.setenv("SOME_KEYS", f"ada: {ADA}")
    assert read_keys("env:SOME_KEYS") == {"ada": ADA}
    assert ADA not in repr(KeyVerifier(found))
    with pytest.raises(InvalidConfig, match="no variable 'NONE_SUCH'"):
        read_keys("env:NONE_SUCH")
    with pytest.raises(InvalidConfig, match="cannot be read"):
        read_keys(str(tmp_path / "none"))
    file.write_text(f"ada: {ADA}\nada: {BOB}\n")
    with pytest.raises(InvalidConfig, match="'ada' is missing or there twice"):
        read_keys(str(file))
