"""Templates for one message, and the place where a conversation goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from runwell.errors import InvalidInput
from runwell.messages.message import AIMessage, BaseMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage
from runwell.prompts.content import ContentTemplate
from runwell.prompts.formats import PromptTemplateFormat
from runwell.prompts.prompt_template import PromptTemplate, StringPromptTemplate
from runwell.prompts.template import require

__all__ = [
    "AIMessagePromptTemplate",
    "BaseMessagePromptTemplate",
    "ChatMessagePromptTemplate",
    "HumanMessagePromptTemplate",
    "MessagesPlaceholder",
    "SystemMessagePromptTemplate",
]


class BaseMessagePromptTemplate:
    """A part of a chat prompt that becomes messages. A subclass implements `names` and `add_to`."""

    names: tuple[str, ...] = ()
    """Every variable that must have a value."""
    optional_names: tuple[str, ...] = ()
    """Every variable that may be left out."""
    never_blocks: bool = True
    """Filling it only computes; otherwise `aadd_to` is used where the prompt is filled with await."""

    @property
    def input_variables(self) -> list[str]:
        """The variables a caller has to give, sorted."""
        return sorted(self.names)

    def add_to(self, messages: list[BaseMessage], values: Mapping[str, Any]) -> None:
        """Append this part's messages, filled from `values`."""
        raise NotImplementedError

    async def aadd_to(self, messages: list[BaseMessage], values: Mapping[str, Any]) -> None:
        """As `add_to`."""
        self.add_to(messages, values)

    def format_messages(self, **values: Any) -> list[BaseMessage]:
        """The messages. Raises `InvalidInput` that lists every missing variable."""
        require(self.names, values)
        messages: list[BaseMessage] = []
        self.add_to(messages, values)
        return messages

    async def aformat_messages(self, **values: Any) -> list[BaseMessage]:
        """As `format_messages`."""
        require(self.names, values)
        messages: list[BaseMessage] = []
        await self.aadd_to(messages, values)
        return messages

    def __add__(self, other: Any) -> Any:
        """A chat prompt of this part and `other`."""
        from runwell.prompts.chat import ChatPromptTemplate  # which is made of these parts

        return ChatPromptTemplate([self]) + other


class MessagesPlaceholder(BaseMessagePromptTemplate):
    """The place where a list of messages goes: a conversation so far, or an agent's steps.

    With `n_messages` only the last so many, without tool results whose call is cut off (no model accepts
    those). Left out when `optional` and no value is given. Messages are passed on as they are.
    """

    def __init__(self, variable_name: str, *, optional: bool = False, n_messages: int | None = None) -> None:
        if not str(variable_name).isidentifier():
            raise InvalidInput(
                f"A placeholder needs the name of a variable, not {variable_name!r}.",
                hint='MessagesPlaceholder("history"), or ("placeholder", "{history}") in a list of messages.',
            )
        if n_messages is not None and n_messages < 1:
            raise InvalidInput(f"n_messages is at least 1, not {n_messages!r}.")
        self.variable_name = variable_name
        self.optional = optional
        self.n_messages = n_messages
        if optional:
            self.optional_names = (variable_name,)
        else:
            self.names = (variable_name,)

    def add_to(self, messages: list[BaseMessage], values: Mapping[str, Any]) -> None:
        try:
            given = values[self.variable_name]
        except KeyError:
            if self.optional:
                return
            raise
        if isinstance(given, (str, BaseMessage, Mapping)) or not isinstance(given, Sequence):
            raise InvalidInput(
                f"The placeholder {self.variable_name!r} takes a list of messages, not {given!r:.200}.",
                hint=f"Give {self.variable_name}=[message, …].",
            )
        count = self.n_messages
        if count is not None:
            given = given[-count:]
        for message in given:
            if not isinstance(message, BaseMessage):
                given = _converted(self.variable_name, given)
                break
        if count is not None:
            start = 0
            while start < len(given) and isinstance(given[start], ToolMessage):
                start += 1
            given = given[start:]
        messages.extend(given)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MessagesPlaceholder) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(self.variable_name)

    def __repr__(self) -> str:
        rest = ", optional=True" if self.optional else ""
        if self.n_messages is not None:
            rest += f", n_messages={self.n_messages}"
        return f"MessagesPlaceholder({self.variable_name!r}{rest})"


