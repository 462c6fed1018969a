"""One description of a function, whoever asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, TypedDict

import pytest
from pydantic import BaseModel

from runwell.errors import ToolDefinitionError
from runwell.schemas.dialects import convert_to_openai_tool, function_definition
from runwell.testing import FakeChatModel
from runwell.tools import InjectedToolArg, ToolRuntime, tool


class Place(TypedDict):
    city: str
    country: NotRequired[Annotated[str, "two letters"]]


def forecast(
    place: Place,
    runtime: ToolRuntime,
    user: Annotated[str, InjectedToolArg] = "nobody",
    days: Annotated[int, "How many."] = 3,
    schema: str = "short",
) -> str:
    """Tell the weather.

    Of any place.

    Args:
        place: Where.
        schema: How much to tell.

    Returns:
        A text.
    """
    return f"{place} {days} {schema}"


@pytest.mark.parametrize("strict", [None, True, False])
def test_a_function_is_told_as_the_tool_made_of_it(strict: bool | None) -> None:
    plain, made = (
        FakeChatModel([]).bind_tools([each], strict=strict).kwargs["tools"] for each in (forecast, tool(forecast))
    )
    assert plain == made == [convert_to_openai_tool(forecast, strict=strict)]
    function = plain[0]["function"]
    assert function["description"] == "Tell the weather.\n\nOf any place."
    told = function["parameters"]["properties"]
    assert {name: each.get("description") for name, each in told.items()} == {
        "place": "Where.",
        "days": "How many.",
        "schema": "How much to tell.",
    }
    assert "title" not in str(function)
    assert function.get("strict") is strict


def test_typed_dicts_of_the_standard_library_are_arguments_too() -> None:
    made = tool(forecast)
    assert made.args["place"]["required"] == ["city"]
    assert made.args["place"]["properties"]["country"] == {"type": "string", "description": "two letters"}
    given = {"place": {"city": "Oslo"}, "days": 1}
    assert made.invoke(given, injected={"runtime": None}) == "{'city': 'Oslo'} 1 short"


def test_a_definition_stays_as_it_is() -> None:
    definition = function_definition(forecast, strict=True)
    assert function_definition(definition) == definition
    assert FakeChatModel([]).bind(tools=[definition]).kwargs["tools"] == [definition]


def test_what_a_provider_runs_stays_as_it_is() -> None:
    for given in ({"type": "web_search", "size": "low"}, {"type": "custom", "custom": {"name": "x"}}):
        assert function_definition(given) == given


class Documented(BaseModel):
    """A person.

    Args:
        name: As in the passport.
    """

    name: str


@dataclass
class Bare:
    size: int


@pytest.mark.parametrize(
    ("declared", "description", "told"),
    [
        (Documented, "A person.", {"name": {"type": "string", "description": "As in the passport."}}),
        (Bare, "", {"size": {"type": "integer"}}),
    ],
)
def test_a_class_is_told_by_its_docstring(declared: Any, description: str, told: Any) -> None:
    function = function_definition(declared)["function"]
    assert (function["name"], function["description"]) == (declared.__name__, description)
    assert function["parameters"]["properties"] == told


def test_a_function_without_a_docstring_is_refused_as_a_tool_would_be() -> None:
    def silent(x: int) -> int:
        return x

    messages = []
    for make in (tool, function_definition):
        with pytest.raises(ToolDefinitionError, match="neither a docstring nor a description") as caught:
            make(silent)
        messages.append(caught.value.message)
    assert messages[0] == messages[1]
