"""What handlers are told: the tree of runs, in both colours, and what handlers may and may not do."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import os
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from runwell import copy_context, create_agent
from runwell.observe import (
    CURRENT,
    BaseCallbackHandler,
    DecisionLog,
    adispatch_custom_event,
    dispatch_custom_event,
    observing,
)
from runwell.observe.run import open_run, record_decision
from runwell.runnables import RunnableGenerator, RunnableLambda, RunnableParallel, RunnablePassthrough
from runwell.testing import FakeChatModel


class Tree(BaseCallbackHandler):
    """Records the runs it is told of: name, parent's name, and how each ended."""

    def __init__(self):
        self.names = {}
        self.parents = {}
        self.log = []
        self.lock = threading.Lock()

    def on_chain_start(self, serialized, inputs, *, run_id, parent_run_id=None, tags=None, metadata=None, **kwargs):
        with self.lock:
            assert run_id not in self.names
            self.names[run_id] = kwargs["name"]
            self.parents[kwargs["name"]] = self.names.get(parent_run_id, parent_run_id)
            self.log.append(("start", kwargs["name"]))

    def on_chain_end(self, outputs, *, run_id, parent_run_id=None, **kwargs):
        self.log.append(("end", self.names[run_id], outputs))

    def on_chain_error(self, error, *, run_id, parent_run_id=None, **kwargs):
        self.log.append(("error", self.names[run_id], type(error).__name__))


class AsyncTree(Tree):
    """The same, its methods `async`, each giving way before it records."""

    async def on_chain_start(self, serialized, inputs, **kwargs):
        await asyncio.sleep(0)
        super().on_chain_start(serialized, inputs, **kwargs)

    async def on_chain_end(self, outputs, **kwargs):
        await asyncio.sleep(0)
        super().on_chain_end(outputs, **kwargs)


@pytest.fixture(params=[Tree, AsyncTree], ids=["plain-handler", "async-handler"])
def tree(request):
    return request.param()


def named(name, function=lambda value: value):
    return RunnableLambda(function, name=name)


def test_a_chain_is_told_as_a_tree_in_order(tree, driver):
    made = (named("a", lambda v: v + 1) | named("b", lambda v: v * 2)).pipe(name="whole")
    assert driver.invoke(made, 1, {"callbacks": [tree]}) == 4
    assert tree.parents == {"whole": None, "a": "whole", "b": "whole"}
    assert tree.log == [
        ("start", "whole"),
        ("start", "a"),
        ("end", "a", 2),
        ("start", "b"),
        ("end", "b", 4),
        ("end", "whole", 4),
    ]


def words(text):
    for word in text.split():
        yield word + " "


def test_a_stream_is_told_with_its_whole_output(tree, driver):
    made = RunnableLambda(words) | RunnableGenerator(lambda chunks: (c.upper() for c in chunks), name="upper")
    assert driver.stream(made, "a b", {"callbacks": [tree]}) == ["A ", "B "]
    assert tree.parents == {"RunnableSequence": None, "words": "RunnableSequence", "upper": "RunnableSequence"}
    assert ("end", "words", "a b ") in tree.log
    assert tree.log[-1] == ("end", "RunnableSequence", "A B ")


def test_nested_calls_of_any_colour_have_the_right_parent(tree, driver):
    leaf = named("leaf")

    async def through_async(value):
        return await named("inner").ainvoke(value)

    def nested(value):
        return named("middle", lambda v: leaf.invoke(v)).invoke(value)

    made = RunnableParallel(a=nested, b=through_async, c=RunnablePassthrough()).pipe(named("last"), name="whole")
    driver.invoke(made, 1, {"callbacks": [tree]})
    parents = tree.parents
    assert parents["leaf"] == "middle"
    assert parents["middle"] == "nested"
    assert parents["inner"] == "through_async"
    assert parents["nested"] == parents["through_async"] == "RunnableParallel<a,b,c>"
    assert parents["last"] == "whole"


