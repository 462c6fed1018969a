"""One view of every way to say "answer in this shape": a JSON schema to send, and a parser for what comes back."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any

from runwell.errors import InvalidInput, OutputParserException
from runwell.schemas.typed_dicts import is_typed_dict, readable

__all__ = ["StructuredSchema"]

_FENCE = re.compile(r"\A\s*```[\w-]*[ \t]*\n(.*?)\n?[ \t]*```\s*\Z", re.S)
_UNFIT_FOR_NAME = re.compile(r"[^a-zA-Z0-9_-]+")


class StructuredSchema:
    """A pydantic model, dataclass, TypedDict, JSON schema dict or other type, as the shape of an answer.

    `name` and `description` are what the model is told; `json_schema` always describes an object. `parse` gives an
    instance of the class, or a dict for a TypedDict or a JSON schema. Any other type (a union, `list[Item]`) travels
    inside an object under the one key `value` and comes back as itself. The schema is worked out once, when made, so
    that a shape that cannot be sent fails here (InvalidInput). Instances may be shared between threads.
    """

    __slots__ = ("_validate", "description", "json_schema", "name", "schema", "wrapped")

    def __init__(self, schema: Any, *, name: str | None = None, description: str | None = None) -> None:
        self.schema = schema
        self.wrapped = False
        if isinstance(schema, Mapping):
            self.json_schema = _read_mapping(schema)
            self._validate = _json_schema_validator(self.json_schema)
        else:
            self.json_schema, self._validate, self.wrapped = _read_type(schema)
        said = name or self.json_schema.get("title") or getattr(schema, "__name__", None) or "answer"
        self.name = _UNFIT_FOR_NAME.sub("_", said).strip("_")[:64] or "answer"
        self.description: str = description or self.json_schema.get("description") or ""

    def __repr__(self) -> str:
        return f"StructuredSchema({self.name!r})"

    def parse(self, value: Any) -> Any:
        """The answer as a value of the schema's type, from the model's arguments or decoded JSON.

        Raises OutputParserException, whose text names each field and what is wrong with it, for the model to read.
        """
        if self.wrapped:
            if not isinstance(value, Mapping) or "value" not in value:
                raise self._unfit(value, "the key 'value' is missing")
            value = value["value"]
        return self._validate(self, value)

    def parse_text(self, text: str) -> Any:
        """As `parse`, from the model's text: JSON, alone or in one code fence."""
        from pydantic_core import from_json

        fenced = _FENCE.match(text)
        try:
            value = from_json(fenced[1] if fenced else text)
        except ValueError as error:
            raise OutputParserException(
                f"The answer is not the JSON of a {self.name}: {error}.",
                llm_output=text,
                hint="The text is on `.llm_output`.",
            ) from error
        return self.parse(value)

    def _unfit(self, value: Any, problem: str) -> OutputParserException:
        from pydantic_core import to_json

        text = to_json(value, serialize_unknown=True).decode()
        return OutputParserException(f"The answer does not fit {self.name}: {problem}.", llm_output=text)


def _read_mapping(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON schema, or the definition of a function whose parameters are one."""
    given = dict(schema)
    if given.get("type") == "function" and isinstance(given.get("function"), Mapping):
        given = dict(given["function"])
    if "name" in given and isinstance(given.get("parameters"), Mapping):
        described = {"title": given["name"], "description": given.get("description", "")}
        given = {**described, **given["parameters"]}
    if given.get("type") != "object" and "properties" not in given and "$ref" not in given:
        raise InvalidInput(
            f"A schema for an answer must describe an object; this one has type {given.get('type')!r}.",
            hint='Wrap it: {"title": ..., "type": "object", "properties": {"value": <your schema>}}.',
        )
    return given


def _json_schema_validator(json_schema: dict[str, Any]) -> Any:
    import jsonschema_rs

    try:
        validator = jsonschema_rs.validator_for(json_schema)
    except ValueError as error:
        raise InvalidInput(f"This JSON schema is not valid: {error}") from error

    def validate(owner: StructuredSchema, value: Any) -> Any:
        problems = [f"{_place(error.instance_path)}: {error.message}" for error in validator.iter_errors(value)]
        if problems:
            raise owner._unfit(value, "; ".join(problems))
        return value

    return validate


def _read_type(schema: Any) -> tuple[dict[str, Any], Any, bool]:
    from pydantic import PydanticUserError, TypeAdapter

    wrapped = not (
        hasattr(schema, "model_json_schema")
        or is_typed_dict(schema)
        or (isinstance(schema, type) and dataclasses.is_dataclass(schema))
    )
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(readable(schema))
        described = adapter.json_schema()
    except (PydanticUserError, NameError) as error:
        raise InvalidInput(
            f"{schema!r} cannot be the shape of an answer: {str(error).splitlines()[0]}",
            hint="Use a pydantic model, a dataclass, a TypedDict or a JSON schema dict.",
        ) from error
    if "$ref" in described and "$defs" in described:  # a class that contains itself: models want an object at the top
        described = {**described["$defs"][described["$ref"].rpartition("/")[2]], "$defs": described["$defs"]}
    if wrapped:
        definitions = described.pop("$defs", None)
        described = {"title": "answer", "type": "object", "properties": {"value": described}, "required": ["value"]}
        if definitions:
            described["$defs"] = definitions
    return described, _type_validator(adapter), wrapped


def _type_validator(adapter: Any) -> Any:
    from pydantic import ValidationError
    from pydantic_core import to_json

    def validate(owner: StructuredSchema, value: Any) -> Any:
        try:  # from JSON, so that strict models take dates and enums as the text they travel as
            return adapter.validate_json(to_json(value, serialize_unknown=True))
        except ValidationError as error:
            problems = [
                f"{_place(each['loc'])}: {each['msg']} (got {_short(each['input'])})"
                for each in error.errors(include_url=False)
            ]
            raise owner._unfit(value, "; ".join(problems)) from error

    return validate


def _place(path: Iterable[Any]) -> str:
    return ".".join(str(part) for part in path) or "the whole"


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
