"""Tools in the providers' dialects (SEATS B7, A8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from runwell.errors import DuplicateTool, ToolDefinitionError, UnsupportedByProvider
from runwell.tools import (
    ProviderTool,
    StructuredTool,
    as_tool,
    as_tools,
    convert_to_anthropic_tool,
    convert_to_json_schema,
    convert_to_openai_function,
    convert_to_openai_tool,
    dereference_refs,
    tool,
    tool_cost,
)


class Weather(BaseModel):
    """Get the weather."""

    city: str = Field(description="Where.")
    unit: Literal["c", "f"] = "c"


class WeatherDict(TypedDict):
    """Get the weather.

    Args:
        city: Where.
    """

    city: str


@dataclass
class WeatherData:
    """Get the weather."""

    city: str


@tool
def weather(city: str, unit: Literal["c", "f"] = "c") -> str:
    """Get the weather.

    Args:
        city: Where.
    """
    return city


CITY = {"type": "string", "description": "Where."}
UNIT = {"type": "string", "enum": ["c", "f"], "default": "c"}
PARAMETERS = {"type": "object", "properties": {"city": CITY, "unit": UNIT}, "required": ["city"]}
ONE = {"type": "object", "properties": {"city": CITY}, "required": ["city"]}
FUNCTION = {"name": "weather", "description": "Get the weather.", "parameters": PARAMETERS}


def test_a_tool_in_each_dialect() -> None:
    assert convert_to_openai_function(weather) == FUNCTION
    assert convert_to_openai_tool(weather) == {"type": "function", "function": FUNCTION}
    assert convert_to_anthropic_tool(weather) == {
        "name": "weather",
        "description": "Get the weather.",
        "input_schema": PARAMETERS,
    }
    assert convert_to_json_schema(weather) == {"title": "weather", "description": "Get the weather.", **PARAMETERS}


@pytest.mark.parametrize(
    ("given", "name", "parameters"),
    [
        (weather.func, "weather", PARAMETERS),
        (Weather, "Weather", PARAMETERS),
        (WeatherDict, "WeatherDict", ONE),
        (
            WeatherData,
            "WeatherData",
            {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        ),
        (FUNCTION, "weather", PARAMETERS),
        ({"type": "function", "function": FUNCTION}, "weather", PARAMETERS),
        ({"name": "weather", "description": "Get the weather.", "input_schema": PARAMETERS}, "weather", PARAMETERS),
        ({"name": "weather", "description": "Get the weather.", "inputSchema": PARAMETERS}, "weather", PARAMETERS),
        ({"title": "weather", "description": "Get the weather.", **PARAMETERS}, "weather", PARAMETERS),
    ],
)
def test_whatever_describes_arguments_is_taken(given: Any, name: str, parameters: dict[str, Any]) -> None:
    assert convert_to_openai_function(given) == {
        "name": name,
        "description": "Get the weather.",
        "parameters": parameters,
    }


@pytest.mark.parametrize("given", [3, {"name": "x"} | {"type": "thing"}, {"description": "d"}, dict, object()])
def test_what_describes_nothing_is_refused(given: Any) -> None:
    with pytest.raises(ToolDefinitionError):
        convert_to_openai_function(given)


def test_what_is_handed_out_is_a_copy() -> None:
    convert_to_openai_tool(weather)["function"]["parameters"]["properties"].clear()
    source = {"name": "x", "parameters": {"type": "object", "properties": {"a": {"enum": [1]}}}}
    convert_to_openai_tool(source)["function"]["parameters"]["properties"]["a"]["enum"].append(2)
    assert convert_to_openai_tool(weather)["function"] == FUNCTION
    assert source["parameters"]["properties"]["a"] == {"enum": [1]}


def test_a_property_called_title_stays() -> None:
    schema = {"title": "book", "type": "object", "properties": {"title": {"type": "string", "title": "Title"}}}
    assert convert_to_openai_function(schema)["parameters"]["properties"] == {"title": {"type": "string"}}


class Hot(BaseModel):
    kind: Literal["hot"]
    degrees: int = Field(ge=1)
    note: str | None = None


class Cold(BaseModel):
    kind: Literal["cold"]
    ice: bool = True


def test_strict_reaches_into_branches_lists_and_definitions() -> None:
    class Menu(BaseModel):
        """A menu."""

        dishes: list[Hot | Cold]
        parent: Menu | None = None
        mood: Literal["a", "b"] = "a"
        size: int = 3

    function = convert_to_openai_function(Menu, strict=True)
    parameters = function["parameters"]
    assert function["strict"] is True
    objects = 0
    todo = [parameters]
    while todo:
        part = todo.pop()
        if isinstance(part, dict):
            if "properties" in part:
                objects += 1
                assert part["additionalProperties"] is False
                assert part["required"] == list(part["properties"])
            assert "default" not in part
            todo.extend(part.values())
        elif isinstance(part, list):
            todo.extend(part)
    assert objects == 6  # Menu at the top and, as it refers to itself, in $defs; each with Hot and Cold
    assert parameters["properties"]["parent"] == {"anyOf": [{"$ref": "#/$defs/Menu"}, {"type": "null"}]}
    menu = parameters["properties"]
    assert menu["size"] == {"type": ["integer", "null"]}
    assert menu["mood"] == {"anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}]}
    hot, cold = menu["dishes"]["items"]["anyOf"]
    assert hot["properties"]["degrees"] == {"type": "integer", "minimum": 1}
    assert cold["properties"]["ice"] == {"type": ["boolean", "null"]}


def test_what_a_model_sends_under_strict_is_what_the_tool_takes() -> None:
    @tool(description="d")
    def run(a: int, b: int = 5, c: Hot | None = None) -> Any:
        return a, b, c

    assert convert_to_openai_function(run, strict=True)["parameters"]["required"] == ["a", "b", "c"]
    assert run.invoke({"a": 1, "b": None, "c": None}) == (1, 5, None)


def free_keys(filters: dict[str, int]) -> None: ...
def bare(options: dict) -> None: ...  # type: ignore[type-arg]
def pair(point: tuple[int, str]) -> None: ...
def anything(value: Any) -> None: ...
def open_ended(a: int, **kw: Any) -> None: ...
def untyped_list(items: list) -> None: ...  # type: ignore[type-arg]


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (free_keys, "filters"),
        (bare, "options"),
        (pair, "point"),
        (anything, "value"),
        (open_ended, "the whole"),
        (untyped_list, "items"),
    ],
)
def test_what_strict_cannot_say_is_refused_naming_the_argument(function: Any, named: str) -> None:
    made = StructuredTool.from_function(function, description="d")
    convert_to_openai_function(made)
    with pytest.raises(UnsupportedByProvider, match=rf"{function.__name__}.*{named}"):
        convert_to_openai_function(made, strict=True)


def test_a_name_the_provider_does_not_take() -> None:
    made = tool("server.search")(weather.func)
    with pytest.raises(UnsupportedByProvider, match=r"OpenAI.*'server\.search'"):
        convert_to_openai_tool(made)
    with pytest.raises(UnsupportedByProvider, match="Anthropic"):
        convert_to_anthropic_tool(made)


def test_provider_tools_pass_as_they_are() -> None:
    web = ProviderTool("web_search", {"search_context_size": "low"}, provider="openai")
    assert convert_to_openai_tool(web) == {"type": "web_search", "search_context_size": "low"}
    assert convert_to_openai_tool({"type": "web_search", "x": 1}) == {"type": "web_search", "x": 1}
    assert ProviderTool.from_dict({"type": "web_search_20250305", "name": "web_search"}).name == "web_search"
    assert convert_to_anthropic_tool(ProviderTool("bash_20250124", {"name": "bash"})) == {
        "type": "bash_20250124",
        "name": "bash",
    }
    with pytest.raises(ToolDefinitionError):
        ProviderTool("function")


def test_dereferencing_leaves_what_refers_to_itself() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A", "description": "here"}, "n": {"$ref": "#/$defs/N"}},
        "$defs": {
            "A": {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}},
            "B": {"type": "integer"},
            "N": {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}, "b": {"$ref": "#/$defs/B"}}},
        },
    }
    assert dereference_refs(schema) == {
        "type": "object",
        "properties": {
            "a": {"type": "object", "properties": {"b": {"type": "integer"}}, "description": "here"},
            "n": {"$ref": "#/$defs/N"},
        },
        "$defs": {"N": {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}, "b": {"type": "integer"}}}},
    }


# -- sets of tools


def test_two_tools_under_one_name_are_refused_naming_both_origins() -> None:
    def other(x: int) -> int:
        """Other."""
        return x

    twin = tool("weather")(other)
    with pytest.raises(DuplicateTool) as caught:
        as_tools([weather, twin])
    assert f"other ({__file__}" in str(caught.value).replace(
        "test_two_tools_under_one_name_are_refused_naming_both_origins.<locals>.", ""
    )
    assert f"weather ({__file__}" in str(caught.value)
    replaced: list[str] = []
    assert (
        as_tools([weather, twin], replace=True, on_replace=lambda name, old, new: replaced.append(name))["weather"]
        is twin
    )
    assert replaced == ["weather"]
    assert list(as_tools([weather, weather])) == ["weather"]
    with pytest.raises(DuplicateTool, match="provider tool 'web_search'"):
        as_tools([tool("web_search")(other), ProviderTool("web_search")])


def test_what_may_be_a_tool_of_an_agent() -> None:
    def plain(x: int) -> int:
        """Do."""
        return x

    assert as_tool(plain).name == "plain"
    assert as_tool({"type": "web_search"}, server_side={"web_search"}) == ProviderTool("web_search")
    assert as_tool({"google_search": {}}, server_side={"google_search"}) == ProviderTool("google_search")
    with pytest.raises(ToolDefinitionError, match="nobody could run it"):
        as_tool({"google_search": {}})
    with pytest.raises(ToolDefinitionError, match="nobody could run it"):
        as_tool({"type": "function", "function": FUNCTION})
    with pytest.raises(ToolDefinitionError, match="The provider runs: web_search"):
        as_tool({"type": "web_serch"}, server_side={"web_search"})
    with pytest.raises(ToolDefinitionError, match="is not a tool"):
        as_tool(3)


def test_tool_cost_lists_the_largest_first() -> None:
    @tool
    def big(x: int) -> int:
        """A long description, which is sent with every request, again and again, whether or not it is called."""
        return x

    costs = tool_cost([weather, big, ProviderTool("web_search")])
    assert [each.name for each in costs] == ["big", "weather", "web_search"] or costs == sorted(
        costs, key=lambda each: -each.tokens
    )
    assert all(each.tokens > 0 for each in costs)

    class Counting:
        def get_num_tokens(self, text: str) -> int:
            return 7

    assert [each.tokens for each in tool_cost([weather, big], Counting())] == [7, 7]
