"""Entrypoints and tasks: what is recorded is not done twice, in both colours of caller, function and task."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from concurrent.futures import as_completed
from typing import Any, TypedDict

import pytest

from runwell.errors import (
    CallOrderChanged,
    GraphError,
    InvalidConfig,
    InvalidInput,
    NoCheckpointer,
    NodeTimeoutError,
    RunningLoop,
    UnserializableType,
)
from runwell.graph import (
    END,
    START,
    CachePolicy,
    Command,
    RetryPolicy,
    Runtime,
    StateGraph,
    TimeoutPolicy,
    entrypoint,
    interrupt,
    record,
    task,
)
from runwell.persistence import InMemorySaver, InMemoryStore
from runwell.persistence.caches import InMemoryCache

PAUSED = "__interrupt__"


def workflow(colour: str, plain: Any, coroutine: Any, **settings: Any) -> Any:
    """An entrypoint of one colour: the same program, written with `.result()` or with `await`."""
    return entrypoint(**settings)(plain if colour == "plain" else coroutine)


@pytest.fixture(params=["plain", "async"])
def colour(request: pytest.FixtureRequest) -> Any:
    """Of the entrypoint's function; the caller's is `run`."""
    return request.param


class Ran:
    """What tasks have done, in order."""

    def __init__(self) -> None:
        self.what: list[Any] = []

    def __call__(self, one: Any) -> None:
        self.what.append(one)

    @property
    def counted(self) -> Counter[Any]:
        return Counter(self.what)


@pytest.fixture
def ran() -> Ran:
    return Ran()


def question(output: Any) -> Any:
    [asked] = output[PAUSED]
    return asked.value


# -- results that are kept


def test_tasks_of_both_colours_run_once_around_a_pause(run: Any, colour: str, thread: Any, ran: Ran) -> None:
    @task
    def double(n: int) -> int:
        ran(("double", n))
        return n * 2

    @task
    async def triple(n: int) -> int:
        ran(("triple", n))
        return n * 3

    def plain(n: int) -> Any:
        two, three = double(n), triple(n)
        answer = interrupt("go on?")
        return [two.result(), three.result(), double(answer).result()]

    async def coroutine(n: int) -> Any:
        two, three = double(n), triple(n)
        answer = interrupt("go on?")
        return [await two, await three, await double(answer)]

    flow = workflow(colour, plain, coroutine, checkpointer=InMemorySaver())
    assert question(run.invoke(flow, 2, thread)) == "go on?"
    assert run.invoke(flow, Command(resume=10), thread) == [4, 6, 20]
    assert ran.counted == {("double", 2): 1, ("triple", 2): 1, ("double", 10): 1}


def test_tasks_run_side_by_side(run: Any, colour: str) -> None:
    here = threading.Barrier(3, timeout=10)

    @task
    def meet(n: int) -> int:
        here.wait()
        return n

    def plain(n: int) -> Any:
        return [each.result() for each in [meet(i) for i in range(n)]]

    async def coroutine(n: int) -> Any:
        return await asyncio.gather(*(meet(i) for i in range(n)))

    assert run.invoke(workflow(colour, plain, coroutine), 3) == [0, 1, 2]


def test_as_completed_takes_the_futures_of_tasks(run: Any) -> None:
    @task
    async def same(n: int) -> int:
        return n

    @entrypoint()
    def flow(n: int) -> Any:
        return sorted(each.result() for each in as_completed([same(i) for i in range(n)]))

    assert run.invoke(flow, 3) == [0, 1, 2]


def test_max_concurrency_bounds_the_tasks_of_an_entrypoint(run: Any) -> None:
    now, most, lock = 0, 0, threading.Lock()

    @task
    def work(n: int) -> int:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.005)
        with lock:
            now -= 1
        return n

    @entrypoint()
    def flow(n: int) -> Any:
        return [each.result() for each in [work(i) for i in range(n)]]

    assert run.invoke(flow, 8, {"max_concurrency": 2}) == list(range(8))
    assert most == 2


def test_after_a_failure_no_task_begins_that_was_waiting_for_its_turn(run: Any, ran: Ran) -> None:
    @task
    def work(n: int) -> int:
        ran(n)
        if n == 0:
            raise ValueError("first")
        time.sleep(0.01)
        return n

    @entrypoint()
    def flow(n: int) -> Any:
        return [each.result() for each in [work(i) for i in range(n)]]

    with pytest.raises(ValueError, match="first"):
        run.invoke(flow, 50, {"max_concurrency": 1})
    assert len(ran.what) < 5


def test_a_failed_run_goes_on_behind_the_tasks_that_ended(run: Any, colour: str, thread: Any, ran: Ran) -> None:
    @task
    def first() -> str:
        ran("first")
        return "one"

    @task
    def flaky() -> str:
        ran("flaky")
        if ran.counted["flaky"] == 1:
            raise ValueError("not yet")
        return "two"

    def plain(given: str) -> Any:
        return first().result() + flaky().result()

    async def coroutine(given: str) -> Any:
        return await first() + await flaky()

    flow = workflow(colour, plain, coroutine, checkpointer=InMemorySaver())
    with pytest.raises(ValueError, match="not yet") as caught:
        run.invoke(flow, "x", thread)
    notes = " / ".join(caught.value.__notes__)
    assert "in task 'flaky'" in notes
    assert "in node" in notes
    state = run.state(flow, thread)
    assert [(one.name, one.error) for one in state.tasks if one.name == "flaky"] == [("flaky", "ValueError: not yet")]
    assert run.invoke(flow, None, thread) == "onetwo"
    assert ran.counted == {"first": 1, "flaky": 2}
    assert run.state(flow, thread).tasks == ()


def test_a_slow_sibling_of_a_failed_task_is_waited_for_and_kept(run: Any, colour: str, thread: Any, ran: Ran) -> None:
    failed = threading.Event()

    @task
    def slow() -> str:
        assert failed.wait(10)
        ran("slow")
        return "slow"

    @task
    def broken() -> str:
        ran("broken")
        failed.set()
        if ran.counted["broken"] == 1:
            raise ValueError("broken")
        return "mended"

    def plain(given: str) -> Any:
        other, this = slow(), broken()
        return this.result() + other.result()

    async def coroutine(given: str) -> Any:
        other, this = slow(), broken()
        return await this + await other

    flow = workflow(colour, plain, coroutine, checkpointer=InMemorySaver())
    with pytest.raises(ValueError, match="broken"):
        run.invoke(flow, "x", thread)
    assert run.invoke(flow, None, thread) == "mendedslow"
    assert ran.counted == {"slow": 1, "broken": 2}


def test_an_error_that_nobody_asked_for_fails_the_run(run: Any, colour: str) -> None:
    @task
    def broken() -> None:
        raise ValueError("nobody listens")

    def plain(given: str) -> str:
        broken()
        return given

    async def coroutine(given: str) -> str:
        broken()
        return given

    with pytest.raises(ValueError, match="nobody listens"):
        run.invoke(workflow(colour, plain, coroutine), "x")


def test_an_error_that_the_workflow_handles_is_handled(run: Any, colour: str) -> None:
    @task
    def broken() -> str:
        raise ValueError("no")

    def plain(given: str) -> str:
        try:
            return broken().result()
        except ValueError as error:
            return f"handled {error}"

    async def coroutine(given: str) -> str:
        try:
            return await broken()
        except ValueError as error:
            return f"handled {error}"

    assert run.invoke(workflow(colour, plain, coroutine), "x") == "handled no"


def test_the_traceback_of_a_task_leads_to_its_line(run: Any) -> None:
    import traceback

    @task
    def broken() -> str:
        raise ValueError("no")

    @entrypoint()
    def flow(given: str) -> str:
        return broken().result()

    with pytest.raises(ValueError, match="no") as caught:
        run.invoke(flow, "x")
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[-1].name == "broken"
    assert any(frame.name == "flow" for frame in frames)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_paused_run_of_any_durability_keeps_its_tasks(run: Any, durability: str, thread: Any, ran: Ran) -> None:
    @task
    def count() -> int:
        ran("count")
        return len(ran.what)

    @entrypoint(checkpointer=InMemorySaver())
    def flow(given: str) -> Any:
        return [count().result(), count().result(), interrupt("?")]

    run.invoke(flow, "x", thread, durability=durability)
    assert run.invoke(flow, Command(resume="a"), thread, durability=durability) == [1, 2, "a"]


@pytest.mark.parametrize("how", ["alone", "nested", "served"])
def test_int_16_a_recorded_task_runs_once_alone_nested_and_with_an_injected_saver(
    run: Any, how: str, thread: Any, ran: Ran
) -> None:
    """INT-16: a node runs a recorded task (a counter), then pauses: standalone, as a subgraph, saver given at run."""

    class State(TypedDict, total=False):
        n: int
        answer: str

    @task
    def count() -> int:
        ran("count")
        return len(ran.what)

    def node(state: State) -> State:
        n = count().result()
        kept = record("inside", lambda: ran("record") or "kept")
        assert kept == "kept"
        return {"n": n, "answer": interrupt("?")}

    inner = StateGraph(State).add_node(node).add_edge(START, "node").add_edge("node", END)
    saver = InMemorySaver()
    if how == "alone":
        graph = inner.compile(checkpointer=saver)
    elif how == "nested":
        outer = StateGraph(State).add_node("inner", inner.compile()).add_edge(START, "inner").add_edge("inner", END)
        graph = outer.compile(checkpointer=saver)
    else:
        graph = inner.compile().with_checkpointer(saver)
    run.invoke(graph, {"n": 0}, thread)
    assert run.invoke(graph, Command(resume="yes"), thread) == {"n": 1, "answer": "yes"}
    assert ran.counted == {"count": 1, "record": 1}


def test_int_15_a_list_that_a_task_changes_is_the_same_in_every_run(run: Any, colour: str, thread: Any) -> None:
    """INT-15: a task appends to its argument, then the workflow pauses; four tasks, resumed each time."""
    seen: list[list[list[str]]] = []

    @task
    def add(items: list[str], one: str) -> list[str]:
        items.append(one)
        return items

    def plain(given: str) -> Any:
        items, now = ["start"], []
        for n in range(4):
            items_after = add(items, f"item {n}").result()
            now.append(list(items))
            seen.append([*now, items_after])
            interrupt(n)
            items = items_after if n % 2 else items
        return items

    async def coroutine(given: str) -> Any:
        items, now = ["start"], []
        for n in range(4):
            items_after = await add(items, f"item {n}")
            now.append(list(items))
            seen.append([*now, items_after])
            interrupt(n)
            items = items_after if n % 2 else items
        return items

    flow = workflow(colour, plain, coroutine, checkpointer=InMemorySaver())
    run.invoke(flow, "x", thread)
    for n in range(3):
        assert question(run.invoke(flow, Command(resume="ok"), thread)) == n + 1
    assert run.invoke(flow, Command(resume="ok"), thread) == ["start", "item 1", "item 3"]
    for length in range(2, 6):  # however often it ran, it saw the same
        alike = [each for each in seen if len(each) == length]
        assert alike and all(each == alike[0] for each in alike)


def test_a_result_is_the_same_object_kind_in_the_first_run_and_in_the_next(run: Any, thread: Any) -> None:
    """What a task keeps a hold of after it returned does not reach its caller."""
    held: list[list[int]] = []

    @task
    def make() -> list[int]:
        held.append([1])
        return held[-1]

    @entrypoint(checkpointer=InMemorySaver())
    def flow(given: str) -> Any:
        made = make().result()
        held[-1].append(99)
        made.append(2)
        interrupt("?")
        return made

    run.invoke(flow, "x", thread)
    assert run.invoke(flow, Command(resume="ok"), thread) == [1, 2]


def test_what_cannot_be_copied_is_passed_as_it_is(run: Any, thread: Any) -> None:
    class Client:
        calls = 0

    client = Client()

    @task
    def fetch(client: Client, n: int) -> int:
        client.calls += 1
        return n

    @entrypoint(checkpointer=InMemorySaver())
    def flow(n: int) -> Any:
        got = fetch(client, n).result()
        interrupt("?")
        return got

    run.invoke(flow, 4, thread)
    assert run.invoke(flow, Command(resume="ok"), thread) == 4
    assert client.calls == 1


def test_a_result_that_cannot_be_saved_is_refused_by_name(run: Any, thread: Any) -> None:
    @task
    def lock() -> Any:
        return threading.Lock()

    @entrypoint(checkpointer=InMemorySaver())
    def flow(given: str) -> Any:
        lock().result()

    with pytest.raises(UnserializableType, match="result of task lock"):
        run.invoke(flow, "x", thread)


# -- the same calls, in the same order


def test_other_tasks_than_before_are_refused(run: Any, thread: Any, ran: Ran) -> None:
    turned = False

    @task
    def one() -> str:
        ran("one")
        return "one"

    @task
    def two() -> str:
        ran("two")
        return "two"

    @entrypoint(checkpointer=InMemorySaver())
    def flow(given: str) -> Any:
        got = [each().result() for each in ([two] if turned else [one])]
        interrupt("?")
        return got

    run.invoke(flow, "x", thread)
    turned = True
    with pytest.raises(CallOrderChanged, match=r"task 'one' was called, and now 'two' is") as caught:
        run.invoke(flow, Command(resume="ok"), thread)
    assert "new input" in caught.value.hint
    assert ran.counted == {"one": 1}


def test_other_arguments_than_before_are_refused_unless_the_task_says_they_may_differ(run: Any, thread: Any) -> None:
    given = iter(range(10))

    def same(n: int) -> int:
        return n

    strict, loose = task(same), task(check_arguments=False)(same)
    for kind in (strict, loose):

        @entrypoint(checkpointer=InMemorySaver())
        def flow(x: str, kind: Any = kind, /) -> Any:
            got = kind(next(given)).result()
            interrupt("?")
            return got

        run.invoke(flow, "x", thread)
        if kind is strict:
            with pytest.raises(CallOrderChanged, match="other arguments"):
                run.invoke(flow, Command(resume="ok"), thread)
        else:
            assert run.invoke(flow, Command(resume="ok"), thread) == 2


def test_the_same_calls_in_another_order_get_their_own_results(run: Any, thread: Any, ran: Ran) -> None:
    """As when they follow the order of a set of texts, which differs from process to process."""
    order = ["a", "b", "c"]

    @task
    def upper(text: str) -> str:
        ran(text)
        return text.upper()

    @entrypoint(checkpointer=InMemorySaver())
    def flow(given: str) -> Any:
        got = {text: upper(text).result() for text in order}
        interrupt("?")
        return got

    run.invoke(flow, "x", thread)
    order.reverse()
    assert run.invoke(flow, Command(resume="ok"), thread) == {"a": "A", "b": "B", "c": "C"}
    assert ran.counted == {"a": 1, "b": 1, "c": 1}


def test_pipelines_side_by_side_number_their_own_calls(run: Any, thread: Any, ran: Ran) -> None:
    """However the two interleave, in the first run and in the next."""
    first_run = True

    @task
    async def step(who: str, n: int) -> str:
        ran((who, n))
        if first_run and who == "a":
            await asyncio.sleep(0.01)
        return f"{who}{n}"

    async def pipeline(who: str) -> list[str]:
        got = [await step(who, n) for n in range(3)]
        if who == "b":
            interrupt("?")
        return [*got, await step(who, 3)]

    @entrypoint(checkpointer=InMemorySaver())
    async def flow(given: str) -> Any:
        return await asyncio.gather(pipeline("a"), pipeline("b"), return_exceptions=False)

    run.invoke(flow, "x", thread)
    first_run = False
    assert run.invoke(flow, Command(resume="ok"), thread) == [["a0", "a1", "a2", "a3"], ["b0", "b1", "b2", "b3"]]
    assert set(ran.counted.values()) == {1}


def test_random_ids_of_messages_do_not_count_as_other_arguments(run: Any, thread: Any) -> None:
    from runwell.messages import AIMessage, HumanMessage, add_messages

    @task
    def answer(messages: list[Any]) -> AIMessage:
        return AIMessage(f"{len(messages)} heard")

    @entrypoint(checkpointer=InMemorySaver())
    def flow(text: str) -> Any:
        messages = add_messages([], [HumanMessage(text)])  # gives it an id of its own, another one each time
        messages = add_messages(messages, [answer(messages).result()])
        interrupt("?")
        return [message.text for message in add_messages(messages, [answer(messages).result()])]

    run.invoke(flow, "hi", thread)
    assert run.invoke(flow, Command(resume="ok"), thread) == ["hi", "1 heard", "2 heard"]


# -- questions in tasks


def test_int_05_06_questions_of_parallel_tasks_are_asked_together_and_each_answered_once(
    run: Any, colour: str, thread: Any, ran: Ran
) -> None:
    """INT-05, INT-06: only open questions are listed, and nothing runs again while one is open."""

    @task
    def ask(who: str) -> str:
        ran(f"begin {who}")
        answer = interrupt(who)
        ran(f"end {who}")
        return f"{who}: {answer}"

    @task
    def effect() -> None:
        ran("effect")

    def plain(given: str) -> Any:
        both = [ask("a"), ask("b")]
        effect()
        return [each.result() for each in both]

    async def coroutine(given: str) -> Any:
        both = [ask("a"), ask("b")]
        effect()
        return [await each for each in both]

    flow = workflow(colour, plain, coroutine, checkpointer=InMemorySaver())
    asked = {one.value: one.id for one in run.invoke(flow, "x", thread)[PAUSED]}
    assert set(asked) == {"a", "b"}
    assert {one.value for one in run.state(flow, thread).interrupts} == {"a", "b"}
    left = run.invoke(flow, Command(resume={asked["b"]: "yes"}), thread)
    assert question(left) == "a"
    assert ran.counted == {"begin a": 1, "begin b": 1, "effect": 1}
    assert run.invoke(flow, Command(resume={asked["a"]: "no"}), thread) == ["a: no", "b: yes"]
    assert ran.counted == {"begin a": 2, "begin b": 2, "end a": 1, "end b": 1, "effect": 1}


def test_int_07_a_validation_loop_in_a_task_asks_once_for_each_answer(run: Any, thread: Any, ran: Ran) -> None:
    """INT-07: answers `abc`, -1, 30: three resumes, each prompt shown once."""

    @task
    def ask_age() -> int:
        prompt = "age?"
        while True:
            answer = interrupt(prompt)
            if isinstance(answer, int) and answer > 0:
                return answer
            prompt = f"{answer!r} is no age"

    @entrypoint(checkpointer=InMemorySaver())
    def flow(given: str) -> Any:
        ran("flow")
        return ask_age().result()

    shown = [question(run.invoke(flow, "x", thread))]
    shown.append(question(run.invoke(flow, Command(resume="abc"), thread)))
    shown.append(question(run.invoke(flow, Command(resume=-1), thread)))
    assert run.invoke(flow, Command(resume=30), thread) == 30
    assert shown == ["age?", "'abc' is no age", "-1 is no age"]


def test_int_01_one_answer_serves_one_question(run: Any, thread: Any) -> None:
    """INT-01: two tasks after one another ask; each gets its own answer."""

    @task
    def ask(what: str) -> str:
        return interrupt(what)  # type: ignore[no-any-return]

    @entrypoint(checkpointer=InMemorySaver())
    def flow(given: str) -> Any:
        return [ask("q1").result(), ask("q2").result(), interrupt("q3")]

    assert question(run.invoke(flow, "x", thread)) == "q1"
    assert question(run.invoke(flow, Command(resume="x"), thread)) == "q2"
    assert question(run.invoke(flow, Command(resume="y"), thread)) == "q3"
    assert run.invoke(flow, Command(resume="z"), thread) == ["x", "y", "z"]


@pytest.mark.parametrize("where", ["workflow", "task"])
def test_int_09_the_same_pause_answered_twice_is_two_branches(run: Any, where: str, thread: Any, ran: Ran) -> None:
    """INT-09: what tasks made of the first answer is not taken for the second; what was before both is kept."""

    @task
    def before() -> int:
        ran("before")
        return 1

    @task
    def ask() -> bool:
        return bool(interrupt("allowed?"))

    @task
    def apply() -> int:
        ran("apply")
        return 1

    @entrypoint(checkpointer=InMemorySaver())
    def flow(given: str) -> Any:
        total = before().result()
        allowed = interrupt("allowed?") if where == "workflow" else ask().result()
        return total + apply().result() if allowed else total

    run.invoke(flow, "x", thread)
    paused = run.state(flow, thread).config
    assert run.invoke(flow, Command(resume=True), paused) == 2
    assert run.invoke(flow, Command(resume=False), paused) == 1
    assert ran.counted == {"before": 1, "apply": 1}


def test_int_10_going_back_before_a_question_asks_it_again(run: Any, thread: Any) -> None:
    """INT-10: replay from the checkpoint before the question, without an answer, pauses."""

    @task
    def use(answer: str) -> str:
        return f"used {answer}"

    @entrypoint(checkpointer=InMemorySaver())
    def flow(given: str) -> Any:
        return use(interrupt("?")).result()

    run.invoke(flow, "x", thread)
    start = run.state(flow, thread).config
    assert run.invoke(flow, Command(resume="a"), thread) == "used a"
    assert question(run.invoke(flow, None, start)) == "?"
    assert run.invoke(flow, Command(resume="b"), thread) == "used b"


def test_a_swallowed_question_of_a_task_still_pauses(run: Any, thread: Any) -> None:
    @task
    def ask() -> str:
        try:
            return interrupt("?")  # type: ignore[no-any-return]
        except BaseException:
            return "swallowed"

    @entrypoint(checkpointer=InMemorySaver())
    def flow(given: str) -> Any:
        try:
            return ask().result()
        except BaseException:
            return "swallowed too"

    assert question(run.invoke(flow, "x", thread)) == "?"
    assert run.invoke(flow, Command(resume="a"), thread) == "a"


def test_questions_of_tasks_need_a_checkpointer(run: Any) -> None:
    @task
    def ask() -> str:
        return interrupt("?")  # type: ignore[no-any-return]

    @entrypoint()
    def flow(given: str) -> Any:
        return ask().result()

    with pytest.raises(NoCheckpointer):
        run.invoke(flow, "x")
    assert run.invoke(flow, "x", answer_interrupts=lambda asked: f"{asked.value}!") == "?!"


def test_tasks_may_call_tasks_and_graphs(run: Any, colour: str, thread: Any, ran: Ran) -> None:
    class State(TypedDict, total=False):
        n: int

    def grow(state: State) -> State:
        ran("grow")
        return {"n": state["n"] + interrupt("by how much?")}

    graph = StateGraph(State).add_node(grow).add_edge(START, "grow").add_edge("grow", END).compile()

    @task
    def leaf(n: int) -> int:
        ran(f"leaf {n}")
        return n

    @task
    def branch(n: int) -> int:
        ran("branch")
        total = sum(each.result() for each in [leaf(i) for i in range(n)])
        return int(graph.invoke({"n": total})["n"])

    def plain(n: int) -> Any:
        return branch(n).result()

    async def coroutine(n: int) -> Any:
        return await branch(n)

    flow = workflow(colour, plain, coroutine, checkpointer=InMemorySaver())
    assert question(run.invoke(flow, 3, thread)) == "by how much?"
    assert run.invoke(flow, Command(resume=10), thread) == 13
    assert ran.counted == {"branch": 2, "grow": 2, "leaf 0": 1, "leaf 1": 1, "leaf 2": 1}


# -- retries, timeouts


def test_a_task_is_tried_again_as_its_policy_says(run: Any, ran: Ran) -> None:
    quick = RetryPolicy(max_attempts=3, initial_interval=0.001, retry_on=ValueError)

    @task(retry_policy=quick)
    def flaky(runtime: Runtime[Any]) -> int:
        ran(runtime.execution_info.attempt)
        if len(ran.what) < 3:
            raise ValueError
        return len(ran.what)

    @entrypoint()
    def flow(given: str) -> Any:
        return flaky().result()

    assert run.invoke(flow, "x") == 3
    assert ran.what == [1, 2, 3]


def test_an_entrypoint_that_is_tried_again_keeps_its_tasks(run: Any, ran: Ran) -> None:
    @task
    def count() -> list[int]:
        ran("count")
        return [len(ran.what)]

    @entrypoint(retry_policy=RetryPolicy(max_attempts=3, initial_interval=0.001, retry_on=ValueError))
    def flow(given: str) -> Any:
        got = count().result()
        ran("flow")
        if ran.counted["flow"] < 3:
            raise ValueError
        return got

    assert run.invoke(flow, "x") == [1]
    assert ran.counted == {"count": 1, "flow": 3}


def test_a_task_that_takes_too_long_is_given_up(run: Any, colour: str) -> None:
    @task(timeout=0.05)
    async def hang() -> None:
        await asyncio.sleep(60)

    def plain(given: str) -> Any:
        return hang().result()

    async def coroutine(given: str) -> Any:
        return await hang()

    with pytest.raises(NodeTimeoutError, match="hang"):
        run.invoke(workflow(colour, plain, coroutine), "x")


def test_an_entrypoint_that_takes_too_long_stops_its_tasks(run: Any) -> None:
    stopped = threading.Event()

    @task
    async def hang() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    @entrypoint(timeout=0.1)
    async def flow(given: str) -> Any:
        return await hang()

    with pytest.raises(NodeTimeoutError, match="flow"):
        run.invoke(flow, "x")
    assert stopped.wait(10)


def test_a_task_that_gives_no_sign_of_life_is_given_up(run: Any) -> None:
    @task(timeout=TimeoutPolicy(idle_timeout=0.2))
    async def work(runtime: Runtime[Any], beats: int) -> str:
        for _ in range(beats):
            await asyncio.sleep(0.05)
            runtime.heartbeat()
        if beats < 3:
            await asyncio.sleep(60)
        return "done"

    @entrypoint()
    async def flow(beats: int) -> Any:
        return await work(beats=beats)

    assert run.invoke(flow, 6) == "done"
    with pytest.raises(NodeTimeoutError, match="sign of life"):
        run.invoke(flow, 1)


# -- caches


def test_a_cached_task_gives_its_result_in_other_runs(run: Any, ran: Ran) -> None:
    @task(cache_policy=CachePolicy())
    def double(n: int, by: int = 2) -> int:
        ran((n, by))
        return n * by

    @entrypoint(cache=InMemoryCache())
    def flow(n: int) -> Any:
        return [double(n).result(), double(n, 2).result(), double(n=n).result(), double(n, by=3).result()]

    assert run.invoke(flow, 2) == [4, 4, 4, 6]
    assert run.invoke(flow, 2) == [4, 4, 4, 6]
    assert ran.counted[(2, 3)] == 1
    assert sum(ran.counted.values()) <= 4
    run.invoke(flow, 3)
    assert ran.counted[(3, 3)] == 1


def test_the_key_of_a_cached_task_is_made_from_its_arguments(run: Any, ran: Ran) -> None:
    @task(cache_policy=CachePolicy(key_func=lambda text: text.lower()))
    def shout(text: str) -> str:
        ran(text)
        return text.upper()

    @entrypoint(cache=InMemoryCache())
    def flow(text: str) -> Any:
        return shout(text).result()

    assert [run.invoke(flow, text) for text in ("a", "A")] == ["A", "A"]
    assert ran.what == ["a"]


def test_a_cached_entrypoint_knows_its_input_and_what_came_before(run: Any, ran: Ran) -> None:
    @entrypoint(cache=InMemoryCache(), cache_policy=CachePolicy(), checkpointer=InMemorySaver())
    def flow(n: int, *, previous: int | None = None) -> Any:
        ran((n, previous))
        return n + (previous or 0)

    for name in ("one", "two"):
        config = {"configurable": {"thread_id": name}}
        assert [run.invoke(flow, 1, config), run.invoke(flow, 1, config)] == [1, 2]
    assert ran.what == [(1, None), (1, 1)]


# -- entrypoints


def test_previous_is_what_was_returned_or_saved_last_on_the_thread(run: Any, colour: str, thread: Any) -> None:
    def plain(n: int, *, previous: Any = None) -> Any:
        if n == 3:
            return entrypoint.final(value=previous, save="saved")
        return [n, previous]

    async def coroutine(n: int, *, previous: Any = None) -> Any:
        return plain(n, previous=previous)

    flow = workflow(colour, plain, coroutine, checkpointer=InMemorySaver())
    assert run.invoke(flow, 1, thread) == [1, None]
    assert run.invoke(flow, 2, thread) == [2, [1, None]]
    assert run.invoke(flow, 3, thread) == [2, [1, None]]
    assert run.invoke(flow, 4, thread) == [4, "saved"]
    assert run.invoke(flow, 5, thread) == [5, [4, "saved"]]
    assert run.invoke(flow, 6, {"configurable": {"thread_id": "other"}}) == [6, None]


def test_what_is_injected_by_name(run: Any, thread: Any) -> None:
    class Context(TypedDict):
        user: str

    store = InMemoryStore()
    store.put(("facts",), "k", {"v": 1})

    @task
    def inner(n: int, *, runtime: Runtime[Any], config: Any, store: Any, writer: Any) -> Any:
        writer("from the task")
        return [n, runtime.context["user"], config["configurable"]["thread_id"], store.get(("facts",), "k").value["v"]]

    @entrypoint(checkpointer=InMemorySaver(), store=store, context_schema=Context)
    def flow(n: int, *, runtime: Runtime[Any], config: Any, store: Any, writer: Any, previous: Any) -> Any:
        writer("from the workflow")
        assert (runtime.context["user"], previous) == ("ada", None)
        return inner(n).result()

    told = run.stream(flow, 1, thread, context={"user": "ada"}, stream_mode=["custom", "values"])
    assert told == [
        ("custom", "from the workflow"),
        ("custom", "from the task"),
        ("values", [1, "ada", "t", 1]),
    ]


def test_a_parameter_that_the_caller_passes_is_not_injected(run: Any) -> None:
    @task
    def echo(config: str, store: str = "default") -> str:
        return f"{config} {store}"

    @entrypoint()
    def flow(given: str) -> Any:
        return [echo("mine", "too").result(), echo(config="mine", store="too").result()]

    assert run.invoke(flow, "x") == ["mine too", "mine too"]


def test_keys_for_side_effects_differ_from_call_to_call_and_stay(run: Any, thread: Any, ran: Ran) -> None:
    fails = True

    @task
    def pay(n: int, *, runtime: Runtime[Any]) -> str:
        ran(runtime.idempotency_key)
        if fails:
            raise ValueError
        return "paid"

    @entrypoint(checkpointer=InMemorySaver())
    def flow(given: str) -> Any:
        both = [pay(1), pay(2)]
        return [each.result() for each in both]

    with pytest.raises(ValueError):
        run.invoke(flow, "x", thread)
    fails = False
    run.invoke(flow, None, thread)
    assert set(ran.counted.values()) == {2}
    assert len(ran.counted) == 2


def test_streams_of_an_entrypoint(run: Any, thread: Any) -> None:
    @task
    def double(n: int) -> int:
        return n * 2

    @entrypoint(checkpointer=InMemorySaver())
    def flow(n: int) -> Any:
        return double(n).result() + interrupt("more?")

    first = run.stream(flow, 1, thread, stream_mode=["updates", "values"])
    assert first[0] == ("updates", {"double": 2})
    assert [mode for mode, item in first[1:] if question(item) == "more?"] == ["updates", "values"]
    assert run.stream(flow, Command(resume=5), thread, stream_mode=["updates", "values"]) == [
        ("updates", {"flow": 7}),
        ("values", 7),
    ]
    done = run.invoke(flow, 1, thread, version="v2")
    assert (done.value, [one.value for one in done.interrupts]) == ({}, ["more?"])
    done = run.invoke(flow, Command(resume=1), thread, version="v2")
    assert (done.value, done.interrupts) == (3, ())


def test_model_tokens_in_tasks_are_streamed(run: Any) -> None:
    from runwell.testing import FakeChatModel

    model = FakeChatModel(responses=["one two three"])

    @task
    def ask(text: str) -> str:
        return model.invoke(text).text

    @entrypoint()
    def flow(text: str) -> Any:
        return ask(text).result()

    told = run.stream(flow, "hi", stream_mode="messages")
    assert "".join(chunk.text for chunk, _ in told) == "one two three"


def test_state_history_and_changes_by_hand(run: Any, thread: Any) -> None:
    @entrypoint(checkpointer=InMemorySaver())
    def flow(n: int, *, previous: int | None = None) -> Any:
        return (previous or 0) + n

    run.invoke(flow, 1, thread)
    run.invoke(flow, 2, thread)
    assert run.state(flow, thread).values == 3
    assert [one.values for one in run.history(flow, thread)] == [3, 1, 1, None]
    run.update(flow, thread, 100)
    assert run.state(flow, thread).values == 100
    assert run.state(flow, thread).next == ()
    assert run.invoke(flow, 1, thread) == 101
    run.update(flow, thread, entrypoint.final(value="shown", save=7))
    assert run.state(flow, thread).values == "shown"
    assert run.invoke(flow, 1, thread) == 8


def test_a_change_by_hand_ends_a_paused_call(run: Any, thread: Any) -> None:
    @entrypoint(checkpointer=InMemorySaver())
    def flow(n: int) -> Any:
        return interrupt("?")

    run.invoke(flow, 1, thread)
    run.update(flow, thread, "by hand")
    state = run.state(flow, thread)
    assert (state.values, state.next, state.interrupts) == ("by hand", (), ())


def test_a_batch_of_entrypoints(run: Any) -> None:
    @task
    async def double(n: int) -> int:
        return n * 2

    @entrypoint()
    def flow(n: int) -> Any:
        return double(n).result()

    got = flow.batch([1, 2, 3]) if run.name == "sync" else asyncio.run(flow.abatch([1, 2, 3]))
    assert got == [2, 4, 6]


def test_an_entrypoint_in_a_node_pauses_the_graph_around_it(run: Any, thread: Any, ran: Ran) -> None:
    class State(TypedDict, total=False):
        text: str

    @task
    def shout(text: str) -> str:
        ran("shout")
        return text.upper()

    @entrypoint()
    def flow(text: str) -> Any:
        return shout(text).result() + interrupt("?")

    def node(state: State) -> State:
        return {"text": flow.invoke(state["text"])}

    graph = StateGraph(State).add_node(node).add_edge(START, "node").add_edge("node", END)
    app = graph.compile(checkpointer=InMemorySaver())
    assert question(run.invoke(app, {"text": "a"}, thread)) == "?"
    assert run.invoke(app, Command(resume="!"), thread) == {"text": "A!"}
    assert ran.counted == {"shout": 1}


def test_an_entrypoint_is_a_node(run: Any, thread: Any, ran: Ran) -> None:
    """Its input is the state, its result the update; it pauses and goes on with the graph around it."""

    class State(TypedDict, total=False):
        text: str
        said: str

    @task
    def shout(text: str) -> str:
        ran("shout")
        return text.upper()

    @entrypoint()
    async def flow(state: State) -> State:
        return {"said": await shout(state["text"]) + interrupt("?")}

    graph = StateGraph(State).add_node("flow", flow).add_edge(START, "flow").add_edge("flow", END)
    app = graph.compile(checkpointer=InMemorySaver())
    assert question(run.invoke(app, {"text": "a"}, thread)) == "?"
    assert run.invoke(app, Command(resume="!"), thread) == {"text": "a", "said": "A!"}
    assert ran.counted == {"shout": 1}


class Place(TypedDict):
    city: str


def test_an_entrypoint_is_a_tool_and_a_step_of_a_chain(run: Any) -> None:
    @task
    def look_up(city: str) -> str:
        return f"sunny in {city}"

    @entrypoint()
    def weather(place: Place) -> str:
        """The weather of a city."""
        return look_up(place["city"]).result()

    tool = weather.as_tool()
    assert (tool.name, tool.description, list(tool.args)) == ("weather", "The weather of a city.", ["city"])
    assert run.invoke(tool, {"city": "Rome"}) == "sunny in Rome"
    assert run.invoke(weather | str.title, {"city": "Rome"}) == "Sunny In Rome"
    assert weather.get_output_jsonschema()["type"] == "string"


def test_a_cache_policy_without_a_cache_is_refused(run: Any) -> None:
    @task(cache_policy=CachePolicy())
    def one() -> int:
        return 1

    def flow(given: str) -> Any:
        return one().result()

    with pytest.raises(InvalidInput, match="no cache"):
        run.invoke(entrypoint()(flow), "x")
    assert run.invoke(entrypoint(cache=False)(flow), "x") == 1


def test_tasks_called_from_an_agents_tool_run_once_around_its_pause(run: Any, thread: Any, ran: Ran) -> None:
    from runwell.agents import create_agent
    from runwell.messages import AIMessage, ToolCall
    from runwell.testing import FakeChatModel
    from runwell.tools import tool

    @task
    def look_up(city: str) -> str:
        ran("look_up")
        return f"sunny in {city}"

    @tool
    def weather(city: str) -> str:
        """The weather."""
        found = look_up(city).result()
        return f"{found}, {interrupt('say it?')}"

    call = AIMessage("", tool_calls=[ToolCall(name="weather", args={"city": "Rome"}, id="1")])
    agent = create_agent(FakeChatModel(responses=[call, "done"]), [weather], checkpointer=InMemorySaver())
    run.invoke(agent, {"messages": "hi"}, thread)
    end = run.invoke(agent, Command(resume="yes"), thread)
    assert [message.text for message in end["messages"]][2] == "sunny in Rome, yes"
    assert ran.counted == {"look_up": 1}


# -- outside a run, and bad input


def test_a_task_outside_a_run_just_runs(run: Any) -> None:
    @task
    def double(n: int) -> int:
        return n * 2

    @task
    async def triple(n: int) -> int:
        return n * 3

    async def both() -> list[int]:
        return [await double(2), await triple(2)]

    got = [double(2).result(), triple(2).result()] if run.name == "sync" else asyncio.run(both())
    assert got == [4, 6]
    assert double.func(2) == 4


def test_asking_for_a_result_on_the_loop_that_has_to_make_it_is_refused(run: Any) -> None:
    @task
    async def one() -> int:
        return 1

    @entrypoint()
    async def flow(given: str) -> Any:
        return one().result()

    with pytest.raises(RunningLoop, match="await one"):
        run.invoke(flow, "x")


def test_a_future_as_an_argument_is_refused(run: Any) -> None:
    @task
    def one(n: Any = 0) -> int:
        return 1

    @entrypoint()
    def flow(given: str) -> Any:
        return one(one()).result()

    with pytest.raises(InvalidInput, match="future of task 'one'"):
        run.invoke(flow, "x")


def _generator(given: str) -> Any:
    yield given


async def _agenerator(given: str) -> Any:
    yield given


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (_generator, "generator"),
        (_agenerator, "generator"),
        (lambda: 1, "takes no input"),
        (lambda *, previous: 1, "takes no input"),
        (lambda runtime: 1, "takes no input"),
        (lambda one, two: 1, r"\['two'\]"),
        ("text", "was given 'text'"),
    ],
)
def test_what_cannot_be_an_entrypoint_is_refused_at_once(function: Any, said: str) -> None:
    with pytest.raises(GraphError, match=said):
        entrypoint()(function)


@pytest.mark.parametrize("function", [_generator, _agenerator, "text"])
def test_what_cannot_be_a_task_is_refused_at_once(function: Any) -> None:
    with pytest.raises(GraphError, match="@task"):
        task(function)


def test_an_entrypoint_without_parentheses_is_refused() -> None:
    with pytest.raises(GraphError, match="parentheses"):

        @entrypoint
        def flow(given: str) -> str:
            return given


def test_two_inputs_are_refused(run: Any) -> None:
    @entrypoint()
    def flow(given: str) -> str:
        return given

    with pytest.raises(InvalidConfig, match="config"):
        run.invoke(flow, "one", "two")
