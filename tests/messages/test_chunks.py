"""Chunks add up to the message, whichever way they are summed."""

import copy
import pickle
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runwell.errors import InvalidInput
from runwell.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    ToolMessageChunk,
    merge_content,
    message_chunk_to_message,
)
from runwell.messages.chunk_log import ChunkLog
from runwell.messages.message import with_id


def call_chunk(name=None, args=None, id=None, index=None):
    return {"name": name, "args": args, "id": id, "index": index}


def one_by_one(chunks):
    total = chunks[0]
    for each in chunks[1:]:
        total = total + each
    return total


texts = st.text(alphabet="ab漢🚀", max_size=3)
indexes = st.sampled_from([None, 0, 1, "0", "1"])
blocks = st.one_of(
    texts,
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "reasoning"])},
        optional={"index": indexes, "text": texts, "id": st.sampled_from(["", "a", "b"]), "n": st.integers(0, 3)},
    ),
)
contents = st.one_of(texts, st.lists(blocks, max_size=3))
extras = st.dictionaries(
    st.sampled_from(["id", "name", "a", "b"]),
    st.recursive(
        st.one_of(st.none(), texts, st.integers(0, 3)),
        lambda inner: st.one_of(
            st.lists(st.fixed_dictionaries({}, optional={"index": st.integers(0, 1), "t": texts}), max_size=2),
            st.dictionaries(st.sampled_from(["x", "y"]), inner, max_size=2),
        ),
        max_leaves=4,
    ),
    max_size=3,
)
call_chunks = st.builds(
    call_chunk,
    name=st.sampled_from([None, "", "f", "g"]),
    args=st.sampled_from([None, "", "{", "}", '{"x": 1}', '"k": "漢"']),
    id=st.sampled_from([None, "", "i", "j"]),
    index=indexes,
)
usages = st.none() | st.builds(
    lambda i, o, c: {
        "input_tokens": i,
        "output_tokens": o,
        "total_tokens": i + o,
        "input_token_details": {"cache_read": c},
    },
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(0, 9),
)
chunks = st.builds(
    AIMessageChunk,
    contents,
    id=st.sampled_from([None, "m", "n"]),
    name=st.sampled_from([None, "bot"]),
    additional_kwargs=extras,
    response_metadata=extras,
    tool_call_chunks=st.lists(call_chunks, max_size=2),
    usage_metadata=usages,
    chunk_position=st.sampled_from([None, None, "last"]),
)


@given(chunks, chunks, chunks)
@settings(max_examples=400)
def test_sums_are_associative(a, b, c):
    left, right = (a + b) + c, a + (b + c)
    assert left == right
    assert left.tool_calls == right.tool_calls and left.invalid_tool_calls == right.invalid_tool_calls


@given(st.lists(chunks, min_size=1, max_size=6), st.data())
@settings(max_examples=200)
def test_adding_all_at_once_equals_adding_each_and_any_grouping(parts, data):
    expected = one_by_one(parts)
    rest = parts[1:]
    assert parts[0] + rest == expected
    cut = data.draw(st.integers(1, len(parts)))
    head = one_by_one(parts[:cut])
    assert (head if cut == len(parts) else head + one_by_one(parts[cut:])) == expected


@given(st.lists(chunks, min_size=2, max_size=6))
def test_reading_between_additions_changes_nothing(parts):
    total = parts[0]
    for each in parts[1:]:
        assert total.content is not None and total.tool_calls is not None
        total = total + each
    assert total == one_by_one(parts)


@given(st.lists(st.tuples(chunks | st.builds(AIMessageChunk, texts), st.booleans()), min_size=2, max_size=6))
def test_looking_at_the_dicts_of_a_chunk_changes_nothing(parts):
    expected = one_by_one([copy.copy(part) for part, _ in parts])
    for part, looked_at in parts:
        assert not looked_at or (part.additional_kwargs is not None and part.response_metadata is not None)
    assert one_by_one([part for part, _ in parts]) == expected
    assert parts[0][0] + [part for part, _ in parts[1:]] == expected
    total = parts[0][0]
    for part, looked_at in parts[1:]:
        total = total + part
        assert not looked_at or (total.additional_kwargs is not None and part.response_metadata is not None)
    assert total == expected


