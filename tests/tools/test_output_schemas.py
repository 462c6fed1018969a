"""Tools that say what they give, and are held to it (SEATS E13)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from runwell.errors import ToolDefinitionError, ToolOutputError
from runwell.messages import ToolMessage
from runwell.tools import BaseTool, tool


class Weather(BaseModel):
    city: str
    degrees: int = Field(ge=-90, le=60)


class WeatherDict(TypedDict):
    city: str
    degrees: int


@dataclass
class WeatherData:
    city: str
    degrees: int


SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees"],
}
GOOD = {"city": "Oslo", "degrees": 3}
CALL = {"type": "tool_call", "name": "weather", "id": "1", "args": {"given": GOOD}}


def weather_tool(schema: Any, **options: Any) -> Any:
    @tool("weather", description="The weather.", output_schema=schema, **options)
    def weather(given: Any) -> Any:
        return given

    return weather


@pytest.mark.parametrize("schema", [Weather, WeatherDict, WeatherData, SCHEMA])
def test_a_result_that_fits_is_the_answer_and_another_is_not_used(schema: Any, driver: Any) -> None:
    made = weather_tool(schema)
    assert driver.invoke(made, CALL).text == '{"city":"Oslo","degrees":3}'
    kind = dict if schema in (WeatherDict, SCHEMA) else schema
    assert type(driver.invoke(made, {"given": GOOD})) is kind
    for wrong in ({"city": "Oslo"}, {"city": "Oslo", "degrees": "many"}, "text", None, [GOOD]):
        with pytest.raises(ToolOutputError, match="does not fit what it declares") as error:
            driver.invoke(made, {"given": wrong})
        if isinstance(wrong, dict):
            assert "degrees" in str(error.value)
        with pytest.raises(ToolOutputError):
            driver.invoke(made, {**CALL, "args": {"given": wrong}})


def test_a_tool_s_own_handler_hears_of_it(driver: Any) -> None:
    made = weather_tool(Weather, handle_tool_error="no weather")
    assert driver.invoke(made, {**CALL, "args": {"given": 1}}).text == "no weather"
    assert driver.invoke(made, {"given": 1}) == "no weather"


def test_of_a_pair_the_artifact_is_held_to_it(driver: Any) -> None:
    @tool(output_schema=WeatherDict, response_format="content_and_artifact")
    def weather(degrees: Any) -> Any:
        """The weather."""
        return f"{degrees} degrees", {"city": "Oslo", "degrees": degrees}

    answer = driver.invoke(weather, {**CALL, "args": {"degrees": 3}})
    assert (answer.text, answer.artifact) == ("3 degrees", {"city": "Oslo", "degrees": 3})
    with pytest.raises(ToolOutputError, match="degrees"):
        driver.invoke(weather, {**CALL, "args": {"degrees": "x"}})


def test_messages_of_the_tool_s_own_pass(driver: Any) -> None:
    @tool(output_schema=WeatherDict)
    def weather() -> Any:
        """The weather."""
        return ToolMessage("own", tool_call_id="1")

    assert driver.invoke(weather, {**CALL, "args": {}}).text == "own"


def test_other_types_and_classes(driver: Any) -> None:
    @tool(output_schema=list[int])
    def numbers(text: str) -> Any:
        """Numbers."""
        return text.split()

    assert driver.invoke(numbers, {"text": "1 2"}) == [1, 2]
    with pytest.raises(ToolOutputError, match=r"\[1\]: .*got \"x\""):
        driver.invoke(numbers, {"text": "1 x"})

    class Shouting(BaseTool):
        """Shout."""

        name: str = "shout"
        output_schema: Any = str

        def _run(self, text: str) -> Any:
            return 3 if text == "3" else text.upper()

    assert driver.invoke(Shouting(), {"text": "a"}) == "A"
    with pytest.raises(ToolOutputError):
        driver.invoke(Shouting(), {"text": "3"})
    assert driver.invoke(Shouting().model_copy(update={"output_schema": None}), {"text": "3"}) == 3


def test_what_is_no_schema_is_refused_where_it_is_declared() -> None:
    for wrong in ({"type": "nonsense"}, 3, {"$ref": "https://example.com/schema"}):
        with pytest.raises(ToolDefinitionError, match="output"):
            weather_tool(wrong)


def test_the_schema_can_be_read() -> None:
    assert weather_tool(SCHEMA).get_output_jsonschema() == SCHEMA
    assert weather_tool(Weather).get_output_jsonschema()["required"] == ["city", "degrees"]
