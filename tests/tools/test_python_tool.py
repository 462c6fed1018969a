"""Python in a sandbox: what is shown, what is kept, what it cannot reach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runwell.errors import InvalidInput, SandboxUnavailable, ToolError
from runwell.tools.kits import python_tool
from runwell.tools.sandbox import BubblewrapPolicy, HostPolicy, SandboxPolicy

pytestmark = pytest.mark.integration


@pytest.fixture(params=["bubblewrap", "host"])
def policy(request: pytest.FixtureRequest) -> SandboxPolicy:
    if request.param == "host":
        return HostPolicy(i_accept_host_access=True)
    made = BubblewrapPolicy()
    try:
        made.check()
    except SandboxUnavailable as error:
        pytest.skip(f"no sandbox on this machine, so only the host policy is tested: {error.message}")
    return made


def test_what_a_program_shows(policy: SandboxPolicy, driver: Any) -> None:
    run = python_tool(policy)
    assert driver.invoke(run, {"code": "x = 6\nprint('x is', x)\nx * 7"}) == "x is 6\n42"
    assert driver.invoke(run, {"code": "x = 1"}) == "[No output. Print what you want to see.]"
    assert driver.invoke(run, {"code": "def f(n):\n    return n if n < 2 else f(n-1) + f(n-2)\nf(10)"}) == "55"
    with pytest.raises(ToolError) as failed:
        driver.invoke(run, {"code": "def half(x):\n    return x / 0\nprint('before')\nhalf(1)"})
    told = str(failed.value)
    assert told.startswith("before\nTraceback")
    assert 'File "code", line 2, in half' in told
    assert "return x / 0" in told
    assert "ZeroDivisionError" in told
    assert "runwell" not in told
    with pytest.raises(ToolError, match="SyntaxError"):
        driver.invoke(run, {"code": "x ="})
    with pytest.raises(ToolError, match="no code"):
        driver.invoke(run, {"code": "  "})
    with pytest.raises(ToolError, match="Ended with 3"):
        driver.invoke(run, {"code": "raise SystemExit(3)"})
    assert run.destructive


def test_files_stay_in_a_workspace_and_nowhere_else(policy: SandboxPolicy, tmp_path: Path) -> None:
    run = python_tool(policy, workspace=tmp_path, env={"TOKEN": "abc"})
    run.invoke({"code": "open('kept', 'w').write('1')"})
    assert run.invoke({"code": "import os; os.listdir('.')"}).count("kept") == 1
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]
    assert run.invoke({"code": "x = 1"}) != run.invoke({"code": "'x' in globals()"}) == "False"
    own = python_tool(policy)
    own.invoke({"code": "open('kept', 'w').write('1')"})
    assert "kept" not in own.invoke({"code": "import os; print(os.listdir('.'))"})


def test_a_program_that_does_not_end_is_stopped(policy: SandboxPolicy) -> None:
    with pytest.raises(ToolError, match=r"started\n\[Stopped after 0\.5 s\.\]"):
        python_tool(policy, timeout=0.5).invoke({"code": "print('started', flush=True)\nwhile True: pass"})


def test_the_sandbox_has_no_network_and_no_homes(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        run = python_tool()
    except SandboxUnavailable as error:
        pytest.skip(error.message)
    monkeypatch.setenv("SECRET_KEY", "k")
    code = """
import os, socket
print(os.environ.get("SECRET_KEY"), os.path.exists(os.path.expanduser("~root")), os.path.exists("/home"))
try:
    socket.create_connection(("1.1.1.1", 53), 2)
except OSError as error:
    print("no network")
try:
    open("/usr/x", "w")
except OSError as error:
    print("read-only")
"""
    assert run.invoke({"code": code}) == "None False False\nno network\nread-only"
    assert "no network" in run.description


def test_settings_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    host = HostPolicy(i_accept_host_access=True)
    with pytest.raises(InvalidInput, match="timeout=0"):
        python_tool(host, timeout=0)
    with pytest.raises(InvalidInput, match="is no folder"):
        python_tool(host, workspace=tmp_path / "nothing")
    with pytest.raises(InvalidInput, match="is no SandboxPolicy"):
        python_tool("docker")  # type: ignore[arg-type]
    with pytest.raises(SandboxUnavailable):
        python_tool(BubblewrapPolicy(binary="no-such-bwrap"))
