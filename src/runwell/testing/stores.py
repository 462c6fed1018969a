"""A ready test suite for stores: subclass it, say how to make one, run pytest.

    class TestMyStore(StoreSuite):
        def make_store(self, **settings):
            return MyStore(url, **settings)

Every store of runwell passes it. A store may write `batch` or `abatch`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from runwell.errors import InvalidConfig, InvalidInput, InvalidNamespaceError, UnserializableType
from runwell.ports.embeddings import Embeddings
from runwell.ports.store import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
)
from runwell.testing.savers import NotListed, raises

__all__ = ["StoreSuite", "WordEmbeddings"]

_WORDS = ("cats", "dogs", "tax", "law", "rain", "sun", "pizza", "wine")


class WordEmbeddings(Embeddings):
    """A text as how often it says each of eight words: what is near in meaning can be told by looking."""

    dims = len(_WORDS)

    def __init__(self) -> None:
        self.seen: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        self.seen += texts
        return [[float(text.lower().count(word)) for word in _WORDS] for text in texts]


class StoreSuite:
    """Subclass it as `Test...` and implement `make_store`."""

    def make_store(self, **settings: Any) -> BaseStore:
        """A store with nothing in it, made with `index=` or `ttl=` if that is given."""
        raise NotImplementedError

    def another_on_the_same_storage(self, store: BaseStore, **settings: Any) -> BaseStore:
        """A second store, as another process would have it. The default says there cannot be one."""
        return store

    def indexed(self, fields: list[str] | None = None, **settings: Any) -> tuple[BaseStore, WordEmbeddings]:
        embed = WordEmbeddings()
        index: IndexConfig = {"dims": embed.dims, "embed": embed}
        if fields is not None:
            index["fields"] = fields
        return self.make_store(index=index, **settings), embed

    # -- items

    def test_an_item_comes_back_with_its_times(self) -> None:
        store = self.make_store()
        before = datetime.now(UTC) - timedelta(seconds=1)
        value: dict[str, Any] = {
            "text": "hi",
            "n": 1,
            "list": [1, {"x": None}],
            "tuple": (1, 2),
            "bytes": b"\x00",
            "odd": "\ud800",
        }
        store.put(("users", "ann"), "k", value)
        item = store.get(("users", "ann"), "k")
        assert isinstance(item, Item)
        assert (item.namespace, item.key, item.value) == (("users", "ann"), "k", value)
        assert before < item.created_at == item.updated_at <= datetime.now(UTC)
        assert item.dict()["namespace"] == ["users", "ann"]
        assert store.get(("users", "ann"), "other") is None
        assert store.get(("users",), "k") is None
        assert store.get(("users", "ann", "deeper"), "k") is None

    def test_a_put_replaces_and_keeps_when_it_was_made(self) -> None:
        store = self.make_store()
        store.put(("a",), "k", {"n": 1})
        first = store.get(("a",), "k")
        store.put(("a",), "k", {"m": 2})
        second = store.get(("a",), "k")
        assert first is not None
        assert second is not None
        assert second.value == {"m": 2}
        assert second.created_at == first.created_at
        assert second.updated_at >= first.updated_at
        store.delete(("a",), "k")
        store.delete(("a",), "k")
        assert store.get(("a",), "k") is None

    def test_nothing_is_shared_with_what_was_stored(self) -> None:
        store = self.make_store()
        value = {"tags": ["x"]}
        store.put(("a",), "k", value)
        value["tags"].append("y")
        item = store.get(("a",), "k")
        assert item is not None
        item.value["tags"].append("z")
        [found] = store.search(("a",))
        found.value["tags"].append("w")
        again = store.get(("a",), "k")
        assert again is not None
        assert again.value == {"tags": ["x"]}

    def test_what_is_not_an_item_is_refused_and_nothing_is_stored(self) -> None:
        store = self.make_store()
        for bad in ((), "users", ("a", ""), ("a", 1), ("*",), ("a", "\x00"), ("\ud800",), None):
            with raises(InvalidNamespaceError, ValueError, TypeError):
                store.put(bad, "k", {})  # type: ignore[arg-type]
        for key in ("", None, 3, "a\x00"):
            with raises(InvalidInput):
                store.put(("a",), key, {})  # type: ignore[arg-type]
        bad_values: tuple[Any, ...] = (None, [], "text")
        for value in bad_values:
            with raises(InvalidInput):
                store.put(("a",), "k", value)
        for ttl in (0, -1):
            with raises(InvalidInput):
                store.put(("a",), "k", {}, ttl=ttl)
        with raises(UnserializableType) as caught:
            store.put(("a",), "k", {"x": [NotListed()]})
        assert "NotListed" in str(caught[0])
        assert store.search(()) == []
        assert store.list_namespaces() == []

    def test_another_store_on_the_same_storage_sees_the_same(self) -> None:
        store = self.make_store()
        other = self.another_on_the_same_storage(store)
        store.put(("a",), "k", {"n": 1})
        item = other.get(("a",), "k")
        assert item is not None
        assert item.value == {"n": 1}
        other.delete(("a",), "k")
        assert store.get(("a",), "k") is None

    # -- namespaces

    def test_store_01_a_namespace_is_compared_label_by_label(self) -> None:
        store = self.make_store()
        spaces = [
            ("tenant", "acme"),
            ("tenant", "acme-corp"),
            ("tenant", "acme", "x"),
            ("tenant", "ac"),
            ("tenant acme",),
        ]
        spaces += [("tenant/acme",), ("tenant", "acme/"), ("tenant\\", "acme"), ("tenant", "acme0"), ("tenant", "ACME")]
        for at, space in enumerate(spaces):
            store.put(space, "k", {"at": at})
        found = {item.namespace for item in store.search(("tenant", "acme"))}
        assert found == {("tenant", "acme"), ("tenant", "acme", "x")}
        assert {item.namespace for item in store.search((), limit=100)} == set(spaces)
        assert [item.value["at"] for item in store.search(("tenant/acme",))] == [5]
        assert store.list_namespaces(prefix=("tenant", "acme")) == [("tenant", "acme"), ("tenant", "acme", "x")]
        assert store.list_namespaces() == sorted(spaces)

    def test_store_02_nothing_in_a_namespace_is_a_wildcard(self) -> None:
        store = self.make_store()
        for space in (("a_b",), ("axb",), ("a%",), ("ab",), ("a?",), ("[ab]",), ("a.b",), ("ä", "日本"), ("'; --",)):
            store.put(space, "k", {"here": space[0]})
        for name in ("a_b", "a%", "ab", "a?", "[ab]", "a.b", "'; --"):
            assert [item.namespace for item in store.search((name,))] == [(name,)]
            assert store.list_namespaces(prefix=(name,)) == [(name,)]
        assert [item.namespace for item in store.search(("ä",))] == [("ä", "日本")]

    def test_namespaces_are_listed_by_beginning_end_and_depth(self) -> None:
        store = self.make_store()
        spaces = [("users", name, kind) for name in ("ann", "bob") for kind in ("notes", "facts")] + [("docs", "notes")]
        for space in spaces:
            store.put(space, "k", {})
            store.put(space, "l", {})
        assert store.list_namespaces(prefix=("users", "ann")) == [("users", "ann", "facts"), ("users", "ann", "notes")]
        assert store.list_namespaces(suffix=("notes",)) == [
            ("docs", "notes"),
            ("users", "ann", "notes"),
            ("users", "bob", "notes"),
        ]
        assert store.list_namespaces(prefix=("users", "*", "notes")) == [("users", n, "notes") for n in ("ann", "bob")]
        assert store.list_namespaces(prefix=("users",), suffix=("bob", "*")) == [
            ("users", "bob", "facts"),
            ("users", "bob", "notes"),
        ]
        assert store.list_namespaces(max_depth=1) == [("docs",), ("users",)]
        assert store.list_namespaces(max_depth=2, limit=2, offset=1) == [("users", "ann"), ("users", "bob")]
        assert store.list_namespaces(prefix=("us",)) == []
        assert store.list_namespaces(limit=0) == []
        conditions = (MatchCondition("prefix", ("users",)), MatchCondition("prefix", ("*", "bob")))
        [found] = store.batch([ListNamespacesOp(conditions)])
        assert found == [("users", "bob", "facts"), ("users", "bob", "notes")]
        store.delete(("docs", "notes"), "k")
        store.delete(("docs", "notes"), "l")
        assert ("docs", "notes") not in store.list_namespaces()

    # -- searching

    def test_items_are_found_the_last_written_first_page_by_page(self) -> None:
        store = self.make_store()
        for n in range(450):
            store.put(("a", f"{n % 3}"), f"{n}", {"n": n, "even": n % 2 == 0})
        store.put(("a", "0"), "0", {"n": 0, "even": True})  # the last written now
        order = [0, *range(449, 0, -1)]
        found = store.search(("a",), limit=1000)
        assert all(type(item) is SearchItem and item.score is None for item in found)
        assert [item.value["n"] for item in found] == order
        assert [item.value["n"] for item in store.search(("a",))] == order[:10]
        assert [item.value["n"] for item in store.search(("a",), limit=3, offset=7)] == order[7:10]
        even = [n for n in order if n % 2 == 0]
        assert [item.value["n"] for item in store.search(("a",), filter={"even": True}, limit=1000)] == even
        pages = [store.search(("a",), filter={"even": True}, limit=50, offset=at) for at in range(0, 300, 50)]
        assert [item.value["n"] for page in pages for item in page] == even
        assert store.search(("a",), limit=5, offset=900) == []
        assert store.search(("a",), limit=0) == []

    def test_store_05_a_missing_field_meets_no_condition(self) -> None:
        store = self.make_store()
        rows: dict[str, dict[str, Any]] = {
            "one": {"n": 1},
            "none": {},
            "null": {"n": None},
            "text": {"n": "1"},
            "two": {"n": 2},
        }
        for key, value in rows.items():
            store.put(("a",), key, value)
        for condition, keys in (
            ({"n": {"$gt": 0}}, ["one", "two"]),
            ({"n": {"$ne": 1}}, ["null", "text", "two"]),
            ({"n": {"$lte": 1}}, ["one"]),
            ({"n": {"$lt": "2"}}, ["text"]),
            ({"n": None}, ["null"]),
            ({"n": {"$ne": None}}, ["one", "text", "two"]),
            ({"n": {"$gt": None}}, []),
            ({"n": True}, []),
            ({"n": 1.0}, ["one"]),
        ):
            assert sorted(item.key for item in store.search(("a",), filter=condition)) == keys, condition

    def test_filters_mean_the_same_everywhere(self) -> None:
        store = self.make_store()
        rows: dict[str, dict[str, Any]] = {
            "a": {"stars": 5, "author": {"name": "Ann", "age": 40}, "tags": ["x", "y"], "a.b": 1},
            "b": {"stars": 3.5, "author": {"name": "Bob"}, "tags": [], "ok": True},
            "c": {"stars": -1, "author": "Cy", "ok": 1, "a": {"b": 1}},
        }
        for key, value in rows.items():
            store.put(("f",), key, value)
        for condition, keys in (
            ({}, "abc"),
            ({"stars": {"$gte": 3.5, "$lt": 5}}, "b"),
            ({"stars": {"$eq": 5}}, "a"),
            ({"author.name": "Ann"}, "a"),
            ({"author.name": {"$gt": "Ann"}}, "b"),
            ({"author": {"name": "Bob"}}, "b"),
            ({"author": {"name": "Ann"}}, ""),
            ({"tags": ["x", "y"]}, "a"),
            ({"tags": {"$ne": []}}, "a"),
            ({"ok": True}, "b"),
            ({"ok": 1}, "c"),
            ({"a.b": 1}, "ac"),
            ({"stars": {"$gt": 0}, "author.age": 40}, "a"),
            ({"author.name.first": "x"}, ""),
        ):
            assert "".join(sorted(item.key for item in store.search(("f",), filter=condition))) == keys, condition
        for bad in ({"stars": {"$regex": "x"}}, {"$gt": 1}, {1: 2}, "stars", {"stars": {"$gte": 1, "max": 2}}):
            with raises(InvalidInput):
                store.search(("f",), filter=bad)  # type: ignore[arg-type]
        with raises(InvalidInput) as caught:
            store.search(("f",), filter={"stars": {"$gtt": 1}})
        assert "'$gt'" in str(caught[0])

    def test_store_07_negative_numbers_are_refused(self) -> None:
        store = self.make_store()
        for n in range(5):
            store.put(("a",), f"{n}", {})
        for bad in ({"limit": -1}, {"offset": -2}, {"limit": 1.5}, {"limit": True}):
            with raises(ValueError):
                store.search(("a",), **bad)
            with raises(ValueError):
                store.list_namespaces(**bad)
        with raises(ValueError):
            store.list_namespaces(max_depth=0)
        assert len(store.search(("a",))) == 5

    # -- by meaning

    def test_items_are_found_by_meaning_the_nearest_first(self) -> None:
        store, _ = self.indexed()
        texts = {"1": "cats and dogs", "2": "cats cats cats", "3": "tax law", "4": "rain"}
        for key, text in texts.items():
            store.put(("a",), key, {"text": text, "n": int(key)})
        store.put(("b",), "5", {"text": "cats"})
        found = store.search(("a",), query="cats")
        assert [item.key for item in found][:2] == ["2", "1"]
        assert found[0].score is not None
        assert found[1].score is not None
        assert found[0].score > 0.99
        assert 0.6 < found[1].score < 0.8
        assert [item.key for item in store.search(("a",), query="cats", limit=1, offset=1)] == ["1"]
        assert [item.key for item in store.search(("a",), query="cats", filter={"n": {"$ne": 2}}, limit=1)] == ["1"]
        assert {item.key for item in store.search((), query="cats", limit=2)} == {"2", "5"}

    def test_store_03_what_an_item_said_before_is_not_found_any_more(self) -> None:
        store, _ = self.indexed(["text"])
        for change in ({"value": {"text": "tax law"}}, {"value": {"text": "tax law"}, "index": False}):
            store.put(("a",), "k", {"text": "cats"})
            store.put(("a",), "other", {"text": "sun"})
            assert store.search(("a",), query="cats")[0].key == "k"
            store.put(("a",), "k", **change)
            near = [item for item in store.search(("a",), query="cats") if item.score is None or item.score > 0.1]
            assert near == []
        assert [item.key for item in store.search(("a",), query="tax")] == ["other"]  # k is not in the index
        store.put(("a",), "k", {"text": "cats"})
        store.delete(("a",), "k")
        assert [item.key for item in store.search(("a",), query="cats")] == ["other"]
        store.put(("a",), "k", {"nothing": "to embed"})
        assert [item.key for item in store.search(("a",), query="cats")] == ["other"]

    def test_fields_say_what_is_embedded(self) -> None:
        store, embed = self.indexed(["title", "parts[*].text", "meta.note"])
        value = {"title": "wine", "parts": [{"text": "rain"}, {"text": "sun"}, {}], "meta": {"note": None}, "x": "cats"}
        store.put(("a",), "k", value)
        assert embed.seen == ["wine", "rain", "sun"]
        for word in ("wine", "rain", "sun"):  # each part by itself
            [item] = store.search(("a",), query=word)
            assert item.score is not None
            assert item.score > 0.99
        store.put(("a",), "k", value, index=["x"])
        [item] = store.search(("a",), query="cats")
        assert item.score is not None
        assert item.score > 0.99
        with raises(InvalidConfig):
            store.put(("a",), "k", value, index=["x[y]"])

    def test_a_batch_embeds_all_its_texts_at_once(self) -> None:
        store, embed = self.indexed(["t"])
        calls: list[int] = []
        real = embed.embed_documents

        def counted(texts: Sequence[str]) -> list[list[float]]:
            calls.append(len(texts))
            return real(texts)

        embed.embed_documents = counted  # type: ignore[method-assign]
        store.batch([PutOp(("a",), f"{n}", {"t": f"cats {n % 4}"}) for n in range(20)])
        assert calls == [4]
        assert len(store.search(("a",), query="cats", limit=50)) == 20

    def test_a_model_that_does_not_fit_is_refused_and_nothing_is_stored(self) -> None:
        for embed, dims in (
            (lambda texts: [[1.0, 2.0]] * len(texts), 3),
            (lambda texts: [], 3),
            (lambda texts: [[float("nan")] * 3] * len(texts), 3),
        ):
            store = self.make_store(index={"dims": dims, "embed": embed})
            with raises(InvalidConfig):
                store.put(("a",), "k", {"text": "x"})
            assert store.get(("a",), "k") is None
        for index in ({"dims": 0, "embed": WordEmbeddings()}, {"dims": 3}, {"dims": 3, "embed": "openai:x"}):
            with raises(InvalidConfig):
                self.make_store(index=index)
        with raises(InvalidConfig) as caught:
            self.make_store().search(("a",), query="cats")
        assert "index" in str(caught[0])

    def test_functions_of_either_colour_may_embed(self) -> None:
        words = WordEmbeddings()

        async def embed(texts: Sequence[str]) -> list[list[float]]:
            return words.embed_documents(texts)

        for function in (words.embed_documents, embed):
            store = self.make_store(index={"dims": words.dims, "embed": function})
            store.put(("a",), "k", {"text": "cats"})
            assert store.search(("a",), query="cats")[0].key == "k"

            async def use(store: BaseStore = store) -> None:
                await store.aput(("a",), "l", {"text": "sun"})
                assert (await store.asearch(("a",), query="sun"))[0].key == "l"

            asyncio.run(use())

    # -- expiry

    def test_expired_items_are_gone_everywhere(self) -> None:
        store, _ = self.indexed()
        short = 0.05 / 60
        store.put(("a",), "short", {"text": "cats"}, ttl=short)
        store.put(("a",), "long", {"text": "cats"}, ttl=60)
        store.put(("b",), "ever", {"text": "cats"})
        store.put(("c",), "short", {"text": "cats"}, ttl=short)
        while store.get(("c",), "short", refresh_ttl=False) or store.get(("a",), "short", refresh_ttl=False):
            pass
        assert [item.key for item in store.search(("a",))] == ["long"]
        assert [item.key for item in store.search(("a",), query="cats")] == ["long"]
        assert store.list_namespaces() == [("a",), ("b",)]
        store.put(("a",), "short", {"text": "again"})
        item = store.get(("a",), "short")
        assert item is not None
        assert item.created_at == item.updated_at  # another item than the one that expired

    def test_reading_starts_the_time_anew_unless_told_not_to(self) -> None:
        store = self.make_store(ttl={"refresh_on_read": True, "default_ttl": 0.6 / 60})
        for key in ("read", "searched", "left"):
            store.put((key,), key, {})
        deadline = datetime.now(UTC) + timedelta(seconds=1.3)
        while datetime.now(UTC) < deadline:
            assert store.get(("read",), "read") is not None
            assert store.search(("searched",)) != []
            store.search(("left",), refresh_ttl=False)
            store.get(("left",), "left", refresh_ttl=False)
        assert store.get(("left",), "left") is None
        store.put(("ever",), "k", {}, ttl=None)
        while store.search(("searched",), refresh_ttl=False):
            pass
        assert store.get(("ever",), "k") is not None
        for bad in ({"default_ttl": -1}, {"default": 1}):
            with raises(InvalidConfig):
                self.make_store(ttl=bad)

    def test_sweeping_removes_what_has_expired(self) -> None:
        store: Any = self.make_store(ttl={"sweep_interval_minutes": None})
        store.batch([PutOp(("a",), f"{n}", {}, ttl=0.01 / 60) for n in range(5)])
        store.put(("a",), "ever", {})
        while (
            store.search(("a",), filter={"x": 1}, refresh_ttl=False) or len(store.search(("a",), refresh_ttl=False)) > 1
        ):
            pass
        assert store.sweep_ttl() == 5
        assert store.sweep_ttl() == 0
        assert len(store.search(("a",))) == 1

    # -- batches and threads

    def test_a_batch_is_done_in_order(self) -> None:
        store = self.make_store()
        ns = ("a",)
        results = store.batch(
            [
                GetOp(ns, "k"),
                PutOp(ns, "k", {"n": 1}),
                GetOp(ns, "k"),
                PutOp(ns, "k", {"n": 2}),
                SearchOp(ns),
                PutOp(ns, "k", None),
                GetOp(ns, "k"),
                ListNamespacesOp(),
                PutOp(("b",), "k", {"n": 3}),
                ListNamespacesOp(),
            ]
        )
        assert results[0] is None
        assert results[1] is None
        assert isinstance(results[2], Item)
        assert results[2].value == {"n": 1}
        assert isinstance(results[4], list)
        assert [getattr(item, "value", None) for item in results[4]] == [{"n": 2}]
        assert results[6] is None
        assert results[7] == []
        assert results[9] == [("b",)]
        assert store.batch([]) == []

    def test_a_batch_with_a_mistake_in_it_does_nothing(self) -> None:
        store = self.make_store()
        store.put(("a",), "old", {"n": 1})
        good = [PutOp(("a",), "new", {"n": 1}), PutOp(("a",), "old", None)]
        for bad in (PutOp((), "k", {}), SearchOp(("a",), limit=-1), "no", PutOp(("a",), "x", {"x": NotListed()})):
            with raises(InvalidInput, InvalidNamespaceError, UnserializableType):
                store.batch([*good, bad])  # type: ignore[list-item]
        assert [item.key for item in store.search(("a",))] == ["old"]

    def test_many_threads_write_at_once(self) -> None:
        store = self.make_store()
        failed: list[BaseException] = []

        def work(name: str) -> None:
            try:
                for n in range(15):
                    store.put(("own", name), f"{n}", {"n": n})
                    store.put(("shared",), f"{n % 3}", {"by": name})
                    store.batch([PutOp(("both",), key, {"n": n}) for key in (("x", "y") if n % 2 else ("y", "x"))])
                    store.get(("shared",), "0")
            except BaseException as error:
                failed.append(error)

        workers = [threading.Thread(target=work, args=(f"w{n}",)) for n in range(5)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert failed == []
        assert len(store.search(("own",), limit=1000)) == 75
        assert len(store.search(("shared",))) == 3

    def test_async_forms_give_the_same(self) -> None:
        store, _ = self.indexed()

        async def use() -> None:
            await asyncio.gather(*(store.aput(("a",), f"{n}", {"n": n, "t": "cats"}) for n in range(20)))
            item = await store.aget(("a",), "3")
            assert item is not None
            assert item.value == {"n": 3, "t": "cats"}
            assert len(await store.asearch(("a",), filter={"n": {"$gte": 5}}, limit=100)) == 15
            assert len(await store.asearch(("a",), query="cats", limit=4)) == 4
            await store.adelete(("a",), "3")
            assert await store.aget(("a",), "3") is None
            assert await store.alist_namespaces() == [("a",)]
            with raises(InvalidNamespaceError):
                await store.aget((), "x")

        asyncio.run(use())
