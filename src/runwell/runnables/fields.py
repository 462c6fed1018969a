"""Classes whose annotated attributes are their constructor's keyword arguments.

As with a dataclass, but all by keyword, inherited in any order of defaults, and with misspelt names answered by the
nearest one. Nothing is coerced: values are kept as given.
"""

from __future__ import annotations

import copy
import dataclasses
import re
import sys
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any, ClassVar, Final, dataclass_transform, get_origin

from runwell.errors import InvalidInput, UsageError, nearest

__all__ = ["PASSWORD", "KeywordFields", "masked"]

_REQUIRED: Any = object()
_SECRET = re.compile(r"key|token|secret|password|headers|credential", re.I)
PASSWORD: Final = re.compile(r"(\w+://[^/@:\s]*:)([^/@\s]*)@")
"""An address up to the end of the password in it."""
_NO_SECRET = re.compile(r"max_\w*tokens|\w+_tokens")


@dataclass_transform(kw_only_default=True, field_specifiers=(dataclasses.field,))
class KeywordFields:
    """Base of such classes.

    A class attribute is the default; lists, dicts and sets are copied for each instance. `dataclasses.field(...)` and
    pydantic's `Field(...)` say a factory or an alias. Names with a leading underscore and ClassVars are no arguments.
    `model_post_init(None)` is called at the end of construction if the class has it. Values whose name says that they
    are secret are not shown by repr.
    """

    _fields: ClassVar[dict[str, Any]] = {}
    _aliases: ClassVar[dict[str, str]] = {}
    """Other names under which an argument may be given."""
    _not_here: ClassVar[Mapping[str, str]] = {}
    """Arguments that other libraries have for such a class, and what to write instead; those of base classes too."""

    _beyond: ClassVar[str] = ""
    """Where arguments go that the class does not name, for errors."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        fields, aliases = _inherited(cls), dict(cls._aliases)
        private = dict(getattr(cls, "_private", {}))
        own = vars(cls)
        declared: dict[str, Any] = dict(own.get("_fields", ()))
        for name, value in list(own.items()):
            if isinstance(value, FunctionType | property | classmethod | staticmethod):
                if name in fields:
                    declared[name] = _COMPUTED
            elif type(value).__name__ == "PydanticDescriptorProxy":
                raise UsageError(
                    f"{cls.__name__}.{name} is a pydantic validator, and {cls.__name__} is no pydantic model.",
                    hint="Check in __init__ (call super().__init__(**kwargs) first) or in model_post_init.",
                )
        for name, annotation in _annotations(cls).items():
            default = own.get(name, _REQUIRED)
            if type(default).__name__ == "ModelPrivateAttr":
                private[name] = default.get_default
                delattr(cls, name)
            elif not name.startswith("_") and not _is_class_var(annotation):
                declared[name], alias = _read_default(cls, name, default)
                if alias:
                    aliases[alias] = name
        cls._declared, cls._fields = declared, _with(fields, declared)
        cls._aliases, cls._private = aliases, private

    _declared: ClassVar[dict[str, Any]] = {}
    """What a class itself adds to `_fields`."""
    _private: ClassVar[dict[str, Any]] = {}

    def __init__(self, **given: Any) -> None:
        values = self.__dict__
        if given and self._aliases:
            for alias, name in self._aliases.items():
                if alias in given:
                    if name in given:
                        raise InvalidInput(
                            f"{type(self).__name__} got both {name!r} and {alias!r}, which are the same."
                        )
                    given[name] = given.pop(alias)
        missing: list[str] = []
        for name, default in self._fields.items():
            if name in given:
                values[name] = given.pop(name)
            elif default is _REQUIRED:
                missing.append(name)
            elif type(default) is _Factory:
                values[name] = default.make()
            elif default.__class__ in _COPIED:
                values[name] = copy.copy(default)
        for name, make in self._private.items():
            values[name] = make()
        if given or missing:
            raise self._bad_arguments(sorted(given), missing)
        post_init = getattr(self, "model_post_init", None)
        if post_init is not None:
            post_init(None)

    def _bad_arguments(self, unknown: list[str], missing: list[str]) -> InvalidInput:
        name, known = type(self).__name__, [*self._fields, *self._aliases]
        if unknown:
            advice = {each: found for each in unknown if (found := self._advice(each))}
            told = ", ".join(repr(each) if each in advice else f"{each!r}{nearest(each, known)}" for each in unknown)
            hint = f"It takes {', '.join(sorted(self._fields))}.{self._beyond}"
            if len(advice) == len(unknown):
                hint = " ".join(f"{each}: {advice[each]}" for each in unknown)
            elif advice:
                hint = " ".join((*(f"{each}: {advice[each]}" for each in advice), hint))
            return InvalidInput(f"{name} takes no argument {told}.", hint=hint)
        return InvalidInput(f"{name} needs {', '.join(repr(each) for each in missing)}.")

    def _advice(self, argument: str) -> str | None:
        """What to write instead of an argument that there is not."""
        return next((table[argument] for cls in type(self).__mro__ if argument in (table := _own_table(cls))), None)

    def _shown(self) -> Iterator[tuple[str, Any]]:
        """The arguments that differ from their default, secrets masked."""
        for name, default in self._fields.items():
            value = getattr(self, name, None)
            if type(default) is _Factory:
                default = default.make()
            if value is default or (value.__class__ is default.__class__ and value == default):
                continue
            yield name, masked(name, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._shown())})"

    def model_copy(self, *, update: dict[str, Any] | None = None) -> Any:
        """A copy with some arguments changed."""
        twin = copy.copy(self)
        for name, value in (update or {}).items():
            if name not in self._fields:
                raise self._bad_arguments([name], [])
            twin.__dict__[name] = value
        return twin


def _own_table(cls: type) -> Mapping[str, str]:
    table: Mapping[str, str] = vars(cls).get("_not_here", {})
    return table


_COMPUTED: Any = object()
"""In the place of a field's default: a subclass gives the value by a method or property."""


