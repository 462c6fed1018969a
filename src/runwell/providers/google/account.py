"""Whom requests to Google come from and where they go: its developer API by key, or Vertex AI by project."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from runwell.errors import InvalidConfig, ModelAuthenticationError, ModelConnectionError, ModelTimeout
from runwell.providers.clients import Clients
from runwell.providers.google.clients import GoogleClients
from runwell.providers.google.errors import google_error
from runwell.providers.google.request import Request
from runwell.providers.http_library import REACH, ended, http_error, http_module
from runwell.providers.vendor_model import VendorModel

__all__ = ["GoogleAccount"]

_REGIONS_OF_MANY = ("us", "eu")


class GoogleAccount(VendorModel):
    """What a subclass is sent with. Nothing is asked of anybody when it is made."""

    model: str = ""
    vertexai: bool = False
    project: str | None = None
    location: str | None = None
    credentials: Any = None
    api_version: str | None = None

    sdk: ClassVar[str] = "google.genai"
    extra: ClassVar[str] = "google"
    default_base_url: ClassVar[str] = "https://generativelanguage.googleapis.com"
    url_variable: ClassVar[str] = "GOOGLE_GEMINI_BASE_URL"
    key_variable: ClassVar[str] = "GOOGLE_API_KEY"
    clients: ClassVar[type[Clients]] = GoogleClients
    http_library: ClassVar[tuple[str, ...]] = ("httpx2", "httpx")
    answers_with: ClassVar[str] = "an answer of Gemini's API"

    def model_post_init(self, context: Any) -> None:
        self._check_account()
        super().model_post_init(context)
        if self.api_version is None:
            self.api_version = "v1beta1" if self.vertexai else "v1beta"

    def _check_account(self) -> None:
        if not self.vertexai:
            for name in ("project", "location", "credentials"):
                if getattr(self, name) is not None:
                    raise InvalidConfig(
                        f"{name}= is of Vertex AI; the developer API knows only a key.", hint="Add vertexai=True."
                    )
        elif self.api_key is None and self.project is None:
            raise InvalidConfig(
                "Vertex AI needs the project that pays.",
                hint='project="my-project", with credentials= or the machine\'s own; or api_key= for express mode.',
            )
        elif self.api_key is not None and (self.project is not None or self.credentials is not None):
            raise InvalidConfig(
                "Vertex AI takes an api_key, or a project with credentials; got both.",
                hint="Leave api_key out, or project and credentials.",
            )
        elif self.project is not None and self.location is None:
            self.location = "global"

    def _resolve_base_url(self) -> str:
        if self.vertexai and self.base_url is None:
            where = self.location
            if where in (None, "global"):
                self.base_url = "https://aiplatform.googleapis.com"
            elif where in _REGIONS_OF_MANY:
                self.base_url = f"https://aiplatform.{where}.rep.googleapis.com"
            else:
                self.base_url = f"https://{where}-aiplatform.googleapis.com"
        return super()._resolve_base_url()

    def _resolve_key(self) -> Any:
        if self.vertexai and self.api_key is None:
            return None
        if self.api_key is None and not os.environ.get(self.key_variable):
            self.api_key = os.environ.get("GEMINI_API_KEY")
        return super()._resolve_key()

    def _path(self, method: str) -> str:
        name = self.model
        if self.vertexai and not name.startswith(("projects/", "publishers/")):
            publisher, slash, rest = name.removeprefix("models/").partition("/")
            name = f"publishers/{publisher}/models/{rest}" if slash else f"publishers/google/models/{publisher}"
        elif not self.vertexai and not name.startswith(("models/", "tunedModels/")):
            name = f"models/{name}"
        return f"{name}:{method}"

    def _options(self, client: Any, request: Request) -> dict[str, Any]:
        return {**request.options, "timeout": self._timeout(request.options["timeout"], _timeout_of(client.http))}

    def _sent(self, client: Any, request: Request) -> Any:
        return client.post(request.path, request.body, self._options(client, request))

    async def _asent(self, client: Any, request: Request) -> Any:
        return await client.post(request.path, request.body, self._options(client, request))

    def _not_to_show(self) -> list[str]:
        token = getattr(self.credentials, "token", None)
        return [*super()._not_to_show(), *([token] if isinstance(token, str) and token else [])]

    def _translated(self, error: Exception) -> Exception:
        """Our error for the SDK's, or for its HTTP client's, which it lets through."""
        from google.auth.exceptions import GoogleAuthError, TransportError
        from google.genai.errors import APIError, UnknownApiResponseError

        who = self.base_url or ""
        name = http_error(error)
        if name == "timeout":
            return ModelTimeout(
                f"{who} gave no answer in time.", hint="timeout= sets how long the first output may take."
            )
        if name == "transport":
            return ModelConnectionError(f"{who} was not reached, or the connection broke: {ended(error)}", hint=REACH)
        if isinstance(error, APIError):
            text = str(error.message or error.details)[:500]
            headers = getattr(error.response, "headers", None) or {}
            return google_error(error.code, error.details, headers=headers, text=text, who=who)
        if isinstance(error, UnknownApiResponseError):
            return self._unreadable("a stream event that is no JSON", error)
        if isinstance(error, TransportError) or (isinstance(error, GoogleAuthError) and error.retryable):
            return ModelConnectionError(f"Google was not reached for a token for {who}: {ended(error)}")
        if isinstance(error, GoogleAuthError):
            return ModelAuthenticationError(
                f"Google gave no token for {who}: {ended(error)}",
                hint="Pass credentials=, or see to the machine's own.",
            )
        return error


def _timeout_of(http: Any) -> Any:
    import httpx2

    return (http_module(http) or httpx2).Timeout
