"""Answers in a shape: what is sent, what is accepted, and what a wrong answer is told."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from pydantic import BaseModel, ConfigDict, Field

from runwell.errors import InvalidInput, OutputParserException, UnsupportedByProvider
from runwell.messages import AIMessage
from runwell.models import StructuredSchema
from runwell.schemas.strict import strict_schema
from runwell.testing import FakeChatModel

TRIP: Any = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


class Person(BaseModel):
    """Somebody."""

    name: str = Field(description="given name")
    age: int


@dataclass
class Point:
    x: int
    y: int = 0


class Inner(TypedDict):
    z: int


class Typed(TypedDict):
    """A typed dict."""

    title: Annotated[str, ..., "the title"]
    inner: NotRequired[list[Inner]]


JSON = {
    "title": "Answer to it",
    "description": "The answer.",
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
}


@pytest.mark.parametrize(
    ("schema", "name", "given", "value"),
    [
        (Person, "Person", {"name": "Ada", "age": 36}, Person(name="Ada", age=36)),
        (Point, "Point", {"x": 1}, Point(1)),
        (Typed, "Typed", {"title": "a", "inner": [{"z": 1}]}, {"title": "a", "inner": [{"z": 1}]}),
        (JSON, "Answer_to_it", {"n": 1}, {"n": 1}),
        (list[Point], "answer", {"value": [{"x": 1}]}, [Point(1)]),
        (Person | Point, "answer", {"value": {"x": 1}}, Point(1)),
        (Literal["a", "b"], "answer", {"value": "a"}, "a"),
    ],
)
def test_every_kind_of_schema(schema: Any, name: str, given: Any, value: Any) -> None:
    read = StructuredSchema(schema)
    assert read.name == name
    assert read.json_schema["type"] == "object"
    parsed = read.parse(given)
    assert parsed == value
    assert type(parsed) is type(value)


def test_descriptions_reach_the_schema() -> None:
    assert StructuredSchema(Person).description == "Somebody."
    assert StructuredSchema(Typed).json_schema["properties"]["title"]["description"] == "the title"
    assert StructuredSchema(Typed).json_schema["required"] == ["title"]
    assert StructuredSchema(Point).description == ""
    named = StructuredSchema(Person, name="who", description="Who it is.")
    assert (named.name, named.description) == ("who", "Who it is.")


def test_a_function_definition_is_a_schema_too() -> None:
    definition = {"type": "function", "function": {"name": "f", "description": "d", "parameters": JSON}}
    read = StructuredSchema(definition)
    assert read.parse({"n": 1}) == {"n": 1}


@pytest.mark.parametrize(
    ("schema", "given", "told"),
    [
        (Person, {"name": "Ada", "age": "old"}, r"Person: age: .*integer.* \(got 'old'\)"),
        (Person, {}, "name: Field required.*age: Field required"),
        (Person, [1], "the whole"),
        (JSON, {"n": "x"}, 'n: "x" is not of type "integer"'),
        (Point, {"x": None, "y": None}, "x: "),
        (list[Point], {"values": []}, "the key 'value' is missing"),
    ],
)
def test_what_is_wrong_is_told_field_by_field(schema: Any, given: Any, told: str) -> None:
    with pytest.raises(OutputParserException, match=told) as caught:
        StructuredSchema(schema).parse(given)
    assert caught.value.llm_output is not None


def test_strict_models_take_what_json_can_say() -> None:
    class Colour(Enum):
        RED = "red"

    class Strict(BaseModel):
        model_config = ConfigDict(strict=True)
        day: datetime.date
        colour: Colour

    parsed = StructuredSchema(Strict).parse({"day": "2026-01-02", "colour": "red"})
    assert parsed == Strict(day=datetime.date(2026, 1, 2), colour=Colour.RED)


def test_text_is_read_with_or_without_a_fence() -> None:
    read = StructuredSchema(Point)
    assert read.parse_text('{"x": 1}') == read.parse_text('```json\n{"x": 1}\n```') == Point(1)
    with pytest.raises(OutputParserException, match="not the JSON of a Point") as caught:
        read.parse_text("x is 1")
    assert caught.value.llm_output == "x is 1"


@pytest.mark.parametrize("schema", [{"type": "string"}, {"type": "array", "items": {}}, object()])
def test_what_cannot_be_a_shape_is_refused(schema: Any) -> None:
    with pytest.raises(InvalidInput):
        StructuredSchema(schema)


class Hot(BaseModel):
    heat: int = 1


class Cold(BaseModel):
    ice: str
    inner: Hot = Field(description="with a sibling")


class Menu(BaseModel):
    dishes: list[Hot | Cold]
    best: Annotated[Hot | Cold, Field(description="d")]


class Tree(BaseModel):
    kids: list[Tree] = []


def objects_in(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, list):
        return [found for each in node for found in objects_in(each)]
    if not isinstance(node, dict):
        return []
    here = [node] if node.get("type") == "object" else []
    return here + [found for each in node.values() for found in objects_in(each)]


@pytest.mark.parametrize("schema", [Menu, Tree, Hot | Cold, Typed, Point])
def test_out_01_every_object_of_a_strict_schema_is_closed(schema: Any) -> None:
    strict = strict_schema(StructuredSchema(schema).json_schema, "It")
    found = objects_in(strict)
    assert found
    for each in found:
        assert each["additionalProperties"] is False
        assert each["required"] == list(each["properties"])
        assert "default" not in each
    assert '"$ref": ' not in str(strict) or "$defs" in strict


def test_out_01_free_keys_are_refused_by_place() -> None:
    class Free(BaseModel):
        inner: list[dict[str, int]]

    with pytest.raises(UnsupportedByProvider, match=r"Free: .* inner\[\]: an object with free keys"):
        strict_schema(StructuredSchema(Free).json_schema, "Free")


# -- on a model


def search(query: str) -> str:
    """Search."""
    return query


def answering(**args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "Person", "args": args, "id": "1"}])


def test_the_answer_is_a_call_where_the_model_is_unknown() -> None:
    model = FakeChatModel([answering(name="Ada", age=36)])
    assert model.with_structured_output(Person).invoke("Who?") == Person(name="Ada", age=36)
    request = model.requests[0]
    assert request.tool_names == ["Person"]
    assert request.tool_choice == {"type": "function", "function": {"name": "Person"}}


def test_g5_the_profile_decides_for_the_providers_own_way() -> None:
    model = FakeChatModel(['{"name": "Ada", "age": 36}'], profile={"structured_output": True})
    assert model.with_structured_output(Person).invoke("Who?") == Person(name="Ada", age=36)
    sent = model.requests[0].kwargs["response_format"]["json_schema"]
    assert (sent["name"], sent["strict"], sent["description"]) == ("Person", True, "Somebody.")


def test_strict_is_used_where_the_schema_allows_it() -> None:
    class Free(BaseModel):
        counts: dict[str, int]

    model = FakeChatModel(['{"counts": {}}'])
    model.with_structured_output(Free, method="json_schema").invoke("?")
    assert model.requests[0].kwargs["response_format"]["json_schema"]["strict"] is False
    with pytest.raises(UnsupportedByProvider):
        model.with_structured_output(Free, method="json_schema", strict=True)


def test_json_mode() -> None:
    model = FakeChatModel(['{"x": 4}'])
    assert model.with_structured_output(Point, method="json_mode").invoke("?") == Point(4)
    assert model.requests[0].kwargs["response_format"] == {"type": "json_object"}


@pytest.mark.parametrize("method", ["function_calling", "json_schema"])
@pytest.mark.parametrize("bind", ["bind_tools", "bind"])
def test_out_02_tools_bound_before_are_kept(method: Any, bind: str) -> None:
    model = FakeChatModel(
        [answering(name="Ada", age=36) if method == "function_calling" else '{"name":"Ada","age":36}']
    )
    bound = model.bind_tools([search]) if bind == "bind_tools" else model.bind(tools=[search])
    assert bound.with_structured_output(Person, method=method).invoke("Who?").name == "Ada"
    request = model.requests[0]
    if method == "function_calling":
        assert request.tool_names == ["search", "Person"]
        assert request.tool_choice == "required"
    else:
        assert "search" in str(request.tools)
        assert request.kwargs["response_format"]["json_schema"]["name"] == "Person"


def test_out_02_a_turn_that_calls_a_tool_says_so() -> None:
    calling = AIMessage("", tool_calls=[{"name": "search", "args": {"query": "x"}, "id": "1"}])
    model = FakeChatModel([calling, calling])
    bound = model.bind_tools([search])
    with pytest.raises(OutputParserException, match="called search and gave no Person"):
        bound.with_structured_output(Person).invoke("Who?")
    both = bound.with_structured_output(Person, include_raw=True).invoke("Who?")
    assert both["raw"].tool_calls[0]["name"] == "search"
    assert both["parsed"] is None


def test_b6_a_tool_choice_made_before_stays() -> None:
    model = FakeChatModel([answering(name="Ada", age=36)])
    model.bind_tools([search], tool_choice="auto").with_structured_output(Person).invoke("Who?")
    assert model.requests[0].tool_choice == "auto"


def test_include_raw_gives_errors_as_values() -> None:
    model = FakeChatModel([answering(name="Ada", age="old"), answering(name="Ada", age=1)])
    structured = model.with_structured_output(Person, include_raw=True)
    wrong, right = structured.invoke("Who?"), structured.invoke("Who?")
    assert wrong["parsed"] is None
    assert isinstance(wrong["parsing_error"], OutputParserException)
    assert right["parsed"] == Person(name="Ada", age=1)
    assert right["parsing_error"] is None


def test_two_answers_where_one_was_asked_for() -> None:
    calls = [{"name": "Person", "args": {"name": each, "age": 1}, "id": each} for each in "ab"]
    with pytest.raises(OutputParserException, match="2 answers where one Person"):
        FakeChatModel([AIMessage("", tool_calls=calls)]).with_structured_output(Person).invoke("Who?")


def test_an_answer_cut_off_says_why() -> None:
    cut = AIMessage("", response_metadata={"finish_reason": "length"})
    with pytest.raises(OutputParserException, match="raise max_tokens"):
        FakeChatModel([cut]).with_structured_output(Person, method="json_schema").invoke("Who?")


def test_wrong_methods_are_refused_when_composing() -> None:
    with pytest.raises(InvalidInput, match="method='magic'"):
        FakeChatModel([]).with_structured_output(Person, method="magic")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="both called 'Person'"):
        FakeChatModel([]).bind_tools([Person]).with_structured_output(Person)


@pytest.mark.parametrize(
    "given",
    [
        {"name": "Trip", "schema": TRIP, "strict": True},
        {"type": "json_schema", "json_schema": {"name": "Trip", "schema": TRIP}},
        {"type": "json_schema", "name": "Trip", "schema": TRIP},
        {"name": "Trip", "parameters": TRIP},
        {"title": "Trip", **TRIP},
    ],
    ids=["schema", "response format", "text format", "parameters", "json schema"],
)
def test_a_schema_in_each_form_that_programs_keep(given: Any) -> None:
    """One that was not looked into would ask for an empty answer, and nobody would be told."""
    schema = StructuredSchema(given)
    assert (schema.name, schema.json_schema["properties"]) == ("Trip", TRIP["properties"])
    with pytest.raises(OutputParserException, match="city"):
        schema.parse({})


def test_a_field_called_schema_is_a_field() -> None:
    field = {"title": "Table", "type": "object", "properties": {"schema": {"type": "string"}}}
    assert list(StructuredSchema(field).json_schema["properties"]) == ["schema"]
