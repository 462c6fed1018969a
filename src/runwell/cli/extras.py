"""The optional parts of an installation: which there are, and which are missing."""

from __future__ import annotations

import importlib.util
from importlib import metadata

from runwell.errors import MissingExtra

__all__ = ["EXTRAS", "installed", "require", "versions"]

EXTRAS = {
    "cli": ("typer", "rich", "prompt_toolkit"),
    "local": ("xllamacpp",),
    "anthropic": ("anthropic",),
    "cohere": ("cohere",),
    "bedrock": ("boto3",),
    "google": ("google.genai",),
    "mistral": ("mistralai",),
    "ollama": ("ollama",),
    "openai": ("openai",),
    "retrieval": ("bm25s", "numpy"),
    "jinja2": ("jinja2",),
    "postgres": ("psycopg", "psycopg_pool"),
    "encryption": ("cryptography",),
    "xml": ("defusedxml",),
    "redis": ("redis",),
    "mcp": ("mcp",),
    "sql": ("sqlalchemy",),
    "draw": ("mermaidx",),
    "prices": ("genai_prices",),
    "files": ("wcmatch",),
    "cassettes": ("vcr",),
    "rerank": ("fastembed",),
}
"""Extra → the packages that it brings, by the names they are imported under."""

_DISTRIBUTIONS = {
    "psycopg_pool": "psycopg-pool",
    "genai_prices": "genai-prices",
    "google.genai": "google-genai",
    "vcr": "vcrpy",
}


def installed(extra: str) -> bool:
    """Whether all of an extra can be imported."""
    return all(map(_is_there, EXTRAS[extra]))


def _is_there(part: str) -> bool:
    try:
        return importlib.util.find_spec(part) is not None
    except ModuleNotFoundError:  # of a package that another holds, which is not there either
        return False


def versions(extra: str) -> dict[str, str | None]:
    """The versions of an extra's packages; None for one that is missing."""
    found: dict[str, str | None] = {}
    for part in EXTRAS[extra]:
        try:
            found[part] = metadata.version(_DISTRIBUTIONS.get(part, part))
        except metadata.PackageNotFoundError:
            found[part] = None
    return found


def require(what: str, *extras: str) -> None:
    """Raise MissingExtra, naming every extra of these that is missing, before anything is begun."""
    missing = [extra for extra in extras if not installed(extra)]
    if missing:
        raise MissingExtra(what, ",".join(missing))
