"""Tools that a wrap_model_call hook offers in a turn without their being the agent's: they run in that turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runwell.agents.middleware.requests import ModelRequest
from runwell.errors import DuplicateTool
from runwell.tools.base_tool import BaseTool
from runwell.tools.provider_tool import ProviderTool
from runwell.tools.toolbox import as_tool

__all__ = ["LentTools", "about", "lent_in"]

KEPT = 1024
"""Calls of lent tools that are remembered at once, over all runs of an agent in this process."""


class LentTools:
    """Which tool a call of such a tool means. A tool cannot be saved: another process does not know it."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: dict[Any, BaseTool] = {}

    def remember(self, run: Any, call_id: str, tool: BaseTool) -> None:
        """A call of this run means this tool."""
        self._calls[_key(run, call_id)] = tool
        while len(self._calls) > KEPT:
            self._calls.pop(next(iter(self._calls)), None)

    def find(self, run: Any, call: Mapping[str, Any]) -> BaseTool | None:
        """The tool that a call means, if it was lent for it."""
        found = self._calls.get(_key(run, call["id"])) if self._calls else None
        return found if found is not None and found.name == call["name"] else None


def _key(run: Any, call_id: str) -> Any:
    return run.thread_id or run.run_id, run.ns, call_id


def lent_in(request: ModelRequest, own: Mapping[str, Any]) -> tuple[ModelRequest, dict[str, Any]]:
    """The request with its functions made tools, and those of its tools that are not the agent's own, by name."""
    tools = [each if isinstance(each, (BaseTool, ProviderTool, Mapping)) else as_tool(each) for each in request.tools]
    named: dict[str, Any] = {}
    for each in tools:
        if isinstance(each, BaseTool):
            if named.get(each.name, each) is not each:
                raise DuplicateTool(
                    f"A wrap_model_call hook offers two tools called {each.name!r}: {named[each.name].origin} and "
                    f"{each.origin}.",
                    hint="Offer one of them.",
                )
            named[each.name] = each
    lent = {name: tool for name, tool in named.items() if own.get(name) is not tool}
    if any(made is not given for made, given in zip(tools, request.tools, strict=True)):
        request = request.override(tools=tools)
    return request, lent


def about(tools: Mapping[str, BaseTool]) -> dict[str, dict[str, Any]]:
    """What must be known of lent tools when their calls are routed and gated, in a form that can be saved."""
    return {
        name: {"exclusive": tool.exclusive, "return_direct": tool.return_direct, "destructive": bool(tool.destructive)}
        for name, tool in tools.items()
    }
