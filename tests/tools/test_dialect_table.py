"""Every shape of signature in every dialect, exactly (SEATS B7): `dialect_table.json`, or the base schema unchanged."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from runwell.errors import UnsupportedByProvider
from runwell.tools import (
    ProviderTool,
    StructuredTool,
    convert_to_anthropic_tool,
    convert_to_bedrock_tool,
    convert_to_cohere_tool,
    convert_to_gemini_tool,
    convert_to_json_schema,
    convert_to_mistral_tool,
    convert_to_openai_function,
    tool,
)

sys.path.insert(0, str(Path(__file__).parent))
from callable_shapes import CALLABLES
from signature_shapes import TABLE
from type_shapes import TYPES

DIALECTS: dict[str, Callable[[Any], Any]] = {
    "openai": lambda tool: convert_to_openai_function(tool)["parameters"],
    "openai strict": lambda tool: convert_to_openai_function(tool, strict=True)["parameters"],
    "anthropic": lambda tool: convert_to_anthropic_tool(tool)["input_schema"],
    "anthropic strict": lambda tool: convert_to_anthropic_tool(tool, strict=True)["input_schema"],
    "bedrock": lambda tool: convert_to_bedrock_tool(tool)["toolSpec"]["inputSchema"]["json"],
    "bedrock strict": lambda tool: convert_to_bedrock_tool(tool, strict=True)["toolSpec"]["inputSchema"]["json"],
    "cohere": lambda tool: convert_to_cohere_tool(tool)["function"]["parameters"],
    "cohere strict": lambda tool: convert_to_cohere_tool(tool, strict=True)["function"]["parameters"],
    "gemini": lambda tool: convert_to_gemini_tool(tool).get("parameters_json_schema"),
    "mistral": lambda tool: convert_to_mistral_tool(tool)["function"]["parameters"],
    "mistral strict": lambda tool: convert_to_mistral_tool(tool, strict=True)["function"]["parameters"],
    "json schema": lambda tool: without(convert_to_json_schema(tool), "title", "description"),
}


def without(schema: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in names}


# shape -> dialect -> the schema, or the words of the refusal; what is not there is the JSON schema itself
EXPECTED = json.loads((Path(__file__).parent / "dialect_table.json").read_text(encoding="utf-8"))
SHAPES: dict[str, tuple[Any, Any]] = {
    **{f"{at:02} {getattr(each[0], '__name__', 'partial')}": each for at, each in enumerate(TABLE)},
    **CALLABLES,
    **{name: (function, EXPECTED.get(name, {}).get("json schema")) for name, function in TYPES.items()},
}


def test_the_table_is_of_these_shapes_and_dialects() -> None:
    assert set(EXPECTED) == set(SHAPES)
    assert {dialect for shape in EXPECTED.values() for dialect in shape} <= set(DIALECTS)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_in_a_dialect(shape: str, dialect: str) -> None:
    function, schema = SHAPES[shape]
    made = StructuredTool.from_function(function, name=shape.rpartition(" ")[2], description="Does it.")
    expected = EXPECTED[shape].get(dialect, schema)
    if isinstance(expected, str):
        with pytest.raises(UnsupportedByProvider) as refused:
            DIALECTS[dialect](made)
        assert refused.value.message == expected
    else:
        told = DIALECTS[dialect](made)
        assert told == expected
        assert told is None or jsonschema_rs.meta.is_valid(told)
    assert made.json_schema() == schema  # a dialect is a copy


def declared(schema: dict[str, Any], name: str = "run") -> dict[str, Any]:
    return {"name": name, "description": "d", "parameters": {"type": "object", **schema}}


RING = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Ring"}}, "required": ["next"]}
TOO_MUCH_FOR_GEMINI = {
    "a": {"not": {"type": "string"}},
    "b.c": {"type": "object", "patternProperties": {"^x": {"type": "string"}}},
    "d[]": {"allOf": [{"type": "string"}, {"minLength": 3}]},
    "ring": {"$ref": "#/$defs/Ring"},
    "when": {"if": {"type": "string"}, "then": {"minLength": 1}},
}


@pytest.mark.parametrize("path", TOO_MUCH_FOR_GEMINI)
def test_what_gemini_cannot_say_is_refused_naming_provider_tool_and_argument(path: str) -> None:
    part: dict[str, Any] = TOO_MUCH_FOR_GEMINI[path]
    name, _, inner = path.partition(".")
    if inner:
        part = {"type": "object", "properties": {inner: part}}
    elif name.endswith("[]"):
        name, part = name[:-2], {"type": "array", "items": part}
    given = declared({"properties": {name: part}, "required": [name], "$defs": {"Ring": RING}})
    with pytest.raises(UnsupportedByProvider) as refused:
        convert_to_gemini_tool(given)
    assert "Tool 'run'" in refused.value.message
    assert "Gemini" in refused.value.message
    assert path in refused.value.message


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ({"enum": ["a", None]}, {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]}),
        ({"enum": [1, "a"]}, {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "integer", "enum": [1]}]}),
        ({"const": True}, {"type": "boolean"}),
        ({"const": 7, "title": "N"}, {"type": "integer", "enum": [7]}),
        ({"type": "number", "enum": [1, 2]}, {"type": "number", "enum": [1, 2]}),
        ({"type": "number", "exclusiveMinimum": 0.5, "multipleOf": 0.1}, {"type": "number", "minimum": 0.5}),
        ({"type": "integer", "exclusiveMaximum": 9}, {"type": "integer", "maximum": 8}),
        ({"allOf": [{"type": "string"}], "description": "x"}, {"type": "string", "description": "x"}),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"type": "string", "pattern": "^a", "format": "email"}, {"type": "string", "format": "email"}),
    ],
)
def test_what_gemini_says_otherwise(part: dict[str, Any], told: dict[str, Any]) -> None:
    made = convert_to_gemini_tool(declared({"properties": {"a": part}}))
    assert made["parameters_json_schema"] == {"type": "object", "properties": {"a": told}}


def test_alternatives_at_the_top_are_refused_by_those_who_take_none() -> None:
    given = declared({"properties": {"a": {"type": "string"}}, "anyOf": [{"required": ["a"]}]})
    for convert, provider in ((convert_to_openai_function, "OpenAI"), (convert_to_anthropic_tool, "Anthropic")):
        with pytest.raises(UnsupportedByProvider, match=f"{provider} takes no 'anyOf'"):
            convert(given)


def test_an_argument_whose_name_anthropic_does_not_take_is_named() -> None:
    with pytest.raises(UnsupportedByProvider, match="Anthropic takes no argument called 'größe'"):
        convert_to_anthropic_tool(declared({"properties": {"größe": {"type": "integer"}}}))


def test_a_definition_that_is_strict_stays_so() -> None:
    given = {"type": "function", "function": {**declared({"properties": {"a": {"type": "string"}}}), "strict": True}}
    made = convert_to_mistral_tool(given)["function"]
    assert (made["strict"], made["parameters"]["additionalProperties"]) == (True, False)


def test_names_of_tools() -> None:
    assert convert_to_gemini_tool(declared({"properties": {}}, "files.read"))["name"] == "files.read"
    for name in ("1st", "x" * 65):
        with pytest.raises(UnsupportedByProvider, match="Gemini takes no tool called"):
            convert_to_gemini_tool(declared({"properties": {}}, name))
    with pytest.raises(UnsupportedByProvider, match="Mistral takes no tool called"):
        convert_to_mistral_tool(declared({"properties": {}}, "files.read"))


@tool
def weather(city: str) -> str:
    """Get the weather."""
    return city


def test_a_tool_as_mistral_s_library_takes_it() -> None:
    from mistralai.client.models.function import Function

    assert Function.model_validate(convert_to_mistral_tool(weather, strict=True)["function"]).strict is True
    assert convert_to_mistral_tool({"type": "web_search"}) == {"type": "web_search"}


def test_a_tool_as_google_s_library_takes_it() -> None:
    from google.genai.types import FunctionDeclaration

    made = FunctionDeclaration.model_validate(convert_to_gemini_tool(weather))
    assert made.parameters_json_schema == weather.json_schema()
    assert convert_to_gemini_tool(ProviderTool("google_search", {"google_search": {}}))["type"] == "google_search"


def test_a_tool_as_the_libraries_of_cohere_and_aws_take_it() -> None:
    from botocore.session import get_session
    from botocore.validate import ParamValidator
    from cohere import ToolV2

    made = ToolV2.model_validate(convert_to_cohere_tool(weather, strict=True))
    assert made.function is not None
    assert made.function.parameters == weather.json_schema()
    shape = get_session().get_service_model("bedrock-runtime").shape_for("Tool")
    for given in (weather, {"cachePoint": {"type": "default"}}, {"systemTool": {"name": "nova_grounding"}}):
        report = ParamValidator().validate(convert_to_bedrock_tool(given, strict=True), shape)
        assert not report.has_errors(), report.generate_report()


def test_a_tool_in_bedrock_s_own_form_is_told_to_the_others() -> None:
    given = convert_to_bedrock_tool(weather)
    assert convert_to_openai_function(given) == convert_to_openai_function(weather)
    untold = convert_to_bedrock_tool(declared({"properties": {}}) | {"description": ""})["toolSpec"]
    assert "description" not in untold  # which may be missing there, but not empty


LOOSE = {
    "free": {"type": "object", "additionalProperties": {"type": "integer"}},
    "filters.tags": {"type": "object", "patternProperties": {"^x": {"type": "string"}}},
    "rows[]": {"not": {"type": "string"}},
    "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]},
    "both": {"allOf": [{"type": "string"}, {"minLength": 3}]},
}
STRICT: dict[str, Callable[..., Any]] = {
    "Anthropic": convert_to_anthropic_tool,
    "Bedrock": convert_to_bedrock_tool,
    "Cohere": convert_to_cohere_tool,
    "OpenAI": convert_to_openai_function,
}


@pytest.mark.parametrize("provider", STRICT)
@pytest.mark.parametrize("path", LOOSE)
def test_what_a_strict_mode_cannot_say_is_refused_naming_provider_tool_and_argument(path: str, provider: str) -> None:
    name, _, inner = path.partition(".")
    part: dict[str, Any] = LOOSE[path]
    if inner:
        part = {"type": "object", "properties": {inner: part}, "required": [inner]}
    elif name.endswith("[]"):
        name, part = name[:-2], {"type": "array", "items": part}
    given = declared({"properties": {name: part}, "required": [name]})
    STRICT[provider](given)
    with pytest.raises(UnsupportedByProvider) as refused:
        STRICT[provider](given, strict=True)
    assert refused.value.message.startswith(f"Tool 'run': {provider}'s strict")
    assert f"cannot express {path}: " in refused.value.message
    assert refused.value.hint


def test_what_is_wrong_deep_in_a_type_that_holds_itself_is_told_under_the_argument() -> None:
    tree = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}}
    tree["properties"]["labels"] = {"type": "object", "additionalProperties": {"type": "string"}}
    given = declared({"properties": {"root": {"$ref": "#/$defs/Tree"}}, "$defs": {"Tree": tree}})
    with pytest.raises(UnsupportedByProvider, match=r"cannot express root\.labels: an object with free keys"):
        convert_to_openai_function(given, strict=True)


def test_keywords_that_strict_modes_do_not_know_are_left_out() -> None:
    part = {"type": "string", "pattern": "^(?=a)", "x-unit": "m", "contentEncoding": "base64", "example": "a"}
    given = declared({"properties": {"a": part}, "required": ["a"]})
    assert convert_to_openai_function(given, strict=True)["parameters"]["properties"] == {"a": {"type": "string"}}
    assert convert_to_anthropic_tool(given, strict=True)["input_schema"]["properties"] == {"a": {"type": "string"}}


class AsModel(BaseModel):
    city: str
    days: list[int]


class AsTypedDict(TypedDict):
    city: str
    days: list[int]


@dataclass
class AsDataclass:
    city: str
    days: list[int]


AS_JSON_SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "array", "items": {"type": "integer"}}},
    "required": ["city", "days"],
}


def by_signature(city: str, days: list[int]) -> None: ...


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "declared_by",
    [AsModel, AsTypedDict, AsDataclass, AS_JSON_SCHEMA],
    ids=["model", "typed dict", "dataclass", "json schema"],
)
def test_however_arguments_are_declared_a_dialect_tells_the_same(declared_by: Any, dialect: str) -> None:
    signed = StructuredTool.from_function(by_signature, name="look", description="d")
    made = StructuredTool.from_function(by_signature, name="look", description="d", args_schema=declared_by)
    assert DIALECTS[dialect](made) == DIALECTS[dialect](signed)