@given(st.lists(chunks, min_size=1, max_size=4), st.sampled_from([None, "z"]), st.booleans())
def test_a_copy_under_another_id_is_as_the_first_and_apart_from_it(parts, key, read):
    total = one_by_one(parts)
    assert not read or total.content is not None
    before = copy.deepcopy(total)
    twin = with_id(total, "another")
    assert twin == before.model_copy(update={"id": "another"}) and total == before
    twin.name, twin.content = key, "said anew"
    assert total == before and twin + AIMessageChunk("!") == twin.model_copy(update={"content": "said anew!"})


@given(st.lists(chunks, min_size=2, max_size=5), chunks)
def test_an_earlier_sum_keeps_its_meaning_when_more_is_added(parts, other):
    early = one_by_one(parts[:-1])
    before = copy.deepcopy(one_by_one(parts[:-1]))
    late, branch = early + parts[-1], early + other
    assert late == one_by_one(parts)
    assert branch == one_by_one([*parts[:-1], other])
    assert early == before


@given(st.lists(contents, max_size=4), st.lists(contents, max_size=4))
def test_merge_content_of_parts_equals_merge_of_all(left, right):
    assert merge_content(merge_content(*left), merge_content(*right)) == merge_content(*left, *right)


@given(st.lists(texts, min_size=1))
def test_texts_are_joined(parts):
    assert one_by_one([AIMessageChunk(each) for each in parts]).content == "".join(parts)


def test_a_sum_is_a_chunk_with_a_text():
    total = AIMessageChunk("Hel", id="1") + AIMessageChunk("lo")
    assert type(total) is AIMessageChunk
    assert total.content == "Hello" and type(total.content) is str
    assert total.id == "1" and total.text == "Hello"
    assert sum([AIMessageChunk("a"), AIMessageChunk("b")]) == AIMessageChunk("ab")


def test_msg_05_fragments_without_an_index_continue_the_call():
    first = AIMessageChunk("", tool_call_chunks=[call_chunk("f", '{"x":', "a")])
    second = AIMessageChunk("", tool_call_chunks=[call_chunk("", "1}", "")])
    total = first + second
    assert total.tool_calls == [{"name": "f", "args": {"x": 1}, "id": "a", "type": "tool_call"}]
    assert total.invalid_tool_calls == [] and len(total.tool_call_chunks) == 1


def test_msg_05_whole_calls_without_index_or_id_stay_apart():
    parts = [AIMessageChunk("", tool_call_chunks=[call_chunk(name, '{"x": 1}')]) for name in ("f", "f", "g")]
    assert [call["name"] for call in one_by_one(parts).tool_calls] == ["f", "f", "g"]


def test_msg_05_parallel_fragments_without_index_are_told_apart_by_id():
    parts = [
        AIMessageChunk("", tool_call_chunks=[each])
        for each in (call_chunk("f", '{"x":', "a"), call_chunk("g", '{"y":', "b"), call_chunk(None, "1}", "a"))
    ]
    total = one_by_one([*parts, AIMessageChunk("", tool_call_chunks=[call_chunk(None, "2}", "b")])])
    assert [call["args"] for call in total.tool_calls] == [{"x": 1}, {"y": 2}]


@pytest.mark.parametrize(("first", "second"), [("0", 0), (0, "0"), ("12", 12)])
def test_msg_06_an_index_given_as_text_is_the_same_index(first, second):
    total = AIMessageChunk("", tool_call_chunks=[call_chunk("f", '{"x":', "a", first)]) + AIMessageChunk(
        "", tool_call_chunks=[call_chunk(None, "1}", None, second)]
    )
    assert total.tool_calls == [{"name": "f", "args": {"x": 1}, "id": "a", "type": "tool_call"}]
    assert total.tool_call_chunks[0]["index"] == int(first)


def test_msg_06_an_index_that_is_a_word_stays_one():
    chunk = AIMessageChunk("", tool_call_chunks=[call_chunk("f", "{}", "a", "block-²")])
    assert chunk.tool_call_chunks[0]["index"] == "block-²"


