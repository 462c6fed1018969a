"""The JSON schema of a type, and the Pydantic adapter that checks values of it."""

from __future__ import annotations

import dataclasses
import math
from functools import cache
from typing import TYPE_CHECKING, Any

from runwell.errors import InvalidInput, UsageError
from runwell.schemas.typed_dicts import is_typed_dict, readable

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["has_fields", "quiet_generator", "type_schema"]


def has_fields(declared: Any) -> bool:
    """Whether it is a class whose fields are an object's: a Pydantic model, a dataclass or a TypedDict."""
    return isinstance(declared, type) and (
        hasattr(declared, "model_json_schema") or dataclasses.is_dataclass(declared) or is_typed_dict(declared)
    )


def type_schema(
    declared: Any, refused: str, hint: str, error: type[UsageError] = InvalidInput
) -> tuple[dict[str, Any], TypeAdapter[Any]]:
    """(schema, adapter) of any type. What Pydantic cannot do is told as `error`: `refused` and its reason."""
    from pydantic import PydanticUserError, TypeAdapter

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(readable(declared))
        return adapter.json_schema(schema_generator=quiet_generator()), adapter
    except (PydanticUserError, NameError) as problem:
        first = str(problem).partition("\n")[0]
        raise error(f"{refused}: {first}", hint=hint) from problem


@cache
def quiet_generator() -> Any:
    """Pydantic's generator, without warnings: a default that has no JSON form is simply not shown."""
    from pydantic.json_schema import GenerateJsonSchema
    from pydantic_core import PydanticSerializationError

    class Quiet(GenerateJsonSchema):
        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

        def encode_default(self, dft: Any) -> Any:
            shown = super().encode_default(dft)
            if not (_is_json(dft) and _is_json(shown)):  # in a tuple they would be shown as null
                raise PydanticSerializationError(f"{dft!r} is no JSON")
            return shown

        def is_subclass_schema(self, schema: Any) -> Any:
            return self.handle_invalid_for_json_schema(schema, "a class")

    return Quiet


def _is_json(value: Any) -> bool:
    """Whether it has no infinity and no NaN in it, which JSON cannot write."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_is_json, value.values()))
    return all(map(_is_json, value)) if isinstance(value, (list, tuple, set, frozenset)) else True
