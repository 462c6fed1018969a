"""What goes beside a request's body, looked at before anything is sent: headers, keys, addresses; and the body's own
dicts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from runwell.errors import InvalidInput

__all__ = ["check_dicts", "check_url", "sendable_key"]

_HEADERS: Final = ("default_headers", "extra_headers")
_DICTS: Final = ("model_kwargs", "extra_body", "default_query", "extra_query")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_UNSENDABLE: Final = re.compile(r"[^\t\x20-\x7e]")


def check_dicts(who: str, settings: Mapping[str, Any]) -> None:
    """Raises InvalidInput for headers that are no dict of texts in ASCII, of one line each, for dicts of the request's
    that are none, and for numbers in them that JSON cannot say. No header's value is shown: it may be a secret."""
    for name in _HEADERS:
        headers = settings.get(name)
        if headers is None:
            continue
        if not isinstance(headers, Mapping):
            raise InvalidInput(f"{who}: {name} is a dict of texts; got a {type(headers).__name__}.")
        for header, value in headers.items():
            if not isinstance(header, str) or not _NAME.fullmatch(header):
                raise InvalidInput(f"{who}: {name} has {header!r:.60}, which is no name of a header.")
            if not isinstance(value, str):
                kind = type(value).__name__
                raise InvalidInput(f"{who}: {name}[{header!r}] is a text; got one of type {kind}.", hint="str(value).")
            if (found := _UNSENDABLE.search(value)) is not None:
                raise InvalidInput(
                    f"{who}: {name}[{header!r}] holds {found.group()!r}, which no header carries.",
                    hint="Headers are ASCII, on one line; other text is sent encoded, in base64 for one.",
                )
    for name in _DICTS:
        value = settings.get(name)
        if value is None:
            continue
        if not isinstance(value, Mapping):
            raise InvalidInput(f"{who}: {name} is a dict; got {value!r:.100}.")
        for key, held in value.items():
            try:
                odd = _no_json(held)
            except RecursionError:  # or it holds itself
                raise InvalidInput(f"{who}: {name}[{key!r}] is nested too deeply to be written as JSON.") from None
            if odd is not None:
                raise InvalidInput(f"{who}: {name}[{key!r}] holds {odd!r}, which JSON cannot say.")


def check_url(url: Any) -> None:
    """Raises InvalidInput for what is no text."""
    if url is not None and not isinstance(url, str):
        raise InvalidInput(f"base_url is a text such as 'https://...'; got {url!r:.100}.", hint="str(url).")


def sendable_key(who: str, key: str) -> str:
    """The key without blanks around it, as a file or a variable has them; InvalidInput, which does not show it, for one
    with what no header carries."""
    key = key.strip()
    if (found := _UNSENDABLE.search(key)) is not None:
        raise InvalidInput(
            f"{who}: the API key has {found.group()!r} at place {found.start()}, which no header carries.",
            hint="Copy it again: keys are ASCII, on one line.",
        )
    return key


def _no_json(value: Any) -> float | None:
    """A number in it that is none, or infinite."""
    if isinstance(value, float):
        return value if value != value or value in (float("inf"), float("-inf")) else None
    held = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return next((odd for each in held if (odd := _no_json(each)) is not None), None)
