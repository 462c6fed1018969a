"""Rule 5: a group of exceptions from user code is split: only signals left is an interrupt, else the errors win."""

from __future__ import annotations

import asyncio
from typing import TypedDict

import pytest

from runwell.drivers import acompleted, afan_out, call_async, call_sync, callee, completed, fan_out
from runwell.effects import Call, CallHook, RunTasks
from runwell.errors import GraphInterrupt, NodeError, ParentCommand, Signal
from runwell.graph import START, Command, StateGraph, interrupt
from runwell.persistence import InMemorySaver


class Halt(Signal):
    pass


def group(*errors):
    return BaseExceptionGroup("several", errors)


async def nothing():
    return None


async def task_group(*errors):
    """What a task group raises whose children raise these."""

    async def child(error):
        raise error

    async with asyncio.TaskGroup() as children:
        for error in errors:
            children.create_task(child(error))


def raising(colour, *errors):
    def plain(*_):
        raise group(*errors)

    async def coloured(*_):
        await task_group(*errors)

    return {
        "plain": callee(plain),
        "cheap": callee(plain, cheap=True),
        "async": callee(coloured),
        "given": callee(lambda *args: coloured(*args)),
    }[colour]


COLOURS = ["plain", "cheap", "async", "given"]
PLACES = ["call", "shielded", "limited", "task", "tasks", "hook"]


async def at(place, target):
    async def call():
        return await Call(target)

    if place == "call":
        return await Call(target)
    if place == "shielded":
        return await Call(target, shield=True)
    if place == "limited":
        return await Call(target, timeout=60)
    if place == "hook":
        return await CallHook(target, None, lambda _: nothing())
    outcomes = await RunTasks([call] * (1 if place == "task" else 2))
    return outcomes[0].unwrap()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("colour", COLOURS)
def test_only_signals_are_a_signal(driver, place, colour):
    with pytest.raises(Halt, match="one"):
        driver.run(at(place, raising(colour, Halt("one"))))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("colour", COLOURS)
def test_errors_win_over_signals(driver, place, colour):
    with pytest.raises(ExceptionGroup) as caught:
        driver.run(at(place, raising(colour, Halt(), ValueError("v"), KeyError("k"))))
    assert [type(error) for error in caught.value.exceptions] == [ValueError, KeyError]


@pytest.mark.parametrize("colour", COLOURS)
def test_a_group_of_errors_is_left_as_it_is(driver, colour):
    errors = [ValueError("v"), ExceptionGroup("deeper", [KeyError("k")])]
    with pytest.raises(ExceptionGroup) as caught:
        driver.run(at("call", raising(colour, *errors)))
    assert list(caught.value.exceptions) == errors
    assert caught.value.__cause__ is None


def test_several_questions_become_one_interrupt(driver):
    target = raising("plain", GraphInterrupt(["a", "b"]), group(GraphInterrupt(["c"])))
    with pytest.raises(GraphInterrupt) as caught:
        driver.run(at("call", target))
    assert caught.value.interrupts == ("a", "b", "c")


def test_another_signal_goes_before_questions(driver):
    with pytest.raises(ParentCommand):
        driver.run(at("call", raising("plain", GraphInterrupt(["a"]), ParentCommand("up"))))


@pytest.mark.parametrize("colour", COLOURS)
def test_in_the_direct_bridges_too(colour):
    target = raising(colour, Halt())
    with pytest.raises(Halt):
        call_sync(target)
    with pytest.raises(Halt):
        asyncio.run(call_async(target))

    def fail():
        raise group(Halt(), ValueError("v"))

    async def afail():
        fail()

    async def main():
        (outcome,) = await afan_out([afail])
        _, other = await anext(acompleted([afail]))
        return [outcome, other]

    for outcome in [*fan_out([fail, fail]), next(completed([fail]))[1], *asyncio.run(main())]:
        assert [type(error) for error in outcome.error.exceptions] == [ValueError]


@pytest.mark.parametrize("colour", COLOURS)
def test_an_async_iteration_ends_only_where_it_ends(driver, colour):
    """StopAsyncIteration out of user code would end the loop over a batch in silence."""

    def plain(*_):
        raise StopAsyncIteration("item")

    async def coloured(*_):
        raise StopAsyncIteration("item")

    target = {
        "plain": callee(plain),
        "cheap": callee(plain, cheap=True),
        "async": callee(coloured),
        "given": callee(lambda: coloured()),
    }[colour]
    with pytest.raises(NodeError, match="StopAsyncIteration"):
        driver.run(at("call", target))


# -- in a graph


class State(TypedDict, total=False):
    said: str


def pausing_graph(*children):
    async def ask(state):
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(child()) for child in children]
        return {"said": " ".join(str(task.result()) for task in tasks)}

    graph = StateGraph(State)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    return graph.compile(checkpointer=InMemorySaver())


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_question_asked_in_a_task_group_pauses_the_graph(colour):
    async def question():
        return interrupt("which?")

    async def other():
        return "and"

    graph, config = pausing_graph(other, question), {"configurable": {"thread_id": "t"}}

    def call(given):
        return graph.invoke(given, config) if colour == "sync" else asyncio.run(graph.ainvoke(given, config))

    assert [one.value for one in call({})["__interrupt__"]] == ["which?"]
    assert call(Command(resume="this"))["said"] == "and this"


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_failure_beside_a_question_fails_the_graph(colour):
    async def question():
        return interrupt("which?")

    async def failing():
        raise ValueError("broken")

    graph, config = pausing_graph(question, failing), {"configurable": {"thread_id": "t"}}
    with pytest.raises(ExceptionGroup) as caught:
        graph.invoke({}, config) if colour == "sync" else asyncio.run(graph.ainvoke({}, config))
    assert [str(error) for error in caught.value.exceptions] == ["broken"]
