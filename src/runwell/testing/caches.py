"""A ready test suite for caches: subclass it, say how to make one, run pytest.

    class TestMyCache(CacheSuite):
        def make_cache(self, **settings):
            return MyCache(url, **settings)

Every cache of runwell passes it. A cache may write its methods in either colour.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from dataclasses import dataclass
from typing import Any
from unittest import mock

from runwell.errors import InvalidConfig
from runwell.messages import AIMessage
from runwell.ports.cache import FullKey
from runwell.testing.savers import raises

__all__ = ["CacheSuite"]

ONE, TWO, NEAR = (("node", "a"), "k1"), (("node", "a"), "k2"), (("node", "ab"), "k1")


@dataclass
class _Box:
    size: Any


class CacheSuite:
    """Subclass it as `Test...` and implement `make_cache`."""

    def make_cache(self, **settings: Any) -> Any:
        """A cache with nothing in it."""
        raise NotImplementedError

    def another_on_the_same_storage(self, cache: Any) -> Any:
        """A second cache, as another process would have it. The default says there cannot be one."""
        return cache

    # -- results of nodes and tasks

    def test_what_is_kept_comes_back_and_what_is_not_is_left_out(self) -> None:
        cache = self.make_cache()
        cache.set({ONE: ({"messages": [AIMessage("x", id="1")]}, None), TWO: ((1, 2), 60), NEAR: (None, None)})
        found = {ONE: {"messages": [AIMessage("x", id="1")]}, TWO: (1, 2), NEAR: None}
        assert cache.get([ONE, TWO, NEAR, (("node",), "k1"), (("node", "a"), "k")]) == found
        assert self.another_on_the_same_storage(cache).get([ONE, TWO, NEAR]) == found
        assert cache.get([]) == {}
        cache.set({})

    def test_a_later_result_takes_the_place_of_an_earlier_one(self) -> None:
        cache = self.make_cache()
        cache.set({ONE: (1, 0.001)})
        cache.set({ONE: (2, None)})
        time.sleep(0.002)
        assert cache.get([ONE]) == {ONE: 2}

    def test_nothing_is_shared_with_what_was_kept(self) -> None:
        cache, kept = self.make_cache(), {"words": ["a"]}
        cache.set({ONE: (kept, None)})
        kept["words"].append("mine")
        cache.get([ONE])[ONE]["words"].append("mine too")
        assert cache.get([ONE]) == {ONE: {"words": ["a"]}}

    def test_a_result_is_kept_for_as_long_as_it_says(self) -> None:
        cache, now = self.make_cache(), time.time()
        cache.set({ONE: (1, 60), TWO: (2, None)})
        for later, there in ((59.0, {ONE: 1, TWO: 2}), (61.0, {TWO: 2})):
            with mock.patch("time.time", return_value=now + later):
                assert cache.get([ONE, TWO]) == there
        for ttl in (0, -1):
            with raises(InvalidConfig):
                cache.set({ONE: (1, ttl)})

    def test_a_namespace_is_forgotten_and_no_other(self) -> None:
        cache = self.make_cache()
        odd: list[FullKey] = [(("a*", "b?"), "k"), (("ax", "by"), "k"), (("[a]", "\\"), "k"), (("a",), "\ud800"), NEAR]
        cache.set({key: (n, None) for n, key in enumerate(odd)})
        cache.clear([("a*", "b?"), ("[a]", "\\")])
        assert cache.get(odd) == {odd[1]: 1, odd[3]: 3, odd[4]: 4}
        cache.clear([("node",)])  # a namespace is compared whole
        assert cache.get([NEAR]) == {NEAR: 4}
        cache.clear()
        assert cache.get(odd) == {}

    def test_ckpt_09_what_may_not_be_serialised_is_not_kept_and_nothing_is_pickled(self) -> None:
        cache, told = self.make_cache(), _Told()
        log = logging.getLogger("runwell.cache")
        log.addHandler(told)
        try:
            cache.set({ONE: ({"box": _Box(threading.Lock())}, None), TWO: (1, None)})
        finally:
            log.removeHandler(told)
        assert "_Box" in told.text
        assert cache.get([ONE, TWO]) == {TWO: 1}

    def test_ckpt_09_a_type_is_allowed_by_the_reader_too(self) -> None:
        cache = self.make_cache()
        cache.set({ONE: (_Box(1), None)}, frozenset({_Box}))
        assert cache.get([ONE], frozenset({_Box})) == {ONE: _Box(1)}
        assert cache.get([ONE]) == {}  # not used, and not lost
        assert cache.get([ONE], frozenset({_Box})) == {ONE: _Box(1)}
        allowing = self.make_cache(allow=[_Box])
        allowing.set({ONE: (_Box(2), None)})
        assert allowing.get([ONE]) == {ONE: _Box(2)}

    def test_many_threads_use_it_at_once(self) -> None:
        cache = self.make_cache()
        failed: list[BaseException] = []

        def work(number: int) -> None:
            try:
                for n in range(20):
                    key = (("n", f"{number}"), f"{n}")
                    cache.set({key: (n, None)})
                    assert cache.get([key]) == {key: n}
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed, failed[0]

    # -- answers of models

    def test_answers_of_models_are_kept_by_question_and_model(self) -> None:
        cache = self.make_cache()
        assert cache.lookup("ab", "c") is None
        cache.update("ab", "c", ["x"])
        assert cache.lookup("ab", "c") == ["x"]
        assert cache.lookup("a", "bc") is None
        cache.clear()
        assert cache.lookup("ab", "c") is None

    # -- both colours

    def test_async_forms_do_the_same(self) -> None:
        cache = self.make_cache()

        async def use() -> None:
            keys: list[FullKey] = [(("n",), f"{n}") for n in range(20)]
            await asyncio.gather(*(cache.aset({key: (key[1], None)}) for key in keys))
            assert await cache.aget(keys) == {key: key[1] for key in keys}
            await cache.aupdate("p", "m", ["x"])
            assert await cache.alookup("p", "m") == ["x"]
            await cache.aclear([("n",)])
            assert await cache.aget(keys) == {}
            assert await cache.alookup("p", "m") == ["x"]

        asyncio.run(use())


class _Told(logging.Handler):
    """What was logged."""

    text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text += record.getMessage()
