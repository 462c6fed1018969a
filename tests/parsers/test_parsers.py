"""Parsers as steps: whole, streamed, and in both colours."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
from collections.abc import Callable, Iterator
from datetime import date, datetime
from enum import Enum
from itertools import pairwise
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from runwell.errors import InvalidConfig, InvalidInput, OutputParserException
from runwell.messages.chunks import AIMessageChunk
from runwell.messages.message import AIMessage, HumanMessage
from runwell.parsers import (
    BaseOutputParser,
    BooleanOutputParser,
    CommaSeparatedListOutputParser,
    DatetimeOutputParser,
    EnumOutputParser,
    JsonOutputKeyToolsParser,
    JsonOutputParser,
    JsonOutputToolsParser,
    MarkdownListOutputParser,
    NumberedListOutputParser,
    PydanticOutputParser,
    PydanticToolsParser,
    RegexParser,
    StrOutputParser,
)
from runwell.runnables import RunnableLambda
from runwell.runnables.addable import add_all
from runwell.runnables.runnable import Runnable

FENCE = "```"


def cut(text: str, size: int) -> list[str]:
    return [text[index : index + size] for index in range(0, len(text), size)]


# -- text


def test_text_of_whatever_a_model_gives(driver: Any) -> None:
    parser = StrOutputParser()
    blocks = [
        {"type": "text", "text": "a"},
        {"type": "image", "url": "x"},
        "b",
        {"type": "reasoning", "reasoning": "?"},
    ]
    assert driver.invoke(parser, "ab") == "ab"
    assert driver.invoke(parser, AIMessage("ab")) == "ab"
    assert driver.invoke(parser, AIMessage(blocks)) == "ab"
    assert driver.invoke(parser, AIMessageChunk("ab")) == "ab"
    with pytest.raises(InvalidInput, match=r"takes a text or a message, not \{'a': 1\}"):
        driver.invoke(parser, {"a": 1})


def test_text_flows_piece_by_piece(driver: Any) -> None:
    pieces = [AIMessageChunk("He"), AIMessageChunk([{"type": "text", "text": "llo"}]), AIMessageChunk(""), "!"]
    assert driver.transform(StrOutputParser(), pieces) == ["He", "llo", "", "!"]


def test_a_stream_is_not_read_ahead() -> None:
    taken: list[int] = []

    def source() -> Iterator[str]:
        for number in range(5):
            taken.append(number)
            yield f'{{"n": "{number}'

    for parser in (StrOutputParser(), JsonOutputParser()):
        taken.clear()
        stream = parser.transform(source())
        next(stream)
        assert taken == [0]
        stream.close()  # type: ignore[attr-defined]


# -- JSON


def test_json_grows_as_it_is_written(driver: Any) -> None:
    text = f'Sure!\n{FENCE}json\n{{"setup": "Why", "n": 12, "tags": ["a", "b"]}}\n{FENCE}\nDone.'
    seen = driver.transform(JsonOutputParser(), [AIMessageChunk(piece) for piece in cut(text, 4)])
    assert seen[0] == {}
    assert seen[-1] == {"setup": "Why", "n": 12, "tags": ["a", "b"]}
    assert {value["n"] for value in seen if "n" in value} == {12}
    assert all(before.keys() <= after.keys() for before, after in pairwise(seen))
    assert all(before != after for before, after in pairwise(seen))


def test_out_09_a_stream_that_ends_in_a_backslash_keeps_what_it_showed(
    driver: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """OUT-09"""
    pieces = cut('{"foo": "bar", "baz": "qux\\', 5)
    with caplog.at_level(logging.WARNING, logger="runwell.parsers"):
        seen = driver.transform(JsonOutputParser(), pieces)
    assert seen[-1] == {"foo": "bar", "baz": "qux"}
    assert "ended in the middle of its JSON" in caplog.text
    assert "string at .baz" in caplog.text


def test_what_is_cut_off_is_an_error_or_kept_as_asked(driver: Any) -> None:
    text = '{"a": 1, "b": "x'
    with pytest.raises(OutputParserException, match="cut off") as caught:
        driver.invoke(JsonOutputParser(), AIMessage(text))
    assert caught.value.llm_output == text
    with pytest.raises(OutputParserException, match="cut off"):
        driver.transform(JsonOutputParser(on_cut="raise"), [text])
    keep = JsonOutputParser(on_cut="keep")
    assert driver.invoke(keep, text) == driver.transform(keep, [text])[-1] == {"a": 1, "b": "x"}
    with pytest.raises(InvalidConfig, match="on_cut"):
        JsonOutputParser(on_cut="drop")  # type: ignore[arg-type]


def test_a_stream_without_json_is_an_error(driver: Any) -> None:
    with pytest.raises(OutputParserException, match=r"no JSON in the text: 'Sorry\."):
        driver.transform(JsonOutputParser(), ["Sor", "ry."])
    with pytest.raises(OutputParserException, match="breaks at line 1, column 9"):
        driver.transform(JsonOutputParser(), ['{"a": 1', " oops}"])


def test_a_value_that_is_no_object_comes_at_the_end(driver: Any) -> None:
    assert driver.transform(JsonOutputParser(), ["4", "2"]) == [42]


@given(
    st.dictionaries(st.text(max_size=4), st.lists(st.text(max_size=6) | st.integers(), max_size=3), max_size=4),
    st.integers(1, 7),
    st.sampled_from(["{}", "Here:\n{}\nBye", f"{FENCE}json\n{{}}\n{FENCE}"]),
)
@settings(max_examples=60, deadline=None)
def test_streamed_or_whole_the_value_is_the_same(value: Any, size: int, around: str) -> None:
    text = around.replace("{}", json.dumps(value))
    parser = JsonOutputParser()
    assert parser.invoke(text) == value
    assert list(parser.transform(iter(cut(text, size))))[-1] == value
    changes = [
        operation
        for operations in JsonOutputParser(diff=True).transform(iter(cut(text, size)))
        for operation in operations
    ]
    assert patched(changes) == value


def patched(operations: list[dict[str, Any]]) -> Any:
    """JSON Patch, the three operations in use, read independently."""
    root: Any = None
    for operation in operations:
        if operation["path"] == "":
            root = json.loads(json.dumps(operation["value"]))
            continue
        *way, last = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]]
        inside = root
        for step in way:
            inside = inside[int(step)] if isinstance(inside, list) else inside[step]
        new = json.loads(json.dumps(operation.get("value")))
        if isinstance(inside, list):
            if last == "-":
                inside.append(new)
            else:
                inside[int(last)] = new
        else:
            inside[last] = new
    return root


def test_a_stream_of_snapshots_goes_on_as_its_last(driver: Any) -> None:
    chain = JsonOutputParser() | (lambda value: value["a"])
    assert driver.transform(chain, cut('{"a": "xyz"}', 3)) == ["xyz"]


# -- checked values


class Ticket(BaseModel):
    severity: Literal["low", "high"] = Field(description="How bad it is")
    summary: str
    due: date | None = None


TICKET = '{"severity": "low", "summary": "It is {broken}", "due": "2026-01-02"}'


def test_a_checked_value(driver: Any) -> None:
    parser = PydanticOutputParser(pydantic_object=Ticket)
    ticket = Ticket(severity="low", summary="It is {broken}", due=date(2026, 1, 2))
    assert driver.invoke(parser, AIMessage(f"So: {TICKET}.")) == ticket
    assert driver.transform(parser, [*cut(TICKET, 5), " and so on"]) == [ticket]
    with pytest.raises(OutputParserException) as caught:
        driver.invoke(parser, '{"severity": "odd", "summary": "x"}')
    assert "no Ticket: severity: Input should be 'low' or 'high' (got 'odd')" in caught.value.message
    assert caught.value.llm_output == '{"severity": "odd", "summary": "x"}'
    with pytest.raises(OutputParserException, match="cut off"):
        driver.transform(parser, ['{"severity": "low'])


def test_a_checked_value_is_given_before_the_prose_behind_it() -> None:
    def source() -> Iterator[str]:
        yield TICKET
        raise AssertionError("read on")

    assert next(PydanticOutputParser(Ticket).transform(source())).severity == "low"


def test_any_type_pydantic_knows() -> None:
    assert PydanticOutputParser(dict[str, set[int]]).parse('{"a": [1, 2]}') == {"a": {1, 2}}
    parser = pickle.loads(pickle.dumps(PydanticOutputParser(Ticket)))
    assert parser.parse(TICKET).summary == "It is {broken}"


# -- lists


@pytest.mark.parametrize(
    ("parser", "text", "items"),
    [
        (CommaSeparatedListOutputParser(), 'red, "light, blue",  green ', ["red", "light, blue", "green"]),
        (CommaSeparatedListOutputParser(), "red,\nblue,", ["red", "blue"]),
        (CommaSeparatedListOutputParser(), 'a "quoted" word, b', ['a "quoted" word', "b"]),
        (CommaSeparatedListOutputParser(), "", []),
        (
            NumberedListOutputParser(),
            "Here:\n\n1. red\n  2) light blue \n10. v1.2, yes",
            ["red", "light blue", "v1.2, yes"],
        ),
        (NumberedListOutputParser(), "It took 3. Days passed.", []),
        (MarkdownListOutputParser(), "Here:\n- red\n* light - blue\n  + green", ["red", "light - blue", "green"]),
        (MarkdownListOutputParser(), "- red\n---\n-not", ["red"]),
    ],
)
def test_lists(driver: Any, parser: Any, text: str, items: list[str]) -> None:
    assert driver.invoke(parser, AIMessage(text)) == items
    for size in (1, 3, 100):
        seen = driver.transform(parser, cut(text, size))
        assert [item for each in seen for item in each] == items
        assert len(seen) == max(len(items), 1)


def test_an_item_comes_when_it_is_whole() -> None:
    def source() -> Iterator[str]:
        yield "re"
        yield "d, bl"
        raise AssertionError("read on")

    assert next(CommaSeparatedListOutputParser().transform(source())) == ["red"]


# -- single values


class Mood(Enum):
    GOOD = "good"
    SO_SO = "so so"
    ONE = 1


def test_one_of_a_set() -> None:
    parser = EnumOutputParser(Mood)
    assert [parser.parse(text) for text in ("good", ' "so so"\n', "1")] == [Mood.GOOD, Mood.SO_SO, Mood.ONE]
    with pytest.raises(OutputParserException, match="'bad' is not one of 'good', 'so so', '1'"):
        parser.parse("bad")


def test_yes_or_no() -> None:
    parser = BooleanOutputParser()
    assert parser.parse("Yes.") is True
    assert parser.parse("The answer is NO") is False
    for text, said in (("yes and no", "both"), ("nothing", "neither"), ("", "neither")):
        with pytest.raises(OutputParserException, match=said):
            parser.parse(text)


def test_a_moment() -> None:
    assert DatetimeOutputParser().parse(" 2024-03-01T09:30:15.25Z ") == datetime(2024, 3, 1, 9, 30, 15, 250000)
    with pytest.raises(OutputParserException, match="no moment"):
        DatetimeOutputParser(format="%Y").parse("soon")


def test_groups_of_a_regular_expression() -> None:
    parser = RegexParser(r"Score: (\d+)(?: of (\d+))?", ["score", "best"])
    assert parser.parse("So. Score: 7 of 10") == {"score": "7", "best": "10"}
    assert parser.parse("Score: 7") == {"score": "7", "best": ""}
    with pytest.raises(OutputParserException, match="does not match"):
        parser.parse("none")
    assert RegexParser("(x)", ["x", "rest"][:1], "x").parse("none") == {"x": "none"}
    with pytest.raises(InvalidInput, match="1 groups"):
        RegexParser("(x)", ["a", "b"])
    with pytest.raises(InvalidInput, match="no regular expression"):
        RegexParser("(", ["a"])


@pytest.mark.parametrize(
    ("parser", "example"),
    [
        (JsonOutputParser(pydantic_object=Ticket), '{"colours": ["red", "blue"]}'),
        (CommaSeparatedListOutputParser(), "red, blue, green"),
        (NumberedListOutputParser(), "1. red\n2. blue\n3. green"),
        (MarkdownListOutputParser(), "- red\n- blue\n- green"),
        (DatetimeOutputParser(), "2024-03-01T09:30:15.250000Z"),
        (EnumOutputParser(Mood), "good"),
        (BooleanOutputParser(), "YES"),
    ],
)
def test_the_example_in_the_instructions_parses(parser: Any, example: str) -> None:
    assert example in parser.get_format_instructions()
    assert parser.parse(example)


@given(st.lists(st.from_regex(r"[a-z][a-z ]{0,8}[a-z]", fullmatch=True), min_size=1, max_size=5))
@settings(max_examples=40, deadline=None)
def test_lists_written_as_the_instructions_say_come_back(items: list[str]) -> None:
    assert CommaSeparatedListOutputParser().parse(", ".join(items)) == items
    numbered = "\n".join(f"{number}. {item}" for number, item in enumerate(items, 1))
    assert NumberedListOutputParser().parse(numbered) == items
    assert MarkdownListOutputParser().parse("\n".join(f"- {item}" for item in items)) == items


def test_the_instructions_hold_the_schema() -> None:
    for parser in (JsonOutputParser(pydantic_object=Ticket), PydanticOutputParser(Ticket)):
        told = parser.get_format_instructions()
        schema = json.loads(told.split(f"{FENCE}json\n")[1].split(FENCE)[0])
        assert schema["properties"]["severity"]["description"] == "How bad it is"
        assert schema["required"] == ["severity", "summary"]
    assert "JSON" in JsonOutputParser().get_format_instructions()


# -- tool calls


def call(name: str, id: str = "1", **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


def test_tool_calls(driver: Any) -> None:
    message = AIMessage("", tool_calls=[call("add", a=1), call("mul", "2", a=2), call("add", "3", a=3)])
    both = [{"type": "add", "args": {"a": 1}}, {"type": "mul", "args": {"a": 2}}, {"type": "add", "args": {"a": 3}}]
    assert driver.invoke(JsonOutputToolsParser(), message) == both
    assert driver.invoke(JsonOutputToolsParser(first_tool_only=True), message) == both[0]
    assert driver.invoke(JsonOutputToolsParser(first_tool_only=True, return_id=True), message) == {**both[0], "id": "1"}
    assert driver.invoke(JsonOutputKeyToolsParser("add"), message) == [{"a": 1}, {"a": 3}]
    assert driver.invoke(JsonOutputKeyToolsParser("mul", first_tool_only=True), message) == {"a": 2}
    assert driver.invoke(JsonOutputToolsParser(), AIMessage("x")) == []
    assert driver.invoke(JsonOutputKeyToolsParser("add", first_tool_only=True), AIMessage("x")) is None


def fragments(*parts: tuple[int | None, str | None, str | None, str]) -> list[AIMessageChunk]:
    return [
        AIMessageChunk("", tool_call_chunks=[{"index": index, "id": call_id, "name": name, "args": args}])
        for index, call_id, name, args in parts
    ]


def test_tool_calls_show_while_they_are_written(driver: Any) -> None:
    pieces = fragments(
        (0, "1", "say", ""),
        (0, None, None, '{"te'),
        (0, None, None, 'xt": "He'),
        (0, None, None, 'llo", "n": 1'),
        (0, None, None, "2}"),
        (1, "2", "add", '{"a": 1}'),
    )
    seen = driver.transform(JsonOutputToolsParser(), [AIMessageChunk("Well. "), *pieces])
    assert seen == [
        [{"type": "say", "args": {}}],
        [{"type": "say", "args": {"text": "He"}}],
        [{"type": "say", "args": {"text": "Hello"}}],
        [{"type": "say", "args": {"text": "Hello", "n": 12}}],
        [{"type": "say", "args": {"text": "Hello", "n": 12}}, {"type": "add", "args": {"a": 1}}],
    ]
    assert driver.transform(JsonOutputKeyToolsParser("add", first_tool_only=True), pieces) == [{"a": 1}]
    assert driver.transform(JsonOutputKeyToolsParser("say", first_tool_only=True), pieces)[-1] == {
        "text": "Hello",
        "n": 12,
    }
    assert driver.transform(PydanticToolsParser([Add]), fragments((0, "1", "Add", '{"a": 1}'))) == [[Add(a=1)]]
    assert driver.transform(JsonOutputToolsParser(), [AIMessageChunk("no call")]) == [[]]


@given(
    st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=5) | st.integers(), max_size=3), max_size=3),
    st.integers(1, 5),
)
@settings(max_examples=40, deadline=None)
def test_streamed_or_whole_the_calls_are_the_same(arguments: list[dict[str, Any]], size: int) -> None:
    pieces: list[AIMessageChunk] = [AIMessageChunk("")]
    for index, args in enumerate(arguments):
        pieces += fragments(
            (index, f"id{index}", "f", ""), *((index, None, None, t) for t in cut(json.dumps(args), size))
        )
    whole = add_all(pieces)
    for parser in (JsonOutputToolsParser(), JsonOutputKeyToolsParser("f"), JsonOutputToolsParser(first_tool_only=True)):
        assert list(parser.transform(iter(pieces)))[-1] == parser.invoke(whole)


def test_a_call_that_breaks_while_it_is_written_is_an_error(driver: Any) -> None:
    for broken in ('{"a": 1, oops}', '{"a": 1'):
        with pytest.raises(OutputParserException, match="arguments of the call to 'add' cannot be read"):
            driver.transform(
                JsonOutputToolsParser(), fragments((0, "1", "add", broken[:6]), (0, None, None, broken[6:]))
            )


class Add(BaseModel):
    """Add."""

    a: int


def test_checked_tool_calls(driver: Any) -> None:
    parser = PydanticToolsParser(tools=[Add, Ticket])
    message = AIMessage("", tool_calls=[call("Add", a=1), call("Ticket", "2", severity="low", summary="x")])
    assert driver.invoke(parser, message) == [Add(a=1), Ticket(severity="low", summary="x")]
    assert driver.invoke(PydanticToolsParser([Add], first_tool_only=True), AIMessage("")) is None
    for wrong, said in (
        (call("Ad", a=1), "called 'Ad', which is none of the tools; did you mean 'Add'"),
        (call("Add", a="x"), "no Add: a: Input should be a valid integer"),
    ):
        with pytest.raises(OutputParserException, match=said):
            driver.invoke(parser, AIMessage("", tool_calls=[wrong]))
    with pytest.raises(InvalidConfig, match="Two of the tools"):
        PydanticToolsParser([Add, Add])


def test_calls_that_cannot_be_read_are_never_passed_over(driver: Any) -> None:
    broken = {"name": "add", "args": '{"a": ', "id": "1", "error": "cut off", "type": "invalid_tool_call"}
    message = AIMessage("", tool_calls=[call("add", "2", a=1)], invalid_tool_calls=[broken])
    for parser in (JsonOutputToolsParser(), JsonOutputKeyToolsParser("mul"), PydanticToolsParser([Add])):
        with pytest.raises(OutputParserException, match="arguments of the call to 'add' cannot be read: cut off"):
            driver.invoke(parser, message)
    for given_instead in ("text", HumanMessage("text")):
        with pytest.raises(InvalidInput, match="reads the tool calls of a message"):
            driver.invoke(JsonOutputToolsParser(), given_instead)


# -- parsers of one's own


def test_a_parser_of_ones_own_in_either_colour(driver: Any) -> None:
    class Length(BaseOutputParser[int]):
        def parse(self, text: str) -> int:
            return len(text)

    class Later(BaseOutputParser[int]):
        def parse(self, text: str) -> int:
            return -1

        async def aparse(self, text: str) -> int:
            await asyncio.sleep(0)
            return len(text)

    assert driver.invoke(Length(), AIMessage("abc")) == 3
    assert driver.transform(Length(), ["ab", "c"]) == [3]
    assert driver.invoke(Later(), "abc") == (-1 if driver.colour == "sync" else 3)
    assert Length().OutputType is int
    assert StrOutputParser().OutputType is str


def test_a_generation_is_read_by_its_message() -> None:
    class Generation:
        message = AIMessage("abc")

    assert StrOutputParser().parse_result([Generation()]) == "abc"
    with pytest.raises(InvalidInput, match="no generation"):
        StrOutputParser().parse_result([])


def every_parser() -> list[Callable[[], Runnable[Any, Any]]]:
    return [StrOutputParser, JsonOutputParser, CommaSeparatedListOutputParser, BooleanOutputParser]


@pytest.mark.parametrize("make", every_parser())
def test_a_name_shows_in_traces(make: Any) -> None:
    assert make().get_name() == make.__name__
    assert make(name="answer").get_name() == "answer"


def test_a_parser_says_what_it_gives():
    class Mood(Enum):
        GOOD = "good"

    class Answer(BaseModel):
        mood: str

    assert EnumOutputParser(enum=Mood).OutputType is Mood
    assert PydanticOutputParser(pydantic_object=Answer).OutputType is Answer
    chain = RunnableLambda(str) | PydanticOutputParser(pydantic_object=Answer)
    assert list(chain.get_output_jsonschema()["properties"]) == ["mood"]
    with pytest.raises(InvalidInput, match="an Enum class"):
        EnumOutputParser(enum=["good"])
