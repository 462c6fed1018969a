"""OAuth whole: the SDK's client providers, a small authorization server, and our own served side behind it."""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse
from starlette.routing import Route

from runwell.errors import MCPConnectionError
from runwell.mcp import MCPClient, as_http_app, as_mcp_server
from runwell.tools import ToolRuntime, tool

from .conftest import free_port, named, running

pytestmark = pytest.mark.integration

CALLBACK = "http://localhost:9/callback"


class AuthorizationServer:
    """Registers clients, gives codes to whoever is sent there, and tokens for codes, refresh tokens and secrets."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.clients: dict[str, dict[str, Any]] = {"robot": {"client_secret": "r2d2"}}
        self.codes: dict[str, dict[str, str]] = {}
        self.refresh: dict[str, str] = {}
        self.tokens: dict[str, AccessToken] = {}
        self.seen: list[str] = []
        self.lives = 3600
        routes = [
            Route("/.well-known/oauth-authorization-server", self.metadata),
            Route("/register", self.register, methods=["POST"]),
            Route("/authorize", self.authorize),
            Route("/token", self.token, methods=["POST"]),
        ]
        self.app = Starlette(routes=routes)

    async def metadata(self, request: Request) -> JSONResponse:
        return JSONResponse(
            {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "registration_endpoint": f"{self.url}/register",
                "response_types_supported": ["code"],
                "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post", "none"],
                "scopes_supported": ["use"],
            }
        )

    async def register(self, request: Request) -> JSONResponse:
        self.seen.append("register")
        given = await request.json()
        name = f"client-{len(self.clients)}"
        self.clients[name] = {**given, "client_secret": secrets.token_hex(8)}
        return JSONResponse(
            {
                **given,
                "client_id": name,
                "client_secret": self.clients[name]["client_secret"],
                "token_endpoint_auth_method": "client_secret_post",
            },
            status_code=201,
        )

    async def authorize(self, request: Request) -> RedirectResponse:
        self.seen.append("authorize")
        asked = dict(request.query_params)
        assert asked["code_challenge_method"] == "S256"
        assert asked["client_id"] in self.clients
        code = secrets.token_hex(8)
        self.codes[code] = asked
        said = urlencode({"code": code, "state": asked["state"]})
        return RedirectResponse(f"{asked['redirect_uri']}?{said}", status_code=302)

    async def token(self, request: Request) -> JSONResponse:
        given = dict(parse_qs((await request.body()).decode()))
        form = {name: values[0] for name, values in given.items()}
        self.seen.append(form["grant_type"])
        if basic := request.headers.get("authorization"):
            client, secret = base64.b64decode(basic.removeprefix("Basic ")).decode().split(":")
        else:
            client, secret = form["client_id"], form.get("client_secret", "")
        if self.clients.get(client, {}).get("client_secret") != secret:
            return JSONResponse({"error": "invalid_client"}, status_code=401)
        if form["grant_type"] == "authorization_code":
            asked = self.codes.pop(form["code"])
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            if base64.urlsafe_b64encode(digest).decode().rstrip("=") != asked["code_challenge"]:
                return JSONResponse({"error": "invalid_grant"}, status_code=400)
            assert form["resource"] == asked["resource"]
            return self.give(client, "ada", form["resource"])
        if form["grant_type"] == "refresh_token":
            resource = self.refresh.pop(form["refresh_token"], None)  # each is good for one use
            if resource is None:
                return JSONResponse({"error": "invalid_grant"}, status_code=400)
            return self.give(client, "ada", resource)
        return self.give(client, None, form["resource"])

    def give(self, client: str, who: str | None, resource: str) -> JSONResponse:
        token, refresh = secrets.token_hex(8), secrets.token_hex(8)
        until = int(time.time()) + self.lives
        self.tokens[token] = AccessToken(
            token=token, client_id=client, subject=who, scopes=["use"], expires_at=until, resource=resource
        )
        made = {"access_token": token, "token_type": "Bearer", "expires_in": self.lives, "scope": "use"}
        if who is not None:
            self.refresh[refresh] = resource
            made["refresh_token"] = refresh
        return JSONResponse(made)

    async def verify_token(self, token: str) -> AccessToken | None:
        return self.tokens.get(token)


@tool
def whoami(runtime: ToolRuntime) -> str:
    """Who calls."""
    return str(runtime.principal.id)


@pytest.fixture(scope="module")
def parties() -> Iterator[tuple[AuthorizationServer, str]]:
    ports = free_port(), free_port()
    authority = AuthorizationServer(f"http://127.0.0.1:{ports[0]}")
    url = f"http://127.0.0.1:{ports[1]}/mcp"
    settings = AuthSettings(
        issuer_url=authority.url, resource_server_url=url, required_scopes=["use"], validate_token_resource=True
    )
    app = as_http_app(as_mcp_server(whoami), token_verifier=authority, auth=settings)
    with ExitStack() as stack:
        stack.enter_context(running(authority.app, ports[0]))
        stack.enter_context(running(app, ports[1]))
        yield authority, url


@pytest.fixture
def authority(parties: Any) -> AuthorizationServer:
    found: AuthorizationServer = parties[0]
    found.lives = 3600
    found.seen.clear()
    return found


@pytest.fixture
def url(parties: Any) -> str:
    return str(parties[1])


class Storage:
    """What a program would keep on disk."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, info: OAuthClientInformationFull) -> None:
        self.client = info


