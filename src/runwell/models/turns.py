"""Whose turn it is, in a request as a provider writes it.

Some refuse a conversation that an answer begins, an answer that is empty, or a person who speaks right after a tool.
What is missing is said in so many words, and that it was is recorded (B9).
"""

from __future__ import annotations

from typing import Any

from runwell.observe.run import record_decision, watched

__all__ = ["BEGINS", "NO_ANSWER", "begun_by_a_person", "with_answers", "with_joined_answers"]

BEGINS = "(The conversation begins.)"
NO_ANSWER = "(There was no answer.)"

Turn = dict[str, Any]


def begun_by_a_person(turns: list[Turn], turn: Turn) -> list[Turn]:
    """With `turn` before them, a user's that says `BEGINS`, if an answer begins them."""
    if not turns or turns[0]["role"] not in ("assistant", "model"):
        return turns
    _decided("a turn of the user's was put before the first answer")
    return [turn, *turns]


def with_answers(turns: list[Turn]) -> list[Turn]:
    """With `NO_ANSWER` where an answer says nothing and calls nothing, and between a tool's result and what a user
    says."""
    before = ""
    for turn in turns:
        role = turn["role"]
        if before == "tool" and role == "user":
            break
        if role == "assistant" and not turn["content"] and not turn.get("tool_calls"):
            break
        before = role
    else:
        return turns
    found: list[Turn] = []
    before = ""
    for turn in turns:
        role = turn["role"]
        if role == "assistant" and not turn["content"] and not turn.get("tool_calls"):
            turn = {**turn, "content": NO_ANSWER}
            _decided("an answer was empty")
        elif before == "tool" and role == "user":
            found.append({"role": "assistant", "content": NO_ANSWER})
            _decided("an answer was put between a tool's result and what the user says")
        found.append(turn)
        before = role
    return found


def with_joined_answers(turns: list[Turn]) -> list[Turn]:
    """With answers in a row as one, parts behind parts."""
    before = ""
    for turn in turns:
        role = turn["role"]
        if role == before == "model":
            break
        before = role
    else:
        return turns
    found: list[Turn] = []
    for turn in turns:
        if found and turn["role"] == "model" == found[-1]["role"]:
            found[-1] = {**found[-1], "parts": [*found[-1]["parts"], *turn["parts"]]}
        else:
            found.append(turn)
    return found


def _decided(what: str) -> None:
    if watched():
        record_decision("B9", what, "the provider wants turns in an order of its own", "code")
