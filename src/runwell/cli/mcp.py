"""`runwell mcp`: tools and agents for MCP clients."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated

import typer

from runwell.cli.extras import require
from runwell.cli.target import load_all

__all__ = ["app"]

app = typer.Typer(help="The Model Context Protocol: serve tools and agents.", no_args_is_help=True)


@app.callback()
def root() -> None:
    """The Model Context Protocol: serve tools and agents."""


@app.command()
def serve(
    targets: Annotated[list[str], typer.Argument(help="module:name,name of tools, agents and graphs.")],
    http: Annotated[bool, typer.Option("--http", help="Over HTTP, instead of standard input and output.")] = False,
    host: Annotated[str, typer.Option(help="The address to listen on; nobody is asked for a password.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on.")] = 8000,
    name: Annotated[str, typer.Option(help="What the server calls itself.")] = "runwell",
) -> None:
    """Serve tools and agents as an MCP server: their pauses are questions to the client, their reports its progress."""
    require("runwell mcp serve", "mcp")
    from runwell.mcp.serving import serve

    with contextlib.redirect_stdout(sys.stderr):  # standard output is the protocol's
        parts = load_all(targets)
    serve(*parts, name=name, http=http, host=host, port=port)
