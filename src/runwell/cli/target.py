"""Finding what `module:name` stands for."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from runwell.errors import InvalidInput, nearest

__all__ = ["load", "load_all"]


def load(target: str) -> Any:
    """The object that `module:name` (or `path/file.py:name`) names. Raises InvalidInput saying what is missing."""
    module, names = _split(target)
    return _found(module, names)


def load_all(targets: list[str]) -> list[Any]:
    """Objects from `module:name,name`, several times over; a list or tuple among them counts as its items."""
    found: list[Any] = []
    for target in targets:
        module, names = _split(target)
        for name in names.split(","):
            value = _found(module, name.strip())
            found.extend(value if isinstance(value, (list, tuple)) else [value])
    return found


def _split(target: str) -> tuple[str, str]:
    module, _, names = target.rpartition(":")
    if not module or not all(name.strip() for name in names.split(",")):
        raise InvalidInput(
            f"{target!r} is not of the form module:name.", hint="For instance my_app.agents:support or agent.py:agent."
        )
    return module, names


def _found(where: str, name: str) -> Any:
    found: Any = _module(where)
    for part in name.split("."):
        if not hasattr(found, part):
            known = [each for each in vars(found) if not each.startswith("_")] if hasattr(found, "__dict__") else []
            raise InvalidInput(
                f"{where!r} has no {name!r}{nearest(part, known)}.",
                hint=f"It has {', '.join(known[:20])}." if known else None,
            )
        found = getattr(found, part)
    return found


def _module(name: str) -> ModuleType:
    """A module by its dotted name, looked for in the current folder first, or by the path of a .py file."""
    if name.endswith(".py"):
        return _file(Path(name))
    if not all(name.split(".")) or "\0" in name:
        raise InvalidInput(f"{name!r} is not the name of a module.", hint="For instance my_app.agents.")
    here = str(Path.cwd())
    _look_in(here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise InvalidInput(
                f"There is no module {error.name!r}, looked for from {here!r}.",
                hint="Run the command where the module can be imported, or give the path of a .py file.",
            ) from error
        raise  # the module is there, and something that it imports is not


def _file(path: Path) -> ModuleType:
    """A file as `python file.py` would see it: what lies beside it can be imported."""
    if not path.is_file():
        raise InvalidInput(f"There is no file {str(path)!r}.", hint="Give the path of a .py file, or a module's name.")
    path, name = path.resolve(), path.stem
    known = sys.modules.get(name)
    if known is not None:
        if getattr(known, "__file__", None) == str(path):
            return known
        raise InvalidInput(
            f"{path.name!r} cannot be loaded: a module called {name!r} is there already.",
            hint="Rename the file.",
        )
    _look_in(str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # of a .py file there always is one
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _look_in(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)
