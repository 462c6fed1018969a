"""The public names are what they say they are."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import runwell

ROOT = Path(__file__).resolve().parents[2]
TREE = ast.parse(Path(runwell.__file__).read_text(encoding="utf-8"))


def module_names() -> list[str]:
    return ["runwell", *sorted(module.name for module in pkgutil.walk_packages(runwell.__path__, "runwell."))]


def test_every_promised_name_has_a_home_and_every_home_is_promised() -> None:
    assert sorted(runwell.__all__) == sorted(runwell._HOME)
    assert len(runwell.__all__) == len(set(runwell.__all__))


def test_type_checkers_see_the_same_homes() -> None:
    seen = {
        alias.name: (node.module or "").removeprefix("runwell.")
        for branch in TREE.body
        if isinstance(branch, ast.If)
        for node in branch.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == runwell._HOME


@pytest.mark.parametrize("name", runwell.__all__)
def test_a_facade_name_is_the_room_s_own(name: str) -> None:
    room = importlib.import_module(f"runwell.{runwell._HOME[name]}")
    assert getattr(runwell, name) is getattr(room, name)
    assert name in dir(runwell)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'creat_agent'"):
        runwell.creat_agent  # noqa: B018
    with pytest.raises(ImportError):
        from runwell import creat_agent  # noqa: F401


@pytest.mark.parametrize("name", module_names())
def test_all_equals_reality(name: str) -> None:
    module = importlib.import_module(name)
    promised = getattr(module, "__all__", [])
    assert len(promised) == len(set(promised)), "a name stands twice in __all__"
    missing = [each for each in promised if not hasattr(module, each)]
    assert not missing


def test_the_version_has_one_source() -> None:
    definition = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in definition["project"]["dynamic"]
    assert definition["tool"]["hatch"]["version"]["path"] == "src/runwell/__init__.py"
    assert runwell.__version__ == version("runwell")
    assert f"## {runwell.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
