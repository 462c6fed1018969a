"""What is worked out once when a tool is made: where its arguments come from, what is injected, how it is called."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, RootModel

from runwell.effects import Callee
from runwell.errors import ToolDefinitionError, nearest
from runwell.schemas.argument_model import model_from_class
from runwell.schemas.description import needs_description
from runwell.schemas.docstring import Docstring, check_docstring, class_docstring, read_docstring
from runwell.schemas.injection import NOTHING, Injection, find_injection
from runwell.schemas.json_schema import at_root
from runwell.schemas.signature import Shape, read_fields, read_function
from runwell.tools.model_arguments import ModelArguments, arguments_from_shape
from runwell.tools.schema_arguments import SchemaArguments
from runwell.tools.two_colours import joined, suited
from runwell.tools.validation import Arguments

__all__ = ["Definition", "define"]


@dataclass(slots=True)
class Definition:
    """`where` names the function and its place. `callee` takes the prepared arguments by keyword."""

    where: str
    description: str
    arguments: Arguments
    injected: dict[str, Injection]
    positional: tuple[str, ...]
    callee: Callee[Any]
    unbound: bool = False
    left_out: dict[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    """What the plain and the async function are not handed, where there are two."""
    packed: bytes | None = None
    """The arguments' JSON schema, from which copies are made."""
    spread: Callee[Any] | None = None
    """What `spreading` made."""

    def spreading(self) -> Callee[Any]:
        """An `async` function, called with the prepared arguments as one dict: made once, and no frame of it stands in
        between while the function runs."""
        function: Any = self.callee.aio

        def called(arguments: dict[str, Any]) -> Any:
            return function(**arguments)

        called.func = function  # type: ignore[attr-defined]  # by which it is named, as by a partial
        self.spread = made = Callee(None, called)
        return made


def define(
    name: str,
    function: Callable[..., Any],
    callee: Callee[Any],
    *,
    description: str,
    doc: str | None,
    args_schema: Any = None,
    infer_schema: bool = True,
    parse_docstring: bool | None = None,
    reserved: frozenset[str] = frozenset(),
) -> Definition:
    """Work out a tool. Raises ToolDefinitionError, or UnresolvedName when an annotation cannot be read yet.

    `doc` is the docstring to read. `parse_docstring`: None reads it leniently, True strictly, False takes it whole.
    """
    shape = read_function(function, hints=infer_schema, reserved=reserved)
    left_out = joined(callee, shape, reserved, hints=infer_schema)
    read = Docstring(_whole(doc)) if parse_docstring is False else read_docstring(doc or "")
    if parse_docstring is not False:
        check_docstring(read, shape, function, strict=parse_docstring is True, documented=bool(doc))
    if args_schema is None:
        arguments: Arguments = arguments_from_shape(
            name, _untyped(shape) if not infer_schema else shape, read.arguments
        )
        injected = shape.injected
    else:
        arguments, injected, told = _explicit(name, args_schema, shape, read.arguments)
        read.description = read.description or told
    if not isinstance(description, str):
        raise ToolDefinitionError(f"{shape.where}: description={description!r:.100}", hint="A text, or None.")
    told = (description or read.description).strip()
    if not told:
        raise needs_description(shape.where, name)
    return Definition(
        shape.where, told, arguments, injected, shape.positional, suited(callee, left_out), shape.unbound, left_out
    )


def _whole(doc: str | None) -> str:
    import inspect

    return inspect.cleandoc(doc) if doc else ""


def _untyped(shape: Shape) -> Shape:
    """With infer_schema=False: one string, as a tool of the oldest kind takes."""
    if len(shape.parameters) != 1:
        raise ToolDefinitionError(
            f"{shape.where}: infer_schema=False is for a function of one string, not {len(shape.parameters)} things.",
            hint="Leave infer_schema on, or pass args_schema=...",
        )
    for parameter in shape.parameters.values():
        parameter.annotation = str
    return shape


# -- args_schema


