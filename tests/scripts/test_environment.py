"""`make` on a machine that lacks something: one sentence that says what, and what to do; nothing half-made.

Stub interpreters stand in for the machine: small shell programs that answer as an old, a bare or a failing Python does.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "environment.sh"

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("make") is None, reason="needs a POSIX machine with make"),
]

TOOLS = ("sh", "grep", "tail", "touch", "rm", "cat", "ls", "df")


@pytest.fixture
def bare_path(tmp_path: Path) -> Path:
    """A folder for PATH with a shell's basic tools and no Python at all."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None
        (folder / tool).symlink_to(found)
    return folder


def stub(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def run(bin_folder: Path, target: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(SCRIPT), str(target), *arguments],
        env={"PATH": str(bin_folder), **more},
        capture_output=True,
        text=True,
        check=False,
    )


def test_no_python(bare_path: Path, tmp_path: Path) -> None:
    done = run(bare_path, tmp_path / "env")
    assert done.returncode == 1
    assert "no Python >= 3.11 was found" in done.stderr
    assert "apt-get install python3" in done.stderr
    assert not (tmp_path / "env").exists()


def test_python_too_old(bare_path: Path, tmp_path: Path) -> None:
    stub(bare_path / "python3", '[ "$1" = --version ] && echo "Python 3.9.2" && exit 0; exit 1')
    done = run(bare_path, tmp_path / "env")
    assert done.returncode == 1
    assert "Seen: python3 is Python 3.9.2." in done.stderr


def test_a_shim_that_cannot_run_is_passed_over(bare_path: Path, tmp_path: Path) -> None:
    stub(bare_path / "python3.13", 'echo "no such version" >&2; exit 127')
    stub(bare_path / "python3", 'case "$2" in *ensurepip*) exit 1;; *"%d.%d"*) echo 3.12;; esac; exit 0')
    done = run(bare_path, tmp_path / "env")
    assert "error: python3 has no venv module" in done.stderr


def test_the_named_python_does_not_fit(bare_path: Path, tmp_path: Path) -> None:
    old = stub(tmp_path / "old" / "python", '[ "$1" = --version ] && echo "Python 3.8.1" && exit 0; exit 1')
    done = run(bare_path, tmp_path / "env", PYTHON=str(old))
    assert done.returncode == 1
    assert f"PYTHON={old} is not a Python >= 3.11" in done.stderr
    assert "Python 3.8.1" in done.stderr


def test_no_venv_module_names_the_package(bare_path: Path, tmp_path: Path) -> None:
    stub(bare_path / "python3", 'case "$2" in *ensurepip*) exit 1;; *"%d.%d"*) echo 3.11;; esac; exit 0')
    done = run(bare_path, tmp_path / "env")
    assert done.returncode == 1
    assert "sudo apt-get install python3-venv" in done.stderr
    assert "python3.11-venv" in done.stderr
    assert not (tmp_path / "env").exists()


@pytest.mark.parametrize(
    ("log", "says"),
    [
        ("urllib3.exceptions.NewConnectionError: refused", "the package registry was not reached"),
        ("Temporary failure in name resolution", "PIP_INDEX_URL="),
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        ("error: command '/usr/bin/gcc' failed: No such file or directory: 'gcc'", "build-essential"),
        ("ERROR: No matching distribution found for xllamacpp==1", "No matching distribution found for xllamacpp==1"),
        ("something nobody thought of", "pip.log"),
    ],
)
def test_a_failed_installation_is_explained(bare_path: Path, tmp_path: Path, log: str, says: str) -> None:
    written = f'cat > "$each" <<"END"\n{log}\nEND\nexit 1'
    stub(
        tmp_path / "env" / "bin" / "python",
        f'for each in "$@"; do case "$each" in */pip.log) {written};; esac; done; exit 0',
    )
    done = run(bare_path, tmp_path / "env", "-e", ".[all]")
    assert done.returncode == 1
    assert says in done.stderr
    assert "error:" in done.stderr


def make(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(["make", *arguments], cwd=folder, env=clean, capture_output=True, text=True, check=False)


def test_make_alone_prints_every_target() -> None:
    shown = make().stdout
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^\.PHONY: (\S+)$", text, re.M)
    assert {"bench", "clean", "demo", "docs", "install", "lint", "test"} <= set(targets)
    assert [name for name in targets if not re.search(rf"^  {name} +\S", shown, re.M)] == []


def test_a_failed_installation_is_not_taken_for_done_and_a_done_one_is_not_repeated(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "scripts").mkdir()
    failing = 'echo "called $*" >> calls; mkdir -p .venv; exit 1'
    script = stub(tmp_path / "scripts" / "environment.sh", failing)
    assert make("install", folder=tmp_path).returncode != 0
    stub(script, failing.replace("exit 1", "exit 0"))
    assert make("install", folder=tmp_path).returncode == 0
    assert make("install", folder=tmp_path).returncode == 0
    calls = (tmp_path / "calls").read_text(encoding="utf-8").splitlines()
    assert len(calls) == 2
    assert calls[1] == "called .venv -e .[all] --group dev"


@pytest.mark.slow
@pytest.mark.integration
def test_an_unreachable_registry_is_named(tmp_path: Path) -> None:
    """The real interpreter, venv and pip, against a port of this machine where nothing listens."""
    done = subprocess.run(
        [str(SCRIPT), str(tmp_path / "env"), "no-such-package-here"],
        env={
            "PATH": os.environ["PATH"],
            "PYTHON": sys.executable,
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
            "PIP_RETRIES": "0",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "the package registry was not reached" in done.stderr
