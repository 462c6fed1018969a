"""`runwell doctor`: what is installed, and what would leave this machine."""

from __future__ import annotations

import ctypes.util
import importlib.util
import os
import platform
import sqlite3
import sys
from importlib import metadata
from typing import Any
from urllib.parse import urlsplit

from runwell import __version__
from runwell.cli.screen import out, print_json

__all__ = ["doctor"]

EXTRAS = {
    "cli": ("typer", "rich", "prompt_toolkit"),
    "local": ("xllamacpp",),
    "openai": ("openai",),
    "retrieval": ("bm25s", "numpy"),
}
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "MISTRAL_API_KEY", "COHERE_API_KEY")
PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")
REROUTES = ("OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_BASE_URL")


def doctor(as_json: bool) -> None:
    """Print what there is."""
    found = report()
    if as_json:
        print_json(found)
        return
    out.print(f"runwell {found['runwell']} · Python {found['python']} · {found['system']} · SQLite {found['sqlite']}")
    out.print("\n[bold]Extras[/bold]")
    for name, extra in found["extras"].items():
        state = "installed" if extra["installed"] else f'missing: pip install "runwell\\[{name}]"'
        out.print(f"  {name:<10} {state}")
    for library, there in found["libraries"].items():
        if not there:
            out.print(f"  {library} is missing, which local models need: apt-get install {library}")
    out.print("\n[bold]Models on this machine[/bold]")
    for model in found["models"]:
        out.print(f"  local:{model['name']:<22} {model['path']}")
    if not found["models"]:
        out.print("  none yet: runwell models fetch")
    out.print("\n[bold]What would leave this machine[/bold]")
    for line in found["leaves"]:
        out.print(f"  {line}")


def report() -> dict[str, Any]:
    """The same as data. Names of keys only, never a value."""
    extras = {
        name: {"installed": all(importlib.util.find_spec(part) for part in parts), "versions": _versions(parts)}
        for name, parts in EXTRAS.items()
    }
    keys = [name for name in KEYS if os.environ.get(name)]
    proxies = {
        name: _host(value) for name in PROXIES if (value := os.environ.get(name) or os.environ.get(name.lower()))
    }
    return {
        "runwell": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "sqlite": sqlite3.sqlite_version,
        "extras": extras,
        "libraries": {name: bool(ctypes.util.find_library(part)) for name, part in _libraries().items()},
        "models": _models(),
        "keys": keys,
        "proxies": proxies,
        "leaves": _leaves(keys, proxies),
    }


def _libraries() -> dict[str, str]:
    return {"libgomp1": "gomp", "libstdc++6": "stdc++"} if sys.platform == "linux" else {}


def _versions(parts: tuple[str, ...]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for part in parts:
        try:
            found[part] = metadata.version(part)
        except metadata.PackageNotFoundError:
            found[part] = None
    return found


def _host(value: str) -> str:
    """A proxy's address without the password that may stand in it."""
    parts = urlsplit(value if "//" in value else f"//{value}")
    return f"{parts.hostname or value}{f':{parts.port}' if parts.port else ''}" if parts.hostname else value


def _models() -> list[dict[str, Any]]:
    from runwell.providers.local.fetch import cached

    return [{"name": model.name, "path": str(model.path), "size": model.size} for model in cached()]


def _leaves(keys: list[str], proxies: dict[str, str]) -> list[str]:
    lines = ["Nothing is exported or traced by default, and no environment variable turns that on."]
    for name in keys:
        lines.append(f"{name} is set: models of that provider can be called, and are sent what the program gives them.")
    if not keys:
        lines.append("No provider's API key is set: only local models and endpoints you name can be called.")
    for name, host in proxies.items():
        lines.append(f"{name} is set: providers' clients go through {host}.")
    for name in REROUTES:
        if os.environ.get(name):
            lines.append(
                f'{name} is set and ignored: a request goes elsewhere only with base_url= (or base_url="env").'
            )
    lines.append("Fetching a bundled model asks its vendor's site, then the package index pip is set up with.")
    if os.environ.get("RUNWELL_OFFLINE") == "1":
        lines.append("RUNWELL_OFFLINE=1: no model is fetched.")
    return lines
