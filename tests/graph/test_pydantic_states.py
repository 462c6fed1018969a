"""A Pydantic model as a state means what it means elsewhere: validators, aliases, private attributes."""

from __future__ import annotations

import dataclasses
import operator
from typing import Annotated, Any, ClassVar

import pytest
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
    computed_field,
    field_validator,
    model_validator,
)

from runwell.errors import InvalidInput, InvalidUpdateError
from runwell.graph import START, StateGraph
from runwell.persistence import InMemorySaver


def one(kind: Any, node: Any) -> Any:
    return StateGraph(kind).add_node("a", node).add_edge(START, "a")


class Span(BaseModel):
    low: int = 0
    high: int = 0
    width: int = 0
    log: Annotated[list[str], operator.add] = []

    @model_validator(mode="after")
    def in_order(self) -> Span:
        if self.low > self.high:
            raise ValueError("low is above high")
        self.width = self.high - self.low
        return self


def test_ckpt_13_a_validator_of_the_whole_model_sees_the_whole_state(run: Any, thread: Any) -> None:
    seen: list[Any] = []

    def move(state: Span) -> Any:
        seen.append((state.low, state.high, state.width))
        return {"low": state.low + 10, "high": state.high + 12, "log": ["moved"]}

    app = one(Span, move).compile(InMemorySaver())
    assert run.invoke(app, {"low": 5, "high": 9}, thread) == {"low": 15, "high": 21, "width": 6, "log": ["moved"]}
    assert run.invoke(app, {"high": 30}, thread) == {"low": 25, "high": 42, "width": 17, "log": ["moved", "moved"]}
    assert seen == [(5, 9, 4), (15, 30, 15)]
    run.update(app, thread, {"high": 50})
    assert run.state(app, thread).values["width"] == 25


def test_ckpt_12_a_state_that_does_not_fit_as_a_whole_fails_at_its_node(run: Any, thread: Any) -> None:
    app = one(Span, lambda state: {"low": 99}).compile(InMemorySaver())
    with pytest.raises(InvalidUpdateError, match=r"'a'.*low is above high"):
        run.invoke(app, {"low": 1, "high": 2}, thread)
    assert run.state(app, thread).values["low"] == 1
    with pytest.raises(InvalidInput, match="low is above high"):
        run.invoke(app, {"low": 3}, thread)
    with pytest.raises(InvalidInput, match="low is above high"):
        run.invoke(app, {"low": 3, "high": 2}, {"configurable": {"thread_id": "new"}})


def test_a_fields_validator_may_look_at_the_other_fields(run: Any) -> None:
    class State(BaseModel):
        limit: int = 0
        n: int = 0

        @field_validator("n")
        @classmethod
        def below(cls, n: int, info: ValidationInfo) -> int:
            return min(n, info.data["limit"])

    assert run.invoke(one(State, lambda state: {"n": state.n * 10}).compile(), {"limit": 5, "n": 3})["n"] == 5


class Aliased(BaseModel):
    given: int = Field(alias="in")
    other: int = Field(0, validation_alias=AliasChoices("other-1", "other-2"))
    log: Annotated[list[int], operator.add] = Field([], alias="Log")


@pytest.mark.parametrize("given", [{"in": "1", "other-1": 2, "Log": [0]}, {"given": 1, "other": 2, "log": [0]}])
def test_a_field_with_an_alias_is_given_by_either_name(run: Any, thread: Any, given: Any) -> None:
    app = one(Aliased, lambda state: {"log": [state.given, state.other]}).compile(InMemorySaver())
    assert run.invoke(app, given, thread) == {"given": 1, "other": 2, "log": [0, 1, 2]}
    assert run.invoke(app, {"in": 3}, thread)["log"] == [0, 1, 2, 3, 2]


def test_what_is_no_field_is_no_key_of_the_state(run: Any) -> None:
    class State(BaseModel):
        model_config = ConfigDict(frozen=True)
        kind: ClassVar[str] = "k"
        n: int = 1
        _secret: int = PrivateAttr(7)

        @computed_field  # type: ignore[prop-decorator]
        @property
        def double(self) -> int:
            return self.n * 2

    app = one(State, lambda state: state.model_copy(update={"n": state.double + state._secret})).compile()
    assert run.invoke(app, {}) == {"n": 9}

    @dataclasses.dataclass
    class Data:
        seed: dataclasses.InitVar[int] = 0
        kind: ClassVar[str] = "k"
        _: dataclasses.KW_ONLY
        n: int = 1

    assert run.invoke(one(Data, lambda state: {"n": state.n + 1}).compile(), {}) == {"n": 2}


def test_a_function_that_nobody_could_call_is_refused_when_it_is_added() -> None:
    from functools import partial

    from runwell.errors import GraphError

    def needs(state: Any, more: int) -> Any:
        return {"n": more}

    def names(runtime: Any, state: Any, config: Any = None, *, store: Any, **rest: Any) -> Any:
        return {}

    with pytest.raises(GraphError, match="'more'"):
        one(Span, needs)
    with pytest.raises(GraphError, match="'more'"):
        one(Span, lambda state: {}).add_conditional_edges("a", needs)
    for fine in (partial(needs, more=1), names, dict, Span(), lambda *args: {}, lambda state, n=3: {}):
        if callable(fine):
            one(Span, fine)


@pytest.mark.parametrize("options", [{"stream_mode": "updates"}, {"stream_mode": ["values"]}, {"subgraphs": True}])
def test_invoke_does_not_stream(run: Any, options: Any) -> None:
    app = one(Span, lambda state: {"high": 1}).compile()
    with pytest.raises(InvalidInput, match="stream"):
        run.invoke(app, {}, **options)
    assert run.invoke(app, {}, stream_mode="values")["high"] == 1
