"""What a prompt says so that a model writes what a parser reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["ANY_JSON", "schema_instructions"]

ANY_JSON = "Answer with a JSON object and nothing else."

_SCHEMA = """Answer with one JSON value that fits the JSON Schema below, and nothing else.

The schema describes the answer and is not the answer. For instance, for the schema
{"type": "object", "properties": {"colours": {"type": "array", "items": {"type": "string"}}}, "required": ["colours"]}
the answer {"colours": ["red", "blue"]} fits, and {"properties": {"colours": ["red", "blue"]}} does not.

The schema:
```json
SCHEMA
```"""


def schema_instructions(schema: Mapping[str, Any]) -> str:
    """Instructions for a JSON answer that fits `schema`."""
    # The title names a Python class, which tells a model nothing that the description does not.
    told = {key: value for key, value in schema.items() if key != "title"}
    return _SCHEMA.replace("SCHEMA", json.dumps(told, ensure_ascii=False))
