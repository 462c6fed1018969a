"""Whether a model would take a history: every call answered, every result with its call.

Providers refuse a history in which a call lacks its result or a result its call, and the refusal comes late and says
little. These functions find, report and repair it before a model is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from runwell.errors import InvalidHistory
from runwell.messages.calls import calls_as_written
from runwell.messages.convert import convert_to_messages
from runwell.messages.message import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    new_id,
)

__all__ = ["HistoryProblem", "call_ids", "repair_history", "require_valid_history", "validate_history"]


_TEXTS = {
    "unanswered_call": "the call {call_id!r:.200} of message {place} has no result",
    "orphan_result": "message {place} is the result of call {call_id!r:.200}, which no message before it made",
    "duplicate_result": "message {place} is a second result of call {call_id!r:.200}",
    "duplicate_call": "two calls of message {place} have the id {call_id!r:.200}",
    "misplaced_result": "message {place} is the result of call {call_id!r:.200}, but does not follow that call",
    "not_a_message": "message {place} is a RemoveMessage, which only an update may hold",
}
_SAYING = frozenset({HumanMessage, SystemMessage})
Kind: TypeAlias = Literal[
    "unanswered_call", "orphan_result", "duplicate_result", "duplicate_call", "misplaced_result", "not_a_message"
]


@dataclass(slots=True, frozen=True)
class HistoryProblem:
    """One thing that is wrong with a history.

    `kind` says what: a call without result, a result without call, a second result, two calls of one message under one
    id, a result with other messages between it and its call, a RemoveMessage. `place` is the position in the list of
    the message with the call or the result.
    """

    kind: Kind
    place: int
    call_id: str | None = None

    @property
    def text(self) -> str:
        """The problem in words."""
        return _TEXTS[self.kind].format(place=self.place, call_id=self.call_id)

    def __str__(self) -> str:
        return self.text


def call_ids(message: AIMessage) -> list[str]:
    """The ids of its calls, broken ones included, as a model expects an answer to each."""
    return [call["id"] for call in calls_as_written(message) if call["id"]]


def validate_history(messages: Iterable[Any]) -> list[HistoryProblem]:
    """Everything wrong with the history, in its order; empty when a model would take it.

    Calls of the last message count as unanswered: check a history when it is about to be sent.
    """
    if _is_usual(messages):
        return []
    problems: list[HistoryProblem] = []
    open_calls: dict[str, int] = {}  # call id -> place of its message: results may follow here
    late: dict[str, int] = {}  # those of earlier turns that nothing answered
    answered: set[str] = set()

    def found(kind: Kind, place: int, call_id: str | None = None) -> None:
        problems.append(HistoryProblem(kind, place, call_id))

    for place, message in enumerate(convert_to_messages(messages)):
        if type(message) is HumanMessage and not open_calls:
            continue
        if isinstance(message, ToolMessage):
            call_id = message.tool_call_id
            if open_calls.pop(call_id, None) is not None:
                answered.add(call_id)
            elif late.pop(call_id, None) is not None:
                found("misplaced_result", place, call_id)
                answered.add(call_id)
            else:
                found("duplicate_result" if call_id in answered else "orphan_result", place, call_id)
            continue
        if open_calls:
            late.update(open_calls)
            open_calls.clear()
        if isinstance(message, AIMessage):
            if not message.tool_calls and not message.invalid_tool_calls:
                continue
            for call_id in call_ids(message):
                if call_id in open_calls:
                    found("duplicate_call", place, call_id)
                if call_id in late:  # the id is used anew: nothing can answer the old call any more
                    found("unanswered_call", late.pop(call_id), call_id)
                open_calls[call_id] = place
                answered.discard(call_id)
        elif isinstance(message, RemoveMessage):
            found("not_a_message", place)
    for call_id, place in (*late.items(), *open_calls.items()):
        found("unanswered_call", place, call_id)
    problems.sort(key=lambda problem: problem.place)
    return problems


def _is_usual(messages: Any) -> bool:
    """Whether it is quickly seen that nothing is wrong: messages, and results right after their calls."""
    if not isinstance(messages, (list, tuple)):
        return False
    waiting: set[str | None] = set()
    message: Any
    for message in messages:
        exactly = type(message)  # lines of its own for each class: attributes are read faster so
        if exactly is ToolMessage:
            call_id = message.tool_call_id
            if call_id not in waiting:
                return False
            waiting.remove(call_id)
        elif waiting:
            return False
        elif exactly is AIMessage:
            if message.invalid_tool_calls:
                return False
            calls = message.tool_calls
            if calls:
                for call in calls:
                    waiting.add(call["id"])
                if len(waiting) < len(calls) or None in waiting:
                    return False
        elif exactly not in _SAYING:
            return False
    return not waiting


def require_valid_history(messages: Iterable[Any]) -> None:
    """Raises `InvalidHistory` that lists every problem; does nothing when there is none."""
    problems = validate_history(messages)
    if problems:
        raise InvalidHistory(
            "No model would take this history: " + "; ".join(problem.text for problem in problems) + ".",
            hint="Keep calls and their results together (trim_messages does), or pass the list through repair_history.",
        )


def repair_history(
    messages: Iterable[Any], *, missing: str = "This call has no result: it was interrupted or its result was dropped."
) -> list[BaseMessage]:
    """A new list that a model would take; the messages kept are the same objects.

    An unanswered call gets an error result that says `missing`. A result that stands too late moves to its call.
    Results without a call, second results and RemoveMessages are left out. A second call under an id of the same
    message is not repaired here: `ensure_call_ids` gives it an id of its own.
    """
    given = convert_to_messages(messages)
    problems = validate_history(given)
    if not problems:
        return given
    dropped = {p.place for p in problems if p.kind in ("orphan_result", "duplicate_result", "not_a_message")}
    moved = {p.place for p in problems if p.kind == "misplaced_result"}
    return _rebuilt(given, dropped, moved, missing)


def _rebuilt(given: Sequence[BaseMessage], dropped: set[int], moved: set[int], missing: str) -> list[BaseMessage]:
    owners: dict[str, int] = {}  # id -> place of the latest call with it
    results: dict[int, dict[str, BaseMessage]] = {}  # place of the call -> its results
    for place, message in enumerate(given):
        if isinstance(message, AIMessage):
            for call_id in call_ids(message):
                owners[call_id] = place
                results.setdefault(place, {})
        elif isinstance(message, ToolMessage) and place not in dropped:
            results[owners[message.tool_call_id]].setdefault(message.tool_call_id, message)
    repaired: list[BaseMessage] = []
    for place, message in enumerate(given):
        if isinstance(message, ToolMessage) or place in dropped or place in moved:
            continue
        repaired.append(message)
        found = results.get(place)
        if found is not None and isinstance(message, AIMessage):
            repaired += found.values()
            names = {call["id"]: call["name"] for call in (*message.invalid_tool_calls, *message.tool_calls)}
            repaired += [
                ToolMessage(missing, tool_call_id=call_id, name=names.get(call_id), status="error", id=new_id())
                for call_id in dict.fromkeys(call_ids(message))
                if call_id not in found
            ]
    return repaired
