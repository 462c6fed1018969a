"""Annotated attributes as keyword arguments."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import pytest
from pydantic import Field, PrivateAttr, field_validator

from runwell.errors import InvalidInput, UsageError
from runwell.runnables.fields import KeywordFields


class Base(KeywordFields):
    size: int
    name: str = "x"
    tags: list[str] = []
    kind: ClassVar[str] = "base"
    _hidden: int = 7


class Child(Base):
    api_key: str | None = None
    max_tokens: int | None = None
    extra: dict[str, int] = dataclasses.field(default_factory=dict)
    temperature: float = Field(default=0.5, alias="temp")
    _count: int = PrivateAttr(default=3)


def test_defaults_are_inherited_and_containers_are_not_shared() -> None:
    one, two = Child(size=1), Child(size=2, temp=0.9)
    one.tags.append("a")
    one.extra["a"] = 1
    assert (two.tags, two.extra) == ([], {})
    assert (one.temperature, two.temperature) == (0.5, 0.9)
    assert (one.name, one._count, one._hidden, Child.kind) == ("x", 3, 7, "base")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"size": 1, "nmae": "y"}, "'nmae'; did you mean 'name'"),
        ({}, "needs 'size'"),
        ({"size": 1, "temp": 1, "temperature": 1}, "both 'temperature' and 'temp'"),
        ({"size": 1, "kind": "y"}, "'kind'"),
        ({"size": 1, "_hidden": 1}, "'_hidden'"),
    ],
)
def test_wrong_arguments_are_named(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        Child(**given)


def test_repr_shows_what_differs_and_no_secret() -> None:
    shown = repr(Child(size=1, name="y", api_key="sk-secret", max_tokens=5))
    assert shown == "Child(size=1, name='y', api_key='**********', max_tokens=5)"


def test_a_field_may_become_computed() -> None:
    class Computed(Child):
        @property
        def name(self) -> str:  # type: ignore[override]
            return "computed"

    assert Computed(size=1).name == "computed"
    with pytest.raises(InvalidInput, match="'name'"):
        Computed(size=1, name="y")


def test_fields_of_several_bases_are_all_taken_and_the_first_says_the_default() -> None:
    class Mixed(KeywordFields):
        place: str = "here"
        name: str = "mixed"

    class Sized(Base):
        size: int = 4
        name: str = "sized"

    class First(Mixed, Base):
        size: int = 5

    class Both(First, Sized):
        pass

    class Computed(Mixed, Sized):
        @property
        def place(self) -> str:  # type: ignore[override]
            return "there"

    class Later(Computed, Base):
        pass

    both = Both(tags=["t"])
    assert (both.size, both.name, both.place, both.tags, both._hidden) == (5, "mixed", "here", ["t"], 7)
    assert Both(size=1, name="n", place="p").size == 1
    assert (Later().size, Later().place) == (4, "there")
    with pytest.raises(InvalidInput, match="'place'"):
        Later(place="p")


def test_post_init_is_called() -> None:
    class Doubles(Base):
        def model_post_init(self, context: Any) -> None:
            self.size *= 2

    assert Doubles(size=2).size == 4


def test_a_pydantic_validator_is_refused_rather_than_ignored() -> None:
    with pytest.raises(UsageError, match="check is a pydantic validator"):

        class Checked(Base):
            @field_validator("size")
            @classmethod
            def check(cls, value: int) -> int:
                return value


def test_copies_take_changes() -> None:
    one = Child(size=1)
    two = one.model_copy(update={"size": 5})
    assert (one.size, two.size) == (1, 5)
    with pytest.raises(InvalidInput, match="'sise'; did you mean 'size'"):
        one.model_copy(update={"sise": 5})
