"""A resource of Azure's: where it is, which deployment is asked, who pays, and the SDK's clients for it."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from pydantic import SecretStr

from runwell.errors import InvalidConfig, InvalidInput, MissingApiKey
from runwell.providers.clients import Clients
from runwell.providers.openai.account import OpenAIAccount
from runwell.providers.openai.clients import OpenAIClients, client_settings, direct, http_client
from runwell.runnables.fields import KeywordFields

__all__ = ["AzureClients", "AzureResource", "AzureSettings"]


class AzureClients(OpenAIClients):
    """Clients of `openai` for a resource: the plain one where the API has no version, else Azure's."""

    __slots__ = ()

    def make(self, model: Any) -> Any:
        from openai import AzureOpenAI, OpenAI

        kind = OpenAI if model.api_version is None else AzureOpenAI
        return direct(kind(http_client=http_client(model), **_settings(model, aio=False)), model)

    def make_async(self, model: Any) -> Any:
        from openai import AsyncAzureOpenAI, AsyncOpenAI

        kind = AsyncOpenAI if model.api_version is None else AsyncAzureOpenAI
        return direct(kind(http_client=http_client(model, aio=True), **_settings(model, aio=True)), model)


def _settings(model: Any, *, aio: bool) -> dict[str, Any]:
    settings = client_settings(model, aio=aio)
    if model.api_version is None:
        return settings
    settings["api_version"] = model.api_version
    if model.bears_token:
        key = settings.pop("api_key")
        settings["azure_ad_token" if isinstance(key, str) else "azure_ad_token_provider"] = key
    return settings


class AzureSettings(KeywordFields):
    """Arguments that say which deployment is asked, and who pays."""

    model: str = ""
    azure_endpoint: str | None = None
    azure_deployment: str | None = None
    api_version: str | None = None
    azure_ad_token: Any = None
    azure_ad_token_provider: Any = None


class AzureResource(AzureSettings, OpenAIAccount):
    """Mixed into an adapter on an API of OpenAI's: where a resource of Azure's is, which deployment is asked, and who
    pays."""

    provider: ClassVar[str] = "azure_openai"
    _aliases: ClassVar[dict[str, str]] = {
        **OpenAIAccount._aliases,
        "deployment_name": "azure_deployment",
        "openai_api_version": "api_version",
        "azure_ad_async_token_provider": "azure_ad_token_provider",
    }
    default_base_url: ClassVar[str] = ""
    url_variable: ClassVar[str] = "AZURE_OPENAI_ENDPOINT"
    key_variable: ClassVar[str] = "AZURE_OPENAI_API_KEY"
    clients: ClassVar[type[Clients]] = AzureClients

    def model_post_init(self, context: Any) -> None:
        self.azure_deployment = self.azure_deployment or self.model
        self.model = self.model or self.azure_deployment
        if self.api_version == "env":
            self.api_version = os.environ.get("OPENAI_API_VERSION")
        super().model_post_init(context)

    @property
    def bears_token(self) -> bool:
        """Whether a token of Entra's identifies the account, not a key."""
        return self._bears_token

    def _resolve_base_url(self) -> str:
        endpoint = self.azure_endpoint
        if endpoint and self.base_url and self.base_url != "env":
            raise InvalidConfig(
                f"azure_endpoint={endpoint!r} and base_url={self.base_url!r} both say where requests go.",
                hint="azure_endpoint is the resource's address; base_url a whole base URL, path and all.",
            )
        if endpoint == "env" or self.base_url == "env":
            self.base_url = None
            endpoint = os.environ.get(self.url_variable)
        if self.base_url is None and not endpoint:
            raise InvalidInput(
                f"{type(self).__name__} needs the address of a resource.",
                hint='azure_endpoint="https://NAME.openai.azure.com", or "env" for AZURE_OPENAI_ENDPOINT.',
            )
        if endpoint:
            self.base_url = endpoint.rstrip("/").removesuffix("/openai/v1").removesuffix("/openai")
            self.base_url += "/openai/v1" if self.api_version is None else "/openai"
        return super()._resolve_base_url()

    def _resolve_key(self) -> Any:
        given = {
            name: value
            for name in ("api_key", "azure_ad_token", "azure_ad_token_provider")
            if (value := getattr(self, name)) is not None
        }
        if len(given) > 1:
            raise InvalidConfig(f"{type(self).__name__} got {' and '.join(given)}: one says who pays.")
        token = self.azure_ad_token or self.azure_ad_token_provider
        self._bears_token = token is not None
        if self.azure_ad_token_provider is not None and not callable(self.azure_ad_token_provider):
            raise InvalidInput("azure_ad_token_provider is a function that gives a token.")
        if token is None and self.api_key is None and not os.environ.get(self.key_variable):
            token = os.environ.get("AZURE_OPENAI_AD_TOKEN")
            if not token:
                raise MissingApiKey(
                    f"{type(self).__name__} has no API key.",
                    hint="Set AZURE_OPENAI_API_KEY, or pass api_key=, azure_ad_token= or azure_ad_token_provider=.",
                )
            self._bears_token = True
        if not self._bears_token:
            return super()._resolve_key()
        if isinstance(token, str):
            token = SecretStr(token)
        self.azure_ad_token = token if self.azure_ad_token is not None else None
        return token

    @property
    def _sent_model(self) -> str:
        return str(self.azure_deployment)
