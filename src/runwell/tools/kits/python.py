"""Python code that a model wrote, run in a sandbox."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from runwell.errors import InvalidInput, ToolError
from runwell.tools.decorator import tool
from runwell.tools.sandbox.bubblewrap import BubblewrapPolicy
from runwell.tools.sandbox.policy import SandboxPolicy
from runwell.tools.sandbox.session import CommandResult, ShellSession
from runwell.tools.structured import StructuredTool

__all__ = ["python_tool"]

# Runs inside. As at a prompt, the value of a last line that is an expression is shown; of a traceback, the code's part.
_RUNNER = """\
import ast, sys, traceback
path = sys.argv[1]
code = open(path, encoding="utf-8").read()
import linecache
linecache.cache["code"] = (len(code), None, code.splitlines(True), "code")
names = {"__name__": "__main__"}
try:
    tree = ast.parse(code, "code")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "code", "exec"), names)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), "code", "eval"), names)
        if value is not None:
            print(repr(value))
except Exception as error:
    trace = error.__traceback__.tb_next if not isinstance(error, SyntaxError) else None
    traceback.print_exception(type(error), error, trace)
    sys.exit(1)
"""


def python_tool(
    policy: SandboxPolicy | None = None,
    *,
    workspace: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    python: str = "python3",
    name: str = "python",
) -> StructuredTool:
    """A tool that runs Python code in a sandbox and gives what it prints, and the value of a last expression.

    Every call is a program of its own: variables do not stay. Files stay, if `workspace` names a folder; otherwise each
    call has an empty one. `policy` says what the code reaches: `BubblewrapPolicy()` by default (no network, the system
    read-only, one writable folder), which is refused with SandboxUnavailable where it does not work. `timeout` is in
    seconds (None: the policy's `command_timeout`). `python` is the interpreter as the sandbox has it: packages are
    those of that one, not of this program.

    The environment is a minimal one and `env`. A program that fails is told to the model as an error.
    """
    chosen = BubblewrapPolicy() if policy is None else policy
    if not isinstance(chosen, SandboxPolicy):
        raise InvalidInput(f"policy={policy!r:.100} is no SandboxPolicy.", hint="Such as BubblewrapPolicy().")
    if timeout is not None and not timeout > 0:
        raise InvalidInput(f"timeout={timeout!r}", hint="Seconds, more than 0.")
    chosen.check()
    limit = chosen.command_timeout if timeout is None else timeout
    folder = None if workspace is None else Path(workspace).resolve()
    if folder is not None and not folder.is_dir():
        raise InvalidInput(f"workspace={str(workspace)!r} is no folder.", hint="Make it first.")
    kept = "Files stay in the current folder" if folder is not None else "No files stay"
    network = "" if getattr(chosen, "network_enabled", True) else " There is no network."

    @tool(
        name,
        description=f"Run a Python program and get what it prints; the value of a last expression is shown. {kept}, "
        f"and no variables.{network} It may run {limit:g} seconds.",
        destructive=True,
        open_world=True,
    )
    def run_python(code: Annotated[str, "The program."]) -> str:
        if not code.strip():
            raise ToolError("There is no code.")
        if folder is not None:
            return _run(chosen, folder, code, env, limit, python)
        with tempfile.TemporaryDirectory(prefix="runwell-python-") as own:
            return _run(chosen, Path(own).resolve(), code, env, limit, python)

    return run_python


def _run(
    policy: SandboxPolicy, folder: Path, code: str, env: Mapping[str, str] | None, limit: float, python: str
) -> str:
    inside = Path(policy.workdir(folder))
    stem = f".runwell-{os.urandom(6).hex()}"
    runner, program = f"{stem}-run.py", f"{stem}.py"
    try:
        (folder / runner).write_text(_RUNNER, encoding="utf-8")
        try:
            (folder / program).write_text(code, encoding="utf-8")
        except UnicodeEncodeError as error:
            raise ToolError(f"The code cannot be written as UTF-8: {error.reason}.") from error
        line = shlex.join([python, "-Bu", str(inside / runner), str(inside / program)])
        with ShellSession(policy, folder, env=env) as session:
            return _told(session.execute(line, limit), limit)
    finally:
        for each in (runner, program):
            (folder / each).unlink(missing_ok=True)


def _told(result: CommandResult, limit: float) -> str:
    output = result.output.rstrip("\n")
    if result.timed_out:
        raise ToolError(f"{output}\n[Stopped after {limit:g} s.]".lstrip("\n"))
    if result.exit_code != 0:
        raise ToolError(output or f"[Ended with {result.exit_code}, and said nothing.]")
    return output or "[No output. Print what you want to see.]"
