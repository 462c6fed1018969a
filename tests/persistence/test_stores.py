"""Every store passes the suite that every store must pass; and what is particular to one."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwell.errors import StorageError, UnserializableType, UsageError
from runwell.persistence.stores import AsyncBatchedBaseStore, InMemoryStore, PostgresStore, SqliteStore
from runwell.persistence.stores.fields import get_text_at_path
from runwell.persistence.stores.filters import OPERATORS, matches
from runwell.persistence.stores.namespaces import above, joined, split
from runwell.persistence.stores.vectors import nearness
from runwell.ports.store import BaseStore, GetOp, IndexConfig, Op, PutOp, Result
from runwell.testing.postgres import PostgresServer
from runwell.testing.stores import StoreSuite, WordEmbeddings


class TestInMemoryStore(StoreSuite):
    def make_store(self, **settings: Any) -> InMemoryStore:
        return InMemoryStore(**settings)


class TestSqliteStore(StoreSuite):
    @pytest.fixture(autouse=True)
    def _files(self, tmp_path: Path) -> Iterator[None]:
        self.folder, self.stores = tmp_path, list[SqliteStore]()
        yield
        for store in self.stores:
            store.close()

    def make_store(self, **settings: Any) -> SqliteStore:
        self.stores.append(SqliteStore(self.folder / f"{len(self.stores)}.sqlite", **settings))
        return self.stores[-1]

    def another_on_the_same_storage(self, store: BaseStore, **settings: Any) -> SqliteStore:
        assert isinstance(store, SqliteStore)
        self.stores.append(SqliteStore(store.file.path, **settings))
        return self.stores[-1]


@pytest.mark.integration
class TestPostgresStore(StoreSuite):
    @pytest.fixture(autouse=True)
    def _server(self, postgres_server: PostgresServer) -> Iterator[None]:
        self.server, self.stores, self.urls = postgres_server, list[PostgresStore](), dict[Any, str]()
        yield
        for store in self.stores:
            store.close()

    def opened(self, url: str, **settings: Any) -> PostgresStore:
        store = PostgresStore(url, **settings)
        self.stores.append(store)
        self.urls[store] = url
        return store

    def make_store(self, **settings: Any) -> PostgresStore:
        return self.opened(self.server.new_schema(), **settings)

    def another_on_the_same_storage(self, store: BaseStore, **settings: Any) -> PostgresStore:
        return self.opened(self.urls[store], **settings)


def words() -> IndexConfig:
    return {"dims": WordEmbeddings.dims, "embed": WordEmbeddings()}


@pytest.mark.integration
def test_postgresql_compares_vectors_itself(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with PostgresStore(postgres_url, index=words()) as store:
        assert store.searches_in_database
        monkeypatch.setattr("runwell.persistence.stores.store.nearness", None)  # what compares them here
        texts = ("cats dogs", "cats", "rain sun sun", "tax law cats", "", "dogs")
        store.batch([PutOp(("a",), f"{n}", {"text": text, "n": n}) for n, text in enumerate(texts * 80)])
        found = store.search(("a",), query="cats", limit=3, offset=1)
        assert [(item.value["text"], round(item.score or 0, 5)) for item in found] == [("cats", 1.0)] * 3
        last = store.search(("a",), query="cats", filter={"n": 4}, limit=1)  # behind all pages
        assert [(item.key, item.score) for item in last] == [("4", 0.0)]
        assert store.database.rows("SELECT count(*) FROM runwell_vectors WHERE vector <> ''") == [(0,)]


@pytest.mark.integration
def test_vectors_stored_before_pgvector_was_there_are_found(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("runwell.persistence.stores.postgres.prepare", lambda connection: None)
        without = PostgresStore(postgres_url, index=words())
        without.put(("a",), "1", {"text": "cats dogs"})
        assert not without.searches_in_database
    with PostgresStore(postgres_url, index=words()) as store, without:
        assert [item.key for item in store.search(("a",), query="cats")] == ["1"]
        without.put(("a",), "2", {"text": "cats"})
        found = [(item.key, round(item.score or 0, 5)) for item in store.search(("a",), query="cats")]
        assert found == [("2", 1.0), ("1", 0.70711)]
        without.put(("a",), "2", {"text": "tax"}, index=False)
        assert [item.key for item in store.search(("a",), query="cats")] == ["1"]


@pytest.mark.integration
def test_vectors_of_another_model_say_so(postgres_url: str) -> None:
    with PostgresStore(postgres_url, index=words()) as store:
        store.put(("a",), "1", {"text": "cats"})
    with (
        PostgresStore(postgres_url, index={"dims": 2, "embed": lambda texts: [[1.0, 0.0] for _ in texts]}) as store,
        pytest.raises(StorageError, match="vectors of 8 numbers, and the query has 2"),
    ):
        store.search(("a",), query="cats")


@pytest.mark.integration
def test_a_user_who_may_not_turn_pgvector_on_searches_all_the_same(postgres_server: PostgresServer) -> None:
    import psycopg

    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute("CREATE ROLE plain LOGIN")
        connection.execute("CREATE DATABASE plain OWNER plain")
    try:
        url = psycopg.conninfo.make_conninfo(postgres_server.url, dbname="plain", user="plain")
        with PostgresStore(url, index=words()) as store:
            store.put(("a",), "1", {"text": "cats"})
            store.put(("a",), "2", {"text": "tax"})
            assert not store.searches_in_database
            assert [item.key for item in store.search(("a",), query="cats", limit=1)] == ["1"]
    finally:
        with psycopg.connect(postgres_server.url, autocommit=True) as connection:
            connection.execute("DROP DATABASE plain")
            connection.execute("DROP ROLE plain")


class Async(BaseStore):
    """A store of a user's, written in one colour."""

    def __init__(self) -> None:
        self.inner = InMemoryStore()

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        await asyncio.sleep(0)
        return self.inner.batch(ops)


