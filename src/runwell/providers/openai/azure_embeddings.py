"""OpenAI's embeddings in a resource of Azure's, through OpenAI's own SDK."""

from __future__ import annotations

from typing import Any, ClassVar

from runwell.providers.openai.azure import AzureChatOpenAI
from runwell.providers.openai.azure_resource import AzureSettings
from runwell.providers.openai.embeddings import OpenAIEmbeddings

__all__ = ["AzureOpenAIEmbeddings"]


class AzureOpenAIEmbeddings(AzureSettings, OpenAIEmbeddings):
    """Text to vectors by a model that is deployed in a resource of Azure's.

    Address, version and who pays are said as for `AzureChatOpenAI`, all else as for `OpenAIEmbeddings`.
    """

    _shared: ClassVar[tuple[str, ...]] = (*OpenAIEmbeddings._shared, *AzureSettings._fields)
    _aliases: ClassVar[dict[str, str]] = {
        **OpenAIEmbeddings._aliases,
        "deployment": "azure_deployment",
        "openai_api_version": "api_version",
    }

    def _make_account(self, shared: dict[str, Any]) -> AzureChatOpenAI:
        return AzureChatOpenAI(**shared)

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        account: Any = self._account
        self.model, self.azure_deployment = account.model, account.azure_deployment
        self.azure_ad_token = account.azure_ad_token
        if account.bears_token:
            self.api_key = None
