"""From a callable, TypedDict or dataclass to its parameters. Read once, when a tool is made; never per call."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from runwell.errors import ToolDefinitionError
from runwell.schemas.injection import NOTHING, Injection, find_injection
from runwell.schemas.type_arguments import owner_of, substituted, type_arguments

__all__ = [
    "Parameter",
    "Shape",
    "UnresolvedName",
    "describe_place",
    "doc_of",
    "innermost",
    "name_of",
    "read_fields",
    "read_function",
]


class UnresolvedName(Exception):
    """An annotation names something that does not exist yet; reading again later may succeed."""


@dataclass(slots=True)
class Parameter:
    """One argument the model fills. `default` is NOTHING when it must; it may be a pydantic FieldInfo."""

    name: str
    annotation: Any
    default: Any = NOTHING
    description: str | None = None
    omit: bool = False
    """Leave it out of the call when the model did (a TypedDict's NotRequired key), instead of passing a default."""


@dataclass(slots=True)
class Shape:
    """All that matters of a signature.

    `positional` are the names that can only be passed by position, in order. `extra` is the type of the values a
    `**kwargs` takes, NOTHING without one. `where` is "file:line (name)".
    """

    where: str
    parameters: dict[str, Parameter] = field(default_factory=dict)
    injected: dict[str, Injection] = field(default_factory=dict)
    positional: tuple[str, ...] = ()
    extra: Any = NOTHING
    unbound: bool = False
    """A method read in its class body: its `self` is not there yet."""


def read_function(function: Callable[..., Any], *, hints: bool = True, reserved: frozenset[str] = frozenset()) -> Shape:
    """The shape of a function, method, partial or callable object.

    `reserved` names are given None, if they have no default. Without `hints` annotations are not looked at.
    Raises ToolDefinitionError for what no model can call, UnresolvedName for a forward reference not defined yet.
    """
    shape = Shape(describe_place(function))
    bound = _bound_names(function)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise ToolDefinitionError(
            f"{shape.where}: its signature cannot be read ({error}).",
            hint="Wrap it in a function of your own with type hints.",
        ) from error
    types = _types_of(function, shape.where) if hints else {}
    positional = []
    for position, parameter in enumerate(signature.parameters.values()):
        name, kind = parameter.name, parameter.kind
        if position == 0 and _is_method_in_class_body(function, parameter):
            if name == "cls":
                raise ToolDefinitionError(
                    f"{shape.where}: under @classmethod there is no class yet to bind the tool to.",
                    hint="Make a tool of the bound method after the class: tool(Class.method).",
                )
            shape.unbound = True
            continue
        if name in bound:
            continue
        if name in reserved:
            if parameter.default is parameter.empty:
                shape.injected[name] = Injection("callbacks")
            continue
        if kind is parameter.VAR_POSITIONAL:
            raise ToolDefinitionError(
                f"{shape.where}: a tool cannot take *{name}, since a model passes arguments by name.",
                hint=f"Take a list instead: {name}: list[str].",
            )
        annotation = types.get(name, Any)
        if kind is parameter.VAR_KEYWORD:
            _read_extra(shape, annotation)
            continue
        default = NOTHING if parameter.default is parameter.empty else parameter.default
        if kind is parameter.POSITIONAL_ONLY:
            positional.append(name)
        injection = find_injection(name, annotation, default, parameter.annotation is parameter.empty)
        if injection is not None:
            shape.injected[name] = injection
        else:
            shape.parameters[name] = Parameter(name, annotation, default, _text_of(annotation))
    shape.positional = tuple(positional)
    return shape


def read_fields(declared: type) -> Shape:
    """The shape of a TypedDict or dataclass used as `args_schema`."""
    shape = Shape(describe_place(declared))
    types = resolve_hints(declared, shape.where)
    if dataclasses.is_dataclass(declared):
        for item in dataclasses.fields(declared):
            if not item.init:
                continue
            default = NOTHING if item.default is dataclasses.MISSING else item.default
            if item.default_factory is not dataclasses.MISSING:
                from pydantic import Field

                default = Field(default_factory=item.default_factory)
            _add(shape, item.name, types[item.name], default, omit=False)
        return shape
    required = getattr(declared, "__required_keys__", frozenset(types))
    for name, annotation in types.items():
        bare, forced = _without_qualifiers(annotation)
        needed = name in required if forced is None else forced
        _add(shape, name, bare, NOTHING if needed else None, omit=not needed)
    return shape


def _add(shape: Shape, name: str, annotation: Any, default: Any, *, omit: bool) -> None:
    injection = find_injection(name, annotation, default, unannotated=False)
    if injection is not None:
        shape.injected[name] = injection
    else:
        shape.parameters[name] = Parameter(name, annotation, default, _text_of(annotation), omit)


def _without_qualifiers(annotation: Any) -> tuple[Any, bool | None]:
    """`NotRequired[X]` gives X, False; annotations kept as strings leave the qualifier in place."""
    forced = None
    while (origin := typing.get_origin(annotation)) in _QUALIFIERS:
        forced = _QUALIFIERS.get(origin, None) if forced is None else forced
        (annotation,) = typing.get_args(annotation)
    return annotation, forced


def _qualifiers() -> dict[Any, bool | None]:
    import typing_extensions as extensions

    return {
        typing.Required: True,
        typing.NotRequired: False,
        extensions.Required: True,
        extensions.NotRequired: False,
        extensions.ReadOnly: None,
    }


_QUALIFIERS = _qualifiers()


def _read_extra(shape: Shape, annotation: Any) -> None:
    """`**kw: int` is an open object; `**kw: Unpack[Options]` is the keys of Options."""
    import typing_extensions as extensions

    if typing.get_origin(annotation) in (typing.Unpack, extensions.Unpack):
        inner = read_fields(typing.get_args(annotation)[0])
        shape.parameters.update(inner.parameters)
        shape.injected.update(inner.injected)
    else:
        shape.extra = annotation


def _text_of(annotation: Any) -> str | None:
    """The description in `Annotated[int, "How many."]`."""
    if typing.get_origin(annotation) is not typing.Annotated:
        return None
    return next((each for each in annotation.__metadata__ if isinstance(each, str)), None)


# -- callables of every sort


def innermost(function: Any) -> Any:
    """What a partial or bound method is made of."""
    while True:
        if isinstance(function, partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        else:
            return function


def _bound_names(function: Any) -> frozenset[str]:
    """What a partial has filled by keyword: the program's business, and perhaps a secret."""
    names: set[str] = set()
    while isinstance(function, partial):
        names |= function.keywords.keys()
        function = function.func
    return frozenset(names)


def _types_of(function: Any, where: str) -> dict[str, Any]:
    """The annotations as objects; the type parameters of a generic class as what they are in the method's instance."""
    instance, owner = owner_of(function)
    types = resolve_hints(_hinted(function), where, owner)
    if known := type_arguments(instance, owner):
        types = {name: substituted(each, known) for name, each in types.items()}
    return types


def _hinted(function: Any) -> Any:
    """The object whose annotations tell the types."""
    inner = innermost(function)
    if inspect.isroutine(inner) or inspect.isclass(inner) or not callable(inner):
        return inner
    return innermost(type(inner).__call__)


def _is_method_in_class_body(function: Any, first: inspect.Parameter) -> bool:
    """`self` (or `cls`) of a plain function whose qualified name ends in `Class.method`."""
    if first.name not in ("self", "cls") or first.annotation is not first.empty or not inspect.isfunction(function):
        return False
    owner = function.__qualname__.rpartition(".")[0]
    return bool(owner) and not owner.endswith("<locals>")


def resolve_hints(target: Any, where: str, owner: type | None = None) -> dict[str, Any]:
    """Annotations as objects. Names local to the callers count too: types are often declared next to a tool. So do the
    type parameters of the function, and of the class that owns it."""
    if not getattr(target, "__annotations__", None):
        return {}
    try:
        return typing.get_type_hints(target, include_extras=True)
    except NameError:
        pass
    except Exception as error:
        raise ToolDefinitionError(
            f"{where}: an annotation cannot be read: {error}",
            hint="Write a type, or a name that is a type at run time.",
        ) from error
    made = (*getattr(owner, "__type_params__", ()), *getattr(target, "__type_params__", ()))  # def look[T](...)
    own = {parameter.__name__: parameter for parameter in made}
    try:
        return typing.get_type_hints(target, localns=_ChainedLocals(own), include_extras=True)
    except NameError as error:
        raise UnresolvedName(str(error)) from error


class _ChainedLocals(dict[str, Any]):
    """Looks a name up in the locals of the callers, innermost first. Only used when the module does not know it."""

    def __missing__(self, name: str) -> Any:
        frame = sys._getframe(1)
        while frame is not None:
            if not frame.f_globals.get("__name__", "").startswith(("runwell.", "typing")) and name in frame.f_locals:
                return frame.f_locals[name]
            frame = frame.f_back  # type: ignore[assignment]
        raise KeyError(name)


def name_of(function: Any) -> str:
    """The name a function goes by; a callable object goes by its class."""
    inner = innermost(function)
    name = getattr(inner, "__name__", None) or type(inner).__name__
    return str(name)


def doc_of(function: Any) -> str | None:
    """The docstring of a function, or of a callable object (its `__call__` first, then its class)."""
    inner = innermost(function)
    if hasattr(inner, "__name__"):
        return getattr(inner, "__doc__", None)
    return getattr(type(inner).__call__, "__doc__", None) or type(inner).__doc__


def describe_place(function: Any) -> str:
    """`name (file:line)` of a callable or class, as much as can be known."""
    inner = innermost(function)
    name = getattr(inner, "__qualname__", None) or type(inner).__name__
    code = getattr(inspect.unwrap(inner) if callable(inner) else inner, "__code__", None)
    if code is not None:
        return f"{name} ({code.co_filename}:{code.co_firstlineno})"
    owner = inner if isinstance(inner, type) else type(inner)
    return f"{name} ({owner.__module__})"
