"""The syntaxes a template may be written in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from runwell.errors import InvalidConfig, InvalidInput, nearest
from runwell.prompts.template import FStringTemplate

__all__ = ["CompiledTemplate", "PromptTemplateFormat", "compile_template", "get_template_variables"]

PromptTemplateFormat = Literal["f-string", "mustache", "jinja2"]


class CompiledTemplate(Protocol):
    """A template that has been read. `names` are the variables it needs, in order of appearance."""

    names: tuple[str, ...]

    def render(self, values: Mapping[str, Any]) -> str:
        """The text with its blanks filled. Raises `InvalidInput` when a variable is missing."""
        ...


def compile_template(source: Any, template_format: str = "f-string") -> CompiledTemplate:
    """Read `source` in the syntax `template_format`. Raises `InvalidInput` for faults in the text."""
    if not isinstance(source, str):
        raise InvalidInput(
            f"A template is a string, not {source!r:.200}.", hint="For a ready message, pass a message object."
        )
    if template_format == "f-string":
        return FStringTemplate(source)
    if template_format == "mustache":
        from runwell.prompts.mustache import MustacheTemplate

        return MustacheTemplate(source)
    if template_format == "jinja2":
        from runwell.prompts.jinja import JinjaTemplate

        return JinjaTemplate(source)
    known = ("f-string", "mustache", "jinja2")
    raise InvalidConfig(
        f"There is no template format {template_format!r}{nearest(str(template_format), known)}",
        hint=f"Use one of {', '.join(map(repr, known))}.",
    )


def get_template_variables(template: str, template_format: PromptTemplateFormat = "f-string") -> list[str]:
    """The names of the variables that `template` needs, sorted."""
    return sorted(compile_template(template, template_format).names)
