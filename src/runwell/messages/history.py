"""Adding to a history of messages: the reducer of every `messages` state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, TypeVar, cast

from runwell.errors import InvalidInput
from runwell.messages.chunks import BaseMessageChunk
from runwell.messages.convert import KNOWN, convert_to_messages
from runwell.messages.message import (
    REMOVE_ALL_MESSAGES,
    BaseMessage,
    RemoveMessage,
    new_id,
    with_id,
)

__all__ = ["REMOVE_ALL_MESSAGES", "MessageList", "add_messages", "fresh_reply_id"]

M = TypeVar("M", bound=BaseMessage)


class MessageList(list[BaseMessage]):
    """A list of messages that all have ids, and knows them, so that adding one need not look at the rest.

    It is a list in every way. Changing it in place makes it forget what it knows, nothing more.
    """

    __slots__ = ("left", "places")

    # id -> place, or None when not known. Lists that grew from one another share it while they agree. An entry may
    # be of another list only, so a place found must be checked
    places: dict[str, int] | None
    left: MessageList | None
    """What it was made of by appending alone: so many messages at its front are the same objects. Only the newest of
    several that grew from one another knows, or none of them would ever go."""

    def __init__(self, messages: Iterable[BaseMessage] = (), places: dict[str, int] | None = None) -> None:
        list.__init__(self, messages)
        self.places = places
        self.left = None

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)

    def place_of(self, id: str) -> int | None:
        """Where the message with this id is, or None."""
        if self.places is None:
            return next((place for place, message in enumerate(self) if message.id == id), None)
        place = self.places.get(id)
        return place if place is not None and place < len(self) and self[place].id == id else None

    def put(self, message: BaseMessage) -> None:
        """Append a message, or put it in place of the one with its id; of one without an id a copy under a fresh one.

        For a list that knows its places.
        """
        place, name = len(self), message.id
        if name is None:
            message = with_id(message, new_id())
            name = cast("str", message.id)
        known = self.places.setdefault(name, place)  # type: ignore[union-attr]
        if known != place:
            if known < place and self[known].id == name:
                list.__setitem__(self, known, message)  # ours would forget, here and below
                return
            self.places = _places(self)  # another branch has the id elsewhere: ours must know its own
            self.places[name] = place
        list.append(self, message)


def _forgetful(name: str) -> Callable[..., Any]:
    change = getattr(list, name)

    def method(self: MessageList, *args: Any, **kwargs: Any) -> Any:
        self.places = self.left = None
        return change(self, *args, **kwargs)

    return method


_CHANGES = ("append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort")
for _name in (*_CHANGES, "__delitem__", "__iadd__", "__imul__", "__setitem__"):
    setattr(MessageList, _name, _forgetful(_name))


def add_messages(left: Any, right: Any) -> list[BaseMessage]:
    """The history `left` with `right` applied in order; a new list.

    A message is appended, or put in place of the one with the same id. A `RemoveMessage` takes the message with its
    id out (an id that is absent raises `InvalidInput`), or everything before it with `REMOVE_ALL_MESSAGES`. Both
    sides take what `convert_to_messages` takes; chunks become whole messages.

    Messages are never changed: one without an id is copied under a fresh one, all others are the same objects.
    Appending costs O(new) plus the copy of a list of references.
    """
    known = type(left) is MessageList and left.places is not None
    if type(right) is list and _WHOLE.issuperset(map(type, right)):  # nothing to take out, no chunk: as almost always
        result = _grown(left) if known else _adopted(left)
        for message in right:
            result.put(message)
        if known:
            left.left = None
            if len(result) == len(left) + len(right):  # none took the place of another
                result.left = left
        return result
    added = convert_to_messages(right)
    for number in range(len(added) - 1, -1, -1):
        if added[number].id == REMOVE_ALL_MESSAGES and isinstance(added[number], RemoveMessage):
            added, left, known = added[number + 1 :], (), False
            break
    result = MessageList(left, left.places) if known else _adopted(left)
    for message in added:
        if isinstance(message, RemoveMessage):
            place = result.place_of(cast("str", message.id))
            if place is None:
                raise InvalidInput(
                    f"RemoveMessage: no message with id {message.id!r} is in the history of {len(result)} messages.",
                    hint="Remove only ids that are there; RemoveMessage(id=REMOVE_ALL_MESSAGES) clears everything.",
                )
            del result[place]
            result.places = _places(result)
            continue
        if isinstance(message, BaseMessageChunk):
            message = message.to_message()
        result.put(message)
    return result


def _grown(left: MessageList) -> MessageList:
    """`MessageList(left, left.places)` for less: one is made in every step, and this calls no Python."""
    result: MessageList = _new(MessageList)
    _extend(result, left)
    result.places, result.left = left.places, None
    return result


_new: Callable[[type], Any] = list.__new__
_extend = list.extend
_WHOLE = frozenset(cls for cls in KNOWN if not issubclass(cls, (BaseMessageChunk, RemoveMessage)))


def _adopted(messages: Any) -> MessageList:
    """A list from anywhere, with the missing ids given."""
    given = convert_to_messages(() if messages is None else messages)
    if _WHOLE.issuperset(map(type, given)):
        places = _places(given)
        if None not in places:  # a history that was stored, by far the most common
            return MessageList(given, places)
    result = MessageList()
    for message in given:
        if isinstance(message, RemoveMessage):
            raise InvalidInput(
                f"A history cannot hold a RemoveMessage (id {message.id!r}).",
                hint="RemoveMessage belongs in an update, the right side of add_messages.",
            )
        if isinstance(message, BaseMessageChunk):
            message = message.to_message()
        list.append(result, message if message.id is not None else with_id(message, new_id()))
    result.places = _places(result)
    return result


_id_of: Callable[[BaseMessage], Any] = attrgetter("id")


def _places(messages: list[BaseMessage]) -> dict[str, int]:
    return dict(zip(map(_id_of, messages), range(len(messages)), strict=True))


def fresh_reply_id(messages: Iterable[BaseMessage], reply: M) -> M:
    """The model's reply, under a fresh id if a message of the history has its id already, else as it is.

    Without this a provider that reuses ids would overwrite an earlier turn.
    """
    if reply.id is None:
        return reply
    if type(messages) is MessageList:
        taken = messages.place_of(reply.id) is not None
    else:
        taken = any(message.id == reply.id for message in messages)
    return cast("M", with_id(reply, new_id())) if taken else reply
