"""How many tokens a model call took, and sums of that."""

from __future__ import annotations

from typing import Any, NotRequired, cast

from typing_extensions import TypedDict

__all__ = ["InputTokenDetails", "OutputTokenDetails", "UsageMetadata", "add_usage", "subtract_usage"]


class InputTokenDetails(TypedDict, total=False):
    """Of the input tokens, how many were of a kind. Kinds need not add up to the total."""

    audio: int
    cache_creation: int
    cache_read: int


class OutputTokenDetails(TypedDict, total=False):
    """Of the output tokens, how many were of a kind. Kinds need not add up to the total."""

    audio: int
    reasoning: int


class UsageMetadata(TypedDict):
    """What one model call, or several together, took. All numbers are tokens."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_token_details: NotRequired[InputTokenDetails]
    output_token_details: NotRequired[OutputTokenDetails]


_TOTALS = ("input_tokens", "output_tokens", "total_tokens")
_DETAILS = ("input_token_details", "output_token_details")


def add_usage(left: UsageMetadata | None, right: UsageMetadata | None) -> UsageMetadata:
    """The sum of both; None counts as nothing. A detail stands in the result when either side reports it."""
    return _combine(left, right, 1)


def subtract_usage(left: UsageMetadata | None, right: UsageMetadata | None) -> UsageMetadata:
    """`left` less `right`, never below zero: what was used since `right` was reported."""
    return _combine(left, right, -1)


def _combine(left: UsageMetadata | None, right: UsageMetadata | None, sign: int) -> UsageMetadata:
    mine: dict[str, Any] = cast("dict[str, Any]", left) or {}
    theirs: dict[str, Any] = cast("dict[str, Any]", right) or {}
    result: dict[str, Any] = {key: max(0, mine.get(key, 0) + sign * theirs.get(key, 0)) for key in _TOTALS}
    for key in _DETAILS:
        if key in mine or key in theirs:
            result[key] = _details(mine.get(key) or {}, theirs.get(key) or {}, sign)
    return cast("UsageMetadata", result)


def _details(mine: dict[str, int], theirs: dict[str, int], sign: int) -> dict[str, int]:
    kinds = dict.fromkeys([*mine, *theirs])
    return {kind: max(0, (mine.get(kind) or 0) + sign * (theirs.get(kind) or 0)) for kind in kinds}
