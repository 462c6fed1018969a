"""From a string to a chat model: which provider a name means, and that provider's class."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, overload

from runwell.errors import InvalidConfig, InvalidInput, MissingExtra, UnknownModel, nearest

if TYPE_CHECKING:
    from runwell.models.chat_model import BaseChatModel
    from runwell.models.configurable import ConfigurableModel

__all__ = ["EMBEDDINGS_GROUP", "infer_provider", "init_chat_model", "known_providers", "load", "prefix_of"]

GROUP: Final = "runwell.providers"

# Ours, so that a checkout works that nobody installed. Everybody else's come by entry point.
_OURS: Final = {
    "azure_openai": "runwell.providers.openai:AzureChatOpenAI",
    "anthropic": "runwell.providers.anthropic:ChatAnthropic",
    "bedrock_converse": "runwell.providers.bedrock:ChatBedrockConverse",
    "cohere": "runwell.providers.cohere:ChatCohere",
    "google_genai": "runwell.providers.google:ChatGoogleGenerativeAI",
    "google_vertexai": "runwell.providers.google:ChatVertexAI",
    "mistralai": "runwell.providers.mistral:ChatMistralAI",
    "ollama": "runwell.providers.ollama:ChatOllama",
    "local": "runwell.providers.local:LocalChatModel",
    "openai": "runwell.providers.openai:ChatOpenAI",
}

# Other prefixes that mean one of them.
_ALSO: Final = {"bedrock": _OURS["bedrock_converse"]}
# Servers of OpenAI's chat completions API.
_OPENAI_LIKE: Final = {
    prefix: f"runwell.providers.openai:{name}"
    for prefix, name in {
        "deepseek": "ChatDeepSeek",
        "fireworks": "ChatFireworks",
        "groq": "ChatGroq",
        "llamacpp": "ChatLlamaServer",
        "lmstudio": "ChatLMStudio",
        "openrouter": "ChatOpenRouter",
        "together": "ChatTogether",
        "vllm": "ChatVLLM",
        "xai": "ChatXAI",
    }.items()
}

EMBEDDINGS_GROUP: Final = "runwell.embeddings"
_OUR_EMBEDDINGS: Final = {
    "bedrock": "runwell.providers.bedrock:BedrockEmbeddings",
    "azure_openai": "runwell.providers.openai:AzureOpenAIEmbeddings",
    "cohere": "runwell.providers.cohere:CohereEmbeddings",
    "google_genai": "runwell.providers.google:GoogleGenerativeAIEmbeddings",
    "mistralai": "runwell.providers.mistral:MistralAIEmbeddings",
    "ollama": "runwell.providers.ollama:OllamaEmbeddings",
    "openai": "runwell.providers.openai:OpenAIEmbeddings",
}

# Other names for a prefix.
_SAME: Final = {"google": "google_genai"}

# A name alone decides only where one provider is meant beyond doubt. First match wins; the patterns do not overlap.
_FAMILIES: Final = (
    (re.compile(r"(ft:)?gpt-\d|o\d(-|$)|chatgpt-|codex-mini-latest$"), "openai"),
    (re.compile(r"claude-"), "anthropic"),
    (re.compile(r"gemini-"), "google_genai"),
    (
        re.compile(
            r"((us|us-gov|eu|apac|au|jp|ca|global)\.)?"
            r"(amazon|anthropic|meta|mistral|cohere|ai21|deepseek|openai|qwen|writer|minimax|moonshotai|nvidia|zai)\."
            r"|arn:aws[\w-]*:bedrock:"
        ),
        "bedrock_converse",
    ),
    (re.compile(r"(mistral|ministral|magistral|codestral|devstral|pixtral)-.*latest$"), "mistralai"),
    (re.compile(r"command-(a|r)"), "cohere"),
    (re.compile(r"grok-"), "xai"),
    (re.compile(r"deepseek-(chat|reasoner)$"), "deepseek"),
    (re.compile(r".+\.gguf$"), "local"),
)

# Open weights that many serve.
_ANYBODY: Final = re.compile(
    r"(gpt-oss|llama|meta-llama|qwen|mistral|mixtral|gemma|phi|deepseek|smollm|granite|glm|kimi)", re.I
)
_OPEN_HOSTS: Final = ("local", "ollama", "vllm", "openai")
_OLLAMA_TAG: Final = re.compile(r"[\w./-]+:(latest|[\w.-]*\d+(\.\d+)?[bm][\w.-]*)\Z", re.I)


@cache
def _providers(group: str = GROUP) -> dict[str, Any]:
    """Where each provider's class is: `"module:Class"` for ours, an entry point for others."""
    from importlib.metadata import entry_points

    ours = {**_OURS, **_ALSO, **_OPENAI_LIKE} if group == GROUP else _OUR_EMBEDDINGS
    found: dict[str, Any] = dict(ours)
    for point in entry_points(group=group):
        if found.setdefault(point.name, point) is not point and point.value != ours.get(point.name):
            raise InvalidConfig(
                f"Two providers are called {point.name!r}: {found[point.name]} and {point.value}.",
                hint=f"Uninstall one, or rename its {group!r} entry point.",
            )
    return found


