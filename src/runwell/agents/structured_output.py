"""How an agent is made to answer in a given shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin

from runwell.errors import GraphError, InvalidInput, StructuredOutputError, UnsupportedByProvider

if TYPE_CHECKING:  # at run time with the first response_format: reading schemas is not small
    from runwell.schemas.structured import StructuredSchema

__all__ = [
    "AutoStrategy",
    "MultipleStructuredOutputsError",
    "ProviderStrategy",
    "ResponseFormat",
    "StructuredOutputError",
    "StructuredOutputValidationError",
    "ToolStrategy",
    "strategy_of",
]

T = TypeVar("T")
Mixed = Literal["finish", "continue", "reject"]


class StructuredOutputValidationError(StructuredOutputError):
    """An answer that does not fit its schema."""


class MultipleStructuredOutputsError(StructuredOutputError):
    """Several different answers in one turn."""


@dataclass(slots=True)
class ToolStrategy(Generic[T]):
    """The answer is a call of a tool that stands for the schema; a union, also a
    JSON schema's `oneOf`, offers one tool for each member.

    `handle_errors`: True tells the model what is wrong and lets it try again (at most `AgentLimits.max_answers`
    times in all); False raises at once; a string or function says something else; exception classes limit what is
    retried. `on_mixed` says what happens when the model answers and calls other tools in one turn: "finish" runs
    them and ends, "continue" runs them and asks again, "reject" runs none of them. `tool_choice` is "any" (must
    call a tool) or "auto" (left free).
    """

    schema: Any
    tool_message_content: str | None = None
    handle_errors: bool | str | type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], str] = True
    on_mixed: Mixed = "finish"
    tool_choice: Literal["any", "auto"] = "any"
    shapes: dict[str, StructuredSchema] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.on_mixed not in ("finish", "continue", "reject"):
            raise InvalidInput(f"on_mixed={self.on_mixed!r}.", hint='It is "finish", "continue" or "reject".')
        if self.tool_choice not in ("any", "auto"):
            raise InvalidInput(f"tool_choice={self.tool_choice!r}.", hint='It is "any" or "auto".')
        rule: Any = self.handle_errors
        kinds = rule if isinstance(rule, tuple) else (rule,) if isinstance(rule, type) else ()
        if not (isinstance(rule, (bool, str)) or kinds or callable(rule)) or not all(
            isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds
        ):
            raise InvalidInput(
                f"handle_errors={rule!r:.100}.", hint="It is True, False, a text, exception classes or a function."
            )
        _check_schema(self.schema)
        from runwell.schemas.structured import StructuredSchema

        self.shapes = {}
        for member in _members(self.schema):
            shape = StructuredSchema(member)
            if shape.name in self.shapes:
                raise GraphError(
                    f"Two schemas of the response_format are called {shape.name!r}.", hint="Give one another name."
                )
            self.shapes[shape.name] = shape

    def tools(self) -> list[dict[str, Any]]:
        """What the model is offered, in the form `bind_tools` takes."""
        return [
            {
                "type": "function",
                "function": {
                    "name": shape.name,
                    "description": shape.description or f"Give the final answer as {shape.name}.",
                    "parameters": shape.json_schema,
                },
            }
            for shape in self.shapes.values()
        ]

    def told(self, error: Exception) -> str | None:
        """What the model is told about a bad answer; None when it is to be raised."""
        rule = self.handle_errors
        if rule is True:
            return f"{getattr(error, 'message', str(error))}\nCorrect the answer and call the tool again."
        if isinstance(rule, str):
            return rule
        if isinstance(rule, (type, tuple)):
            return f"{error}\nCorrect the answer and call the tool again." if isinstance(error, rule) else None
        return rule(error) if callable(rule) else None


@dataclass(slots=True)
class ProviderStrategy(Generic[T]):
    """The answer is the provider's own structured output."""

    schema: Any
    strict: bool | None = None
    shape: StructuredSchema = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_schema(self.schema)
        from runwell.schemas.structured import StructuredSchema

        self.shape = StructuredSchema(self.schema)

    def settings(self) -> dict[str, Any]:
        """Keyword arguments for the model."""
        described: dict[str, Any] = {"name": self.shape.name, "schema": self.shape.json_schema}
        if self.strict is not None:
            described["strict"] = self.strict
        return {"response_format": {"type": "json_schema", "json_schema": described}}


