"""Adapters on SDKs that one generator made, OpenAI's and Anthropic's: the same client, errors and streams in each."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from json import loads
from typing import Any, ClassVar

from runwell.errors import ModelConnectionError, ModelTimeout
from runwell.models.outputs import ChatResult
from runwell.models.wire_errors import error_from_wire
from runwell.providers.http_library import REACH, ended, http_error
from runwell.providers.vendor_model import VendorModel

__all__ = ["StainlessModel", "response_type"]

Request = tuple[dict[str, Any], dict[str, Any]]
"""(The body, what the SDK is told about sending it)."""


class StainlessModel(VendorModel):
    """A subclass says `path` and reads an answer (`_read`). The SDK's own typed resources are passed by: a body is sent
    as we write it and an answer read as the server wrote it, so that nothing a vendor adds is lost."""

    default_query: dict[str, Any] = {}

    path: ClassVar[str] = ""
    wanted: ClassVar[str] = ""
    """The key that each answer has."""

    def _read(self, answer: Mapping[str, Any], headers: Mapping[str, str], request: Request) -> ChatResult:
        """The result in a decoded answer."""
        raise NotImplementedError

    def _path(self, request: Request) -> str:
        return self.path

    def _wanted(self, request: Request) -> str:
        return self.wanted

    def _post(self, client: Any, request: Request) -> Any:
        body, options = request
        return client.post(self._path(request), body=body, cast_to=response_type(), options=options)

    async def _apost(self, client: Any, request: Request) -> Any:
        body, options = request
        return await client.post(self._path(request), body=body, cast_to=response_type(), options=options)

    def _begin(self, client: Any, request: Request) -> Any:
        kind = import_module(self.sdk).Stream[object]
        body, options = request
        return client.post(
            self._path(request), body=body, cast_to=object, options=options, stream=True, stream_cls=kind
        )

    async def _abegin(self, client: Any, request: Request) -> Any:
        kind = import_module(self.sdk).AsyncStream[object]
        body, options = request
        return await client.post(
            self._path(request), body=body, cast_to=object, options=options, stream=True, stream_cls=kind
        )

    def _result(self, answer: Any, request: Request) -> ChatResult:
        try:
            said = loads(answer.content)
        except ValueError as error:
            raise self._unreadable(f"{answer.text[:200]!r}", error) from None
        wanted = self._wanted(request)
        if not isinstance(said, dict) or not said.get(wanted):
            if isinstance(said, dict) and said.get("error"):  # with status 200
                raise error_from_wire(None, said, headers=answer.headers, who=self.base_url or "")
            if not isinstance(said, dict) or not self._may_be_empty(said):
                raise self._unreadable(f"{answer.text[:200]!r}", ValueError(f"no {wanted}"))
        return self._read(said, answer.headers, request)

    def _may_be_empty(self, answer: Mapping[str, Any]) -> bool:
        """Whether an answer that holds nothing under the wanted key is one all the same."""
        return False

    def _translated(self, error: Exception) -> Exception:
        """Our error for the SDK's, or for its HTTP client's, which an SDK lets through in the middle of a stream."""
        sdk = import_module(self.sdk)
        who = self.base_url or ""
        if isinstance(error, sdk.APITimeoutError) or http_error(error) == "timeout":
            return ModelTimeout(
                f"{who} gave no answer in time.", hint="timeout= sets how long the first output may take."
            )
        if isinstance(error, sdk.APIConnectionError) or http_error(error) == "transport":
            why = error.__cause__
            return ModelConnectionError(
                f"{who} was not reached, or the connection broke: {ended(why or error)}", hint=REACH
            )
        if isinstance(error, sdk.APIStatusError):
            response = error.response
            status = error.status_code if error.status_code >= 400 else None  # None: an event in a stream
            text = response.text[:500] if status else str(error)
            return error_from_wire(status, error.body, headers=response.headers, text=text, who=who)
        if isinstance(error, sdk.APIError):  # an error event in a stream
            return error_from_wire(None, error.body, text=error.message, who=who)
        if type(error).__name__ == "JSONDecodeError":
            return self._unreadable("a stream event that is no JSON", error)
        return error


def response_type() -> Any:
    """The SDK's HTTP client's response class: the answer is read from it as the server wrote it, nothing left out."""
    import httpx2

    return httpx2.Response
