"""Pydantic models of arguments: from signatures, TypedDicts and dataclasses, and from models of the user's own."""

from __future__ import annotations

import dataclasses
import datetime
from collections import abc
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo
from typing_extensions import is_typeddict

from runwell.errors import ToolDefinitionError
from runwell.schemas.injection import NOTHING
from runwell.schemas.json_schema import model_facing
from runwell.schemas.signature import Parameter, Shape
from runwell.schemas.type_schema import quiet_generator
from runwell.schemas.typed_dicts import readable

__all__ = ["certain", "field_of", "model_from_class", "model_from_shape", "model_schema", "without_form"]


def field_of(name: str) -> str:
    """What the field for a parameter is called: as itself, where a Pydantic model can have such a field."""
    return f"argument__{name}" if name.startswith("_") or hasattr(BaseModel, name) else name


def model_from_shape(name: str, shape: Shape, described: Mapping[str, str]) -> type[BaseModel]:
    """A Pydantic model with a field for each parameter, under the parameter's name as alias where it needs another."""
    fields: dict[str, Any] = {}
    for parameter in shape.parameters.values():
        field = field_of(parameter.name)
        fields[field] = (readable(parameter.annotation), _field(parameter, described.get(parameter.name), field))
    options: dict[str, Any] = {"__module__": __name__}
    if shape.extra is NOTHING:
        options["__config__"] = ConfigDict(extra="forbid")
    else:
        options["__base__"] = _open_base(shape.extra)
    return built(lambda: create_model(name, **options, **fields), shape.where)


def _open_base(extra: Any) -> type[BaseModel]:
    body: dict[str, Any] = {"model_config": ConfigDict(extra="allow"), "__module__": __name__}
    if extra is not Any:
        body["__annotations__"] = {"__pydantic_extra__": dict[str, extra]}
    return type("OpenArguments", (BaseModel,), body)


def _field(parameter: Parameter, described: str | None, field: str) -> FieldInfo:
    default = parameter.default
    info = default if isinstance(default, FieldInfo) else None
    own = info.description if info is not None else None
    metadata = getattr(parameter.annotation, "__metadata__", ())
    own = own or next((each.description for each in metadata if isinstance(each, FieldInfo) and each.description), None)
    settings: dict[str, Any] = {}
    if not own and (parameter.description or described):
        settings["description"] = parameter.description or described
    if field != parameter.name:
        settings["alias"] = parameter.name
    if info is not None:
        return FieldInfo.merge_field_infos(info, **settings) if settings else info
    if parameter.omit:
        settings["default_factory"] = _nothing  # a default of its own would be shown in the schema
    elif default is not NOTHING:
        settings["default"] = default
    return Field(**settings)  # type: ignore[no-any-return]


def _nothing() -> Any:
    return NOTHING


def model_from_class(model: type[BaseModel], injected: frozenset[str]) -> type[BaseModel]:
    """A user's own model; injected fields accept whatever the run has, unchecked and uncopied."""
    if not injected:
        return built(lambda: model, f"{model.__qualname__} ({model.__module__})")
    fields: dict[str, Any] = dict.fromkeys(injected, (Any, None))
    return built(lambda: create_model(model.__name__, __base__=model, **fields), model.__qualname__)


def built(make: Callable[[], type[BaseModel]], where: str) -> type[BaseModel]:
    """Make a model and its validator now, with Pydantic's complaints in our words."""
    try:
        model = make()
        model.model_rebuild(raise_errors=True)
    except (PydanticSchemaGenerationError, PydanticUserError, NameError, TypeError) as error:
        first = str(error).partition("\n")[0].partition(". Set `arbitrary_types_allowed")[0]
        raise ToolDefinitionError(
            f"{where}: no schema can be made for the arguments: {first}", hint=_JSON_TYPES
        ) from error
    return model


_JSON_TYPES = (
    "Use types that have a JSON form (str, int, list, dict, a Pydantic model, ...), "
    "or mark what the program fills with InjectedToolArg."
)


def without_form(shape: Shape) -> ToolDefinitionError | None:
    """An error that names the first parameter whose type has no JSON form, if there is one."""
    for each in shape.parameters.values():
        try:
            TypeAdapter(readable(each.annotation)).json_schema(schema_generator=quiet_generator())
        except (PydanticUserError, NameError, TypeError):
            kind = each.annotation
            shown = kind.__qualname__ if isinstance(kind, type) and not get_args(kind) else str(kind)
            return ToolDefinitionError(
                f"{shape.where}: the argument {each.name!r} is of type {shown}, which has no JSON form.",
                hint=_JSON_TYPES,
            )
    return None


def model_schema(model: type[BaseModel], injected: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The model-facing JSON schema: by alias, no titles, references inlined, injected fields gone."""
    from pydantic.errors import PydanticInvalidForJsonSchema

    try:
        schema = model.model_json_schema(schema_generator=quiet_generator())
    except (PydanticInvalidForJsonSchema, PydanticUserError) as error:
        first = str(error).partition("\n")[0]
        raise ToolDefinitionError(
            f"{model.__name__}: an argument has no JSON form: {first}", hint=_JSON_TYPES
        ) from error
    return model_facing(schema, injected, model.__name__)


_PLAIN = frozenset(
    (
        str,
        int,
        float,
        bool,
        bytes,
        list,
        dict,
        tuple,
        set,
        frozenset,
        type(None),
        Any,
        Ellipsis,
        datetime.date,
        datetime.datetime,
        datetime.time,
        datetime.timedelta,
        UUID,
        Decimal,
        Path,
    )
)


def certain(annotation: Any) -> bool:
    """Whether a schema can surely be made for it, so that making it may wait until the tool is used."""
    if isinstance(annotation, type) and not get_args(annotation):
        return (
            annotation in _PLAIN
            or issubclass(annotation, (BaseModel, Enum))
            or dataclasses.is_dataclass(annotation)
            or is_typeddict(annotation)
        )
    origin = get_origin(annotation)
    if origin is Literal or origin is None:
        return origin is Literal or annotation is Any
    if origin is Annotated:
        return certain(get_args(annotation)[0])
    if origin in _CONTAINERS:
        return all(certain(each) for each in get_args(annotation))
    return False


_CONTAINERS = frozenset((list, dict, tuple, set, frozenset, Union, UnionType, abc.Sequence, abc.Mapping, abc.Iterable))