def test_a_thousand_nested_runs_are_all_attached(driver):
    """The inner call is not handed a config: none may be lost."""
    tree = Tree()
    rewriter = named("rewriter")
    whole = RunnableLambda(lambda value: rewriter.invoke(value), name="whole")
    ids = {}

    class Count(BaseCallbackHandler):
        def on_chain_start(self, serialized, inputs, *, run_id, parent_run_id=None, **kwargs):
            ids[run_id] = (kwargs["name"], parent_run_id)

    driver.batch(whole, list(range(1000)), {"callbacks": [Count()], "max_concurrency": 8})
    inner = [parent for name, parent in ids.values() if name == "rewriter"]
    assert len(inner) == 1000
    assert all(ids[parent][0] == "whole" for parent in inner)
    assert len(set(inner)) == 1000
    assert tree.log == []


def test_failures_are_told(driver):
    tree = Tree()

    def broken(value):
        raise KeyError(value)

    with pytest.raises(KeyError):
        driver.invoke(named("a") | broken, 1, {"callbacks": [tree]})
    assert ("error", "broken", "KeyError") in tree.log
    assert tree.log[-1] == ("error", "RunnableSequence", "KeyError")


def test_a_stream_closed_early_is_told_as_closed(driver):
    tree = Tree()
    driver.stream(RunnableLambda(words), "a b c", {"callbacks": [tree]}, take=1)
    assert tree.log == [("start", "words"), ("error", "words", "StreamClosed")]


def test_run_05_children_of_a_fallback_have_its_id(tree, driver):
    def fails(value):
        raise ValueError("primary")

    made = named("primary", fails).with_fallbacks([named("backup") | named("after")])
    made.name = "fallback"
    for call in (driver.invoke, driver.stream):
        tree.names.clear()
        tree.parents.clear()
        call(made, 1, {"callbacks": [tree]})
        assert tree.parents == {
            "fallback": None,
            "primary": "fallback",
            "RunnableSequence": "fallback",
            "backup": "RunnableSequence",
            "after": "RunnableSequence",
        }


def test_run_05_the_same_for_every_wrapper(tree, driver):
    inner = named("inner")
    for wrapper in (
        inner.with_retry(),
        inner.map() if driver.colour else inner,
        RunnablePassthrough.assign(x=inner),
        RunnableLambda(lambda value: inner),
    ):
        wrapper = wrapper.with_config(run_name="wrapper")
        for call in (driver.invoke, driver.stream):
            tree.names.clear()
            tree.parents.clear()
            call(wrapper, {"v": 1} if "assign" in repr(wrapper) else [1], {"callbacks": [tree]})
            above = tree.parents["inner"]
            while tree.parents[above] is not None:
                above = tree.parents[above]
            assert above == "wrapper"


class Payloads(BaseCallbackHandler):
    """A long-lived handler that keeps nothing."""

    def __init__(self):
        self.seen = 0

    def on_chain_end(self, outputs, **kwargs):
        self.seen += len(outputs)


def test_run_08_memory_does_not_grow_with_the_number_of_runs(driver, tmp_path):
    from runwell.observe import JsonlTrace, UsageMetadataCallbackHandler

    trace = JsonlTrace(tmp_path / "trace.jsonl", redact=lambda value: "...")
    handlers = [Payloads(), UsageMetadataCallbackHandler(), trace]
    alive = []

    class Payload(str):
        __slots__ = ("__weakref__",)

    import weakref

    def grow(value):
        made = Payload("x" * 1000)
        alive.append(weakref.ref(made))
        return made

    made = RunnableLambda(grow) | RunnableLambda(lambda text: text)

    def some(count):
        for _ in range(count):
            driver.invoke(made, "x", {"callbacks": handlers})
        gc.collect()
        return sum(1 for each in alive if each() is not None)

    assert some(20) <= 1
    assert some(100) <= 1
    trace.close()


