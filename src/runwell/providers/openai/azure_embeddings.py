"""OpenAI's embeddings in a resource of Azure's, through OpenAI's own SDK."""

from __future__ import annotations

from typing import Any, ClassVar

from runwell.providers.openai.azure import AzureChatOpenAI
from runwell.providers.openai.chat import ChatOpenAI
from runwell.providers.openai.embeddings import OpenAIEmbeddings

__all__ = ["AzureOpenAIEmbeddings"]


class AzureOpenAIEmbeddings(OpenAIEmbeddings):
    """Text to vectors by a model that is deployed in a resource of Azure's.

    Address, version and who pays are said as for `AzureChatOpenAI`, all else as for `OpenAIEmbeddings`.
    """

    model: str = ""
    azure_endpoint: str | None = None
    azure_deployment: str | None = None
    api_version: str | None = None
    azure_ad_token: Any = None
    azure_ad_token_provider: Any = None

    _shared: ClassVar[tuple[str, ...]] = (
        *OpenAIEmbeddings._shared,
        *("azure_endpoint", "azure_deployment", "api_version", "azure_ad_token", "azure_ad_token_provider"),
    )
    _aliases: ClassVar[dict[str, str]] = {
        **OpenAIEmbeddings._aliases,
        "deployment": "azure_deployment",
        "openai_api_version": "api_version",
    }

    @property
    def _account_class(self) -> type[ChatOpenAI]:
        return AzureChatOpenAI

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        account: Any = self._account
        self.model, self.azure_deployment = account.model, account.azure_deployment
        self.azure_ad_token = account.azure_ad_token
        if account.bears_token:
            self.api_key = None
