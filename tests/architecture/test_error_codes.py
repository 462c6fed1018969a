"""Every error has its own code, its line in the drawing, and its place on the page of errors."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from runwell import errors

ROOT = Path(__file__).resolve().parents[2]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("error_pages", ROOT / "scripts" / "error_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CLASSES = generator().error_classes()


def test_the_walk_finds_the_tree() -> None:
    assert errors.RunwellError in CLASSES
    assert len(CLASSES) > 30


def test_codes_are_unique() -> None:
    codes = [each.code for each in CLASSES]
    assert len(codes) == len(set(codes)), sorted(code for code in codes if codes.count(code) > 1)


@pytest.mark.parametrize("each", CLASSES, ids=lambda each: each.__name__)
def test_a_class_has_its_own_code_words_and_export(each: type[errors.RunwellError]) -> None:
    assert re.fullmatch(r"RW\d{3}", vars(each).get("code", "")), "give the class its own code"
    assert vars(each).get("__doc__"), "say what it means"
    assert each is errors.RunwellError or each.__name__ in errors.__all__
    assert re.search(rf"\b{each.__name__}\b", errors.__doc__ or ""), "draw it in the tree at the top of errors.py"


def test_the_page_says_what_the_classes_say() -> None:
    written = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert written == generator().page(), "run: make docs"


def test_codes_are_given_in_one_file() -> None:
    elsewhere = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "src").rglob("*.py")
        if path.name != "errors.py" and re.search(r"^\s+code\b.*=\s*[\"']RW\d", path.read_text(encoding="utf-8"), re.M)
    ]
    assert not elsewhere


def test_signals_pass_through_except_exception() -> None:
    signals = [errors.GraphInterrupt, errors.ParentCommand, errors.StreamClosed, errors.RunCancelled]
    assert not [each for each in signals if issubclass(each, Exception)]


def test_an_error_shows_what_its_code_and_what_to_do_next() -> None:
    shown = str(errors.InvalidInput("there is no key 'nmae'", hint="write name=..."))
    assert shown == "there is no key 'nmae' [RW101]\n  write name=..."
    assert str(errors.MissingExtra("The local model", "local")).endswith('pip install "runwell[local]"')
