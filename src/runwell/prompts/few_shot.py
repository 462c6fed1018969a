"""Prompts that show examples: all that are given, or those a selector picks for the input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self, runtime_checkable

from runwell.effects import Callee
from runwell.errors import InvalidInput
from runwell.messages.message import BaseMessage
from runwell.prompts.chat import BaseChatPromptTemplate, ChatPromptTemplate
from runwell.prompts.formats import PromptTemplateFormat
from runwell.prompts.message import BaseMessagePromptTemplate
from runwell.prompts.prompt_template import PromptTemplate, StringPromptTemplate

__all__ = ["ExampleSelector", "FewShotChatMessagePromptTemplate", "FewShotPromptTemplate"]


@runtime_checkable
class ExampleSelector(Protocol):
    """Picks the examples to show. An `aselect_examples` beside it is used where the prompt is filled with await."""

    def select_examples(self, input_variables: dict[str, Any]) -> list[dict[str, Any]]:
        """The examples for an input, in the order in which they are shown."""
        ...


class FewShotPromptTemplate(StringPromptTemplate):
    """A text: prefix, one filled `example_prompt` for each example, suffix, with `example_separator` between.

    Exactly one of `examples` and `example_selector` is given. The blanks of prefix and suffix are the prompt's
    variables; the examples are filled on their own. Examples whose keys do not fill `example_prompt` raise
    `InvalidInput` here.
    """

    def __init__(
        self,
        *,
        example_prompt: StringPromptTemplate,
        suffix: str = "",
        prefix: str = "",
        examples: Sequence[Mapping[str, Any]] | None = None,
        example_selector: ExampleSelector | None = None,
        example_separator: str = "\n\n",
        template_format: PromptTemplateFormat = "f-string",
        partial_variables: Mapping[str, Any] | None = None,
        input_variables: Sequence[str] | None = None,
        name: str | None = None,
    ) -> None:
        _check_source(examples, example_selector)
        self.never_blocks = example_selector is None
        self.name = name
        self.example_prompt = example_prompt
        self.prefix = prefix
        self.suffix = suffix
        self.examples = None if examples is None else [dict(example) for example in examples]
        self.example_selector = example_selector
        self.example_separator = example_separator
        self.template_format = template_format
        self.partial_variables = dict(partial_variables or {})
        self._before = PromptTemplate(prefix, template_format=template_format)
        self._after = PromptTemplate(suffix, template_format=template_format)
        for number, example in enumerate(self.examples or ()):
            _fill_example(example_prompt, example, number)
        if input_variables is not None and set(input_variables) - self.partial_variables.keys() != set(
            self.input_variables
        ):
            raise InvalidInput(
                f"Prefix and suffix have the variables {self.input_variables}, but input_variables says "
                f"{sorted(input_variables)}.",
                hint="Leave input_variables out; it is read from prefix and suffix.",
            )

    def _names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self._before._names(), *self._after._names())))

    def _text(self, values: Mapping[str, Any]) -> str:
        return self._with_examples(values, _selected(self, values))

    async def _atext(self, values: Mapping[str, Any]) -> str:
        return self._with_examples(values, await _aselected(self, values))

    def _with_examples(self, values: Mapping[str, Any], examples: Sequence[Mapping[str, Any]]) -> str:
        shown = [_fill_example(self.example_prompt, example, number) for number, example in enumerate(examples)]
        parts = [self._before._text(values), *shown, self._after._text(values)]
        return self.example_separator.join(part for part in parts if part)

    def _with_partial(self, partial_variables: dict[str, Any]) -> Self:
        return type(self)(
            example_prompt=self.example_prompt,
            suffix=self.suffix,
            prefix=self.prefix,
            examples=self.examples,
            example_selector=self.example_selector,
            example_separator=self.example_separator,
            template_format=self.template_format,
            partial_variables=partial_variables,
            name=self.name,
        )

    def __repr__(self) -> str:
        source = f"examples={self.examples!r}" if self.examples is not None else f"selector={self.example_selector!r}"
        return f"FewShotPromptTemplate({self.prefix!r}, {source}, {self.suffix!r})"


class FewShotChatMessagePromptTemplate(BaseChatPromptTemplate):
    """Messages: `example_prompt` filled for each example. Meant as an entry of a `ChatPromptTemplate`.

    Exactly one of `examples` and `example_selector` is given. `input_variables` names what the selector is to
    see of the input; with fixed examples there is none.
    """

    def __init__(
        self,
        *,
        example_prompt: BaseChatPromptTemplate | BaseMessagePromptTemplate,
        examples: Sequence[Mapping[str, Any]] | None = None,
        example_selector: ExampleSelector | None = None,
        input_variables: Sequence[str] = (),
        partial_variables: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> None:
        _check_source(examples, example_selector)
        self.never_blocks = example_selector is None
        self.name = name
        self.example_prompt = (
            example_prompt
            if isinstance(example_prompt, BaseChatPromptTemplate)
            else ChatPromptTemplate([example_prompt])
        )
        self.examples = None if examples is None else [dict(example) for example in examples]
        self.example_selector = example_selector
        self.partial_variables = dict(partial_variables or {})
        self._declared = tuple(input_variables)
        for number, example in enumerate(self.examples or ()):
            _example_messages(self.example_prompt, example, number)

    def _names(self) -> tuple[str, ...]:
        return self._declared

    def _messages(self, values: Mapping[str, Any]) -> list[BaseMessage]:
        return self._with_examples(_selected(self, values))

    async def _amessages(self, values: Mapping[str, Any]) -> list[BaseMessage]:
        return self._with_examples(await _aselected(self, values))

    def _with_examples(self, examples: Sequence[Mapping[str, Any]]) -> list[BaseMessage]:
        return [
            message
            for number, example in enumerate(examples)
            for message in _example_messages(self.example_prompt, example, number)
        ]

    def _with_partial(self, partial_variables: dict[str, Any]) -> Self:
        return type(self)(
            example_prompt=self.example_prompt,
            examples=self.examples,
            example_selector=self.example_selector,
            input_variables=self._declared,
            partial_variables=partial_variables,
            name=self.name,
        )

    def __add__(self, other: Any) -> ChatPromptTemplate:
        """A chat prompt of these examples and `other`."""
        return ChatPromptTemplate([self]).__add__(other)

    def __repr__(self) -> str:
        source = f"examples={self.examples!r}" if self.examples is not None else f"selector={self.example_selector!r}"
        return f"FewShotChatMessagePromptTemplate({source}, example_prompt={self.example_prompt!r})"


def _check_source(examples: Sequence[Any] | None, selector: ExampleSelector | None) -> None:
    if (examples is None) == (selector is None):
        raise InvalidInput(
            f"A few-shot prompt needs either examples or an example_selector, not "
            f"{'neither' if examples is None else 'both'}."
        )
    if selector is not None and not isinstance(selector, ExampleSelector):
        raise InvalidInput(f"{selector!r:.100} is no example selector: it has no select_examples(input).")


def _selected(prompt: Any, values: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    if prompt.examples is not None:
        return prompt.examples  # type: ignore[no-any-return]
    return prompt.example_selector.select_examples(_seen(prompt, values))  # type: ignore[no-any-return]


async def _aselected(prompt: Any, values: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    if prompt.examples is not None:
        return prompt.examples  # type: ignore[no-any-return]
    from runwell.drivers.aio import call_async

    selector = prompt.example_selector
    callee = Callee(selector.select_examples, getattr(selector, "aselect_examples", None))
    return await call_async(callee, _seen(prompt, values))


def _seen(prompt: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """What a selector sees: the declared variables, or everything when none is declared."""
    names = prompt._names()
    return {name: values[name] for name in names} if names else dict(values)


def _fill_example(prompt: StringPromptTemplate, example: Mapping[str, Any], number: int) -> str:
    try:
        return prompt._text(prompt._complete(example))
    except InvalidInput as error:
        raise InvalidInput(f"Example {number} does not fit: {error.message}", hint=error.hint) from error


def _example_messages(prompt: BaseChatPromptTemplate, example: Mapping[str, Any], number: int) -> list[BaseMessage]:
    try:
        return prompt._messages(prompt._complete(example))
    except InvalidInput as error:
        raise InvalidInput(f"Example {number} does not fit: {error.message}", hint=error.hint) from error
