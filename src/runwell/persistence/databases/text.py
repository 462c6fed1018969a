"""Text that no database holds: with half a character (a lone surrogate) in it."""

from __future__ import annotations

from runwell.errors import InvalidInput

__all__ = ["half_character", "whole"]


def whole(text: str) -> str:
    """The text; raises InvalidInput when it has half a character, so that it is refused on every storage alike."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise half_character(error) from None
    return text


def half_character(error: UnicodeEncodeError) -> InvalidInput:
    """What a database's client raises, as an error of ours."""
    return InvalidInput(
        f"{error.object!r:.200} cannot be an id or a name: it has half a character at {error.start}.",
        hint="Use whole text. Inside of values such text is kept as it is.",
    )
