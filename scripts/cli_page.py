"""Writes docs/cli.md from the command's own help: `make docs`, or --check to compare only."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from typer.main import get_command

from runwell.cli.app import app

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"

INTRODUCTION = """\
# The command

`pip install "runwell[cli]"` brings the `runwell` command (`python -m runwell` is the same). It prints what was asked
for on standard output, and everything beside it (progress, steps, errors) on standard error. With `--json` standard
output is JSON: one value, or one for each answer of `runwell chat`, each in a line. An error is then
`{"error": {"type", "code", "message", "hint"}}`.

| status | means |
| --- | --- |
| 0 | done |
| 1 | it failed; standard error says what to do |
| 2 | the command line makes no sense |
| 3 | it waits for an answer: `runwell chat` asks it again, `runwell run --resume` answers it |
| 130 | Ctrl-C |

In `runwell chat` a line is a question, and at a gated tool call the answer: `y`, `n`, or a reason that the model is
told. `/continue` goes on with an answer that was stopped, or with a question left open; `/quit` and Ctrl-D leave.
Threads are kept in `--db`, else in `$RUNWELL_HOME/chat.sqlite`, else in `$XDG_DATA_HOME/runwell/chat.sqlite`
(`~/.local/share`). In a script a question that waits is answered by the next line.

<!-- Everything below is made by `make docs` from src/runwell/cli/. -->
"""


def usage(command: Any, name: str) -> str:
    words = [name, *(f"[{p.name.upper()}]" if not p.required else p.name.upper() for p in arguments(command))]
    return " ".join([*words, "[OPTIONS]"] if options(command) else words)


def arguments(command: Any) -> list[Any]:
    return [each for each in command.params if each.param_type_name == "argument"]


def options(command: Any) -> list[Any]:
    return [each for each in command.params if each.param_type_name == "option" and each.name != "help"]


def row(parameter: Any) -> str:
    """A parameter in a line of the table."""
    is_argument = parameter.param_type_name == "argument"
    name = parameter.name.upper() if is_argument else parameter.opts[0]
    flag = getattr(parameter, "is_flag", False)
    default = "required" if parameter.required else ""
    if not flag and parameter.default not in (None, "", [], ()):
        default = f"`{parameter.default}`"
    told = " ".join((parameter.help or "").split())
    if getattr(parameter, "envvar", None):
        told += f" Or the variable `{parameter.envvar}`."
    return f"| `{name}` | {told} | {default} |"


def section(command: Any, name: str) -> list[str]:
    """A command, then those under it."""
    lines = [f"## {name}", "", " ".join((command.help or "").split()), ""]
    under = getattr(command, "commands", None)
    if under is None:
        lines += ["```", usage(command, name), "```", ""]
    parameters = [*arguments(command), *options(command)]
    if parameters:
        lines += ["| | | default |", "| --- | --- | --- |", *map(row, parameters), ""]
    for each, inner in (under or {}).items():
        lines += section(inner, f"{name} {each}")
    return lines


def page() -> str:
    """The whole page."""
    return INTRODUCTION + "\n" + "\n".join(section(get_command(app), "runwell")).rstrip() + "\n"


def main(arguments: list[str]) -> int:
    if arguments == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if arguments == ["--check"]:
        current = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
        if current != page():
            sys.stderr.write(f"{PAGE.name} is not what the command says; run: make docs\n")
            return 1
        return 0
    sys.stderr.write("cli_page.py --write | --check\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
