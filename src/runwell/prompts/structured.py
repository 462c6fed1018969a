"""A conversation that also says in which shape the answer is to come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from runwell.errors import InvalidInput
from runwell.prompts.chat import ChatPromptTemplate
from runwell.prompts.formats import PromptTemplateFormat
from runwell.runnables.runnable import Runnable

__all__ = ["StructuredPrompt"]


class StructuredPrompt(ChatPromptTemplate):
    """A chat prompt with a schema: `prompt | model` is `prompt | model.with_structured_output(schema)`.

    `schema_` is what `with_structured_output` takes; `structured_output_kwargs` are passed on to it. A model behind it
    must have that method.
    """

    def __init__(
        self,
        messages: Sequence[Any],
        schema_: Any = None,
        *,
        structured_output_kwargs: Mapping[str, Any] | None = None,
        template_format: PromptTemplateFormat = "f-string",
        **kwargs: Any,
    ) -> None:
        if schema_ is None:
            raise InvalidInput(
                "A structured prompt needs a schema.", hint="Pass a class or a JSON schema, or use ChatPromptTemplate."
            )
        self.schema_ = schema_
        self.structured_output_kwargs = dict(structured_output_kwargs or {})
        super().__init__(messages, template_format=template_format, **kwargs)

    @classmethod
    def from_messages_and_schema(cls, messages: Sequence[Any], schema: Any, **kwargs: Any) -> Self:
        """A prompt from a list of entries and the shape of the answer."""
        return cls(messages, schema, structured_output_kwargs=kwargs)

    def _with_parts(self, parts: Sequence[Any], partial_variables: Mapping[str, Any] | None = None) -> Self:
        return type(self)(
            parts,
            self.schema_,
            structured_output_kwargs=self.structured_output_kwargs,
            template_format=self.template_format,
            partial_variables=self.partial_variables if partial_variables is None else partial_variables,
            name=self.name,
        )

    def pipe(self, *others: Any, name: str | None = None) -> Any:
        """`self | other | ...`: the first of the others is asked for an answer in the shape of the schema."""
        if not others:
            return super().pipe(name=name)
        return super().pipe(self._asked(others[0]), *others[1:], name=name)

    def __or__(self, other: Any) -> Any:
        return super().__or__(self._asked(other))

    def _asked(self, model: Any) -> Runnable[Any, Any]:
        ask = getattr(model, "with_structured_output", None)
        if ask is None:
            raise InvalidInput(
                f"{model!r:.200} cannot be asked for an answer in a shape: it has no with_structured_output.",
                hint="Put a chat model directly behind a StructuredPrompt.",
            )
        return ask(self.schema_, **self.structured_output_kwargs)  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and getattr(other, "schema_", None) == self.schema_

    __hash__ = ChatPromptTemplate.__hash__

    def __repr__(self) -> str:
        called = getattr(self.schema_, "__name__", None) or repr(self.schema_)
        conversation = super().__repr__().removeprefix("ChatPromptTemplate(").removesuffix(")")
        return f"StructuredPrompt({conversation}, schema_={called})"
