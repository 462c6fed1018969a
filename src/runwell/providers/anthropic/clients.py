"""Anthropic's SDK's clients, made so that only what the program says identifies the account, and nothing is traced."""

from __future__ import annotations

from typing import Any

from runwell.providers.clients import Clients, overruled_headers

__all__ = ["AnthropicClients"]


class AnthropicClients(Clients):
    """Clients of `anthropic`."""

    __slots__ = ()

    def make(self, model: Any) -> Any:
        from anthropic import Anthropic

        return Anthropic(http_client=model.http_client, **_settings(model))

    def make_async(self, model: Any) -> Any:
        from anthropic import AsyncAnthropic

        return AsyncAnthropic(http_client=model.http_async_client, **_settings(model))


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
