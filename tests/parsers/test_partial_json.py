"""Reading JSON that is cut off, broken, in prose or in fences."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runwell.errors import OutputParserException
from runwell.parsers import JsonOutputParser, XMLOutputParser
from runwell.parsers.json_finder import JsonFinder, find_json
from runwell.parsers.json_reader import JsonReader
from runwell.parsers.partial_json import parse_json_markdown, parse_partial_json

FENCE = "```"

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
    | st.sampled_from(["\\", '"', "a\\", "😀", "x\n\ty", "```", "{", "}]", "\\u12"])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
)
DOCUMENTS = st.dictionaries(st.text(max_size=5), VALUES, max_size=4) | st.lists(VALUES, max_size=4)


def grew(before: Any, after: Any) -> bool:
    """Whether `after` holds all that `before` showed: the same keys and items, and strings that begin alike."""
    if isinstance(before, dict):
        return (
            isinstance(after, dict) and before.keys() <= after.keys() and all(grew(before[k], after[k]) for k in before)
        )
    if isinstance(before, list):
        return (
            isinstance(after, list)
            and len(before) <= len(after)
            and all(grew(b, a) for b, a in zip(before, after, strict=False))
        )
    if isinstance(before, str):
        return isinstance(after, str) and after.startswith(before)
    return type(before) is type(after) and before == after


def pieces(text: str, sizes: list[int]) -> list[str]:
    """`text` in pieces of the given sizes, used again and again."""
    found, index, turn = [], 0, 0
    while index < len(text):
        size = sizes[turn % len(sizes)]
        found.append(text[index : index + size])
        index += size
        turn += 1
    return found


@given(DOCUMENTS, st.booleans(), st.sampled_from([None, 2]))
@settings(max_examples=80, deadline=None)
def test_a_document_cut_anywhere_only_grows(document: Any, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(document, ensure_ascii=ascii_only, indent=indent)
    before = None
    for end in range(len(text) + 1):
        after = parse_partial_json(text[:end])
        if before is not None:
            assert grew(before, after), (text[:end], before, after)
        before = after
    assert before == document


@given(DOCUMENTS, st.booleans(), st.lists(st.integers(1, 9), min_size=1, max_size=4))
@settings(max_examples=80, deadline=None)
def test_pieces_of_any_size_give_the_same_as_the_whole(document: Any, ascii_only: bool, sizes: list[int]) -> None:
    text = json.dumps(document, ensure_ascii=ascii_only)
    reader = JsonReader()
    read = ""
    for piece in pieces(text, sizes):
        reader.feed(piece)
        read += piece
        assert reader.value() == parse_partial_json(read)
    assert reader.done
    assert reader.value() == document


@given(DOCUMENTS, st.lists(st.integers(1, 9), min_size=1, max_size=4))
@settings(max_examples=100, deadline=None)
def test_what_was_shown_does_not_change_afterwards(document: Any, sizes: list[int]) -> None:
    reader = JsonReader()
    shown: list[tuple[Any, str]] = []
    for piece in pieces(json.dumps(document), sizes):
        reader.feed(piece)
        shown.append((reader.value(), json.dumps(reader.value())))
    for value, as_it_was in shown:
        assert json.dumps(value) == as_it_was


@given(st.text(alphabet='{}[]",:\\u0123456789abdefn \n-.', max_size=40))
@settings(max_examples=200, deadline=None)
def test_any_text_gives_a_value_or_an_error_with_that_text(text: str) -> None:
    try:
        found: Any = find_json(text)
    except OutputParserException as error:
        found = {"refused": error.llm_output}
    assert json.dumps(found)
    assert find_json(json.dumps(found)) == found


@given(st.text(alphabet='{}[]",:`\n json1a', max_size=60), st.lists(st.integers(1, 5), min_size=1, max_size=3))
@settings(max_examples=200, deadline=None)
def test_finding_does_not_depend_on_how_the_text_is_cut(text: str, sizes: list[int]) -> None:
    def find(parts: list[str]) -> Any:
        finder = JsonFinder()
        try:
            for part in parts:
                finder.feed(part)
            return finder.finish()
        except OutputParserException:
            return "refused"

    assert find([text]) == find(pieces(text, sizes))


def test_out_09_text_that_ends_in_a_backslash_keeps_every_key() -> None:
    """OUT-09"""
    text = '{"foo": "bar", "baz": "qux\\'
    assert parse_partial_json(text) == {"foo": "bar", "baz": "qux"}
    reader = JsonReader()
    keys = 0
    for mark in text:
        reader.feed(mark)
        assert len(reader.value()) >= keys
        keys = len(reader.value())
    assert keys == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("  ", None),
        ("{", {}),
        ('{"a', {}),
        ('{"a"', {}),
        ('{"a":', {}),
        ('{"a": 12', {}),
        ('{"a": 12,', {"a": 12}),
        ('{"a": -', {}),
        ('{"a": 1.', {}),
        ('{"a": tru', {}),
        ('{"a": true}', {"a": True}),
        ('{"a": "', {"a": ""}),
        ('{"a": "x\\u00e', {"a": "x"}),
        ('{"a": "\\ud83d', {"a": ""}),
        ('{"a": "\\ud83d\\ude00', {"a": "😀"}),
        ("[[1, 2], [3", [[1, 2], []]),
        ('"abc', "abc"),
        ("12", 12),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        ('{"a": [1, 2,],}', {"a": [1, 2]}),
        ('{"a": "\\ud83d!"}', {"a": "\ufffd!"}),
        ('{"a": "\\ud83d\\u0041"}', {"a": "\ufffdA"}),
        ('{"a": "\\ud83d\\n"}', {"a": "\ufffd\n"}),
        ('{"a": "\\ud83d\\ud83d\\ude00"}', {"a": "\ufffd😀"}),
        ('{"a": "\\ude00"}', {"a": "\ufffd"}),
        ('{"a": 1, "a": 2}', {"a": 2}),
    ],
)
def test_cut_off_text(text: str, value: Any) -> None:
    assert parse_partial_json(text) == value


def test_nan_and_infinity_are_read_as_python_writes_them() -> None:
    value = parse_partial_json(json.dumps([math.nan, math.inf, -math.inf]))
    assert math.isnan(value[0])
    assert value[1:] == [math.inf, -math.inf]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{'a': 1}", "a key in double quotes"),
        ('{"a" 1}', "expected ':' after the key 'a'"),
        ('{"a": 1 "b"', "expected ',' or '}'"),
        ('{"a": truth}', "'truth' is no JSON value"),
        ('{"a": 01}', "'01' is no JSON value"),
        ('{"a": "\\x"}', "unknown escape"),
        ('{"a": "\\u12g4"}', "unfinished escape"),
        ("[1,,2]", "expected a value"),
        ('{"a": 1} and', "follows the JSON value"),
        ("[" * 300, "nested more than 200"),
        ("9" * 5000 + " ", "too long"),
    ],
)
def test_text_that_is_no_json_says_what_was_expected(text: str, said: str) -> None:
    with pytest.raises(OutputParserException) as caught:
        parse_partial_json(text)
    assert said in str(caught.value)
    assert caught.value.llm_output == text


def test_strict_refuses_what_is_cut_off() -> None:
    assert parse_partial_json('{"a": 1}', strict=True) == {"a": 1}
    with pytest.raises(OutputParserException, match=r"cut off in the string at \.a\.b\[1\]"):
        parse_partial_json('{"a": {"b": [1, "x', strict=True)


def test_out_10_a_value_that_contains_a_code_fence() -> None:
    """OUT-10"""
    value = {"code": f"{FENCE}python\nprint('hi')\n{FENCE}", "more": [1, 2]}
    text = f"Here you are:\n{FENCE}json\n{json.dumps(value)}\n{FENCE}\nAnything else?"
    assert parse_json_markdown(text) == value
    raw = text.replace("\\n", "\n")  # models write line breaks into strings as they are
    assert parse_json_markdown(raw) == value


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        ' \n{"a": 1}\n ',
        '\ufeff{"a": 1}',
        f'{FENCE}json\n{{"a": 1}}\n{FENCE}',
        f'{FENCE}JSON\n{{"a": 1}}',
        f'{FENCE}\n{{"a": 1}}\n{FENCE}',
        f'{FENCE}json {{"a": 1}} {FENCE}',
        '~~~json\n{"a": 1}\n~~~',
        'The answer is {"a": 1}, as asked.',
        'See [1] and {name}, the empty {} and [].\n{"a": 1}',
        'As [Smith 2019, p. 5] says: { "a": 1 }',
        f'Not this:\n{FENCE}python\nd = {{"b": 2}}\n{{"c": 3}}\n{FENCE}\nbut\n{FENCE}json\n{{"a": 1}}\n{FENCE}',
        '{not this}\n{"a": 1}',
        '{"a": 1}\n{"b": 2}',
    ],
)
def test_json_is_found_in_what_models_write(text: str) -> None:
    assert parse_json_markdown(text) == {"a": 1}
    finder = JsonFinder()
    for mark in text:
        finder.feed(mark)
    assert finder.finish() == {"a": 1}


@pytest.mark.parametrize(
    ("text", "value"),
    [("42", 42), ('"x"', "x"), (f"{FENCE}json\ntrue\n{FENCE}", True), ("List: [[1], [2]]", [[1], [2]])],
)
def test_values_that_are_no_objects(text: str, value: Any) -> None:
    assert parse_json_markdown(text) == value


def test_no_json_at_all_shows_the_text_and_what_to_do() -> None:
    with pytest.raises(OutputParserException, match="no JSON in the text: 'Sorry, I cannot'") as caught:
        parse_json_markdown("Sorry, I cannot")
    assert caught.value.hint is not None
    assert "with_structured_output" in caught.value.hint


def test_a_broken_value_is_an_error_with_its_place_and_never_a_fragment_of_it() -> None:
    text = 'So:\n{"a": [1, 2] oops, "b": {"c": 1}}'
    with pytest.raises(OutputParserException, match="line 2, column 14"):
        parse_json_markdown(text)


def test_a_value_that_is_cut_off_is_an_error_unless_allowed() -> None:
    text = 'So:\n{"a": [1, 2], "b": "half'
    with pytest.raises(OutputParserException, match=r"cut off in the string at \.b"):
        parse_json_markdown(text)
    assert find_json(text, allow_cut=True) == {"a": [1, 2], "b": "half"}


def test_reading_in_small_pieces_never_goes_back_to_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work is linear in the text: every character is read once."""
    read = 0
    feed = JsonReader.feed

    def counted(self: JsonReader, piece: str, index: int = 0) -> int:
        nonlocal read
        end = feed(self, piece, index)
        read += end - index
        return end

    monkeypatch.setattr(JsonReader, "feed", counted)
    text = "Look: " + json.dumps([{"n": n, "s": "x\\y"} for n in range(500)])
    finder = JsonFinder()
    shown = sum(finder.feed(text[index : index + 3]) for index in range(0, len(text), 3))
    assert finder.done
    assert shown > 500
    assert read <= len(text)


