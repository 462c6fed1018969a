"""Caches of results: what makes two calls the same, what is kept, and what never is."""

from __future__ import annotations

import asyncio
import math
import sqlite3
import threading
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwell.errors import InvalidConfig, StorageError, UnserializableType
from runwell.graph import START, CachePolicy, StateGraph
from runwell.messages import AIMessage, HumanMessage
from runwell.models import BaseChatModel, ChatGeneration, ChatResult
from runwell.persistence.caches import BaseCache, InMemoryCache, RedisCache, SqliteCache, cache_key
from runwell.testing.caches import CacheSuite
from runwell.testing.redis import RedisServer


class Size(Enum):
    S = 1


class Other(Enum):
    S = 1


@dataclass
class Box:
    size: Any


@dataclass
class Crate:
    size: Any


@pytest.fixture(params=["memory", "sqlite", "redis"])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    made: Any
    if request.param == "redis":
        made = RedisCache(request.getfixturevalue("redis_url"))
    else:
        made = InMemoryCache() if request.param == "memory" else SqliteCache(tmp_path / "cache.sqlite")
    with made:
        yield made


# -- keys


def test_graph_10_arrays_of_equal_bytes_and_different_types_are_two_keys(cache: Any) -> None:
    runs: list[Any] = []

    def total(arr: Any) -> int:
        key = (("total",), cache_key(arr=arr))
        found = cache.get([key])
        if key in found:
            return int(found[key])
        runs.append(arr)
        result = int(sum(arr.tolist()))
        cache.set({key: (result, None)})
        return result

    numpy = pytest.importorskip("numpy")
    for unsigned, signed in (
        (array("B", [200]), array("b", [-56])),
        (numpy.array([200], dtype="u1"), numpy.array([-56], dtype="i1")),
    ):
        runs.clear()
        assert [total(unsigned), total(signed), total(unsigned), total(signed)] == [200, -56, 200, -56]
        assert len(runs) == 2


def test_graph_10_whatever_differs_makes_another_key() -> None:
    numpy = pytest.importorskip("numpy")
    values = [
        *(1, True, 1.0, "1", b"1", None, 1 + 0j, "", b"", 0.0, -0.0, math.inf),
        *([1], (1,), {1}, frozenset({1}), {1: 1}, {"1": 1}, [[1]], [1, 1], ["dict", "unordered", []]),
        *(("dict", "unordered", []), {}, [], (), set(), ([],), ((),)),
        *(Size.S, Other.S, Box(1), Box(1.0), Crate(1), Box(Size.S), Box([1]), Box((1,))),
        *(HumanMessage("x", id="1"), HumanMessage("x", id="2"), AIMessage("x", id="1"), {"content": "x"}),
        *(numpy.zeros(2), numpy.zeros((2, 1)), numpy.zeros(2, dtype="f4"), numpy.float64(0), bytearray(b"1")),
    ]
    keys = [cache_key(value) for value in values]
    assert len(set(keys)) == len(values)
    assert len({cache_key(), cache_key(None), cache_key(x=None), cache_key(y=None), cache_key({"x": None})}) == 5
    assert cache_key(1, 2) != cache_key([1, 2])
    assert [cache_key(value) for value in values] == keys


def test_the_order_of_entries_makes_no_difference() -> None:
    assert cache_key(a=1, b={"x": {3, 1, 2}, "y": 2}) == cache_key(b={"y": 2, "x": {2, 3, 1}}, a=1)
    assert cache_key({"a": 1, 2: "b"}) == cache_key({2: "b", "a": 1})
    assert cache_key([1, 2]) != cache_key([2, 1])


