"""What an adapter on OpenAI's SDK adds: reading a replayed stream, writing a long history. No network is used."""

import json

import sample_data
from kit import cell, clock, expect, sized

CHUNKS = sized(2_000, least=4)
TURNS = sized(500, least=8) // 4


def event(delta, finish=None):
    """A server's event, with all the fields that OpenAI sends."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    facts = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-5.5"}
    return {**facts, "service_tier": "default", "system_fingerprint": "fp", "choices": [choice], "usage": None}


def lines():
    """A stream of `CHUNKS` pieces of text, an event each, as bytes."""
    usage = {"prompt_tokens": 9, "completion_tokens": CHUNKS, "total_tokens": CHUNKS + 9}
    events = [event({"role": "assistant", "content": "", "refusal": None})]
    events += [event({"content": "tok "}) for _ in range(CHUNKS)]
    events += [event({}, "stop"), {**event({}), "choices": [], "usage": usage}]
    return [f"data: {json.dumps(each)}\n\n".encode() for each in events] + [b"data: [DONE]\n\n"]


@cell("provider.streamed_chunk", "us")
def streamed_chunk(adapter):
    start = adapter.replay_stream(lines())
    expect("".join(start()).count("tok"), CHUNKS)
    taken = []
    for _ in range(5):
        began = clock()
        for _ in start():
            pass
        taken.append((clock() - began) / CHUNKS * 1e6)
    return sorted(taken)[2]


def history(media):
    """Turns of a question, a call, its result and an answer; with a picture in each question if asked for."""
    return [(sample_data.turn(n), {"a": n, "b": 2}, str(n + 2), f"It is {n + 2}.", media) for n in range(TURNS)]


def written(adapter, media):
    from kit import per_call

    run = adapter.write_history(history(media))
    messages = run()["messages"]
    expect(len(messages), 4 * TURNS)
    expect([message["role"] for message in messages[:4]], ["user", "assistant", "tool", "assistant"])
    expect(json.loads(messages[1]["tool_calls"][0]["function"]["arguments"]), {"a": 0, "b": 2})
    expect(isinstance(messages[0]["content"], list), media)
    return per_call(run) * 1e3


cell("provider.write_500_messages", "ms")(lambda adapter: written(adapter, False))
cell("provider.write_500_messages_with_pictures", "ms")(lambda adapter: written(adapter, True))
