"""Streams of any length: cost grows with what is new, not with what is there."""

from time import thread_time

import pytest

from runwell.messages import AIMessageChunk, HumanMessage, add_messages


def seconds(work, *, tries=5):
    best = float("inf")
    for _ in range(tries):
        start = thread_time()
        work()
        best = min(best, thread_time() - start)
    return best


def summed(chunks):
    total = chunks[0]
    for each in chunks[1:]:
        total = total + each
    return total


def text_chunks(count):
    return [AIMessageChunk("word " * 4, id="m") for _ in range(count)]


def block_chunks(count):
    return [AIMessageChunk([{"type": "text", "text": "word " * 4, "index": 0}]) for _ in range(count)]


def call_chunks(count):
    pieces = ['{"items": ["x"', *[', "x"'] * (count - 2), "]}"]
    return [
        AIMessageChunk("", tool_call_chunks=[{"name": None if n else "f", "args": piece, "id": None, "index": 0}])
        for n, piece in enumerate(pieces)
    ]


@pytest.mark.parametrize("make", [text_chunks, block_chunks, call_chunks])
def test_sixteen_times_the_chunks_cost_about_sixteen_times_as_much(make):
    few, many = make(1_000), make(16_000)

    def read(chunks):
        total = summed(chunks)
        return total.content, total.tool_calls

    # quadratic would be 256
    assert seconds(lambda: read(many)) < 60 * seconds(lambda: read(few))


def test_appending_costs_no_look_at_the_messages_before():
    history = add_messages([], [HumanMessage("x") for _ in range(50_000)])
    new = HumanMessage("y", id="new")
    # looking at each message would cost ten times what copying the references does
    assert seconds(lambda: add_messages(history, new), tries=20) < 4 * seconds(lambda: [*history, new], tries=20)
