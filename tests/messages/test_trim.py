"""Trimming to a budget: never over it, never a torn call."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runwell.errors import InvalidInput
from runwell.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    count_tokens_approximately,
    tool_call,
    trim_messages,
    validate_history,
)


def calling(*call_ids, text=""):
    return AIMessage(text, tool_calls=[tool_call(name="f", args={}, id=each) for each in call_ids])


def result(call_id):
    return ToolMessage("r", tool_call_id=call_id)


def words(messages):
    """Counts words; a message costs at least one."""
    return sum(max(1, len(each.text.split())) for each in messages)


def words_of_one(message: BaseMessage) -> int:
    return max(1, len(message.text.split()))


def test_msg_01_keeping_the_last_never_begins_with_a_result_of_a_call_that_was_cut():
    history = [
        HumanMessage("1"),
        calling("abc"),
        result("abc"),
        HumanMessage("2"),
        AIMessage("3"),
        HumanMessage("4"),
        AIMessage("5"),
    ]
    trimmed = trim_messages(history, max_tokens=5, token_counter=len, strategy="last")
    assert trimmed == history[3:]
    assert trim_messages(history, max_tokens=6, token_counter=len) == history[1:]


said = st.sampled_from(["a", "a b", "a b c", "a\nb\nc d"])
call_ids = st.sampled_from("123")
histories = st.lists(
    st.one_of(
        said.map(HumanMessage),
        said.map(AIMessage),
        said.map(SystemMessage),
        st.lists(call_ids, min_size=1, max_size=2, unique=True).map(lambda some: calling(*some)),
        call_ids.map(result),
    ),
    max_size=12,
)
counters = st.sampled_from([words, words_of_one, len, "approximate", count_tokens_approximately])
types = st.sampled_from([None, "human", "ai", ("human", "tool"), HumanMessage])


def cost(counter, messages):
    if counter == "approximate":
        counter = count_tokens_approximately
    return sum(map(counter, messages)) if counter is words_of_one else counter(messages)


@given(histories, st.integers(0, 40), counters, st.sampled_from(["first", "last"]), st.booleans(), types, types)
@settings(max_examples=500)
def test_never_over_the_budget_never_torn_and_in_order(history, budget, counter, strategy, partial, start, end):
    trimmed = trim_messages(
        history,
        max_tokens=budget,
        token_counter=counter,
        strategy=strategy,
        allow_partial=partial,
        start_on=start if strategy == "last" else None,
        end_on=end,
    )
    assert not trimmed or cost(counter, trimmed) <= budget
    torn = {each.kind for each in validate_history(trimmed)}
    assert "orphan_result" not in torn
    if "unanswered_call" in torn:  # only the turn that is still running
        last = max(n for n, each in enumerate(trimmed) if not isinstance(each, ToolMessage))
        assert {each.place for each in validate_history(trimmed) if each.kind == "unanswered_call"} == {last}
    if not partial:
        places = [next(n for n, one in enumerate(history) if one is each) for each in trimmed]
        assert places == sorted(places) and all(any(one is each for one in history) for each in trimmed)
    if trimmed and start is not None and strategy == "last":
        assert isinstance(
            trimmed[0], HumanMessage if start in ("human", HumanMessage, ("human", "tool")) else AIMessage
        )


@given(histories)
def test_a_budget_for_everything_keeps_everything_whole(history):
    trimmed = trim_messages(history, max_tokens=10_000, token_counter=words)
    if not validate_history(history):
        assert trimmed == history
    assert trim_messages(trimmed, max_tokens=10_000, token_counter=words) == trimmed


@given(histories, st.integers(0, 20))
def test_counting_lists_and_counting_messages_agree(history, budget):
    assert trim_messages(history, max_tokens=budget, token_counter=words) == trim_messages(
        history, max_tokens=budget, token_counter=words_of_one
    )


def each_is_one(message: BaseMessage) -> int:
    return 1


def approximately(messages):
    return count_tokens_approximately(messages)


@given(histories, st.integers(0, 30), st.sampled_from([(len, each_is_one), ("approximate", approximately)]), st.data())
@settings(max_examples=400)
def test_quick_counters_which_look_at_the_end_alone_trim_as_any_other(history, budget, counters, data):
    options = {
        "include_system": data.draw(st.booleans()),
        "allow_partial": data.draw(st.booleans()),
        "start_on": data.draw(types),
        "end_on": data.draw(types),
    }
    try:
        expected = trim_messages(history, max_tokens=budget, token_counter=counters[1], **options)
    except InvalidInput:  # the system message alone is too long
        expected = None
    if expected is None:
        with pytest.raises(InvalidInput, match="alone takes"):
            trim_messages(history, max_tokens=budget, token_counter=counters[0], **options)
    else:
        assert trim_messages(history, max_tokens=budget, token_counter=counters[0], **options) == expected


def test_calls_of_the_running_turn_stay():
    running = [HumanMessage("x"), calling("1", "2"), result("1")]
    assert trim_messages(running, max_tokens=10, token_counter=len) == running


def test_the_system_message_stays_and_counts():
    history = [SystemMessage("s"), HumanMessage("1"), AIMessage("2"), HumanMessage("3"), AIMessage("4")]
    trimmed = trim_messages(history, max_tokens=3, token_counter=len, include_system=True)
    assert trimmed == [history[0], *history[3:]]
    assert trim_messages(history, max_tokens=2, token_counter=len, include_system=True, start_on="human") == [
        history[0]
    ]
    with pytest.raises(InvalidInput, match="system message alone"):
        trim_messages([SystemMessage("a b c"), "x"], max_tokens=2, token_counter=words, include_system=True)


def test_start_on_and_end_on():
    history = [HumanMessage("1"), AIMessage("2"), HumanMessage("3"), AIMessage("4")]
    assert trim_messages(history, max_tokens=3, token_counter=len, start_on="human") == history[2:]
    assert trim_messages(history, max_tokens=3, token_counter=len, end_on=HumanMessage) == history[:3]
    assert trim_messages(history, max_tokens=2, token_counter=len, end_on=("human", "tool")) == history[1:3]
    assert trim_messages(history, max_tokens=3, token_counter=len, strategy="first", end_on="ai") == history[:2]


def test_a_part_of_the_message_at_the_cut_may_stay():
    history = [HumanMessage("one two\nthree\nfour five"), AIMessage("six")]
    last = trim_messages(history, max_tokens=4, token_counter=words, allow_partial=True)
    assert last == [HumanMessage("three\nfour five"), AIMessage("six")]
    first = trim_messages(history[::-1], max_tokens=4, token_counter=words, allow_partial=True, strategy="first")
    assert first == [AIMessage("six"), HumanMessage("one two\nthree\n")]
    by_word = trim_messages(
        history, max_tokens=2, token_counter=words, allow_partial=True, text_splitter=lambda text: text.split(" ")
    )
    assert by_word == [HumanMessage("five"), AIMessage("six")]


def test_blocks_stay_whole_in_a_part():
    blocks = [{"type": "text", "text": "one\n"}, {"type": "image", "url": "u"}, {"type": "text", "text": "two\nthree"}]
    (part,) = trim_messages([HumanMessage(blocks)], max_tokens=2, token_counter=words, allow_partial=True)
    assert part.content == [{"type": "image", "url": "u"}, {"type": "text", "text": "two\nthree"}]


def test_a_model_may_count():
    class Model:
        def get_num_tokens_from_messages(self, messages):
            return 10 * len(messages)

    assert len(trim_messages(["a", "b", "c"], max_tokens=25, token_counter=Model())) == 2


def test_without_messages_it_is_a_step_for_a_chain():
    trim = trim_messages(max_tokens=1, token_counter=len)
    assert trim.invoke(["a", "b"]) == trim(["a", "b"]) == [HumanMessage("b")]


@pytest.mark.parametrize(
    "arguments",
    [
        {"strategy": "middle"},
        {"strategy": "first", "include_system": True},
        {"strategy": "first", "start_on": "human"},
        {"max_tokens": -1},
        {"token_counter": 3},
        {"end_on": "humann"},
        {"allow_partial": True, "text_splitter": 3},
    ],
)
def test_bad_arguments_are_refused(arguments):
    with pytest.raises(InvalidInput):
        trim_messages(["a", "b"], **{"max_tokens": 1, "token_counter": len, **arguments})
