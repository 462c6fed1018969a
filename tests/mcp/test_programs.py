"""Servers that are programs: what they may write, what is left of them, and in which order they are ended."""

from __future__ import annotations

import logging
import os
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from runwell.errors import MCPConnectionError
from runwell.mcp import MCPClient, Stdio

from .conftest import named

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform == "win32", reason="processes have no groups there"),
]

RAW = Path(__file__).parent / "servers" / "raw.py"


def raw(how: str, notes: Path | None = None, **options: Any) -> MCPClient:
    env = {} if notes is None else {"NOTES": str(notes)}
    return MCPClient(Stdio(sys.executable, [str(RAW), how], env=env), name="raw", protocol="legacy", **options)


def runs(pid: int) -> bool:
    """Whether a process does anything still: one that is dead and not yet collected does not."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat")
        return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def gone(pid: int) -> bool:
    until = time.monotonic() + 5
    while runs(pid):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


@pytest.mark.parametrize("how", ["endless", "endless-at-once"])
def test_a_line_without_an_end_is_given_up_in_bounded_memory(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runwell.mcp.program.MAX_LINE", 4_000_000)
    client = raw(how)
    tracemalloc.start()
    try:
        with pytest.raises(MCPConnectionError, match="it wrote more than 4000000 bytes without a newline") as caught:
            named(client)["go"].invoke({})
        assert tracemalloc.get_traced_memory()[1] < 12_000_000
    finally:
        tracemalloc.stop()
        client.close()
    assert "\n" not in caught.value.message


def test_a_program_may_write_all_it_wants_to_its_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with raw("stderr") as client:
        assert int(named(client)["go"].invoke({})) > 0
        until = time.monotonic() + 10
        said = ""
        while "at last" not in said:
            assert time.monotonic() < until
            said += capsys.readouterr().err
        assert len(client._connection._live.complaints.end) <= 2_000
    assert said.count("so much to say\n") == 200_000


def test_last_words_are_a_note_and_no_part_of_what_a_model_is_told() -> None:
    with pytest.raises(MCPConnectionError) as caught:
        raw("dies").tools()
    assert "no such licence" not in caught.value.message
    assert caught.value.__notes__ == ["Its standard error ended with:\nno such licence"]


def test_a_program_that_never_answers_is_given_up_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runwell.mcp.program.GRACE_S", 0.3)
    with pytest.raises(MCPConnectionError, match=r"no answer within 0\.5 s"):
        raw("hangs", connect_timeout=0.5).tools()


def test_what_is_no_message_is_told_of_and_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "runwell.mcp"), raw("junk") as client:
        assert int(named(client)["go"].invoke({})) > 0
    assert "wrote what is no message: b'Welcome!'" in caplog.text
    assert "wrote what is no message: b'\\xff\\xfe'" in caplog.text
    assert caplog.text.count("wrote what is no message") == 5


def test_a_programs_children_end_with_it(monkeypatch: pytest.MonkeyPatch, notes: Path) -> None:
    """It ends in time itself, and leaves a child behind that heeds no SIGTERM."""
    monkeypatch.setattr("runwell.mcp.program.GRACE_S", 0.5)
    with raw("child", notes) as client:
        child = int(named(client)["go"].invoke({}))
        assert runs(child)
    assert gone(child)
    assert notes.read_text() == "eof\n"


def test_a_program_is_asked_to_end_before_it_is_killed(monkeypatch: pytest.MonkeyPatch, notes: Path) -> None:
    monkeypatch.setattr("runwell.mcp.program.GRACE_S", 0.5)
    with raw("stubborn", notes) as client:
        pid = int(named(client)["go"].invoke({}))
    assert not runs(pid)
    assert notes.read_text() == "eof\nterm\n"


def test_one_that_ends_when_its_input_does_is_not_signalled(notes: Path) -> None:
    with raw("ok", notes) as client:
        pid = int(named(client)["go"].invoke({}))
        begun = time.monotonic()
    assert not runs(pid)
    assert time.monotonic() - begun < 1.5
    assert notes.read_text() == "eof\n"


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (Stdio("/no/such/program"), "FileNotFoundError"),
        (Stdio(sys.executable, cwd="/no/such/folder"), "FileNotFoundError"),
        (Stdio("/"), "PermissionError"),
        (Stdio("no\0name"), "ValueError"),
        (Stdio(sys.executable, ["-c", "pass"]), "the program ended before it answered"),
    ],
)
def test_a_command_that_cannot_be_run_says_why(target: Stdio, said: str) -> None:
    with pytest.raises(MCPConnectionError, match=f"cannot be reached: {said}"):
        MCPClient(target, name="x").tools()
