"""Checking a model's arguments: one door for every kind of schema.

`Arguments` is what a tool holds: its model-facing JSON schema, and `validate`, which turns the model's JSON into the
function's keyword arguments or raises `ToolArgumentsError`. Everything dear is built on first use and kept.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections import abc
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Protocol, Union, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import to_json
from typing_extensions import is_typeddict

from runwell.errors import ToolArgumentsError, ToolDefinitionError, nearest
from runwell.tools.explain import Problem, at_path, expected, message, shorten, written
from runwell.tools.injected import NOTHING
from runwell.tools.json_schema import at_root, copy_json, dereference_refs, drop_titles
from runwell.tools.signature import Parameter, Shape

__all__ = ["Arguments", "ModelArguments", "SchemaArguments", "arguments_from_shape", "model_from_class", "model_schema"]


class Arguments(Protocol):
    """The arguments of one tool."""

    injected: frozenset[str]

    def json_schema(self) -> dict[str, Any]:
        """The model-facing schema of the arguments object. Shared: copy before changing."""
        ...

    def validate(self, tool: str, args: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments for the function. `args` is left as it was."""
        ...


def refuse(tool: str, problems: Iterable[Problem]) -> ToolArgumentsError:
    return ToolArgumentsError(message(tool, problems))


def unknown(names: Iterable[str], known: Iterable[str]) -> list[Problem]:
    """Arguments the tool does not have, each with the nearest it has."""
    known = list(known)
    offer = f"one of {', '.join(known)}" if known else "no arguments"
    found = []
    for name in sorted(map(str, names)):
        close = nearest(name, known)
        found.append(Problem(name, f"unknown argument{close}", "" if close else offer))
    return found


# -- Pydantic, and all that becomes Pydantic: signatures, TypedDicts, dataclasses


class ModelArguments:
    """Arguments checked by a Pydantic model, which `build` makes on first use."""

    def __init__(
        self,
        build: Callable[[], type[BaseModel]],
        injected: frozenset[str] = frozenset(),
        *,
        renamed: Mapping[str, str] | None = None,
        omit: frozenset[str] = frozenset(),
        construct: type | None = None,
        open: bool = True,
    ) -> None:
        self._build = build
        self._model: type[BaseModel] | None = None
        self._schema: dict[str, Any] | None = None
        self._run: Callable[[Any], Any] | None = None
        self._renamed = renamed
        self._omit = omit
        self._construct = construct
        self._open = open
        self.injected = injected

    @property
    def model(self) -> type[BaseModel]:
        """The Pydantic model behind the arguments."""
        if self._model is None:
            self._prepare()
        assert self._model is not None
        return self._model

    def _prepare(self) -> None:
        model = self._build()
        config = model.model_config
        by_name = bool(config.get("populate_by_name") or config.get("validate_by_name"))
        keys = [key for name, each in model.model_fields.items() for key in _keys_of(name, each, by_name)]
        self._keys = frozenset(keys) - self.injected
        extra = config.get("extra")
        self._lenient = extra == "ignore" or (extra == "allow" and self._open)
        self._strict = bool(config.get("strict"))
        self._model = model
        self._run = model.__pydantic_validator__.validate_python

    def json_schema(self) -> dict[str, Any]:
        if self._schema is None:
            self._schema = model_schema(self.model, self.injected)
        return self._schema

    def validate(self, tool: str, args: dict[str, Any]) -> dict[str, Any]:
        run = self._run
        if run is None:
            self._prepare()
            run = self._run
            assert run is not None
        if not self._lenient and not args.keys() <= self._keys:
            raise refuse(tool, self._unknown(args))
        try:
            instance = run(copy_json(args))
        except ValidationError as error:
            instance = self._again(tool, args, error)
        return self._spread(tool, instance)

    def _unknown(self, args: dict[str, Any]) -> list[Problem]:
        names = list(self.json_schema().get("properties", ()))
        return unknown(args.keys() - self._keys, names)

    def _again(self, tool: str, args: dict[str, Any], error: ValidationError) -> Any:
        """A second try for two things that JSON does: null for "not given", and text for a strict model's types."""
        trimmed = without_nulls(args, error)
        if trimmed is None and not self._strict:
            raise refuse(tool, self._problems(args, error)) from error
        trimmed = args if trimmed is None else trimmed
        try:
            if self._strict:
                return self.model.model_validate_json(to_json(trimmed, fallback=str))
            return self.model.model_validate(copy_json(trimmed))
        except ValidationError as again:
            raise refuse(tool, self._problems(trimmed, again)) from again

    def _problems(self, args: Any, error: ValidationError) -> list[Problem]:
        schema = self.json_schema()
        found = []
        for each in error.errors(include_url=False, include_context=False):
            path = real_path(each["loc"], args, each["type"])
            if path and path[0] in self.injected:
                continue
            wanted = expected(schema, at_path(schema, path)) if path else ""
            found.append(Problem(written(path), _what(each["type"], each["msg"], each["input"], wanted), wanted))
        return found

    def _spread(self, tool: str, instance: Any) -> dict[str, Any]:
        values: dict[str, Any] = instance.__dict__
        extra = instance.__pydantic_extra__
        if extra:
            values = {**values, **extra}
        if self._omit:
            given = instance.model_fields_set
            values = {name: value for name, value in values.items() if name in given or name not in self._omit}
        if self._renamed:
            values = {self._renamed.get(name, name): value for name, value in values.items()}
        if self._construct is None:
            return values
        try:
            made = self._construct(**values)
        except (ValueError, TypeError, AssertionError) as error:
            raise refuse(tool, [Problem("", str(error))]) from error
        return {each.name: getattr(made, each.name) for each in dataclasses.fields(made)}