def test_parallel_calls_may_interleave():
    fragments = [
        call_chunk("f", "", "a", 0),
        call_chunk("g", "", "b", 1),
        call_chunk(None, '{"x"', None, 0),
        call_chunk(None, '{"y"', None, 1),
        call_chunk(None, ": 1}", None, 0),
        call_chunk(None, ": 2}", None, 1),
    ]
    total = one_by_one([AIMessageChunk("", tool_call_chunks=[each]) for each in fragments])
    assert [(call["name"], call["args"]) for call in total.tool_calls] == [("f", {"x": 1}), ("g", {"y": 2})]


def test_servers_that_give_every_call_the_index_zero_or_repeat_name_and_id_are_understood():
    same_index = [call_chunk("f", '{"x": 1}', "a", 0), call_chunk("g", '{"y": 2}', "b", 0)]
    total = one_by_one([AIMessageChunk("", tool_call_chunks=[each]) for each in same_index])
    assert [(call["name"], call["id"], call["args"]) for call in total.tool_calls] == [
        ("f", "a", {"x": 1}),
        ("g", "b", {"y": 2}),
    ]
    repeated = [call_chunk("f", '{"x"', "a", 0), call_chunk("f", ": 1}", "a", 0)]
    total = one_by_one([AIMessageChunk("", tool_call_chunks=[each]) for each in repeated])
    assert [(call["name"], call["id"], call["args"]) for call in total.tool_calls] == [("f", "a", {"x": 1})]


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ('{"x": ', "Expecting value"),
        ("[1]", "an array"),
        ("NaN", "NaN"),
        ('{"x": Infinity}', "Infinity"),
        ("null", "null"),
    ],
)
def test_arguments_that_are_no_json_object_make_a_broken_call_that_says_why(args, problem):
    chunk = AIMessageChunk("", tool_call_chunks=[call_chunk("f", args, "a", 0)])
    assert chunk.tool_calls == []
    (broken,) = chunk.invalid_tool_calls
    assert broken["name"] == "f" and broken["id"] == "a" and broken["args"] == args
    assert problem in broken["error"]


def test_no_arguments_at_all_is_a_call_without_arguments():
    for nothing in ("", None, "  "):
        chunk = AIMessageChunk("", tool_call_chunks=[call_chunk("f", nothing, "a", 0)])
        assert chunk.tool_calls == [{"name": "f", "args": {}, "id": "a", "type": "tool_call"}]


def test_a_call_without_a_name_is_broken():
    chunk = AIMessageChunk("", tool_call_chunks=[call_chunk(None, "{}", "a", 0)])
    assert chunk.tool_calls == [] and "names no tool" in chunk.invalid_tool_calls[0]["error"]


def test_msg_07_a_chunk_built_from_calls_keeps_their_characters():
    args = {"text": "漢字", "emoji": "🚀"}
    chunk = AIMessageChunk("", tool_calls=[{"name": "f", "args": args, "id": "a"}])
    text = chunk.tool_call_chunks[0]["args"]
    assert "漢字" in text and "🚀" in text and "\\u" not in text
    assert chunk.tool_calls[0]["args"] == args


def test_calls_and_chunks_of_calls_that_disagree_are_refused():
    with pytest.raises(InvalidInput, match="differ"):
        AIMessageChunk(
            "", tool_calls=[{"name": "f", "args": {}, "id": "a"}], tool_call_chunks=[call_chunk("g", "{}", "a", 0)]
        )


def test_arguments_in_a_chunk_are_text():
    with pytest.raises(InvalidInput, match="piece of JSON text"):
        AIMessageChunk("", tool_call_chunks=[call_chunk("f", {"x": 1}, "a", 0)])


def test_metadata_that_a_provider_repeats_is_not_joined_but_streamed_texts_are():
    part = {"model_name": "m", "finish_reason": None, "logprobs": {"content": [1]}}
    total = AIMessageChunk("a", response_metadata=part, additional_kwargs={"reasoning_content": "I "}) + AIMessageChunk(
        "b",
        response_metadata={**part, "finish_reason": "stop"},
        additional_kwargs={"reasoning_content": "think", "function_call": {"name": "f", "arguments": "{"}},
    )
    assert total.response_metadata == {"model_name": "m", "finish_reason": "stop", "logprobs": {"content": [1, 1]}}
    assert total.additional_kwargs["reasoning_content"] == "I think"


