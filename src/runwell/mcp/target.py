"""Which server is meant, and how it is reached."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from runwell.errors import InvalidConfig, MissingExtra
from runwell.mcp.body_limit import bounded_transport
from runwell.mcp.program import Complaints, program

__all__ = ["Http", "InMemory", "Stdio", "Target", "sdk", "target_of"]


_HEADER = re.compile(r"(?:[!-~](?:[ -~\t]*[!-~])?)?")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


_STDIO = ("stdio",)
_HTTP = ("streamable_http", "streamable-http", "http")
_SECRET = re.compile(r"(?i)(-{0,2}[\w-]*(?:key|token|secret|passw|pwd|auth|credential)[\w-]*)(=.*)?", re.DOTALL)
_PASSWORD = re.compile(r"(://[^/@:\s]*:)[^/@\s]+@")


def _without_secrets(args: Sequence[str]) -> list[str]:
    """Arguments as they may be told to a model: what follows `--api-key` and the like, and passwords of URLs, as `***`.

    (Secrets belong into variables: everyone on the machine reads the arguments of its programs.)
    """
    told: list[str] = []
    hide = False
    for each in args:
        found = _SECRET.fullmatch(each)
        if hide and not each.startswith("-"):
            told.append("***")
        elif found is not None and found[2]:
            told.append(f"{found[1]}=***")
        else:
            told.append(_PASSWORD.sub(r"\1***@", each))
        hide = found is not None and not found[2] and each.startswith("-")
    return told


@dataclass(frozen=True, slots=True, repr=False)
class Stdio:
    """A server that is a program of this machine: it is started, and spoken to through its standard input and output.

    It gets `env` and a few variables of this process (such as PATH and HOME), no others. It ends with its connection.
    """

    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] | None = field(default=None, repr=False)
    cwd: str | Path | None = None

    def __post_init__(self) -> None:
        if isinstance(self.args, str) or not all(isinstance(each, str) for each in (self.command, *self.args)):
            raise InvalidConfig(
                f"The command {self.command!r:.100} has arguments that are no list of texts.",
                hint="For instance Stdio('npx', ['-y', 'some-server']).",
            )
        value: Any
        for name, value in (self.env or {}).items():
            if not isinstance(value, str):
                raise InvalidConfig(
                    f"The variable {name!r} of {self.place!r} is no text but a {type(value).__name__}.",
                    hint="A variable that is not set gives None: os.environ['NAME'] says so at once.",
                )

    @property
    def place(self) -> str:
        return " ".join([self.command, *_without_secrets(self.args)])[:200]

    def __repr__(self) -> str:
        return f"Stdio({self.place!r})"


@dataclass(frozen=True, slots=True, repr=False)
class Http:
    """A server behind a URL (streamable HTTP). `headers` go with every request; `auth` is an `httpx2.Auth`.

    The SDK's `OAuthClientProvider` is such an `auth`. `client` makes the `httpx2.AsyncClient` where it must be your
    own, for instance to go through a proxy: the proxy variables of the environment are not heeded.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    auth: Any = field(default=None, repr=False)
    client: Callable[[], Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(str(self.url))
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidConfig(
                f"{self.url!r:.200} is not the address of an MCP server: text is taken as an http or https URL only.",
                hint="To start a program, say so: Stdio('python', ['server.py']), or Path('server.py').",
            )
        value: Any
        if not isinstance(self.headers, Mapping):
            raise InvalidConfig(f"The headers of {self.place!r} are no mapping of names to values.")
        if self.auth is not None and not (callable(self.auth) or hasattr(self.auth, "async_auth_flow")):
            raise InvalidConfig(
                f"auth= of {self.place!r} is a {type(self.auth).__name__}.",
                hint="Give an httpx2.Auth, such as the SDK's OAuthClientProvider or httpx2.BasicAuth(name, password).",
            )
        for name, value in self.headers.items():
            # Told without the value, which is often a secret; the HTTP library would tell it.
            if not isinstance(value, str) or not _HEADER.fullmatch(value) or not _HEADER_NAME.fullmatch(name):
                raise InvalidConfig(
                    f"The header {name!r} of {self.place!r} cannot be sent as it is.",
                    hint="Its value is a text of printable ASCII characters without spaces or newlines at its ends.",
                )

    def __repr__(self) -> str:
        return f"Http({self.place!r})"

    @property
    def place(self) -> str:
        parts = urlsplit(self.url)
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"  # without user, password and query


@dataclass(frozen=True, slots=True)
class InMemory:
    """A server object of the SDK in this process, or anything its client connects to. `make` gives it anew."""

    make: Callable[[], Any]
    place: str


MAX_EVENT = 64 * 1024 * 1024
"""Bytes of one message over HTTP. More ends the call: it is never held in memory whole."""

Target = Stdio | Http | InMemory


def sdk() -> Any:
    """The official SDK. Raises MissingExtra where it is not installed."""
    try:
        import mcp
    except ImportError as error:
        if error.name != "mcp":
            raise
        raise MissingExtra("MCP", "mcp") from error
    return mcp


def target_of(given: Any, *, headers: Mapping[str, str] | None = None, auth: Any = None) -> Target:
    """What a caller named, as a target. Raises InvalidConfig for what names no server.

    Text is a URL and never starts a process. A process is started for a `Stdio`, a `Path` of a Python file, the SDK's
    `StdioServerParameters`, or a mapping with a `command`.
    """
    made = _target_of(given, headers, auth)
    if (headers or auth is not None) and not isinstance(made, Http):
        raise InvalidConfig(
            f"headers= and auth= are for servers behind a URL, and {made.place!r} is none.",
            hint="Give a program its secrets with Stdio(..., env={...}).",
        )
    return made


def _target_of(given: Any, headers: Mapping[str, str] | None, auth: Any) -> Target:
    if isinstance(given, str):
        return Http(given, headers or {}, auth)
    if isinstance(given, Http):
        if not headers and auth is None:
            return given
        return Http(given.url, {**given.headers, **(headers or {})}, given.auth if auth is None else auth, given.client)
    if isinstance(given, (Stdio, InMemory)):
        return given
    if isinstance(given, Path):
        if given.suffix != ".py":
            raise InvalidConfig(f"{str(given)!r} is not a Python file.", hint="Name the program: Stdio('node', [...]).")
        return Stdio(sys.executable, [str(given)])
    if isinstance(given, Mapping):
        return _from_mapping(given, headers, auth)
    sdk()
    from mcp.client.stdio import StdioServerParameters
    from mcp.server import Server
    from mcp.server.mcpserver import MCPServer

    if isinstance(given, StdioServerParameters):
        return Stdio(given.command, list(given.args), given.env, given.cwd)
    if isinstance(given, (MCPServer, Server)):
        return InMemory(lambda: given, f"in memory: {given.name}")
    if callable(given) and not isinstance(given, type):
        return InMemory(given, f"made by {getattr(given, '__qualname__', repr(given))}")
    raise InvalidConfig(
        f"{given!r:.200} does not name an MCP server.",
        hint="Give a URL, Stdio(...), a Path, a server of the SDK, or a function that makes a transport anew.",
    )


def _from_mapping(given: Mapping[str, Any], headers: Mapping[str, str] | None, auth: Any) -> Target:
    known = {"transport", "type", "url", "headers", "auth", "command", "args", "env", "cwd"}
    if odd := given.keys() - known:
        raise InvalidConfig(f"{sorted(odd)[0]!r} is no setting of an MCP server.", hint=f"Known: {sorted(known)}.")
    for option in ("transport", "type"):
        if (said := given.get(option)) is not None and said not in (_STDIO if "command" in given else _HTTP):
            raise InvalidConfig(
                f"{option}={said!r:.100} of an MCP server.",
                hint="With a 'command': 'stdio'. With a 'url': 'streamable_http'; the older SSE is not spoken.",
            )
    if "url" in given and "command" not in given:
        merged = {**given.get("headers", {}), **(headers or {})}
        return Http(given["url"], merged, given.get("auth") if auth is None else auth)
    if "command" in given and "url" not in given:
        return Stdio(given["command"], given.get("args") or (), given.get("env"), given.get("cwd"))
    raise InvalidConfig(
        f"A mapping with {sorted(given)} does not name an MCP server.", hint="It has either a 'url' or a 'command'."
    )


def connector(
    target: Target, name: str, complaints: Complaints, on_response: Any, on_end: Callable[[str | None], None]
) -> Any:
    """What the SDK's `Client` connects to: made anew for each connection.

    `on_response` hears of every HTTP response, `on_end` when a program's side of the connection ends, and why if that
    was not by itself.
    """
    if isinstance(target, InMemory):
        made = target.make()
        if isinstance(made, str):
            return connector(Http(made), name, complaints, on_response, on_end)
        return made
    if isinstance(target, Stdio):
        return _without_groups(target, on_end) if sys.platform == "win32" else program(target, name, complaints, on_end)
    return _over_http(target, on_response)


@asynccontextmanager
async def _over_http(target: Http, on_response: Any) -> Any:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    if target.client is not None:
        client = target.client()
    else:  # a proxy or a password that only the environment names would reroute what is said
        timeout = httpx2.Timeout(30, read=300)
        client = httpx2.AsyncClient(
            headers=dict(target.headers),
            auth=target.auth,
            timeout=timeout,
            trust_env=False,
            transport=bounded_transport(MAX_EVENT),
        )
    client.event_hooks["response"] = [*client.event_hooks["response"], on_response]
    async with client, streamable_http_client(target.url, http_client=client, max_sse_event_size=MAX_EVENT) as streams:
        yield streams


@asynccontextmanager
async def _without_groups(target: Stdio, on_end: Callable[[str | None], None]) -> Any:
    """The SDK's own transport, for systems whose processes have no groups."""
    from mcp.client.stdio import StdioServerParameters, stdio_client

    server = StdioServerParameters(
        command=target.command,
        args=list(target.args),
        env=None if target.env is None else dict(target.env),
        cwd=target.cwd,
    )
    async with stdio_client(server, errlog=_errors()) as (read, write):
        yield _Watched(read, on_end), write


def _errors() -> Any:
    """Where a program's complaints go: our standard error, as it is now, or nowhere if it is no file."""
    for stream in (sys.stderr, sys.__stderr__):
        try:
            if stream is not None and stream.fileno() >= 0:
                return stream
        except (OSError, ValueError):  # a notebook's or a test's stand-in
            continue
    return subprocess.DEVNULL


class _Watched:
    """A stream of messages that tells when it ends: the program at the other side is gone."""

    def __init__(self, inner: Any, on_end: Callable[[str | None], None]) -> None:
        self._inner = inner
        self._on_end = on_end

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._inner.__anext__()
        except StopAsyncIteration:
            self._on_end(None)
            raise

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> Any:
        return await self._inner.__aexit__(*error)
