"""`PromptTemplate`: a prompt that is one text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from runwell.errors import InvalidInput
from runwell.prompts.formats import CompiledTemplate, PromptTemplateFormat, compile_template
from runwell.prompts.prompt import BasePromptTemplate
from runwell.prompts.prompt_value import StringPromptValue

__all__ = ["PromptTemplate", "StringPromptTemplate"]


class StringPromptTemplate(BasePromptTemplate):
    """A prompt that fills to one text: a subclass implements `_text` (and `_names`)."""

    def format(self, **values: Any) -> str:
        """The text. Raises `InvalidInput` that lists every missing variable."""
        return self._text(self._complete(values))

    def _text(self, values: Mapping[str, Any]) -> str:
        raise NotImplementedError

    async def aformat(self, **values: Any) -> str:
        """As `format`."""
        return await self._atext(self._complete(values))

    async def _atext(self, values: Mapping[str, Any]) -> str:
        """`_text` for prompts that do not say `never_blocks`."""
        return self._text(values)

    def _fill(self, values: Mapping[str, Any]) -> StringPromptValue:
        return StringPromptValue(self._text(values))

    async def _afill(self, values: Mapping[str, Any]) -> StringPromptValue:
        return StringPromptValue(await self._atext(values))


class PromptTemplate(StringPromptTemplate):
    """A text with named blanks.

        PromptTemplate.from_template("Translate into {language}: {text}").format(language="French", text="Hi")

    The text is read once, here: a stray brace, or a blank that is more than a name, raises `InvalidInput`.
    Copies and unpickled prompts are read, and so checked, again.
    """

    def __init__(
        self,
        template: str,
        *,
        template_format: PromptTemplateFormat = "f-string",
        partial_variables: Mapping[str, Any] | None = None,
        input_variables: Sequence[str] | None = None,
        name: str | None = None,
    ) -> None:
        self.name = name
        self.template = template
        self.template_format = template_format
        self.partial_variables = dict(partial_variables or {})
        names = self._compiled().names
        if input_variables is not None and set(input_variables) - self.partial_variables.keys() != set(
            self.input_variables
        ):
            raise InvalidInput(
                f"The template has the variables {sorted(names)}, but input_variables says {sorted(input_variables)}.",
                hint="Leave input_variables out; it is read from the template.",
            )

    @classmethod
    def from_template(
        cls,
        template: str,
        *,
        template_format: PromptTemplateFormat = "f-string",
        partial_variables: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Self:
        """A prompt from a text with blanks. Raises `InvalidInput` for faults in the text."""
        return cls(template, template_format=template_format, partial_variables=partial_variables, **kwargs)

    @classmethod
    def from_file(cls, template_file: str | Path, *, encoding: str = "utf-8", **kwargs: Any) -> Self:
        """A prompt whose text stands in a file. Raises OSError when it cannot be read."""
        return cls.from_template(Path(template_file).read_text(encoding=encoding), **kwargs)

    @classmethod
    def from_examples(
        cls,
        examples: Sequence[str],
        suffix: str,
        input_variables: Sequence[str],
        example_separator: str = "\n\n",
        prefix: str = "",
        **kwargs: Any,
    ) -> Self:
        """A prompt of prefix, examples and suffix. The examples, too, are texts with blanks: double their braces, or
        use a `FewShotPromptTemplate`."""
        text = example_separator.join([prefix, *examples, suffix])
        return cls(text, input_variables=input_variables, **kwargs)

    def _compiled(self) -> CompiledTemplate:
        # Read again whenever the text or syntax is another than the one that was read, so that whatever way
        # the object came about (a copy, a pickle, a subclass, an assignment) nothing unchecked is filled.
        source = (self.template, self.template_format)
        read: tuple[Any, CompiledTemplate] | None = self.__dict__.get("_read")
        if read is None or read[0] != source:
            read = self.__dict__["_read"] = (source, compile_template(*source))
        return read[1]

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_read"}

    def _names(self) -> tuple[str, ...]:
        return self._compiled().names

    def _text(self, values: Mapping[str, Any]) -> str:
        return self._compiled().render(values)

    def _with_partial(self, partial_variables: dict[str, Any]) -> Self:
        return type(self)(
            self.template, template_format=self.template_format, partial_variables=partial_variables, name=self.name
        )

    def __add__(self, other: Any) -> PromptTemplate:
        """Both texts, one behind the other; `other` is a prompt or a text in the same syntax."""
        if isinstance(other, str):
            other = PromptTemplate(other, template_format=self.template_format)
        if not isinstance(other, PromptTemplate):
            return NotImplemented
        if other.template_format != self.template_format:
            raise InvalidInput(
                f"A {self.template_format} template cannot be joined with a {other.template_format} template."
            )
        for key, value in other.partial_variables.items():
            if key in self.partial_variables and self.partial_variables[key] != value:
                raise InvalidInput(f"Both prompts set the variable {key!r} beforehand, to different values.")
        return PromptTemplate(
            self.template + other.template,
            template_format=self.template_format,
            partial_variables={**self.partial_variables, **other.partial_variables},
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, PromptTemplate)
            and type(other) is type(self)
            and other.template == self.template
            and other.template_format == self.template_format
            and other.partial_variables == self.partial_variables
        )

    def __hash__(self) -> int:
        return hash((self.template, self.template_format))

    def __repr__(self) -> str:
        rest = "" if self.template_format == "f-string" else f", template_format={self.template_format!r}"
        if self.partial_variables:
            rest += f", partial_variables={self.partial_variables!r}"
        return f"PromptTemplate({self.template!r}{rest})"
