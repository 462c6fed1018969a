"""Leave most tools' descriptions to the provider, which finds them when the model looks for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from runwell.agents.middleware.marked_tools import (
    MarkedTools,
    Unsupported,
    check_unsupported,
    is_deferred,
    name_of,
    profile_of_model,
    unsupported,
)
from runwell.agents.middleware.middleware import AgentMiddleware
from runwell.agents.middleware.requests import ModelRequest
from runwell.agents.middleware.transient import check_tools
from runwell.effects import flow
from runwell.errors import InvalidInput
from runwell.observe.run import record_decision, watched
from runwell.ports.seat import Held
from runwell.schemas.arguments import checked_arguments
from runwell.tools.base_tool import BaseTool
from runwell.tools.provider_tool import ProviderTool

__all__ = ["ProviderToolSearchMiddleware"]

_log = logging.getLogger("runwell.agents")

SEARCH: dict[str, dict[str, ProviderTool]] = {
    "anthropic": {
        kind: ProviderTool(f"tool_search_tool_{kind}_20251119", {"name": f"tool_search_tool_{kind}"}, "anthropic")
        for kind in ("bm25", "regex")
    },
    "openai": dict.fromkeys(("bm25", "regex"), ProviderTool("tool_search", {}, "openai")),
}
"""The tools that search, by provider and kind."""


class ProviderToolSearchMiddleware(AgentMiddleware):
    """Marks tools as deferred (`defer_loading`) and adds the provider's own tool for finding them: a large toolbox then
    takes no room in the request until a tool is needed. Calls of found tools run as any others.

    `searchable_tools` are the tools (or names) to defer; those with `extras={"defer_loading": True}` are too. A tool
    that `tool_choice` forces is not. `search` is how Anthropic looks: "bm25" for words, "regex" for patterns.

    It works with models whose profile has `tool_search`. `unsupported`: for any other model "raise" raises
    `UnsupportedByProvider`, "warn" offers every tool whole and says so in the log once for a model, "ignore" does so
    in silence. `RetrievalToolSelectorMiddleware` works with any model.

    Seats: B5 (full toolbox or selection), A8 (which tools run at the provider).
    """

    @checked_arguments
    def __init__(
        self,
        *,
        searchable_tools: Sequence[Any] | None = None,
        search: Literal["bm25", "regex"] = "bm25",
        unsupported: Unsupported = "raise",
    ) -> None:
        if isinstance(searchable_tools, str):
            raise InvalidInput(f"searchable_tools={searchable_tools!r}.", hint="Pass a list of tools or names.")
        if search not in ("bm25", "regex"):
            raise InvalidInput(f"search={search!r}.", hint='It is "bm25" or "regex".')
        check_unsupported(unsupported, self.name)
        given = searchable_tools or ()
        self.searchable_tool_names = frozenset(each if isinstance(each, str) else each.name for each in given)
        self.search = search
        self.unsupported: Unsupported = unsupported
        self._tools = MarkedTools()
        self._deferred: frozenset[str] = frozenset()
        self._told: set[str] = set()

    def check(self, tools: dict[str, Any]) -> None:
        check_tools(self.searchable_tool_names, tools, self.name)
        own = {name for name, tool in tools.items() if isinstance(tool, BaseTool)}
        if at_provider := sorted(self.searchable_tool_names - own):
            raise InvalidInput(f"{self.name} cannot defer {at_provider}: the provider runs them.")
        deferred = self.searchable_tool_names | {name for name in own if is_deferred(tools[name])}
        if not deferred:
            raise InvalidInput(
                f"{self.name} defers no tool.",
                hint='Pass searchable_tools=[...], or make tools with extras={"defer_loading": True}.',
            )
        self._deferred |= deferred
        self._tools.learn(tools)

    def seats(self) -> Iterable[Held]:
        names = ", ".join(sorted(self._deferred))
        yield Held("B5", f"{names}: only when the provider's search finds them.", self.wrap_model_call, "external")
        yield Held("A8", f"{self.name} adds the provider's tool search.", self.wrap_model_call, adds=True)

    @flow
    async def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        return await handler(self._searching(request))

    def _searching(self, request: ModelRequest) -> ModelRequest:
        forced = request.tool_choice
        chosen = [tool for tool in request.tools if self._is_deferred(tool) and name_of(tool) != forced]
        if not chosen:
            return request
        provider = str(getattr(request.model, "provider", ""))
        if provider not in SEARCH or not profile_of_model(request.model).get("tool_search"):
            unsupported(self.unsupported, "a tool search", request.model, "tool_search", self._warn)
            return request
        names = {name_of(tool) for tool in chosen}
        tools = [
            self._tools.marked(tool, defer_loading=True) if name_of(tool) in names else tool for tool in request.tools
        ]
        kinds = {each.type for each in SEARCH[provider].values()}
        if not any(_type_of(tool) in kinds for tool in tools):
            tools.append(SEARCH[provider][self.search])
        if watched():
            reason = f"{len(names)} of {len(request.tools)} tools wait for the provider's search"
            record_decision("B5", f"deferred {', '.join(sorted(names))}", reason, "code")
        return request.override(tools=tools)

    def _is_deferred(self, tool: Any) -> bool:
        return self._tools.takes(tool) and (name_of(tool) in self._deferred or is_deferred(tool))

    def _warn(self, said: str) -> None:
        if said not in self._told:
            self._told.add(said)
            _log.warning("%s: %s; every tool is offered whole", self.name, said)


def _type_of(tool: Any) -> Any:
    return tool.get("type") if isinstance(tool, Mapping) else getattr(tool, "type", None)
