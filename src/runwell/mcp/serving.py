"""Tools and agents as an MCP server."""

from __future__ import annotations

import base64
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from runwell.errors import InvalidConfig
from runwell.mcp.host import Host
from runwell.mcp.over_http import as_http_app, check_reach, listen
from runwell.mcp.over_stdio import serve_stdio
from runwell.mcp.target import sdk

__all__ = ["as_mcp_server", "serve"]

KEEP_S = 600.0
"""How long a question waits for its answer, where runs are kept in memory."""
SEAL_BYTES = 32
STOPPING_S = 5
"""How long answers that are being sent are waited for when a server over HTTP is stopped."""
KEPT_S = 30 * 86_400.0
"""The same where a saver keeps them."""


def as_mcp_server(
    *parts: Any,
    name: str = "runwell",
    instructions: str | None = None,
    saver: Any = None,
    store: Any = None,
    keep: float | None = None,
    seal: Sequence[bytes | str] | None = None,
    answers_by_tool: bool = False,
    answer_hint: str | None = None,
) -> Any:
    """An MCP server (the SDK's `Server`) whose tools are these: tools, functions, agents and graphs.

    An agent is one tool that takes a task and answers with the end of its work; it must have a name. What tools and
    agents report while they work is sent as progress. A pause (`interrupt()`, an approval) is sent to the client as a
    question and the run goes on with its answer; a client that cannot be asked is told so.

    With a `saver`, or one of its own, an agent keeps its conversations: its tool takes a `thread_id` and tells that of
    a new one, and a question waits there until it is answered, also past the end of the process. With authentication
    each caller has threads of its own. What other tools ask waits for `keep` seconds (600; with a saver 30 days).

    A client that cannot be asked may answer by a tool, `answer_question`, only with `answers_by_tool=True`: it lets
    the client's model answer, approvals included, so it is for clients that ask their user before a call.
    `answer_hint` tells such clients how else to answer; `{thread}` in it is the thread's name in the saver.

    What the client carries from question to answer is the name of a run. It is sealed with a key of this process; with
    a saver that outlives it, with the secrets in `seal` (32 bytes or more each, the first seals), or not at all.

    `store` is the long-term store of tools that want one; agents have their own. Raises DuplicateTool,
    ToolDefinitionError and InvalidInput for parts that cannot be tools.
    """
    sdk()
    from mcp.server import Server
    from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity

    from runwell import __version__

    host = Host(parts, saver=saver, store=store, answers_by_tool=answers_by_tool, hint=answer_hint)
    if keep is not None and not 0 < keep < float("inf"):
        raise InvalidConfig(f"keep={keep!r}.", hint="Seconds, more than 0.")
    host.keep = keep = keep or (KEEP_S if host.in_memory else KEPT_S)
    server: Any = Server(
        name=name,
        version=__version__,
        instructions=instructions,
        on_list_tools=host.listed,
        on_call_tool=host.called,
    )
    if seal is not None:
        if isinstance(seal, (str, bytes)) or not seal or any(len(each) < SEAL_BYTES for each in seal):
            raise InvalidConfig(
                f"seal= is no list of secrets of {SEAL_BYTES} bytes or more each.",
                hint='Make one: python -c "import secrets; print(secrets.token_hex(32))"',
            )
        sealed = RequestStateSecurity(keys=list(seal), ttl=keep)
    elif host.in_memory:
        sealed = RequestStateSecurity.ephemeral(ttl=keep)
    else:
        sealed = RequestStateSecurity(codec=_Unsealed(), ttl=keep)
    server.middleware.append(RequestStateBoundary(sealed, default_audience=name))
    return server


class _Unsealed:
    """What the client carries, as it is: the name of a run, which is looked for among the caller's own."""

    def seal(self, payload: bytes) -> str:
        return base64.urlsafe_b64encode(payload).decode()

    def unseal(self, token: str) -> bytes:
        from mcp.server.request_state import InvalidRequestState

        try:
            return base64.urlsafe_b64decode(token)
        except ValueError as error:
            raise InvalidRequestState("malformed") from error


def serve(
    *parts: Any,
    name: str = "runwell",
    http: bool = False,
    host: str = "127.0.0.1",
    port: int = 8000,
    path: str = "/mcp",
    keys: Mapping[str, str] | None = None,
    token_verifier: Any = None,
    auth: Any = None,
    allow_hosts: Sequence[str] = (),
    allow_origins: Sequence[str] = (),
    anyone: bool = False,
    **options: Any,
) -> None:
    """Serve tools and agents until it is stopped: over standard input and output, or over HTTP at `path`.

    `options` are those of `as_mcp_server`. Over standard output only the protocol is spoken: what tools print goes to
    standard error. Over HTTP, `keys` (bearer keys by the name of their holder), or `token_verifier` and `auth` of the
    SDK, say who may call; see `as_http_app`, which makes the application alone. It listens on this machine, unless
    `host` says otherwise: then it asks for keys, or for `anyone=True`.
    """
    if not http and (keys is not None or token_verifier or auth or allow_hosts or allow_origins or anyone):
        raise InvalidConfig("Who may call is asked over HTTP only.", hint="Pass http=True.")
    server = as_mcp_server(*parts, name=name, **options)
    if not http:
        serve_stdio(server)
        return
    import uvicorn

    known = keys is not None or token_verifier is not None
    check_reach(host, authenticated=known, anyone=anyone, allow_hosts=allow_hosts)
    app = as_http_app(
        server,
        path=path,
        host=host,
        keys=keys,
        token_verifier=token_verifier,
        auth=auth,
        allow_hosts=allow_hosts,
        allow_origins=allow_origins,
    )
    with listen(host, port) as listening:
        address = f"{f'[{host}]' if ':' in host else host or '*'}:{listening.getsockname()[1]}"
        sys.stderr.write(f"{name} listens at http://{address}{path}\n")
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=STOPPING_S)
        uvicorn.Server(config).run(sockets=[listening])
