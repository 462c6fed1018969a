"""Tools that the provider runs on its own side: web search, code execution, file search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runwell.errors import ToolDefinitionError

__all__ = ["ProviderTool"]


@dataclass(slots=True)
class ProviderTool:
    """A tool the provider runs: `ProviderTool("web_search", {"search_context_size": "low"})`.

    `type` and `config` go into the request as they are. `provider` limits it to one provider, so that a fallback to
    another leaves it out or refuses it; None means the type alone decides. `name` is what it is called among the
    agent's tools, by default the name in `config`, else the type.
    """

    type: str
    config: dict[str, Any] = field(default_factory=dict)
    provider: str | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if not self.type or self.type == "function":
            raise ToolDefinitionError(
                f"ProviderTool: {self.type!r} is not the type of a tool that a provider runs.",
                hint="A function that you run is a tool of its own: decorate it with @tool.",
            )
        if "type" in self.config:
            raise ToolDefinitionError(
                "ProviderTool: the type is the first argument, not a key of config.",
                hint='ProviderTool("web_search", {...})',
            )
        self.name = self.name or str(self.config.get("name", self.type))

    @classmethod
    def from_dict(cls, declared: Mapping[str, Any], provider: str | None = None) -> ProviderTool:
        """From the provider's own form, `{"type": "web_search", ...}`."""
        config = dict(declared)
        return cls(config.pop("type", ""), config, provider)

    @property
    def origin(self) -> str:
        return f"provider tool {self.type!r}"

    def to_dict(self) -> dict[str, Any]:
        """What the request carries."""
        return {"type": self.type, **self.config}