@pytest.mark.parametrize(
    ("parser", "text"),
    [
        (JsonOutputParser(), lambda size: "[" + ",".join(['{"a": "xyz"}'] * size) + "]"),
        (JsonOutputParser(), lambda size: "{" + ",".join(f'"k{n}": {n}' for n in range(size)) + "}"),
        (JsonOutputParser(), lambda size: json.dumps({"text": "word " * size * 6})),
        (XMLOutputParser(), lambda size: "<r>" + "<a>xyz</a>" * size + "</r>"),
        (XMLOutputParser(), lambda size: "<r>" + "word " * size * 6 + "</r>"),
    ],
    ids=["list", "dict", "string", "elements", "text"],
)
def test_what_a_long_stream_copies_is_linear_in_its_length(parser, text):
    """Entries and characters handed out, over all values shown: doubling the text doubles them, not more."""

    def copied(size):
        total, last, whole = 0, None, text(size)
        for value in parser.transform(whole[place : place + 8] for place in range(0, len(whole), 8)):
            total += weight(value)
            last = value
        assert last == parser.invoke(whole)
        return total / len(whole)

    assert copied(16_000) < 1.3 * copied(8_000)


def weight(value):
    """How much of a value is new when a part of it grows."""
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    if isinstance(value, str):
        return len(value) / 32
    return len(value) if isinstance(value, dict | list) else 1


def test_a_long_stream_of_changes_still_makes_the_whole():
    text = "[" + ",".join(map(str, range(3_000))) + "]"
    changes = list(JsonOutputParser(diff=True).transform(text[place : place + 4] for place in range(0, len(text), 4)))
    assert len(changes) < len(text) / 8
    built = changes[0][0]["value"]
    for change in changes[1:]:
        built += [each["value"] for each in change]
    assert built == list(range(3_000))


def test_a_long_stream_that_is_cut_has_shown_all_of_it():
    text = "[" + ",".join(["1"] * 9_000)
    *_, last = JsonOutputParser(on_cut="keep").transform(iter(text))
    assert last == [1] * 8_999
