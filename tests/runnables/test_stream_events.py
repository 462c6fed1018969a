"""`astream_events`: everything that happens inside, as it happens."""

from __future__ import annotations

import asyncio

import pytest

from runwell.errors import UsageError
from runwell.observe import dispatch_custom_event, record_decision
from runwell.runnables import RunnableGenerator, RunnableLambda, RunnableParallel


def words(text):
    for word in text.split():
        yield word + " "


async def upper(chunks):
    async for chunk in chunks:
        yield chunk.upper()


def events_of(part, given, **kwargs):
    async def main():
        return [event async for event in part.astream_events(given, **kwargs)]

    return asyncio.run(main())


def test_the_events_of_a_chain_form_a_tree():
    made = (RunnableLambda(words) | upper).pipe(name="whole")
    events = events_of(made, "a b", config={"tags": ["t"], "metadata": {"m": 1}})
    whole = events[0]
    assert (whole["event"], whole["name"], whole["data"]) == ("on_chain_start", "whole", {"input": "a b"})
    assert whole["parent_ids"] == []
    assert whole["tags"] == ["t"]
    assert whole["metadata"] == {"m": 1}
    assert all(event["parent_ids"] == [whole["run_id"]] for event in events if event["name"] != "whole")
    assert [event["data"]["chunk"] for event in events if event["event"] == "on_chain_stream"].count("A ") == 2
    assert [e["data"]["chunk"] for e in events if e["event"] == "on_chain_stream" and e["name"] == "whole"] == [
        "A ",
        "B ",
    ]
    assert events[-1]["event"] == "on_chain_end"
    assert events[-1]["name"] == "whole"
    assert events[-1]["data"]["output"] == "A B "
    starts = [event["run_id"] for event in events if event["event"] == "on_chain_start"]
    ends = [event["run_id"] for event in events if event["event"] == "on_chain_end"]
    assert sorted(starts) == sorted(ends)


def test_events_come_while_it_runs():
    async def main():
        gate = asyncio.Event()

        async def waits(value):
            await gate.wait()
            return value

        seen = []
        async for event in RunnableLambda(waits, name="waits").astream_events(1):
            seen.append(event["event"])
            gate.set()
        return seen

    assert asyncio.run(main()) == ["on_chain_start", "on_chain_stream", "on_chain_end"]


def test_filters_keep_and_drop():
    made = RunnableLambda(words) | RunnableGenerator(upper, name="loud").with_config(tags=["keep"])
    assert {event["name"] for event in events_of(made, "a", include_names=["loud"])} == {"loud"}
    assert {event["name"] for event in events_of(made, "a", include_tags=["keep"])} == {"loud"}
    assert "loud" not in {event["name"] for event in events_of(made, "a", exclude_names=["loud"])}
    assert events_of(made, "a", include_types=["tool"]) == []


def test_own_events_come_in_their_place():
    def step(value):
        dispatch_custom_event("halfway", {"at": value})
        record_decision("A1", "x", "because", "code")
        return value

    events = events_of(RunnableLambda(step), 5)
    names = [event["event"] for event in events]
    assert names == ["on_chain_start", "on_custom_event", "on_chain_stream", "on_chain_end"]
    assert (events[1]["name"], events[1]["data"]) == ("halfway", {"at": 5})


def test_an_error_ends_the_events_with_itself():
    def broken(value):
        raise ValueError("broken")

    seen = []

    async def main():
        async for event in (RunnableLambda(words) | broken).astream_events("a"):
            seen.append((event["event"], event["name"]))

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(main())
    assert seen[-1] == ("on_chain_error", "RunnableSequence")


def test_leaving_early_ends_the_run():
    closed = []

    async def endless(text):
        try:
            while True:
                yield "x"
                await asyncio.sleep(0)
        finally:
            closed.append(True)

    async def main():
        events = RunnableLambda(endless).astream_events("a")
        async for event in events:
            if event["event"] == "on_chain_stream":
                break
        await events.aclose()

    asyncio.run(main())
    assert closed == [True]


def test_parallel_branches_are_told_apart():
    events = events_of(RunnableParallel(a=RunnableLambda(words, name="one"), b=RunnableLambda(len, name="two")), "x y")
    assert {event["name"] for event in events} == {"RunnableParallel<a,b>", "one", "two"}
    chunks = [e["data"]["chunk"] for e in events if e["event"] == "on_chain_stream" and len(e["parent_ids"]) == 0]
    assert sorted(map(str, chunks)) == ["{'a': 'x '}", "{'a': 'y '}", "{'b': 3}"]


def test_an_unknown_version_is_refused():
    with pytest.raises(UsageError, match="v1"):
        RunnableLambda(len).astream_events("x", version="v1")
