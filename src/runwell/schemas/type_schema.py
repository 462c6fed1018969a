"""The JSON schema of a type, and the Pydantic adapter that checks values of it."""

from __future__ import annotations

import dataclasses
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

    class Quiet(GenerateJsonSchema):
        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

    return Quiet
