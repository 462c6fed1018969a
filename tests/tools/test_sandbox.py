"""Shell sessions: what stays, what is shown, what a sandbox keeps away, and that nothing is left behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwell.drivers.cancel import CANCEL, CancelGroup
from runwell.errors import InvalidInput, RunCancelled, SandboxError, SandboxUnavailable
from runwell.tools.sandbox import (
    BubblewrapPolicy,
    CodexPolicy,
    DockerPolicy,
    HostPolicy,
    Redactor,
    SandboxPolicy,
    ShellSession,
)
from runwell.tools.sandbox.output import MARGIN, HeadTail

pytestmark = pytest.mark.integration


def policy(name: str, **fields: Any) -> SandboxPolicy:
    if name == "host":
        return HostPolicy(i_accept_host_access=True, **fields)
    made = BubblewrapPolicy(**fields)
    try:
        made.check()
    except SandboxUnavailable as error:
        pytest.skip(f"no sandbox on this machine, so only the host policy is tested: {error.message}")
    return made


@pytest.fixture(params=["bubblewrap", "host"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def shell(kind: str, tmp_path: Path) -> Iterator[ShellSession]:
    with ShellSession(policy(kind), tmp_path) as session:
        yield session


def alive(marker: str) -> list[str]:
    """Processes of this machine that have the marker on their command line, dead ones aside."""
    listed = subprocess.run(["ps", "-eo", "stat=,pid=,args="], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if marker in line and not line.startswith("Z")]


def gone(marker: str) -> bool:
    deadline = time.monotonic() + 5
    while alive(marker):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def unlikely() -> str:
    """A number of seconds that no other process sleeps."""
    return f"{int.from_bytes(os.urandom(3), 'big') + 100_000}"


# -- a session


def test_folder_variables_and_functions_stay(shell: ShellSession) -> None:
    shell.execute("mkdir -p sub; cd sub; export HERE=there; greet() { echo hello $1; }")
    result = shell.execute("pwd; echo $HERE; greet you")
    assert result.output == f"{shell.workspace}/sub\nthere\nhello you\n"
    assert (result.exit_code, result.new_shell, result.timed_out) == (0, False, False)


def test_errors_and_exit_codes_are_seen(shell: ShellSession) -> None:
    failed = shell.execute("echo out; echo err >&2; (exit 7)")
    assert (failed.output, failed.exit_code) == ("out\nerr\n", 7)
    broken = shell.execute("for x in")
    assert broken.exit_code != 0
    assert "syntax error" in broken.output
    assert shell.execute("echo ok").output == "ok\n"


def test_a_command_gets_no_input_and_cannot_disturb_the_next(shell: ShellSession) -> None:
    assert shell.execute("cat; read -r line || echo nothing").output == "nothing\n"
    shell.execute("exec >/dev/null 2>&1 9>&-")
    assert shell.execute("echo still here").output == "still here\n"
    assert shell.execute("printf '\\036deadbeef 0\\n'; echo -n half a line").output == "\x1edeadbeef 0\nhalf a line"
    assert shell.execute("echo 'it'\"'\"'s'; echo \"$0\"; echo äß").output == "it's\n/bin/bash\näß\n"


def test_a_command_longer_than_a_pipe_holds(shell: ShellSession) -> None:
    text = "x" * 300_000
    assert shell.execute(f"s='{text}'; echo ${{#s}}").output == "300000\n"


def test_a_shell_that_ends_is_told_and_replaced(shell: ShellSession) -> None:
    shell.execute("cd /; gone=1")
    ended = shell.execute("echo last words; exit 3")
    assert (ended.output, ended.exit_code, ended.shell_ended) == ("last words\n", 3, True)
    after = shell.execute('pwd; echo "[$gone]"')
    assert after.new_shell
    assert after.output == f"{shell.workspace}\n[]\n"


def test_restart_begins_anew(shell: ShellSession) -> None:
    shell.execute("x=1")
    shell.restart()
    assert shell.execute('echo "[$x]"').output == "[]\n"


def test_commands_of_several_threads_wait_for_each_other(shell: ShellSession) -> None:
    results: list[str] = []

    def work(n: int) -> None:
        results.append(shell.execute(f"echo {n} begins; sleep 0.02; echo {n} ends").output)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(results) == [f"{n} begins\n{n} ends\n" for n in range(4)]


def test_startup_and_shutdown_commands(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with ShellSession(
        policy(kind),
        tmp_path,
        startup_commands=["export READY=yes", "echo noise"],
        shutdown_commands=["echo bye >bye.txt", "exit 4"],
    ) as session:
        assert session.execute("echo $READY").output == "yes\n"
        session.restart()
        assert (tmp_path / "bye.txt").read_text() == "bye\n"
        (tmp_path / "bye.txt").unlink()
        assert session.execute("echo $READY").output == "yes\n"
    assert (tmp_path / "bye.txt").read_text() == "bye\n"
    assert "the shutdown command 'exit 4' ended with None" in caplog.text


def test_a_failed_startup_command_is_an_error(kind: str, tmp_path: Path) -> None:
    with (
        ShellSession(policy(kind), tmp_path, startup_commands=["echo why >&2; false"]) as session,
        pytest.raises(SandboxError, match=r"startup command 'echo why >&2; false' ended with 1: why"),
    ):
        session.execute("echo never")
    assert not session.running


def test_what_cannot_be_a_command_is_refused(shell: ShellSession) -> None:
    for bad in ("", "  \n", "echo \0"):
        with pytest.raises(InvalidInput):
            shell.execute(bad)
    with pytest.raises(InvalidInput):
        shell.execute("true", timeout=0)
    assert not shell.running


def test_a_closed_session_takes_no_more_and_a_missing_shell_is_told(kind: str, tmp_path: Path) -> None:
    session = ShellSession(policy(kind), tmp_path)
    session.close()
    with pytest.raises(SandboxError, match="closed"):
        session.execute("true")
    with (
        ShellSession(policy(kind), tmp_path, shell_command=("/no/such/shell",)) as missing,
        pytest.raises(SandboxError, match="no/such/shell"),
    ):
        missing.execute("true")


# -- time and what is left behind


def test_d19_a_timeout_kills_the_whole_group(shell: ShellSession) -> None:
    nap = unlikely()
    began = time.monotonic()
    result = shell.execute(f"echo begun; sleep {nap} & (sleep {nap}; echo never) ", timeout=0.5)
    assert result.timed_out
    assert result.exit_code is None
    assert result.output == "begun\n"
    assert time.monotonic() - began < 10
    assert gone(f"sleep {nap}")
    assert shell.execute("echo again").new_shell


def test_d19_a_command_that_ignores_signals_is_killed_too(shell: ShellSession) -> None:
    nap = unlikely()
    result = shell.execute(f"trap '' TERM INT HUP; while true; do sleep {nap}; done", timeout=0.3)
    assert result.timed_out
    assert gone(f"sleep {nap}")


def test_nothing_is_left_when_a_session_ends(kind: str, tmp_path: Path) -> None:
    nap = unlikely()
    with ShellSession(policy(kind), tmp_path) as session:
        session.execute(f"sleep {nap} & nohup sleep {nap} & setsid sleep {nap} & (setsid -f sleep {nap})")
        if kind == "host":
            assert alive(f"sleep {nap}")
    assert gone(f"sleep {nap}")


def test_cancelling_kills_the_command_at_once(shell: ShellSession) -> None:
    nap = unlikely()
    group = CancelGroup()
    caught: list[BaseException] = []

    def work() -> None:
        CANCEL.set(group)
        try:
            shell.execute(f"sleep {nap} & sleep {nap}")
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=copy_context().run, args=(work,))
    thread.start()
    deadline = time.monotonic() + 5
    while not alive(f"sleep {nap}") and time.monotonic() < deadline:
        time.sleep(0.01)
    group.cancel()
    thread.join(10)
    assert [type(each) for each in caught] == [RunCancelled]
    assert gone(f"sleep {nap}")
    assert not shell.running


def test_the_death_of_the_program_ends_a_sandbox(tmp_path: Path) -> None:
    """Killed outright, it can clean nothing up: the kernel does."""
    policy("bubblewrap")
    nap = unlikely()
    program = (
        "from runwell.tools.sandbox import BubblewrapPolicy, ShellSession\n"
        f"s = ShellSession(BubblewrapPolicy(), {str(tmp_path)!r})\n"
        f"s.execute('sleep {nap} & true')\n"
        "import os, signal\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -9
    assert gone(f"sleep {nap}")


def test_a_session_outlives_the_thread_that_began_it(kind: str, tmp_path: Path) -> None:
    """A sandbox dies with the thread that started it, so that is a thread of its own."""
    with ShellSession(policy(kind), tmp_path) as session:
        thread = threading.Thread(target=session.execute, args=("x=kept",))
        thread.start()
        thread.join()
        assert session.execute("echo $x").output == "kept\n"


# -- what is shown


def test_d19_long_output_keeps_its_beginning_and_end(kind: str, tmp_path: Path) -> None:
    with ShellSession(policy(kind, max_output_lines=10, max_output_bytes=1000), tmp_path) as session:
        result = session.execute("seq 1 100000")
        lines = result.output.splitlines()
        assert lines[:5] == ["1", "2", "3", "4", "5"]
        assert lines[-5:] == ["99996", "99997", "99998", "99999", "100000"]
        assert lines[5] == f"[... 99,990 lines, {result.dropped_bytes:,} bytes left out ...]"
        assert result.dropped_lines == 99_990
        wide = session.execute("head -c 100000 /dev/zero | tr '\\0' x; echo end")
        assert len(wide.output) < 1100
        assert wide.output.endswith("xend\n")


@given(
    st.text(st.sampled_from("ab\né"), max_size=400),
    st.lists(st.integers(1, 90), max_size=8),
    st.integers(2, 12),
    st.integers(2, 120),
)
def test_a_capped_output_is_a_head_and_a_tail_within_bounds(text: str, cuts: list[int], lines: int, size: int) -> None:
    data, kept = text.encode(), HeadTail(size)
    for cut in cuts:
        kept.feed(data[:cut])
        data = data[cut:]
    kept.feed(data)
    shown = kept.shown(lambda each: each, lines, size)
    if len(text.encode()) <= size and text.count("\n") <= lines:
        assert shown == (text, 0, 0)
        return
    hit = re.fullmatch(r"(.*?)\n?\[\.\.\. ([\d,]+) lines, ([\d,]+) bytes left out \.\.\.\]\n(.*)", shown.text, re.S)
    assert hit is not None
    head, tail = hit[1], hit[4]
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head.encode()) + len(tail.encode()) <= size
    assert head.count("\n") + tail.count("\n") <= lines
    assert shown.dropped_bytes > 0 or shown.dropped_lines > 0 or len(text.encode()) > 0


@given(st.integers(0, 60_000), st.integers(0, 40_000))
def test_no_half_of_a_secret_is_shown_where_output_is_cut(before: int, after: int) -> None:
    secret = "s3cr3t-0123456789"
    kept = HeadTail(2000)
    kept.feed(b"-" * before + secret.encode() + b"-" * after)
    shown = kept.shown(Redactor(env={"TOKEN": secret}), 100, 2000)
    assert not any(part in shown.text for part in (secret[:4], secret[-4:]))
    assert len(secret) < MARGIN


def test_values_of_the_environment_and_what_rules_match_are_redacted(kind: str, tmp_path: Path) -> None:
    env = {"API_KEY": "k-1", "DATABASE": "postgres://u:p@h", "LEVEL": "debug", "PLACE": "/some/where/else"}
    redact = Redactor([r"\d{3}-\d{2}", lambda text: text.replace("Ada", "[name]")], env, visible=["PLACE"])
    with ShellSession(policy(kind), tmp_path, env=env, redact=redact) as session:
        said = session.execute('echo "$API_KEY $DATABASE $LEVEL $PLACE 123-45 Ada"').output
    assert said == "[redacted API_KEY] [redacted DATABASE] debug /some/where/else [redacted] [name]\n"


@pytest.mark.parametrize("bad", ["(", "x*", 3, None])
def test_a_rule_that_is_none_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidInput):
        Redactor([bad])


def test_a_list_is_asked_for_and_a_function_must_give_a_text() -> None:
    with pytest.raises(InvalidInput, match="list"):
        Redactor("abc")
    broken: Any = lambda text: None  # noqa: E731
    with pytest.raises(InvalidInput, match="NoneType"):
        Redactor([broken])("text")


# -- what is reached


def test_d18_the_environment_is_minimal(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROGRAM_SECRET", "do not tell")
    monkeypatch.setenv("LD_PRELOAD", "")
    with ShellSession(policy(kind), tmp_path, env={"MINE": "1"}) as session:
        names = {line.split("=")[0] for line in session.execute("env").output.splitlines()}
        assert session.execute("echo $HOME $LANG").output == f"{tmp_path} C.UTF-8\n"
    own = {"PWD", "SHLVL", "_", "OLDPWD"}  # bash makes these
    assert names - own - {"RUNWELL_SHELL"} == {"PATH", "HOME", "LANG", "MINE"}


def test_d18_the_environment_is_not_on_a_command_line(tmp_path: Path) -> None:
    policy("bubblewrap")
    with ShellSession(BubblewrapPolicy(), tmp_path, env={"API_KEY": "on-no-command-line"}) as session:
        session.execute("true")
        assert not alive("on-no-command-line")


def test_d17_a_sandbox_has_one_writable_folder_and_no_network(tmp_path: Path) -> None:
    policy("bubblewrap")
    outside = tmp_path / "outside.txt"
    outside.write_text("private")
    inside = tmp_path / "inside"
    inside.mkdir()
    with ShellSession(BubblewrapPolicy(), inside) as session:
        assert session.execute("echo 1 >mine; cat mine").output == "1\n"
        assert (inside / "mine").read_text() == "1\n"
        assert session.execute(f"cat {outside}").exit_code != 0
        assert "Read-only file system" in session.execute("touch /usr/x /x /etc/x").output
        assert "root:" not in session.execute("cat /etc/shadow").output
        assert session.execute("ls /home /root").exit_code != 0
        assert session.execute("ps -e | wc -l").output.strip() in {"4", "5", "6"}, "only its own processes"
        interfaces = session.execute("cat /proc/net/dev | tail -n +3 | cut -d: -f1").output.split()
        assert interfaces == ["lo"]
        assert session.execute("grep CapEff /proc/self/status").output.split()[-1] == "0" * 16
    assert outside.read_text() == "private"


def test_d17_further_folders_are_named(tmp_path: Path) -> None:
    policy("bubblewrap")
    for name in ("work", "read", "write"):
        (tmp_path / name).mkdir()
    (tmp_path / "read" / "book").write_text("text")
    shown = BubblewrapPolicy(readable=(tmp_path / "read",), writable=(tmp_path / "write",))
    with ShellSession(shown, tmp_path / "work") as session:
        assert session.execute(f"cat {tmp_path}/read/book").output == "text"
        assert session.execute(f"echo x >{tmp_path}/read/y").exit_code != 0
        assert session.execute(f"echo x >{tmp_path}/write/y").exit_code == 0
    with pytest.raises(InvalidInput, match="relative"):
        BubblewrapPolicy(readable=("relative",))


def test_d17_memory_and_processor_time_are_bounded(kind: str, tmp_path: Path) -> None:
    bounded = policy(kind, memory_bytes=256 * 1024**2, cpu_time_seconds=1)
    with ShellSession(bounded, tmp_path) as session:
        assert session.execute("head -c 1G /dev/zero | tail | wc -c").output != "1073741824\n"
        spun = session.execute("bash -c 'while :; do :; done'", timeout=20)
        assert (spun.timed_out, spun.exit_code) == (False, 137)


def test_d17_the_host_must_be_accepted() -> None:
    with pytest.raises(InvalidInput, match=r"i_accept_host_access=True"):
        HostPolicy()


def test_d17_a_sandbox_that_is_not_there_is_refused() -> None:
    with pytest.raises(SandboxUnavailable, match=r"apt-get install bubblewrap") as caught:
        BubblewrapPolicy(binary="no-such-bwrap").check()
    assert "HostPolicy(i_accept_host_access=True)" in str(caught.value)
    for other in (DockerPolicy(binary="no-such-docker"), CodexPolicy(binary="no-such-codex")):
        with pytest.raises(SandboxUnavailable, match="no-such"):
            other.check()


@pytest.mark.parametrize(
    "make",
    [
        lambda: HostPolicy(i_accept_host_access=True, command_timeout=0),
        lambda: HostPolicy(i_accept_host_access=True, max_output_lines=1),
        lambda: DockerPolicy(image="--privileged"),
        lambda: DockerPolicy(extra_run_args="-v"),
        lambda: CodexPolicy(platform="windows"),
        lambda: BubblewrapPolicy(readable="/usr"),
    ],
)
def test_settings_that_cannot_be_are_refused(make: Any) -> None:
    with pytest.raises(InvalidInput):
        make()


# -- command lines


def test_d17_the_command_line_of_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/host")
    monkeypatch.setenv("API_KEY", "the program's own")
    made = DockerPolicy(
        image="debian:12", memory_bytes=512, cpus="1.5", user="1000:1000", extra_run_args=("--dns=1.1.1.1",)
    )
    launch = made.launch(("/bin/bash",), tmp_path, {"API_KEY": "hush", "HTTP_PROXY": "inside"})
    line = list(launch.argv)
    name = line[line.index("--name") + 1]
    assert line == [
        *("docker", "run", "--interactive", "--init", "--name", name, "--rm", "--network", "none"),
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only", "--tmpfs", "/tmp"),
        *("--memory", "512", "--memory-swap", "512", "--cpus", "1.5", "--pids-limit", "512", "--user", "1000:1000"),
        *("--mount", f"type=bind,source={tmp_path},target=/workspace", "--workdir", "/workspace"),
        *("--env", "HOME=/workspace", "--env", "LANG=C.UTF-8", "--env", "API_KEY", "--env", "HTTP_PROXY=inside"),
        *("--dns=1.1.1.1", "debian:12", "/bin/bash"),
    ]
    assert launch.env["API_KEY"] == "hush"
    assert launch.env["HOME"] == "/home/host"
    assert "hush" not in repr(launch)
    assert launch.stop == ("docker", "kill", name)
    assert "no network" in made.describe()
    open_ = DockerPolicy(network_enabled=True, read_only_rootfs=False, remove_container_on_exit=False)
    assert not {"--network", "--read-only", "--rm"} & set(open_.launch(("sh",), tmp_path, {}).argv)


def test_d17_the_command_line_of_codex(tmp_path: Path) -> None:
    made = CodexPolicy(platform="linux", config_overrides={"sandbox_workspace_write.writable_roots": ["/data"]})
    launch = made.launch(("/bin/bash", "--norc"), tmp_path, {"A": "b"})
    assert launch.argv == (
        *("codex", "sandbox", "linux", "-c", 'sandbox_mode="workspace-write"'),
        *("-c", "sandbox_workspace_write.network_access=false"),
        *("-c", 'sandbox_workspace_write.writable_roots=["/data"]', "--", "/bin/bash", "--norc"),
    )
    assert launch.cwd == str(tmp_path)
    assert launch.env == {**made.environment(tmp_path, {}), "A": "b"}
    assert CodexPolicy().launch(("sh",), tmp_path, {}).argv[:3] == ("codex", "sandbox", "-c")
    with pytest.raises(InvalidInput, match="config_overrides"):
        CodexPolicy(config_overrides={"x": object()}).launch(("sh",), tmp_path, {})


def test_a_container_is_stopped_by_name(tmp_path: Path) -> None:
    """A client that stands for docker: killing it would leave a container, so it is told to stop."""
    client = tmp_path / "client"
    client.write_text(f'#!/bin/sh\nif [ "$1" = kill ]; then echo "$2" >{tmp_path}/stopped; exit; fi\nexec /bin/bash\n')
    client.chmod(0o755)
    with ShellSession(DockerPolicy(binary=str(client)), tmp_path) as session:
        assert session.execute("echo in the container").output == "in the container\n"
    assert (tmp_path / "stopped").read_text().startswith("runwell-")
