"""Arguments checked by a JSON schema, as those of MCP tools are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runwell.errors import ToolDefinitionError
from runwell.messages.calls import MAX_DEPTH, depth_of
from runwell.schemas.json_schema import copy_json, model_facing, never_fetch
from runwell.schemas.nulls import without
from runwell.tools.explain import Problem, at_path, expected, shorten, written
from runwell.tools.validation import refuse, too_deep, unknown

__all__ = ["SchemaArguments"]


class SchemaArguments:
    """Arguments checked by a JSON schema (any draft; 2020-12 unless `$schema` says otherwise).

    `filled` are defaults of the schema for arguments that the function has none for.
    """

    def __init__(
        self,
        schema: dict[str, Any],
        injected: frozenset[str],
        where: str,
        *,
        open: bool = True,
        filled: dict[str, Any] | None = None,
    ) -> None:
        import jsonschema_rs

        kind = schema.get("type", "object")
        if kind != "object":
            raise ToolDefinitionError(
                f"{where}: the arguments of a tool are an object, and this schema has type {kind!r}.",
                hint='Put it under a name: {"type": "object", "properties": {"value": ...}}.',
            )
        self.injected = injected
        self._filled = filled
        self._schema = model_facing(copy_json(schema), injected, where)
        # Without `open` (no **kwargs) an unknown name could not be passed on, whatever the schema says.
        self._closed = schema.get("additionalProperties") is False or not open
        checked = {**schema, **self._schema}
        if "required" not in self._schema:
            checked.pop("required", None)
        try:
            self._validator = jsonschema_rs.validator_for(checked, retriever=never_fetch)
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            first = str(error).partition("\n")[0]
            raise ToolDefinitionError(
                f"{where}: not a valid JSON schema: {first}",
                hint='As in {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}.',
            ) from error

    def json_schema(self) -> dict[str, Any]:
        return self._schema

    def validate(self, tool: str, args: dict[str, Any]) -> dict[str, Any]:
        try:
            values = self._validated(tool, args)
            return values if not self._filled else {**copy_json(self._filled), **values}
        except UnicodeEncodeError as error:
            said = "has half of a character in it (a lone surrogate)"
            raise refuse(tool, [Problem(written(path), said) for path in _broken(args, ())]) from error
        except (ValueError, RecursionError) as error:  # the validator's own limit is a ValueError
            if depth_of(args) <= MAX_DEPTH:
                raise
            raise too_deep(tool) from error

    def _validated(self, tool: str, args: dict[str, Any]) -> dict[str, Any]:
        names = self._schema["properties"]
        if self._closed and not args.keys() <= names.keys():
            known = {name: value for name, value in args.items() if name in names}
            raise refuse(tool, [*unknown(args.keys() - names.keys(), names), *self._problems(known)])
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


def _broken(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    """Where there are texts that cannot be written as UTF-8."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            yield path
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _broken(key, path)
            yield from _broken(each, (*path, key))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from _broken(each, (*path, at))
