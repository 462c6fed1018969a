"""What tools cost: their descriptions are part of every request."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from runwell.errors import InvalidInput
from runwell.schemas.dialects import function_definition

__all__ = ["ToolCost", "tool_cost"]

CHARS_PER_TOKEN = 4


class ToolCost(NamedTuple):
    """The tokens one tool adds to every request it is offered in."""

    name: str
    tokens: int


def tool_cost(tools: Iterable[Any], model: Any = None) -> list[ToolCost]:
    """Tokens per tool, the largest first.

    With a `model` that counts (`get_num_tokens(text)`) they are as exact as its tokenizer; otherwise four characters of
    compact JSON count as one.
    """
    if hasattr(tools, "name") or isinstance(tools, (str, Mapping)):
        raise InvalidInput(f"tool_cost got {tools!r:.100}, which is no list of tools.", hint="tool_cost([tool, ...])")
    count = getattr(model, "get_num_tokens", None)
    costs = []
    for each in tools:
        offered = function_definition(each)
        function = offered.get("function")
        name = (function or offered).get("name") or getattr(each, "name", offered.get("type"))
        text = json.dumps(offered, ensure_ascii=False, separators=(",", ":"))
        costs.append(ToolCost(str(name), count(text) if count is not None else -(-len(text) // CHARS_PER_TOKEN)))
    return sorted(costs, key=lambda cost: -cost.tokens)
