"""A chat model that is settled at each call, by the call's config."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

from runwell.errors import InvalidConfig, InvalidInput, UnknownModel, nearest
from runwell.messages.message import AIMessage
from runwell.runnables.config import RunnableConfig
from runwell.runnables.configurable import DynamicRunnable, Kept, frozen
from runwell.runnables.configurable_spec import ConfigurableFieldSpec
from runwell.runnables.runnable import Runnable

__all__ = ["ConfigurableModel"]

_NAMED = ("model", "model_provider")
_DERIVE = frozenset({"bind", "bind_tools", "with_max_retries", "with_structured_output"})
"""Methods whose effect waits until a model is settled on."""


class ConfigurableModel(DynamicRunnable[Any, AIMessage]):
    """What `init_chat_model` gives where the model is chosen at call time.

    `make` is `init_chat_model` and `defaults` are arguments of it; the config of a call may set those in `fields`
    ("any": all) under `configurable`, each with `prefix_` before its name if there is a prefix. Models that were made
    are kept. What is asked of it before (`bind_tools`, `with_structured_output`, ...) is done to whichever is chosen.
    """

    def __init__(
        self,
        make: Callable[..., Any],
        defaults: Mapping[str, Any],
        fields: Literal["any"] | Sequence[str],
        prefix: str = "",
        steps: tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...] = (),
        kept: Kept | None = None,
    ) -> None:
        self.name = None
        self._own_config = None
        self.streams_snapshots = False
        self._make = make
        self.defaults = dict(defaults)
        self.fields: Literal["any"] | tuple[str, ...] = "any" if fields == "any" else tuple(fields)
        self.prefix = prefix
        self.steps = steps
        self._models = kept if kept is not None else Kept()
        self._derived = Kept()

    # -- settling

    @property
    def bound(self) -> Runnable[Any, AIMessage]:  # type: ignore[override]
        """The model of a call that chooses nothing. Raises UnknownModel where there is no default."""
        return self._settled({})

    def prepare(self, config: RunnableConfig | None = None) -> tuple[Runnable[Any, AIMessage], RunnableConfig | None]:
        return self._settled(self._chosen(self._configurable(config))), config

    def _chosen(self, configurable: Mapping[str, Any]) -> dict[str, Any]:
        start = f"{self.prefix}_" if self.prefix else ""
        if self.fields != "any":
            unknown = [
                name
                for name in configurable
                if start and name.startswith(start) and name.removeprefix(start) not in self.fields
            ]
            if unknown:
                known = [f"{start}{field}" for field in self.fields]
                raise InvalidConfig(
                    f"configurable {unknown[0]!r} is none of what this model lets a config set"
                    f"{nearest(unknown[0], known)}.",
                    hint=f"It lets it set {', '.join(map(repr, known))}.",
                )
            return {field: configurable[start + field] for field in self.fields if start + field in configurable}
        if start:
            return {name.removeprefix(start): value for name, value in configurable.items() if name.startswith(start)}
        return {name: value for name, value in configurable.items() if not name.startswith(_OTHERS)}

    def _settled(self, chosen: Mapping[str, Any]) -> Runnable[Any, AIMessage]:
        given = {**self.defaults, **chosen}
        if not given.get("model"):
            where = f"{self.prefix}_model" if self.prefix else "model"
            raise UnknownModel(
                "No model was chosen for this call.",
                hint=f'Choose one: invoke(..., {{"configurable": {{"{where}": "openai:gpt-5.5"}}}}).',
            )
        key = tuple((name, frozen(value)) for name, value in sorted(given.items()))
        model = self._models.get(key, lambda: self._make(**given))
        if not self.steps:
            return cast("Runnable[Any, AIMessage]", model)
        # the model is kept beside what was made of it, so its id cannot be another's meanwhile
        made: tuple[Runnable[Any, AIMessage], Any] = self._derived.get(id(model), lambda: (self._stepped(model), model))
        return made[0]

    def _stepped(self, model: Any) -> Any:
        for name, args, kwargs in self.steps:
            model = getattr(model, name)(*args, **kwargs)
        return model

    # -- deriving

    def bind(self, **kwargs: Any) -> ConfigurableModel:
        return self._then("bind", (), kwargs)

    def _then(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ConfigurableModel:
        step = (name, args, kwargs)
        then = ConfigurableModel(self._make, self.defaults, self.fields, self.prefix, (*self.steps, step), self._models)
        if self.defaults.get("model"):
            then._settled({})  # what the default model cannot do is said now
        return then

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in _DERIVE:
            derive: Callable[..., Any] = lambda *args, **kwargs: self._then(name, args, kwargs)  # noqa: E731
            return derive
        if not self.defaults.get("model"):
            raise AttributeError(f"{self!r} has no {name!r} before a model is chosen.")
        return getattr(self.bound, name)

    # -- being looked at

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        return f"{name or self.name or 'ConfigurableModel'}{suffix or ''}"

    def _own_specs(self) -> list[ConfigurableFieldSpec]:
        start = f"{self.prefix}_" if self.prefix else ""
        fields = _NAMED if self.fields == "any" else self.fields
        return [
            ConfigurableFieldSpec(start + field, Any, field, None, self.defaults.get(field), False) for field in fields
        ]

    def __repr__(self) -> str:
        said = {"default": self.defaults.get("model"), "fields": self.fields, "prefix": self.prefix}
        shown = ", ".join(f"{name}={value!r}" for name, value in said.items() if value)
        return f"ConfigurableModel({shown})" + "".join(f".{name}(...)" for name, _, _ in self.steps)


_OTHERS = ("thread_id", "checkpoint", "__", "session_id")
"""What configs hold besides models' arguments."""


def configurable_model(
    make: Callable[..., Any],
    given: Mapping[str, Any],
    fields: Literal["any"] | Sequence[str] | None,
    prefix: str | None,
) -> ConfigurableModel:
    """The model for `init_chat_model(..., configurable_fields=fields, config_prefix=prefix)`."""
    if fields is None:
        fields = _NAMED
    if isinstance(fields, str) and fields != "any":
        raise InvalidInput(f"configurable_fields={fields!r} is no list.", hint=f'[{fields!r}], or "any".')
    if not fields or not all(isinstance(field, str) for field in fields):
        raise InvalidInput(
            f"configurable_fields={fields!r}.", hint='Give names of arguments, such as ["model", "temperature"].'
        )
    prefix = prefix or ""
    if not isinstance(prefix, str):
        raise InvalidInput(f"config_prefix={prefix!r} is no text.")
    made = ConfigurableModel(make, given, fields, prefix.removesuffix("_"))
    if given.get("model"):
        made._settled({})  # a default that cannot be made is said now
    return made
