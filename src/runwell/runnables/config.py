"""The second argument of every call: how to run, as opposed to what to run on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from runwell.errors import InvalidConfig
from runwell.observe.context import CURRENT, DEFAULT_RECURSION_LIMIT, UNSET, BoundCallbacks
from runwell.observe.inherit import add_handlers, check_config, deep_merge, union
from runwell.ports.config import RunnableConfig

__all__ = [
    "DEFAULT_MAX_CONCURRENCY",
    "RunnableConfig",
    "batch_limit",
    "configs_for",
    "ensure_config",
    "merge_configs",
]

DEFAULT_MAX_CONCURRENCY: Final = 16
"""How many items of a batch run at once when no config says. Chosen, not measured: twice the usual model rate tiers'
comfortable parallelism, and few enough threads to be cheap."""


def merge_configs(*configs: Mapping[str, Any] | None) -> RunnableConfig:
    """Later over earlier: tags and metadata joined, callbacks added, `configurable` merged in depth, scalars replaced.

    None of the arguments is changed, and nothing of the result is shared with them.
    """
    merged: dict[str, Any] = {}
    for config in configs:
        if not config:
            continue
        check_config(config)
        for key, value in config.items():
            mine = merged.get(key)
            if value is None and key != "max_concurrency":
                continue
            if key == "tags":
                merged[key] = list(union(tuple(mine or ()), value))
            elif key == "metadata":
                merged[key] = {**(mine or {}), **value}
            elif key == "configurable":
                merged[key] = deep_merge(mine or {}, value)
            elif key == "callbacks":
                merged[key] = _add_callbacks(mine, value)
            else:
                merged[key] = value
    return cast(RunnableConfig, merged)


def _add_callbacks(mine: Any, more: Any) -> Any:
    """Handlers of both, and the place in the tree that either is bound to."""
    if mine is None and isinstance(more, BoundCallbacks):
        return more
    together = add_handlers(add_handlers((), mine), more)
    bound = next((one for one in (more, mine) if isinstance(one, BoundCallbacks)), None)
    if bound is None:
        return list(together)
    joined = BoundCallbacks(bound.run)
    joined[:] = together
    return joined


def ensure_config(config: Mapping[str, Any] | None = None) -> RunnableConfig:
    """A whole config: what the current run hands down, then `config`, with every usual key present."""
    run = CURRENT.get()
    base: dict[str, Any] = (
        run.config
        if run is not None
        else {
            "tags": [],
            "metadata": {},
            "callbacks": None,
            "recursion_limit": DEFAULT_RECURSION_LIMIT,
            "configurable": {},
        }
    )
    if not config:
        return cast(RunnableConfig, base)
    return cast(RunnableConfig, {**base, **merge_configs(base, config)})


def configs_for(
    count: int, config: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None
) -> Sequence[Mapping[str, Any] | None]:
    """One config per item of a batch, checked before anything runs."""
    if config is None or isinstance(config, Mapping):
        if config:
            check_config(config)
            if config.get("run_id") is not None and count > 1:
                raise InvalidConfig(
                    f"One 'run_id' cannot name {count} runs.",
                    hint="Pass a list of configs, one for each input, each with a run_id of its own.",
                )
        return [config] * count
    if len(config) != count:
        raise InvalidConfig(
            f"A batch of {count} inputs was given {len(config)} configs.",
            hint="Pass one config for all, or a list with exactly one for each input.",
        )
    for each in config:
        if each:
            check_config(each)
    return config


def batch_limit(configs: Sequence[Mapping[str, Any] | None], own: Mapping[str, Any] | None = None) -> int | None:
    """How many items may run at once: what the (first) config says, else the runnable's `own` bound config, else what
    the current run hands down, else 16."""
    for config in (*configs[:1], own):
        if config and "max_concurrency" in config:
            return cast("int | None", config["max_concurrency"])
    run = CURRENT.get()
    if run is not None and run.max_concurrency is not UNSET:
        return cast("int | None", run.max_concurrency)
    return DEFAULT_MAX_CONCURRENCY
