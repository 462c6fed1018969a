"""A chat model with keyword arguments that every call adds: tools, stop texts, a temperature."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from runwell.errors import InvalidInput, UnsupportedByProvider
from runwell.messages.chunks import AIMessageChunk
from runwell.messages.message import AIMessage
from runwell.models.answer import AnswerParser
from runwell.models.tool_choice import tool_choice_for, tool_name
from runwell.runnables.fields import masked
from runwell.runnables.runnable import Runnable
from runwell.schemas.structured import StructuredSchema

if TYPE_CHECKING:
    from runwell.models.chat_model import BaseChatModel

__all__ = ["BoundModel"]


class BoundModel(Runnable[Any, AIMessage]):
    """`bound` with `kwargs` added to each call; a call's own win. Everything else is as on the model itself."""

    def __init__(
        self, bound: BaseChatModel, kwargs: Mapping[str, Any], config: Mapping[str, Any] | None = None
    ) -> None:
        self.bound = bound
        self.kwargs = dict(kwargs)
        if self.kwargs.get("tools"):
            self.kwargs["tools"] = bound._bound_tools(self.kwargs["tools"])
        self.config: dict[str, Any] = dict(config or {})
        bound._check_together(self.kwargs)

    def __repr__(self) -> str:
        shown = [f"{name}={_shown(masked(name, value))}" for name, value in self.kwargs.items()]
        return f"{self.bound!r}.bind({', '.join(shown)})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("bound", "kwargs", "config"):
            raise AttributeError(name)
        return getattr(self.bound, name)

    def get_name(self, *args: Any, **kwargs: Any) -> str:
        return self.bound.get_name(*args, **kwargs)

    def _config(self, config: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        if not self.config:
            return config
        from runwell.runnables.config import merge_configs

        return merge_configs(self.config, config)

    # -- calling

    def invoke(self, input: Any, config: Mapping[str, Any] | None = None, **kwargs: Any) -> AIMessage:
        return self.bound.invoke(input, self._config(config), **{**self.kwargs, **kwargs})

    async def ainvoke(self, input: Any, config: Mapping[str, Any] | None = None, **kwargs: Any) -> AIMessage:
        return await self.bound.ainvoke(input, self._config(config), **{**self.kwargs, **kwargs})

    def _begin_acall(self, input: Any, **kwargs: Any) -> Coroutine[Any, Any, AIMessage]:
        """As on the model."""
        if self.config or getattr(self.ainvoke, "__func__", None) is not BoundModel.ainvoke:
            return self.ainvoke(input, **kwargs)
        return self.bound._begin_acall(input, **{**self.kwargs, **kwargs})

    def stream(self, input: Any, config: Mapping[str, Any] | None = None, **kwargs: Any) -> Iterator[AIMessageChunk]:
        return self.bound.stream(input, self._config(config), **{**self.kwargs, **kwargs})

    def astream(
        self, input: Any, config: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> AsyncIterator[AIMessageChunk]:
        return self.bound.astream(input, self._config(config), **{**self.kwargs, **kwargs})

    # -- deriving

    def bind(self, **kwargs: Any) -> BoundModel:
        """With more arguments; a later value of one name replaces the earlier."""
        return BoundModel(self.bound, {**self.kwargs, **kwargs}, self.config)

    def with_config(self, config: Mapping[str, Any] | None = None, **kwargs: Any) -> BoundModel:
        """With a config for each call."""
        from runwell.runnables.config import merge_configs

        return BoundModel(self.bound, self.kwargs, dict(merge_configs(self.config, {**(config or {}), **kwargs})))

    def bind_tools(
        self,
        tools: Sequence[Any],
        *,
        tool_choice: Any = None,
        strict: bool | None = None,
        parallel_tool_calls: bool | None = None,
        **kwargs: Any,
    ) -> BoundModel:
        """With these tools instead of any bound before; other arguments stay."""
        rebound = self.bound.bind_tools(
            tools, tool_choice=tool_choice, strict=strict, parallel_tool_calls=parallel_tool_calls, **kwargs
        )
        kept = {key: value for key, value in self.kwargs.items() if key != "tool_choice"}
        return BoundModel(self.bound, {**kept, **getattr(rebound, "kwargs", {})}, self.config)

    def with_structured_output(
        self,
        schema: Any,
        *,
        method: Literal["json_schema", "function_calling", "json_mode"] | None = None,
        include_raw: bool = False,
        strict: bool | None = None,
        retries: int = 0,
        **kwargs: Any,
    ) -> Runnable[Any, Any]:
        """As on the model, with the bound tools kept: the model is sent both, and may call a tool before it answers.

        A turn that calls a tool is no answer: it raises OutputParserException, or is in `raw` with `include_raw`.
        """
        model = self.bound
        if method is None:
            knows = (model.profile or {}).get("structured_output")
            held = knows and "json_schema" in model.structured_methods
            held = held and _takes(model, StructuredSchema(schema), {**self.kwargs, **kwargs})
            method = "json_schema" if held else "function_calling"
        if method not in ("json_schema", "function_calling", "json_mode"):
            raise InvalidInput(
                f"method={method!r} is no way to ask for structured output.",
                hint="One of 'json_schema', 'function_calling', 'json_mode'.",
            )
        if method not in model.structured_methods:
            raise UnsupportedByProvider(
                f"{type(model).__name__} has no structured output by {method!r}.",
                hint=f"It has {', '.join(repr(each) for each in model.structured_methods)}.",
            )
        read = StructuredSchema(schema)
        asked = getattr(self, f"_ask_by_{method}")(read, strict)
        if type(retries) is not int or retries < 0:
            raise InvalidInput(f"retries={retries!r}: how many times to ask again, 0 or more.")
        asking, parser = self.bind(**asked, **kwargs), AnswerParser(read, method, include_raw)
        if not retries:
            return asking | parser
        from runwell.models.asking_again import AskingAgain

        return AskingAgain(asking, parser, retries)

    def _ask_by_json_schema(self, read: StructuredSchema, strict: bool | None) -> dict[str, Any]:
        schema, strict = self._dialect(read, strict)
        described = {"name": read.name, "schema": schema, "strict": strict}
        self.bound._check_answer(described)
        if read.description:
            described["description"] = read.description
        return {"response_format": {"type": "json_schema", "json_schema": described}}

    def _ask_by_json_mode(self, read: StructuredSchema, strict: bool | None) -> dict[str, Any]:
        return {"response_format": {"type": "json_object"}}

    def _ask_by_function_calling(self, read: StructuredSchema, strict: bool | None) -> dict[str, Any]:
        schema, strict = self._dialect(read, strict) if strict else (read.json_schema, None)
        function: dict[str, Any] = {"name": read.name, "description": read.description, "parameters": schema}
        if strict is not None:
            function["strict"] = strict
        bound = list(self.kwargs.get("tools") or ())
        if any(tool_name(each) == read.name for each in bound):
            raise InvalidInput(
                f"The answer and a bound tool are both called {read.name!r}.",
                hint="Give the schema another title, or the tool another name.",
            )
        answer = {"type": "function", "function": function}
        self.bound._check_tool(answer)
        tools = [*bound, answer]
        choice = self.kwargs.get("tool_choice")  # what the caller chose stays
        if choice is None:
            choice = "required" if bound else tool_choice_for(read.name, tools)
        return {"tools": tools, "tool_choice": choice}

    def _dialect(self, read: StructuredSchema, strict: bool | None) -> tuple[dict[str, Any], bool]:
        """The schema to send, and whether it is strict: as asked, else strict where the schema allows it."""
        if strict is False:
            return read.json_schema, False
        try:
            return self.bound._strict_schema(read.json_schema, f"The answer {read.name}"), True
        except UnsupportedByProvider:
            if strict:
                raise
            return read.json_schema, False


def _takes(model: BaseChatModel, read: StructuredSchema, kwargs: Mapping[str, Any]) -> bool:
    """Whether the provider is not known to refuse the answer's schema, or one beside these arguments."""
    try:
        model._check_answer({"name": read.name, "schema": read.json_schema})
        model._check_together({**kwargs, "response_format": {"type": "json_schema"}})
    except UnsupportedByProvider:
        return False
    return True


def _shown(value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
        return f"[{', '.join(tool_name(each) if 'type' in each else '...' for each in value)}]"
    return repr(value)
