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
    `system_in_middle`: a system message may stand anywhere in the history; False: at the top only.
    `cache_breakpoints`: how many blocks of a request may be marked with `cache_control`. `tool_search`: the provider
    finds tools whose loading is deferred.
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
    cache_breakpoints: int
    tool_search: bool


def _openai(
    window: int, out: int, *, images: bool = True, reasoning: bool = False, structured: bool = True
) -> ModelProfile:
    known: ModelProfile = {
        "max_input_tokens": window,
        "max_output_tokens": out,
        "image_inputs": images,
        "audio_inputs": False,
        "reasoning_output": reasoning,
        "tool_calling": True,
    }
    if structured:
        known["structured_output"] = True
    return known


def _claude(window: int, out: int, *, in_middle: bool = False, search: bool = False) -> ModelProfile:
    known: ModelProfile = {
        "max_input_tokens": window,
        "max_output_tokens": out,
        "image_inputs": True,
        "audio_inputs": False,
        "reasoning_output": True,
        "tool_calling": True,
        "structured_output": True,
        "system_in_middle": in_middle,
        "cache_breakpoints": 4,
    }
    if search:
        known["tool_search"] = True
    return known


def _gemini(out: int = 65_536, *, reasoning: bool = True, structured: bool = True) -> ModelProfile:
    known: ModelProfile = {
        "max_input_tokens": 1_048_576,
        "max_output_tokens": out,
        "image_inputs": True,
        "audio_inputs": True,
        "reasoning_output": reasoning,
        "tool_calling": True,
        "system_in_middle": False,
    }
    if structured:
        known["structured_output"] = True
    return known


def _command(
    window: int, out: int, *, images: bool = False, tools: bool = True, reasoning: bool = False
) -> ModelProfile:
    return {
        "max_input_tokens": window,
        "max_output_tokens": out,
        "image_inputs": images,
        "audio_inputs": False,
        "reasoning_output": reasoning,
        "tool_calling": tools,
    }


def _mistral(
    window: int, out: int, *, images: bool = False, sound: bool = False, reasoning: bool = False
) -> ModelProfile:
    return {
        "max_input_tokens": window,
        "max_output_tokens": out,
        "image_inputs": images,
        "audio_inputs": sound,
        "reasoning_output": reasoning,
        "tool_calling": True,
        "system_in_middle": False,
    }