def _inherited(cls: type[KeywordFields]) -> dict[str, Any]:
    """The fields of all bases, each as the first class in the order of resolution declares it."""
    if sum(issubclass(base, KeywordFields) for base in cls.__bases__) < 2:
        return dict(cls._fields)
    fields: dict[str, Any] = {}
    for base in reversed(cls.__mro__[1:]):
        fields = _with(fields, vars(base).get("_declared", {}))
    return fields


def _with(fields: dict[str, Any], declared: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**fields, **declared}.items() if value is not _COMPUTED}


_COPIED = (list, dict, set)


class _Factory:
    """A default that is made for each instance."""

    __slots__ = ("make",)

    def __init__(self, make: Any) -> None:
        self.make = make


def masked(name: str, value: Any) -> Any:
    """An argument's value as it may be shown: of a key, a token, headers that it is there; an address without its
    password."""
    if value is not None and _SECRET.search(name) and not _NO_SECRET.fullmatch(name):
        return _Masked()
    return PASSWORD.sub(r"\1**********@", value) if type(value) is str and "@" in value else value


class _Masked:
    def __repr__(self) -> str:
        return "'**********'"


def _annotations(cls: type) -> dict[str, Any]:
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF)
    return dict(vars(cls).get("__annotations__", {}))


def _is_class_var(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return annotation.startswith(("ClassVar", "typing.ClassVar", "t.ClassVar"))
    return annotation is ClassVar or get_origin(annotation) is ClassVar


_NO_DEFAULT = ("PydanticUndefinedType", "ellipsis")


def _read_default(cls: type, name: str, declared: Any) -> tuple[Any, str | None]:
    """(default or factory, alias); the class attribute becomes the plain default."""
    kind = type(declared).__name__
    if not isinstance(declared, dataclasses.Field) and kind != "FieldInfo":
        return declared, None
    factory = declared.default_factory
    if factory is not None and factory is not dataclasses.MISSING:
        default: Any = _Factory(factory)
    elif declared.default is dataclasses.MISSING or type(declared.default).__name__ in (
        "PydanticUndefinedType",
        "ellipsis",
    ):
        default = _REQUIRED
    else:
        default = declared.default
    if default is _REQUIRED or type(default) is _Factory:
        delattr(cls, name)
    else:
        setattr(cls, name, default)
    return default, getattr(declared, "alias", None)
