"""From a provider's refusal to our errors: by status, code and, where vendors differ, by what the text says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from runwell.errors import (
    ContextOverflow,
    ModelAuthenticationError,
    ModelBadRequest,
    ModelError,
    ModelNotFound,
    ModelOverloaded,
    ModelRateLimitError,
    ModelRefusalError,
)
from runwell.models.what_next import what_next

__all__ = ["error_from_wire", "retry_after_s"]

_TOO_LONG = re.compile(
    r"maximum context length|context_length|context window|available context size"
    r"|exceeds? (the )?(model's )?(max|context)|prompt is too long|too many tokens in the (prompt|request)"
    r"|tokens: size limit exceeded|number of tokens in the prompt cannot exceed"
    r"|input is too long for requested model|input tokens exceeded|number of input tokens exceeds",
    re.I,
)
_LIMIT_AND_SIZE = (
    re.compile(r"maximum context length (?:is|of) (\d+).*?(\d+) tokens", re.I | re.S),
    re.compile(
        r"(?P<size>\d+) tokens.*?(?:context size|context length|context window)\D{0,20}(?P<limit>\d+)", re.I | re.S
    ),
    re.compile(r"(?P<size>\d+) tokens > (?P<limit>\d+)", re.I),
    re.compile(r"cannot exceed (?P<limit>\d+) - received (?P<size>\d+)", re.I),
    re.compile(r"token count \((?P<size>\d+)\) exceeds the maximum number of tokens allowed \((?P<limit>\d+)\)", re.I),
)
_BY = re.compile(r"limit exceeded by (\d+) tokens", re.I)
_KINDS = {
    "server_error": 500,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "insufficient_quota": 429,
    "authentication_error": 401,
    "invalid_request_error": 400,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "context_length_exceeded": 400,
    "invalid_prompt": 400,
}


def error_from_wire(
    status: int | None,
    body: Any,
    *,
    headers: Mapping[str, str] | None = None,
    text: str = "",
    who: str = "The provider",
) -> ModelError:
    """The error for a response of `status`, or for an error event in a stream (None).

    `body` is the decoded error object, with or without its `error` envelope; `text` stands in when it says nothing.
    """
    said: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
    inner = said.get("error")
    if isinstance(inner, Mapping):
        said = inner
    message = str(said.get("message") or (inner if isinstance(inner, str) else "") or text or "no reason given")
    code, kind = str(said.get("code") or ""), str(said.get("type") or "")
    if status is None:
        status = _KINDS.get(code) or _KINDS.get(kind)
    headers = headers or {}
    details: dict[str, Any] = {
        "status": status,
        "retry_after": retry_after_s(headers),
        "request_id": headers.get("x-request-id") or headers.get("request-id"),
    }
    told = f"{who} answered {status}: {message}" if status else f"{who} reported: {message}"
    if status in (400, 413, 422, 500) and (
        code == "context_length_exceeded" or kind == "exceed_context_size_error" or _TOO_LONG.search(message)
    ):
        return ContextOverflow(
            told,
            over=_over(said, message),
            hint="Trim or summarise the history, or use a model with more room.",
            **details,
        )
    if code in ("content_filter", "content_policy_violation"):
        return ModelRefusalError(told + _filtered(said), **details)
    if status in (401, 403):
        return ModelAuthenticationError(told, hint="Check the key, and what it may be used for.", **details)
    if status == 404:
        return ModelNotFound(told, hint="Check the model's name and base_url.", **details)
    if status == 429:
        error = ModelRateLimitError(
            told, hint="rate_limiter= holds calls back before they are sent; max_retries= waits longer.", **details
        )
        if code == "insufficient_quota" or kind == "insufficient_quota" or "Request too large" in message:
            error.retryable = False
            error.hint = "Waiting does not help: see to the account's quota, or ask for less."
        return error
    if status in (408, 409, 425) or (status is not None and status >= 500):
        hint = "It may pass: max_retries= tries longer, with_fallbacks([...]) asks another model."
        return ModelOverloaded(told, hint=hint, **details)
    if status is not None and 400 <= status < 500:
        return ModelBadRequest(told, hint=what_next(status, message, code), **details)
    return ModelError(told, **details)


def _filtered(said: Mapping[str, Any]) -> str:
    """What a filter of Azure's found, in words."""
    inside = said.get("innererror")
    found = inside.get("content_filter_result") if isinstance(inside, Mapping) else None
    if not isinstance(found, Mapping):
        return ""
    names = [name for name, each in found.items() if isinstance(each, Mapping) and each.get("filtered")]
    return f" (filtered: {', '.join(names)})" if names else ""


def _over(said: Mapping[str, Any], message: str) -> int | None:
    told = _BY.search(message)
    if told:
        return int(told[1])
    size, limit = said.get("n_prompt_tokens"), said.get("n_ctx")
    if not (isinstance(size, int) and isinstance(limit, int)):
        for pattern in _LIMIT_AND_SIZE:
            found = pattern.search(message)
            if found:
                named = found.groupdict()
                limit, size = int(named.get("limit") or found[1]), int(named.get("size") or found[2])
                break
        else:
            return None
    return size - limit if size > limit else None


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """How long the provider asks to wait, in seconds; None when it does not, or not in a way that can be read."""
    in_ms, told = headers.get("retry-after-ms"), headers.get("retry-after")
    for number, scale in ((in_ms, 1000), (told, 1)):
        if number is not None:
            with suppress(ValueError):
                return max(0.0, float(number) / scale)
    if told is None:
        return None
    from datetime import datetime
    from email.utils import parsedate_to_datetime

    try:
        until = parsedate_to_datetime(told)
    except ValueError:
        return None
    return max(0.0, (until - datetime.now(until.tzinfo)).total_seconds())
