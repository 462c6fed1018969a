"""From a string to what turns text into vectors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from runwell.errors import UnknownModel, nearest
from runwell.models.init import EMBEDDINGS_GROUP, known_providers, load, prefix_of

if TYPE_CHECKING:
    from runwell.ports.embeddings import Embeddings

__all__ = ["init_embeddings"]

# As with chat models, a name alone decides only where one provider is meant beyond doubt.
_FAMILIES: Final = (
    (re.compile(r"text-embedding-(3-(small|large)|ada-002)$"), "openai"),
    (re.compile(r"gemini-embedding-|models/gemini-embedding-|text-embedding-00[45]$"), "google_genai"),
    (re.compile(r"(mistral|codestral)-embed"), "mistralai"),
    (re.compile(r"embed-(english|multilingual)(-light)?-v[23]|embed-v4"), "cohere"),
    (
        re.compile(
            r"((us|us-gov|eu|apac|global)\.)?(amazon\.(titan-embed|nova-2-multimodal-embeddings)|cohere\.embed)-"
        ),
        "bedrock",
    ),
)
_ANYBODY: Final = re.compile(r"(nomic|mxbai|bge|e5|gte|all-minilm|all-MiniLM|snowflake|jina|qwen3-embedding)", re.I)


def init_embeddings(model: str, *, provider: str | None = None, **kwargs: Any) -> Embeddings:
    """The embeddings that a string names, constructed with `kwargs` (dimensions, base_url, api_key, ...).

    `"openai:text-embedding-3-small"` names provider and model, by the rules of `init_chat_model`: without a known
    prefix the whole string is a model's name, whose provider is inferred only where the family leaves no doubt.
    `provider=` settles it, and then `model` is used as it stands.

    Raises UnknownModel, MissingExtra and MissingApiKey before any network is used. A third party adds a provider with
    an entry point in the group `runwell.embeddings`: a class that takes `model=` and keyword arguments.
    """
    if type(model) is not str or not model.strip():
        raise UnknownModel(f"Embeddings are named by a string like 'openai:text-embedding-3-small'; got {model!r}.")
    name = model
    if provider is None:
        prefix, colon, rest = model.partition(":")
        prefix = prefix_of(prefix) if colon else ""
        if prefix and prefix in known_providers(EMBEDDINGS_GROUP):
            if not rest:
                raise UnknownModel(f"{model!r} names a provider and no model.", hint=f'Write "{prefix}:<model>".')
            provider, name = prefix, rest
        else:
            provider = _inferred(model)
    made: Embeddings = load(prefix_of(provider), model, EMBEDDINGS_GROUP)(model=name, **kwargs)
    return made


def _inferred(name: str) -> str:
    for pattern, provider in _FAMILIES:
        if pattern.match(name):
            return provider
    known = known_providers(EMBEDDINGS_GROUP)
    if _ANYBODY.match(name):
        raise UnknownModel(
            f"{name!r} is served by many providers, and the name does not say which is meant.",
            hint=f'Say it: "openai:{name}" with the base_url= of a server of OpenAI\'s API; known: {", ".join(known)}.',
        )
    prefix, colon, _ = name.partition(":")
    raise UnknownModel(
        f"No provider is known for the embeddings {name!r}{nearest(prefix, known) if colon else ''}.",
        hint=f'Write "provider:model"; known providers: {", ".join(known)}.',
    )
