"""The kinds of message, and what every message can do.

Messages are plain slotted values: cheap to make, equal when their fields are equal. Treat one as fixed once it is in
a history; `model_copy(update=...)` gives a changed one. They are checked when built, so a malformed message raises
where it is written, not at a provider.
"""

from __future__ import annotations

import os
from _thread import RLock
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, cast

from runwell.errors import InvalidInput
from runwell.messages.calls import InvalidToolCall, ToolCall, checked_calls, checked_invalid_calls, split_calls

if TYPE_CHECKING:
    from typing import Self

    from runwell.messages.blocks import ContentBlock
    from runwell.messages.usage import UsageMetadata

__all__ = [
    "REMOVE_ALL_MESSAGES",
    "AIMessage",
    "BaseMessage",
    "ChatMessage",
    "Content",
    "FunctionMessage",
    "HumanMessage",
    "RemoveMessage",
    "SystemMessage",
    "ToolMessage",
    "new_id",
    "with_id",
]

Content: TypeAlias = "str | list[str | dict[str, Any]]"
"""What a message says: text, or a list of texts and content blocks (dicts with a `type`)."""
GivenContent: TypeAlias = "str | Sequence[str | Mapping[str, Any]] | None"

REMOVE_ALL_MESSAGES = "__remove_all__"
"""As the id of a `RemoveMessage`: forget every message before it."""


def new_id() -> str:
    """A fresh message id."""
    return os.urandom(16).hex()


def checked_content(content: GivenContent, blocks: GivenContent, owner: type) -> Content:
    """The content as a text or a new list; raises `InvalidInput` for anything else."""
    if content is None:
        content = blocks
    elif blocks is not None:
        raise InvalidInput(f"{owner.__name__} got both content and content_blocks.", hint="Give one of them.")
    if isinstance(content, str):
        return content
    if isinstance(content, (list, tuple)):
        for item in content:
            if not isinstance(item, (str, dict)):
                raise InvalidInput(
                    f"{owner.__name__} content may hold texts and content blocks (dicts), got {item!r:.200}.",
                    hint="Use str(...) or json.dumps(...) for other values.",
                )
        return cast("Content", list(content))
    if content is None:
        raise InvalidInput(f"{owner.__name__} needs content.", hint=f'{owner.__name__}("...")')
    raise InvalidInput(
        f"{owner.__name__} content must be a text or a list of content blocks, got {content!r:.200}.",
        hint="Use str(...) or json.dumps(...) for other values.",
    )


