"""`ChatPromptTemplate`: a prompt that is a conversation with blanks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self, cast, overload

from runwell.errors import InvalidInput, nearest
from runwell.messages.message import BaseMessage, with_id
from runwell.prompts.formats import PromptTemplateFormat, compile_template
from runwell.prompts.message import (
    AIMessagePromptTemplate,
    BaseMessagePromptTemplate,
    HumanMessagePromptTemplate,
    MessagesPlaceholder,
    SystemMessagePromptTemplate,
)
from runwell.prompts.prompt import BasePromptTemplate
from runwell.prompts.prompt_template import StringPromptTemplate
from runwell.prompts.prompt_value import ChatPromptValue

__all__ = ["BaseChatPromptTemplate", "ChatPromptTemplate"]

_ROLES: Mapping[str, type[Any]] = {
    "human": HumanMessagePromptTemplate,
    "user": HumanMessagePromptTemplate,
    "ai": AIMessagePromptTemplate,
    "assistant": AIMessagePromptTemplate,
    "system": SystemMessagePromptTemplate,
    "developer": SystemMessagePromptTemplate,
}


class BaseChatPromptTemplate(BasePromptTemplate):
    """A prompt that fills to messages: a subclass implements `_messages` (and `_names`)."""

    def format_messages(self, **values: Any) -> list[BaseMessage]:
        """The messages. Raises `InvalidInput` that lists every missing variable."""
        return self._messages(self._complete(values))

    async def aformat_messages(self, **values: Any) -> list[BaseMessage]:
        """As `format_messages`."""
        return await self._amessages(self._complete(values))

    def format(self, **values: Any) -> str:
        """The conversation as one text (see `ChatPromptValue.to_string`)."""
        return self.format_prompt(**values).to_string()

    def _messages(self, values: Mapping[str, Any]) -> list[BaseMessage]:
        raise NotImplementedError

    async def _amessages(self, values: Mapping[str, Any]) -> list[BaseMessage]:
        """`_messages` for prompts that do not say `never_blocks`."""
        return self._messages(values)

    def _fill(self, values: Mapping[str, Any]) -> ChatPromptValue:
        return ChatPromptValue(self._messages(values))

    async def _afill(self, values: Mapping[str, Any]) -> ChatPromptValue:
        return ChatPromptValue(await self._amessages(values))


class ChatPromptTemplate(BaseChatPromptTemplate):
    """A conversation with blanks.

        prompt = ChatPromptTemplate.from_messages([
            ("system", "You are a support agent for {product}."),
            MessagesPlaceholder("history"),
            ("human", "{input}"),
        ])
        prompt.invoke({"product": "Acme", "history": [], "input": "How do I reset it?"})

    An entry is a `(role, template)` pair, a string (a human message), a message template, a placeholder (also
    as `("placeholder", "{history}")`, which may be left out), another chat prompt, or a message, which is taken
    literally, braces included, and copied each time. The template of a pair may be a list of blocks
    (text, images) whose strings hold blanks.

    Every text is read here, once; faults raise `InvalidInput` that says where. `append` and `extend` change
    the prompt in place; everything else makes a new one.
    """

    def __init__(
        self,
        messages: Sequence[Any],
        *,
        template_format: PromptTemplateFormat = "f-string",
        partial_variables: Mapping[str, Any] | None = None,
        input_variables: Sequence[str] | None = None,
        optional_variables: Sequence[str] | None = None,
        name: str | None = None,
    ) -> None:
        self.name = name
        self.template_format = template_format
        self.partial_variables = dict(partial_variables or {})
        if isinstance(messages, (str, BaseMessage, BaseMessagePromptTemplate)) or not isinstance(messages, Sequence):
            raise InvalidInput(
                f"A chat prompt is made of a list of messages, not {messages!r:.200}.",
                hint="ChatPromptTemplate.from_messages([…]), or from_template(text) for one human message.",
            )
        if isinstance(messages, tuple) and _is_pair(messages):
            raise InvalidInput(
                f"A chat prompt is made of a list of messages, not of one message {messages!r:.200}.",
                hint="Put it in a list: ChatPromptTemplate.from_messages([(role, text)]).",
            )
        self._parts = tuple(_part(entry, template_format, position) for position, entry in enumerate(messages))
        self._read()
        if input_variables is not None:
            declared = {*input_variables, *(optional_variables or ())} - self.partial_variables.keys()
            found = {*self.input_variables, *self.optional_variables}
            if not set(self.input_variables) <= declared <= found:
                raise InvalidInput(
                    f"The messages have the variables {sorted(found)}, but input_variables says {sorted(declared)}.",
                    hint="Leave input_variables out; it is read from the messages.",
                )

    @classmethod
    def from_messages(cls, messages: Sequence[Any], template_format: PromptTemplateFormat = "f-string") -> Self:
        """A prompt from a list of entries (see the class)."""
        return cls(messages, template_format=template_format)

    @classmethod
    def from_template(cls, template: str, **kwargs: Any) -> Self:
        """A prompt of one human message."""
        template_format = kwargs.get("template_format", "f-string")
        return cls([HumanMessagePromptTemplate.from_template(template, template_format)], **kwargs)

    def _read(self) -> None:
        needed: dict[str, None] = {}
        optional: dict[str, None] = {}
        for part in self._parts:
            if isinstance(part, BaseMessagePromptTemplate):
                needed.update(dict.fromkeys(part.names))
                optional.update(dict.fromkeys(part.optional_names))
            elif isinstance(part, BaseChatPromptTemplate):
                needed.update(dict.fromkeys(name for name in part._names() if name not in part.partial_variables))
                optional.update(dict.fromkeys(part._optional()))
        self.never_blocks = all(isinstance(part, BaseMessage) or part.never_blocks for part in self._parts)
        self._needed = tuple(needed)
        self._maybe = tuple(name for name in optional if name not in needed)

    @property
    def messages(self) -> tuple[BaseMessage | BaseMessagePromptTemplate | BaseChatPromptTemplate, ...]:
        """The parts, in order. Use `append` and `extend` to add to them."""
        return self._parts

    def _names(self) -> tuple[str, ...]:
        return self._needed

    def _optional(self) -> tuple[str, ...]:
        return self._maybe

    def _messages(self, values: Mapping[str, Any]) -> list[BaseMessage]:
        messages: list[BaseMessage] = []
        for part in self._parts:
            if isinstance(part, BaseMessagePromptTemplate):
                part.add_to(messages, values)
            elif isinstance(part, BaseMessage):
                messages.append(with_id(part, cast(str, part.id)))  # a copy, the cheapest way
            else:
                messages.extend(part._messages(part._complete(values)))
        return messages

    async def _amessages(self, values: Mapping[str, Any]) -> list[BaseMessage]:
        messages: list[BaseMessage] = []
        for part in self._parts:
            if isinstance(part, BaseMessagePromptTemplate):
                await part.aadd_to(messages, values)
            elif isinstance(part, BaseMessage):
                messages.append(with_id(part, cast(str, part.id)))
            else:
                messages.extend(await part._amessages(part._complete(values)))
        return messages

    def _with_partial(self, partial_variables: dict[str, Any]) -> Self:
        return self._with_parts(self._parts, partial_variables)

    def _with_parts(self, parts: Sequence[Any], partial_variables: Mapping[str, Any] | None = None) -> Self:
        if partial_variables is None:
            partial_variables = self.partial_variables
        return type(self)(
            parts, template_format=self.template_format, partial_variables=partial_variables, name=self.name
        )

    def append(self, message: Any) -> None:
        """Add an entry at the end, in place."""
        self.extend([message])

    def extend(self, messages: Sequence[Any]) -> None:
        """Add entries at the end, in place. Nothing is added when one of them is at fault."""
        parts = [_part(entry, self.template_format, len(self._parts) + n) for n, entry in enumerate(messages)]
        self._parts = (*self._parts, *parts)
        self._read()

    def __add__(self, other: Any) -> ChatPromptTemplate:
        """Both conversations, one behind the other; `other` is a chat prompt, an entry, or a list of entries."""
        if isinstance(other, ChatPromptTemplate):
            for key, value in other.partial_variables.items():
                if key in self.partial_variables and self.partial_variables[key] != value:
                    raise InvalidInput(f"Both prompts set the variable {key!r} beforehand, to different values.")
            return self._with_parts(
                (*self._parts, *other._parts), {**self.partial_variables, **other.partial_variables}
            )
        if isinstance(other, list) or (isinstance(other, tuple) and not _is_pair(other)):
            parts = [_part(entry, self.template_format, len(self._parts) + n) for n, entry in enumerate(other)]
        else:
            parts = [_part(other, self.template_format, len(self._parts))]
        return self._with_parts((*self._parts, *parts))

    def __len__(self) -> int:
        return len(self._parts)

    def __bool__(self) -> bool:
        return True

    @overload
    def __getitem__(self, index: int) -> BaseMessage | BaseMessagePromptTemplate | BaseChatPromptTemplate: ...

    @overload
    def __getitem__(self, index: slice) -> ChatPromptTemplate: ...

    def __getitem__(self, index: int | slice) -> Any:
        return self._with_parts(self._parts[index]) if isinstance(index, slice) else self._parts[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parts)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in ("_needed", "_maybe")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._read()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ChatPromptTemplate)
            and type(other) is type(self)
            and other._parts == self._parts
            and other.partial_variables == self.partial_variables
        )

    def __hash__(self) -> int:
        return hash((self._needed, len(self._parts)))

    def __repr__(self) -> str:
        rest = f", partial_variables={self.partial_variables!r}" if self.partial_variables else ""
        return f"ChatPromptTemplate([{', '.join(_shown(part) for part in self._parts)}]{rest})"


def _is_pair(entry: tuple[Any, ...]) -> bool:
    return len(entry) == 2 and (isinstance(entry[0], type) or (isinstance(entry[0], str) and _is_role(entry[0])))


def _is_role(word: str) -> bool:
    return word in _ROLES or word == "placeholder"


def _part(entry: Any, template_format: PromptTemplateFormat, position: int) -> Any:
    """The part that an entry of a list of messages stands for."""
    if isinstance(entry, (BaseMessagePromptTemplate, BaseChatPromptTemplate, BaseMessage)):
        return entry
    if isinstance(entry, (str, StringPromptTemplate)):
        return _template("human", entry, template_format, position)
    if isinstance(entry, (tuple, list)) and len(entry) == 2:
        return _template(entry[0], entry[1], template_format, position)
    if isinstance(entry, Mapping) and entry.keys() == {"role", "content"}:
        return _template(entry["role"], entry["content"], template_format, position)
    raise InvalidInput(
        f"Entry {position} of the chat prompt is {entry!r:.200}, which is no message.",
        hint='Use a pair such as ("human", "text with {blanks}"), a string, a message object, or MessagesPlaceholder.',
    )


def _template(role: Any, template: Any, template_format: PromptTemplateFormat, position: int) -> Any:
    if role == "placeholder":
        return _placeholder(template, template_format, position)
    if isinstance(role, type):
        for made in (HumanMessagePromptTemplate, AIMessagePromptTemplate, SystemMessagePromptTemplate):
            if issubclass(role, made) or issubclass(role, made.message_class):
                role = made if not issubclass(role, made) else role
                break
    elif isinstance(role, str):
        role = _ROLES.get(role, role)
    if not isinstance(role, type) or not issubclass(role, BaseMessagePromptTemplate):
        known = (*_ROLES, "placeholder")
        raise InvalidInput(
            f"Entry {position} of the chat prompt has the role {role!r}{nearest(str(role), known) or '.'}",
            hint=f"Roles are {', '.join(known)}; for a role of your own use ChatMessagePromptTemplate, and for the "
            "result of a tool a ToolMessage.",
        )
    try:
        return role(template, template_format=template_format)  # type: ignore[call-arg]
    except InvalidInput as error:
        raise InvalidInput(f"In entry {position} of the chat prompt: {error.message}", hint=error.hint) from error


def _placeholder(template: Any, template_format: PromptTemplateFormat, position: int) -> MessagesPlaceholder:
    optional: Any = True
    if isinstance(template, (list, tuple)) and len(template) == 2:
        template, optional = template
    if isinstance(template, str) and isinstance(optional, bool):
        compiled = compile_template(template, template_format)
        if len(compiled.names) == 1 and template.strip().strip("{}").strip() == compiled.names[0]:
            return MessagesPlaceholder(compiled.names[0], optional=optional)
    raise InvalidInput(
        f"Entry {position} of the chat prompt is a placeholder for {template!r}, which is not one variable in braces.",
        hint='Write ("placeholder", "{history}"), or MessagesPlaceholder("history").',
    )


def _shown(part: Any) -> str:
    """An entry as it would be written in the list."""
    for role in ("human", "ai", "system"):
        if type(part) is _ROLES[role] and not part.additional_kwargs:
            prompt = part.prompt
            if hasattr(prompt, "blocks"):
                return f"({role!r}, {prompt.blocks!r})"
            if getattr(prompt, "template_format", "") == "f-string" and not prompt.partial_variables:
                return f"({role!r}, {prompt.template!r})"
    return repr(part)
