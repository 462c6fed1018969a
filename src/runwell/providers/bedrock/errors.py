"""Our errors for those that Bedrock's SDK raises, by the names that the API gives them."""

from __future__ import annotations

from typing import Any

from runwell.errors import ModelError, ModelTimeout
from runwell.models.wire_errors import error_from_wire

__all__ = ["error_of"]

_STATUS = {
    "throttlingexception": 429,
    "toomanyrequestsexception": 429,
    "servicequotaexceededexception": 429,
    "modelnotreadyexception": 503,
    "serviceunavailableexception": 503,
    "internalserverexception": 500,
    "internalfailure": 500,
    "modelerrorexception": 500,
    "modelstreamerrorexception": 500,
    "validationexception": 400,
    "accessdeniedexception": 403,
    "unrecognizedclientexception": 403,
    "invalidsignatureexception": 403,
    "expiredtokenexception": 403,
    "incompletesignature": 403,
    "resourcenotfoundexception": 404,
}
"""By the name in lower case: a stream writes it in another case than a response."""

_IN_PROFILES = "on-demand throughput"


def error_of(error: Any, who: str, model: str) -> ModelError:
    """The error for a refusal, or for an exception in the middle of a stream."""
    said = error.response
    told, about = said.get("Error") or {}, said.get("ResponseMetadata") or {}
    code = str(told.get("Code") or "")
    message = str(told.get("Message") or told.get("message") or said.get("message") or error)
    headers = {str(name).lower(): str(value) for name, value in (about.get("HTTPHeaders") or {}).items()}
    request_id = about.get("RequestId") or headers.get("x-amzn-requestid")
    if request_id:
        headers["x-request-id"] = request_id
    status = _STATUS.get(code.lower()) or about.get("HTTPStatusCode")
    known = code.lower() in _STATUS or not code or code.isdigit()
    text = message if known else f"{code}: {message}"
    if code.lower() == "modeltimeoutexception":
        return ModelTimeout(
            f"{who} answered 408: {message}",
            hint="The model took longer than Bedrock waits: ask for less, or stream.",
            status=408,
            request_id=request_id,
        )
    made = error_from_wire(status, {"message": text}, headers=headers, who=who)
    if _IN_PROFILES in message:
        made.hint = f'This model is called by an inference profile, such as "us.{model}" or "eu.{model}".'
    return made
