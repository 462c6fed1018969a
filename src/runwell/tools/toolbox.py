"""A set of tools under distinct names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from runwell.errors import DuplicateTool, InvalidInput, ToolDefinitionError
from runwell.tools.base_tool import BaseTool
from runwell.tools.provider_tool import ProviderTool
from runwell.tools.structured import StructuredTool

__all__ = ["as_tool", "as_tools"]


def as_tool(given: Any, *, server_side: Collection[str] = ()) -> BaseTool | ProviderTool:
    """A tool as it is, a function as a tool; a dict as a ProviderTool if `server_side` has its `type` or its only key.

    Raises ToolDefinitionError for a dict that only describes a function: there would be nothing to run.
    """
    if isinstance(given, (BaseTool, ProviderTool)):
        return given
    if isinstance(given, Mapping):
        kind = given.get("type")
        if isinstance(kind, str) and kind in server_side:
            return ProviderTool.from_dict(given)
        if len(given) == 1 and kind is None:
            ((kind, config),) = given.items()
            if kind in server_side and isinstance(config, Mapping):
                return ProviderTool(kind, dict(config))
        known = f" The provider runs: {', '.join(sorted(server_side))}." if server_side else ""
        raise ToolDefinitionError(
            f"{dict(given)!r:.200} only describes a tool: nobody could run it.{known}",
            hint="Pass the function itself (@tool). For one that the provider runs, pass ProviderTool(type, {...}); "
            "to have a model ask for a call that you answer, use model.bind_tools.",
        )
    if callable(given) and not isinstance(given, type):
        return StructuredTool.from_function(given)
    raise ToolDefinitionError(f"{given!r} is not a tool.", hint="Pass functions, tools or a ProviderTool.")


def as_tools(
    given: Iterable[Any],
    *,
    server_side: Collection[str] = (),
    replace: bool = False,
    on_replace: Callable[[str, Any, Any], None] | None = None,
) -> dict[str, BaseTool | ProviderTool]:
    """Tools by name, in the order given. Two under one name raise DuplicateTool naming where both come from.

    With `replace` the later one wins, and `on_replace(name, old, new)` hears of it. The same object twice is one tool.
    """
    found: dict[str, BaseTool | ProviderTool] = {}
    listed: Any = given
    if isinstance(listed, (str, Mapping)) or not isinstance(listed, Iterable):
        raise InvalidInput(f"tools={listed!r:.100} is not a list.", hint="Pass a list of tools: [...].")
    for each in given:
        made = as_tool(each, server_side=server_side)
        old = found.get(made.name)
        if old is not None and old is not made:
            if not replace:
                raise DuplicateTool(
                    f"Two tools are called {made.name!r}: {old.origin} and {made.origin}.",
                    hint='Rename one (@tool("name")), or pass replace_tools=True to let the later one win.',
                )
            if on_replace is not None:
                on_replace(made.name, old, made)
        found[made.name] = made
    return found
