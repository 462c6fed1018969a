"""XML out of what a model wrote."""

from __future__ import annotations

import sys
from itertools import pairwise
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwell.errors import MissingExtra, OutputParserException
from runwell.messages import AIMessageChunk
from runwell.parsers import XMLOutputParser

MOVIES = "<movies><movie><title>Up</title><year>2009</year></movie><movie><title>B &amp; C</title></movie></movies>"
VALUE = {"movies": [{"movie": [{"title": "Up"}, {"year": "2009"}]}, {"movie": [{"title": "B & C"}]}]}


@pytest.mark.parametrize(
    "text",
    [
        MOVIES,
        f"Sure, x < 3!\n```xml\n{MOVIES}\n```\nAnything <b>else</b>?",
        f'<?xml version="1.0" encoding="UTF-8"?>\n<!-- films -->\n{MOVIES}',
        MOVIES.replace("><", ">\n  <"),
        MOVIES.replace("B &amp; C", "<![CDATA[B & C]]>"),
    ],
)
def test_alone_and_in_prose(text, driver):
    assert driver.invoke(XMLOutputParser(), text) == VALUE


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<a/>", {"a": ""}),
        ("<a> x </a>", {"a": "x"}),
        ('<a id="1">x</a>', {"a": [{"@id": "1"}, {"#text": "x"}]}),
        ("<a>one <b>two</b> three</a>", {"a": [{"#text": "one"}, {"b": "two"}, {"#text": "three"}]}),
        ("<a>ü☃</a>", {"a": "ü☃"}),
    ],
)
def test_nothing_is_dropped(text, value, driver):
    assert driver.invoke(XMLOutputParser(), text) == value


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_stream_gives_the_value_so_far(size, driver):
    text = f"Here: {MOVIES} done"
    pieces = [AIMessageChunk(text[place : place + size]) for place in range(0, len(text), size)]
    values = driver.transform(XMLOutputParser(), pieces)
    assert values[-1] == VALUE
    if size == 1:
        assert {"movies": [{"movie": [{"title": "Up"}]}]} in values
        assert len(values) > 10
        assert all(first != second for first, second in pairwise(values))


def test_a_text_that_breaks_off_raises_and_a_stream_keeps_what_it_showed(driver, caplog):
    cut = MOVIES[: MOVIES.index("2009")]
    with pytest.raises(OutputParserException, match="breaks off in movies/movie") as caught:
        driver.invoke(XMLOutputParser(), cut)
    assert caught.value.llm_output == cut
    assert driver.transform(XMLOutputParser(), [cut])[-1] == {"movies": [{"movie": [{"title": "Up"}, {"year": ""}]}]}
    assert "middle of its XML" in caplog.text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("no markup at all", "no XML"),
        ("", "no XML"),
        ("<a><b></a>", "broken in a/b"),
        ("<a>x & y</a>", "broken"),
        ('<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>', "no XML|refused"),
        ('<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>', "refused"),
        ('<?xml version="1.0"?><!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', "refused"),
        ('<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "1"><!ENTITY b "&a;&a;">]><a>&b;</a>', "refused"),
    ],
)
def test_what_is_no_xml_or_dangerous_is_told(text, told, driver):
    with pytest.raises(OutputParserException, match=told):
        driver.invoke(XMLOutputParser(), text)


TREES = st.recursive(
    st.text(alphabet="abü<&>'\" ", max_size=5).map(str.strip),
    lambda inner: st.lists(st.tuples(st.sampled_from(["a", "b-c", "d_1"]), inner), min_size=1, max_size=3),
    max_leaves=8,
)


def written(tag, value):
    inside = escape(value) if isinstance(value, str) else "".join(written(*each) for each in value)
    return f"<{tag}>{inside}</{tag}>"


def read(tag, value):
    return {tag: value if isinstance(value, str) else [read(*each) for each in value]}


@given(TREES, st.integers(1, 7))
def test_what_is_written_is_read_whole_and_in_pieces(tree, size):
    text = written("root", tree)
    assert XMLOutputParser().parse(text) == read("root", tree)
    pieces = [text[place : place + size] for place in range(0, len(text), size)]
    assert list(XMLOutputParser().transform(iter(pieces)))[-1] == read("root", tree)


def test_instructions_and_the_missing_package(monkeypatch):
    assert "movie" in XMLOutputParser(tags=["movies", "movie"]).get_format_instructions()
    monkeypatch.setitem(sys.modules, "defusedxml.ElementTree", None)
    with pytest.raises(MissingExtra, match=r"runwell\[xml\]"):
        XMLOutputParser()
