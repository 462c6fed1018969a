"""Errors as Google's APIs write them (`google.rpc.Status`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from runwell.errors import ModelAuthenticationError, ModelError, ModelRateLimitError
from runwell.models.wire_errors import error_from_wire

__all__ = ["google_error"]

_DELAY = re.compile(r"(\d+(?:\.\d+)?)s")


def google_error(
    status: int | None, body: Any, *, headers: Mapping[str, str] | None = None, text: str = "", who: str = ""
) -> ModelError:
    """The error for a response of `status`, or for an error event in a stream (None), whose own code then counts."""
    if isinstance(body, list) and body:  # as a stream's errors come
        body = body[0]
    said: Any = body.get("error") if isinstance(body, Mapping) else None
    said = said if isinstance(said, Mapping) else body if isinstance(body, Mapping) else {}
    if status is None and isinstance(said.get("code"), int):
        status = said["code"]
    headers = dict(headers or {})
    details = list(_details(said))
    for each in details:
        delay = _DELAY.fullmatch(str(each.get("retryDelay", "")))
        if delay and "retry-after" not in headers:
            headers["retry-after"] = delay[1]
    error = error_from_wire(status, {"error": {**said, "code": ""}}, headers=headers, text=text, who=who)
    if any(each.get("reason") in ("API_KEY_INVALID", "API_KEY_SERVICE_BLOCKED") for each in details):
        return ModelAuthenticationError(
            error.message,
            status=status,
            request_id=error.request_id,
            hint="Check the key, and what it may be used for.",
        )
    if isinstance(error, ModelRateLimitError) and any(map(_lasts, details)):
        error.retryable = False
        error.hint = "Waiting does not help today: see to the project's quota, or use another model."
    return error


def _details(said: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    details = said.get("details")
    yield from (each for each in (details if isinstance(details, list) else ()) if isinstance(each, Mapping))


def _lasts(detail: Mapping[str, Any]) -> bool:
    """Whether it tells of a quota for a day that is used up."""
    violations = detail.get("violations")
    return any("PerDay" in str(each.get("quotaId")) for each in violations or () if isinstance(each, Mapping))
