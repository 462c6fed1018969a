"""OpenAI's models in a resource of Azure's, through OpenAI's own SDK."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from runwell.providers.openai.azure_resource import AzureResource
from runwell.providers.openai.chat import ChatOpenAI

__all__ = ["AzureChatOpenAI"]


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

    _aliases: ClassVar[dict[str, str]] = {**AzureResource._aliases, **ChatOpenAI._aliases}
    _not_here: ClassVar[Mapping[str, str]] = {
        "openai_api_type": "leave it out; azure_ad_token= or azure_ad_token_provider= where Entra ID pays.",
        "model_version": "model=: the model behind the deployment, which prices and profile are looked up by.",
        "validate_base_url": "leave it out; azure_endpoint= is the resource's address, base_url= a whole base URL.",
        "azure_openai_api_key": "api_key=.",
        "azure_openai_endpoint": "azure_endpoint=.",
    }
    known_as: ClassVar[str] = "openai"

    @property
    def _at_openai(self) -> bool:
        return True
