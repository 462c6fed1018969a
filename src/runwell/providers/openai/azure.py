"""OpenAI's models in a resource of Azure's, through OpenAI's own SDK."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import SecretStr

from runwell.errors import InvalidConfig, InvalidInput, MissingApiKey
from runwell.providers.clients import Clients
from runwell.providers.openai.chat import ChatOpenAI
from runwell.providers.openai.clients import OpenAIClients, client_settings, direct

if TYPE_CHECKING:
    from runwell.providers.vendor_model import VendorModel as _Adapter
else:  # what it is mixed into is one
    _Adapter = object

__all__ = ["AzureChatOpenAI", "AzureClients", "AzureResource"]


class AzureClients(OpenAIClients):
    """Clients of `openai` for a resource: the plain one where the API has no version, else Azure's."""

    __slots__ = ()

    def make(self, model: Any) -> Any:
        from openai import AzureOpenAI, OpenAI

        kind = OpenAI if model.api_version is None else AzureOpenAI
        return direct(kind(http_client=model.http_client, **_settings(model, aio=False)), model)

    def make_async(self, model: Any) -> Any:
        from openai import AsyncAzureOpenAI, AsyncOpenAI

        kind = AsyncOpenAI if model.api_version is None else AsyncAzureOpenAI
        return direct(kind(http_client=model.http_async_client, **_settings(model, aio=True)), model)


def _settings(model: Any, *, aio: bool) -> dict[str, Any]:
    settings = client_settings(model, aio=aio)
    if model.api_version is None:
        return settings
    settings["api_version"] = model.api_version
    if model.bears_token:
        key = settings.pop("api_key")
        settings["azure_ad_token" if isinstance(key, str) else "azure_ad_token_provider"] = key
    return settings


class AzureResource(_Adapter):
    """For adapters: where a resource of Azure's is, which deployment is asked, and who pays."""

    model: str
    azure_endpoint: str | None
    azure_deployment: str | None
    api_version: str | None
    azure_ad_token: Any
    azure_ad_token_provider: Any

    azure_aliases: ClassVar[dict[str, str]] = {
        "deployment_name": "azure_deployment",
        "openai_api_version": "api_version",
        "azure_ad_async_token_provider": "azure_ad_token_provider",
    }

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


class AzureChatOpenAI(AzureResource, ChatOpenAI):
    """A model that is deployed in a resource of Azure's.

    `azure_endpoint` is the resource's address (`https://NAME.openai.azure.com`); "env" reads AZURE_OPENAI_ENDPOINT.
    `azure_deployment` is the deployment's name, `model` that of the model in it, whose profile holds; with one of them
    it stands for both. Without `api_version` requests go to the API that has none (`/openai/v1`), with one to the
    deployment's address in that version; "env" reads OPENAI_API_VERSION. `base_url` replaces the endpoint with a whole
    base URL.

    One of `api_key`, `azure_ad_token` and `azure_ad_token_provider`, a function of either colour that gives a token,
    says who pays; without any AZURE_OPENAI_API_KEY is read, then AZURE_OPENAI_AD_TOKEN. All else as for `ChatOpenAI`.
    What Azure's filters found is in `response_metadata` as `prompt_filter_results` and `content_filter_results`.
    """

    model: str = ""
    azure_endpoint: str | None = None
    azure_deployment: str | None = None
    api_version: str | None = None
    azure_ad_token: Any = None
    azure_ad_token_provider: Any = None

    provider: ClassVar[str] = "azure_openai"
    _aliases: ClassVar[dict[str, str]] = {
        **ChatOpenAI._aliases,
        **AzureResource.azure_aliases,
    }
    _not_here: ClassVar[Mapping[str, str]] = {
        "openai_api_type": "leave it out; azure_ad_token= or azure_ad_token_provider= where Entra ID pays.",
        "model_version": "model=: the model behind the deployment, which prices and profile are looked up by.",
        "validate_base_url": "leave it out; azure_endpoint= is the resource's address, base_url= a whole base URL.",
        "azure_openai_api_key": "api_key=.",
        "azure_openai_endpoint": "azure_endpoint=.",
    }
    default_base_url: ClassVar[str] = ""
    url_variable: ClassVar[str] = "AZURE_OPENAI_ENDPOINT"
    key_variable: ClassVar[str] = "AZURE_OPENAI_API_KEY"
    clients: ClassVar[type[Clients]] = AzureClients
    known_as: ClassVar[str] = "openai"

    @property
    def _at_openai(self) -> bool:
        return True
