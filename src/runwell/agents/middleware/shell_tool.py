"""A shell for the model, in a sandbox."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from runwell.agents.middleware.middleware import AgentMiddleware
from runwell.agents.state import AgentState
from runwell.errors import InvalidInput, ToolError
from runwell.messages.message import ToolMessage
from runwell.observe.run import record_decision, watched
from runwell.ports.runtime import CURRENT_TASK
from runwell.ports.seat import Held
from runwell.schemas.arguments import checked_arguments
from runwell.tools.decorator import tool
from runwell.tools.runtime import ToolRuntime
from runwell.tools.sandbox.bubblewrap import BubblewrapPolicy
from runwell.tools.sandbox.codex import CodexPolicy
from runwell.tools.sandbox.docker import DockerPolicy
from runwell.tools.sandbox.host import HostPolicy
from runwell.tools.sandbox.output import HeadTail
from runwell.tools.sandbox.policy import SandboxPolicy
from runwell.tools.sandbox.redact import RedactionRule, Redactor
from runwell.tools.sandbox.session import SHELL, CommandResult, ShellSession

__all__ = [
    "BubblewrapPolicy",
    "CodexPolicy",
    "CodexSandboxExecutionPolicy",
    "DockerExecutionPolicy",
    "DockerPolicy",
    "HostExecutionPolicy",
    "HostPolicy",
    "SandboxPolicy",
    "ShellSession",
    "ShellToolMiddleware",
    "ShellToolState",
]

HostExecutionPolicy = HostPolicy
DockerExecutionPolicy = DockerPolicy
CodexSandboxExecutionPolicy = CodexPolicy
ShellToolState = AgentState
"""The shell keeps nothing in the state: a session belongs to the run."""


class ShellToolMiddleware(AgentMiddleware):
    """Gives the model a tool `shell` that runs commands in one bash session of the run, in a sandbox.

    Folder, variables and functions stay from one command to the next. The session begins with the first command and
    ends with the run, however that ends, together with everything it started; a run that goes on after a pause gets a
    new one, and its model is told. `workspace_root` is the folder it works in (None: a temporary one for each run,
    removed with it). It is made if it is not there.

    `execution_policy` says what a command reaches: `BubblewrapPolicy()` by default, which is refused where bubblewrap
    does not work; `DockerPolicy`, `CodexPolicy`, or `HostPolicy(i_accept_host_access=True)` for no sandbox at all. It
    holds the limits in seconds, lines and bytes too.

    The shell's environment is PATH, HOME (the workspace) and LANG, and what `env` adds: nothing of the program's own.
    Values of `env` never reach the model (see `Redactor`; `visible_env` names those that may), nor does what
    `redaction_rules` match: regular expressions, or functions of a text that give the text to show.

    `startup_commands` run in each new session, and one that fails is an error of the tool. `shutdown_commands` run when
    a session ends in order; a failure is logged.

    Seats: D17 (what a command reaches), D18 (environment), D19 (limits).
    """

    @checked_arguments
    def __init__(
        self,
        workspace_root: str | Path | None = None,
        *,
        startup_commands: Sequence[str] | str | None = None,
        shutdown_commands: Sequence[str] | str | None = None,
        execution_policy: SandboxPolicy | None = None,
        redaction_rules: Sequence[RedactionRule] | None = None,
        tool_description: str | None = None,
        tool_name: str = "shell",
        shell_command: Sequence[str] | str | None = None,
        env: Mapping[str, str] | None = None,
        visible_env: Sequence[str] = (),
    ) -> None:
        self.workspace_root = None if workspace_root is None else _folder(workspace_root)
        self.startup_commands = _commands("startup_commands", startup_commands)
        self.shutdown_commands = _commands("shutdown_commands", shutdown_commands)
        self.policy = BubblewrapPolicy() if execution_policy is None else execution_policy
        if not isinstance(self.policy, SandboxPolicy):
            raise InvalidInput(
                f"execution_policy={execution_policy!r:.100} is no SandboxPolicy.",
                hint="Pass an instance, as in execution_policy=BubblewrapPolicy(network_enabled=True).",
            )
        self.policy.check()
        self.env = _environment(env)
        self.shell_command = SHELL if shell_command is None else _commands("shell_command", shell_command)
        if not self.shell_command:
            raise InvalidInput("shell_command is empty.", hint='As in ("/bin/bash", "--norc").')
        self._redact = Redactor(redaction_rules or (), self.env, visible_env)
        if not tool_name.strip():
            raise InvalidInput(f"tool_name={tool_name!r} is no name.", hint="Leave it out for 'shell'.")
        self.tool_name = tool_name
        self.tool_description = tool_description or self._description()
        self.tools = (self._tool(),)

    def seats(self) -> Iterable[Held]:
        policy = self.policy
        yield Held("D17", policy.describe(), type(policy).launch)
        names = ", ".join(sorted(self.env))
        named = f"PATH, HOME, LANG and {names}; the model does not see the values of these" if names else ""
        yield Held("D18", f"No: only {named or 'PATH, HOME and LANG'}.", type(policy).environment)
        yield Held(
            "D19",
            f"{policy.command_timeout:g} s for a command, then everything it started is killed; of what it prints, "
            f"{policy.max_output_lines:,} lines and {policy.max_output_bytes:,} bytes at most: beginning and end. "
            "The model is told of both.",
            HeadTail.shown,
        )

    def _description(self) -> str:
        policy = self.policy
        return (
            "Run a command in a bash session that stays: folder, variables and functions are there for your next "
            "command. A command gets no input, so use options that ask nothing. It may run "
            f"{policy.command_timeout:g} seconds and show {policy.max_output_lines} lines; write longer output to a "
            f"file and look at parts of it. {policy.describe()} Set restart to begin a new session."
        )

    def _tool(self) -> Any:
        @tool(self.tool_name, description=self.tool_description, exclusive=True, destructive=True, open_world=True)
        def shell(
            runtime: ToolRuntime[Any, Any],
            command: Annotated[str | None, "The command; several lines are fine."] = None,
            restart: Annotated[
                bool, "End the session and begin a new one, before the command if there is one."
            ] = False,
        ) -> ToolMessage:
            if not restart and not (command or "").strip():
                raise ToolError("Nothing to do: give a command, or restart=true.")
            scope = CURRENT_TASK.get()
            if scope is None or scope.run is None:  # called by hand, outside a graph
                held = self._session()
                try:
                    return self._answer(held, command, restart, runtime)
                finally:
                    held.close()
            return self._answer(scope.run.own(self, self._session), command, restart, runtime)

        return shell

    def _session(self) -> _RunShell:
        return _RunShell(self)

    def _answer(
        self, held: _RunShell, command: str | None, restart: bool, runtime: ToolRuntime[Any, Any]
    ) -> ToolMessage:
        session = held.session()
        first, held.used = not held.used, True
        said: list[str] = []
        if restart:
            session.restart()
            said.append(self._began(first, runtime))
        result = session.execute(command) if command and command.strip() else None
        if watched() and (restart or (result is not None and result.new_shell)):
            name = self.policy.name
            record_decision("D17", name, self.policy.describe(), "code")
            record_decision("D18", "minimal", f"PATH, HOME, LANG{''.join(f', {n}' for n in sorted(self.env))}", "code")
        failed = False
        if result is not None:
            if result.new_shell and not restart:
                said.append(self._began(first, runtime))
            said.extend(self._told(result))
            failed = result.exit_code != 0
        return ToolMessage(
            "\n".join(said),
            tool_call_id=runtime.tool_call_id or "",
            name=self.tool_name,
            status="error" if failed else "success",
            artifact=None if result is None else _facts(result),
        )

    def _began(self, first: bool, runtime: ToolRuntime[Any, Any]) -> str:
        """What the model is to know of a session that is new to it."""
        where = "/" if self.workspace_root is None else self.policy.workdir(self.workspace_root)
        place = " in an empty folder" if self.workspace_root is None and first else f" in {where}"
        if self.workspace_root is None and not first:
            place = " in the same folder"
        earlier = not first or any(
            isinstance(each, ToolMessage) and each.name == self.tool_name
            for each in (runtime.state or {}).get("messages", ())
        )
        if not earlier:
            return f"[A new shell session{place}.]"
        kept = "its files too" if self.workspace_root is None and first else "files are kept"
        gone = "folder, variables and running programs of the earlier one are gone"
        return f"[A new shell session{place}: {gone}, {kept}.]"

    def _told(self, result: CommandResult) -> list[str]:
        text = result.output.rstrip("\n")
        said = [text] if text else []
        if result.timed_out:
            said.append(
                f"[Killed after {self.policy.command_timeout:g} s, with everything it started. "
                "The next command begins in a new session.]"
            )
            if watched():
                record_decision("D19", "killed", f"after {self.policy.command_timeout:g} s", "code")
        elif result.shell_ended:
            said.append(
                f"[The command ended the shell itself, with exit code {result.exit_code}. "
                "The next one begins in a new session.]"
            )
        elif result.exit_code:
            said.append(f"[Exit code {result.exit_code}]")
        elif not text:
            said.append("[No output]")
        if result.dropped_bytes and watched():
            record_decision("D19", "cut", f"{result.dropped_bytes:,} bytes were left out", "code")
        return said


class _RunShell:
    """What a run owns: the session, and the folder if it is the run's own."""

    def __init__(self, middleware: ShellToolMiddleware) -> None:
        self._middleware = middleware
        self._folder: str | None = None
        self._session: ShellSession | None = None
        self.used = False

    def session(self) -> ShellSession:
        if self._session is None:
            of = self._middleware
            root = of.workspace_root
            if root is None:
                self._folder = tempfile.mkdtemp(prefix="runwell-shell-")
            self._session = ShellSession(
                of.policy,
                root if root is not None else str(self._folder),
                env=of.env,
                startup_commands=of.startup_commands,
                shutdown_commands=of.shutdown_commands,
                redact=of._redact,
                shell_command=of.shell_command,
            )
        return self._session

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _facts(result: CommandResult) -> dict[str, Any]:
    """What is kept beside the text, for programs; it is saved with the message, so it is plain."""
    return {
        "exit_code": result.exit_code,
        "timed_out": result.timed_out,
        "new_shell": result.new_shell,
        "dropped_lines": result.dropped_lines,
        "dropped_bytes": result.dropped_bytes,
        "seconds": round(result.seconds, 3),
    }


def _folder(given: str | Path) -> Path:
    path = Path(given).expanduser().resolve()
    if not str(given).strip() or not path.is_dir():
        what = "is not a folder" if path.exists() and str(given).strip() else "is not there"
        raise InvalidInput(
            f"workspace_root={str(given)!r} {what}.",
            hint="Make the folder first, name another one, or leave it out for a temporary one in each run.",
        )
    return path


def _commands(field: str, given: Sequence[str] | str | None) -> tuple[str, ...]:
    commands = (given,) if isinstance(given, str) else tuple(given or ())
    each: Any
    for each in commands:
        if not isinstance(each, str) or not each.strip():
            raise InvalidInput(f"{field} holds {each!r}.", hint="Each is a text that is not empty.")
    return commands


def _environment(given: Mapping[str, str] | None) -> dict[str, str]:
    env = dict(given or {})
    name: Any
    value: Any
    for name, value in env.items():
        if not isinstance(name, str) or not name.isidentifier() or not isinstance(value, str) or "\0" in value:
            shown = value if not isinstance(value, str) else "..."
            raise InvalidInput(f"env has {name!r}: {shown!r}.", hint="Names are identifiers, values are texts.")
    return env
