"""Whether the state has what an agent's tools take from it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from runwell.errors import ToolDefinitionError, nearest
from runwell.schemas.injection import NOTHING

__all__ = ["check_state_fields"]


def check_state_fields(tools: Iterable[Any], keys: Collection[str]) -> None:
    """Raise ToolDefinitionError for a tool that needs a field of the state which the state cannot have."""
    for tool in tools:
        definition = getattr(tool, "definition", None)
        for name, injected in getattr(definition, "injected", {}).items():
            field = injected.field
            if injected.kind == "state" and field is not None and field not in keys and injected.default is NOTHING:
                raise ToolDefinitionError(
                    f"{tool.origin}: the tool {tool.name!r} takes {field!r} of the state for its parameter {name!r}, "
                    f"and the state has no such key{nearest(field, keys) or '.'}",
                    hint="Add it to state_schema, or give the parameter a default.",
                )