def _keys_of(name: str, info: FieldInfo, by_name: bool) -> list[str]:
    """The names under which a field may be given."""
    from pydantic import AliasChoices, AliasPath

    alias = info.validation_alias
    if alias is None:
        return [name]
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
    keys = [str(each.path[0]) if isinstance(each, AliasPath) else each for each in choices]
    return [name, *keys] if by_name else keys


def arguments_from_shape(
    name: str, shape: Shape, described: Mapping[str, str], construct: type | None = None
) -> ModelArguments:
    """The arguments that a signature (or TypedDict, or dataclass) declares; its model is made on first use."""
    renamed = {f"argument__{each}": each for each in shape.parameters if _awkward(each)}
    made = ModelArguments(
        lambda: model_from_shape(name, shape, described, {plain: field for field, plain in renamed.items()}),
        frozenset(shape.injected),
        renamed=renamed or None,
        omit=frozenset(each.name for each in shape.parameters.values() if each.omit),
        construct=construct,
    )
    if not all(certain(each.annotation) for each in shape.parameters.values()):
        made.json_schema()  # a type without a JSON form is refused here, where it is declared
    return made


def _awkward(name: str) -> bool:
    """Names that a Pydantic model cannot have as fields: its own attributes, and private ones."""
    return name.startswith("_") or hasattr(BaseModel, name)


def model_from_shape(
    name: str, shape: Shape, described: Mapping[str, str], fields_of: Mapping[str, str]
) -> type[BaseModel]:
    """A Pydantic model with a field for each parameter; `fields_of` has the names that cannot be the parameter's."""
    fields: dict[str, Any] = {}
    for parameter in shape.parameters.values():
        field = fields_of.get(parameter.name, parameter.name)
        fields[field] = (parameter.annotation, _field(parameter, described.get(parameter.name), field))
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


def built(make: Callable[[], type[BaseModel]], where: str) -> type[BaseModel]:
    """Make a model and its validator now, with Pydantic's complaints in our words."""
    try:
        model = make()
        model.model_rebuild(raise_errors=True)
    except (PydanticSchemaGenerationError, PydanticUserError, NameError, TypeError) as error:
        first = str(error).partition("\n")[0]
        raise ToolDefinitionError(
            f"{where}: no schema can be made for the arguments: {first}",
            hint="Use types that have a JSON form (str, int, list, dict, a Pydantic model, ...), "
            "or mark what the program fills with InjectedToolArg.",
        ) from error
    return model


