"""The commands and their options."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from runwell import __version__
from runwell.cli import mcp, models
from runwell.cli.screen import err, error_facts, print_error, print_json
from runwell.errors import RunwellError

__all__ = ["app", "run"]

app = typer.Typer(
    name="runwell",
    help="Programs around language models: talk to one, run an agent, look after local models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(models.app, name="models")
app.add_typer(mcp.app, name="mcp")

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Thread = Annotated[str | None, typer.Option(help="The conversation to go on with.")]
Db = Annotated[str | None, typer.Option(help="SQLite file that keeps threads.")]


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"runwell {__version__}")
        raise typer.Exit()


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Programs around language models: talk to one, run an agent, look after local models."""


@app.command()
def chat(
    model: Annotated[
        str, typer.Option(help="Such as openai:gpt-5 or local:qwen2.5-coder-0.5b.")
    ] = "local:qwen2.5-coder-0.5b",
    tools: Annotated[list[str] | None, typer.Option(help="module:name,name of tools; may be repeated.")] = None,
    thread: Annotated[str, typer.Option(help="The conversation to go on with.")] = "default",
    db: Db = None,
    system: Annotated[str | None, typer.Option(help="Standing instructions.")] = None,
    as_json: Json = False,
) -> None:
    """Talk to a model. Tokens and tool calls show as they come; Ctrl-C stops the answer, not the program."""
    from runwell.cli.chat import chat

    raise typer.Exit(chat(model, tools or [], thread, db, system, as_json))


@app.command("run")
def run_graph(
    target: Annotated[str, typer.Argument(help="module:name or path/file.py:name of a graph, agent or chain.")],
    given: Annotated[str | None, typer.Option("--input", help="The input, as JSON.")] = None,
    thread: Thread = None,
    db: Db = None,
    resume: Annotated[str | None, typer.Option(help="The answer to its open question, as JSON.")] = None,
    as_json: Json = False,
) -> None:
    """Run a graph, an agent or a chain once. Ends with status 3 when it paused for an answer."""
    from runwell.cli.run import run

    raise typer.Exit(run(target, given, thread, db, resume, as_json))


@app.command()
def demo(
    model: Annotated[str, typer.Option(help="The model to show it on.")] = "local:qwen2.5-coder-0.5b",
    as_json: Json = False,
) -> None:
    """An agent on the bundled model answers with tools, pauses for approval, is killed, and goes on."""
    from runwell.cli.demo import demo

    raise typer.Exit(demo(model, as_json))


@app.command()
def seats(
    target: Annotated[str, typer.Argument(help="module:name or path/file.py:name of an agent.")],
    html: Annotated[Path | None, typer.Option(help="Write the map here, as one page that can be searched.")] = None,
    diff: Annotated[str | None, typer.Option(help="Another agent: print only what it answers differently.")] = None,
    as_json: Json = False,
) -> None:
    """Who decides what in an agent: every judgment, its holder, and the file and line of the code that decides."""
    from runwell.cli.seats import seats

    seats(target, html, diff, as_json)


@app.command()
def doctor(as_json: Json = False) -> None:
    """What is installed, which extras, and what would leave this machine."""
    from runwell.cli.doctor import doctor

    doctor(as_json)


def run(arguments: list[str] | None = None) -> int:
    """Run the command; gives its exit status. What the user can mend is told in a few lines, without a trace.

    0: done. 1: it failed. 2: the command line makes no sense. 3: it waits for an answer. 130: Ctrl-C.
    """
    said = sys.argv[1:] if arguments is None else arguments
    try:
        app(said, prog_name="runwell", standalone_mode=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1 if end.code else 0
    except KeyboardInterrupt:
        err.print("stopped")
        return 130
    except BrokenPipeError:  # who read our output has gone; nothing is to be written at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if "--json" in said:
            print_json({"error": error_facts(error)})
        if not isinstance(error, RunwellError):
            raise
        print_error(error)
        return 1
    return 0
