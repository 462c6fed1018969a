"""What a model is known to be able to do.

Nothing is inferred from a name that is not listed: the profile is then None, and code that needs a fact about the
model takes the careful way (structured output through a tool, no size check). Pass `profile=` to say what you know.
"""

from __future__ import annotations

import logging
import re
from typing import Final, TypedDict

__all__ = ["ModelProfile", "profile_of"]

_log = logging.getLogger("runwell.models")


class ModelProfile(TypedDict, total=False):
    """Facts about a model. A missing key means "not known".

    Sizes are in tokens. `structured_output`: the provider itself holds the answer to a JSON schema.
    `system_in_middle`: a system message may stand anywhere in the history.
    """

    max_input_tokens: int
    max_output_tokens: int
    image_inputs: bool
    audio_inputs: bool
    reasoning_output: bool
    tool_calling: bool
    tool_choice: bool
    parallel_tool_calls: bool
    structured_output: bool
    system_in_middle: bool


def _openai(window: int, out: int, *, images: bool = True, reasoning: bool = False) -> ModelProfile:
    return {
        "max_input_tokens": window,
        "max_output_tokens": out,
        "image_inputs": images,
        "audio_inputs": False,
        "reasoning_output": reasoning,
        "tool_calling": True,
        "tool_choice": True,
        "parallel_tool_calls": True,
        "structured_output": True,
        "system_in_middle": True,
    }


# Windows and output limits as published for each model, collected 2026-11-30 from the vendor's and serving providers'
# documentation. Where input and output share a window, the input is the window less the output.
_KNOWN: Final[dict[str, dict[str, ModelProfile]]] = {
    "openai": {
        "gpt-4o": _openai(128_000, 16_384),
        "gpt-4o-mini": _openai(128_000, 16_384),
        "gpt-4.1": _openai(1_047_576, 32_768),
        "gpt-4.1-mini": _openai(1_047_576, 32_768),
        "gpt-4.1-nano": _openai(1_047_576, 32_768),
        "o3": _openai(200_000, 100_000, reasoning=True),
        "o3-mini": _openai(200_000, 100_000, images=False, reasoning=True),
        "o4-mini": _openai(200_000, 100_000, reasoning=True),
        "gpt-5": _openai(272_000, 128_000, reasoning=True),
        "gpt-5-mini": _openai(272_000, 128_000, reasoning=True),
        "gpt-5-nano": _openai(272_000, 128_000, reasoning=True),
        "gpt-5.1": _openai(272_000, 128_000, reasoning=True),
        "gpt-5.2": _openai(272_000, 128_000, reasoning=True),
        "gpt-5.4": _openai(922_000, 128_000, reasoning=True),
        "gpt-5.5": _openai(922_000, 128_000, reasoning=True),
    },
}

_DATED = re.compile(r"-20\d\d-\d\d-\d\d\Z")
_told: set[tuple[str, str]] = set()


def profile_of(provider: str, model: str) -> ModelProfile | None:
    """A fresh profile of a known model; None, said once in the log, for any other.

    A dated snapshot (`gpt-4o-2024-11-20`) has the profile of its model.
    """
    known = _KNOWN.get(provider, {}).get(_DATED.sub("", model))
    if known is not None:
        return known.copy()
    if (provider, model) not in _told:
        _told.add((provider, model))
        _log.info("nothing is known about model %r of %r; pass profile= to say what it can do", model, provider)
    return None
