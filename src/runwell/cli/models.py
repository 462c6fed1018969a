"""`runwell models`: the bundled models on this machine."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from runwell.cli.screen import Fetching, err, out, print_json
from runwell.errors import FetchError

__all__ = ["app", "ensure"]

app = typer.Typer(help="The bundled models: list, fetch, find, remove, serve.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="A model's name, such as qwen2.5-coder-0.5b (see `runwell models list`).")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


@app.command("list")
def list_models(as_json: Json = False) -> None:
    """What can be fetched, and what is here."""
    from runwell.providers.local.catalogue import MODELS
    from runwell.providers.local.fetch import path

    rows = [
        {
            "name": model.name,
            "kind": model.kind,
            "licence": model.licence,
            "size": model.size,
            "sha256": model.sha256,
            "sources": [source.label for source in model.sources],
            "summary": model.summary,
            "path": str(here) if (here := path(model.name)) else None,
        }
        for model in MODELS.values()
    ]
    if as_json:
        print_json(rows)
        return
    table = Table("name", "kind", "size", "licence", "here", "summary")
    for row in rows:
        size = f"{int(str(row['size'])) / 1e6:,.0f} MB"
        table.add_row(
            f"local:{row['name']}", str(row["kind"]), size, str(row["licence"]), "yes" if row["path"] else "no",
            str(row["summary"]),
        )  # fmt: skip
    out.print(table)


def ensure(name: str) -> str:
    """The path of a model, fetched with a progress bar if it is not here yet."""
    from runwell.providers.local.fetch import fetch, path

    here = path(name)
    if here is None:
        with Fetching(f"fetching {name}") as bar:
            here = fetch(name, bar, say=lambda line: err.print(line, style="dim"))
    return str(here)


@app.command()
def fetch(name: Name = "qwen2.5-coder-0.5b", as_json: Json = False) -> None:
    """Fetch a model (or go on with a broken fetch), verify it, and print where it is."""
    where = ensure(name)
    print_json({"name": name, "path": where}) if as_json else out.print(where)


@app.command("path")
def show_path(name: Name = "qwen2.5-coder-0.5b", as_json: Json = False) -> None:
    """Where a fetched model is; ends with status 1 if it is not here."""
    from runwell.providers.local.fetch import path

    here = path(name)
    if here is None:
        raise FetchError(f"The model {name!r} is not on this machine.", hint=f"runwell models fetch {name}")
    print_json({"name": name, "path": str(here)}) if as_json else out.print(str(here))


@app.command()
def remove(name: Name, as_json: Json = False) -> None:
    """Delete a fetched model, and what was half fetched of it."""
    from runwell.providers.local.fetch import remove

    gone = remove(name)
    if as_json:
        print_json({"name": name, "removed": gone})
    else:
        out.print(f"removed {name}" if gone else f"{name} was not here")


@app.command()
def serve(
    name: Name = "qwen2.5-coder-0.5b",
    host: Annotated[
        str, typer.Option(help="Address to listen on; beyond loopback the network can use it.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8080,
    key: Annotated[
        str | None, typer.Option(envvar="RUNWELL_SERVE_KEY", help="Bearer key; random if not given.")
    ] = None,
) -> None:
    """Serve a model behind an OpenAI-compatible endpoint, tools and embeddings included, until Ctrl-C."""
    from runwell.providers.local.serve import LocalServer

    ensure(name)
    with LocalServer(name, host=host, port=port, key=key) as server:
        out.print(f"base_url  {server.url}\napi_key   {server.key}\nmodel     {name}")
        out.print(f'ChatOpenAI(base_url="{server.url}", api_key="...", model="{name}")   Ctrl-C stops it', style="dim")
        try:
            server.run()
        except KeyboardInterrupt:
            err.print("stopped")
