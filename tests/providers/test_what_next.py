"""Failures that a program can do something about say what."""

from __future__ import annotations

import pytest

from runwell.models.wire_errors import error_from_wire


@pytest.mark.parametrize(
    ("status", "body", "hint"),
    [
        (429, {"message": "slow down"}, "rate_limiter="),
        (429, {"message": "no", "code": "insufficient_quota"}, "Waiting does not help"),
        (500, {"message": "no"}, "with_fallbacks"),
        (529, {"message": "no"}, "max_retries="),
        (401, {"message": "no"}, "Check the key"),
        (404, {"message": "no"}, "base_url"),
    ],
)
def test_a_vendors_error_says_what_to_do_next(status: int, body: dict[str, str], hint: str) -> None:
    assert hint in str(error_from_wire(status, body, who="https://vendor.example").hint)
