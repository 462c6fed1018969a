"""The benchmark's own cells run for the floor and for runwell, on inputs shrunk to almost nothing.

Workloads check the answers, so this also keeps the adapter from being fast by doing less.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_every_cell_runs_or_says_it_is_not_covered(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    command = [sys.executable, str(BENCHMARKS / "bench.py"), "--frameworks", "raw,runwell", "--repeats", "1"]
    done = subprocess.run(
        [*command, "--scale", "0.004", "--json", str(results)],
        env={**os.environ, "BENCH_ADAPTERS": str(BENCHMARKS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    measured = json.loads(results.read_text(encoding="utf-8"))
    assert measured["left_out"] == {}
    assert len(measured["results"]["raw"]) > 50
    ours = measured["results"]["runwell"]
    for cell in ("chain.invoke", "agent.step_stored_in_sqlite", "conversation.200_turns", "graph.fan_out_1000"):
        assert cell in ours
