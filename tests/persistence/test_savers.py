"""Both savers pass the suite that every saver must pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runwell.persistence import InMemorySaver, SqliteSaver
from runwell.ports.saver import CheckpointSaver
from runwell.testing.savers import CheckpointSaverSuite


class TestInMemorySaver(CheckpointSaverSuite):
    def make_saver(self, *, allow: Iterable[type] = ()) -> InMemorySaver:
        return InMemorySaver(allow=allow)


class OnSqlite(CheckpointSaverSuite):
    savers: list[SqliteSaver]
    folder: Path

    @pytest.fixture(autouse=True)
    def _files(self, tmp_path: Path) -> Iterator[None]:
        self.folder, self.savers = tmp_path, []
        yield
        for saver in self.savers:
            saver.close()

    def opened(self, path: Any, allow: Iterable[type] = ()) -> SqliteSaver:
        self.savers.append(SqliteSaver(path, allow=allow))
        return self.savers[-1]


class TestSqliteSaver(OnSqlite):
    def make_saver(self, *, allow: Iterable[type] = ()) -> SqliteSaver:
        return self.opened(self.folder / f"{len(self.savers)}.sqlite", allow)

    def another_on_the_same_storage(self, saver: CheckpointSaver) -> SqliteSaver:
        assert isinstance(saver, SqliteSaver)
        return self.opened(saver.path)


class TestSqliteSaverInMemory(OnSqlite):
    def make_saver(self, *, allow: Iterable[type] = ()) -> SqliteSaver:
        return self.opened(":memory:", allow)


@pytest.mark.parametrize("saver", [InMemorySaver, lambda: SqliteSaver(":memory:")])
def test_a_saver_is_the_port(saver: Any) -> None:
    with saver() as made:
        assert isinstance(made, CheckpointSaver)
