"""What a caller may set by `config={"configurable": {...}}`, said in code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runwell.errors import InvalidConfig, InvalidInput, nearest

__all__ = [
    "AnyConfigurableField",
    "ConfigurableField",
    "ConfigurableFieldMultiOption",
    "ConfigurableFieldSingleOption",
    "ConfigurableFieldSpec",
    "unique_specs",
]


@dataclass(frozen=True)
class ConfigurableField:
    """A value of a runnable that the config may set, under `id`.

    `is_shared`: it is never prefixed with the key of an alternative that it is in.
    """

    id: str
    name: str | None = None
    description: str | None = None
    annotation: Any = None
    is_shared: bool = False


@dataclass(frozen=True)
class ConfigurableFieldSingleOption:
    """A value that the config may choose among `options`, by key; `default` is the key when it says nothing."""

    id: str
    options: Mapping[str, Any]
    default: str
    name: str | None = None
    description: str | None = None
    is_shared: bool = False

    def __post_init__(self) -> None:
        _chosen(self.id, self.options, self.default, InvalidInput)

    def value(self, key: Any) -> Any:
        """What `key` stands for."""
        return _chosen(self.id, self.options, key, InvalidConfig)

    def __hash__(self) -> int:
        return hash((self.id, tuple(self.options), self.default))


@dataclass(frozen=True)
class ConfigurableFieldMultiOption:
    """A list of values that the config may choose among `options`, by keys."""

    id: str
    options: Mapping[str, Any]
    default: Sequence[str]
    name: str | None = None
    description: str | None = None
    is_shared: bool = False

    def __post_init__(self) -> None:
        for key in self.default:
            _chosen(self.id, self.options, key, InvalidInput)

    def value(self, keys: Any) -> list[Any]:
        """What `keys` stand for."""
        if isinstance(keys, str) or not isinstance(keys, Iterable):
            raise InvalidConfig(f"configurable {self.id!r} wants a list of keys, not {keys!r:.200}.")
        return [_chosen(self.id, self.options, key, InvalidConfig) for key in keys]

    def __hash__(self) -> int:
        return hash((self.id, tuple(self.options), tuple(self.default)))


AnyConfigurableField = ConfigurableField | ConfigurableFieldSingleOption | ConfigurableFieldMultiOption


@dataclass(frozen=True)
class ConfigurableFieldSpec:
    """One key of `configurable` that a runnable reads: its type, default and description."""

    id: str
    annotation: Any
    name: str | None = None
    description: str | None = None
    default: Any = None
    is_shared: bool = False
    dependencies: Sequence[str] | None = None

    def prefixed(self, prefix: str) -> ConfigurableFieldSpec:
        """With `prefix` before its id, unless it is shared."""
        return self if self.is_shared else replace(self, id=prefix + self.id)


def _chosen(which: str, options: Mapping[str, Any], key: Any, kind: type[InvalidConfig | InvalidInput]) -> Any:
    if isinstance(key, str) and key in options:
        return options[key]
    raise kind(
        f"configurable {which!r} has no option {key!r}{nearest(str(key), options)}.",
        hint=f"There are {', '.join(map(repr, options))}.",
    )


def unique_specs(specs: Iterable[ConfigurableFieldSpec]) -> list[ConfigurableFieldSpec]:
    """Each id once, in order of first appearance. Two parts that mean different things by one id are refused."""
    found: dict[str, ConfigurableFieldSpec] = {}
    for spec in specs:
        known = found.setdefault(spec.id, spec)
        if known.annotation != spec.annotation or known.default != spec.default:
            raise InvalidInput(
                f"Two parts read configurable {spec.id!r} differently: {known!r:.300} and {spec!r:.300}.",
                hint="Give one of the fields another id, or prefix_keys=True to the alternatives they are in.",
            )
    return list(found.values())
