"""Arguments of a model and of a call that can be seen to be wrong before anything is sent."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, Final

from runwell.errors import InvalidInput

__all__ = ["check_settings"]

_NUMBERS: Final = frozenset(
    {"temperature", "top_p", "top_k", "min_p", "seed", "random_seed", "presence_penalty", "frequency_penalty"}
    | {"max_tokens", "max_output_tokens", "max_completion_tokens", "num_predict", "num_ctx"}
)
_TIMES: Final = ("timeout", "stream_idle_timeout")


def check_settings(who: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are numbers of other libraries (numpy's, `Decimal`), as Python's, which JSON can say.

    Raises InvalidInput, naming the argument, for numbers that are none, times that are not positive, and `stop` that
    is no text and no list of texts. Other arguments are the vendor's to judge."""
    plain: dict[str, Any] = {}
    for name, value in settings.items():
        if value is None:
            continue
        if name in _NUMBERS and (isinstance(value, bool) or not isinstance(value, int | float)):
            number = None if isinstance(value, str | bytes | bool) else _plain(value)
            if number is None:
                raise InvalidInput(f"{who}: {name} is a number; got {value!r:.100}.")
            plain[name] = number
        if name in _TIMES and not isinstance(value, int | float | str | bytes | tuple):
            number = _plain(value)
            if number is not None:  # else it is a timeout of an HTTP client's own kind
                plain[name] = value = number
        if name in _TIMES and (
            isinstance(value, str | bytes | bool)
            or (isinstance(value, int | float) and not value > 0)
            or (isinstance(value, tuple) and any(isinstance(each, str) for each in value))
        ):
            raise InvalidInput(
                f"{who}: {name} is a number of seconds above 0; got {value!r:.100}.",
                hint="None waits as long as usual.",
            )
        if name == "stop" and not (
            isinstance(value, str) or (isinstance(value, list | tuple) and all(isinstance(s, str) for s in value))
        ):
            raise InvalidInput(f"{who}: stop is a text or a list of texts that end an answer; got {value!r:.100}.")
    return plain


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
