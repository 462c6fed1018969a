"""Search by an approximate index in PostgreSQL."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from runwell.errors import InvalidConfig, StorageError
from runwell.persistence import InMemoryStore, PostgresStore, SqliteStore

DIMS = 8


def embed(texts: list[str]) -> list[list[float]]:
    """Vectors that a text's number chooses."""
    return [[random.Random(text).gauss(0, 1) for _ in range(1)] + _rest(text) for text in texts]


def _rest(text: str) -> list[float]:
    chosen = random.Random(f"{text} rest")
    return [chosen.gauss(0, 1) for _ in range(DIMS - 1)]


def index(**more: Any) -> Any:
    return {"dims": DIMS, "embed": embed, "fields": ["text", "more[*]"], **more}


def items() -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [{"text": f"t{n}", "n": n, "kind": "usual"} for n in range(120)]
    for n in range(0, 120, 20):
        made[n]["kind"] = "rare"
    for n in range(1, 120, 2):
        made[n]["more"] = [f"m{n}"]
    return made


@pytest.fixture
def stores(postgres_url: str) -> Any:
    exact = InMemoryStore(index=index())
    with PostgresStore(postgres_url, index=index(hnsw={"m": 16, "ef_construction": 64})) as store:
        from runwell.ports.store import PutOp

        puts = [PutOp(("a",), str(value["n"]), value) for value in items()]
        store.batch(puts)
        exact.batch(puts)
        yield store, exact


@pytest.mark.integration
def test_it_finds_nearly_what_looking_at_all_finds(stores: Any) -> None:
    store, exact = stores
    assert store.searches_in_database
    hits = 0
    for n in range(20):
        found = store.search(("a",), query=f"query {n}", limit=10)
        wanted = exact.search(("a",), query=f"query {n}", limit=10)
        keys = [item.key for item in found]
        assert len(set(keys)) == len(keys) == 10
        assert [item.score for item in found] == sorted((item.score for item in found), reverse=True)
        scores = {item.key: item.score for item in exact.search(("a",), query=f"query {n}", limit=120)}
        assert all(math.isclose(item.score, scores[item.key], abs_tol=1e-5) for item in found)
        hits += len({item.key for item in wanted} & set(keys))
    assert hits >= 180  # of 200


@pytest.mark.integration
def test_a_narrow_filter_and_pages_still_find_everything(stores: Any) -> None:
    store, _ = stores
    found = store.search(("a",), query="query", filter={"kind": "rare"}, limit=10)
    assert {item.key for item in found} == {"0", "20", "40", "60", "80", "100"}
    pages = [item.key for at in range(0, 120, 20) for item in store.search(("a",), query="q", limit=20, offset=at)]
    assert len(pages) == len(set(pages))
    assert len(pages) >= 115
    assert store.search(("b",), query="query") == []


@pytest.mark.integration
def test_the_search_can_be_done_by_the_index(stores: Any) -> None:
    store, _ = stores
    schema = store._pgvector
    query = f"""EXPLAIN SELECT v.item FROM runwell_vectors v
        ORDER BY v.embedding::{schema}.vector({DIMS}) OPERATOR({schema}.<#>) ?::{schema}.vector({DIMS}) LIMIT 1"""

    def planned() -> str:
        store.rows("SELECT set_config('enable_seqscan', 'off', true)")
        return str(store.rows(query, str([1] * DIMS)))

    assert f"runwell_vectors_hnsw_{DIMS}" in store.run(planned, writes=False)


@pytest.mark.integration
def test_vectors_of_another_length_are_told(postgres_url: str) -> None:
    with PostgresStore(postgres_url, index={"dims": 2, "embed": lambda texts: [[1.0, 0.0] for _ in texts]}) as store:
        store.put(("a",), "1", {"text": "x"})
    with (
        PostgresStore(postgres_url, index=index(hnsw=True)) as store,
        pytest.raises(StorageError, match="vectors of 2"),
    ):
        store.put(("a",), "2", {"text": "x"})


@pytest.mark.parametrize("wrong", ["yes", {"n": 1}, {"m": "1"}, 3])
def test_what_is_no_setting_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidConfig, match="hnsw"):
        PostgresStore("postgresql://nowhere", index=index(hnsw=wrong))


def test_other_stores_and_long_vectors_are_refused() -> None:
    for make in (InMemoryStore, lambda **given: SqliteStore(":memory:", **given)):
        with pytest.raises(InvalidConfig, match="PostgreSQL alone"):
            make(index=index(hnsw=True))
    with pytest.raises(InvalidConfig, match="up to 2,000"):
        PostgresStore("postgresql://nowhere", index={**index(hnsw=True), "dims": 3072})
