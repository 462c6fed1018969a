"""A chain, model or retriever as a tool."""

from __future__ import annotations

import re
from typing import Any

from runwell.errors import ToolDefinitionError
from runwell.schemas.json_schema import at_root
from runwell.tools.structured import StructuredTool

__all__ = ["convert_runnable_to_tool"]


def convert_runnable_to_tool(
    runnable: Any,
    args_schema: Any = None,
    *,
    name: str | None = None,
    description: str | None = None,
    arg_types: dict[str, Any] | None = None,
    **fields: Any,
) -> StructuredTool:
    """A tool that invokes `runnable` with its arguments.

    Without `args_schema` or `arg_types` the runnable's input schema tells the arguments: an object's properties become
    arguments of their own, anything else is one argument called `input`.
    """
    schema = args_schema
    if schema is None and arg_types is not None:
        from pydantic import create_model

        types: dict[str, Any] = {key: (kind, ...) for key, kind in arg_types.items()}
        schema = create_model("Arguments", **types)
    whole = False
    if schema is None:
        schema = at_root(runnable.get_input_jsonschema())
        whole = "properties" not in schema
        if whole:
            inner = {key: value for key, value in schema.items() if key not in ("$defs", "title")}
            definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
            schema = {"type": "object", "properties": {"input": inner}, "required": ["input"], **definitions}
    called = name or _tidy(getattr(runnable, "name", None) or type(runnable).__name__)
    if not description:
        raise ToolDefinitionError(
            f"Tool {called!r}: a runnable has no docstring for a model to read.", hint="Pass description=..."
        )

    def run(**arguments: Any) -> Any:
        return runnable.invoke(arguments["input"] if whole else arguments)

    async def arun(**arguments: Any) -> Any:
        return await runnable.ainvoke(arguments["input"] if whole else arguments)

    return StructuredTool.from_function(run, arun, called, description, args_schema=schema, **fields)


def _tidy(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")
