"""Arguments checked by Pydantic, as those of almost every tool are."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import to_json

from runwell.errors import ToolArgumentsError, ToolDefinitionError
from runwell.messages.calls import MAX_DEPTH, depth_of
from runwell.schemas.argument_model import certain, field_of, model_from_shape, model_schema, without_form
from runwell.schemas.json_schema import copy_json
from runwell.schemas.nulls import real_path, without_nulls
from runwell.schemas.signature import Shape
from runwell.tools.explain import Problem, at_path, expected, shorten, written
from runwell.tools.validation import refuse, too_deep, unknown

__all__ = ["ModelArguments", "arguments_from_shape"]


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
        self._as_checked = not (renamed or omit or construct)
        """Whether what the model makes of them is what the function is called with."""
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
        try:
            if not self._lenient and not args.keys() <= self._keys:
                raise self._refused(tool, args, run)
            try:
                instance = run(copy_json(args))
            except ValidationError as error:
                instance = self._again(tool, args, error)
            if self._as_checked and not instance.__pydantic_extra__:
                return instance.__dict__  # type: ignore[no-any-return]
            return self._spread(tool, instance)
        except RecursionError as error:
            if depth_of(args) <= MAX_DEPTH:
                raise
            raise too_deep(tool) from error

    def _refused(self, tool: str, args: dict[str, Any], run: Callable[[Any], Any]) -> ToolArgumentsError:
        """For arguments that the tool does not have, with what else is wrong."""
        known = {name: value for name, value in args.items() if name in self._keys}
        rest: list[Problem] = []
        try:
            run(copy_json(known))
        except ValidationError as error:
            rest = self._problems(known, error)
        return refuse(tool, [*self._unknown(args), *rest])

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


def arguments_from_shape(
    name: str, shape: Shape, described: Mapping[str, str], construct: type | None = None
) -> ModelArguments:
    """The arguments that a signature (or TypedDict, or dataclass) declares; its model is made on first use."""
    renamed = {field_of(each): each for each in shape.parameters if field_of(each) != each}
    made = ModelArguments(
        lambda: model_from_shape(name, shape, described),
        frozenset(shape.injected),
        renamed=renamed or None,
        omit=frozenset(each.name for each in shape.parameters.values() if each.omit),
        construct=construct,
    )
    if not all(certain(each.annotation) for each in shape.parameters.values()):
        try:
            made.json_schema()  # a type without a JSON form is refused here, where it is declared
        except ToolDefinitionError as error:
            raise without_form(shape) or error from error
    return made


def _keys_of(name: str, info: FieldInfo, by_name: bool) -> list[str]:
    """The names under which a field may be given."""
    from pydantic import AliasChoices, AliasPath

    alias = info.validation_alias
    if alias is None:
        return [name]
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
    keys = [str(each.path[0]) if isinstance(each, AliasPath) else each for each in choices]
    return [name, *keys] if by_name else keys


def _what(kind: str, text: str, value: Any, wanted: str) -> str:
    if kind == "missing":
        return "missing"
    if kind in ("value_error", "assertion_error"):
        return text.partition(", ")[2] or text
    return f"got {shorten(value)}" if wanted else text
