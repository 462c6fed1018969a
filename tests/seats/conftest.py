"""Runs go in both colours: `run` calls the plain or the async form of the same method."""

from __future__ import annotations

from typing import Any

import pytest

from runwell.testing.colours import COLOURS


@pytest.fixture(params=COLOURS, ids=[colour.name for colour in COLOURS])
def run(request: pytest.FixtureRequest) -> Any:
    return request.param()
