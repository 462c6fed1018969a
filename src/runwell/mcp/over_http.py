"""A server over HTTP: who may reach it, and under which names."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from runwell.errors import InvalidConfig
from runwell.mcp.keys import KeyVerifier

__all__ = ["as_http_app", "check_reach", "is_local", "listen"]

_LOCAL = ("127.0.0.1", "localhost", "[::1]")


def as_http_app(
    server: Any,
    *,
    path: str = "/mcp",
    host: str = "127.0.0.1",
    keys: Mapping[str, str] | None = None,
    token_verifier: Any = None,
    auth: Any = None,
    allow_hosts: Sequence[str] = (),
    allow_origins: Sequence[str] = (),
    **options: Any,
) -> Any:
    """An ASGI application (Starlette) that serves `server`, which `as_mcp_server` made, at `path`.

    `keys` are bearer keys by the name of their holder. `token_verifier` is the SDK's hook for tokens of your own
    (`async verify_token(token)` gives an `AccessToken` or None), `auth` its `AuthSettings`, for a server whose tokens
    an authorization server gives out. Without one of them everyone who reaches it may call its tools.

    A request must name one of these hosts: those of this machine itself, `host`, and `allow_hosts`; one from a page in
    a browser must come from one of these, or from `allow_origins`. (Otherwise a page that has its name resolve to this
    machine could call it.) `"*"` in `allow_hosts` leaves that to what stands before it. `options` go to the SDK's
    `streamable_http_app`.
    """
    from mcp.server.auth.settings import AuthSettings
    from mcp.server.transport_security import TransportSecuritySettings

    if keys is not None and token_verifier is not None:
        raise InvalidConfig("keys= and token_verifier= exclude each other.")
    for option, given in (("allow_hosts", allow_hosts), ("allow_origins", allow_origins)):
        if isinstance(given, str):
            raise InvalidConfig(f"{option}={given!r} is one text.", hint=f"Give a list: {option}=[{given!r}].")
    if keys is not None:
        token_verifier = KeyVerifier(keys)
    if token_verifier is None and options.get("auth_server_provider") is not None:
        from mcp.server.auth.provider import ProviderTokenVerifier

        token_verifier = ProviderTokenVerifier(options["auth_server_provider"])
    if auth is not None and token_verifier is None:  # the SDK would let everyone in
        raise InvalidConfig("auth= says who gives out tokens, and nothing checks them.", hint="Give token_verifier=.")
    if token_verifier is not None and auth is None:  # the SDK asks for an issuer, and tells it to nobody
        auth = AuthSettings.model_validate({"issuer_url": f"http://{_LOCAL[0]}", "resource_server_url": None})
    names = [*_LOCAL, *(() if _is_any(host) else (_bracketed(host),)), *allow_hosts]
    ports = [*names, *(f"{name}:*" for name in names if name != "*")]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection="*" not in names,
        allowed_hosts=ports,
        allowed_origins=[*allow_origins, *(f"{scheme}://{name}" for name in ports for scheme in ("http", "https"))],
    )
    return server.streamable_http_app(
        streamable_http_path=path,
        host=host,
        transport_security=security,
        token_verifier=token_verifier,
        auth=auth,
        **options,
    )


def check_reach(host: str, *, authenticated: bool, anyone: bool, allow_hosts: Sequence[str]) -> None:
    """Refuse to listen where others than this machine could call without saying who they are, or by unknown names."""
    if is_local(host):
        return
    if not authenticated and not anyone:
        raise InvalidConfig(
            f"host={host!r} can be reached from other machines, and nobody is asked who they are.",
            hint="Give keys (--keys FILE, keys={...}) or a token_verifier=; anyone=True (--anyone) if that is meant.",
        )
    if _is_any(host) and not allow_hosts:
        raise InvalidConfig(
            f"host={host!r} listens on every address, and by which names it is called is not known.",
            hint='Name them (--allow-host, allow_hosts=[...]); "*" where what stands before it checks them.',
        )


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises InvalidConfig where that is not possible."""
    if not 0 <= port <= 65_535:
        raise InvalidConfig(f"port={port!r:.100}.", hint="A whole number from 0 (any free one) to 65535.")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]") or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
        try:
            if os.name == "posix":
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
        except OSError:
            made.close()
            raise
    except OSError as error:
        raise InvalidConfig(
            f"Nothing can listen on {host!r}, port {port}: {error.strerror or error}.",
            hint="Is another program there already? Name another --port, or an address of this machine.",
        ) from error
    return made


def is_local(host: str) -> bool:
    """Whether only this machine reaches an address to listen on."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _is_any(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return not host


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
