"""Rooms stand on floors: imports point down, nothing goes in a circle, and a room is built from defining modules."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "runwell"
MODULES = sorted(SOURCE.rglob("*.py"))


def imported(path: Path) -> Iterator[tuple[int, str, str]]:
    """(line, module, name) for every import statement of a file; `name` is empty for `import module`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((node.lineno, node.module or "", alias.name) for alias in node.names)


def test_the_walk_finds_the_package() -> None:
    assert len(MODULES) > 5


def test_imports_point_down() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command; lint_imports_command()",
            "--no-logo",
        ],
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_module_imports_the_facade(path: Path) -> None:
    """`from runwell import X` inside the package would load rooms by the back door; the version is the exception."""
    if path == SOURCE / "__init__.py":
        return
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for line, module, name in imported(path)
        if module == "runwell" and name != "__version__" and not (SOURCE / name).is_dir() and name != "errors"
    ]
    assert not found, "import from the defining module instead: " + ", ".join(found)


def test_no_file_is_a_drawer_for_everything() -> None:
    drawers = {"utils.py", "util.py", "helpers.py", "misc.py", "common.py"}
    assert not [str(path) for path in MODULES if path.name in drawers]
