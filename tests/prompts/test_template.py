"""Templates: what is filled, and what is refused when they are made."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwell.errors import InvalidConfig, InvalidInput, MissingExtra
from runwell.prompts.formats import compile_template, get_template_variables
from runwell.prompts.mustache import MustacheTemplate
from runwell.prompts.template import FStringTemplate

NAMES = st.text(alphabet="abcxyz_é", min_size=1, max_size=4)


class Vault:
    """An object that says when someone looks inside."""

    password = "hunter2"

    def __str__(self) -> str:
        return "a vault"


@given(st.text())
def test_a_text_with_doubled_braces_comes_back_as_it_was(text: str) -> None:
    escaped = text.replace("{", "{{").replace("}", "}}")
    template = FStringTemplate(escaped)
    assert template.names == ()
    assert template.render({}) == text


@given(
    st.lists(st.tuples(st.text(), NAMES, st.sampled_from(["", "!r", "!s", "!a", ":>5", "!r:<9"])), max_size=4),
    st.text(),
)
def test_filling_agrees_with_python(parts: list[tuple[str, str, str]], tail: str) -> None:
    def literal(text: str) -> str:
        return text.replace("{", "{{").replace("}", "}}")

    source = "".join(f"{literal(text)}{{{name}{how}}}" for text, name, how in parts) + literal(tail)
    values = {name: f"<{name}>" for _, name, _ in parts}
    template = FStringTemplate(source)
    assert template.render(values) == source.format(**values)
    assert list(template.names) == list(dict.fromkeys(name for _, name, _ in parts))


@given(st.text(alphabet="{}ab.[]:!0 %", max_size=12))
def test_a_template_is_refused_when_made_or_agrees_with_python(source: str) -> None:
    try:
        template = FStringTemplate(source)
    except InvalidInput:
        return
    values = dict.fromkeys(template.names, 7)
    try:
        filled = template.render(values)
    except InvalidInput:  # a format that does not go with a number
        return
    assert filled == source.format(**values)
    named = [field for _, field, _, _ in string.Formatter().parse(source) if field is not None]
    assert set(template.names) == set(named)


def test_values_are_never_read_as_templates() -> None:
    assert FStringTemplate("{a} %s {b}").render({"a": "{b} %s %(b)s", "b": "{{"}) == "{b} %s %(b)s %s {{"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ('use {} and {"a": 1}', "braces with no variable name, at line 1, column 5"),
        ('{"a": 1}', "'\"a\"' in braces, which is no variable name"),
        ("one\ntwo { three", "a '{' that begins or ends no variable, at line 2, column 5"),
        ("one }", "a '}' that begins or ends no variable, at line 1, column 5"),
        ("{0}", "no variable name"),
        ("{a b}", "no variable name"),
        ("{a-b}", "no variable name"),
        ("{a+1}", "no variable name"),
        ("{f(x)}", "no variable name"),
        ("{x!z}", "unknown conversion"),
        ("{x:{width}}", "begins or ends no variable"),
        ("{x:>1000000000}", "out of all proportion"),
    ],
)
def test_a_stray_brace_is_refused_when_made_with_its_place(source: str, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        FStringTemplate(source)
    assert said in caught.value.message


def test_the_place_is_pointed_at_and_the_way_out_is_named() -> None:
    with pytest.raises(InvalidInput) as caught:
        FStringTemplate('ok\nuse {"a": 1}')
    lines = caught.value.message.splitlines()
    assert lines[-2][lines[-1].index("^")] == "{"
    assert caught.value.hint is not None
    assert "{{" in caught.value.hint
    with pytest.raises(InvalidInput) as caught:
        FStringTemplate("x" * 500 + "{" + "y" * 500)
    lines = caught.value.message.splitlines()
    assert lines[-2][lines[-1].index("^")] == "{"
    assert len(lines[-2]) < 120


@pytest.mark.parametrize("source", ["Hello {u.password}", "{u[0].__class__}", "{u.__class__.__init__}", "{u [0]}"])
def test_safe_04_a_template_that_reaches_inside_is_refused(source: str) -> None:
    """SAFE-04, first half: when it is made."""
    with pytest.raises(InvalidInput, match="reaches inside a value"):
        FStringTemplate(source)


def test_missing_variables_are_listed_beside_the_given_ones() -> None:
    with pytest.raises(InvalidInput) as caught:
        FStringTemplate("{question} {context} {name}").render({"name": 1, "qestion": 2})
    assert "'question', 'context'" in caught.value.message
    assert "'name', 'qestion'; did you mean 'qestion'?" in caught.value.message
    assert caught.value.hint is not None
    assert "{{" in caught.value.hint


def test_a_value_that_does_not_take_the_format_says_so() -> None:
    assert FStringTemplate("{price:.2f}").render({"price": 2}) == "2.00"
    with pytest.raises(InvalidInput, match=r"'cheap' of 'price' does not fit the format '\.2f'"):
        FStringTemplate("{price:.2f}").render({"price": "cheap"})


def test_unknown_formats_and_other_types_are_refused() -> None:
    with pytest.raises(InvalidConfig, match="did you mean 'mustache'"):
        compile_template("x", "mustach")
    with pytest.raises(InvalidInput, match="A template is a string"):
        compile_template(7)


def test_variables_are_listed_without_filling() -> None:
    assert get_template_variables("{b} {a} {b!r}") == ["a", "b"]
    assert get_template_variables("{{b}} {{#a}}{{c}}{{/a}}", "mustache") == ["a", "b"]


# -- mustache


@pytest.mark.parametrize(
    ("source", "values", "text"),
    [
        ("Hi {{ name }}, {{{name}}}, {{&name}}", {"name": "<b> & {{x}}"}, "Hi <b> & {{x}}, <b> & {{x}}, <b> & {{x}}"),
        ("{{#items}}[{{.}}]{{/items}}", {"items": [1, 2]}, "[1][2]"),
        ("{{#items}}[{{n}}{{who}}]{{/items}}", {"items": [{"n": 1}, {"n": 2}], "who": "!"}, "[1!][2!]"),
        ("{{#user}}{{name}}{{/user}}", {"user": {"name": "Ann"}}, "Ann"),
        ("{{user.name}}", {"user": {"name": "Ann"}}, "Ann"),
        ("{{^items}}none{{/items}}", {"items": []}, "none"),
        ("{{#yes}}y{{/yes}}{{#no}}n{{/no}}", {"yes": True, "no": False}, "y"),
        ("a{{! note }}b", {}, "ab"),
        ("a\n{{#x}}\nb\n{{/x}}\nc", {"x": True}, "a\nb\nc"),
        ('{"json": {"a": 1}} {one}', {}, '{"json": {"a": 1}} {one}'),
    ],
)
def test_mustache(source: str, values: dict[str, Any], text: str) -> None:
    assert MustacheTemplate(source).render(values) == text


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{{#a}}x", "not closed"),
        ("{{/a}}", "closes no open section"),
        ("{{#a}}{{/b}}", "closes no open section"),
        ("{{> file}}", "a partial"),
        ("{{=<% %>=}}", "delimiters"),
        ("x\n{{}}", "line 2, column 1"),
        ("{{a()}}", "holds no name"),
        ("{{a[0]}}", "holds no name"),
    ],
)
def test_mustache_refuses_what_it_does_not_know(source: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        MustacheTemplate(source)


def test_mustache_reads_dicts_and_never_objects() -> None:
    with pytest.raises(InvalidInput, match="a Vault, not a dict"):
        MustacheTemplate("{{u.password}}").render({"u": Vault()})
    with pytest.raises(InvalidInput, match="needs the variable 'name'"):
        MustacheTemplate("{{name}}").render({})


def test_jinja2_is_refused_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    from runwell.prompts import jinja

    jinja._environment.cache_clear()
    with pytest.raises(MissingExtra, match=r"runwell\[jinja2\]"):
        compile_template("{{ x }}", "jinja2")