def test_a_failing_handler_is_logged_and_breaks_nothing(driver, caplog):
    class Broken(BaseCallbackHandler):
        def on_chain_start(self, *args, **kwargs):
            raise RuntimeError("handler")

        async def on_chain_end(self, *args, **kwargs):
            raise RuntimeError("async handler")

    with caplog.at_level(logging.ERROR, "runwell.observe"):
        assert driver.invoke(named("a"), 1, {"callbacks": [Broken()]}) == 1
    assert [record.name for record in caplog.records] == ["runwell.observe"] * 2
    assert "handler" in caplog.records[0].message
    assert "async handler" in caplog.records[1].message


def test_a_handler_may_ask_to_stop_the_run(driver):
    class Strict(BaseCallbackHandler):
        raise_error = True

        def on_chain_start(self, *args, **kwargs):
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        driver.invoke(named("a"), 1, {"callbacks": [Strict()]})
    assert CURRENT.get() is None


def test_async_handlers_run_on_the_callers_loop_even_for_plain_steps_in_threads():
    loops = set()

    class Where(BaseCallbackHandler):
        async def on_chain_start(self, *args, **kwargs):
            loops.add(asyncio.get_running_loop())

    async def main():
        inner = named("inner")
        await (named("a") | (lambda value: inner.invoke(value))).ainvoke(1, {"callbacks": [Where()]})
        return asyncio.get_running_loop()

    assert loops == {asyncio.run(main())}


def test_a_plain_call_in_async_code_does_not_wait_for_the_loop_it_holds_up():
    tree = AsyncTree()
    b_began = threading.Event()

    class Began(BaseCallbackHandler):
        def on_chain_start(self, *args, **kwargs):
            if kwargs["name"] == "b":
                b_began.set()

    def first(value):
        assert b_began.wait(10)
        return value

    both = RunnableParallel(a=named("a", first), b=named("b", lambda v: named("c").invoke(v)))

    async def outer(value):
        return both.invoke(value)

    async def main():
        return await RunnableLambda(outer).ainvoke(1, {"callbacks": [Began(), tree]})

    assert asyncio.run(main()) == {"a": 1, "b": 1}
    assert tree.parents["c"] == "b"
    assert tree.log[-1] == ("end", "outer", {"a": 1, "b": 1})


def test_observing_attaches_to_everything_inside(driver):
    tree = Tree()
    with observing(tree):
        driver.invoke(named("a") | named("b"), 1)
    driver.invoke(named("outside"), 1)
    assert tree.parents == {"RunnableSequence": None, "a": "RunnableSequence", "b": "RunnableSequence"}


def test_nothing_leaks_between_chunks():
    tree = Tree()
    seen = []
    for _ in RunnableLambda(words).stream("a b", {"callbacks": [tree]}):
        seen.append(CURRENT.get())
        named("consumer").invoke(1)
    assert seen == [None, None]
    assert list(tree.parents) == ["words"]

    async def main():
        async for _ in RunnableLambda(words).astream("a b", {"callbacks": [tree]}):
            seen.append(CURRENT.get())

    asyncio.run(main())
    assert seen == [None] * 4


def test_with_nobody_watching_no_run_is_opened():
    assert open_run("chain", "name", 1, None) is None
    assert open_run("chain", "name", 1, {}) is None
    silent = open_run("chain", "name", 1, {"tags": ["x"]})
    assert silent is not None
    assert silent.run_id is None


def test_own_events_reach_handlers_with_the_run_they_belong_to(driver):
    seen = []

    class Custom(BaseCallbackHandler):
        async def on_custom_event(self, name, data, *, run_id, tags=None, metadata=None, **kwargs):
            seen.append((name, data, tags))

    def plain(value):
        dispatch_custom_event("progress", value)
        return value

    async def aplain(value):
        await adispatch_custom_event("aprogress", value)
        assert seen[-1][0] == "aprogress" or driver.colour == "sync"
        return value

    driver.invoke(RunnableLambda(plain) | aplain, 1, {"callbacks": [Custom()], "tags": ["t"]})
    assert seen == [("progress", 1, ["t"]), ("aprogress", 1, ["t"])]
    dispatch_custom_event("outside", 1)
    assert len(seen) == 2


