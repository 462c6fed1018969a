"""One view of every way to say "answer in this shape": a JSON schema to send, and a parser for what comes back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from runwell.errors import InvalidInput, OutputParserException
from runwell.schemas.branches import told_problems
from runwell.schemas.description import read_mapping, with_descriptions
from runwell.schemas.docstring import class_docstring
from runwell.schemas.json_schema import model_facing, never_fetch
from runwell.schemas.nulls import without, without_nulls
from runwell.schemas.type_schema import has_fields, type_schema

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["StructuredSchema"]

_FENCE = re.compile(r"\A\s*```[\w-]*[ \t]*\n(.*?)\n?[ \t]*```\s*\Z", re.S)
_UNFIT_FOR_NAME = re.compile(r"[^a-zA-Z0-9_-]+")


class StructuredSchema:
    """A pydantic model, dataclass, TypedDict, JSON schema dict or other type, as the shape of an answer.

    `name` and `description` are what the model is told; `json_schema` always describes an object. `parse` gives an
    instance of the class, or a dict for a TypedDict or a JSON schema. Any other type (a union, `list[Item]`) travels
    inside an object under the one key `value` and comes back as itself. The schema is worked out once, when made, so
    that a shape that cannot be sent fails here (InvalidInput). Instances may be shared between threads.

    A null for a field that has a default and cannot be null counts as not given: strict providers make models send it.
    """

    __slots__ = ("_validate", "description", "json_schema", "name", "schema", "wrapped")

    def __init__(self, schema: Any, *, name: str | None = None, description: str | None = None) -> None:
        self.schema = schema
        self.wrapped = False
        if isinstance(schema, Mapping):
            own, told, described = read_mapping(schema)
            if described is None or described.get("type") != "object":
                raise InvalidInput(
                    f"A schema for an answer must describe an object; this one has type {schema.get('type')!r}.",
                    hint='Wrap it: {"title": ..., "type": "object", "properties": {"value": <your schema>}}.',
                )
            self.json_schema = described
            self._validate = _json_schema_validator(described)
        else:
            own, told, self.json_schema, adapter = _read_type(schema)
            self.wrapped = own is None
            self._validate = _type_validator(adapter)
        said = name or own or "answer"
        self.name = _UNFIT_FOR_NAME.sub("_", said).strip("_")[:64] or "answer"
        self.description: str = description or told

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

    def parse_text(self, text: str, *, around: bool = False) -> Any:
        """As `parse`, from the model's text: JSON, alone or in one code fence; with `around`, other text may stand
        before and after it."""
        from pydantic_core import from_json

        fenced = _FENCE.match(text)
        try:
            value = from_json(fenced[1] if fenced else text)
        except ValueError as error:
            found = _object_in(text) if around else None
            if found is not None:
                return self.parse(found)
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


def _object_in(text: str) -> Any:
    """The only JSON object in a text; None where there is none, or several that differ."""
    decoder = json.JSONDecoder(strict=False)
    found: list[Any] = []
    start = text.find("{")
    while start >= 0:
        try:
            value, end = decoder.raw_decode(text, start)
        except ValueError:
            end = start + 1
        else:
            if value not in found:
                found.append(value)
        start = text.find("{", end)
    return found[0] if len(found) == 1 else None


def _json_schema_validator(json_schema: dict[str, Any]) -> Any:
    import jsonschema_rs

    try:
        validator = jsonschema_rs.validator_for(json_schema, retriever=never_fetch)
    except ValueError as error:
        raise InvalidInput(f"This JSON schema is not valid: {error}") from error

    def validate(owner: StructuredSchema, value: Any) -> Any:
        if validator.is_valid(value):
            return value
        nulls = [tuple(error.instance_path) for error in validator.iter_errors(value) if error.instance is None]
        trimmed = without(value, nulls)
        value = value if trimmed is None else trimmed
        problems = [f"{_place(path)}: {text}" for path, text in told_problems(validator.iter_errors(value))]
        if problems:
            raise owner._unfit(value, "; ".join(problems))
        return value

    return validate


def _read_type(schema: Any) -> tuple[str | None, str, dict[str, Any], TypeAdapter[Any]]:
    """(name, description, JSON schema, adapter); no name for a type that travels under the key `value`."""
    described, adapter = type_schema(
        schema,
        f"{schema!r} cannot be the shape of an answer",
        "Use a pydantic model, a dataclass, a TypedDict or a JSON schema dict.",
    )
    if has_fields(schema):
        read = class_docstring(schema)
        facing = with_descriptions(model_facing(described, frozenset(), schema.__name__), read.arguments)
        if facing["type"] == "object" and "anyOf" not in facing:  # a root model need not be one
            return described.get("title", schema.__name__), read.description, facing, adapter
    definitions = described.pop("$defs", None)
    wrapper = {"type": "object", "properties": {"value": described}, "required": ["value"]}
    if definitions:
        wrapper["$defs"] = definitions
    return None, "", model_facing(wrapper, frozenset(), "answer"), adapter


def _type_validator(adapter: TypeAdapter[Any]) -> Any:
    from pydantic import ValidationError
    from pydantic_core import to_json

    def validate(owner: StructuredSchema, value: Any) -> Any:
        try:  # from JSON, so that strict models take dates and enums as the text they travel as
            return adapter.validate_json(to_json(value, serialize_unknown=True))
        except ValidationError as first:
            error = first
        trimmed = without_nulls(value, error)
        if trimmed is not None:
            try:
                return adapter.validate_json(to_json(trimmed, serialize_unknown=True))
            except ValidationError as second:
                error = second
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
