"""Templates in jinja2: a sandbox that reads keys and items, and nothing else."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from runwell.errors import InvalidInput

pytest.importorskip("jinja2")

from runwell.prompts import ChatPromptTemplate, PromptTemplate
from runwell.prompts.jinja import JinjaTemplate


class Vault:
    password = "hunter2"

    def open(self) -> str:
        return self.password


@pytest.mark.parametrize(
    ("source", "values", "text"),
    [
        ("Hi {{ name }}", {"name": "<b>"}, "Hi <b>"),
        (
            "{% for item in items %}{{ loop.index }}:{{ item.n }} {% endfor %}",
            {"items": [{"n": 1}, {"n": 2}]},
            "1:1 2:2 ",
        ),
        ("{% if yes %}y{% else %}n{% endif %}", {"yes": False}, "n"),
        ("{{ items | join(', ') | upper }} {{ items[0] }}", {"items": ["a", "b"]}, "A, B a"),
        ("{{ '{' }}literal{{ '}' }}", {}, "{literal}"),
    ],
)
def test_filling(source: str, values: dict[str, Any], text: str) -> None:
    assert JinjaTemplate(source).render(values) == text


@pytest.mark.parametrize(
    "source",
    [
        "{{ u.password }}",
        "{{ u['password'] }}",
        "{{ u.open() }}",
        "{{ u | attr('password') }}",
        "{{ [u] | map(attribute='password') | list }}",
        "{{ u.__class__.__mro__ }}",
        "{{ ''.__class__ }}",
        "{{ 'x'.format(u) }}",
        "{{ u() }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ self.__init__.__globals__ }}",
        "{{ range(3) }}",
        "{% for i in d %}{{ loop.cycle.__globals__ }}{% endfor %}",
    ],
)
def test_safe_04_nothing_inside_an_object_is_reached(source: str) -> None:
    """SAFE-04, for the third syntax"""
    prompt = PromptTemplate(source, template_format="jinja2")
    values = {"u": Vault(), "d": {"a": 1}, "cycler": 1, "range": 1}
    for each in (prompt, copy.deepcopy(prompt), pickle.loads(pickle.dumps(prompt))):
        with pytest.raises(InvalidInput):
            each.format(**values)


def test_missing_variables_and_faults_in_the_text() -> None:
    prompt = ChatPromptTemplate.from_messages([("human", "{{ a }} {{ b }}")], template_format="jinja2")
    assert prompt.input_variables == ["a", "b"]
    with pytest.raises(InvalidInput, match="needs the variable 'b'"):
        prompt.format_messages(a=1)
    with pytest.raises(InvalidInput, match="does not parse"):
        JinjaTemplate("{% if %}")


@pytest.mark.parametrize(
    "taking", ['{% include "x" %}', '{% extends "x" %}', '{% import "x" as y %}', "{% include n %}"]
)
def test_another_template_is_not_taken_in(taking):
    with pytest.raises(InvalidInput, match="another template"):
        PromptTemplate.from_template(taking, template_format="jinja2")


@pytest.mark.parametrize("bomb", ['{{ "a" * n }}', "{{ [0] * n }}", "{{ n ** n }}", '{{ n * "a" }}'])
def test_an_operator_makes_no_text_of_any_length(bomb):
    with pytest.raises(InvalidInput, match="any length"):
        PromptTemplate.from_template(bomb, template_format="jinja2").format(n=10**12)


def test_numbers_are_multiplied():
    assert PromptTemplate.from_template("{{ 2 * n }}", template_format="jinja2").format(n=1.5) == "3.0"


@pytest.mark.parametrize("failing", ["{{ 1 / n }}", "{{ n + 'a' }}", "{{ ['a', n] | sum }}", "{{ n | round('x') }}"])
def test_what_an_operator_or_filter_raises_is_told_as_a_fault_of_the_template(failing):
    with pytest.raises(InvalidInput, match="could not be filled"):
        PromptTemplate.from_template(failing, template_format="jinja2").format(n=0)
