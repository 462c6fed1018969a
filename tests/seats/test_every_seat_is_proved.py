"""Every seat has a test that proves what is said of it, found by the seat's id in a test's name or docstring.

The list below names those that have none yet, and why. It only ever gets shorter.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from runwell.seats import SEATS

TESTS = Path(__file__).resolve().parents[1]
ABOUT_THE_MAP = {"test_map.py", "test_every_seat_is_proved.py"}
IN_A_NAME = re.compile(r"(?<![a-z0-9])([a-i]\d{1,2})(?![a-z0-9])")
IN_WORDS = re.compile(r"\b([A-I]\d{1,2})\b")

UNPROVED: dict[str, str] = {}
AT_MOST = 0
"""How long the list may be. Lower it with every seat that leaves."""


@cache
def proofs() -> dict[str, list[str]]:
    """Seat id → the tests that name it."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        if path.name in ABOUT_THE_MAP:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                named = {hit.upper() for hit in IN_A_NAME.findall(node.name.replace("_", " "))}
                for seat in named | set(IN_WORDS.findall(ast.get_docstring(node) or "")):
                    found.setdefault(seat, []).append(f"{path.relative_to(TESTS)}::{node.name}")
    return found


@pytest.mark.parametrize("seat", SEATS)
def test_a_seat_has_a_test_or_a_reason(seat: str) -> None:
    tests = proofs().get(seat, [])
    if seat in UNPROVED:
        assert not tests, f"{seat} is proved by {tests}: take it off the list, and lower AT_MOST"
    else:
        assert tests, f"no test names {seat}: {SEATS[seat].question}"


def test_the_list_only_gets_shorter() -> None:
    assert len(UNPROVED) <= AT_MOST == 0
    assert set(UNPROVED) <= set(SEATS)
    assert all(UNPROVED.values())


def test_no_test_names_a_seat_that_is_not_there() -> None:
    assert {seat: tests for seat, tests in proofs().items() if seat not in SEATS} == {}
