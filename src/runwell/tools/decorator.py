"""`@tool`: a function becomes something a model can call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypedDict, overload

from typing_extensions import Unpack

from runwell.errors import ToolDefinitionError
from runwell.schemas.signature import name_of
from runwell.tools.base_tool import BaseTool, Handler
from runwell.tools.structured import StructuredTool

__all__ = ["tool"]

_Decorator = Callable[[Callable[..., Any]], StructuredTool]


class _Options(TypedDict, total=False):
    description: str | None
    return_direct: bool
    args_schema: Any
    infer_schema: bool
    response_format: Literal["content", "content_and_artifact"]
    parse_docstring: bool | None
    error_on_invalid_docstring: bool
    handle_tool_error: Handler
    handle_validation_error: Handler
    timeout: float | None
    read_only: bool | None
    idempotent: bool | None
    destructive: bool | None
    open_world: bool | None
    exclusive: bool
    output_schema: Any
    tags: list[str] | None
    metadata: dict[str, Any] | None
    extras: dict[str, Any] | None


@overload
def tool(name_or_callable: Callable[..., Any], /, **options: Unpack[_Options]) -> StructuredTool: ...
@overload
def tool(name_or_callable: str, runnable: Any, /, **options: Unpack[_Options]) -> StructuredTool: ...
@overload
def tool(name_or_callable: str | None = None, /, **options: Unpack[_Options]) -> _Decorator: ...
def tool(
    name_or_callable: str | Callable[..., Any] | None = None,
    runnable: Any = None,
    /,
    *,
    description: str | None = None,
    return_direct: bool = False,
    args_schema: Any = None,
    infer_schema: bool = True,
    response_format: Literal["content", "content_and_artifact"] = "content",
    parse_docstring: bool | None = None,
    error_on_invalid_docstring: bool = True,
    handle_tool_error: Handler = False,
    handle_validation_error: Handler = False,
    timeout: float | None = None,
    read_only: bool | None = None,
    idempotent: bool | None = None,
    destructive: bool | None = None,
    open_world: bool | None = None,
    exclusive: bool = False,
    output_schema: Any = None,
    tags: list[str] | None = None,
    metadata: dict[str, Any] | None = None,
    extras: dict[str, Any] | None = None,
) -> Any:
    """Make a tool of a function, plain or async: `@tool`, `@tool("name")`, `@tool(timeout=5)`, `tool(function)`.

    Name, arguments and description come from the function: its name, its type hints, its docstring (Google, NumPy or
    Sphinx style: text before the first section describes the tool, `Args:` the arguments). A parameter annotated with
    `ToolRuntime`, `InjectedState` and the like is filled by the program and hidden from the model.

    `args_schema` (Pydantic model, TypedDict, dataclass, JSON schema) replaces the signature. `parse_docstring=True`
    refuses a docstring that does not fit the signature (by default a warning says so), `False` takes it whole.
    The other options are fields of `BaseTool`.

    Raises ToolDefinitionError at the declaration, with file and line, for a function no model could use: no docstring
    and no description, `*args`, a type without a JSON form.
    """
    fields: dict[str, Any] = {
        "description": description,
        "return_direct": return_direct,
        "args_schema": args_schema,
        "infer_schema": infer_schema,
        "response_format": response_format,
        "parse_docstring": parse_docstring,
        "error_on_invalid_docstring": error_on_invalid_docstring,
        "handle_tool_error": handle_tool_error,
        "handle_validation_error": handle_validation_error,
        "timeout": timeout,
        "read_only": read_only,
        "idempotent": idempotent,
        "destructive": destructive,
        "open_world": open_world,
        "exclusive": exclusive,
        "output_schema": output_schema,
        "tags": tags,
        "metadata": metadata,
        "extras": extras,
    }
    if isinstance(name_or_callable, str) or name_or_callable is None:
        name = name_or_callable
        if runnable is not None:
            return _make(runnable, name, fields)
        return lambda function: _make(function, name, fields)
    if runnable is not None:
        raise ToolDefinitionError(
            f"tool({name_or_callable!r}, {runnable!r}): the first of two arguments is the name.",
            hint='tool("name", runnable)',
        )
    return _make(name_or_callable, None, fields)


def _make(function: Any, name: str | None, fields: dict[str, Any]) -> StructuredTool:
    if isinstance(function, BaseTool):
        raise ToolDefinitionError(f"{function!r} is a tool already.", hint="Apply @tool once.")
    if isinstance(function, staticmethod):
        function = function.__func__
    if isinstance(function, classmethod):
        raise ToolDefinitionError(
            f"@tool over @classmethod {function.__func__.__qualname__}: there is no class yet to bind it to.",
            hint="Make a tool of the bound method after the class: tool(Class.method).",
        )
    if not callable(function):
        if hasattr(function, "invoke"):
            from runwell.tools.runnable_tool import convert_runnable_to_tool

            return convert_runnable_to_tool(
                function, name=name, **{key: value for key, value in fields.items() if key not in _OF_FUNCTIONS}
            )
        raise ToolDefinitionError(f"{function!r} cannot be a tool: it cannot be called.", hint="Decorate a function.")
    return StructuredTool.from_function(function, name=name or name_of(function), **fields)


_OF_FUNCTIONS = ("infer_schema", "parse_docstring", "error_on_invalid_docstring")
