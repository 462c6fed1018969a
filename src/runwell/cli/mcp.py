"""`runwell mcp`: tools and agents for MCP clients."""

from __future__ import annotations

import contextlib
import shlex
import sys
from typing import Annotated, Any

import typer

from runwell.cli.extras import require
from runwell.cli.savers import saver_of
from runwell.cli.target import load_all
from runwell.errors import InvalidInput

__all__ = ["app"]

app = typer.Typer(help="The Model Context Protocol: serve tools and agents.", no_args_is_help=True)


@app.callback()
def root() -> None:
    """The Model Context Protocol: serve tools and agents."""


@app.command()
def serve(
    targets: Annotated[list[str], typer.Argument(help="module:name,name of tools, agents and graphs.")],
    saver: Annotated[
        str | None,
        typer.Option(help="Where agents keep their threads: sqlite:FILE, postgres:URL or memory."),
    ] = None,
    answers_by_tool: Annotated[
        bool,
        typer.Option(
            "--answers-by-tool",
            help="Clients that cannot be asked may answer by a tool: their model then answers, approvals included.",
        ),
    ] = False,
    name: Annotated[str, typer.Option(help="What the server calls itself.")] = "runwell",
    http: Annotated[bool, typer.Option("--http", help="Over HTTP, instead of standard input and output.")] = False,
    host: Annotated[str, typer.Option(help="The address to listen on. One that others reach needs --keys.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="The port to listen on.")] = 8000,
    keys: Annotated[
        str | None,
        typer.Option(help="Who may call: a file with a line `name: key` for each, or env:VARIABLE with such lines."),
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A name that it is called by over HTTP, besides its address.")
    ] = None,
    anyone: Annotated[bool, typer.Option("--anyone", help="Let all who reach the port call, without a key.")] = False,
) -> None:
    """Serve tools and agents as an MCP server: their pauses are questions to the client, their reports its progress."""
    require("runwell mcp serve", "mcp")
    from runwell.mcp.keys import read_keys
    from runwell.mcp.serving import serve

    if not http and (keys is not None or allow_host or anyone):
        raise InvalidInput("--keys, --allow-host and --anyone are for HTTP.", hint="Add --http.")
    with contextlib.ExitStack() as stack:
        options: dict[str, Any] = {"answers_by_tool": answers_by_tool}
        if saver is not None:
            options["saver"] = kept = stack.enter_context(saver_of(saver))
            if hasattr(kept, "setup"):
                kept.setup()  # one that cannot be reached is told now, and not to the first caller
            if saver.startswith("sqlite:"):
                options["answer_hint"] = _how_to_answer(targets, saver)
        with contextlib.redirect_stdout(sys.stderr):  # standard output is the protocol's
            parts = load_all(targets)
        serve(
            *parts,
            name=name,
            http=http,
            host=host,
            port=port,
            keys=None if keys is None else read_keys(keys),
            allow_hosts=allow_host or (),
            anyone=anyone,
            **options,
        )


def _how_to_answer(targets: list[str], saver: str) -> str:
    """The command that answers where the server runs."""
    target = targets[0] if len(targets) == 1 and "," not in targets[0] else "TARGET"
    file = saver.partition(":")[2]
    return f"runwell run {shlex.quote(target)} --db {shlex.quote(file)} --thread {{thread}} --resume JSON"
