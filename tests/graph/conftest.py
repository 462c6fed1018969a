"""Every test here runs in both colours: `run` calls the plain or the async form of the same method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runwell.persistence import PostgresSaver, SqliteSaver
from runwell.testing.colours import COLOURS


@pytest.fixture(params=COLOURS, ids=[colour.name for colour in COLOURS])
def run(request: pytest.FixtureRequest) -> Any:
    return request.param()


@pytest.fixture
def thread() -> dict[str, Any]:
    return {"configurable": {"thread_id": "t"}}


class Databases:
    """New databases of one kind."""

    def __init__(self, kind: str, request: pytest.FixtureRequest, folder: Path) -> None:
        self.kind, self.folder = kind, folder
        self.server = request.getfixturevalue("postgres_server") if kind == "postgres" else None

    def new(self, name: str) -> str:
        return self.server.new_schema() if self.server is not None else str(self.folder / f"{name}.db")

    def saver(self, database: str) -> Any:
        return SqliteSaver(database) if self.server is None else PostgresSaver(database)


@pytest.fixture(params=["sqlite", "postgres"])
def databases(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """`new(name)`, an empty database of one kind as programs are given it, and `saver(database)`."""
    return Databases(request.param, request, tmp_path)
