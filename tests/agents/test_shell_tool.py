"""The shell of an agent: one session for a run, in a sandbox, gone when the run is."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from runwell.agents import create_agent
from runwell.agents.middleware import HumanInTheLoopMiddleware, ShellToolMiddleware
from runwell.errors import InvalidInput, SandboxUnavailable
from runwell.graph import Command
from runwell.messages import AIMessage, ToolMessage
from runwell.observe import DecisionLog
from runwell.persistence import InMemorySaver
from runwell.testing.models import FakeChatModel
from runwell.tools import tool
from runwell.tools.sandbox import BubblewrapPolicy, HostPolicy

pytestmark = pytest.mark.integration

HOST = HostPolicy(i_accept_host_access=True)


def calls(*commands: Any, first: int = 0) -> AIMessage:
    args = [each if isinstance(each, dict) else {"command": each} for each in commands]
    return AIMessage(
        "",
        tool_calls=[
            {"name": "shell", "args": given, "id": f"c{first + n}", "type": "tool_call"} for n, given in enumerate(args)
        ],
    )


def script(*turns: Any) -> FakeChatModel:
    """A model that calls the shell with these commands, one turn each, and then is done."""
    made = [calls(turn, first=10 * n) if isinstance(turn, (str, dict)) else turn for n, turn in enumerate(turns)]
    return FakeChatModel(responses=[*made, "done"])


def answers(result: Any) -> list[str]:
    return [each.text for each in result["messages"] if isinstance(each, ToolMessage)]


GO: dict[str, Any] = {"messages": [("user", "go")]}


def gone(marker: str) -> bool:
    deadline = time.monotonic() + 5
    while True:
        listed = subprocess.run(["ps", "-eo", "stat=,args="], capture_output=True, text=True, check=True).stdout
        if not any(marker in line and not line.startswith("Z") for line in listed.splitlines()):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)


def unlikely() -> str:
    return f"{int.from_bytes(os.urandom(3), 'big') + 100_000}"


def test_d17_a_model_works_in_a_sandboxed_session(run: Any, tmp_path: Path) -> None:
    try:
        shell = ShellToolMiddleware(tmp_path)
    except SandboxUnavailable as error:
        pytest.skip(f"no sandbox on this machine: {error.message}")
    nap = unlikely()
    agent = create_agent(
        script("mkdir -p a && cd a && x=1", f"pwd; echo $x; touch /etc/mine; sleep {nap} &"), middleware=[shell]
    )
    first, second = answers(run.invoke(agent, GO))
    assert first == f"[A new shell session in {tmp_path}.]\n[No output]"
    assert second == f"{tmp_path}/a\n1\ntouch: cannot touch '/etc/mine': Read-only file system"
    assert gone(f"sleep {nap}")
    assert isinstance(shell.policy, BubblewrapPolicy)


def test_what_goes_wrong_is_told(run: Any, tmp_path: Path) -> None:
    policy = HostPolicy(i_accept_host_access=True, command_timeout=0.4, max_output_lines=4)
    shell = ShellToolMiddleware(tmp_path, execution_policy=policy)
    model = script("(exit 2)", "seq 100", "echo so far; sleep 60", "exit 5", {"restart": True}, {}, "pwd")
    log = DecisionLog()
    result = run.invoke(create_agent(model, middleware=[shell]), GO, {"callbacks": [log]})
    said = answers(result)
    again = (
        f"[A new shell session in {tmp_path}: folder, variables and running programs of the earlier one are gone, "
        "files are kept.]"
    )
    assert said[0] == f"[A new shell session in {tmp_path}.]\n[Exit code 2]"
    assert said[1] == "1\n2\n[... 96 lines, 281 bytes left out ...]\n99\n100"
    assert said[2].startswith("so far\n[Killed after 0.4 s, with everything it started.")
    assert said[3].startswith(f"{again}\n[The command ended the shell itself, with exit code 5.")
    assert said[4] == again
    assert "command" in said[5]
    assert said[6] == str(tmp_path)
    facts = [each.artifact for each in result["messages"] if isinstance(each, ToolMessage)][1]
    assert (facts["exit_code"], facts["dropped_lines"], facts["dropped_bytes"]) == (0, 96, 281)
    states = [each.status for each in result["messages"] if isinstance(each, ToolMessage)]
    assert states == ["error", "success", "error", "error", "success", "error", "success"]
    assert [each.outcome for each in log.of("D19")] == ["cut", "killed"]
    assert [each.outcome for each in log.of("D17")] == ["host"] * 3
    assert {each.outcome for each in log.of("D18")} == {"minimal"}


def test_calls_of_one_turn_run_in_their_order(run: Any, tmp_path: Path) -> None:
    shell = ShellToolMiddleware(tmp_path, execution_policy=HOST)
    model = FakeChatModel(responses=[calls("x=1; sleep 0.05", "x=${x}2", "echo $x"), "done"])
    assert answers(run.invoke(create_agent(model, middleware=[shell]), GO))[-1] == "12"


def test_every_run_has_a_session_of_its_own(run: Any, thread: Any) -> None:
    shell = ShellToolMiddleware(execution_policy=HOST)
    agent = create_agent(
        FakeChatModel(responses=[calls("x=1; touch f; pwd"), "one", calls("ls; echo [$x]", first=5), "two"]),
        middleware=[shell],
        checkpointer=InMemorySaver(),
    )
    folder = answers(run.invoke(agent, GO, thread))[0].splitlines()[-1]
    assert not Path(folder).exists(), "a temporary workspace ends with its run"
    second = answers(run.invoke(agent, GO, thread))[1]
    assert second == (
        "[A new shell session in an empty folder: folder, variables and running programs of the earlier one are gone, "
        "its files too.]\n[]"
    )


def test_a_run_that_goes_on_after_a_pause_says_that_the_session_is_new(run: Any, thread: Any, tmp_path: Path) -> None:
    nap = unlikely()

    @tool
    def ask(what: str) -> str:
        """Ask a person."""
        return what

    asking = AIMessage("", tool_calls=[{"name": "ask", "args": {"what": "?"}, "id": "ask", "type": "tool_call"}])
    shell = ShellToolMiddleware(tmp_path, execution_policy=HOST, startup_commands="export READY=yes")
    agent = create_agent(
        script(f"x=1; touch kept; sleep {nap} &", asking, "ls; echo [$x$READY]"),
        [ask],
        middleware=[shell, HumanInTheLoopMiddleware({"ask": True})],
        checkpointer=InMemorySaver(),
    )
    paused = run.invoke(agent, GO, thread)
    assert "__interrupt__" in paused
    assert gone(f"sleep {nap}"), "nothing runs while a run waits for a person"
    result = run.invoke(agent, Command(resume={"decisions": [{"type": "approve"}]}), thread)
    assert answers(result)[-1] == (
        f"[A new shell session in {tmp_path}: folder, variables and running programs of the earlier one are gone, "
        "files are kept.]\nkept\n[yes]"
    )


def test_approval_of_commands_and_shutdown_commands(run: Any, thread: Any, tmp_path: Path) -> None:
    shell = ShellToolMiddleware(tmp_path, execution_policy=HOST, shutdown_commands=["echo end >>log"])
    agent = create_agent(
        script("echo run >>log"), middleware=[shell], approvals="destructive", checkpointer=InMemorySaver()
    )
    assert "__interrupt__" in run.invoke(agent, GO, thread)
    assert not (tmp_path / "log").exists()
    run.invoke(agent, Command(resume={"decisions": [{"type": "approve"}]}), thread)
    assert (tmp_path / "log").read_text() == "run\nend\n"


def test_a_run_that_fails_leaves_nothing_behind(run: Any, tmp_path: Path) -> None:
    nap = unlikely()
    shell = ShellToolMiddleware(tmp_path, execution_policy=HOST, shutdown_commands=["touch ended"])
    model = FakeChatModel(responses=[calls(f"setsid sleep {nap} & sleep {nap} &"), RuntimeError("boom")])
    with pytest.raises(RuntimeError, match="boom"):
        run.invoke(create_agent(model, middleware=[shell]), GO)
    assert gone(f"sleep {nap}")
    assert (tmp_path / "ended").exists()


def test_cancelling_a_run_kills_what_its_shell_runs(tmp_path: Path) -> None:
    nap = unlikely()
    shell = ShellToolMiddleware(tmp_path, execution_policy=HOST)
    agent = create_agent(script(f"touch begun; sleep {nap}"), middleware=[shell])

    async def cancelled() -> float:
        task = asyncio.create_task(agent.ainvoke(GO))
        while not (tmp_path / "begun").exists():
            await asyncio.sleep(0.01)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - began

    assert asyncio.run(cancelled()) < 5
    assert gone(f"sleep {nap}")


def test_ctrl_c_kills_what_a_shell_runs(tmp_path: Path) -> None:
    nap = unlikely()
    program = f"""