def _explicit(
    name: str, schema: Any, shape: Shape, described: Mapping[str, str]
) -> tuple[Arguments, dict[str, Injection], str]:
    """Arguments from a schema of the user's; (arguments, injected, description)."""
    import typing_extensions

    is_open = shape.extra is not NOTHING
    if isinstance(schema, dict):
        top = at_root(schema)
        names, needed = top.get("properties", {}), top.get("required", [])
        if not isinstance(names, dict) or not isinstance(needed, list):
            raise ToolDefinitionError(
                f"{shape.where}: args_schema is not a valid JSON schema: properties={names!r:.80}, "
                f"required={needed!r:.80}.",
                hint='As in {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}.',
            )
        injected = _injected(shape, {}, names)
        filled = {
            name: names[name]["default"]
            for name, each in shape.parameters.items()
            if each.default is NOTHING and isinstance(names.get(name), dict) and "default" in names[name]
        }
        _fits(shape, names, {*needed, *filled}, injected)
        arguments: Arguments = SchemaArguments(schema, frozenset(injected), shape.where, open=is_open, filled=filled)
        return arguments, injected, str(schema.get("description", ""))
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        return _from_model(schema, shape, is_open)
    if isinstance(schema, type) and (typing_extensions.is_typeddict(schema) or dataclasses.is_dataclass(schema)):
        inner = read_fields(schema)
        injected = _injected(shape, inner.injected, inner.parameters)
        required = {each.name for each in inner.parameters.values() if not each.omit}
        _fits(shape, inner.parameters, required, injected)
        checks_itself = hasattr(schema, "__post_init__") or hasattr(schema, "__pydantic_validator__")
        inner.injected = injected
        inner.extra = shape.extra
        return (
            arguments_from_shape(name, inner, described, schema if checks_itself else None),
            injected,
            class_docstring(schema).description,
        )
    if isinstance(schema, type) and hasattr(schema, "__fields__") and hasattr(schema, "parse_obj"):
        raise ToolDefinitionError(
            f"{shape.where}: args_schema {schema.__name__} is a Pydantic 1 model.",
            hint="Derive it from pydantic.BaseModel (Pydantic 2).",
        )
    raise ToolDefinitionError(
        f"{shape.where}: args_schema {schema!r} is no schema.",
        hint="It can be a Pydantic model, a TypedDict, a dataclass or a JSON schema (dict).",
    )


def _from_model(model: type[BaseModel], shape: Shape, is_open: bool) -> tuple[Arguments, dict[str, Injection], str]:
    if issubclass(model, RootModel):
        raise ToolDefinitionError(
            f"{shape.where}: args_schema {model.__name__} is a root model, and arguments have names.",
            hint="Use a BaseModel with a field for it.",
        )
    marked = {}
    for field, info in model.model_fields.items():
        annotation = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
        found = find_injection(field, annotation, NOTHING if info.is_required() else info.default, unannotated=False)
        if found is not None:
            marked[field] = found
    fields = {field: info for field, info in model.model_fields.items() if field not in marked}
    injected = _injected(shape, marked, fields)
    _fits(shape, fields, set(fields), injected)
    hidden = frozenset(injected)
    in_model = hidden & model.model_fields.keys()
    arguments = ModelArguments(lambda: model_from_class(model, in_model), hidden, open=is_open)
    return arguments, injected, class_docstring(model).description


def _injected(shape: Shape, marked: Mapping[str, Injection], declared: Iterable[str]) -> dict[str, Injection]:
    """What the function and the schema mark; a parameter that only its name makes injected gives way to the schema."""
    own = {name: each for name, each in shape.injected.items() if not (each.by_name and name in declared)}
    for name in shape.injected.keys() - own.keys():
        shape.parameters[name] = _claimed(name)
    kept = {name: each for name, each in marked.items() if name in shape.parameters or shape.extra is not NOTHING}
    return {**kept, **own}


def _claimed(name: str) -> Any:
    from runwell.schemas.signature import Parameter

    return Parameter(name, Any)


def _fits(shape: Shape, names: Iterable[str], always: set[str], injected: Mapping[str, Injection]) -> None:
    """Refuse a schema whose arguments the function could not take, or lacks those it needs."""
    names = set(names)
    problems = []
    if shape.extra is NOTHING:
        problems += [
            f"the function takes no {name!r}{nearest(name, shape.parameters)}"
            for name in sorted(names - shape.parameters.keys() - injected.keys())
        ]
    problems += [
        f"the schema {'does not require' if name in names else 'lacks'} {name!r}, which the function needs"
        for name, each in shape.parameters.items()
        if each.default is NOTHING and name not in always and name not in injected
    ]
    if problems:
        raise ToolDefinitionError(
            f"{shape.where}: args_schema and function do not fit: {'; '.join(problems)}",
            hint="Give both the same names; a parameter the model may leave out needs a default.",
        )
