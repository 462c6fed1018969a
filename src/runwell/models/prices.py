"""What a model call costs, in US dollars."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Any

from runwell.errors import InvalidInput, MissingExtra
from runwell.schemas.arguments import check_fields

__all__ = ["FREE", "Price", "Prices", "cost_of", "has_price", "host_elsewhere", "price_of", "price_table"]

FREE = frozenset({"llamacpp", "lmstudio", "local", "ollama", "vllm"})
"""Providers whose models run on the program's own machines, unless their server is somewhere else."""
_TABLE_NAMES = {
    "azure_openai": "azure",
    "bedrock": "aws",
    "bedrock_converse": "aws",
    "google_genai": "google",
    "google_vertexai": "google",
    "mistralai": "mistral",
    "xai": "x-ai",
}
"""The price table's names of providers, where they differ from ours."""
_DATED = re.compile(r"-20\d\d-?\d\d-?\d\d\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars for a million tokens. `cached_input` (default: `input`) is for input out of the provider's cache."""

    input: float
    output: float
    cached_input: float | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("input", "output", "cached_input"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise InvalidInput(f"Price({name}={value!r}) is negative.")

    def of(self, usage: Mapping[str, Any]) -> float:
        """The price of what `usage_metadata` counts."""
        given, made = usage.get("input_tokens") or 0, usage.get("output_tokens") or 0
        read = (usage.get("input_token_details") or {}).get("cache_read") or 0
        cheaper = self.input if self.cached_input is None else self.cached_input
        return float((given - read) * self.input + read * cheaper + made * self.output) / 1e6


Prices = Mapping[str, Price]
"""Prices by model name. They go before the table's."""


def price_table() -> str:
    """The name and version of the table that prices are read from, and the day of the newest price in it. Raises
    MissingExtra where it is not installed."""
    return f"genai-prices {_table().__version__}, newest price of {_newest():%Y-%m-%d}"


@cache
def _newest() -> date:
    """The latest day, up to today, from which a price in the table holds: the table is at least of that day."""
    _table()
    from genai_prices.data import providers

    days = [
        start
        for provider in providers
        for model in provider.models
        if isinstance(model.prices, list | tuple)
        for each in model.prices
        if (start := getattr(each.constraint, "start_date", None)) is not None and start <= date.today()
    ]
    return max(days, default=date.min)


def host_elsewhere(url: str) -> str | None:
    """The host in a server's address, if it can be somebody else's: no address of this machine or of a private network,
    and no name that only such a network knows (`localhost`, `ollama`, `gpu.local`, `llm.internal`)."""
    from ipaddress import ip_address
    from urllib.parse import urlsplit

    host = (urlsplit(url).hostname or "").rstrip(".")
    try:
        address = ip_address(host)
    except ValueError:
        own = "." not in host or host.endswith((".localhost", ".local", ".internal", ".lan", ".home.arpa"))
        return None if own else host
    return None if address.is_private or address.is_loopback or address.is_link_local else host


def has_price(
    provider: str | None, model: str | None, prices: Prices | None = None, *, host: str | None = None
) -> bool:
    """Whether calls of a model can be priced. `host` as for `price_of`."""
    if (prices and model in prices) or (provider in FREE and host is None):
        return True
    if provider in FREE:
        return False
    return model is not None and _looked_up(provider, model, ()) is not None


def price_of(
    usage: Mapping[str, Any] | None,
    provider: str | None,
    model: str | None,
    prices: Prices | None = None,
    *,
    host: str | None = None,
) -> float | None:
    """What a call cost, in US dollars, by its `usage_metadata`; None when the model's price or the usage is unknown.

    `prices` of the caller's own go first; models that run on the program's own machines cost nothing; all others are
    looked up in the table of the `prices` extra (`genai-prices`), as it was when that package was released. Nothing is
    fetched. A dated snapshot of a model (`gpt-5.5-2026-04-23`) costs what the model does, unless it is listed itself.
    A model that its provider's list does not have costs None: the same name elsewhere is no answer. `host` is where
    a server stands that is not the program's own: what its operator asks for a model is not known.
    """
    if prices and model in prices:
        return None if usage is None else prices[str(model)].of(usage)
    if provider in FREE:
        return 0.0 if host is None else None
    if usage is None or model is None:
        return None
    details = usage.get("input_token_details") or {}
    counts = {
        "input_tokens": usage.get("input_tokens") or 0,
        "output_tokens": usage.get("output_tokens") or 0,
        "cache_read_tokens": details.get("cache_read") or 0,
        "cache_write_tokens": details.get("cache_creation") or 0,
        "input_audio_tokens": details.get("audio") or 0,
        "output_audio_tokens": (usage.get("output_token_details") or {}).get("audio") or 0,
    }
    return _looked_up(provider, model, tuple((name, count) for name, count in counts.items() if count))


def cost_of(message: Any, prices: Prices | None = None) -> float | None:
    """What the call behind a model's message cost, in US dollars; None when its price or its usage is not known.

    `message.cost` is this without prices of your own.
    """
    about = message.response_metadata
    model = about.get("model_name") or about.get("model")
    return price_of(message.usage_metadata, about.get("model_provider"), model, prices, host=about.get("model_host"))


def _looked_up(provider: str | None, model: str, counts: tuple[tuple[str, int], ...]) -> float | None:
    table = _table()
    known = _TABLE_NAMES.get(provider, provider) if provider else None
    for name in dict.fromkeys((model, _DATED.sub("", model))):
        try:
            return float(table.calc_price(table.Usage(**dict(counts)), name, provider_id=known).total_price)
        except (LookupError, ValueError):  # ValueError: counts that the model has no prices for
            continue
    return None


@cache
def _table() -> Any:
    try:
        import genai_prices
    except ImportError as error:
        raise MissingExtra("The price of a model call", "prices") from error
    return genai_prices