def test_blocks_with_one_index_become_one_block():
    total = one_by_one(
        [
            AIMessageChunk([{"type": "reasoning", "reasoning": "hm", "index": 0}]),
            AIMessageChunk([{"type": "reasoning", "reasoning": "m", "index": 0, "extras": {"signature": "s"}}]),
            AIMessageChunk([{"type": "text", "text": "a", "index": 1, "id": "t"}]),
            AIMessageChunk([{"type": "text", "text": "b", "index": 1, "id": "t"}]),
        ]
    )
    assert total.content == [
        {"type": "reasoning", "reasoning": "hmm", "index": 0, "extras": {"signature": "s"}},
        {"type": "text", "text": "ab", "index": 1, "id": "t"},
    ]
    assert total.to_message().content == [
        {"type": "reasoning", "reasoning": "hmm", "extras": {"signature": "s"}},
        {"type": "text", "text": "ab", "id": "t"},
    ]


def test_usage_is_added_up():
    def usage(i, o):
        return {"input_tokens": i, "output_tokens": o, "total_tokens": i + o}

    total = (
        AIMessageChunk("a", usage_metadata=usage(5, 1))
        + AIMessageChunk("b")
        + AIMessageChunk("c", usage_metadata=usage(0, 2))
    )
    assert total.usage_metadata == usage(5, 3)


def test_the_finished_message_is_equal_to_one_that_was_never_streamed():
    parts = [
        AIMessageChunk("Hi", id="1", response_metadata={"model_name": "m"}),
        AIMessageChunk("!", tool_call_chunks=[call_chunk("f", '{"x":', "a", 0)]),
        AIMessageChunk("", tool_call_chunks=[call_chunk(None, " 1}", None, 0)], chunk_position="last"),
    ]
    whole = AIMessage(
        "Hi!", id="1", response_metadata={"model_name": "m"}, tool_calls=[{"name": "f", "args": {"x": 1}, "id": "a"}]
    )
    assert one_by_one(parts).to_message() == whole
    assert message_chunk_to_message(one_by_one(parts)) == whole
    assert message_chunk_to_message(whole) is whole


def test_chunks_of_other_messages_add_up_too():
    assert HumanMessageChunk("a") + HumanMessageChunk("b") == HumanMessageChunk("ab")
    several = [HumanMessageChunk("b"), HumanMessageChunk("c")]
    assert (HumanMessageChunk("a") + several).to_message() == HumanMessage("abc")
    total = ToolMessageChunk("a", tool_call_id="1") + ToolMessageChunk(
        "b", tool_call_id="1", status="error", artifact=7
    )
    assert (total.content, total.status, total.artifact) == ("ab", "error", 7)


def test_chunks_of_different_messages_do_not_add_up():
    with pytest.raises(InvalidInput, match="AIMessageChunk \\+ HumanMessageChunk"):
        AIMessageChunk("a") + HumanMessageChunk("b")
    with pytest.raises(InvalidInput, match="AIMessageChunk \\+ AIMessage"):
        AIMessageChunk("a") + AIMessage("b")
    with pytest.raises(InvalidInput, match="tool_call_id"):
        ToolMessageChunk("a", tool_call_id="1") + ToolMessageChunk("b", tool_call_id="2")
    with pytest.raises(InvalidInput, match="role"):
        ChatMessageChunk("a", role="x") + ChatMessageChunk("b", role="y")


@given(st.lists(chunks, min_size=1, max_size=3))
def test_a_sum_survives_copying_and_pickling(parts):
    total = one_by_one(parts)
    assert copy.copy(total) == total and copy.deepcopy(total) == total
    assert pickle.loads(pickle.dumps(total)) == total
    assert total.model_copy() == total


def test_fields_of_a_sum_may_be_set():
    total = AIMessageChunk("a") + AIMessageChunk("b")
    total.content = "x"
    total.id = "7"
    total.tool_calls = [{"name": "f", "args": {"x": 1}, "id": "a"}]
    again = total + AIMessageChunk("y")
    assert again.content == "xy" and again.id == "7" and again.tool_calls[0]["args"] == {"x": 1}


