"""Whatever users hand to `bind_tools`, as the function definition that models are sent."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

from runwell.errors import InvalidInput, nearest
from runwell.models.strict_schema import strict_schema
from runwell.schemas.structured import StructuredSchema
from runwell.schemas.typed_dicts import is_typed_dict

__all__ = ["function_definition", "tool_choice_for", "tool_name"]


def function_definition(tool: Any, *, strict: bool | None = None) -> dict[str, Any]:
    """`{"type": "function", "function": {"name", "description", "parameters"}}` for a tool, a function, a class whose
    fields are the parameters, or a dict of any of the usual forms.

    A dict with another `type` names something the provider itself runs, and stays as it is. With `strict` the
    parameters are put in the strict dialect, or UnsupportedByProvider is raised.
    """
    if not isinstance(tool, Mapping) and hasattr(tool, "to_dict") and hasattr(tool, "type"):
        return dict(tool.to_dict())  # a ProviderTool
    if isinstance(tool, Mapping):
        if "type" in tool and tool["type"] not in ("function", "object") and "properties" not in tool:
            return dict(tool)
        function = _from_mapping(tool)
    elif callable(getattr(tool, "invoke", None)) and hasattr(tool, "name"):
        function = _from_tool(tool)
    elif isinstance(tool, type) or is_typed_dict(tool):
        schema = StructuredSchema(tool)
        function = {"name": schema.name, "description": schema.description, "parameters": schema.json_schema}
    elif callable(tool):
        function = _from_function(tool)
    else:
        raise InvalidInput(
            f"{tool!r} is not a tool.",
            hint="Pass a tool, a function with type hints, a class whose fields are the parameters, or a schema dict.",
        )
    if strict is not None:
        function["strict"] = strict
    if strict:
        function["parameters"] = strict_schema(function.get("parameters") or {"type": "object", "properties": {}})
    return {"type": "function", "function": function}


def tool_name(tool: Mapping[str, Any]) -> str:
    """The name in a definition; its `type` for something the provider itself runs."""
    function = tool.get("function")
    return str(function["name"] if isinstance(function, Mapping) else tool.get("name") or tool.get("type"))


def _from_mapping(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool.get("function") if tool.get("type") == "function" else None
    if isinstance(function, Mapping):
        if not function.get("name"):
            raise InvalidInput(f"A function for the model needs a name; got {dict(tool)!r}.")
        return dict(function)
    if tool.get("name"):
        parameters = tool.get("parameters") or tool.get("input_schema") or {"type": "object", "properties": {}}
        return {"name": tool["name"], "description": tool.get("description", ""), "parameters": parameters}
    if tool.get("title"):
        parameters = {key: value for key, value in tool.items() if key not in ("title", "description")}
        return {"name": tool["title"], "description": tool.get("description", ""), "parameters": parameters}
    raise InvalidInput(
        f"This dict names no tool: {dict(tool)!r}.",
        hint='A tool dict has "name" (or "title", for a JSON schema), "description" and "parameters".',
    )


def _from_tool(tool: Any) -> dict[str, Any]:
    describe = getattr(tool, "json_schema", None)
    schema = describe() if callable(describe) else getattr(tool, "args_schema", None)
    if schema is None:
        parameters: dict[str, Any] = {"type": "object", "properties": dict(getattr(tool, "args", None) or {})}
    elif isinstance(schema, Mapping):
        parameters = dict(schema)
    else:
        parameters = dict(StructuredSchema(schema).json_schema)
    for key in ("title", "description"):  # said once, beside the parameters
        parameters.pop(key, None)
    return {"name": tool.name, "description": tool.description or "", "parameters": parameters}


def _from_function(function: Callable[..., Any]) -> dict[str, Any]:
    from pydantic import PydanticUserError, TypeAdapter

    try:
        parameters = TypeAdapter[Any](cast(Any, function)).json_schema()
    except (PydanticUserError, NameError) as error:
        raise InvalidInput(
            f"The parameters of {function!r} cannot be described to a model: {str(error).splitlines()[0]}",
            hint="Give each parameter a type that JSON can say, or make it a tool with args_schema=.",
        ) from error
    described = inspect.getdoc(function)
    summary = ""
    if described:
        from docstring_parser import parse

        parsed = parse(described)
        summary = "\n\n".join(part for part in (parsed.short_description, parsed.long_description) if part)
        for parameter in parsed.params:
            target = parameters.get("properties", {}).get(parameter.arg_name)
            if target is not None and parameter.description:
                target.setdefault("description", parameter.description)
    name = getattr(function, "__name__", type(function).__name__)
    return {"name": name, "description": summary, "parameters": parameters}


def tool_choice_for(choice: Any, definitions: list[dict[str, Any]]) -> Any:
    """A choice as the request says it: "auto", "none", "required", or the definition's name in a dict.

    Raises InvalidInput for a name that is none of the tools'.
    """
    if choice is True or choice in ("any", "required"):
        return "required"
    if choice is False:
        return "none"
    if isinstance(choice, Mapping) or choice in ("auto", "none"):
        return choice
    names = [tool_name(definition) for definition in definitions]
    if isinstance(choice, str) and choice in names:
        place = names.index(choice)
        kind = definitions[place]["type"]
        return {"type": "function", "function": {"name": choice}} if kind == "function" else {"type": kind}
    raise InvalidInput(
        f"tool_choice={choice!r} is none of the tools{nearest(str(choice), names)}.",
        hint=f'Use "auto", "none", "any", or one of {names}.',
    )
