"""What nodes find in `runtime.context`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import is_typeddict

from runwell.errors import InvalidInput, nearest
from runwell.graph.schema import is_schema, told_errors
from runwell.ports.runtime import TaskScope

__all__ = ["context_for"]


def context_for(schema: Any, context: Any, scope: TaskScope | None) -> Any:
    """What the caller gave, as the graph's `schema` for it; where nothing was given, that of the task around."""
    if context is None:
        return scope.runtime.context if scope is not None else None
    if schema is not None and isinstance(context, Mapping) and is_typeddict(schema):
        known = schema.__annotations__
        for key in context:
            if key not in known:
                raise InvalidInput(
                    f"context has an unknown key {key!r}{nearest(str(key), known)}.",
                    hint=f"{schema.__qualname__!r} has {sorted(known)}.",
                )
    if schema is None or not is_schema(schema) or (is_typeddict(schema) and isinstance(context, Mapping)):
        return context
    if not isinstance(context, Mapping):
        fields = (
            schema.__annotations__
            if is_typeddict(schema)
            else getattr(schema, "__dataclass_fields__", None) or getattr(schema, "model_fields", {})
        )
        if is_typeddict(schema) or not all(hasattr(context, name) for name in fields):
            raise InvalidInput(
                f"context={context!r:.200} is no {schema.__qualname__!r}.",
                hint=f"Pass one, or a dict of {sorted(fields)}.",
            )
        return context
    try:
        return schema(**context)
    except (TypeError, ValueError) as error:  # a Pydantic ValidationError is a ValueError
        told = told_errors(error) if hasattr(error, "errors") else str(error)
        raise InvalidInput(
            f"context={context!r:.200} does not fit {schema.__qualname__!r}: {told}.",
            hint="Pass the fields the context_schema declares.",
        ) from error
