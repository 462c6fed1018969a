"""`runwell demo`: the real one, and one that cannot come out right."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from runwell.cli import demo_docs
from runwell.errors import ToolError
from runwell.tools.kits.arithmetic import evaluate


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.timeout(600)
def test_the_demo(environment: dict[str, str]) -> None:
    """On the bundled model, out of the machine's own cache."""
    import os
    import subprocess
    import sys

    own = {**os.environ, "PYTHONPATH": environment["PYTHONPATH"]}
    command = [sys.executable, "-c", "from runwell.cli.main import main; main()", "demo", "--json"]
    done = subprocess.run(
        command, env=own, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["ok"]
    assert told["failed"] is None
    assert told["tool_calls"] == 6
    assert told["tokens"] > 500
    trace = [json.loads(line) for line in Path(told["trace"]).read_text().splitlines()]
    assert len(trace) > 20
    assert "calculator" in json.dumps(trace)
    with sqlite3.connect(told["threads"]) as threads:
        [[kept]] = threads.execute("SELECT count(DISTINCT thread) FROM runwell_threads")
    assert kept == 5
    for step in ("calculator", "search_docs", "current_time", "waits: may save_note", "kill -9", "23 * 47"):
        assert step in done.stderr


def test_a_demo_that_goes_wrong_fails(runwell: Any, folder: Path) -> None:
    """The scripted model calls no tools: the first check notices, and says what was to happen."""
    done = runwell("demo", "--model", "scripted:any", "--json", TMPDIR=str(folder))
    assert done.status == 1
    told = done.json
    assert not told["ok"]
    assert "was to be answered with 'calculator'" in told["failed"]
    assert Path(told["trace"]).is_file()
    shown = runwell("demo", "--model", "scripted:any", TMPDIR=str(folder))
    assert shown.status == 1
    assert "The demo failed" in shown.err
    assert "Traceback" not in shown.err


@pytest.mark.parametrize("model", ["nobody:knows", "local:nothing", "openai:gpt-5.5"])
def test_a_model_that_cannot_be(runwell: Any, folder: Path, model: str) -> None:
    done = runwell("demo", "--model", model, "--json", TMPDIR=str(folder))
    assert done.status == 1
    assert not done.json["ok"]
    assert "RW1" in done.json["failed"]
    assert "Traceback" not in done.err


# -- its tools


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("23 * 47", 1081),
        ("2^10", 1024),
        ("1,000 ÷ 4", 250),
        ("-(3 - 5) × 2", 4),
        ("sqrt(16) + abs(-1)", 5),
        ("7//2%2", 1),
    ],
)
def test_the_calculator(expression: str, value: float) -> None:
    assert evaluate(expression) == value


@pytest.mark.parametrize(
    "expression",
    ["", "1/0", "9**9**9", "10**1000**2", "(-1)**0.5", "1e308*10", "__import__('os')", "x", "'a'*3", "True", "sqrt()",
     "9" * 10_000, "(" * 500, "sqrt(1, 2)", "round(1, 2, 3)", "[1][0]", "2**1000**2", "(2**1000)**1000"],
)  # fmt: skip
def test_the_calculator_tells_the_model_what_it_cannot_do(expression: str) -> None:
    with pytest.raises(ToolError):
        evaluate(expression)


def test_the_docs_are_searched() -> None:
    [found] = demo_docs.search("error RW701")
    assert "budget" in found.lower()


def test_an_installed_package_finds_its_errors_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where there is no checkout with docs/."""
    monkeypatch.setattr(demo_docs, "__file__", str(tmp_path / "a" / "b" / "c" / "demo_docs.py"))
    monkeypatch.setattr(demo_docs, "passages", demo_docs.passages.__wrapped__)
    passages = demo_docs.passages()
    assert any(passage.startswith("RW701") and "budget" in passage for passage in passages)
