"""A real (small) language model, in process and behind a real OpenAI-compatible server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from runwell.testing.colours import COLOURS


@pytest.fixture(params=COLOURS, ids=[colour.name for colour in COLOURS])
def run(request: pytest.FixtureRequest) -> Any:
    return request.param()


@pytest.fixture(scope="session")
def server() -> Iterator[Any]:
    from runwell.providers.local.serve import LocalServer

    with LocalServer() as running:
        yield running


@pytest.fixture(params=["in process", "through the openai SDK"])
def model(request: pytest.FixtureRequest) -> Any:
    """The same model reached in two ways."""
    from runwell.models import init_chat_model

    if request.param == "in process":
        return init_chat_model("local:qwen2.5-coder-0.5b")
    server = request.getfixturevalue("server")
    return init_chat_model("openai:qwen2.5-coder-0.5b", base_url=server.url, api_key=server.key, temperature=0)


@pytest.fixture
def environment() -> dict[str, str]:
    """For child processes."""
    return {**os.environ, "PYTHONUNBUFFERED": "1"}
