"""What a chain says of itself: schemas, prompts, graph, source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import pytest
from pydantic import BaseModel

from runwell.errors import InvalidInput
from runwell.parsers import StrOutputParser
from runwell.prompts import ChatPromptTemplate, PromptTemplate
from runwell.runnables import (
    ConfigurableField,
    RouterRunnable,
    Runnable,
    RunnableBranch,
    RunnableGenerator,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
    RunnablePick,
    get_lambda_source,
)
from runwell.testing import FakeListChatModel

PROMPT = ChatPromptTemplate.from_template("About {topic}, in {language}")
MODEL = FakeListChatModel(responses=["ok"])


class Asked(TypedDict):
    topic: str
    count: int


def ask(asked: Asked) -> str:
    return asked["topic"]


def length(text: str) -> int:
    return len(text)


def properties(schema):
    return {key: value.get("type") for key, value in schema.get("properties", {}).items()}


# -- schemas


def test_a_chain_takes_what_its_first_step_takes_and_gives_what_its_last_gives():
    chain = PROMPT | MODEL | StrOutputParser()
    assert set(properties(chain.get_input_jsonschema())) == {"topic", "language"}
    assert chain.get_output_jsonschema()["type"] == "string"
    assert (RunnableLambda(ask) | length).get_output_jsonschema()["type"] == "integer"
    assert "topic" in str((RunnableLambda(ask) | length).get_input_jsonschema())


def test_parallel_steps_take_what_all_of_them_read_and_give_a_key_for_each():
    chain = RunnableParallel(joke=PROMPT | MODEL | StrOutputParser(), title=PromptTemplate.from_template("{title}"))
    assert set(properties(chain.get_input_jsonschema())) == {"topic", "language", "title"}
    assert properties(chain.get_output_jsonschema())["joke"] == "string"
    one = RunnableParallel(n=RunnableLambda(length))
    assert one.get_input_jsonschema()["type"] == "string"
    assert properties(one.get_output_jsonschema()) == {"n": "integer"}


def test_assigned_keys_need_not_be_given_and_picked_keys_keep_their_type():
    chain = RunnablePassthrough.assign(language=RunnableLambda(ask)) | PROMPT
    assert set(properties(chain.get_input_jsonschema())) == {"topic"}
    out = RunnableParallel(n=RunnableLambda(length), m=RunnableLambda(ask))
    assert out.pick("n").get_output_jsonschema()["type"] == "integer"
    assert properties(out.pick(["n"]).get_output_jsonschema()) == {"n": "integer"}
    assert properties(out.assign(o=RunnableLambda(length)).get_output_jsonschema()) == {
        "n": "integer",
        "m": "string",
        "o": "integer",
    }


class Point(BaseModel):
    x: int


@dataclass
class Scale(Runnable[Point, Point]):
    factor: int = 1

    def invoke(self, input, config=None, **kwargs):
        return Point(x=input.x * self.factor)


class Opaque:
    pass


def opaque(thing: Opaque) -> Opaque:
    return thing


def test_declared_and_said_types():
    assert Scale().get_input_schema() is Point
    assert (Scale(2) | Scale(3)).get_output_schema() is Point
    assert RunnableLambda(str).with_types(input_type=int).get_input_jsonschema()["type"] == "integer"
    for wrapped in (Scale().with_timeout(1), Scale().with_cache(), Scale().with_retry(), Scale().bind(a=1)):
        assert wrapped.get_input_schema() is Point
    assert Scale().map().get_input_jsonschema()
    assert RunnableLambda(opaque).get_input_schema().model_validate(Opaque())


def test_the_schemas_check_values():
    schema = RunnableParallel({"n": RunnableLambda(length), "9 lives!": RunnableLambda(length)}).get_output_schema()
    assert schema.model_validate({"n": 1, "9 lives!": 2})
    assert set(schema.model_json_schema()["properties"]) == {"n", "9 lives!"}
    with pytest.raises(ValueError, match="n"):
        schema.model_validate({"n": "x", "9 lives!": 2})


def test_every_kind_of_part_has_all_schemas():
    parts = [
        PROMPT,
        MODEL,
        StrOutputParser(),
        RunnableBranch((length, ask), ask),
        RouterRunnable({"a": ask}),
        RunnablePick("a"),
        RunnableGenerator(lambda chunks: chunks),
        RunnablePassthrough(),
        RunnableLambda(ask).with_fallbacks([ask]),
        RunnableLambda(ask).map(),
        RunnableLambda(ask).with_listeners(on_end=print),
    ]
    for part in parts:
        for schema in (part.get_input_jsonschema(), part.get_output_jsonschema(), part.get_config_jsonschema()):
            assert schema["title"], part


# -- prompts


def test_prompts_are_found_wherever_they_are():
    inner = PromptTemplate.from_template("inner {x}")
    other = PromptTemplate.from_template("other {x}")

    def by_name(x):
        return inner.invoke(x)

    chain = (
        {"a": PROMPT | MODEL, "b": by_name}
        | RunnableBranch((length, other | MODEL), PROMPT)
        | PROMPT.with_config(tags=["x"]).with_retry()
    )
    assert chain.get_prompts() == [PROMPT, inner, other]
    assert (RunnableLambda(length) | ask).get_prompts() == []


# -- graphs


def test_a_graph_shows_choices_as_such():
    chain = (
        RunnableLambda(ask)
        | RunnableBranch((length, RunnableLambda(ask, name="long")), RunnableLambda(ask, name="short"))
        | RunnableLambda(length).with_retry().with_config(tags=["x"])
        | MODEL.with_fallbacks([RunnableLambda(ask, name="backup")])
    )
    drawn = chain.get_graph()
    names = {node.id: node.name for node in drawn.nodes.values()}
    edges = [(names[edge.source], names[edge.target], edge.data, edge.conditional) for edge in drawn.edges]
    assert ("RunnableBranch", "long", "length", True) in edges
    assert ("RunnableBranch", "short", "default", True) in edges
    assert ("long", "length", None, False) in edges
    assert ("RunnableWithFallbacks<FakeListChatModel>", "backup", "fallback 1", True) in edges
    assert "-.->" in drawn.draw_mermaid()
    assert "backup" in drawn.draw_ascii()


def test_alternatives_routes_and_added_keys_are_drawn():
    chain = RunnablePassthrough.assign(n=RunnableLambda(ask)) | RunnableLambda(ask).configurable_alternatives(
        ConfigurableField(id="which"), default_key="here", there=RunnableLambda(length)
    )
    drawn = chain.get_graph()
    names = {node.id: node.name for node in drawn.nodes.values()}
    labels = {(names[edge.target], edge.data) for edge in drawn.edges}
    assert {("ask", "n"), ("ask", "here"), ("length", "there")} <= labels
    part = (RunnableLambda(ask) | length).configurable_alternatives(ConfigurableField(id="which"), other=length)
    assert {edge.data for edge in part.get_graph().edges if edge.conditional} == {"default", "other"}
    assert part.get_output_jsonschema()["type"] == "integer"
    routed = RouterRunnable({"a": ask, "b": length}).get_graph()
    assert {edge.data for edge in routed.edges if edge.conditional} == {"a", "b"}


# -- repr


def test_repr_reads_like_the_source():
    chain = {"n": length, "x": RunnablePassthrough()} | RunnableLambda(lambda d: d["n"] + 1) | StrOutputParser()
    assert repr(chain) == (
        "{'n': RunnableLambda(length), 'x': RunnablePassthrough()}"
        ' | RunnableLambda(lambda d: d["n"] + 1) | StrOutputParser()'
    )
    wrapped = RunnableLambda(length).with_retry(stop_after_attempt=2).with_timeout(3).bind(a=1).map()
    assert repr(wrapped) == "RunnableLambda(length).with_retry(stop_after_attempt=2).with_timeout(3).bind(a=1).map()"
    assert repr(RunnableLambda(length).with_listeners(on_end=ask)).endswith(".with_listeners(on_end=ask)")
    assert repr(RouterRunnable({"a": length})) == "RouterRunnable({'a': RunnableLambda(length)})"


def outer():
    # fmt: off
    return [lambda x, y=2: (x, y), lambda a: {"é": a}["é"], lambda *args, **kwargs: args or kwargs, lambda x: [
        x,
        1,
    ]]
    # fmt: on


def test_the_source_of_a_lambda_is_found_among_others_of_its_line():
    first, second, third, fourth = outer()
    assert get_lambda_source(first) == "lambda x, y=2: (x, y)"
    assert get_lambda_source(second) == 'lambda a: {"é": a}["é"]'
    assert get_lambda_source(third) == "lambda *args, **kwargs: args or kwargs"
    assert get_lambda_source(fourth) == "lambda x: [ x, 1, ]"
    assert get_lambda_source(eval("lambda x: x")) is None
    assert "<lambda at <string>:1>" in repr(RunnableLambda(eval("lambda x: x")))


# -- bad input


def circle():
    steps: dict = {"a": length}
    steps["b"] = {"c": steps}
    return steps


class Itself:
    def __init__(self):
        self.part = RunnableLambda(lambda x: self.part)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: RunnableLambda(length) | 7, "7"),
        (lambda: 7 | RunnableLambda(length), "7"),
        (lambda: RunnableLambda(length) | {"a": 7}, "'a'"),
        (lambda: RunnableLambda(length) | {"a": {"b": None}}, "'b'"),
        (lambda: RunnableLambda(length) | {}, "at least one"),
        (lambda: RunnableLambda(length) | {1: length}, "strings"),
        (lambda: RunnableLambda(length) | circle(), "contains itself"),
        (lambda: RunnableLambda(7), "7"),
        (lambda: RunnableLambda(length).with_fallbacks(RunnableLambda(length)), "list"),
        (lambda: RunnableLambda(length).with_retry(stop_after_attempt=0), "at least 1"),
    ],
)
def test_what_cannot_be_composed_is_refused_with_what_to_do(make, told):
    with pytest.raises(InvalidInput, match=told) as caught:
        make()
    assert caught.value.hint or "strings" in str(caught.value) or "at least 1" in str(caught.value)


def test_a_part_that_gives_itself_is_told(driver):
    with pytest.raises(InvalidInput, match="gives itself"):
        driver.invoke(Itself().part, 1)
    with pytest.raises(InvalidInput, match="gives itself"):
        driver.stream(Itself().part, 1)
