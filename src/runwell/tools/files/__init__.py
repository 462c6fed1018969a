"""Files inside one folder: paths that cannot leave it, which files a search sees, searching them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.tools.files.root import Located, RootFolder
    from runwell.tools.files.search import FileSearch
    from runwell.tools.files.walk import SearchRules

_HOME = {"FileSearch": "search", "Located": "root", "RootFolder": "root", "SearchRules": "walk"}

__all__ = ["FileSearch", "Located", "RootFolder", "SearchRules"]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"runwell.tools.files.{home}"), name)
    globals()[name] = value
    return value
