"""How a call's config and the run around it make the context of the next run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast
from uuid import UUID

from runwell.errors import InvalidConfig, nearest
from runwell.observe.context import DEFAULT_RECURSION_LIMIT, UNSET, BoundCallbacks, Inherited, RunContext

__all__ = [
    "CONFIG_KEYS",
    "add_handlers",
    "check_config",
    "deep_merge",
    "given_id",
    "inherited_by",
    "run_around",
    "union",
]

CONFIG_KEYS: Final = frozenset(
    {
        "callbacks",
        "configurable",
        "max_concurrency",
        "metadata",
        "recursion_limit",
        "run_id",
        "run_name",
        "tags",
    }
)

_CHECKS: Final[dict[str, tuple[tuple[type, ...], str]]] = {
    "configurable": ((dict, Mapping), "a dict"),
    "metadata": ((dict, Mapping), "a dict"),
    "run_id": ((UUID, str), "a UUID"),
    "run_name": ((str,), "a string"),
    "tags": ((list, tuple, set, frozenset), "a list of strings"),
}


NO_METADATA: Final[dict[str, Any]] = {}
"""Of all runs that have none and that nobody watches: never changed."""


def check_config(config: Mapping[str, Any]) -> None:
    """Raise `InvalidConfig` for an unknown key, or a value that no key of that name can have."""
    if type(config) is not dict and not isinstance(config, Mapping):
        raise InvalidConfig(
            f"A config is a dict, not {config!r}.", hint='Pass for instance config={"tags": ["nightly"]}.'
        )
    for key, value in config.items():
        if key not in CONFIG_KEYS:
            raise InvalidConfig(
                f"Unknown config key {key!r}{nearest(str(key), CONFIG_KEYS)}.",
                hint=f'Values of your own go under "configurable": config={{"configurable": {{{key!r}: ...}}}}.',
            )
        if value is None:
            continue
        if key in _CHECKS:
            types, wanted = _CHECKS[key]
            if type(value) not in types and not isinstance(value, types):
                raise InvalidConfig(f"Config key {key!r} wants {wanted}, not {value!r}.")
            if key == "tags" and not all(isinstance(tag, str) for tag in cast("Iterable[Any]", value)):
                raise InvalidConfig(f"Config key 'tags' wants a list of strings, not {value!r}.")
        elif key != "callbacks" and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise InvalidConfig(f"Config key {key!r} wants a whole number from 1 up, not {value!r}.")


def union(first: tuple[str, ...], more: Iterable[str]) -> tuple[str, ...]:
    """Both, each once, in the order first met."""
    return tuple(dict.fromkeys((*first, *more)))


def deep_merge(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Both; a dict under the same key is merged too, anything else is the second's. Neither argument is changed."""
    merged = dict(first)
    for key, value in second.items():
        mine = merged.get(key)
        if isinstance(mine, dict) and isinstance(value, dict):
            value = deep_merge(mine, value)
        merged[key] = value
    return merged


def add_handlers(first: tuple[Any, ...], more: Any) -> tuple[Any, ...]:
    """Both, each handler object once. `more` is a handler, a list of them, or something with `.handlers`."""
    if more is None:
        return first
    if not isinstance(more, list | tuple):
        more = getattr(more, "handlers", None) or (more,)
    handlers = list(first)
    for handler in more:
        if not callable(getattr(handler, "handle", None)):
            raise InvalidConfig(
                f"{handler!r} among the callbacks cannot handle events.",
                hint="Pass an instance of a BaseCallbackHandler subclass.",
            )
        if not any(handler is known for known in handlers):
            handlers.append(handler)
    return tuple(handlers)


def run_around(parent: RunContext | None, config: Mapping[str, Any]) -> RunContext | None:
    """`parent`; where it is not known, in a thread of a user's own, the run that the config was made in."""
    if parent is not None:
        return parent
    callbacks = config.get("callbacks")
    run = callbacks.run if isinstance(callbacks, BoundCallbacks) else None
    return run if run is not None and run._id is not None else None


def inherited_by(parent: RunContext | None, config: Mapping[str, Any]) -> Inherited:
    """What calls inherit inside one that was called in `parent` with `config`.

    Tags and metadata are joined, callbacks added, `configurable` merged in depth, scalars replaced.
    """
    get = config.get
    if parent is None:
        handlers = add_handlers((), get("callbacks"))
        tags = union((), get("tags") or ()) if "tags" in config else ()
        given = get("metadata")
        metadata = dict(given or {}) if given or handlers else NO_METADATA
        configurable = dict(get("configurable") or {})
        limit = DEFAULT_RECURSION_LIMIT
        concurrency: Any = UNSET
    else:
        above = parent.inherited
        handlers = add_handlers(above.handlers, get("callbacks"))
        tags = union(above.tags, get("tags") or ()) if "tags" in config else above.tags
        metadata = {**above.metadata, **(get("metadata") or {})}
        configurable = deep_merge(above.configurable, get("configurable") or {})
        limit, concurrency = above.recursion_limit, above.max_concurrency
    return Inherited(
        handlers,
        tags,
        metadata,
        configurable,
        config.get("max_concurrency", concurrency),
        get("recursion_limit") or limit,
    )


def given_id(config: Mapping[str, Any]) -> str | None:
    """The id that a config asks for, of its run alone."""
    run_id = config.get("run_id")
    if isinstance(run_id, str):
        try:
            run_id = UUID(run_id)
        except ValueError:
            raise InvalidConfig(f"Config key 'run_id' wants a UUID, not {run_id!r}.") from None
    return None if run_id is None else str(run_id)
