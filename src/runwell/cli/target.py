"""Finding what `module:name` stands for."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from runwell.errors import InvalidInput, nearest

__all__ = ["load", "load_all"]


def _module(name: str) -> Any:
    """A module by its dotted name or by the path of a .py file; the current folder is looked in first."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    if name.endswith(".py"):
        path = Path(name)
        if not path.is_file():
            raise InvalidInput(f"There is no file {name!r}.", hint="Give the path of a .py file, or a module's name.")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(path.stem, module)
        spec.loader.exec_module(module)
        return module
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise InvalidInput(
                f"There is no module {error.name!r}, looked for from {here!r}.",
                hint="Run the command where the module can be imported, or give the path of a .py file.",
            ) from error
        raise


def load(target: str) -> Any:
    """The object that `module:name` (or `path/file.py:name`) names. Raises InvalidInput saying what is missing."""
    module, colon, name = target.rpartition(":")
    if not colon or not module or not name:
        raise InvalidInput(f"{target!r} is not of the form module:name.", hint="For instance my_app.agents:support.")
    found = _module(module)
    for part in name.split("."):
        if not hasattr(found, part):
            known = [each for each in vars(found) if not each.startswith("_")]
            raise InvalidInput(
                f"{module!r} has no {name!r}{nearest(part, known)}.", hint=f"It has {', '.join(known[:20])}."
            )
        found = getattr(found, part)
    return found


def load_all(targets: list[str]) -> list[Any]:
    """Objects from `module:name,name`, several times over; a list or tuple among them counts as its items."""
    found: list[Any] = []
    for target in targets:
        module, _, names = target.rpartition(":")
        for name in names.split(","):
            value = load(f"{module}:{name.strip()}")
            found.extend(value if isinstance(value, (list, tuple)) else [value])
    return found
