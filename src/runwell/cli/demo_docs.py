"""The documentation that the demo's agent searches."""

from __future__ import annotations

import re
from functools import cache
from importlib import metadata
from pathlib import Path

from runwell import errors
from runwell.errors import RunwellError

__all__ = ["search"]

LONGEST = 700


@cache
def passages() -> list[str]:
    """README and docs/ of the checkout, in passages under their headings.

    An installed package has its README, and what its errors say of themselves.
    """
    root = Path(__file__).resolve().parents[3]
    if (root / "docs" / "errors.md").is_file() and (root / "pyproject.toml").is_file():
        files = [root / "README.md", *sorted((root / "docs").glob("**/*.md"))]
        texts = [path.read_text(encoding="utf-8") for path in files]
    else:
        texts = [metadata.metadata("runwell")["Description"], *_errors()]
    return [passage for text in texts for passage in _cut(text)]


def _errors() -> list[str]:
    classes = (each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, RunwellError))
    return [f"# {each.code}: {each.__name__}\n\n{each.__doc__}" for each in dict.fromkeys(classes)]


def _cut(text: str) -> list[str]:
    heading, found = "", []
    for block in re.split(r"\n\s*\n", text):
        block = block.strip()
        if block.startswith("#"):
            heading = block.splitlines()[0].lstrip("# ").strip()
            block = "\n".join(block.splitlines()[1:]).strip()
        if len(block) > 40:
            found.append(f"{heading}: {block}"[:LONGEST])
    return found


@cache
def _index() -> object:
    import bm25s

    index = bm25s.BM25()
    index.index(bm25s.tokenize(passages(), show_progress=False), show_progress=False)
    return index


def search(query: str, k: int = 1) -> list[str]:
    """The passages that fit best, by BM25."""
    import bm25s

    found, _ = _index().retrieve(bm25s.tokenize(query, show_progress=False), k=k, show_progress=False)  # type: ignore[attr-defined]
    return [passages()[int(place)] for place in found[0]]
