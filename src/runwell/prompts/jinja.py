"""Text with named blanks, in the jinja2 syntax: chosen in code, and only ever in a sandbox.

The sandbox is narrower than jinja2's own: a template reads the keys of dicts and the items of lists, and
nothing else. It reaches no attribute and calls nothing but jinja2's filters. A prompt file cannot ask for it
(`load_prompt` refuses).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from runwell.errors import InvalidInput, MissingExtra
from runwell.prompts.template import require

__all__ = ["JinjaTemplate"]


class JinjaTemplate:
    """A template in jinja2 syntax. Raises `MissingExtra` when jinja2 is not installed, `InvalidInput` for
    faults in the text and, when filled, for anything the sandbox forbids."""

    __slots__ = ("_template", "names", "source")

    names: tuple[str, ...]

    def __init__(self, source: str) -> None:
        environment, meta, error = _environment()
        self.source = source
        try:
            tree = environment.parse(source)
            if any(True for _ in meta.find_referenced_templates(tree)):
                raise InvalidInput(
                    "The jinja2 template takes in another template, and knows of none.",
                    hint="Put the text itself into the template.",
                )
            self.names = tuple(sorted(meta.find_undeclared_variables(tree) - set(environment.globals)))
            self._template = environment.from_string(source)
        except error as fault:
            raise InvalidInput(f"The jinja2 template does not parse: {str(fault).rstrip('.')}.") from fault

    def render(self, values: Mapping[str, Any]) -> str:
        """The text. Raises `InvalidInput` when a variable is missing or the sandbox forbids what is asked."""
        require(self.names, values)
        try:
            return str(self._template.render(dict(values)))
        except Exception as fault:  # also what a filter or an operator makes of a value
            raise InvalidInput(
                f"The jinja2 template could not be filled: {str(fault).rstrip('.')}.",
                hint="A template reads keys of dicts and items of lists; it reaches no attribute and calls nothing.",
            ) from fault

    def __reduce__(self) -> tuple[Any, ...]:
        return JinjaTemplate, (self.source,)

    def __repr__(self) -> str:
        return f"JinjaTemplate({self.source!r})"


@cache
def _environment() -> tuple[Any, Any, type[Exception]]:
    try:
        from jinja2 import StrictUndefined, TemplateError, meta  # type: ignore[import-not-found,unused-ignore]
        from jinja2.exceptions import SecurityError  # type: ignore[import-not-found,unused-ignore]
        from jinja2.runtime import LoopContext  # type: ignore[import-not-found,unused-ignore]
        from jinja2.sandbox import ImmutableSandboxedEnvironment  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise MissingExtra("A template with template_format='jinja2'", "jinja2") from None

    class KeysOnly(ImmutableSandboxedEnvironment):  # type: ignore[misc,unused-ignore]
        intercepted_binops = frozenset({"*", "**"})

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            if operator == "**" or not (isinstance(left, int | float) and isinstance(right, int | float)):
                raise SecurityError(f"{operator!r} could make a text of any length, and is not open to templates")
            return super().call_binop(context, operator, left, right)

        def getattr(self, obj: Any, attribute: str) -> Any:
            return self.getitem(obj, attribute)

        def getitem(self, obj: Any, argument: Any) -> Any:
            if isinstance(obj, LoopContext) and argument in _LOOP:
                return getattr(obj, argument)
            if isinstance(obj, Mapping):
                return obj[argument] if argument in obj else self.undefined(obj=obj, name=argument)
            if isinstance(obj, (list, tuple, str)) and isinstance(argument, (int, slice)):
                return obj[argument]
            raise SecurityError(f"{argument!r} of a {type(obj).__name__} is not open to templates")

        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            return False

        def is_safe_callable(self, obj: Any) -> bool:
            return False

    environment = KeysOnly(undefined=StrictUndefined, autoescape=False)
    environment.globals.clear()
    return environment, meta, TemplateError


_LOOP = frozenset({"depth", "depth0", "first", "index", "index0", "last", "length", "revindex", "revindex0"})