def test_what_a_reader_does_to_a_sum_does_not_reach_the_chunk():
    first = AIMessageChunk("a", additional_kwargs={"k": 1}, response_metadata={"m": 1})
    several = [AIMessageChunk("b"), AIMessageChunk("c")]
    for total in (first + AIMessageChunk("b"), first + several):
        total.additional_kwargs["seen"] = total.response_metadata["seen"] = True
    assert first.additional_kwargs == {"k": 1} and first.response_metadata == {"m": 1}


@pytest.mark.parametrize("field", ["additional_kwargs", "response_metadata"])
@pytest.mark.parametrize("make", [lambda: AIMessageChunk("a"), lambda: AIMessageChunk("a", id="i", name="bot")])
def test_what_is_put_in_a_dict_of_a_chunk_is_seen_later_but_not_in_a_sum_made_before(make, field):
    chunk = make()
    before = chunk + AIMessageChunk("b")
    getattr(chunk, field)["k"] = 1
    assert getattr(chunk, field) == {"k": 1} and getattr(copy.copy(chunk), field) == {"k": 1}
    assert getattr(chunk.to_message(), field) == {"k": 1}
    assert getattr(chunk + AIMessageChunk("b"), field) == getattr(AIMessageChunk("b") + chunk, field) == {"k": 1}
    assert getattr(before, field) == {}
    chunk.id = "j"
    assert chunk.id == "j" and getattr(chunk, field) == {"k": 1}


def test_a_dict_given_to_a_chunk_is_the_one_it_has():
    given_dict: dict = {}
    chunk = AIMessageChunk("a", additional_kwargs=given_dict)
    given_dict["k"] = 1
    assert chunk.additional_kwargs is given_dict and (chunk + AIMessageChunk("b")).additional_kwargs == {"k": 1}


def test_threads_that_look_at_a_dict_at_the_same_moment_get_one_dict():
    for _ in range(50):
        chunk, barrier, seen = AIMessageChunk("a"), threading.Barrier(4), []

        def look(chunk=chunk, barrier=barrier, seen=seen):
            barrier.wait()
            seen.append(chunk.additional_kwargs)

        threads = [threading.Thread(target=look) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert all(each is chunk.additional_kwargs for each in seen)


def test_a_list_of_blocks_read_from_a_sum_stays_that_list_though_more_is_added():
    total = AIMessageChunk([{"type": "text", "text": "a"}]) + AIMessageChunk([{"type": "text", "text": "b"}])
    total.content.append({"type": "text", "text": "c"})
    later = total + AIMessageChunk("d")
    assert later.content[-2:] == [{"type": "text", "text": "c"}, "d"]
    assert [block["text"] for block in total.content] == ["a", "b", "c"]


class Raced(ChunkLog):
    """A list to which another thread adds just before we do."""

    raced = False

    def _race(self):
        if not self.raced:
            self.raced = True
            list.append(self, self[-1])

    def append(self, item):
        self._race()
        list.append(self, item)

    def extend(self, items):
        self._race()
        list.extend(self, items)


@pytest.mark.parametrize("fragments", [1, 2])
def test_a_sum_that_another_thread_grew_at_the_same_moment_is_copied(fragments):
    def piece(letter):
        return AIMessageChunk(letter, tool_call_chunks=[call_chunk(None, letter, None, 0)] * fragments)

    total = AIMessageChunk("a", tool_call_chunks=[call_chunk("f", "a", "i", 0)]) + AIMessageChunk(
        "b", tool_call_chunks=[call_chunk(None, "b", None, 0)]
    )
    total._log = Raced.of(list(total._log))
    grown = total + piece("c") + piece("d")
    assert grown.content == "abcd"
    assert grown.tool_call_chunks[0]["args"] == "ab" + "c" * fragments + "d" * fragments


def test_two_threads_may_grow_one_sum():
    start = AIMessageChunk("<") + AIMessageChunk("", tool_call_chunks=[call_chunk("f", '"', "a", 0)])
    results = {}
    barrier = threading.Barrier(4)

    def grow(letter):
        barrier.wait()
        total = start
        for _ in range(300):
            total = total + AIMessageChunk(letter, tool_call_chunks=[call_chunk(None, letter, None, 0)])
        results[letter] = total

    threads = [threading.Thread(target=grow, args=(letter,)) for letter in "wxyz"]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for letter, total in results.items():
        assert total.content == "<" + letter * 300
        assert total.tool_call_chunks[0]["args"] == '"' + letter * 300
