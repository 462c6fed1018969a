"""What a runnable takes, gives and can be told by config, as pydantic models, made when somebody asks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runwell.errors import InvalidInput, nearest
from runwell.runnables.forms import form

__all__ = ["config_schema", "input_schema", "model_of", "output_schema"]


def input_schema(runnable: Any) -> type[Any]:
    """A model of its input: of its first step for a sequence, of the fields its steps read for a parallel step."""
    steps: Any = getattr(runnable, "steps", None)
    if isinstance(steps, list):
        first = steps[0]
        mapper = first.__dict__.get("mapper")
        if mapper is not None and len(steps) > 1:
            return _after_assign(runnable, mapper, steps[1])
        return first.get_input_schema()  # type: ignore[no-any-return]
    inner = runnable.__dict__.get("mapper", runnable) if hasattr(runnable, "__dict__") else runnable
    parallel: Any = getattr(inner, "steps", None)
    if hasattr(parallel, "items"):
        fields: dict[str, Any] = {}
        for step in parallel.values():
            known = _fields_of(step.get_input_schema())
            if known is not None:
                fields.update(known)
            elif step.InputType is not Any:
                return _root(runnable, "input", step.InputType)
        return model_of(runnable, "input", fields) if fields else _root(runnable, "input", Any)
    return _of_type(runnable, "input", runnable.InputType)


def _after_assign(chain: Any, mapper: Any, second: Any) -> type[Any]:
    """Of a chain that begins by adding keys: what the adding reads, and what the next step reads and was not added."""
    fields = dict(_fields_of(input_schema(mapper)) or {})
    for key, value in (_fields_of(second.get_input_schema()) or {}).items():
        if key not in mapper.steps:
            fields.setdefault(key, value)
    return model_of(chain, "input", fields) if fields else _root(chain, "input", dict[str, Any])


def output_schema(runnable: Any) -> type[Any]:
    """A model of its output: of its last step for a sequence, a field for each step of a parallel step."""
    steps: Any = getattr(runnable, "steps", None)
    if isinstance(steps, list):
        last = steps[-1]
        keys = getattr(last, "keys", None)
        if len(steps) > 1 and isinstance(keys, str | list):
            before = _fields_of(steps[-2].get_output_schema()) or {}
            if isinstance(keys, str):
                return _of_type(runnable, "output", before[keys][0]) if keys in before else _root(runnable, "output")
            return model_of(runnable, "output", {key: before.get(key, (Any, ...)) for key in keys})
        mapper = last.__dict__.get("mapper") if hasattr(last, "__dict__") else None
        if len(steps) > 1 and mapper is not None:
            before = _fields_of(steps[-2].get_output_schema()) or {}
            return model_of(runnable, "output", {**before, **_outputs(mapper)})
        return last.get_output_schema()  # type: ignore[no-any-return]
    mapper = runnable.__dict__.get("mapper") if hasattr(runnable, "__dict__") else None
    if mapper is not None:
        return model_of(runnable, "output", {**(_fields_of(input_schema(mapper)) or {}), **_outputs(mapper)})
    if hasattr(steps, "items"):
        return model_of(runnable, "output", _outputs(runnable))
    return _of_type(runnable, "output", runnable.OutputType)


def _outputs(parallel: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key, step in parallel.steps.items():
        schema = step.get_output_schema()
        fields[key] = (schema if step.OutputType is Any and _fields_of(schema) else step.OutputType, ...)
    return fields


def config_schema(runnable: Any, include: Sequence[str] | None = None) -> type[Any]:
    """A model of the config: the chosen usual keys, and `configurable` with what the parts read."""
    from pydantic import Field

    from runwell.runnables.anatomy import config_specs
    from runwell.runnables.config import RunnableConfig

    known = RunnableConfig.__annotations__
    fields: dict[str, Any] = {}
    for key in include or ():
        if key not in known:
            raise InvalidInput(f"There is no config key {key!r}{nearest(key, known)}.")
        if key != "configurable":
            fields[key] = (Any if key == "callbacks" else _KEYS.get(key, Any), None)
    specs = config_specs(runnable)
    if specs:
        inner = {
            spec.id: (
                spec.annotation,
                Field(default=spec.default, title=spec.name, description=spec.description),
            )
            for spec in specs
        }
        fields["configurable"] = (model_of(runnable, "configurable", inner), None)
    return model_of(runnable, "config", fields)


_KEYS: dict[str, Any] = {
    "tags": list[str],
    "metadata": dict[str, Any],
    "run_name": str,
    "max_concurrency": int | None,
    "recursion_limit": int,
    "run_id": str,
}


def _of_type(runnable: Any, side: str, declared: Any) -> type[Any]:
    from pydantic import BaseModel

    if isinstance(declared, type) and issubclass(declared, BaseModel):
        return declared
    return _root(runnable, side, declared)


def _root(runnable: Any, side: str, declared: Any = Any) -> type[Any]:
    from pydantic import PydanticSchemaGenerationError, RootModel, create_model

    declared = form("readable")(declared)
    try:
        made: type[Any] = create_model(f"{_identifier(runnable)}_{side}", __base__=RootModel[declared])
    except PydanticSchemaGenerationError:  # a class that pydantic cannot tell: any value of it
        made = create_model(f"{_identifier(runnable)}_{side}", __base__=RootModel[Any])
    return made


def model_of(runnable: Any, side: str, fields: dict[str, Any]) -> type[Any]:
    """A model of a runnable's input or output with these fields, each given as (type, default)."""
    from pydantic import ConfigDict, create_model

    settings = ConfigDict(arbitrary_types_allowed=True, defer_build=True, protected_namespaces=())
    readable = form("readable")
    named: dict[str, Any] = {
        _attribute(key): _aliased(key, readable(kind), default) for key, (kind, default) in fields.items()
    }
    made: type[Any] = create_model(f"{_identifier(runnable)}_{side}", __config__=settings, **named)
    return made


def _attribute(key: str) -> str:
    """Something that pydantic takes as a field's name."""
    tidy = "".join(each if each.isalnum() else "_" for each in key).lstrip("_0123456789")
    return tidy or "field"


def _aliased(key: str, kind: Any, default: Any) -> tuple[Any, Any]:
    if _attribute(key) == key:
        return kind, default
    from pydantic import Field
    from pydantic.fields import FieldInfo

    if isinstance(default, FieldInfo):
        return kind, Field(default=default.default, title=default.title, description=default.description, alias=key)
    return kind, Field(default=default, alias=key)


def _fields_of(schema: Any) -> dict[str, Any] | None:
    """The fields of a model with names; None for one that wraps a single value."""
    from pydantic import RootModel
    from pydantic_core import PydanticUndefined

    if issubclass(schema, RootModel):
        return None
    return {
        info.alias or name: (info.annotation, ... if info.default is PydanticUndefined else info.default)
        for name, info in schema.model_fields.items()
    }


def _identifier(runnable: Any) -> str:
    return "".join(character if character.isalnum() else "_" for character in runnable.get_name())
