"""Comparing what an agent did with what it should have done: its tool calls, in order, with what differs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from runwell.errors import InvalidInput
from runwell.messages.convert import convert_to_messages
from runwell.messages.message import AIMessage

__all__ = ["Trajectory", "match_trajectory", "tool_calls_of"]

Mode = Literal["strict", "unordered", "subset", "superset"]
MODES = ("strict", "unordered", "subset", "superset")


@dataclass(frozen=True, slots=True)
class Trajectory:
    """How a comparison came out: `score`, and for each difference a line that says where it is. True if it matched."""

    score: bool
    differences: tuple[str, ...] = field(default=())

    @property
    def comment(self) -> str:
        """The differences in one text; empty where there are none."""
        return "\n".join(self.differences)

    def __bool__(self) -> bool:
        return self.score


def tool_calls_of(messages: Any) -> list[tuple[str, dict[str, Any]]]:
    """The tool calls in a history (or a state with `messages`): name and arguments, in the order asked."""
    found = messages.get("messages", ()) if isinstance(messages, Mapping) else messages
    if isinstance(found, Sequence) and all(isinstance(each, tuple) and isinstance(each[-1], dict) for each in found):
        return [(str(name), dict(args)) for name, args in found]
    return [
        (call["name"], dict(call["args"]))
        for message in convert_to_messages(list(found))
        if isinstance(message, AIMessage)
        for call in message.tool_calls
    ]


def match_trajectory(
    actual: Any,
    expected: Any,
    *,
    mode: Mode = "strict",
    args: Literal["exact", "ignore"] | Mapping[str, Callable[[dict[str, Any], dict[str, Any]], bool]] = "exact",
) -> Trajectory:
    """Compare the tool calls of two runs; each is a history, a state, or a list of (name, arguments).

    `mode`: "strict" (the same calls in the same order), "unordered" (the same calls), "subset" (nothing that is not
    expected) or "superset" (all that is expected). `args`: "exact", "ignore", or by tool a function of the two
    arguments that says whether they are as good as equal.

        assert match_trajectory(agent.invoke(...), [("search", {"q": "tram times today"})])
    """
    if mode not in MODES:
        raise InvalidInput(f"mode={mode!r}.", hint=f"It is one of {', '.join(MODES)}.")
    did, due = tool_calls_of(actual), tool_calls_of(expected)

    def alike(one: tuple[str, dict[str, Any]], other: tuple[str, dict[str, Any]]) -> bool:
        if one[0] != other[0] or args == "ignore":
            return one[0] == other[0]
        judge = args.get(one[0]) if isinstance(args, Mapping) else None
        return judge(one[1], other[1]) if judge is not None else one[1] == other[1]

    if mode == "strict":
        found = [
            _difference(step, did[step : step + 1], due[step : step + 1])
            for step in range(max(len(did), len(due)))
            if step >= len(did) or step >= len(due) or not alike(did[step], due[step])
        ]
    else:
        rest, missing = list(enumerate(did)), []
        for step, wanted in enumerate(due):
            at = next((place for place, (_, one) in enumerate(rest) if alike(one, wanted)), None)
            if at is None:
                missing.append((step, wanted))
            else:
                del rest[at]
        found = []
        if mode != "subset":
            found += [_missed(step, wanted, [one for _, one in rest]) for step, wanted in missing]
        if mode != "superset":
            found += [f"step {step + 1}: {_said(one)} was not expected" for step, one in rest]
    return Trajectory(not found, tuple(found))


def _said(call: tuple[str, dict[str, Any]]) -> str:
    return f"{call[0]}({json.dumps(call[1], ensure_ascii=False, default=str)})"


def _difference(step: int, did: list[Any], due: list[Any]) -> str:
    where = f"step {step + 1}"
    if not did:
        return f"{where}: expected {_said(due[0])}, and nothing was called"
    if not due:
        return f"{where}: {_said(did[0])} was not expected"
    if did[0][0] != due[0][0]:
        return f"{where}: expected {_said(due[0])}, got {_said(did[0])}"
    return f"{where}: {did[0][0]} got other arguments: {_arguments(did[0][1], due[0][1])}"


def _arguments(did: dict[str, Any], due: dict[str, Any]) -> str:
    parts = []
    for name in dict.fromkeys((*due, *did)):
        if name not in did:
            parts.append(f"{name} is missing, expected {due[name]!r}")
        elif name not in due:
            parts.append(f"{name}={did[name]!r} was not expected")
        elif did[name] != due[name]:
            parts.append(f"{name} is {did[name]!r}, expected {due[name]!r}")
    return "; ".join(parts)


def _missed(step: int, wanted: Any, rest: list[Any]) -> str:
    near = next((one for one in rest if one[0] == wanted[0]), None)
    other = f"; {wanted[0]} got other arguments: {_arguments(near[1], wanted[1])}" if near is not None else ""
    return f"expected step {step + 1}: {_said(wanted)} was not called{other}"