def known_providers(group: str = GROUP) -> list[str]:
    """The prefixes that `init_chat_model` takes, in order; of `init_embeddings` with its group."""
    return sorted(_providers(group))


def infer_provider(name: str) -> str:
    """The provider a bare model name means beyond doubt; otherwise UnknownModel, with the candidates."""
    for pattern, provider in _FAMILIES:
        if pattern.match(name):
            return provider
    if _OLLAMA_TAG.match(name):
        raise UnknownModel(
            f"{name!r} starts with no known provider; known: {', '.join(known_providers())}.",
            hint=f'It looks like an Ollama tag; if so: "ollama:{name}".',
        )
    if _ANYBODY.match(name):
        candidates = ", ".join(f'"{host}:{name}"' for host in _OPEN_HOSTS)
        raise UnknownModel(
            f"{name!r} is served by many providers, and the name does not say which is meant.",
            hint=f"Say it: {candidates} (with base_url= for an OpenAI-compatible server), ...",
        )
    prefix, colon, _ = name.partition(":")
    raise UnknownModel(
        f"No provider is known for the model {name!r}{nearest(prefix, known_providers()) if colon else ''}.",
        hint=f'Write "provider:model"; known providers: {", ".join(known_providers())}.',
    )


@overload
def init_chat_model(model: str, *, model_provider: str | None = None, **kwargs: Any) -> BaseChatModel: ...


@overload
def init_chat_model(
    model: str | None = None,
    *,
    model_provider: str | None = None,
    configurable_fields: Literal["any"] | Sequence[str] | None = None,
    config_prefix: str | None = None,
    **kwargs: Any,
) -> ConfigurableModel: ...


def init_chat_model(
    model: str | None = None,
    *,
    model_provider: str | None = None,
    configurable_fields: Literal["any"] | Sequence[str] | None = None,
    config_prefix: str | None = None,
    **kwargs: Any,
) -> Any:
    """The chat model that a string names, constructed with `kwargs` (temperature, max_tokens, timeout, base_url, ...).

    `"openai:gpt-5.5"` names provider and model. Without a known prefix the whole string is taken as a model's name,
    colons included, and its provider inferred if the family leaves no doubt (`gpt-5.5`, `claude-...`); it is never
    guessed. `model_provider=` settles it, and then `model` is used as it stands.

    Without a model (or with `""`) each call's config chooses: `{"configurable": {"model": "openai:gpt-5.5"}}`.
    `configurable_fields` are the arguments that a config may set, `model` and `model_provider` unless given; with a
    model they have it as their default. "any" lets a config set all, `base_url` and `api_key` too: only where every
    caller is trusted. With `config_prefix="first"` the keys are `first_model` and so on.

    Raises UnknownModel for a name that says too little, MissingExtra when the provider's part is not installed and
    MissingApiKey when its key is not set, all before any network is used. A third party adds a provider with an entry
    point in the group `runwell.providers`: a class that takes `model=` and keyword arguments.
    """
    if model is None or model == "" or configurable_fields is not None or config_prefix is not None:
        from runwell.models.configurable import configurable_model

        if config_prefix is not None and model and configurable_fields is None:
            raise InvalidInput(
                f"config_prefix={config_prefix!r}, and no configurable_fields.",
                hint='Say what a config may set: configurable_fields=["model"].',
            )
        given = {"model": model or None, "model_provider": model_provider, **kwargs}
        given = {name: value for name, value in given.items() if value is not None}
        return configurable_model(init_chat_model, given, configurable_fields, config_prefix)
    if type(model) is not str or not model.strip():
        raise UnknownModel(f"A model is named by a string like 'openai:gpt-5.5'; got {model!r}.")
    if model_provider is not None:
        return _made(prefix_of(model_provider), model, model, kwargs)
    prefix, colon, rest = model.partition(":")
    prefix = prefix_of(prefix) if colon else ""
    if prefix and prefix in _providers():
        if not rest:
            raise UnknownModel(f"{model!r} names a provider and no model.", hint=f'Write "{prefix}:<model>".')
        return _made(prefix, rest, model, kwargs)
    return _made(infer_provider(model), model, model, kwargs)


def prefix_of(given: str) -> str:
    """A provider's prefix, however it is spelt."""
    name = given.replace("-", "_")
    return _SAME.get(name, name)


def _made(provider: str, name: str, asked: str, kwargs: dict[str, Any]) -> BaseChatModel:
    made: BaseChatModel = load(provider, asked)(model=name, **kwargs)
    return made


def load(provider: str, model: str, group: str = GROUP) -> Any:
    """The provider's class."""
    place = _providers(group).get(provider)
    if place is None:
        known = known_providers(group)
        raise UnknownModel(
            f"{model!r} is a model of provider {provider!r}, which is not installed here{nearest(provider, known)}.",
            hint=f"Installed: {', '.join(known)}. An adapter registers in the entry point group {group!r}.",
        )
    try:
        if isinstance(place, str):
            module, _, name = place.partition(":")
            return getattr(import_module(module), name)
        return place.load()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "runwell":
            raise
        raise MissingExtra(f"The provider {provider!r}", provider) from error
