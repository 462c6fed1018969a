"""What is worked out once when a tool is made: where its arguments come from, what is injected, how it is called."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, RootModel

from runwell.effects import Callee
from runwell.errors import ToolDefinitionError, nearest
from runwell.schemas.argument_model import model_from_class
from runwell.schemas.docstring import Docstring, read_docstring
from runwell.schemas.injection import NOTHING, Injection, find_injection
from runwell.schemas.signature import Shape, innermost, read_fields, read_function
from runwell.tools.model_arguments import ModelArguments, arguments_from_shape
from runwell.tools.schema_arguments import SchemaArguments
from runwell.tools.validation import Arguments

__all__ = ["Definition", "check_name", "define"]

_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


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
    told = (description or read.description).strip()
    if not told:
        raise ToolDefinitionError(
            f"{shape.where}: the tool {name!r} has neither a docstring nor a description; no model could know its use.",
            hint="Write a docstring, or pass description=...",
        )
    return Definition(shape.where, told, arguments, injected, shape.positional, callee, shape.unbound)


def check_name(name: Any, where: str) -> str:
    """A name that providers accept, or ToolDefinitionError."""
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    better = re.sub(r"[^A-Za-z0-9_.:-]+", "_", name).strip("_") if isinstance(name, str) else ""
    raise ToolDefinitionError(
        f"{where}: {name!r} cannot be the name of a tool: letters, digits, '_', '-', '.' and ':', at most 128 of them.",
        hint=f"Call it {better[:128]!r}."
        if better and better != "lambda"
        else 'Give it one: tool("name", ...)(function).',
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


def check_docstring(read: Docstring, shape: Shape, function: Any, *, strict: bool, documented: bool) -> None:
    """Warn of (or, when strict, refuse) a docstring that says other things than the signature."""
    problems = [f"its parameters cannot be read: {read.problem}"] if read.problem else []
    if strict and not documented:
        problems.append("parse_docstring=True needs a docstring")
    if shape.extra is NOTHING:
        known = shape.parameters.keys() | shape.injected.keys()
        problems += [
            f"it describes {name!r}, which is no parameter{nearest(name, known)}"
            for name in read.arguments
            if name not in known and name not in ("self", "run_manager")
        ]
    if not problems:
        return
    text = f"{shape.where}: the docstring does not fit: {'; '.join(problems)}"
    if strict:
        raise ToolDefinitionError(
            text, hint="Correct the docstring, or leave out parse_docstring=True to be warned only."
        )
    code = getattr(innermost(function), "__code__", None)
    if code is None:
        warnings.warn(text, UserWarning, stacklevel=2)
    else:
        warnings.warn_explicit(text, UserWarning, code.co_filename, code.co_firstlineno)


# -- args_schema


def _explicit(
    name: str, schema: Any, shape: Shape, described: Mapping[str, str]
) -> tuple[Arguments, dict[str, Injection], str]:
    """Arguments from a schema of the user's; (arguments, injected, description)."""
    import typing_extensions

    is_open = shape.extra is not NOTHING
    if isinstance(schema, dict):
        names = schema.get("properties", {})
        needed = set(schema.get("required", ()))
        injected = _injected(shape, {}, names)
        _fits(shape, names, needed, injected)
        arguments: Arguments = SchemaArguments(schema, frozenset(injected), shape.where, open=is_open)
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
            _doc_of(schema),
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
    return arguments, injected, _doc_of(model)


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


def _doc_of(schema: type) -> str:
    doc = schema.__doc__ or ""
    if dataclasses.is_dataclass(schema) and doc.startswith(f"{schema.__name__}("):
        return ""  # written by the dataclass decorator
    return read_docstring(doc).description if doc and doc is not BaseModel.__doc__ else ""
