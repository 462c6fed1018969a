"""Arguments of a model and of a call that can be seen to be wrong before anything is sent."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from math import inf, isfinite
from typing import Any, Final

from runwell.errors import InvalidInput

__all__ = ["check_retries", "check_settings"]

_WHOLE: Final[dict[str, float]] = {
    **dict.fromkeys(("max_tokens", "max_output_tokens", "max_completion_tokens"), 0),
    **dict.fromkeys(("top_logprobs", "k", "best_of", "num_ctx", "num_thread", "priority", "max_media_bytes"), 0),
    **dict.fromkeys(("dimensions", "output_dimensionality", "top_n", "max_tokens_per_doc"), 1),
    # where a number below 0 means something: any seed, no limit, all layers, as the model likes
    **dict.fromkeys(
        ("seed", "random_seed", "top_k", "num_predict", "num_gpu", "repeat_last_n", "thinking_budget"), -inf
    ),
}
"""Whole numbers, and the least that each may be."""
_REAL: Final[dict[str, tuple[float, float]]] = {
    **dict.fromkeys(("temperature", "repeat_penalty", "mirostat_eta", "mirostat_tau"), (0, inf)),
    **dict.fromkeys(("top_p", "min_p", "p"), (0, 1)),
    **dict.fromkeys(("presence_penalty", "frequency_penalty"), (-inf, inf)),
}
"""Other numbers, and between what each may be."""
_TIMES: Final = ("timeout", "stream_idle_timeout")
_NO_LIMIT: Final = (
    "Leave it out, or None, for the model's own limit; a server's own number for none goes in "
    'extra_body={{"{name}": -1}}.'
)


def check_settings(
    who: str, settings: Mapping[str, Any], *, no_limit: Collection[int] = (), retried: bool = False
) -> dict[str, Any]:
    """The settings that are numbers of other libraries (numpy's, `Decimal`), as Python's, which JSON can say.

    Raises InvalidInput, naming the argument, for numbers that are none or that no model takes (`max_tokens=100.0`, a
    `temperature` below 0 or infinite), times that are not positive, and `stop` that is no text and no list of texts.
    Other arguments are the vendor's to judge. `no_limit`: numbers below 0 that the server takes as `max_tokens`.
    `retried`: `max_retries` is looked at too."""
    plain: dict[str, Any] = {}
    for name, value in settings.items():
        if value is None:
            continue
        if name in _WHOLE or name in _REAL:
            if name == "max_tokens" and value in no_limit:
                continue
            number = _number(who, name, value)
            if number is not value:
                plain[name] = number
        elif name in _TIMES:
            seconds = _seconds(who, name, value)
            if seconds is not value:
                plain[name] = seconds
        elif name == "max_retries" and retried:
            check_retries(who, value)
        elif name == "stop":
            texts = [value] if isinstance(value, str) else value
            if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
                raise InvalidInput(f"{who}: stop is a text or a list of texts that end an answer; got {value!r:.100}.")
            if "" in texts:
                raise InvalidInput(f"{who}: stop holds an empty text, which ends no answer; got {value!r:.100}.")
    return plain


def check_retries(who: str, retries: Any) -> int | None:
    """How often a failure is tried again, None as often as usual; InvalidInput for what is no such number."""
    if retries is None or (type(retries) is int and retries >= 0):
        return retries
    raise InvalidInput(f"{who}: max_retries is a whole number, 0 or more; got {retries!r:.100}.")


def _number(who: str, name: str, value: Any) -> int | float:
    """As Python's own number."""
    number = value
    if isinstance(value, bool) or not isinstance(value, int | float):
        number = None if isinstance(value, str | bytes | bool) else _plain(value)
        if number is None:
            raise InvalidInput(f"{who}: {name} is a number; got {value!r:.100}.")
    if name in _WHOLE:
        least = _WHOLE[name]
        if isinstance(number, float) or number < least:
            bound = "" if least == -inf else f", {least} or more"
            raise InvalidInput(
                f"{who}: {name} is a whole number{bound}; got {value!r:.100}.",
                hint=_NO_LIMIT.format(name=name) if number == -1 else None,
            )
        return number  # type: ignore[no-any-return]
    low, high = _REAL[name]
    if not isfinite(number) or not low <= number <= high:
        bound = "" if low == -inf else f" from {low} to {high}" if high < inf else f", {low} or more"
        raise InvalidInput(f"{who}: {name} is a finite number{bound}; got {value!r:.100}.")
    return number  # type: ignore[no-any-return]


def _seconds(who: str, name: str, value: Any) -> Any:
    """As Python's own number; a timeout of an HTTP client's own kind, or its four times, as it is."""
    known = isinstance(value, int | float | str | bytes | tuple)
    seconds = value if known else _plain(value)
    if seconds is None:  # a timeout of an HTTP client's own kind
        return value
    for each in seconds if isinstance(seconds, tuple) else (seconds,):
        if each is None and isinstance(seconds, tuple):
            continue
        if isinstance(each, bool) or not isinstance(each, int | float) or not 0 < each < inf:
            raise InvalidInput(
                f"{who}: {name} is a number of seconds above 0; got {value!r:.100}.",
                hint="None waits as long as usual.",
            )
    return seconds


def _plain(value: Any) -> int | float | None:
    """The number that an object stands for; None where it stands for none."""
    try:
        return operator.index(value)
    except TypeError:
        pass
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