@dataclass(slots=True)
class AutoStrategy(Generic[T]):
    """The provider's structured output where the model's profile says it has one, a tool otherwise."""

    schema: Any


_STRATEGIES = (ToolStrategy, ProviderStrategy, AutoStrategy)


def _members(schema: Any) -> Sequence[Any]:
    """The schemas that a union is of, also of one written as a JSON schema; any other is its own."""
    if get_origin(schema) is Annotated:
        schema = get_args(schema)[0]
    if get_origin(schema) in (Union, UnionType):
        return get_args(schema)
    if isinstance(schema, dict) and "type" not in schema and isinstance(members := schema.get("oneOf"), list):
        return members or (schema,)
    return (schema,)


def _check_schema(schema: Any) -> None:
    """Refuse what is easily written in the place of a schema and would pass for one."""
    if schema is None or schema in _STRATEGIES or isinstance(schema, _STRATEGIES):
        raise InvalidInput(
            f"{getattr(schema, '__name__', None) or repr(schema)} is not the schema of an answer.",
            hint="Pass a pydantic model, a dataclass, a TypedDict or a JSON schema: ToolStrategy(MyAnswer).",
        )


ResponseFormat = ToolStrategy[Any] | ProviderStrategy[Any] | AutoStrategy[Any]


def strategy_of(
    response_format: Any, model: Any, *, tools: Sequence[Any] = (), settled: bool = True
) -> ToolStrategy[Any] | ProviderStrategy[Any] | None:
    """A `response_format=` as a strategy, for an agent with such `tools`.

    A bare schema, or AutoStrategy, goes by the model's profile; unknown means tools, and so does what the provider's
    structured output is known not to take: such a schema, or tools beside it. The answer is then left free where the
    model cannot be made to call. A strategy of the caller's own that the provider is known not to take raises
    UnsupportedByProvider, if it is `settled` that this is the model that will be asked.
    """
    if isinstance(response_format, ProviderStrategy):
        _check_answer(response_format, model, tools if settled else ())
    if isinstance(response_format, ToolStrategy) and response_format.tool_choice == "any" and settled:
        _check_forced(model)
    if response_format is None or isinstance(response_format, (ToolStrategy, ProviderStrategy)):
        return response_format
    schema = response_format.schema if isinstance(response_format, AutoStrategy) else response_format
    profile = getattr(model, "profile", None) or {}
    if profile.get("structured_output"):
        strategy = ProviderStrategy[Any](schema)
        try:
            _check_answer(strategy, model, tools)
        except UnsupportedByProvider:
            pass
        else:
            return strategy
    try:
        _check_forced(model)
    except UnsupportedByProvider:
        return ToolStrategy(schema, tool_choice="auto")
    return ToolStrategy(schema)


def _check_answer(strategy: ProviderStrategy[Any], model: Any, tools: Sequence[Any]) -> None:
    methods = getattr(model, "structured_methods", None)
    if isinstance(methods, tuple) and "json_schema" not in methods:
        raise UnsupportedByProvider(
            f"{type(model).__name__} has no structured output by a JSON schema.",
            hint=f"response_format=ToolStrategy({strategy.shape.name}).",
        )
    check = getattr(model, "_check_answer", None)
    if check is not None:
        check({"name": strategy.shape.name, "schema": strategy.shape.json_schema})
    together = getattr(model, "_check_together", None)
    if together is not None and tools:
        together({"tools": tools, **strategy.settings()})


def _check_forced(model: Any) -> None:
    """Raises UnsupportedByProvider for a model that is known not to be made to call a tool."""
    bind = getattr(model, "_tool_kwargs", None)
    if bind is not None:
        bind([], "any", None, None)
