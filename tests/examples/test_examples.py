"""Every example runs: on a scripted model, and (slowly) on the bundled one, as a reader would run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"

PROVIDER = """
from runwell.messages import AIMessage
from runwell.testing import FakeChatModel


def answer(messages):
    last = messages[-1]
    if last.type == "tool":
        return f"I was told: {last.text}"
    for word, name, args in (
        ("in stock", "stock", {"item": "screws"}),
        ("times", "multiply", {"a": 12, "b": 12}),
        ("urgent", "remind", {"what": "call Ann", "minutes": 10, "priority": "high"}),
        ("Delete", "delete_file", {"path": "/tmp/report.txt"}),
    ):
        if word in last.text:
            return AIMessage("", tool_calls=[{"name": name, "args": args, "id": "1", "type": "tool_call"}])
    return last.text.upper()


def Scripted(model, **settings):
    return FakeChatModel([answer], cycle=True)
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Where a provider called `scripted` is installed, beside what is installed anyway."""
    (tmp_path / "scripted_provider.py").write_text(PROVIDER)
    info = tmp_path / "scripted-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: scripted\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[runwell.providers]\nscripted = scripted_provider:Scripted\n")
    path = os.pathsep.join([str(ROOT / "src"), str(tmp_path)])
    return {**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "1"}


def run(name: str, *arguments: str, folder: Path, environment: dict[str, str], patience_s: float = 60) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=patience_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_list_is_complete() -> None:
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for path in EXAMPLES.glob("*.py"):
        assert f"[{path.name}]({path.name})" in listed
        assert path.name in Path(__file__).read_text(encoding="utf-8")


def test_chain(tmp_path: Path, environment: dict[str, str]) -> None:
    assert run("chain.py", "scripted:a", folder=tmp_path, environment=environment).splitlines() == [
        "WHAT IS A HAMMER USED FOR?",
        "- WHAT IS AN UMBRELLA USED FOR?",
        "- WHAT IS A LADDER USED FOR?",
    ]


def test_agent_with_tools(tmp_path: Path, environment: dict[str, str]) -> None:
    out = run("agent_with_tools.py", "scripted:a", folder=tmp_path, environment=environment)
    assert out == "→ stock({'item': 'screws'})\nI was told: 120 screws\n"


def test_tool_descriptions(tmp_path: Path, environment: dict[str, str]) -> None:
    out = run("tool_descriptions.py", "scripted:a", "2", folder=tmp_path, environment=environment).splitlines()
    half = " | ".join(["1 of 2"] * 4)
    assert out[2:5] == [f"| {name} | {half} |" for name in ("bare", "typed", "described")]
    assert out[5] == '{"what": {}, "minutes": {}, "priority": {}}'
    assert "An hour is 60" in out[7]


def test_approval(tmp_path: Path, environment: dict[str, str]) -> None:
    own = {**environment, "MODEL": "scripted:a"}
    question = "May delete_file({'path': '/tmp/report.txt'}) run?\n"
    assert run("approval.py", "ask", folder=tmp_path, environment=own) == question
    assert run("approval.py", "yes", folder=tmp_path, environment=own).splitlines() == [
        "tool: /tmp/report.txt is deleted",
        "ai: I was told: /tmp/report.txt is deleted",
    ]
    assert run("approval.py", "ask", folder=tmp_path, environment=own) == question
    assert "Not today" in run("approval.py", "no", "Not today", folder=tmp_path, environment=own)


def test_graph_with_interrupt(tmp_path: Path, environment: dict[str, str]) -> None:
    name = "graph_with_interrupt.py"
    drafted = run(name, "write", "the sea", folder=tmp_path, environment=environment)
    assert drafted == "An essay on the sea. What should change?\n"
    again = run(name, "answer", "shorter", folder=tmp_path, environment=environment)
    assert again == "An essay on the sea (shorter). What should change?\n"
    done = run(name, "answer", "ok", folder=tmp_path, environment=environment)
    assert done == "Done: An essay on the sea (shorter)\n"


def test_streaming(tmp_path: Path, environment: dict[str, str]) -> None:
    out = run("streaming.py", "scripted:a", folder=tmp_path, environment=environment)
    once = "\n[model is done]\n\n[tools is done]\nI was told: 144.0\n[model is done]\n"
    assert out == once * 2


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("chain.py", (), "- "),
        ("agent_with_tools.py", (), "120"),
        ("approval.py", ("ask",), "May delete_file("),
        ("streaming.py", (), "144"),
        ("tool_descriptions.py", ("local:qwen2.5-coder-0.5b", "1"), "| described | 1 of 1 | "),
    ],
)
def test_on_the_bundled_model(name: str, arguments: tuple[str, ...], told: str, tmp_path: Path) -> None:
    own = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1"}
    assert told in run(name, *arguments, folder=tmp_path, environment=own, patience_s=500)