def model_schema(model: type[BaseModel], injected: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The model-facing JSON schema: by alias, no titles, references inlined, injected fields gone."""
    from pydantic.errors import PydanticInvalidForJsonSchema
    from pydantic.json_schema import GenerateJsonSchema

    class Quiet(GenerateJsonSchema):
        # a default that has no JSON form is simply not shown
        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

    try:
        schema = model.model_json_schema(schema_generator=Quiet)
    except (PydanticInvalidForJsonSchema, PydanticUserError) as error:
        first = str(error).partition("\n")[0]
        raise ToolDefinitionError(f"{model.__name__}: an argument has no JSON form: {first}") from error
    return model_facing(schema, injected, model.__name__)


def model_facing(schema: dict[str, Any], injected: frozenset[str], where: str) -> dict[str, Any]:
    schema = at_root(schema)
    hidden = injected & schema.get("properties", {}).keys()
    if hidden:
        schema = {**schema, "properties": {k: v for k, v in schema["properties"].items() if k not in hidden}}
        if "required" in schema:
            schema["required"] = [name for name in schema["required"] if name not in hidden]
    schema = {"type": "object", "properties": {}, **drop_titles(dereference_refs(schema, where=where))}
    schema.pop("description", None)
    if not schema.get("required", True):
        del schema["required"]
    if schema.get("additionalProperties") is False:
        del schema["additionalProperties"]  # we refuse unknown names anyway; not worth the tokens in every request
    return schema


def real_path(loc: tuple[str | int, ...], data: Any, kind: str) -> tuple[str | int, ...]:
    """Pydantic's location without its own marks (the branch of a union, `[key]`): only steps that are in the data."""
    path: list[str | int] = []
    last = len(loc) - 1
    for position, step in enumerate(loc):
        if isinstance(data, dict) and (step in data or (position == last and kind in ("missing", "extra_forbidden"))):
            data = data.get(step)
        elif isinstance(data, (list, tuple)) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            continue
        path.append(step)
    return tuple(path)


def without_nulls(args: dict[str, Any], error: ValidationError) -> dict[str, Any] | None:
    """`args` without the nulls that `error` complains of, or None if it complains of none.

    Models send null for an optional argument (under OpenAI's strict mode they must). Where null is no value and the
    argument has a default the second validation succeeds; where it is required, it says so.
    """
    found = error.errors(include_url=False, include_context=False)
    return without(args, [real_path(each["loc"], args, each["type"]) for each in found if each["input"] is None])


def without(args: dict[str, Any], paths: Iterable[tuple[str | int, ...]]) -> dict[str, Any] | None:
    """A copy of `args` without the nulls at `paths`, or None if there are none."""
    copy, removed = copy_json(args), False
    for path in paths:
        holder = copy
        for step in path[:-1]:
            holder = holder[step] if not isinstance(holder, dict) or step in holder else {}
        if path and isinstance(holder, dict) and path[-1] in holder and holder[path[-1]] is None:
            del holder[path[-1]]
            removed = True
    return copy if removed else None


def model_from_class(model: type[BaseModel], injected: frozenset[str]) -> type[BaseModel]:
    """A user's own model; injected fields accept whatever the run has, unchecked and uncopied."""
    if not injected:
        return built(lambda: model, f"{model.__qualname__} ({model.__module__})")
    fields: dict[str, Any] = dict.fromkeys(injected, (Any, None))
    return built(lambda: create_model(model.__name__, __base__=model, **fields), model.__qualname__)


def _what(kind: str, text: str, value: Any, wanted: str) -> str:
    if kind == "missing":
        return "missing"
    if kind in ("value_error", "assertion_error"):
        return text.partition(", ")[2] or text
    return f"got {shorten(value)}" if wanted else text


# -- JSON schema


class SchemaArguments:
    """Arguments checked by a JSON schema (any draft; 2020-12 unless `$schema` says otherwise)."""

    def __init__(self, schema: dict[str, Any], injected: frozenset[str], where: str, *, open: bool = True) -> None:
        import jsonschema_rs

        kind = schema.get("type", "object")
        if kind != "object":
            raise ToolDefinitionError(
                f"{where}: the arguments of a tool are an object, and this schema has type {kind!r}.",
                hint='Put it under a name: {"type": "object", "properties": {"value": ...}}.',
            )
        self.injected = injected
        self._schema = model_facing(copy_json(schema), injected, where)
        # Without `open` (no **kwargs) an unknown name could not be passed on, whatever the schema says.
        self._closed = schema.get("additionalProperties") is False or not open
        checked = {**schema, **self._schema}
        if "required" not in self._schema:
            checked.pop("required", None)
        try:
            self._validator = jsonschema_rs.validator_for(checked, retriever=_never_fetch)
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            first = str(error).partition("\n")[0]
            raise ToolDefinitionError(f"{where}: not a valid JSON schema: {first}") from error

    def json_schema(self) -> dict[str, Any]:
        return self._schema

    def validate(self, tool: str, args: dict[str, Any]) -> dict[str, Any]:
        names = self._schema["properties"]
        if self._closed and not args.keys() <= names.keys():
            raise refuse(tool, unknown(args.keys() - names.keys(), names))
        if not self._validator.is_valid(args):
            nulls = [
                tuple(error.instance_path) for error in self._validator.iter_errors(args) if error.instance is None
            ]
            trimmed = without(args, nulls)
            if trimmed is None or not self._validator.is_valid(trimmed):
                raise refuse(tool, self._problems(args if trimmed is None else trimmed))
            return trimmed
        return copy_json(args)  # type: ignore[no-any-return]

    def _problems(self, args: dict[str, Any]) -> list[Problem]:
        found = []
        for error in self._validator.iter_errors(args):
            path = tuple(error.instance_path)
            if error.kind.name == "required":
                missing = (*path, error.kind.value)
                found.append(
                    Problem(written(missing), "missing", expected(self._schema, at_path(self._schema, missing)))
                )
            else:
                what = f"got {shorten(error.instance)}" if path else error.message
                found.append(
                    Problem(written(path), what, expected(self._schema, at_path(self._schema, path)) if path else "")
                )
        return found


def _never_fetch(uri: str) -> Any:
    raise ValueError(f"{uri} is outside the schema, and nothing is fetched")
