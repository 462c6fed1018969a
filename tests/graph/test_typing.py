"""Type checkers understand graphs: what is right passes, what is wrong is found where it stands."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import runwell

PROGRAM = Path(__file__).with_name("typed_program.py")
SOURCES = Path(runwell.__file__).parents[1]
WRONG = {at for at, line in enumerate(PROGRAM.read_text("utf-8").splitlines(), 1) if line.endswith("# wrong")}


@pytest.mark.slow
def test_mypy_understands_graphs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}", str(PROGRAM)]
    done = subprocess.run(
        [*command, "--follow-imports=silent"],
        cwd=tmp_path,
        env={"MYPYPATH": str(SOURCES), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    found = {int(line) for line in re.findall(r"typed_program\.py:(\d+): error", done.stdout)}
    assert found == WRONG, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.integration
def test_pyright_understands_graphs(tmp_path: Path) -> None:
    shutil.copy(PROGRAM, tmp_path)
    settings = {"extraPaths": [str(SOURCES)], "typeCheckingMode": "standard"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        told = json.loads(done.stdout)
    except (json.JSONDecodeError, subprocess.TimeoutExpired):
        pytest.skip("pyright needs node, and fetches itself with npm the first time it runs")
    errors = [each for each in told["generalDiagnostics"] if each["severity"] == "error"]
    assert {each["range"]["start"]["line"] + 1 for each in errors} == WRONG, errors
