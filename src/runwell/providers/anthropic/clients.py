"""Anthropic's SDK's clients, made so that only what the program says identifies the account, and nothing is traced."""

from __future__ import annotations

from typing import Any

from runwell.providers.certificates import trusted_by
from runwell.providers.clients import Clients, overruled_headers

__all__ = ["AnthropicClients"]


class AnthropicClients(Clients):
    """Clients of `anthropic`."""

    __slots__ = ()

    def make(self, model: Any) -> Any:
        from anthropic import Anthropic, DefaultHttpxClient

        http = model.http_client or DefaultHttpxClient(verify=trusted_by("httpx2"))
        return Anthropic(http_client=http, **_settings(model))

    def make_async(self, model: Any) -> Any:
        from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

        http = model.http_async_client or DefaultAsyncHttpxClient(verify=trusted_by("httpx2"))
        return AsyncAnthropic(http_client=http, **_settings(model))


def _settings(model: Any) -> dict[str, Any]:
    from anthropic import Omit

    key = model.api_key.get_secret_value()
    return {
        "api_key": key,
        "webhook_key": "",  # otherwise read from the environment
        "base_url": model.base_url,
        "max_retries": 0,
        "default_headers": {**overruled_headers("ANTHROPIC_CUSTOM_HEADERS", Omit, key), **model.default_headers},
        "default_query": model.default_query or None,
        # the SDK's own spans, which a variable can make carry content
        "open_telemetry": {"traces": {"enabled": False}, "propagation": False},
    }
