"""The page "Who decides what" is made from the catalogue."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from runwell.seats import SEATS

ROOT = Path(__file__).resolve().parents[2]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("seat_pages", ROOT / "scripts" / "seat_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_says_what_the_catalogue_says() -> None:
    written = (ROOT / "docs" / "agents" / "who-decides-what.md").read_text(encoding="utf-8")
    assert written == generator().page(), "run: make docs"


def test_every_seat_has_its_line_and_what_is_missing_is_said() -> None:
    text = generator().page()
    for each in SEATS.values():
        (line,) = [line for line in text.splitlines() if line.startswith(f"| {each.id} |")]
        assert each.question in line
        assert (each.lacks or "Not there yet") in line or not each.lacks
