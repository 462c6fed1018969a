"""How many tokens the models used."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from runwell.observe.handlers import BaseCallbackHandler
from runwell.observe.llm_result import answer_of
from runwell.observe.run import observing

__all__ = ["UsageMetadataCallbackHandler", "get_usage_metadata_callback"]


class UsageMetadataCallbackHandler(BaseCallbackHandler):
    """`usage_metadata`: by model name, the tokens that all its calls used together.

    The name is the answer's `response_metadata["model_name"]`, else "unknown". `cost` is what they cost, in US dollars.
    Safe from several threads at once.
    """

    def __init__(self) -> None:
        self.usage_metadata: dict[str, dict[str, Any]] = {}
        self._calls: list[tuple[dict[str, Any], str | None, str, str | None]] = []
        self._lock = threading.Lock()

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        message = answer_of(response)
        usage = getattr(message, "usage_metadata", None)
        if not usage:
            return
        about = getattr(message, "response_metadata", None) or {}
        name = about.get("model_name") or about.get("model") or "unknown"
        with self._lock:
            self.usage_metadata[name] = _plus(self.usage_metadata.get(name, {}), usage)
            self._calls.append((usage, about.get("model_provider"), name, about.get("model_host")))

    @property
    def cost(self) -> float | None:
        """What all calls cost together, worked out when read; None when the price of one of them is not known."""
        price_of = import_module("runwell.models.prices").price_of  # a room above, not to import by name
        with self._lock:
            costs = [price_of(usage, provider, name, host=host) for usage, provider, name, host in self._calls]
        return None if None in costs else float(sum(costs))

    def __repr__(self) -> str:
        return f"UsageMetadataCallbackHandler({self.usage_metadata!r})"


def _plus(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Counts added, in depth."""
    total = dict(first)
    for key, value in second.items():
        if isinstance(value, Mapping):
            total[key] = _plus(total.get(key) or {}, value)
        elif isinstance(value, int | float):
            total[key] = (total.get(key) or 0) + value
    return total


@contextmanager
def get_usage_metadata_callback() -> Iterator[UsageMetadataCallbackHandler]:
    """Count the tokens of every model call in the `with` block: `with get_usage_metadata_callback() as usage: ...`."""
    handler = UsageMetadataCallbackHandler()
    with observing(handler):
        yield handler
