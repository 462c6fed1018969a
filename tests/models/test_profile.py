"""Facts about models, and none where none are known."""

from __future__ import annotations

import logging

import pytest

from runwell.models.profile import profile_of


def test_a_snapshot_has_the_profile_of_its_model() -> None:
    known = profile_of("openai", "gpt-4o")
    assert known is not None
    assert known["max_input_tokens"] == 128_000
    assert profile_of("openai", "gpt-4o-2024-11-20") == known


def test_a_snapshot_that_differs_has_its_own() -> None:
    first = profile_of("openai", "gpt-4o-2024-05-13")
    assert first is not None
    assert first["max_output_tokens"] == 4_096
    assert "structured_output" not in first


def test_the_unknown_is_none_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="runwell.models")
    assert profile_of("openai", "gpt-unheard-of") is None
    assert profile_of("openai", "gpt-unheard-of") is None
    assert caplog.text.count("gpt-unheard-of") == 1


def test_gemini_is_known_by_either_name() -> None:
    from runwell.providers.google.chat import ChatGoogleGenerativeAI, ChatVertexAI

    known = profile_of("google_genai", "gemini-3.8-flash")
    assert known is not None
    assert known["max_input_tokens"] == 1_048_576
    assert ChatGoogleGenerativeAI(model="models/gemini-3.8-flash", api_key="k").profile == known
    assert ChatVertexAI(model="google/gemini-3.8-flash", api_key="k").profile == known


def test_mistrals_models_are_known() -> None:
    from runwell.providers.mistral import ChatMistralAI

    known = ChatMistralAI(model="mistral-medium-latest", api_key="k").profile
    assert known is not None
    assert known["max_input_tokens"] == 262_144
    assert known["image_inputs"]
    assert ChatMistralAI(model="mistral-tomorrow", api_key="k").profile is None


def test_profiles_are_not_shared() -> None:
    first = profile_of("openai", "gpt-4o")
    assert first is not None
    first["max_input_tokens"] = 1
    assert profile_of("openai", "gpt-4o") != first
