"""What OpenAI's kinds of models have in common: the account, how a request is sent, and what goes into each."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from runwell.errors import UnsupportedByProvider
from runwell.providers.clients import Clients
from runwell.providers.openai.clients import OpenAIClients
from runwell.providers.stainless import StainlessModel
from runwell.providers.vendor_model import CLIENT, PROXY

__all__ = ["SENT_APART", "OpenAIAccount"]

SENT_APART = frozenset({"timeout", "extra_body", "extra_headers", "extra_query"})
"""Arguments of a call that are no fields of its body, or come last."""


class OpenAIAccount(StainlessModel):
    """An account at OpenAI, or at a server of one of its APIs. A subclass says the `path` of its API, and in `passed`
    which of its arguments go into each request as they are."""

    organization: str | None = None
    project: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: list[str] | str | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, int] | None = None
    user: str | None = None
    stream_usage: bool = True
    """Ask for the token counts at the end of a stream."""

    provider: ClassVar[str] = "openai"
    passed: ClassVar[tuple[str, ...]] = ()
    _aliases: ClassVar[dict[str, str]] = {
        "model_name": "model",
        "openai_api_key": "api_key",
        "openai_api_base": "base_url",
        "openai_organization": "organization",
        "request_timeout": "timeout",
        "stop_sequences": "stop",
    }
    _not_here: ClassVar[Mapping[str, str]] = {"openai_proxy": PROXY, "root_client": CLIENT, "root_async_client": CLIENT}
    several: ClassVar[str] = "model.batch([prompt] * n)"
    """How to get more than one answer, for errors."""

    sdk: ClassVar[str] = "openai"
    extra: ClassVar[str] = "openai"
    default_base_url: ClassVar[str] = "https://api.openai.com/v1"
    url_variable: ClassVar[str] = "OPENAI_BASE_URL"
    key_variable: ClassVar[str] = "OPENAI_API_KEY"
    key_may_be_a_function: ClassVar[bool] = True
    clients: ClassVar[type[Clients]] = OpenAIClients
    http_library: ClassVar[tuple[str, ...]] = ("httpx2", "httpx")
    wanted: ClassVar[str] = "choices"

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        if self.base_url == OpenAIAccount.default_base_url:  # account settings, which are no other server's business
            self.organization = self.organization or os.environ.get("OPENAI_ORG_ID")
            self.project = self.project or os.environ.get("OPENAI_PROJECT_ID")

    @property
    def _sent_model(self) -> str:
        return self.model_name

    def _fill(self, body: dict[str, Any], stop: Any) -> None:
        """Add what the model itself asks for."""
        body.update((name, value) for name in self.passed if (value := getattr(self, name)) is not None)
        stop = stop if stop is not None else self.stop
        if stop:
            body["stop"] = [stop] if isinstance(stop, str) else list(stop)
        body.update(self.model_kwargs)

    def _finish(self, body: dict[str, Any], kwargs: Mapping[str, Any], stream: bool) -> None:
        """Add what comes last, and raise UnsupportedByProvider for more than one answer to a call."""
        if body.get("n", 1) != 1:
            raise UnsupportedByProvider(
                f"A call gives one answer; got n={body['n']!r}.", hint=f"For several: {self.several}."
            )
        if stream:
            body["stream"] = True
            if self.stream_usage:
                body["stream_options"] = {"include_usage": True}
        body.update(self.extra_body)
        body.update(kwargs.get("extra_body") or {})

    def _options(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """What the SDK is told about sending a request."""
        from openai import Timeout

        options = {"security": {"bearer_auth": True}, "timeout": self._timeout(kwargs.get("timeout"), Timeout)}
        for ours, theirs in (("extra_headers", "headers"), ("extra_query", "params")):
            if kwargs.get(ours):
                options[theirs] = kwargs[ours]
        return options
