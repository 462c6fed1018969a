"""Functions of text that a stream need not stop at (case 1: streaming stops after a harmless step)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runwell.drivers import cheap
from runwell.errors import InvalidInput
from runwell.runnables import RunnableGenerator, RunnableLambda, streamable

LINK = r"https?://intern\.[^\s]+"
ANSWER = "See the page https://intern.example.com/a?b=1 and also http://intern.x/y, or ask. https://public.example.com "


def strip_links(text):
    return re.sub(LINK, "[link]", text)


WHOLE = strip_links(ANSWER * 4)
BY_LINK = streamable(hold=LINK)(strip_links)
BY_COMPILED = streamable(hold=re.compile(LINK.upper().replace(r"[^\S]", r"[^\s]"), re.IGNORECASE))(strip_links)
BY_LENGTH = streamable(hold=40)(strip_links)


def pieces(text, size):
    return [text[place : place + size] for place in range(0, len(text), size)]


@pytest.mark.parametrize("function", [BY_LINK, BY_COMPILED, BY_LENGTH], ids=["regex", "compiled", "length"])
def test_a_link_split_at_every_boundary_is_never_missed(function, driver):
    text = "see https://intern.example.com/page now"
    for place in range(len(text) + 1):
        chunks = driver.transform(function, [text[:place], text[place:]])
        assert "".join(chunks) == "see [link] now", place


@pytest.mark.parametrize("function", [BY_LINK, BY_LENGTH], ids=["regex", "length"])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_it_flows_with_about_as_many_chunks_as_its_source(function, size, driver):
    source = pieces(ANSWER * 4, size)
    chunks = driver.transform(function, source)
    assert "".join(chunks) == WHOLE
    held = len("".join(re.findall(LINK, ANSWER * 4))) + (
        40 if function is BY_LENGTH else 4 * 10
    )  # "https://", and an "h" elsewhere
    assert len(chunks) >= len(source) - held / size - 1


def test_case_1_a_plain_function_stops_the_stream_and_a_streamable_one_does_not(driver):
    words = [f"word{number} " for number in range(100)] + ["https://inte", "rn.example.com/x", " end "] + ["."] * 109

    def model(chunks):
        for _ in chunks:
            yield from words

    def generator(chunks):
        held = ""
        for chunk in chunks:
            held += chunk
            if "https" not in held:
                yield held
                held = ""
        yield strip_links(held)

    source = RunnableGenerator(model)
    counts = {
        "none": len(driver.stream(source, "?")),
        "plain": len(driver.stream(source | strip_links, "?")),
        "generator": len(driver.stream(source | generator, "?")),
        "streamable": len(driver.stream(source | BY_LINK, "?")),
    }
    assert counts == {"none": 212, "plain": 1, "generator": 101, "streamable": 210}


def test_without_hold_each_chunk_is_done_as_it_comes(driver):
    shout = streamable(str.upper)
    assert driver.transform(shout, ["a", "", "bc"]) == ["A", "BC"]
    assert driver.invoke(shout, "abc") == "ABC"


def test_it_stays_a_function():
    assert BY_LINK(ANSWER) == strip_links(ANSWER)
    assert BY_LINK.__name__ == "strip_links"
    assert repr(streamable(strip_links)) == "streamable(strip_links)"


@pytest.mark.parametrize("given_chunks", [[""], ["", ""], ["x"]])
def test_every_way_of_calling_gives_the_same(given_chunks, driver):
    mark = streamable(hold="zz")(lambda text: text.replace("zz", "Z"))
    text = "".join(given_chunks)
    assert "".join(driver.transform(mark, given_chunks)) == driver.invoke(mark, text) == mark(text)


SECRET = r"\bsk-[a-z]{4}\b"


@given(
    st.lists(st.sampled_from(["sk-", "abcd", "sk-abcd", "x", " ", "-", "https://intern.", "a", "\n"]), max_size=12),
    st.lists(st.integers(1, 5), min_size=1, max_size=40),
    st.sampled_from([LINK, SECRET, "a|abcd", "(?:sk-)+x?", 9]),
)
@settings(max_examples=300, deadline=None)
def test_however_a_text_is_split_nothing_is_missed(parts, sizes, hold):
    text = "".join(parts)
    pattern = SECRET if isinstance(hold, int) else hold
    function = streamable(hold=hold)(lambda given: re.sub(pattern, "#", given))
    chunks, place = [], 0
    while place < len(text):
        size = sizes[len(chunks) % len(sizes)]
        chunks.append(text[place : place + size])
        place += size
    if isinstance(hold, int):  # nine characters and the boundary before and behind them
        function = streamable(hold=hold)(lambda given: re.sub("sk-[a-z]{4}", "#", given))
        pattern = "sk-[a-z]{4}"
    assert "".join(function.transform(iter(chunks))) == re.sub(pattern, "#", text)


def test_memory_is_bounded_by_the_longest_match():
    held: list[int] = []
    function = streamable(hold=LINK)(strip_links)
    kept = function._kept
    cut = kept.cut
    kept.cut = lambda text, given: held.append(len(text)) or cut(text, given)
    assert "".join(function.transform(iter(pieces(ANSWER * 50, 5)))) == strip_links(ANSWER * 50)
    assert max(held) < 50


@pytest.mark.parametrize("hold", ["(", r"(?<=a)b", 0, -1, True, 1.5, b"x"])
def test_a_wrong_hold_is_refused_where_it_stands(hold):
    with pytest.raises(InvalidInput, match="hold="):
        streamable(hold=hold)


def test_what_is_no_text_is_told(driver):
    with pytest.raises(InvalidInput, match="StrOutputParser"):
        driver.invoke(BY_LINK, 7)
    with pytest.raises(InvalidInput, match="`async`"):

        @streamable
        async def later(text):
            return text


# -- explain_streaming


def generate(chunks):
    yield from chunks


def test_the_step_that_stops_a_stream_is_named_with_the_reason():
    source = RunnableGenerator(generate)
    chain = source | strip_links | RunnableLambda(len)
    report = chain.explain_streaming()
    assert [step.name for step in report.buffering] == []  # its input comes in one piece, so nothing is held up
    words = RunnableLambda(lambda text: iter(text.split())) | generate

    def split(text):
        yield from text.split()

    chain = RunnableLambda(split) | generate | strip_links | generate
    report = chain.explain_streaming()
    assert not report
    assert [(step.number, step.name) for step in report.buffering] == [(3, "strip_links")]
    assert "test_streamable.py:" in str(report)
    assert "@streamable" in str(report)
    assert words.explain_streaming().steps[0].gives_chunks is False


def split(text):
    yield from text.split()


@pytest.mark.parametrize(
    ("last", "streams"),
    [
        (BY_LINK, True),
        (RunnableGenerator(generate), True),
        (RunnableGenerator(generate).with_config(tags=["x"]), True),
        (RunnableGenerator(generate).with_timeout(5), True),
        (RunnableGenerator(generate).with_retry(), False),
        (RunnableGenerator(generate) | BY_LINK, True),
        (RunnableGenerator(generate) | strip_links, False),
        ({"a": RunnableGenerator(generate), "b": strip_links}, True),
        (cheap(strip_links), False),
    ],
)
def test_what_it_says_is_what_happens(last, streams, driver):
    chain = RunnableLambda(split) | last
    assert bool(chain.explain_streaming()) is streams
    assert (len(driver.stream(chain, "a b c")) > 1) is streams


@pytest.mark.parametrize("anchored", [r"^ab", r"\Aab", r"x|^ab", r"(?:^)ab"])
def test_a_piece_cannot_tell_where_the_text_begins(anchored):
    with pytest.raises(InvalidInput, match="where the text begins"):
        streamable(hold=anchored)(str.upper)


@pytest.mark.parametrize("free", [r"[^a]b", r"\^ab", r"[]^]b", re.compile(r"^ab", re.MULTILINE)])
def test_what_only_looks_like_an_anchor_is_none(free):
    assert streamable(hold=free)(str.upper)("ab") == "AB"


def test_a_long_match_is_looked_through_a_few_times_only(driver):
    """Looking through all of it at every chunk would take quadratic time."""
    looked = 0

    def seen(text):
        nonlocal looked
        looked += len(text)
        return text

    part = streamable(hold=r"(?s)<think>.*?</think>")(lambda text: re.sub(r"(?s)<think>.*?</think>", "", text))
    kept = part._kept

    class Counting:
        def cut(self, text, function):
            seen(text)
            return kept.cut(text, function)

    part._kept = Counting()
    chunks = ["before <think>", *["word "] * 8_000, "</think>", *["after "] * 8_000]
    assert "".join(driver.transform(part, chunks)) == "before " + "after " * 8_000
    assert looked < 20 * sum(map(len, chunks))
