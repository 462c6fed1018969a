"""Tools that are ready to use: a calculator, the web, a database, files, Python, a retriever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.tools.kits.addresses import Destinations
    from runwell.tools.kits.arithmetic import evaluate
    from runwell.tools.kits.calculating import calculator
    from runwell.tools.kits.fetch_url import fetch_tool
    from runwell.tools.kits.fetching import Fetched, Fetcher
    from runwell.tools.kits.file_management import file_tools
    from runwell.tools.kits.python import python_tool
    from runwell.tools.kits.retriever import create_retriever_tool
    from runwell.tools.kits.sql import SqlDatabase, sql_tools

_HOME = {
    "Destinations": "addresses",
    "Fetched": "fetching",
    "Fetcher": "fetching",
    "SqlDatabase": "sql",
    "calculator": "calculating",
    "create_retriever_tool": "retriever",
    "evaluate": "arithmetic",
    "fetch_tool": "fetch_url",
    "file_tools": "file_management",
    "python_tool": "python",
    "sql_tools": "sql",
}

__all__ = [
    "Destinations",
    "Fetched",
    "Fetcher",
    "SqlDatabase",
    "calculator",
    "create_retriever_tool",
    "evaluate",
    "fetch_tool",
    "file_tools",
    "python_tool",
    "sql_tools",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"runwell.tools.kits.{home}"), name)
    globals()[name] = value
    return value
