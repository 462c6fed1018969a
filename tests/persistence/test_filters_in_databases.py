"""A filter means the same in a database as here: what it leaves out by itself is nothing that the filter means."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runwell.persistence import AesEncryption, InMemoryStore, PostgresStore, SqliteStore
from runwell.persistence.databases.sqlite import SqliteFile
from runwell.persistence.stores import sql
from runwell.persistence.stores.facts import facts_of
from runwell.persistence.stores.filters import matches
from runwell.testing import FakeEmbeddings

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(-(2**63), 2**63),
    st.floats(allow_nan=False),
    st.sampled_from([0.1, 0.30000000000000004, 1e-300, 5e-324, 2.0**53, 2**53 + 1, -0.0, float("inf")]),
    st.sampled_from(
        ["", "a", "b", "é", "\U0001f600", "\uffff", "a\x00b", "'", '"', "%s ?", "x" * 300, "1", "true", "null"]
    ),
    st.text(max_size=3),
)
LEAVES = st.one_of(
    SCALARS, st.sampled_from([Decimal("0.1"), datetime(2024, 1, 1, tzinfo=UTC), b"x"]), st.lists(SCALARS, max_size=2)
)
KEYS = st.sampled_from(["n", "kind", "a", "a.b", "a.b.c", "b", 'q"', "ü", "$x", "two words", "%", "nul\x00"])
VALUES = st.dictionaries(KEYS, st.recursive(LEAVES, lambda inner: st.dictionaries(KEYS, inner, max_size=3)), max_size=4)
CONDITIONS = st.one_of(
    LEAVES,
    st.dictionaries(KEYS.filter(lambda key: not key.startswith("$")), SCALARS, max_size=2),
    st.dictionaries(st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]), LEAVES, min_size=1, max_size=2),
)
FILTERS = st.dictionaries(KEYS.filter(lambda key: not key.startswith("$")), CONDITIONS, min_size=1, max_size=2)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.integration)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "sqlite":
        with SqliteStore(tmp_path / "items.sqlite") as made:
            yield made
    else:
        with PostgresStore(request.getfixturevalue("postgres_url")) as made:
            yield made


def test_a_search_finds_what_the_filter_means_and_nothing_else(store: Any) -> None:
    """Store P: any values, any filter, against the one evaluator."""
    count = itertools.count()

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(VALUES, min_size=1, max_size=4), st.lists(FILTERS, min_size=1, max_size=4))
    def check(values: list[dict[str, Any]], filters: list[dict[str, Any]]) -> None:
        namespace = (f"n{next(count)}",)
        kept = []
        for place, value in enumerate(values):
            try:
                store.put(namespace, str(place), value)
            except ValueError:  # what no store takes: half a character
                continue
            kept.append((str(place), value))
        for each in filters:
            found = {item.key for item in store.search(namespace, filter=each, limit=9)}
            assert found == {key for key, value in kept if matches(each, value)}

    check()


PLAIN = [{"n": n, "kind": "odd" if n % 2 else "even", "who": {"name": f"p{n % 3}"}, "old": n > 5} for n in range(12)]


@pytest.mark.parametrize(
    "filter",
    [
        {"n": 3},
        {"n": {"$gt": 3.5, "$lte": 7.5}},
        {"kind": "odd", "old": True},
        {"who.name": "p1"},
        {"kind": {"$lt": "even!"}},
        {"none": None},
        {"n": {"$lt": 0.5}},
    ],
    ids=str,
)
def test_plain_fields_are_judged_by_the_database(store: Any, filter: dict[str, Any]) -> None:
    """No item is read that is not meant, wherever it stands."""
    for place, value in enumerate(PLAIN):
        store.put(("plain",), str(place), {**value, **({"none": None} if place == 4 else {})})
    rows = store.run(lambda: store.read_items(*_plain(), 99, filter), writes=False)
    meant = {
        str(place) for place, value in enumerate(PLAIN) if matches(filter, value) or (place == 4 and "none" in filter)
    }
    assert {row.key for row in rows} == meant
    assert {item.key for item in store.search(("plain",), filter=filter, limit=99)} == meant


def _plain() -> tuple[str, float, None]:
    from runwell.persistence.stores.namespaces import joined

    return joined(("plain",)), 0.0, None


def test_a_search_by_meaning_is_narrowed_too(tmp_path: Path, postgres_url: str) -> None:
    index: Any = {"dims": 8, "embed": FakeEmbeddings(size=8)}
    for made in (SqliteStore(tmp_path / "v.sqlite", index=index), PostgresStore(postgres_url, index=index)):
        with made as store:
            for place, value in enumerate(PLAIN):
                store.put(("plain",), str(place), {**value, "text": f"about {place}"})
            found = store.search(("plain",), query="about 4", filter={"kind": "even"}, limit=99)
            assert {item.key for item in found} == {str(n) for n in range(0, 12, 2)}
            read = store.run(
                lambda store=store: list(store.read_nearest(bytes(32), *_plain()[:2], 99, {"n": 4})), writes=False
            )
            assert [len(page) for page in read if page] == [1]


def _nearest(store: Any) -> Any:
    return list(store.read_nearest(bytes(32), *_plain()[:2], 99, {"n": 4}))


def test_items_of_before_are_found_and_encrypted_ones_show_nothing(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    SqliteFile(path, room=sql.ROOM, migrations=sql.SQLITE[:1], owner="old", synchronous="normal").close()
    with SqliteStore(path) as store:
        store.put(("a",), "1", {"n": 1})
        store.rows("UPDATE runwell_items SET facts = NULL")  # as it was
        assert [item.key for item in store.search(("a",), filter={"n": 1})] == ["1"]
        assert store.search(("a",), filter={"n": 2}) == []
    with SqliteStore(tmp_path / "secret.sqlite", encryption=AesEncryption(AesEncryption.new_key())) as store:
        store.put(("a",), "1", {"secret": "pearl"})
        assert [item.key for item in store.search(("a",), filter={"secret": "pearl"})] == ["1"]
        assert store.rows("SELECT facts FROM runwell_items") == [(None,)]


def test_values_with_many_fields_are_judged_here() -> None:
    assert facts_of({f"f{n}": n for n in range(200)}) is None
    store = InMemoryStore()
    store.put(("a",), "1", {f"f{n}": n for n in range(200)})
    assert [item.key for item in store.search(("a",), filter={"f150": 150})] == ["1"]
