"""Takes out of a command's output what the model is not to read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from runwell.errors import InvalidInput

__all__ = ["RedactionRule", "Redactor"]

RedactionRule = str | re.Pattern[str] | Callable[[str], str]
"""A regular expression whose matches are taken out, or a function that gives the text without what it finds."""

SHORT = 8
"""A value of the environment shorter than this is taken for a setting, unless its name says otherwise."""
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|PRIVATE|COOKIE|SESSION|DSN|PIN\b", re.I)


class Redactor:
    """Call it with a text: values of `env` and what the rules match are replaced.

    Each value of `env` of 8 characters or more counts as a secret, and a shorter one whose name says so
    (KEY, TOKEN, PASSWORD, …); names in `visible` never do. It finds values as they are: a command that encodes one
    first gets it past, so this guards against accidents, and the sandbox against intent.
    """

    def __init__(
        self, rules: Iterable[RedactionRule] = (), env: Mapping[str, str] | None = None, visible: Iterable[str] = ()
    ) -> None:
        if isinstance(rules, (str, re.Pattern)) or callable(rules):
            raise InvalidInput(f"redaction_rules={rules!r:.100} is not a list.", hint="Put the rule in a list.")
        self.rules = [_rule(each) for each in rules]
        shown = set(visible)
        found = {
            value: name
            for name, value in (env or {}).items()
            if name not in shown and value.strip() and (len(value) >= SHORT or _SECRET_NAME.search(name))
        }
        self._names = found
        longest_first = sorted(found, key=len, reverse=True)
        self._values = re.compile("|".join(re.escape(value) for value in longest_first)) if found else None

    def __call__(self, text: str) -> str:
        if self._values is not None:
            text = self._values.sub(lambda hit: f"[redacted {self._names[hit.group()]}]", text)
        for rule in self.rules:
            changed: Any = rule(text)
            if not isinstance(changed, str):
                raise InvalidInput(
                    f"The redaction rule {rule!r} gave {type(changed).__name__}.", hint="It returns the text to show."
                )
            text = changed
        return text


def _rule(given: Any) -> Callable[[str], str]:
    if isinstance(given, str):
        try:
            given = re.compile(given)
        except re.error as error:
            raise InvalidInput(f"The redaction rule {given!r} is no regular expression: {error}.") from error
    if isinstance(given, re.Pattern):
        pattern: re.Pattern[str] = given
        if pattern.search(""):
            raise InvalidInput(f"The redaction rule {pattern.pattern!r} matches an empty text.")
        return lambda text: pattern.sub("[redacted]", text)
    if callable(given):
        return given  # type: ignore[no-any-return]
    raise InvalidInput(
        f"{given!r:.100} is no redaction rule.", hint="A regular expression, or a function of a text that gives a text."
    )