@dataclass(slots=True, init=False, repr=False, eq=False)
class BaseMessage:
    """What all messages have.

    `content` is a text, or a list of texts and content blocks. `id` names the message in a history; None until it is in
    one. `name` is the speaker's, where a provider supports it. `additional_kwargs` holds what a provider adds beyond
    the standard fields, `response_metadata` facts about the response (model, finish reason, ...).
    """

    type: ClassVar[str] = "base"
    adds_up: ClassVar[bool] = False
    """Whether several of them are pieces of one, which `+` makes."""
    _fields: ClassVar[tuple[str, ...]] = ("content", "id", "name", "additional_kwargs", "response_metadata")

    content: Content
    id: str | None = None
    name: str | None = None
    additional_kwargs: dict[str, Any] = field(default_factory=dict)
    response_metadata: dict[str, Any] = field(default_factory=dict)
    # The two dicts are made when they are first read: nearly every message of a history is without. These, the slots
    # that hold them, are None until then. Code that only looks reads these, so that looking makes nothing.
    _rest: ClassVar[Any] = attrgetter("id")
    """Reads the fields that a class adds, to compare: in a tuple what is the same object is equal, whatever it is."""
    if TYPE_CHECKING:
        _kwargs: dict[str, Any] | None = None
        _facts: dict[str, Any] | None = None

    def __init__(
        self,
        content: GivenContent = None,
        *,
        content_blocks: GivenContent = None,
        id: str | None = None,
        name: str | None = None,
        additional_kwargs: dict[str, Any] | None = None,
        response_metadata: dict[str, Any] | None = None,
    ) -> None:
        # here and below: the common case, a text, must not cost a call
        if type(content) is str:
            self.content = content
        else:
            self.content = checked_content(content, content_blocks, self.__class__)
        self.id = id
        self.name = name
        self._kwargs = additional_kwargs
        self._facts = response_metadata

    def __init_subclass__(cls, **options: Any) -> None:
        super(BaseMessage, cls).__init_subclass__(**options)  # `slots=True` made this class anew
        cls._rest = attrgetter("id", *cls._fields[5:])

    def __add__(self, other: Any) -> Any:
        """A chat prompt of this message, as it is, and `other`: a message, a template, a chat prompt or a list."""
        from importlib import import_module

        prompts: Any = import_module("runwell.prompts.chat")  # a room above, which nothing here may import by name
        return prompts.ChatPromptTemplate([self]) + other

    @property
    def text(self) -> str:
        """The text of the message: its content, or its text blocks joined. Empty when there is none."""
        content = self.content
        if isinstance(content, str):
            return content
        return "".join(item if isinstance(item, str) else _text_of(item) for item in content)

    @property
    def content_blocks(self) -> list[ContentBlock]:
        """The content as standard blocks, whatever provider's form it has; tool calls included. Never raises.

        What has no standard form becomes a `non_standard` block that holds it whole.
        """
        from runwell.messages.normal import blocks_of

        return blocks_of(self)

    def model_dump(
        self,
        *,
        mode: Literal["python", "json"] = "python",
        exclude_none: bool = False,
        exclude_defaults: bool = False,
    ) -> dict[str, Any]:
        """The message as a new dict with its `type`. `mode="json"` turns every value into what JSON has.

        Containers are copied; other values (an artifact) are the same objects in mode "python".
        """
        from runwell.messages.jsonform import dump

        return dump(self, mode, exclude_none=exclude_none, exclude_defaults=exclude_defaults)

    def model_dump_json(self, *, indent: int | None = None, exclude_none: bool = False) -> str:
        """The message as JSON text; non-ASCII characters stand as they are."""
        from runwell.messages.jsonform import dump_json

        return dump_json(self, indent=indent, exclude_none=exclude_none)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy, with some fields changed. Containers are shared unless `deep`. The changes are checked."""
        from runwell.messages.jsonform import copied

        return copied(self, update, deep)

    @classmethod
    def model_validate(cls, value: Any) -> Self:
        """A message of this class from one, or from a dict (either of `model_dump` or with a `role`), tuple or text."""
        from runwell.messages.jsonform import validated

        return validated(cls, value)

    @classmethod
    def model_validate_json(cls, text: str | bytes) -> Self:
        """A message of this class from what `model_dump_json` wrote."""
        from runwell.messages.jsonform import validated_json

        return validated_json(cls, text)

    def pretty_repr(self, html: bool = False) -> str:
        """The message for a reader: a heading, the text, and any tool calls."""
        from runwell.messages.transcript import pretty

        return pretty(self, html)

    def pretty_print(self) -> None:
        """Print `pretty_repr()`."""
        print(self.pretty_repr())  # noqa: T201 - printing is what it is for

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        assert isinstance(other, BaseMessage)
        if (self.content, self.id, self.name) != (other.content, other.id, other.name):
            return False
        if (self._kwargs or other._kwargs) and self.additional_kwargs != other.additional_kwargs:
            return False
        if (self._facts or other._facts) and self.response_metadata != other.response_metadata:
            return False
        return bool(self._rest(self) == self._rest(other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown_fields(self))})"

    def __rich_repr__(self) -> Iterable[tuple[str, Any]]:
        """Its fields, media data shortened: a picture would fill the screen."""
        return [(name, _shortened(value)) for name, value in shown_fields(self)]

    def _repr_html_(self) -> str:
        return self.pretty_repr(html=True)

    @classmethod
    def _plain(cls, text: str, id: str | None) -> Self:
        """`cls(text, id=id)` in half the time, for reading long histories; not of classes that ask for more."""
        message = object.__new__(cls)
        message.content, message.id, message.name = text, id, None
        message._kwargs = message._facts = None
        return message

    def _twin(self) -> Self:
        """A message of the same fields, without running a constructor."""
        twin = object.__new__(self.__class__)
        twin.content, twin.id, twin.name = self.content, self.id, self.name
        twin._kwargs, twin._facts = self._kwargs, self._facts
        for name in self._fields[5:]:
            setattr(twin, name, getattr(self, name))
        return twin

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from runwell.messages.jsonform import core_schema_of

        return core_schema_of(cls, handler)


_making = RLock()  # not a plain lock: a signal's handler may come in between and read a message too
if hasattr(os, "register_at_fork"):  # a forked child may have it as another thread of the parent held it
    os.register_at_fork(after_in_child=_making._at_fork_reinit)  # type: ignore[attr-defined]


def _made_late(name: str, slot: str, doc: str) -> None:
    """Make the field `name` of messages a dict that is made when it is first read; its slot is reached as `slot`."""
    held = BaseMessage.__dict__[name]

    def get(self: BaseMessage) -> dict[str, Any]:
        value: dict[str, Any] | None = held.__get__(self)
        if value is None:
            with _making:  # two threads that read at the same moment get the same dict
                value = held.__get__(self)
                if value is None:
                    value = {}
                    held.__set__(self, value)
        return value

    setattr(BaseMessage, slot, held)
    setattr(BaseMessage, name, property(get, held.__set__, doc=doc))


_made_late("additional_kwargs", "_kwargs", "What the provider adds.")
_made_late("response_metadata", "_facts", "Facts about the response.")


def _text_of(block: Mapping[str, Any]) -> str:
    text = block.get("text") if block.get("type", "text") in _TEXT_TYPES else None
    return text if isinstance(text, str) else ""


_TEXT_TYPES = frozenset({"text", "input_text", "output_text"})


def shown_fields(message: BaseMessage) -> list[tuple[str, Any]]:
    """Content and every field that is not at its default: what a reader wants to see."""
    shown: list[tuple[str, Any]] = []
    for name in message._fields:
        value = getattr(message, name)
        usual = value is None or value == [] or value == {} or (name == "status" and value == "success")
        if name == "content" or not usual:
            shown.append((name, value))
    return shown


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) < 1000 or " " in value[:1000] else f"{value[:60]}... ({len(value):,} characters)"
    if isinstance(value, dict):
        return {key: _shortened(each) for key, each in value.items()}
    return [_shortened(each) for each in value] if isinstance(value, list) else value


def with_id(message: BaseMessage, id: str) -> BaseMessage:
    """A copy of the message under another id; everything else is shared."""
    new = message._twin()
    if hasattr(message, "__dict__"):  # a user's subclass
        new.__dict__.update(message.__dict__)
    new.id = id
    return new


@dataclass(slots=True, init=False, repr=False, eq=False)
class HumanMessage(BaseMessage):
    """What a person says to the model."""

    type: ClassVar[str] = "human"


@dataclass(slots=True, init=False, repr=False, eq=False)
class SystemMessage(BaseMessage):
    """Standing instructions to the model."""

    type: ClassVar[str] = "system"


@dataclass(slots=True, init=False, repr=False, eq=False)
class AIMessage(BaseMessage):
    """What a model says.

    `tool_calls` are the calls it wants made, `invalid_tool_calls` those whose arguments are broken. `usage_metadata` is
    what the call took, in tokens, or None when the provider did not say. Calls that stand as blocks in `content` are
    put in `tool_calls` too, unless those are given.
    """

    type: ClassVar[str] = "ai"
    _fields: ClassVar[tuple[str, ...]] = (
        *BaseMessage._fields,
        "tool_calls",
        "invalid_tool_calls",
        "usage_metadata",
    )

    tool_calls: list[ToolCall] = field(default_factory=list)
    invalid_tool_calls: list[InvalidToolCall] = field(default_factory=list)
    usage_metadata: UsageMetadata | None = None

    def __init__(
        self,
        content: GivenContent = None,
        *,
        content_blocks: GivenContent = None,
        id: str | None = None,
        name: str | None = None,
        additional_kwargs: dict[str, Any] | None = None,
        response_metadata: dict[str, Any] | None = None,
        tool_calls: Iterable[ToolCall | Mapping[str, Any]] | None = None,
        invalid_tool_calls: Iterable[InvalidToolCall | Mapping[str, Any]] | None = None,
        usage_metadata: UsageMetadata | None = None,
    ) -> None:
        if type(content) is str:
            self.content = content
        elif content is None and content_blocks is None:
            self.content = ""
        else:
            self.content = checked_content(content, content_blocks, self.__class__)
            if tool_calls is None or invalid_tool_calls is None:
                whole, broken = split_calls(calls_in_blocks(self.content))
                tool_calls = whole if tool_calls is None else tool_calls
                invalid_tool_calls = broken if invalid_tool_calls is None else invalid_tool_calls
        self.id = id
        self.name = name
        self._kwargs = additional_kwargs
        self._facts = response_metadata
        self.tool_calls = checked_calls(tool_calls) if tool_calls else []
        self.invalid_tool_calls = checked_invalid_calls(invalid_tool_calls) if invalid_tool_calls else []
        self.usage_metadata = usage_metadata

    @classmethod
    def _plain(cls, text: str, id: str | None) -> Self:
        message = object.__new__(cls)
        message.content, message.id, message.name = text, id, None
        message._kwargs = message._facts = message.usage_metadata = None
        message.tool_calls, message.invalid_tool_calls = [], []
        return message

    @property
    def cost(self) -> float | None:
        """What the call behind it cost, in US dollars, worked out when read; None when the model's price, or what it
        took, is not known. Needs the extra `prices`: see `runwell.models.price_of` and `price_table`."""
        from importlib import import_module

        cost: float | None = import_module("runwell.models.prices").cost_of(self)  # a room above, not to import by name
        return cost


def calls_in_blocks(content: Content) -> list[Mapping[str, Any]]:
    """The calls that stand as blocks in a content, whole (also as `tool_use`) and broken, in the order written."""
    calls: list[Mapping[str, Any]] = []
    for block in content:
        if isinstance(block, dict):
            kind = block.get("type")
            if kind == "tool_call":
                calls.append({"name": block.get("name"), "args": block.get("args"), "id": block.get("id")})
            elif kind == "tool_use" and isinstance(block.get("input"), dict):
                calls.append({"name": block.get("name"), "args": block["input"], "id": block.get("id")})
            elif kind == "invalid_tool_call":
                calls.append({key: block.get(key) for key in ("name", "args", "id", "error")} | {"type": kind})
    return calls


@dataclass(slots=True, init=False, repr=False, eq=False)
class ToolMessage(BaseMessage):
    """The result of a tool call.

    `tool_call_id` is the id of the call it answers. `artifact` is for the program and never sent to the model. `status`
    is "error" when the tool failed.
    """

    type: ClassVar[str] = "tool"
    _fields: ClassVar[tuple[str, ...]] = (*BaseMessage._fields, "tool_call_id", "artifact", "status")

    tool_call_id: str = ""
    artifact: Any = None
    status: Literal["success", "error"] = "success"

    def __init__(
        self,
        content: GivenContent = None,
        tool_call_id: str | None = None,
        *,
        content_blocks: GivenContent = None,
        artifact: Any = None,
        status: Literal["success", "error"] = "success",
        id: str | None = None,
        name: str | None = None,
        additional_kwargs: dict[str, Any] | None = None,
        response_metadata: dict[str, Any] | None = None,
    ) -> None:
        if type(tool_call_id) is not str:
            raise InvalidInput(
                f"{type(self).__name__} needs the id of the call it answers, got tool_call_id={tool_call_id!r:.200}.",
                hint="tool_call_id=call['id']",
            )
        if status != "success" and status != "error":
            raise InvalidInput(f"{type(self).__name__} status is 'success' or 'error', got {status!r:.200}.")
        if type(content) is str:
            self.content = content
        else:
            self.content = checked_content(content, content_blocks, self.__class__)
        self.tool_call_id = tool_call_id
        self.artifact = artifact
        self.status = status
        self.id = id
        self.name = name
        self._kwargs = additional_kwargs
        self._facts = response_metadata

    @classmethod
    def _answering(cls, text: str, tool_call_id: str, name: str | None, artifact: Any) -> Self:
        """The usual answer of a tool, without the dict that Python makes of keywords for a class."""
        message = object.__new__(cls)
        message.content, message.tool_call_id, message.name, message.artifact = text, tool_call_id, name, artifact
        message.status = "success"
        message.id = message._kwargs = message._facts = None
        return message


@dataclass(slots=True, init=False, repr=False, eq=False)
class ChatMessage(BaseMessage):
    """A message in a role that no other class has. `role` is sent to the provider as it is."""

    type: ClassVar[str] = "chat"
    _fields: ClassVar[tuple[str, ...]] = (*BaseMessage._fields, "role")

    role: str = ""

    def __init__(self, content: GivenContent = None, role: str | None = None, **fields: Any) -> None:
        if not isinstance(role, str) or not role:
            raise InvalidInput(f"{type(self).__name__} needs a role, got {role!r:.200}.")
        BaseMessage.__init__(self, content, **fields)
        self.role = role


@dataclass(slots=True, init=False, repr=False, eq=False)
class FunctionMessage(BaseMessage):
    """The result of a function in the form that providers had before tool calls. `name` is the function's."""

    type: ClassVar[str] = "function"

    def __init__(self, content: GivenContent = None, name: str | None = None, **fields: Any) -> None:
        if not isinstance(name, str) or not name:
            raise InvalidInput(f"{type(self).__name__} needs the function's name, got {name!r:.200}.")
        BaseMessage.__init__(self, content, name=name, **fields)


@dataclass(slots=True, init=False, repr=False, eq=False)
class RemoveMessage(BaseMessage):
    """In an update to a history: forget the message with this id, or with `REMOVE_ALL_MESSAGES` every one before."""

    type: ClassVar[str] = "remove"
    _fields: ClassVar[tuple[str, ...]] = ("id",)

    def __init__(self, id: str) -> None:
        if type(id) is not str or not id:
            raise InvalidInput(f"RemoveMessage needs the id of a message, got {id!r:.200}.")
        self.content = ""
        self.id = id
        self.name = None
        self._kwargs = None
        self._facts = None
