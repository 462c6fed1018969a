"""An answer in a shape is seen while it is written: never less than before, and the last is checked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from runwell.errors import InvalidInput, OutputParserException
from runwell.messages import AIMessage, validate_history
from runwell.messages.partial import partial_json
from runwell.observe import BaseCallbackHandler
from runwell.runnables import RunnableLambda
from runwell.schemas.partial import unchecked
from runwell.testing import FakeChatModel


class Dish(BaseModel):
    name: str
    price: int | None = None


class Menu(BaseModel):
    title: str
    dishes: list[Dish]
    open: bool


@dataclass
class Point:
    x: str
    y: str


class Note(TypedDict):
    text: str
    tags: list[str]


MENU = {"title": "Lunch", "dishes": [{"name": "Soup", "price": 12}, {"name": "Rice", "price": None}], "open": True}


def answering(value: Any, method: str, name: str, size: int = 3) -> FakeChatModel:
    if method == "function_calling":
        reply = AIMessage("", tool_calls=[{"name": name, "args": value, "id": "1", "type": "tool_call"}])
    else:
        reply = AIMessage(json.dumps(value, ensure_ascii=False))
    return FakeChatModel([reply], chunk_size=size, cycle=True)


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_objects_of_the_class_fill_up(method: str, driver: Any) -> None:
    structured = answering(MENU, method, "Menu").with_structured_output(Menu, method=method)
    *parts, last = driver.stream(structured, "Hi")
    assert last == Menu(**MENU) == driver.invoke(structured, "Hi")
    assert len(parts) > 5
    assert all(type(part) is Menu for part in parts)
    assert parts[0].dishes is None
    titles = [part.title for part in parts if part.title]
    assert titles == sorted(titles, key=len)
    names = [[dish.name for dish in part.dishes] for part in parts if part.dishes]
    assert ["Soup", "R"] in names or ["Soup", "Ri"] in names or ["Soup", "Rice"] in names
    prices = {part.dishes[0].price for part in parts if part.dishes}
    assert prices <= {None, 12}, "a number is shown once it is whole"


def test_dataclasses_dicts_lists_and_unions(driver: Any) -> None:
    def parts(schema: Any, value: Any, name: str) -> list[Any]:
        return driver.stream(
            answering(value, "json_schema", name).with_structured_output(schema, method="json_schema"), "Hi"
        )

    points = parts(Point, {"x": "abc", "y": "def"}, "Point")
    assert points[0].y is None
    assert points[-1] == Point("abc", "def")
    notes = parts(Note, {"text": "abc", "tags": ["x", "y"]}, "Note")
    assert notes[0].keys() == {"text"}
    assert notes[-1] == {"text": "abc", "tags": ["x", "y"]}
    assert len({json.dumps(note) for note in notes[:-1]}) == len(notes) - 1, "nothing is shown twice"
    schema = {"title": "N", "type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    assert parts(schema, {"a": "xyzabc"}, "N")[-1] == {"a": "xyzabc"}
    dishes = parts(list[Dish], {"value": [{"name": "Soup"}, {"name": "Rice"}]}, "answer")
    assert [dish.name for dish in dishes[-1]] == ["Soup", "Rice"]
    assert any(len(some) == 1 and type(some[0]) is Dish for some in dishes)


def test_a_union_is_an_object_once_it_is_clear_which() -> None:
    class Cat(BaseModel):
        kind: Literal["cat"]
        purrs: str

    class Dog(BaseModel):
        kind: Literal["dog"]
        barks: str

    assert unchecked(Cat | Dog, {}) == {}
    assert unchecked(Cat | Dog, {"kind": "ca"}) == {"kind": "ca"}
    assert type(unchecked(Cat | Dog | None, {"kind": "cat"})) is Cat
    assert type(unchecked(list[Cat | Dog], [{"barks": "w"}])[0]) is Dog


def test_aliases_and_nested_fields() -> None:
    class Inner(BaseModel):
        when: str = Field(alias="at")

    class Outer(BaseModel):
        inner: Inner | None
        by: dict[str, Inner]

    made = unchecked(Outer, {"inner": {"at": "now"}, "by": {"a": {"at": "then"}}})
    assert (made.inner.when, made.by["a"].when) == ("now", "then")


def test_an_answer_that_does_not_fit_is_said_at_the_end(driver: Any) -> None:
    structured = answering({"title": "Lunch", "dishes": "none", "open": True}, "json_schema", "Menu")
    seen: list[Any] = []
    with pytest.raises(OutputParserException, match="dishes"):
        driver.stream(structured.with_structured_output(Menu, method="json_schema") | RunnableLambda(seen.append), "Hi")
    assert seen == [], "a step behind gets the checked answer or nothing"


def test_with_raw_the_message_grows_too(driver: Any) -> None:
    structured = answering(MENU, "json_schema", "Menu").with_structured_output(
        Menu, method="json_schema", include_raw=True
    )
    *parts, last = driver.stream(structured, "Hi")
    assert last["parsed"] == Menu(**MENU)
    assert type(last["raw"]) is AIMessage
    assert parts
    assert all(part["parsing_error"] is None for part in parts)
    lengths = [len(part["raw"].text) for part in parts]
    assert lengths == sorted(lengths)


def test_out_09_a_stream_cut_behind_a_backslash_loses_nothing() -> None:
    """OUT-09"""
    assert partial_json('{"foo": "bar", "baz": "qux\\') == {"foo": "bar", "baz": "qux"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9999, 9999) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def grows(old: Any, new: Any) -> bool:
    """Whether nothing of the old is gone in the new."""
    if isinstance(old, dict):
        return isinstance(new, dict) and all(key in new and grows(old[key], new[key]) for key in old)
    if isinstance(old, list):
        return (
            isinstance(new, list) and len(new) >= len(old) and all(grows(*both) for both in zip(old, new, strict=False))
        )
    return old is None or (isinstance(old, str) and isinstance(new, str) and new.startswith(old)) or old == new


@given(st.dictionaries(st.text(max_size=4), json_values, min_size=1, max_size=4))
def test_out_09_no_beginning_shows_more_than_a_later_one(value: dict[str, Any]) -> None:
    """OUT-09"""
    text = json.dumps(value, ensure_ascii=False)
    seen: Any = {}
    for end in range(1, len(text)):
        found = partial_json(text[:end])
        assert found is None or grows(found, value), (text[:end], found)
        seen = found
    assert seen is None or grows(seen, value)
    assert partial_json(text) == value


DISH = {"name": "Soup", "price": 3}


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_an_answer_that_does_not_fit_is_asked_for_again(method: str, driver: Any) -> None:
    def reply(value: Any, id: str) -> AIMessage:
        if method == "function_calling":
            return AIMessage("", tool_calls=[{"name": "Dish", "args": value, "id": id, "type": "tool_call"}])
        return AIMessage(json.dumps(value))

    for call in (driver.invoke, lambda part, given: driver.stream(part, given)[-1]):
        model = FakeChatModel([reply({"price": 1}, "1"), reply({"name": 5}, "2"), reply(DISH, "3")])
        structured = model.with_structured_output(Dish, method=method, retries=2)
        assert call(structured, "Hi") == Dish(**DISH)
        asked = model.requests[-1].messages
        assert validate_history(asked) == []
        assert [message.type for message in asked] == [
            "human",
            *["ai", "tool" if method == "function_calling" else "human"] * 2,
        ]
        assert "name" in asked[2].text
        assert "corrected" in asked[2].text


def test_it_is_asked_so_often_and_no_further(driver: Any) -> None:
    model = FakeChatModel(['{"name": 1}', '{"name": 2}', '{"name": 3}'])
    structured = model.with_structured_output(Dish, method="json_schema", retries=1)
    with pytest.raises(OutputParserException) as caught:
        driver.invoke(structured, "Hi")
    assert len(model.requests) == 2
    assert "Answer 1 did not fit either" in "".join(caught.value.__notes__)
    raw = FakeChatModel(['{"name": 1}', '{"name": "Soup"}', '{"name": 3}', '{"name": 4}'])
    structured = raw.with_structured_output(Dish, method="json_schema", retries=1, include_raw=True)
    assert driver.invoke(structured, "Hi")["parsed"] == Dish(name="Soup")
    assert isinstance(driver.invoke(structured, "Hi")["parsing_error"], OutputParserException)
    for number in (-1, True, "2"):
        with pytest.raises(InvalidInput, match="retries"):
            raw.with_structured_output(Dish, retries=number)


def test_a_chain_with_it_and_a_handler_that_watches(driver: Any) -> None:
    model = FakeChatModel(['{"name": 1}', '{"name": "Soup"}'])
    chain = RunnableLambda(lambda text: text) | model.with_structured_output(Dish, method="json_schema", retries=1)
    told: list[str] = []

    class Watch(BaseCallbackHandler):
        def on_chat_model_start(self, serialized: Any, messages: Any, **about: Any) -> None:
            told.append(messages[0][-1].type)

    assert driver.invoke(chain, "Hi", {"callbacks": [Watch()]}) == Dish(name="Soup")
    assert told == ["human", "human"]


@pytest.mark.parametrize(
    "text",
    [
        'Sure! Here it is: {"name": "Soup"} Enjoy.',
        '```json\n{"name": "Soup"}\n``` as you wished',
        '{"name": "Soup"}\n\n{"name": "Soup"}',
    ],
)
def test_json_mode_finds_the_answer_in_other_text(text: str, driver: Any) -> None:
    structured = FakeChatModel([text]).with_structured_output(Dish, method="json_mode")
    assert driver.invoke(structured, "Hi") == Dish(name="Soup")


def test_two_answers_in_a_text_are_none(driver: Any) -> None:
    structured = FakeChatModel(['{"name": "Soup"} or {"name": "Rice"}']).with_structured_output(
        Dish, method="json_mode"
    )
    with pytest.raises(OutputParserException):
        driver.invoke(structured, "Hi")
