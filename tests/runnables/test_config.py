"""Configs: what merges how, what is refused, what nested calls inherit without being handed it."""

from __future__ import annotations

import asyncio
import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwell.errors import InvalidConfig
from runwell.observe import CURRENT, BaseCallbackHandler, copy_context
from runwell.runnables import RunnableLambda, RunnableParallel, ensure_config, merge_configs


def look(value, config):
    return {key: config.get(key) for key in ("tags", "metadata", "configurable", "max_concurrency", "recursion_limit")}


class Starts(BaseCallbackHandler):
    def __init__(self):
        self.names = []

    def on_chain_start(self, serialized, inputs, *, run_id, parent_run_id=None, tags=None, metadata=None, **kwargs):
        self.names.append(kwargs["name"])


def test_graph_12_bound_config_and_call_config_are_merged_and_stay_as_they_were(driver):
    handler, other = Starts(), Starts()
    bound_config = {
        "callbacks": [handler],
        "tags": ["t1"],
        "metadata": {"a": 1},
        "configurable": {"k": 1, "deep": {"x": 1}},
    }
    call = {"configurable": {"thread_id": "7", "deep": {"y": 2}}, "tags": ["t2"], "callbacks": [other]}
    kept, kept_call = copy.deepcopy(bound_config["configurable"]), copy.deepcopy(call["configurable"])
    bound = RunnableLambda(look).with_config(bound_config)
    for _ in range(2):
        seen = driver.invoke(bound, 1, call)
        assert seen["tags"] == ["t1", "t2"]
        assert seen["metadata"] == {"a": 1}
        assert seen["configurable"] == {"k": 1, "thread_id": "7", "deep": {"x": 1, "y": 2}}
    assert handler.names == other.names == ["look", "look"]
    assert bound_config["configurable"] == kept
    assert bound_config["metadata"] == {"a": 1}
    assert bound_config["tags"] == ["t1"]
    assert call["configurable"] == kept_call
    assert driver.invoke(bound, 1)["configurable"] == kept


def test_graph_12_holds_for_streams_batches_and_bindings_of_bindings(driver):
    bound = RunnableLambda(look).with_config(tags=["a"]).bind().with_config(tags=["b"], metadata={"m": 1})
    assert driver.stream(bound, 1, {"tags": ["c"]})[0]["tags"] == ["a", "b", "c"]
    assert [each["tags"] for each in driver.batch(bound, [1, 2], {"tags": ["c"]})] == [["a", "b", "c"]] * 2
    assert driver.invoke(bound | (lambda seen: seen["metadata"]), 1) == {"m": 1}


def test_nested_calls_inherit_what_they_are_not_handed(driver):
    inner = RunnableLambda(look)

    def outer(value):
        return inner.invoke(value)

    async def aouter(value):
        return await inner.ainvoke(value)

    config = {"tags": ["t"], "metadata": {"m": 1}, "configurable": {"user": "ann"}, "max_concurrency": 2}
    for function in (outer, aouter):
        seen = driver.invoke(RunnableLambda(function) | (lambda seen: seen), 1, config)
        assert seen["tags"] == ["t"]
        assert seen["configurable"] == {"user": "ann"}
        assert seen["max_concurrency"] == 2
    several = RunnableParallel(a=outer, b=outer, c=aouter)
    assert all(each["metadata"] == {"m": 1} for each in driver.invoke(several, 1, config).values())
    assert driver.invoke(RunnableLambda(outer).map(), [1], config)[0]["tags"] == ["t"]


def test_nothing_is_inherited_after_the_call(driver):
    driver.invoke(RunnableLambda(look), 1, {"tags": ["t"]})
    assert CURRENT.get() is None
    assert driver.invoke(RunnableLambda(look), 1)["tags"] == []


def test_a_forwarded_config_changes_nothing(driver):
    handler = Starts()
    inner = RunnableLambda(look, name="inner")

    def outer(value, config):
        return inner.invoke(value, config)

    seen = driver.invoke(RunnableLambda(outer), 1, {"tags": ["t"], "callbacks": [handler]})
    assert seen["tags"] == ["t"]
    assert handler.names == ["outer", "inner"]


def test_a_run_name_is_for_one_run_only(driver):
    handler = Starts()
    made = RunnableLambda(lambda v: v, name="a") | RunnableLambda(lambda v: v, name="b")
    driver.invoke(made, 1, {"run_name": "mine", "callbacks": [handler]})
    assert handler.names == ["mine", "a", "b"]