@given(
    st.recursive(
        st.one_of(st.integers(), st.text(), st.booleans()), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_equal_values_have_equal_keys(value: Any) -> None:
    import copy

    assert cache_key(value) == cache_key(copy.deepcopy(value))


def test_what_cannot_be_told_apart_has_no_key() -> None:
    with pytest.raises(UnserializableType, match="lock") as caught:
        cache_key(1, config={"lock": threading.Lock()})
    assert "config['lock']" in str(caught.value) or "config.lock" in str(caught.value) or "config" in str(caught.value)
    assert "key_func" in str(caught.value)
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(UnserializableType):
        cache_key(loop)


# -- results


def test_it_is_what_a_graph_takes(cache: Any) -> None:
    assert isinstance(cache, BaseCache)


class TestInMemoryCache(CacheSuite):
    def make_cache(self, **settings: Any) -> InMemoryCache:
        return InMemoryCache(**settings)


class TestSqliteCache(CacheSuite):
    @pytest.fixture(autouse=True)
    def _files(self, tmp_path: Path) -> Iterator[None]:
        self.folder, self.caches = tmp_path, list[SqliteCache]()
        yield
        for cache in self.caches:
            cache.close()

    def make_cache(self, **settings: Any) -> SqliteCache:
        self.caches.append(SqliteCache(self.folder / f"{len(self.caches)}.sqlite", **settings))
        return self.caches[-1]

    def another_on_the_same_storage(self, cache: Any) -> SqliteCache:
        self.caches.append(SqliteCache(cache.file.path))
        return self.caches[-1]


class TestRedisCache(CacheSuite):
    @pytest.fixture(autouse=True)
    def _server(self, redis_server: RedisServer) -> Iterator[None]:
        self.server, self.caches, self.urls = redis_server, list[RedisCache](), dict[Any, str]()
        yield
        for cache in self.caches:
            cache.close()

    def make_cache(self, **settings: Any) -> RedisCache:
        return self.opened(self.server.new_database(), **settings)

    def opened(self, url: str, **settings: Any) -> RedisCache:
        cache = RedisCache(url, **settings)
        self.caches.append(cache)
        self.urls[cache] = url
        return cache

    def another_on_the_same_storage(self, cache: Any) -> RedisCache:
        return self.opened(self.urls[cache])


def test_redis_keeps_other_programs_keys_and_will_forget_what_expires_by_itself(redis_url: str) -> None:
    from redis import Redis

    with Redis.from_url(redis_url) as client, RedisCache(client, prefix="mine:") as cache:
        client.set("theirs", "1")
        cache.set({(("n",), f"{n}"): (n, None) for n in range(1200)})
        cache.set({(("n",), "short"): ("x", 60)})
        lives = {key: client.pttl(key) for key in client.keys("mine:*short")}
        assert len(lives) == 1
        assert 0 < next(iter(lives.values())) <= 60_000
        cache.clear([("n",)])
        assert client.keys() == [b"theirs"]
        cache.close()
        assert client.ping()  # a client that was given stays open


def test_a_redis_server_that_is_not_there_is_worth_a_retry_and_its_password_is_not_shown(tmp_path: Path) -> None:
    with (
        RedisCache(f"unix://:secret@{tmp_path}/none") as cache,
        pytest.raises(StorageError, match="reachable") as raised,
    ):
        cache.get([(("n",), "k")])
    assert raised.value.retryable
    assert "secret" not in str(raised.value)
    for bad in ("secret@nowhere", 3):
        with pytest.raises(InvalidConfig) as refused:
            RedisCache(bad)  # type: ignore[arg-type]
        assert "secret" not in str(refused.value)


def test_redis_cut_off_and_started_again_goes_on(redis_server: RedisServer, redis_url: str) -> None:
    key = (("n",), "k")
    with RedisCache(redis_url) as cache:
        cache.set({key: (1, None)})
        redis_server.stop()
        redis_server.start()
        assert cache.get([key]) == {key: 1}


def test_ckpt_09_pickled_bytes_in_the_file_are_never_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    marker = tmp_path / "marker"
    evil = b"cos\nsystem\n(S'touch " + str(marker).encode() + b"'\ntR."
    key = (("node",), "k")
    with SqliteCache(tmp_path / "cache.sqlite") as cache:
        cache.set({key: (1, None)})
        cache.file.rows("UPDATE runwell_cache SET value = ?", evil)
        assert cache.get([key]) == {}
        assert "forgotten" in caplog.text
        assert cache.file.rows("SELECT count(*) FROM runwell_cache") == [(0,)]
    assert not marker.exists()


def test_the_results_kept_longest_go_first(tmp_path: Path) -> None:
    keys = [(("n",), f"{n}") for n in range(6)]
    for cache in (InMemoryCache(maxsize=3), SqliteCache(tmp_path / "c", maxsize=3)):
        with cache:
            for n, key in enumerate(keys[:4]):
                cache.set({key: (n, None)})
            cache.set({keys[1]: (10, None)})
            cache.set({keys[4]: (4, None), keys[5]: (5, None)})
            assert cache.get(keys) == {keys[1]: 10, keys[4]: 4, keys[5]: 5}
    with pytest.raises(InvalidConfig):
        InMemoryCache(maxsize=0)


def test_a_file_serves_several_processes_and_lasts(tmp_path: Path) -> None:
    key = (("n",), "k")
    with SqliteCache(tmp_path / "c") as one, SqliteCache(tmp_path / "c") as two:
        one.set({key: (1, None)})
        assert two.get([key]) == {key: 1}
    with SqliteCache(tmp_path / "c") as again:
        assert again.get([key]) == {key: 1}
    tables = sqlite3.connect(tmp_path / "c").execute("SELECT name FROM sqlite_master WHERE name LIKE 'runwell%'")
    assert ("runwell_cache",) in tables.fetchall()


# -- nodes


class Sum(TypedDict):
    terms: list[int]
    total: int


def test_a_node_runs_once_for_equal_state_on_every_cache_in_both_colours(cache: Any) -> None:
    ran: list[list[int]] = []

    def add(state: Sum) -> Any:
        ran.append(state["terms"])
        return {"total": sum(state["terms"])}

    builder = StateGraph(Sum).add_node("add", add, cache_policy=CachePolicy(ttl=60)).add_edge(START, "add")
    graph = builder.compile(cache=cache)
    assert graph.invoke({"terms": [1, 2]})["total"] == 3
    assert asyncio.run(graph.ainvoke({"terms": [1, 2]}))["total"] == 3
    assert graph.invoke({"terms": [1, 3]})["total"] == 4
    assert ran == [[1, 2], [1, 3]]


def test_a_node_whose_redis_is_down_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with RedisCache(f"unix://{tmp_path}/none") as cache:
        builder = StateGraph(Sum).add_node("add", lambda state: {"total": 3}, cache_policy=CachePolicy())
        assert builder.add_edge(START, "add").compile(cache=cache).invoke({"terms": [1, 2]})["total"] == 3
    assert "the node runs" in caplog.text


# -- models


class Counting(BaseChatModel):
    calls: ClassVar[list[str]] = []

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        self.calls.append(messages[-1].text)
        return ChatResult(generations=[ChatGeneration(AIMessage(f"answer {len(self.calls)}"))])


def test_a_model_answers_the_same_question_from_the_cache(cache: Any) -> None:
    Counting.calls.clear()
    model = Counting(cache=cache)
    assert model.invoke("hi").text == "answer 1"
    assert model.invoke("hi").text == "answer 1"
    assert model.invoke("ho").text == "answer 2"
    assert asyncio.run(model.ainvoke("hi")).text == "answer 1"
    assert Counting.calls == ["hi", "ho"]
    cache.update("ab", "c", ["x"])
    assert cache.lookup("a", "bc") is None
    cache.clear()
    assert model.invoke("hi").text == "answer 3"
