"""Failures that a program can do something about say what."""

from __future__ import annotations

import pytest

from runwell.errors import ModelBadRequest
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


@pytest.mark.parametrize("status", [400, 413, 422])
@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ("Request body too large", "Send less at once"),
        ("Your credit balance is too low to access the API", "See to the account"),
        ("Invalid schema for response_format 'Answer'", "ToolStrategy"),
        ("messages.2: `tool_use` ids were found without `tool_result` blocks", "repair_history(messages)"),
        ("tools.0.custom.input_schema: JSON schema is invalid", "strict=False"),
        ("Could not process image", "its mime_type is that of its data"),
        ("Unsupported parameter: 'temperature' is not supported with this model", "Leave out or change the argument"),
        ("top_p must be between 0 and 1", "Leave out or change the argument"),
        ("no", "Leave out what was added last"),
    ],
)
def test_a_request_that_is_refused_says_what_to_do_next(status: int, message: str, hint: str) -> None:
    error = error_from_wire(status, {"error": {"message": message}}, who="https://vendor.example")
    assert isinstance(error, ModelBadRequest)
    assert ("Send less at once" if status == 413 else hint) in str(error.hint)
    assert not error.retryable
