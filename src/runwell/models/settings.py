"""Arguments of a model and of a call that can be seen to be wrong before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from runwell.errors import InvalidInput

__all__ = ["check_settings"]

_NUMBERS: Final = frozenset(
    {"temperature", "top_p", "top_k", "min_p", "seed", "random_seed", "presence_penalty", "frequency_penalty"}
    | {"max_tokens", "max_output_tokens", "max_completion_tokens", "num_predict", "num_ctx"}
)
_TIMES: Final = ("timeout", "stream_idle_timeout")


def check_settings(who: str, settings: Mapping[str, Any]) -> None:
    """Raises InvalidInput, naming the argument, for numbers that are none, times that are not positive, and `stop` that
    is no text and no list of texts. Other arguments are the vendor's to judge."""
    for name, value in settings.items():
        if value is None:
            continue
        if name in _NUMBERS and (isinstance(value, str | bytes | bool) or not hasattr(value, "__float__")):
            raise InvalidInput(f"{who}: {name} is a number; got {value!r:.100}.")
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