class RoleMessagePromptTemplate(BaseMessagePromptTemplate):
    """One message of a fixed role, its content a text or a list of blocks with blanks."""

    message_class: ClassVar[type[BaseMessage]] = BaseMessage
    _render: Callable[[Mapping[str, Any]], Any]

    def __init__(
        self,
        prompt: StringPromptTemplate | ContentTemplate | str | Sequence[Any],
        *,
        additional_kwargs: Mapping[str, Any] | None = None,
        template_format: PromptTemplateFormat = "f-string",
    ) -> None:
        if isinstance(prompt, str):
            prompt = PromptTemplate(prompt, template_format=template_format)
        elif not isinstance(prompt, (StringPromptTemplate, ContentTemplate)):
            if isinstance(prompt, Mapping) or not isinstance(prompt, Sequence):
                raise InvalidInput(f"The content of a message is a text or a list of blocks, not {prompt!r:.200}.")
            prompt = ContentTemplate(prompt, template_format)
        self.prompt = prompt
        self.additional_kwargs = dict(additional_kwargs or {})
        self._prepare()

    def _prepare(self) -> None:
        prompt = self.prompt
        if isinstance(prompt, ContentTemplate):
            self.names = prompt.names
            self._render = prompt.fill
        else:
            partial = prompt.partial_variables
            self.never_blocks = prompt.never_blocks
            self.names = tuple(name for name in prompt._names() if name not in partial)
            self._render = (lambda values: prompt._text(prompt._complete(values))) if partial else prompt._text

    def __getstate__(self) -> dict[str, Any]:
        return {"prompt": self.prompt, "additional_kwargs": self.additional_kwargs, **self._extra()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def _extra(self) -> dict[str, Any]:
        """What a message of this role has besides its content."""
        return {}

    @classmethod
    def from_template(
        cls,
        template: str | Sequence[Any],
        template_format: PromptTemplateFormat = "f-string",
        *,
        partial_variables: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Self:
        """A message from a text, or a list of blocks, with blanks. Raises `InvalidInput` for faults in it."""
        if not isinstance(template, str):
            if partial_variables:
                raise InvalidInput(
                    "partial_variables does not go with a list of blocks.", hint="Use .partial(...) of the chat prompt."
                )
            return cls(ContentTemplate(template, template_format), **kwargs)
        prompt = PromptTemplate(template, template_format=template_format, partial_variables=partial_variables)
        return cls(prompt, **kwargs)

    @classmethod
    def from_template_file(
        cls, template_file: str | Path, input_variables: Sequence[str] | None = None, **kwargs: Any
    ) -> Self:
        """A message whose text, with blanks, stands in a file. Raises OSError when it cannot be read."""
        return cls(PromptTemplate.from_file(template_file, input_variables=input_variables), **kwargs)

    def format(self, **values: Any) -> BaseMessage:
        """The message. Raises `InvalidInput` that lists every missing variable."""
        return self.format_messages(**values)[0]

    def add_to(self, messages: list[BaseMessage], values: Mapping[str, Any]) -> None:
        messages.append(self._message(self._render(values)))

    async def aadd_to(self, messages: list[BaseMessage], values: Mapping[str, Any]) -> None:
        prompt = self.prompt
        if isinstance(prompt, ContentTemplate):
            self.add_to(messages, values)
        else:
            messages.append(self._message(await prompt._atext(prompt._complete(values))))

    def _message(self, content: Any) -> BaseMessage:
        extra = self.additional_kwargs
        return self.message_class(content, additional_kwargs=dict(extra)) if extra else self.message_class(content)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and repr(other) == repr(self)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.prompt!r})"


class HumanMessagePromptTemplate(RoleMessagePromptTemplate):
    """A message from the user, with blanks."""

    message_class = HumanMessage


class AIMessagePromptTemplate(RoleMessagePromptTemplate):
    """A message from the model, with blanks."""

    message_class = AIMessage


class SystemMessagePromptTemplate(RoleMessagePromptTemplate):
    """A message with standing instructions, with blanks."""

    message_class = SystemMessage


class ChatMessagePromptTemplate(RoleMessagePromptTemplate):
    """A message of a role of your own, with blanks."""

    message_class = ChatMessage

    def __init__(self, prompt: Any, *, role: str, **kwargs: Any) -> None:
        self.role = role
        super().__init__(prompt, **kwargs)

    def _extra(self) -> dict[str, Any]:
        return {"role": self.role}

    def _message(self, content: Any) -> BaseMessage:
        return ChatMessage(content, role=self.role, additional_kwargs=dict(self.additional_kwargs))

    def __repr__(self) -> str:
        return f"ChatMessagePromptTemplate({self.prompt!r}, role={self.role!r})"


def _converted(name: str, given: Sequence[Any]) -> list[BaseMessage]:
    from runwell.messages.convert import convert_to_messages

    try:
        return convert_to_messages(given)
    except InvalidInput as error:
        raise InvalidInput(f"The placeholder {name!r} takes messages. {error.message}", hint=error.hint) from error