from runwell.agents import create_agent
from runwell.agents.middleware import HostPolicy, ShellToolMiddleware
from runwell.messages import AIMessage
from runwell.testing import FakeChatModel

command = "touch begun; sleep {nap} & setsid sleep {nap} & sleep {nap}"
sh = {{"name": "shell", "args": {{"command": command}}, "id": "1"}}
model = FakeChatModel(responses=[AIMessage("", tool_calls=[sh])])
shell = ShellToolMiddleware({str(tmp_path)!r}, execution_policy=HostPolicy(i_accept_host_access=True))
create_agent(model, middleware=[shell]).invoke({{"messages": [("user", "go")]}})
"""
    running = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "begun").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=20)
    finally:
        running.kill()
    assert b"KeyboardInterrupt" in said
    assert gone(f"sleep {nap}")


def test_closing_a_stream_kills_what_its_shell_runs(tmp_path: Path) -> None:
    nap = unlikely()
    shell = ShellToolMiddleware(tmp_path, execution_policy=HOST)
    agent = create_agent(script(f"sleep {nap} & touch begun", f"sleep {nap}"), middleware=[shell])
    stream = agent.stream(GO, stream_mode=["updates", "custom"])
    for _ in stream:
        if (tmp_path / "begun").exists():
            break
    stream.close()
    assert gone(f"sleep {nap}")


def test_secrets_do_not_reach_the_model(run: Any, tmp_path: Path) -> None:
    shell = ShellToolMiddleware(
        tmp_path,
        execution_policy=HOST,
        env={"API_KEY": "sk-very-secret"},
        redaction_rules=[r"\b\d{4}-\d{4}\b", lambda text: text.replace("Ada", "[name]")],
    )
    model = script("env | grep API; echo 1234-5678 Ada")
    said = answers(run.invoke(create_agent(model, middleware=[shell]), GO))[0]
    assert said.splitlines()[1:] == ["API_KEY=[redacted API_KEY]", "[redacted] [name]"]
    assert not any("sk-very-secret" in repr(request) for request in model.requests)


def test_a_failed_startup_command_is_told_to_the_model(run: Any, tmp_path: Path) -> None:
    shell = ShellToolMiddleware(tmp_path, execution_policy=HOST, startup_commands=["no-such-program"])
    said = answers(run.invoke(create_agent(script("pwd"), middleware=[shell]), GO))[0]
    assert "The startup command 'no-such-program' ended with 127" in said


def test_the_tool_can_be_called_by_hand(tmp_path: Path) -> None:
    shell = ShellToolMiddleware(tmp_path, execution_policy=HOST, tool_name="sh", tool_description="Runs it.")
    (sh,) = shell.tools
    assert (sh.name, sh.description) == ("sh", "Runs it.")
    assert set(sh.args) == {"command", "restart"}
    assert sh.invoke({"command": "echo hi"}).text == f"[A new shell session in {tmp_path}.]\nhi"


def test_d17_no_sandbox_and_no_consent_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SandboxUnavailable, match="bubblewrap"):
        ShellToolMiddleware(execution_policy=BubblewrapPolicy(binary="no-such-bwrap"))


@pytest.mark.parametrize(
    "fields",
    [
        {"startup_commands": ["ok", " "]},
        {"shell_command": []},
        {"env": {"A B": "x"}},
        {"env": {"A": 1}},
        {"redaction_rules": ["("]},
        {"execution_policy": "host"},
        {"workspace_root": __file__},
    ],
)
def test_settings_that_cannot_be_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        ShellToolMiddleware(**{"execution_policy": HOST, **fields})
