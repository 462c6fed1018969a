"""`runwell models`: the bundled models on this machine."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import typer
from rich.table import Table

from runwell.cli.extras import require
from runwell.cli.screen import Fetching, err, out, print_json
from runwell.errors import FetchError

__all__ = ["app", "ensure", "ready"]

app = typer.Typer(help="The bundled models: list, fetch, find, remove, serve.", no_args_is_help=True)

DEFAULT = "qwen2.5-coder-0.5b"
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
    table = Table(box=None, pad_edge=False)
    for column in ("name", "kind", "size", "licence", "here"):
        table.add_column(column, no_wrap=True, justify="right" if column == "size" else "left")
    table.add_column("summary")
    for row in rows:
        size, fetched = f"{int(str(row['size'])) / 1e6:,.0f} MB", "yes" if row["path"] else "no"
        table.add_row(f"local:{row['name']}", str(row["kind"]), size, str(row["licence"]), fetched, str(row["summary"]))
    out.print(table)


def ensure(name: str, source: str | None = None) -> str:
    """The path of a model, fetched with a progress bar if it is not here yet."""
    from runwell.providers.local.fetch import fetch, path

    here = path(name)
    if here is None:
        with Fetching(f"fetching {name}") as bar:
            here = fetch(name, bar, source=source, say=lambda line: err.print(line, style="dim"))
    return str(here)


def ready(model: str) -> Any:
    """The chat model that a string names; one that runs here is fetched, with a progress bar, if it is not here yet."""
    from runwell.models import init_chat_model

    here = model.startswith("local:") or is_gguf(model)
    if here:
        require(f"The model {model!r}", "local")
    made = init_chat_model(model)
    if here:
        ensure(model.removeprefix("local:"))
    return made


def is_gguf(model: str) -> bool:
    from runwell.providers.local.catalogue import is_gguf_path

    return is_gguf_path(model)


@app.command()
def fetch(
    name: Name = DEFAULT,
    source: Annotated[
        str | None, typer.Option("--from", help="A folder or file to take it from instead of the network.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Fetch a model (or go on with a broken fetch), verify it, and print where it is."""
    where = ensure(name, source)
    print_json({"name": _bare(name), "path": where}) if as_json else out.print(where)


@app.command("path")
def show_path(name: Name = DEFAULT, as_json: Json = False) -> None:
    """Where a fetched model is; ends with status 1 if it is not here."""
    from runwell.providers.local.fetch import path

    here = path(name)
    if here is None:
        raise FetchError(f"The model {name!r} is not on this machine.", hint=f"runwell models fetch {name}")
    print_json({"name": _bare(name), "path": str(here)}) if as_json else out.print(str(here))


@app.command()
def remove(name: Name, as_json: Json = False) -> None:
    """Delete a fetched model, and what was half fetched of it."""
    from runwell.providers.local.fetch import remove

    gone = remove(name)
    if as_json:
        print_json({"name": _bare(name), "removed": gone})
    else:
        out.print(f"removed {name}" if gone else f"{name} was not here")


@app.command()
def serve(
    name: Name = DEFAULT,
    host: Annotated[
        str, typer.Option(help="Address to listen on; beyond loopback the network can use it.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8080,
    key: Annotated[
        str | None, typer.Option(envvar="RUNWELL_SERVE_KEY", help="Bearer key; random if not given.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Serve a model behind an OpenAI-compatible endpoint, tools and embeddings included, until Ctrl-C."""
    from runwell.providers.local.serve import LocalServer

    require("Serving a model", "local")
    ensure(name)
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    server = LocalServer(name, host=host, port=port, key=key)
    try:
        server.load()
        served = server.models()["data"][0]["id"]
        if as_json:
            print_json({"base_url": server.url, "api_key": server.key, "model": served}, line=True)
        else:
            shown = "as you gave it" if key else server.key
            out.print(f"base_url  {server.url}\napi_key   {shown}\nmodel     {served}")
            out.print(f'ChatOpenAI(base_url="{server.url}", api_key="...", model="{served}")', style="dim")
            out.print("Ctrl-C stops it.", style="dim")
        server.run()
    except KeyboardInterrupt:
        err.print("stopped")


def _bare(name: str) -> str:
    return name.removeprefix("local:")