def test_run_ids_can_be_given(driver):
    from uuid import UUID

    seen = []

    class Ids(BaseCallbackHandler):
        def on_chain_start(self, serialized, inputs, *, run_id, **kwargs):
            seen.append(run_id)

    given = UUID(int=7)
    driver.invoke(named("a"), 1, {"callbacks": [Ids()], "run_id": given})
    driver.invoke(named("a"), 1, {"callbacks": [Ids()], "run_id": str(given)})
    assert seen == [given, given]


def test_observing_does_not_load_asyncio_for_plain_code():
    import subprocess

    code = (
        "import sys\n"
        "from runwell.observe import BaseCallbackHandler\n"
        "from runwell.runnables import RunnableLambda\n"
        "assert (RunnableLambda(str) | str.upper).invoke(1, {'callbacks': [BaseCallbackHandler()]}) == '1'\n"
        "for name in ('asyncio', 'anyio', 'httpx', 'tenacity', 'pydantic', 'rich'):\n"
        "    assert name not in sys.modules, name\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_task_groups_threads_and_executors_of_ones_own_stay_in_the_run(tree):
    """Without a config being handed on: by asyncio itself, and by `copy_context` where Python carries nothing."""

    async def outer(text):
        async with asyncio.TaskGroup() as group:
            group.create_task(named("in a task").ainvoke(text))
            group.create_task(asyncio.to_thread(named("in a thread").invoke, text))
        with ThreadPoolExecutor(1) as pool:
            await asyncio.wrap_future(pool.submit(copy_context(named("in an executor").invoke), text))
        return text

    asyncio.run(named("outer", outer).ainvoke("x", {"callbacks": [tree], "tags": ["t"]}))
    assert tree.parents == {"outer": None, **dict.fromkeys(("in a task", "in a thread", "in an executor"), "outer")}


def test_a_thread_of_ones_own_may_call_async_code_while_a_loop_of_ours_waits_for_it():
    """Plain code calls an `async` step, which calls plain code, which waits for a thread: that is not to need the loop
    that is held up."""
    told = []

    async def inner(value):
        await asyncio.sleep(0)
        return value + 1

    async def outer(value):
        found = []
        call = copy_context(RunnableLambda(inner).invoke)
        thread = threading.Thread(target=lambda: found.append(call(value)), daemon=True)
        thread.start()
        thread.join(5)
        told.extend(found)
        return value

    assert RunnableLambda(outer).invoke(1, {"callbacks": [AsyncTree()]}) == 1
    assert told == [2]


def test_colours_may_change_any_number_of_times_inside_each_other():
    """Plain code on a loop of ours waits for async code, a plain step of which, in a thread, calls async code again."""
    inner = """
import asyncio
from runwell.runnables import RunnableLambda

async def deep(x):
    await asyncio.sleep(0)
    return x + 1

async def middle(x):
    return await RunnableLambda(lambda x: RunnableLambda(deep).invoke(x)).ainvoke(x)

async def outer(x):
    return RunnableLambda(middle).invoke(x)

print(RunnableLambda(outer).invoke(1))
"""
    done = subprocess.run([sys.executable, "-c", inner], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout == "2\n"


def test_case_4_a_second_model_called_inside_a_function_is_in_the_trace_and_in_the_count(driver):
    """1,000 requests of an answer of 1,200 tokens and a rewriting of 800: the dashboard says 2,000 each."""
    counted = []

    class Tokens(BaseCallbackHandler):
        def on_chain_end(self, outputs, **kwargs):
            if isinstance(outputs, dict):
                counted.append(outputs["tokens"])

    rewriter = named("rewriter", lambda text: {"text": text, "tokens": 800})

    def enrich(text):
        return rewriter.invoke(text)["text"]

    answer = named("answer", lambda text: {"text": text, "tokens": 1200})
    chain = named("enrich", enrich) | answer | (lambda told: told["text"])
    driver.batch(chain, [str(number) for number in range(1000)], {"callbacks": [Tokens()], "max_concurrency": 8})
    assert sum(counted) == 1000 * 2000
    assert counted.count(800) == 1000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_run_ids_are_not_repeated_by_a_seed_or_in_a_forked_process():
    program = """
import os, random
from uuid import UUID
from runwell.observe.ids import new_run_id
random.seed(0)
print(new_run_id(), flush=True)
random.seed(0)
child = os.fork()
if child:
    os.waitpid(child, 0)  # one after the other, so that their lines are whole
print(new_run_id(), UUID(new_run_id()).version, flush=True)
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    ids = [each for each in told if each != "4"]
    assert (len(ids), len(set(ids)), len(told)) == (3, 3, 5)


def test_a_handler_that_wants_no_runs_is_told_of_the_rest_in_its_run(driver):
    class Few:
        wants_runs = False

        def __init__(self):
            self.told = []

        def handle(self, event):
            self.told.append(event)

    def step(value):
        record_decision("D2", value, "because", "code")
        dispatch_custom_event("mine", value)
        return value

    few, all_ = Few(), Few()
    all_.wants_runs = True
    chain = RunnableLambda(step, name="step") | RunnableLambda(len)
    driver.invoke(chain, "x", {"callbacks": [few]})
    assert [type(event).__name__ for event in few.told] == ["Decision", "Custom"]
    decision = few.told[0]
    assert (decision.run.name, decision.run.parent_id) == ("step", decision.run.parent.run_id)
    assert decision.run.parent.started <= decision.run.started <= decision.time

    few.told.clear()
    driver.invoke(chain, "x", {"callbacks": [few, all_]})  # where another wants them both are told
    assert len(few.told) == len(all_.told) == 8


class Big:
    """Something large that a run is about."""


@pytest.mark.parametrize("watched", [True, False], ids=["watched", "with-a-config"])
@pytest.mark.parametrize("how", ["invoke", "stream", "failure"])
def test_who_keeps_a_run_keeps_nothing_of_what_it_was_about(watched, how, driver):
    """A config that a function was given, or a context copied in it for a task in the background, outlives a run."""
    kept = []

    def keep(value, config):
        kept.append((config, CURRENT.get(), contextvars.copy_context()))
        if how == "failure":
            raise ValueError(value)
        return "kept"

    chain = RunnableLambda(lambda value: value).with_config(tags=["first"]) | RunnableLambda(keep)
    value = Big()
    refs = [weakref.ref(value), weakref.ref(chain)]
    config = {"callbacks": [BaseCallbackHandler()]} if watched else {"tags": ["on the way"]}
    if how == "stream":
        assert driver.stream(chain, value, config) == ["kept"]
    else:
        try:
            driver.invoke(chain, value, config)
        except ValueError as error:
            error.__traceback__ = None
    del value, chain
    gc.collect()
    assert kept
    assert [ref() for ref in refs] == [None, None]


def test_decisions_do_not_keep_what_their_runs_were_given(driver):
    """An agent's decisions, kept for a long time, hold no conversations."""
    log = DecisionLog()
    agent = create_agent(FakeChatModel(["Hello."]))
    driver.invoke(agent, {"messages": "Hi."}, {"callbacks": [log, Tree()]})
    run, runs = log.decisions[0].run, []
    while run is not None:
        runs.append(run)
        run = run.parent
    assert runs
    assert [run.inputs for run in runs] == [None] * len(runs)
