"""Where the command starts: help, statuses, missing parts, output that nobody reads any more."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

WITHOUT = """
import sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in {missing!r} else self.finder.find_spec(name, path, target)

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
sys.argv = ["runwell", *{arguments!r}]
from runwell.cli.main import main
main()
"""


def without(packages: list[str], arguments: list[str], environment: dict[str, str]) -> Any:
    """The command on a machine where these packages are not installed."""
    source = WITHOUT.format(missing=packages, arguments=arguments)
    return subprocess.run(
        [sys.executable, "-c", source], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_without_the_extra_it_says_what_to_install(package: str, environment: dict[str, str]) -> None:
    done = without([package], ["chat"], environment)
    assert done.returncode == 1
    assert package in done.stderr
    assert 'pip install "runwell[cli]"' in done.stderr
    assert "Traceback" not in done.stderr


def test_the_demo_names_every_missing_extra_before_it_begins(environment: dict[str, str], folder: Path) -> None:
    done = without(["xllamacpp", "bm25s"], ["demo"], {**environment, "TMPDIR": str(folder)})
    assert done.returncode == 1
    assert 'pip install "runwell[local,retrieval]"' in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert not list(folder.glob("runwell-demo-*"))


def test_the_module_is_the_command(environment: dict[str, str], folder: Path) -> None:
    command = [sys.executable, "-m", "runwell", "run", "nothing:graph", "--input", "{}"]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "There is no module 'nothing'" in done.stderr


@pytest.mark.parametrize("command", [["chat"], ["models", "serve"]])
def test_a_local_model_needs_its_extra(command: list[str], environment: dict[str, str]) -> None:
    done = without(["xllamacpp"], command, environment)
    assert done.returncode == 1
    assert 'pip install "runwell[local]"' in done.stderr


def test_a_chat_without_the_line_editor_works(environment: dict[str, str], folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(missing=["prompt_toolkit"], arguments=["chat", "--model", "scripted:a"])],
        env=environment,
        input="hello\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert "1 said: hello" in done.stdout


def test_version_and_help(runwell: Any) -> None:
    from runwell import __version__

    assert runwell("--version").out == f"runwell {__version__}\n"
    shown = runwell("--help").out
    for command in ("chat", "run", "demo", "doctor", "models"):
        assert command in shown


@pytest.mark.parametrize("arguments", [["nonsense"], ["chat", "--modell", "x"], ["models", "serve", "--port", "70000"]])
def test_a_command_line_that_makes_no_sense_is_status_2(runwell: Any, arguments: list[str]) -> None:
    done = runwell(*arguments)
    assert done.status == 2
    assert "Traceback" not in done.err


def test_output_that_nobody_reads(environment: dict[str, str], folder: Path) -> None:
    command = f"{sys.executable} -c 'from runwell.cli.main import main; main()' doctor --json | true"
    done = subprocess.run(
        command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cli_page", ROOT / "scripts" / "cli_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_says_what_the_command_says() -> None:
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == generator().page(), "run: make docs"