def provider(url: str, storage: Storage, *, state: str | None = None) -> OAuthClientProvider:
    """The SDK's provider, and a person who follows where they are sent and says yes."""
    came: list[dict[str, list[str]]] = []

    async def redirect(address: str) -> None:
        async with httpx2.AsyncClient(trust_env=False) as browser:
            answer = await browser.get(address)
        came.append(parse_qs(urlsplit(answer.headers["location"]).query))

    async def callback() -> AuthorizationCodeResult:
        said = came.pop()
        return AuthorizationCodeResult(code=said["code"][0], state=state or said["state"][0])

    return OAuthClientProvider(
        server_url=url,
        client_metadata=OAuthClientMetadata(
            client_name="runwell test",
            redirect_uris=[CALLBACK],
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
        ),
        storage=storage,
        redirect_handler=redirect,
        callback_handler=callback,
    )


PROTOCOLS = pytest.mark.parametrize("protocol", ["auto", "legacy"])


@PROTOCOLS
def test_a_person_logs_in_once_and_the_client_is_registered(
    run: Any, authority: AuthorizationServer, url: str, protocol: str
) -> None:
    storage = Storage()
    with MCPClient(url, auth=provider(url, storage), protocol=protocol) as client:
        assert run.invoke(named(client)["whoami"], {}) == f"{storage.client.client_id}/ada"
    assert authority.seen == ["register", "authorize", "authorization_code"]
    with MCPClient(url, auth=provider(url, storage), protocol=protocol) as client:  # the next start of the program
        assert run.invoke(named(client)["whoami"], {}) == f"{storage.client.client_id}/ada"
    assert len(authority.seen) == 3
    assert storage.tokens.access_token not in repr(client)


@PROTOCOLS
def test_a_token_that_ran_out_is_refreshed_in_the_middle_of_a_session(
    run: Any, authority: AuthorizationServer, url: str, protocol: str
) -> None:
    storage = Storage()
    auth = provider(url, storage)
    with MCPClient(url, auth=auth, protocol=protocol) as client:
        tool = named(client)["whoami"]
        first = storage.tokens.access_token
        authority.tokens[first].expires_at = int(time.time()) - 1
        auth.context.token_expiry_time = time.time() - 1
        assert run.invoke(tool, {}) == f"{storage.client.client_id}/ada"
        assert storage.tokens.access_token != first
        assert authority.seen == ["register", "authorize", "authorization_code", "refresh_token"]
        assert client._connection.opened == 1


def test_a_token_that_was_taken_back_is_asked_for_anew(run: Any, authority: AuthorizationServer, url: str) -> None:
    storage = Storage()
    with MCPClient(url, auth=provider(url, storage)) as client:
        tool = named(client)["whoami"]
        authority.tokens.clear()
        authority.refresh.clear()
        assert run.invoke(tool, {}) == f"{storage.client.client_id}/ada"
    assert authority.seen == ["register", "authorize", "authorization_code", "authorize", "authorization_code"]


@PROTOCOLS
def test_a_program_on_its_own_behalf_shows_its_secret(
    run: Any, authority: AuthorizationServer, url: str, protocol: str
) -> None:
    auth = ClientCredentialsOAuthProvider(
        server_url=url, storage=Storage(), client_id="robot", client_secret="r2d2", issuer=authority.url
    )
    with MCPClient(url, auth=auth, protocol=protocol) as client:
        assert run.invoke(named(client)["whoami"], {}) == "robot"
    assert authority.seen == ["client_credentials"]


def test_a_login_that_fails_says_why_and_tells_no_secret(authority: AuthorizationServer, url: str) -> None:
    wrong = ClientCredentialsOAuthProvider(
        server_url=url, storage=Storage(), client_id="robot", client_secret="hunter2", issuer=authority.url
    )
    with pytest.raises(MCPConnectionError, match="invalid_client") as caught:
        MCPClient(url, auth=wrong).tools()
    assert "hunter2" not in str(caught.value)
    with pytest.raises(MCPConnectionError, match="State parameter mismatch"):
        MCPClient(url, auth=provider(url, Storage(), state="forged")).tools()


def test_a_token_for_another_server_is_refused(authority: AuthorizationServer, url: str) -> None:
    authority.give("robot", None, "http://elsewhere.example/mcp")
    token = list(authority.tokens)[-1]
    with pytest.raises(MCPConnectionError, match="HTTP 401"):
        MCPClient(url, headers={"Authorization": f"Bearer {token}"}).tools()


def test_a_person_has_longer_to_log_in_than_a_server_to_answer() -> None:
    assert MCPClient("https://x.example/mcp")._connection.connect_timeout == 30
    assert MCPClient("https://x.example/mcp", auth=httpx2.Auth())._connection.connect_timeout == 300
    assert MCPClient("https://x.example/mcp", auth=httpx2.Auth(), connect_timeout=5)._connection.connect_timeout == 5
