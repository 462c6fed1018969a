"""A tool made of a function."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any, Self

from runwell.drivers.colour import is_async
from runwell.effects import Callee
from runwell.errors import ToolDefinitionError
from runwell.schemas.signature import describe_place, doc_of, innermost, name_of
from runwell.schemas.type_arguments import Known, type_arguments
from runwell.tools.base_tool import BaseTool
from runwell.tools.progress import as_callable

if TYPE_CHECKING:
    from pydantic import BaseModel

    from runwell.tools.definition import Definition

__all__ = ["StructuredTool", "Tool", "create_schema_from_function"]


class StructuredTool(BaseTool):
    """A tool whose work is a function: `func` in plain code, `coroutine` in async code, or both.

    One of them is enough: each serves callers of either colour. The arguments come from the signature's type hints and
    the docstring, unless `args_schema` gives them.
    """

    func: Callable[..., Any] | None = None
    coroutine: Callable[..., Any] | None = None
    infer_schema: bool = True
    parse_docstring: bool | None = None

    _owner: type | None = None
    """The generic class that it was declared in, if any."""
    _variants: list[tuple[Any, Definition]] = []

    @classmethod
    def from_function(
        cls,
        func: Callable[..., Any] | None = None,
        coroutine: Callable[..., Any] | None = None,
        name: str | None = None,
        description: str | None = None,
        return_direct: bool = False,
        args_schema: Any = None,
        infer_schema: bool = True,
        *,
        error_on_invalid_docstring: bool = True,
        parse_docstring: bool | None = None,
        **fields: Any,
    ) -> Self:
        """A tool from a function of either colour; `fields` are those of `BaseTool`.

        Raises ToolDefinitionError for a function that cannot be one, naming its file and line.
        """
        function = func if func is not None else coroutine
        if function is None:
            raise ToolDefinitionError(
                "StructuredTool.from_function got no function.", hint="Pass func=..., coroutine=... or both."
            )
        if parse_docstring and not error_on_invalid_docstring:
            parse_docstring = None
        return cls(
            name=name or name_of(function),
            description=description or "",
            func=func,
            coroutine=coroutine,
            return_direct=return_direct,
            args_schema=args_schema,
            infer_schema=infer_schema,
            parse_docstring=parse_docstring,
            **fields,
        )

    def _callee(self) -> Callee[Any]:
        plain, aio = self.func, self.coroutine
        if plain is not None and is_async(plain):
            plain, aio = None, aio or plain
        for function in (plain, aio):
            if function is not None and not callable(function):
                raise ToolDefinitionError(
                    f"Tool {self.name!r}: {function!r} cannot be called.", hint="func and coroutine are functions."
                )
        if isinstance(plain, type):
            raise ToolDefinitionError(
                f"{describe_place(plain)}: a class is not a tool.",
                hint="Decorate a function, or pass the class as args_schema of one.",
            )
        return as_callable(plain, aio, getattr(innermost(plain), "__runwell_cheap__", False))

    def _place(self) -> str:
        return describe_place(self.func if self.func is not None else self.coroutine)

    def _read(self) -> Definition:
        from runwell.tools.definition import define

        function: Any = self.func if self.func is not None else self.coroutine
        callee = self._callee()
        return define(
            self.name,
            function,
            callee,
            description=self.description,
            doc=doc_of(function),
            args_schema=self.args_schema,
            infer_schema=self.infer_schema,
            parse_docstring=self.parse_docstring,
        )

    def __get__(self, instance: object, owner: type | None = None) -> Self:
        """As a method: a tool declared in a class body is bound to the instance it is read from."""
        from runwell.tools.two_colours import suited

        if instance is None:
            return self
        made = self._definition or self.definition
        if not made.unbound:
            return self
        bound = copy.copy(self)
        bound.func = None if self.func is None else MethodType(self.func, instance)
        bound.coroutine = None if self.coroutine is None else MethodType(self.coroutine, instance)
        if self._owner is not None and (known := type_arguments(instance, self._owner)):
            made = self._in_generic(bound, known)
        bound._definition = copy.copy(made)
        bound._definition.callee = suited(bound._callee(), bound._definition.left_out)
        bound._definition.unbound, bound._definition.spread = False, None
        return bound

    def __set_name__(self, owner: type, name: str) -> None:
        if getattr(owner, "__orig_bases__", None) or getattr(owner, "__parameters__", None):
            self._owner = owner

    def _in_generic(self, bound: Self, known: Known) -> Definition:
        """The definition for an instance of a generic class that says what its type parameters are."""
        key = tuple(known.items())
        made = next((each for kept, each in self._variants if kept == key), None)
        if made is None:
            made = bound._read()
            self._variants = [*self._variants[-31:], (key, made)]
        return made


def create_schema_from_function(
    model_name: str, func: Callable[..., Any], *, parse_docstring: bool | None = None
) -> type[BaseModel]:
    """The Pydantic model of a function's arguments, as its tool would have it."""
    made = StructuredTool.from_function(func, name=model_name, description=model_name, parse_docstring=parse_docstring)
    return made.definition.arguments.model  # type: ignore[attr-defined, no-any-return]


class Tool(StructuredTool):
    """A tool of one argument: `Tool("search", func, "Search the web.")`."""

    def __init__(
        self, name: str = "", func: Callable[..., Any] | None = None, description: str = "", **fields: Any
    ) -> None:
        super().__init__(name=name, func=func, description=description, **fields)
