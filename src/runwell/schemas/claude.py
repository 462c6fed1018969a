"""The subset of JSON schema that Claude follows to the letter (strict tools), at Anthropic and on Bedrock.

Every object is closed; a key that may be missing stays so. What only narrows a value (a bound, a length, a pattern) is
left out, since whoever reads the answer checks it; what would change its shape is refused.
"""

from __future__ import annotations

from typing import Any

from runwell.errors import UnsupportedByProvider
from runwell.schemas.json_schema import at_root, copy_json, dereference_refs, map_schema, reachable
from runwell.schemas.strict import refuse_loose, typed

__all__ = ["claude_answer", "claude_schema"]

_KEPT = frozenset(
    (
        "type",
        "description",
        "default",
        "enum",
        "const",
        "format",
        "anyOf",
        "items",
        "minItems",
        "properties",
        "required",
        "additionalProperties",
    )
)
_FORMATS = frozenset(("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"))


def claude_schema(schema: dict[str, Any], whose: str, who: str) -> dict[str, Any]:
    """A copy in the subset, unions and items included, for the strict mode that `who` names.

    Raises UnsupportedByProvider, naming `whose` schema it is and the place in it, for what the subset cannot say.
    """
    schema = dereference_refs(at_root(copy_json(schema)), where=whose)
    for path, part in reachable(schema):
        if "$ref" in part:
            raise UnsupportedByProvider(
                f"{whose}: {who} cannot express {path or 'the whole'}: a type that holds itself.",
                hint="Nest to a definite depth, or leave out strict=True.",
            )
        refuse_loose(part, path, whose, who)
    return map_schema(schema, _closed)  # type: ignore[no-any-return]


def claude_answer(schema: Any, name: Any, who: str) -> dict[str, Any]:
    """The schema of an answer, as `claude_schema`: answers are always held to theirs, so nothing looser can be sent.

    Raises UnsupportedByProvider that says how else to ask.
    """
    try:
        return claude_schema(dict(schema), f"The answer {name or ''}".rstrip(), f"{who}'s structured output")
    except UnsupportedByProvider as error:
        raise UnsupportedByProvider(
            error.message, hint='Ask by a tool: method="function_calling", or in an agent ToolStrategy(...).'
        ) from None


def _closed(part: dict[str, Any]) -> dict[str, Any]:
    if len(part.get("allOf", ())) == 1:
        part = {**part.pop("allOf")[0], **part}
    if "oneOf" in part:
        part["anyOf"] = part.pop("oneOf")
    if isinstance(part.get("format"), str) and part["format"] not in _FORMATS:
        del part["format"]
    if part.get("minItems", 0) not in (0, 1):
        part["minItems"] = 1
    if "properties" in part:
        part["additionalProperties"] = False
    return typed({key: value for key, value in part.items() if key in _KEPT})
