"""What is written here speaks of the project, and stands on the project's own files alone."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

NOWHERE = {
    "a path outside the repository": re.compile(r"\.\./shared\b|/work/(?:shared|main)\b|/root/"),
    "a name of a working paper": re.compile(r"\bthe brief\b|\bCASES\.md\b|\bSEATS\.md\b", re.I),
    "a secret": re.compile(r"\bsk-[A-Za-z0-9]{20,}|-----BEGIN [A-Z ]*PRIVATE KEY"),
}
NOT_IN_SOURCE = {
    "a note to do it later": re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b"),
    "a swallowed error": re.compile(r"except\s*:|except (?:Base)?Exception:\s*(?:pass|\.\.\.)\s*$", re.M),
    "unpickling": re.compile(r"\bpickle\.loads?\("),
}


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split("\0")
    if len(listed) < 2:  # not a checkout: the unpacked source archive
        return [path for folder in ("src", "tests", "docs") for path in (ROOT / folder).rglob("*.*") if path.is_file()]
    return [ROOT / name for name in listed if name and (ROOT / name).is_file()]


SUFFIXES = {".py", ".md", ".toml", ".sh", ".yaml", ".yml", ".txt", ""}
FILES = [path for path in tracked() if path.suffix in SUFFIXES and path != Path(__file__)]
SOURCE = sorted((ROOT / "src").rglob("*.py"))


def places(path: Path, pattern: re.Pattern[str]) -> list[str]:
    text = path.read_text(encoding="utf-8")
    return [f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, hit.start()) + 1}" for hit in pattern.finditer(text)]


def test_the_walk_finds_files() -> None:
    assert len(FILES) > 20
    assert len(SOURCE) > 5


@pytest.mark.parametrize("what", NOWHERE)
def test_no_file_has(what: str) -> None:
    assert not [place for path in FILES for place in places(path, NOWHERE[what])]


@pytest.mark.parametrize("what", NOT_IN_SOURCE)
def test_no_module_has(what: str) -> None:
    assert not [place for path in SOURCE for place in places(path, NOT_IN_SOURCE[what])]
