"""Values and parts that the config of a call settles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from runwell.errors import InvalidConfig, InvalidInput
from runwell.messages import AIMessage
from runwell.models import BaseChatModel, ChatGeneration, ChatResult
from runwell.prompts import ChatPromptTemplate, PromptTemplate
from runwell.runnables import (
    ConfigurableField,
    ConfigurableFieldMultiOption,
    ConfigurableFieldSingleOption,
    Runnable,
    RunnableLambda,
    RunnablePassthrough,
)
from runwell.tools import tool


class Model(BaseChatModel):
    """Says how it is set."""

    model: str = "small"
    temperature: float = 0.0
    _llm_type = "told"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        tools = [each["function"]["name"] for each in kwargs.get("tools", ())]
        said = f"{self.model} {self.temperature} {tools or ''}".strip()
        return ChatResult(generations=[ChatGeneration(message=AIMessage(said))])

    def bind_tools(self, tools, **kwargs):
        return self.bind(tools=tools)


@dataclass
class Times(Runnable[int, int]):
    factor: int = 2
    steps_taken: Any = ()

    def invoke(self, input, config=None, **kwargs):
        return input * self.factor


def configured(**values):
    return {"configurable": values}


def test_a_field_is_set_for_one_call_and_keeps_its_default(driver):
    model = Model().configurable_fields(
        temperature=ConfigurableField(id="llm_temperature", name="LLM Temperature", description="How wild.")
    )
    assert driver.invoke(model, "hi").text == "small 0.0"
    assert driver.invoke(model, "hi", configured(llm_temperature=0.9)).text == "small 0.9"
    assert driver.invoke(model, "hi").text == "small 0.0"


def test_inside_a_chain_by_the_chains_config_bound_or_given(driver):
    times = Times().configurable_fields(factor=ConfigurableField(id="factor"))
    chain = RunnableLambda(lambda x: x + 1) | times | {"a": times, "b": RunnablePassthrough()}
    assert driver.invoke(chain, 1) == {"a": 8, "b": 4}
    assert driver.invoke(chain, 1, configured(factor=10)) == {"a": 200, "b": 20}
    assert driver.stream(chain.pick("a"), 1, configured(factor=10)) == [200]
    assert driver.invoke(chain.with_config(configurable={"factor": 3}), 1) == {"a": 18, "b": 6}
    assert driver.batch(chain.pick("b"), [1, 1], [configured(factor=1), None]) == [2, 4]


def test_a_prompt_is_read_again_with_another_template(driver):
    prompt = PromptTemplate.from_template("Hello {name}").configurable_fields(
        template=ConfigurableFieldSingleOption(
            id="style", options={"plain": "Hello {name}", "warm": "Dear {name}, {wish}"}, default="plain"
        )
    )
    assert driver.invoke(prompt, {"name": "Ann"}).to_string() == "Hello Ann"
    warm = driver.invoke(prompt, {"name": "Ann", "wish": "hi"}, configured(style="warm"))
    assert warm.to_string() == "Dear Ann, hi"
    with pytest.raises(InvalidConfig, match=r"'worm'.*'warm'"):
        driver.invoke(prompt, {"name": "Ann"}, configured(style="worm"))


def test_several_options(driver):
    times = Times().configurable_fields(
        steps_taken=ConfigurableFieldMultiOption(id="steps", options={"a": 1, "b": 2}, default=["a"])
    )
    assert times.prepare()[0].steps_taken == [1]
    assert times.prepare(configured(steps=["b", "a"]))[0].steps_taken == [2, 1]
    for wrong in ("a", ["c"], 7):
        with pytest.raises(InvalidConfig):
            driver.invoke(times, 1, configured(steps=wrong))


def test_a_variant_is_made_once_and_equal_values_of_other_types_are_other_variants():
    times = Times().configurable_fields(factor=ConfigurableField(id="factor"))
    first, _ = times.prepare(configured(factor=1))
    assert times.prepare(configured(factor=1))[0] is first
    assert type(times.prepare(configured(factor=True))[0].factor) is bool
    assert times.prepare(configured(factor=[1]))[0].factor == [1]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Times().configurable_fields(fcator=ConfigurableField(id="x")), "'fcator'.*'factor'"),
        (lambda: Times().configurable_fields(factor="x"), "ConfigurableField"),
        (lambda: ConfigurableFieldSingleOption(id="x", options={"a": 1}, default="b"), "'b'"),
        (lambda: ConfigurableFieldMultiOption(id="x", options={"a": 1}, default=["b"]), "'b'"),
        (lambda: Times().configurable_alternatives("x", other=Times()), "ConfigurableField"),
        (lambda: Times().configurable_alternatives(ConfigurableField(id="x"), default=Times()), "default_key"),
        (lambda: Times().configurable_alternatives(ConfigurableField(id="x"), other=7), "'other'"),
    ],
)
def test_what_cannot_be_configured_is_refused_while_composing(make, told):
    with pytest.raises(InvalidInput, match=told):
        make()


# -- alternatives


def providers(**options):
    return Model().configurable_alternatives(
        ConfigurableField(id="llm"), default_key="small", large=Model(model="large"), **options
    )


def test_an_alternative_takes_the_place_of_the_whole_part(driver):
    chain = ChatPromptTemplate.from_template("{x}") | providers() | (lambda message: message.text)
    assert driver.invoke(chain, {"x": 1}) == "small 0.0"
    assert driver.invoke(chain, {"x": 1}, configured(llm="large")) == "large 0.0"
    with pytest.raises(InvalidConfig, match=r"'larg'.*'large'"):
        driver.invoke(chain, {"x": 1}, configured(llm="larg"))


def test_an_alternative_may_be_made_when_first_chosen(driver):
    made: list[int] = []

    def make():
        made.append(1)
        return Times(7)

    part = Times().configurable_alternatives(ConfigurableField(id="which"), later=make, now=lambda x: x - 1)
    assert driver.invoke(part, 2) == 4
    assert made == []
    assert driver.batch(part, [2, 3], configured(which="later")) == [14, 21]
    assert made == [1]
    assert driver.invoke(part, 2, configured(which="now")) == 1


def test_prefixed_keys_set_each_alternative_apart(driver):
    def temperature():
        return ConfigurableField(id="temperature")

    part = (
        Model()
        .configurable_fields(temperature=temperature())
        .configurable_alternatives(
            ConfigurableField(id="llm"),
            default_key="small",
            prefix_keys=True,
            large=Model(model="large").configurable_fields(temperature=temperature()),
        )
    )
    config = {"llm==large/temperature": 0.5, "llm==small/temperature": 0.1}
    assert driver.invoke(part, "", configured(**config)).text == "small 0.1"
    assert driver.invoke(part, "", configured(llm="large", **config)).text == "large 0.5"
    assert {spec.id for spec in part.config_specs} == {"llm", "llm==small/temperature", "llm==large/temperature"}


def test_tools_are_bound_to_whatever_is_chosen(driver):
    @tool
    def look(x: int) -> str:
        """Look."""
        return ""

    bound = providers().bind_tools([look])
    assert driver.invoke(bound, "").text == "small 0.0 ['look']"
    assert driver.invoke(bound, "", configured(llm="large")).text == "large 0.0 ['look']"
    warm = Model().configurable_fields(temperature=ConfigurableField(id="t")).bind_tools([look])
    assert driver.invoke(warm, "", configured(t=0.5)).text == "small 0.5 ['look']"


def test_what_can_be_configured_is_told_as_a_schema():
    chain = RunnablePassthrough() | providers() | Times().configurable_fields(factor=ConfigurableField(id="factor"))
    schema = chain.get_config_jsonschema(include=["tags"])
    inner = next(each for name, each in schema["$defs"].items() if "configurable" in name)["properties"]
    assert inner["llm"]["enum"] == ["small", "large"]
    assert inner["llm"]["default"] == "small"
    assert inner["factor"] == {"default": 2, "title": "Factor", "type": "integer"}
    assert set(schema["properties"]) == {"tags", "configurable"}
    with pytest.raises(InvalidInput, match=r"'tgas'.*'tags'"):
        chain.config_schema(include=["tgas"])


def test_two_meanings_of_one_id_are_told():
    chain = Times(1).configurable_fields(factor=ConfigurableField(id="n")) | Times(2).configurable_fields(
        factor=ConfigurableField(id="n")
    )
    with pytest.raises(InvalidInput, match="'n' differently"):
        _ = chain.config_specs
