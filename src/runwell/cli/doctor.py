"""`runwell doctor`: what is installed, and what would leave this machine."""

from __future__ import annotations

import ctypes
import os
import platform
import sqlite3
import sys
from typing import Any
from urllib.parse import urlsplit

from runwell import __version__
from runwell.cli.extras import EXTRAS, installed, versions
from runwell.cli.screen import out, print_json, safe

__all__ = ["doctor"]

KEYS = {
    "OPENAI_API_KEY": "openai",
    "ANTHROPIC_API_KEY": "anthropic",
    "GOOGLE_API_KEY": "google_genai",
    "GEMINI_API_KEY": "google_genai",
    "MISTRAL_API_KEY": "mistralai",
    "COHERE_API_KEY": "cohere",
    "AWS_BEARER_TOKEN_BEDROCK": "bedrock_converse",
}
"""Variable → the provider whose key it holds."""
PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
REROUTES = ("OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL")


def doctor(as_json: bool) -> None:
    """Print what there is."""
    found = report()
    if as_json:
        print_json(found)
        return
    out.print(f"runwell {found['runwell']} · Python {found['python']} · {found['system']} · SQLite {found['sqlite']}")
    out.print("\nExtras", style="bold")
    for name, extra in found["extras"].items():
        state = "installed" if extra["installed"] else f'missing: pip install "runwell[{name}]"'
        out.print(f"  {name:<10} {state}")
    for library, there in found["libraries"].items():
        if not there:
            out.print(f"  {library} is missing, which local models need: apt-get install {library}")
    out.print(f"\nProviders  {', '.join(found['providers'])}", style="bold")
    out.print("\nModels on this machine", style="bold")
    for model in found["models"]:
        out.print(f"  local:{model['name']:<22} {model['path']}")
    if not found["models"]:
        out.print(f"  none yet in {found['models_folder']}: runwell models fetch")
    out.print("\nWhat would leave this machine", style="bold")
    for line in found["leaves"]:
        out.print(f"  {safe(line)}")


def report() -> dict[str, Any]:
    """The same as data. Of variables that may hold a secret only the name, never the value."""
    from runwell.models.init import known_providers
    from runwell.providers.local.cache import models_dir, offline

    providers = known_providers()
    keys = [name for name in KEYS if os.environ.get(name)]
    proxies = {
        name: _host(value) for name in PROXIES if (value := os.environ.get(name) or os.environ.get(name.lower()))
    }
    return {
        "runwell": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "sqlite": sqlite3.sqlite_version,
        "extras": {name: {"installed": installed(name), "versions": versions(name)} for name in EXTRAS},
        "libraries": _libraries(),
        "providers": providers,
        "models_folder": str(models_dir()),
        "models": _models(),
        "offline": offline(),
        "keys": keys,
        "proxies": proxies,
        "leaves": _leaves(keys, proxies, providers, offline()),
    }


def _libraries() -> dict[str, bool]:
    """The system's libraries that llama.cpp needs, by their Debian names: whether they load."""
    if sys.platform != "linux":
        return {}
    return {package: _loads(file) for package, file in (("libgomp1", "libgomp.so.1"), ("libstdc++6", "libstdc++.so.6"))}


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _host(value: str) -> str:
    """A proxy's address without the name and password that may stand in it."""
    try:
        parts = urlsplit(value if "//" in value else f"//{value}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    return "an address that cannot be read" if host is None else f"{host}:{port}" if port else host


def _models() -> list[dict[str, Any]]:
    from runwell.providers.local.fetch import cached

    return [{"name": model.name, "path": str(model.path), "size": model.size} for model in cached()]


def _leaves(keys: list[str], proxies: dict[str, str], providers: list[str], offline: bool) -> list[str]:
    lines = ["Nothing is exported or traced by default, and no environment variable turns that on."]
    for name in keys:
        if KEYS[name] in providers:
            lines.append(
                f"{name} is set: {KEYS[name]}: models can be called, and are sent what the program gives them."
            )
        else:
            lines.append(f"{name} is set, and no provider that would use it is installed.")
    if not any(KEYS[name] in providers for name in keys):
        lines.append("No provider's API key is set: only local models and endpoints you name can be called.")
    for name, host in proxies.items():
        lines.append(f"{name} is set: providers' clients and fetches go through {host}.")
    if proxies and (os.environ.get("NO_PROXY") or os.environ.get("no_proxy")):
        lines.append("NO_PROXY is set: some hosts are reached without the proxy.")
    for name in REROUTES:
        if os.environ.get(name):
            lines.append(f'{name} is set and not used: requests go elsewhere only with base_url= (or base_url="env").')
    if offline:
        lines.append("RUNWELL_OFFLINE is set: no model is fetched.")
    else:
        lines.append("Fetching a bundled model asks its vendor's site, then the package index pip is set up with.")
    return lines
