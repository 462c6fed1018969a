"""What a tool says that it gives: its output schema, and whether a result is that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runwell.errors import ToolDefinitionError, ToolOutputError
from runwell.schemas.json_schema import never_fetch
from runwell.schemas.type_schema import type_schema
from runwell.tools.explain import MAX_PROBLEMS, Problem, shorten, written

__all__ = ["OutputSchema"]


class OutputSchema:
    """The declared output of a tool: a Pydantic model, dataclass, TypedDict or other type, or a JSON schema.

    `json_schema` describes it. Raises ToolDefinitionError, naming `where`, for what is no schema.
    """

    __slots__ = ("_adapter", "_validator", "json_schema")

    def __init__(self, declared: Any, where: str) -> None:
        self._adapter: Any = None
        self._validator: Any = None
        if not isinstance(declared, Mapping):
            self.json_schema, self._adapter = type_schema(
                declared,
                f"{where}: no schema can be made for the output",
                "Use types that have a JSON form (str, int, list, dict, a Pydantic model, ...).",
                ToolDefinitionError,
            )
            return
        import jsonschema_rs

        self.json_schema = dict(declared)
        try:
            self._validator = jsonschema_rs.validator_for(self.json_schema, retriever=never_fetch)
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            first = str(error).partition("\n")[0]
            raise ToolDefinitionError(
                f"{where}: output_schema is not a valid JSON schema: {first}",
                hint="A type says it too: output_schema=Price.",
            ) from error

    def checked(self, tool: str, value: Any) -> Any:
        """The value, as an instance of the declared type. Raises ToolOutputError, for the model, if it does not fit."""
        if self._adapter is not None:
            from pydantic import ValidationError

            try:
                return self._adapter.validate_python(value)
            except ValidationError as error:
                found = [
                    Problem(written(each["loc"]), f"{each['msg']} (got {shorten(each['input'])})")
                    for each in error.errors(include_url=False, include_context=False)
                ]
            raise _unfit(tool, found)
        import pydantic_core

        try:
            plain = pydantic_core.to_jsonable_python(value)
            found = [
                Problem(written(tuple(each.instance_path)), each.message) for each in self._validator.iter_errors(plain)
            ]
        except (pydantic_core.PydanticSerializationError, ValueError) as error:
            found = [Problem("", f"{type(value).__name__} has no JSON form ({error})")]
        if found:
            raise _unfit(tool, found)
        return value


def _unfit(tool: str, problems: list[Problem]) -> ToolOutputError:
    shown = [f"- {each}" for each in problems[:MAX_PROBLEMS]]
    if len(problems) > MAX_PROBLEMS:
        shown.append(f"- and {len(problems) - MAX_PROBLEMS} more")
    return ToolOutputError(
        "\n".join(
            [
                f"The tool {tool!r} gave a result that does not fit what it declares, so it is not used:",
                *shown,
                "This is a fault of the tool, not of your call.",
            ]
        )
    )