def test_own_threads_take_the_run_along_when_wrapped(driver):
    inner = RunnableLambda(look)

    def outer(value):
        with ThreadPoolExecutor(2) as pool:
            bare = pool.submit(inner.invoke, 1).result()
            taken = list(pool.map(copy_context(inner.invoke), range(8)))
        return bare, taken

    bare, taken = driver.invoke(RunnableLambda(outer), 1, {"tags": ["t"]})
    assert bare["tags"] == []
    assert [each["tags"] for each in taken] == [["t"]] * 8


def test_own_threads_may_also_be_handed_the_config(driver):
    handler = Starts()
    parents = {}

    class Tree(BaseCallbackHandler):
        def on_chain_start(self, serialized, inputs, *, run_id, parent_run_id=None, **kwargs):
            parents[kwargs["name"]] = (run_id, parent_run_id)

    inner = RunnableLambda(look, name="inner")

    def outer(value, config):
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(inner.invoke, value, config).result()

    seen = driver.invoke(RunnableLambda(outer), 1, {"tags": ["t"], "callbacks": [handler, Tree()]})
    assert seen["tags"] == ["t"]
    assert parents["inner"][1] == parents["outer"][0]


def test_copy_context_keeps_async_functions_async():
    async def nested(value):
        await asyncio.sleep(0)
        return (await RunnableLambda(look).ainvoke(value))["tags"]

    def outer(value):
        wrapped = copy_context(nested)
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: asyncio.run(wrapped(value))).result()

    assert RunnableLambda(outer).invoke(1, {"tags": ["t"]}) == ["t"]


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"thread_id": 1}, 'under "configurable"'),
        ({"tag": ["x"]}, "did you mean 'tags'"),
        ({"tags": "x"}, "a list of strings"),
        ({"metadata": 3}, "a dict"),
        ({"recursion_limit": 0}, "from 1 up"),
        ({"max_concurrency": "many"}, "from 1 up"),
        ({"run_id": "nope"}, "a UUID"),
        ({"callbacks": [print]}, "cannot handle events"),
        (3, "A config is a dict"),
    ],
)
def test_a_wrong_config_is_refused(config, told, driver):
    for part in (RunnableLambda(str), RunnableLambda(str) | str.upper, RunnableParallel(a=str)):
        with pytest.raises(InvalidConfig, match=told):
            driver.invoke(part, 1, config)
        with pytest.raises(InvalidConfig, match=told):
            driver.stream(part, 1, config)


def test_a_wrong_bound_config_is_refused_when_bound():
    with pytest.raises(InvalidConfig, match="did you mean 'tags'"):
        RunnableLambda(str).with_config(tagz=["x"])


def test_ensure_config_has_every_usual_key():
    assert set(ensure_config()) == {"tags", "metadata", "callbacks", "recursion_limit", "configurable"}
    assert ensure_config({"tags": ["x"]})["tags"] == ["x"]


CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "tags": st.lists(st.sampled_from("abc"), max_size=3, unique=True),
        "metadata": st.dictionaries(st.sampled_from("xy"), st.integers(), max_size=2),
        # A key is a dict for everybody or for nobody: a number between two dicts takes the first one's place for good.
        "configurable": st.fixed_dictionaries(
            {}, optional={"x": st.integers(), "y": st.dictionaries(st.sampled_from("pq"), st.integers(), max_size=2)}
        ),
        "max_concurrency": st.none() | st.integers(1, 5),
        "run_name": st.sampled_from(["one", "two"]),
    },
)


@given(CONFIGS, CONFIGS, CONFIGS)
def test_merging_is_associative_and_changes_no_argument(a, b, c):
    before = copy.deepcopy((a, b, c))
    assert merge_configs(merge_configs(a, b), c) == merge_configs(a, merge_configs(b, c)) == merge_configs(a, b, c)
    assert (a, b, c) == before
    assert merge_configs(a, a) == merge_configs(a)
    assert merge_configs(None, a, {}) == merge_configs(a)


def test_the_nearest_key_ends_the_sentence():
    with pytest.raises(InvalidConfig) as caught:
        RunnableLambda(str.upper).invoke("x", {"tagz": ["a"]})
    assert caught.value.message == "Unknown config key 'tagz'; did you mean 'tags'?"
