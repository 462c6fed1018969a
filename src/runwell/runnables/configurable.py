"""Runnables whose values, or which themselves, are settled by the config of a call."""

from __future__ import annotations

import copy
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from enum import Enum
from typing import Any, Literal

from runwell.errors import InvalidConfig, InvalidInput, nearest
from runwell.observe.context import CURRENT
from runwell.runnables.coerce import coerce_to_runnable
from runwell.runnables.config import RunnableConfig, merge_configs
from runwell.runnables.configurable_spec import (
    AnyConfigurableField,
    ConfigurableField,
    ConfigurableFieldMultiOption,
    ConfigurableFieldSpec,
)
from runwell.runnables.runnable import Input, Output, Runnable
from runwell.runnables.wrapper import RunnableWrapper

__all__ = ["DynamicRunnable", "Kept", "RunnableConfigurableAlternatives", "RunnableConfigurableFields", "frozen"]

_KEPT = 32
"""How many variants of a runnable are kept, so that each keeps its connections from call to call."""


_STRUCTURE = frozenset(
    {"alternatives", "bound", "branches", "fallbacks", "func", "mapper", "runnable", "runnables", "steps"}
)
"""What runnables are made of. One that is settled later has none of its default's."""


class DynamicRunnable(RunnableWrapper[Input, Output]):
    """Settles at each call which runnable is called: `bound` when the config says nothing.

    Methods of `bound` that make another runnable (`bind_tools`, `with_structured_output`, ...) are applied to
    whatever is settled on.
    """

    def prepare(self, config: RunnableConfig | None = None) -> tuple[Runnable[Input, Output], RunnableConfig | None]:
        """The runnable that a call with this config would call, and the config it would get."""
        raise NotImplementedError

    def _configurable(self, config: Mapping[str, Any] | None) -> Mapping[str, Any]:
        run = CURRENT.get()
        inherited = run.configurable if run is not None else {}
        given = (config or {}).get("configurable")
        return {**inherited, **given} if given else inherited

    def invoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        runnable, config = self.prepare(config)
        return runnable.invoke(input, config, **kwargs)

    async def ainvoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        runnable, config = self.prepare(config)
        return await runnable.ainvoke(input, config, **kwargs)

    def stream(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Output]:
        runnable, config = self.prepare(config)
        return runnable.stream(input, config, **kwargs)

    def astream(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Output]:
        runnable, config = self.prepare(config)
        return runnable.astream(input, config, **kwargs)

    def transform(
        self, input: Iterator[Input], config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Output]:
        runnable, config = self.prepare(config)
        return runnable.transform(input, config, **kwargs)

    def atransform(
        self, input: AsyncIterator[Input], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Output]:
        runnable, config = self.prepare(config)
        return runnable.atransform(input, config, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in _STRUCTURE:
            raise AttributeError(name)
        found = getattr(self.bound, name)
        if not inspect.ismethod(found):
            return found

        def apply(*args: Any, **kwargs: Any) -> Any:
            made = found(*args, **kwargs)
            if not isinstance(made, Runnable):
                return made
            return AppliedRunnable(self, made, lambda runnable: getattr(runnable, name)(*args, **kwargs))

        return apply


class AppliedRunnable(DynamicRunnable[Input, Output]):
    """What a method makes of whatever another dynamic runnable settles on."""

    def __init__(self, source: DynamicRunnable[Any, Any], default: Any, apply: Callable[[Any], Any]) -> None:
        super().__init__(default)
        self.source = source
        self._apply = apply
        self._kept = Kept()

    def prepare(self, config: RunnableConfig | None = None) -> tuple[Runnable[Input, Output], RunnableConfig | None]:
        settled, config = self.source.prepare(config)
        if settled is self.source.bound:
            return self.bound, config
        # The settled runnable is kept beside what was made of it, so its id cannot be another's meanwhile.
        return self._kept.get(id(settled), lambda: (self._apply(settled), settled))[0], config

    def _own_specs(self) -> list[ConfigurableFieldSpec]:
        specs: list[ConfigurableFieldSpec] = self.source._own_specs()
        return specs

    def __repr__(self) -> str:
        return repr(self.bound)


class RunnableConfigurableFields(DynamicRunnable[Input, Output]):
    """`bound` with values that the config may set; see `Runnable.configurable_fields`."""

    def __init__(self, bound: Runnable[Input, Output], fields: Mapping[str, AnyConfigurableField]) -> None:
        super().__init__(bound)
        known = _settable(bound)
        for name, field in fields.items():
            if name not in known:
                raise InvalidInput(
                    f"{bound.get_name()!r} has no value {name!r} to configure{nearest(name, known)}.",
                    hint=f"It has {', '.join(sorted(known)) or 'none'}.",
                )
            if not isinstance(field, AnyConfigurableField):
                raise InvalidInput(
                    f"{name}={field!r:.200} does not say how it is configured.",
                    hint=f'Pass {name}=ConfigurableField(id="{name}").',
                )
        self.fields = dict(fields)
        self._kept = Kept()

    def prepare(self, config: RunnableConfig | None = None) -> tuple[Runnable[Input, Output], RunnableConfig | None]:
        configurable = self._configurable(config)
        chosen = {
            name: (configurable[field.id], field) for name, field in self.fields.items() if field.id in configurable
        }
        for name, field in self.fields.items():
            if name not in chosen and not isinstance(field, ConfigurableField):
                chosen[name] = (field.default, field)
        if not chosen:
            return self.bound, config
        values = {
            name: value if isinstance(field, ConfigurableField) else field.value(value)
            for name, (value, field) in chosen.items()
        }
        key = tuple((name, frozen(value)) for name, (value, _) in chosen.items())
        return self._kept.get(key, lambda: replaced(self.bound, values)), config

    def _own_specs(self) -> list[ConfigurableFieldSpec]:
        return [_spec_of(field, getattr(self.bound, name)) for name, field in self.fields.items()]

    def __repr__(self) -> str:
        return f"{self.bound!r}.configurable_fields({', '.join(self.fields)})"


class RunnableConfigurableAlternatives(DynamicRunnable[Input, Output]):
    """One of several runnables, chosen by the config; see `Runnable.configurable_alternatives`."""

    def __init__(
        self,
        which: ConfigurableField,
        bound: Runnable[Input, Output],
        alternatives: Mapping[str, Any],
        *,
        default_key: str = "default",
        prefix_keys: bool = False,
    ) -> None:
        super().__init__(bound)
        if not isinstance(which, ConfigurableField):
            raise InvalidInput(f"{which!r:.200} is no ConfigurableField.", hint='ConfigurableField(id="llm")')
        if default_key in alternatives:
            raise InvalidInput(
                f"The default and an alternative are both called {default_key!r}.", hint="Pass another default_key."
            )
        self.which = which
        self.default_key = default_key
        self.prefix_keys = prefix_keys
        self.alternatives: dict[str, Any] = {
            key: step
            if not isinstance(step, Runnable) and callable(step) and _makes(step)
            else coerce_to_runnable(step, f"The alternative {key!r}")
            for key, step in alternatives.items()
        }
        self._lock = threading.Lock()

    def _alternative(self, key: str) -> Runnable[Any, Any]:
        step = self.alternatives[key]
        if not isinstance(step, Runnable):  # made when first chosen, once
            with self._lock:
                step = self.alternatives[key]
                if not isinstance(step, Runnable):
                    step = self.alternatives[key] = coerce_to_runnable(step(), f"The alternative {key!r}")
        return step

    def prepare(self, config: RunnableConfig | None = None) -> tuple[Runnable[Input, Output], RunnableConfig | None]:
        configurable = self._configurable(config)
        which = configurable.get(self.which.id, self.default_key)
        if isinstance(which, Enum):
            which = which.value
        keys = (self.default_key, *self.alternatives)
        if which not in keys:
            raise InvalidConfig(
                f"configurable {self.which.id!r} has no alternative {which!r}{nearest(str(which), keys)}.",
                hint=f"There are {', '.join(map(repr, keys))}.",
            )
        runnable = self.bound if which == self.default_key else self._alternative(which)
        if self.prefix_keys:
            prefix = self._prefix(which)
            own = {key.removeprefix(prefix): value for key, value in configurable.items() if key.startswith(prefix)}
            if own:
                config = merge_configs(config, {"configurable": own})
        return runnable, config

    def _prefix(self, key: str) -> str:
        return f"{self.which.id}=={key}/"

    def _own_specs(self) -> list[ConfigurableFieldSpec]:
        from runwell.runnables.anatomy import config_specs

        keys = [self.default_key, *self.alternatives]
        annotation = self.which.annotation if self.which.annotation is not None else Literal[tuple(keys)]
        specs = [
            ConfigurableFieldSpec(
                self.which.id,
                annotation,
                self.which.name,
                self.which.description,
                self.default_key,
                self.which.is_shared,
            )
        ]
        for key in keys:
            runnable = self.bound if key == self.default_key else self._alternative(key)
            inner = config_specs(runnable)
            specs += [spec.prefixed(self._prefix(key)) for spec in inner] if self.prefix_keys else inner
        return specs

    def __repr__(self) -> str:
        others = "".join(f", {key}={step!r}" for key, step in self.alternatives.items())
        return f"{self.bound!r}.configurable_alternatives({self.which.id!r}, default_key={self.default_key!r}{others})"


class Kept:
    """The last few things made, by key."""

    def __init__(self) -> None:
        self._made: dict[Any, Any] = {}
        self._lock = threading.Lock()

    def get(self, key: Any, make: Callable[[], Any]) -> Any:
        try:
            found = self._made.get(key)
        except TypeError:  # a value without a hash
            return make()
        if found is None:
            found = make()
            with self._lock:
                found = self._made.setdefault(key, found)
                if len(self._made) > _KEPT:
                    del self._made[next(iter(self._made))]
        return found


def frozen(value: Any) -> Any:
    """Something with a hash that differs where the value differs: 1, 1.0 and True are three values."""
    return (type(value), tuple(value)) if isinstance(value, list) else (type(value), value)


def _makes(function: Any) -> bool:
    """Whether it is called without arguments, to make an alternative; a step takes one."""
    try:
        return not inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _settable(runnable: Any) -> list[str]:
    fields = getattr(type(runnable), "_fields", None)
    if isinstance(fields, dict):
        return list(fields)
    return [name for name in vars(runnable) if not name.startswith("_")]


def replaced(runnable: Any, values: Mapping[str, Any]) -> Any:
    """A copy with other values, made by its constructor where that takes all that it is made of."""
    own = getattr(runnable, "model_copy", None)
    if own is not None:
        return own(update=dict(values))
    parameters = inspect.signature(type(runnable)).parameters
    plain = all(each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY) for each in parameters.values())
    stored = vars(runnable)
    needed = {name for name, each in parameters.items() if each.default is each.empty}
    if plain and set(values) <= set(parameters) and needed <= set(stored):
        return type(runnable)(**{**{name: stored[name] for name in parameters if name in stored}, **values})
    twin = copy.copy(runnable)
    for name, value in values.items():
        setattr(twin, name, value)
    return twin


def _spec_of(field: AnyConfigurableField, default: Any) -> ConfigurableFieldSpec:
    if isinstance(field, ConfigurableField):
        annotation = field.annotation if field.annotation is not None else type(default) if default is not None else Any
        return ConfigurableFieldSpec(field.id, annotation, field.name, field.description, default, field.is_shared)
    keys: Any = Literal[tuple(field.options)]
    annotation = list[keys] if isinstance(field, ConfigurableFieldMultiOption) else keys
    shown: Any = list(field.default) if isinstance(field, ConfigurableFieldMultiOption) else field.default
    return ConfigurableFieldSpec(field.id, annotation, field.name, field.description, shown, field.is_shared)