# Read on 2026-11-30 in the entries for OpenAI of models.dev (github.com/anomalyco/models.dev, `models/openai` and
# `providers/openai/models`), a public collection and not the vendor's own page, which could not be read. Its input
# limit where it has one, else its context window, which input and output share. What it does not say is left out here:
# `tool_choice`, `parallel_tool_calls`, `system_in_middle`.
_KNOWN: Final[dict[str, dict[str, ModelProfile]]] = {
    "openai": {
        "gpt-4o": _openai(128_000, 16_384),
        # The first snapshot. The collection says that it holds answers to a schema; other accounts differ.
        "gpt-4o-2024-05-13": _openai(128_000, 4_096, structured=False),
        "gpt-4o-mini": _openai(128_000, 16_384),
        "gpt-4.1": _openai(1_047_576, 32_768),
        "gpt-4.1-mini": _openai(1_047_576, 32_768),
        "gpt-4.1-nano": _openai(1_047_576, 32_768),
        "o3": _openai(200_000, 100_000, reasoning=True),
        "o3-mini": _openai(200_000, 100_000, images=False, reasoning=True),
        # Answers "Unsupported parameter: 'parallel_tool_calls'" (github.com/evalstate/fast-agent/issues/279).
        "o4-mini": {**_openai(200_000, 100_000, reasoning=True), "parallel_tool_calls": False},
        "gpt-5": _openai(272_000, 128_000, reasoning=True),
        "gpt-5-mini": _openai(272_000, 128_000, reasoning=True),
        "gpt-5-nano": _openai(272_000, 128_000, reasoning=True),
        "gpt-5.1": _openai(272_000, 128_000, reasoning=True),
        "gpt-5.2": _openai(272_000, 128_000, reasoning=True),
        "gpt-5.4": _openai(922_000, 128_000, reasoning=True),
        "gpt-5.5": _openai(922_000, 128_000, reasoning=True),
        "gpt-5.6": _openai(922_000, 128_000, reasoning=True),
    },
    # Sizes from the same collection, on the same day. That system messages may stand after a user's turn from Opus 4.8
    # on, and not with Sonnet 5, is what Anthropic announced with that model, as others report it.
    # The models whose tool search the vendor's page on it names (platform.claude.com, agents-and-tools/tool-use).
    "anthropic": {
        "claude-haiku-4-5": _claude(200_000, 64_000),
        "claude-sonnet-4-5": _claude(200_000, 64_000, search=True),
        "claude-opus-4-5": _claude(200_000, 64_000, search=True),
        "claude-sonnet-4-6": _claude(1_000_000, 64_000),
        "claude-opus-4-6": _claude(1_000_000, 128_000),
        "claude-opus-4-8": _claude(1_000_000, 128_000, in_middle=True),
        "claude-sonnet-5": _claude(1_000_000, 128_000),
        "claude-opus-5": _claude(1_000_000, 128_000, in_middle=True),
        "claude-haiku-5-5": _claude(1_000_000, 128_000),
    },
    # From the same collection (`providers/cohere/models`), on the same day; of those that it says think, the two that
    # can be told to. All hold answers to a schema, though not beside tools or documents, so that a tool is the better
    # way to ask them.
    "cohere": {
        "command-r7b-12-2024": _command(128_000, 4_000),
        "command-r-08-2024": _command(128_000, 4_000),
        "command-r-plus-08-2024": _command(128_000, 4_000),
        "command-a-03-2025": _command(256_000, 8_000),
        "command-a-vision-07-2025": _command(128_000, 8_000, images=True, tools=False),
        "command-a-reasoning-08-2025": _command(256_000, 32_000, reasoning=True),
        "command-a-plus-05-2026": _command(128_000, 64_000, images=True, reasoning=True),
    },
    # From the same collection (`models/mistral`, `providers/mistral/models`), on the same day. Its context window,
    # which input and output share. Which of them hold answers to a schema beside tools it does not say, so that a tool
    # is the way to ask them. "-latest" is what the collection says it stands for.
    "mistralai": {
        "mistral-large-2512": _mistral(262_144, 262_144, images=True),
        "mistral-large-latest": _mistral(262_144, 262_144, images=True),
        "mistral-medium-2508": _mistral(262_144, 262_144, images=True),
        "mistral-medium-2604": _mistral(262_144, 262_144, images=True, reasoning=True),
        "mistral-medium-3.5": _mistral(262_144, 262_144, images=True, reasoning=True),
        "mistral-medium-latest": _mistral(262_144, 262_144, images=True, reasoning=True),
        "mistral-small-2506": _mistral(128_000, 16_384, images=True),
        "mistral-small-2603": _mistral(256_000, 256_000, images=True, reasoning=True),
        "magistral-medium-latest": _mistral(128_000, 16_384, reasoning=True),
        "magistral-small-2509": _mistral(128_000, 128_000, images=True, reasoning=True),
        "codestral-2508": _mistral(256_000, 4_096),
        "codestral-latest": _mistral(256_000, 4_096),
        "devstral-2512": _mistral(262_144, 262_144),
        "ministral-8b-2512": _mistral(256_000, 256_000, images=True),
        "ministral-8b-latest": _mistral(256_000, 256_000, images=True),
        "mistral-nemo": _mistral(128_000, 128_000),
        "voxtral-small-2507": _mistral(32_000, 32_000, sound=True),
    },
    # From the same collection (`models/google`, `providers/google/models`), on the same day. All hold answers to a
    # schema; those before Gemini 3 not beside tools, so that a tool is the better way to ask them.
    "google_genai": {
        "gemini-2.0-flash": _gemini(8_192, reasoning=False, structured=False),
        "gemini-2.5-flash-lite": _gemini(structured=False),
        "gemini-2.5-flash": _gemini(structured=False),
        "gemini-2.5-pro": _gemini(structured=False),
        "gemini-3-flash-preview": _gemini(),
        "gemini-3-pro-preview": _gemini(),
        "gemini-3.1-flash-lite": _gemini(),
        "gemini-3.1-pro-preview": _gemini(),
        "gemini-3.5-flash": _gemini(),
        "gemini-3.8-flash": _gemini(),
    },
}

_DATED = re.compile(r"-20\d\d-?\d\d-?\d\d\Z")
_told: set[tuple[str, str]] = set()


def profile_of(provider: str, model: str) -> ModelProfile | None:
    """A fresh profile of a known model; None, said once in the log, for any other.

    A dated snapshot (`gpt-4o-2024-11-20`) has the profile of its model, unless it is listed itself.
    """
    models = _KNOWN.get(provider, {})
    known = models.get(model) or models.get(_DATED.sub("", model))
    if known is not None:
        return known.copy()
    if (provider, model) not in _told:
        _told.add((provider, model))
        _log.info("nothing is known about model %r of %r; pass profile= to say what it can do", model, provider)
    return None
