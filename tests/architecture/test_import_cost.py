"""What a program pays before its first line: no optional package, no event loop, little time and memory.

Each check runs in a fresh interpreter. Times are processor times and the least of several, so that a busy machine
does not decide.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
HEAVY = {"anyio", "asyncio", "httpx", "sqlite3", "tenacity"}
"""Part of a plain installation, and loaded by the call that needs it."""

PROBE = """
import json, sys, time
start = time.process_time()
{statement}
taken = time.process_time() - start
try:
    peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
except OSError:
    peak = None
print(json.dumps([taken * 1e3, peak and peak / 1024, sorted(sys.modules)]))
"""


@cache
def optional_modules() -> frozenset[str]:
    """Top-level modules that come only with an extra."""
    wanted = {canonicalize_name(Requirement(line).name) for lines in EXTRAS.values() for line in lines} - {"runwell"}
    installed = packages_distributions()
    found = {module for module, owners in installed.items() if wanted & {canonicalize_name(each) for each in owners}}
    return frozenset(found | {name.replace("-", "_") for name in wanted})


def probe(statement: str, *, times: int = 1) -> tuple[float, float | None, set[str]]:
    """(least milliseconds of processor time, least peak MiB or None, modules loaded)."""
    runs: list[Any] = [
        json.loads(
            subprocess.run(
                [sys.executable, "-I", "-c", PROBE.format(statement=statement)],
                capture_output=True,
                check=True,
                text=True,
            ).stdout
        )
        for _ in range(times)
    ]
    peaks = [run[1] for run in runs if run[1] is not None]
    return min(run[0] for run in runs), min(peaks, default=None), set(runs[-1][2])


def loaded_of(modules: set[str], unwanted: set[str] | frozenset[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules} & unwanted


def test_the_probe_sees_optional_packages() -> None:
    assert {"numpy", "openai", "typer", "xllamacpp"} <= optional_modules()
    assert "asyncio" in probe("import asyncio")[2]


def test_import_runwell_is_nearly_free() -> None:
    taken_ms, _, modules = probe("import runwell", times=5)
    assert taken_ms < 60
    assert not loaded_of(modules, optional_modules() | HEAVY | {"pydantic"})


def test_no_facade_name_loads_an_optional_package() -> None:
    _, _, modules = probe("import runwell; [getattr(runwell, name) for name in runwell.__all__]")
    assert not loaded_of(modules, optional_modules())


@pytest.mark.parametrize(
    "statement",
    [
        "from runwell import create_agent",
        "from runwell import StateGraph, interrupt",
        "from runwell import ChatPromptTemplate, StrOutputParser; from runwell.models import BaseChatModel",
        "from runwell import AIMessage, HumanMessage, tool; from runwell.messages import add_messages",
    ],
)
def test_what_programs_begin_with_is_cheap(statement: str) -> None:
    """A fourteenth of the time of LangChain's create_agent and a fifth of its memory, as `make bench` measures them.

    The limits here are wider, so that a slow machine passes and a heavy import does not.
    """
    taken_ms, peak_mib, modules = probe(statement, times=5)
    assert not loaded_of(modules, optional_modules() | HEAVY | {"pydantic", "pydantic_core"})
    assert taken_ms < 150
    if peak_mib is not None:
        assert peak_mib <= 24


def test_pydantic_comes_with_the_first_tool() -> None:
    """What the checks above keep away is there when it is needed, and nothing else comes along."""
    _, _, modules = probe(
        "from runwell import tool\n"
        "def add(a: int, b: int) -> int:\n    'Add.'\n    return a + b\n"
        "assert tool(add).invoke({'a': 1, 'b': 2}) == 3"
    )
    assert "pydantic" in modules
    assert not loaded_of(modules, optional_modules() | HEAVY)


BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
sys.meta_path.insert(0, Blocker())
{statement}
"""


@pytest.mark.parametrize("plugin", [False, True], ids=["rooms", "providers"])
def test_everything_imports_without_the_extras(plugin: bool) -> None:
    """A plain `pip install runwell`: every module loads; what needs an extra says so when used, not when imported.

    The modules behind the `runwell` command are the exception, since all of them need the extra `cli`.
    """
    statement = (
        "import pkgutil, importlib, runwell\n"
        "for module in pkgutil.walk_packages(runwell.__path__, 'runwell.'):\n"
        "    if module.name.startswith('runwell.cli.'): continue\n"
        f"    if module.name.startswith('runwell.providers') is {plugin}: importlib.import_module(module.name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", BLOCKED.format(blocked=set(optional_modules()), statement=statement)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_every_extra_that_an_error_names_is_declared() -> None:
    """`MissingExtra("...", "name")` must lead to a `pip install "runwell[name]"` that works."""
    named = {
        node.args[1].value
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", getattr(node.func, "attr", "")) == "MissingExtra"
        and len(node.args) > 1
        and isinstance(node.args[1], ast.Constant)
    }
    assert named
    assert named <= set(EXTRAS)


def test_every_dependency_is_explained() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    always = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| `")]
    names = {Requirement(line).name for line in PROJECT["dependencies"]}
    assert {name for name in names if f"`{name}`" not in always} == set()
    assert {extra for extra in EXTRAS if f"`{extra}`" not in page} == set()


def test_the_command_without_its_extra_names_the_extra() -> None:
    statement = "sys.argv = ['runwell', 'doctor']\nfrom runwell.cli.main import main\nsys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-I", "-c", BLOCKED.format(blocked=set(optional_modules()), statement=statement)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "runwell[cli]" in done.stderr
    assert "Traceback" not in done.stderr
