"""Both savers pass the suite that every saver must pass."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runwell.persistence import InMemorySaver, PostgresSaver, SqliteSaver
from runwell.ports.saver import CheckpointSaver
from runwell.testing.postgres import PostgresServer
from runwell.testing.saver_threads import SaverThreadsSuite
from runwell.testing.savers import CheckpointSaverSuite


class TestInMemorySaver(CheckpointSaverSuite, SaverThreadsSuite):
    def make_saver(self, **settings: Any) -> InMemorySaver:
        return InMemorySaver(**settings)


class OnSqlite(CheckpointSaverSuite, SaverThreadsSuite):
    savers: list[SqliteSaver]
    folder: Path

    @pytest.fixture(autouse=True)
    def _files(self, tmp_path: Path) -> Iterator[None]:
        self.folder, self.savers = tmp_path, []
        yield
        for saver in self.savers:
            saver.close()

    def opened(self, path: Any, **settings: Any) -> SqliteSaver:
        self.savers.append(SqliteSaver(path, **settings))
        return self.savers[-1]


class TestSqliteSaver(OnSqlite):
    def make_saver(self, **settings: Any) -> SqliteSaver:
        return self.opened(self.folder / f"{len(self.savers)}.sqlite", **settings)

    def another_on_the_same_storage(self, saver: CheckpointSaver) -> SqliteSaver:
        assert isinstance(saver, SqliteSaver)
        return self.opened(saver.path)


class TestSqliteSaverInMemory(OnSqlite):
    def make_saver(self, **settings: Any) -> SqliteSaver:
        return self.opened(":memory:", **settings)


@pytest.mark.integration
class TestPostgresSaver(CheckpointSaverSuite, SaverThreadsSuite):
    savers: list[PostgresSaver]
    urls: dict[PostgresSaver, str]
    server: PostgresServer

    @pytest.fixture(autouse=True)
    def _server(self, postgres_server: PostgresServer) -> Iterator[None]:
        self.server, self.savers, self.urls = postgres_server, [], {}
        yield
        for saver in self.savers:
            saver.close()

    def opened(self, url: str, **settings: Any) -> PostgresSaver:
        saver = PostgresSaver(url, **settings)
        self.savers.append(saver)
        self.urls[saver] = url
        return saver

    def make_saver(self, **settings: Any) -> PostgresSaver:
        return self.opened(self.server.new_schema(), **settings)

    def another_on_the_same_storage(self, saver: CheckpointSaver) -> PostgresSaver:
        assert isinstance(saver, PostgresSaver)
        return self.opened(self.urls[saver])


@pytest.mark.parametrize("saver", [InMemorySaver, lambda: SqliteSaver(":memory:")])
def test_a_saver_is_the_port(saver: Any) -> None:
    with saver() as made:
        assert isinstance(made, CheckpointSaver)