def test_a_store_written_in_one_colour_has_both() -> None:
    store = Async()
    store.put(("a",), "k", {"n": 1})
    assert asyncio.run(store.aget(("a",), "k")) == store.get(("a",), "k")
    assert store.search(("a",))[0].value == {"n": 1}
    with pytest.raises(UsageError, match="expire"):
        store.put(("a",), "k", {}, ttl=1)
    with pytest.raises(UsageError, match="batch"):
        BaseStore().batch([GetOp(("a",), "k")])
    with pytest.raises(UsageError, match="batch"):
        asyncio.run(BaseStore().abatch([GetOp(("a",), "k")]))


class Batched(AsyncBatchedBaseStore):
    def __init__(self) -> None:
        super().__init__()
        self.inner = InMemoryStore()
        self.sizes: list[int] = []

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        ops = list(ops)
        self.sizes.append(len(ops))
        await asyncio.sleep(0)
        return self.inner.batch(ops)


def test_calls_of_one_turn_of_the_loop_go_out_as_one_batch() -> None:
    store = Batched()

    async def use() -> None:
        await asyncio.gather(*(store.aput(("a",), f"{n}", {"n": n}) for n in range(50)))
        assert store.sizes == [50]
        one, none, found = await asyncio.gather(
            store.aget(("a",), "3"), store.aget(("a",), "x"), store.asearch(("a",), limit=2)
        )
        assert one is not None
        assert (one.value, none, len(found)) == ({"n": 3}, None, 2)
        assert store.sizes == [50, 3]
        results = await asyncio.gather(
            store.aput(("a",), "ok", {"n": 1}), store.aput(("a",), "bad", {"x": object()}), return_exceptions=True
        )
        assert results[0] is None
        assert isinstance(results[1], UnserializableType)
        assert await store.aget(("a",), "ok") is not None

    asyncio.run(use())
    assert store.get(("a",), "4") is not None
    asyncio.run(use_once_more(store))


async def use_once_more(store: BaseStore) -> None:
    assert await store.aget(("a",), "4") is not None


def test_a_store_and_a_saver_share_a_file(tmp_path: Path) -> None:
    from runwell.persistence import SqliteSaver

    path = tmp_path / "both.sqlite"
    with SqliteSaver(path), SqliteStore(path) as store:
        store.put(("a",), "k", {"n": 1})
    rooms = sqlite3.connect(path).execute("SELECT room FROM runwell_schema ORDER BY room").fetchall()
    assert rooms == [("checkpoints",), ("stores",)]


def test_scores_are_the_same_without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    store = InMemoryStore(index={"dims": 8, "embed": WordEmbeddings()})
    for n, text in enumerate(("cats dogs", "cats", "rain sun sun", "tax law cats")):
        store.put(("a",), f"{n}", {"text": text})
    found = [(item.key, round(item.score or 0, 5)) for item in store.search(("a",), query="cats sun")]
    monkeypatch.setitem(sys.modules, "numpy", None)
    again = [(item.key, round(item.score or 0, 5)) for item in store.search(("a",), query="cats sun")]
    assert again == found
    assert nearness(b"\x00\x00\x80\x3f", []) == []


labels = st.text(alphabet=st.one_of(st.sampled_from("/\\ab.*%_"), st.characters(exclude_categories=["Cs"])), min_size=1)
namespaces = st.lists(labels, min_size=1, max_size=4).map(tuple)


@given(namespaces, namespaces)
def test_joined_namespaces_are_prefixes_exactly_when_their_labels_are(left: Any, right: Any) -> None:
    assert split(joined(left)) == left
    inside = right[: len(left)] == left
    assert joined(right).startswith(joined(left)) == inside
    assert (joined(left) <= joined(right) < above(joined(left))) == inside


values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([0.5, 1.0]), st.sampled_from(["", "a", "b"])
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("xy"), inner, max_size=2)),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from("nm"), values), values)
def test_conditions_agree_with_each_other(value: dict[str, Any], wanted: Any) -> None:
    holds = {name: matches({"n": {name: wanted}}, value) for name in OPERATORS}
    if "n" not in value:
        assert not any(holds.values())
        return
    assert holds["$eq"] != holds["$ne"]
    comparable = holds["$lt"] or holds["$gt"] or holds["$lte"]
    assert holds["$gte"] == (comparable and not holds["$lt"])
    assert holds["$lte"] == (comparable and not holds["$gt"])
    assert matches({"n": {"$gte": wanted, "$lte": wanted}}, value) == (comparable and holds["$eq"])


def test_paths_lead_to_texts() -> None:
    value = {"a": "x", "b": {"c": ["p", "q", {"d": 5}]}, "n": None, "e": ""}
    for path, texts in (
        ("a", ["x"]),
        ("$.a", ["x"]),
        ("b.c[0]", ["p"]),
        ("b.c[-1].d", ["5"]),
        ("b.c[*]", ["p", "q", '{"d": 5}']),
        ("b.c[*].d", ["5"]),
        ("b.c[9]", []),
        ("n", []),
        ("e", []),
        ("z.y", []),
        ("$", ['{"a": "x", "b": {"c": ["p", "q", {"d": 5}]}, "e": "", "n": null}']),
    ):
        assert get_text_at_path(value, path) == texts, path
