"""The keys of an agent's state."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, NotRequired, Required, get_args, get_origin, get_type_hints

from runwell.agents.problems import Problems
from runwell.agents.setup import Setup
from runwell.agents.state import PRIVATE, AgentState
from runwell.errors import InvalidInput

__all__ = ["hints_of", "state_keys"]


def state_keys(setup: Setup, state_schema: type | None, problems: Problems) -> dict[str, Any]:
    """The state's keys with their annotations: the agent's own, the middlewares', the caller's."""
    keys: dict[str, Any] = {}
    origin: dict[str, tuple[type, Any]] = {}
    for schema in (AgentState, *(each.state_schema for each in setup.middleware), state_schema):
        if schema is None:
            continue
        for key, hint in problems.of(partial(_read, schema), {}).items():
            first = origin.setdefault(key, (schema, hint))
            if _plain(hint) != _plain(first[1]) and first[0] is not AgentState:
                problems.add(
                    InvalidInput(
                        f"{first[0].__qualname__} and {schema.__qualname__} mean different things by the state's key "
                        f"{key!r}: {first[1]!r:.100} and {hint!r:.100}.",
                        hint="Rename it in one of them, or declare it alike.",
                    )
                )
            keys[key] = hint
    for name in PRIVATE:
        keys.pop(name, None)
    return keys


def _read(schema: type) -> dict[str, Any]:
    try:
        return hints_of(schema)
    except (NameError, TypeError) as error:
        raise InvalidInput(
            f"{schema.__qualname__} has an annotation that cannot be read: {error}.",
            hint="Define or import the name where the schema is defined, at module level.",
        ) from error


@lru_cache(maxsize=256)
def hints_of(schema: type) -> dict[str, Any]:
    return get_type_hints(schema, include_extras=True)


def _plain(hint: Any) -> Any:
    """An annotation without the word whether the key must be there."""
    return get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint
