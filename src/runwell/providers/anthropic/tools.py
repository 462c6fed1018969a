"""Tools that Anthropic runs itself."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

__all__ = ["SERVED"]

_DATE = re.compile(r"_\d{8}")


class _Dated(Collection[str]):
    """Types of tools, each in any version: a type may end in the date of one."""

    def __init__(self, *names: str) -> None:
        self._names = frozenset(names)

    def __contains__(self, kind: object) -> bool:
        return isinstance(kind, str) and (kind in self._names or _DATE.sub("", kind) in self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


SERVED: Final = _Dated(
    "web_search", "web_fetch", "code_execution", "tool_search_tool_regex", "tool_search_tool_bm25", "mcp_toolset"
)
"""Those that run there. Its shell, editor, memory and computer tools are described by it and run by the program."""
