"""The tool calls of a message, as plain values or as checked ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import to_json

from runwell.errors import InvalidConfig, InvalidInput, OutputParserException, nearest
from runwell.messages.message import AIMessage
from runwell.parsers.parser import BaseOutputParser

__all__ = ["JsonOutputKeyToolsParser", "JsonOutputToolsParser", "PydanticToolsParser"]


class JsonOutputToolsParser(BaseOutputParser[Any]):
    """A message's tool calls, in order, as dicts `{"type": name, "args": {...}}`; with `return_id` also `"id"`.

    With `first_tool_only` the first call, or None when there is none. Calls whose arguments could not be
    read raise `OutputParserException`: they are never passed over.
    """

    never_blocks = True

    def __init__(self, *, first_tool_only: bool = False, return_id: bool = False, name: str | None = None) -> None:
        self.first_tool_only = first_tool_only
        self.return_id = return_id
        self.name = name

    def parse(self, text: str) -> Any:
        raise InvalidInput(
            f"{type(self).__name__} reads the tool calls of a message, not text.",
            hint="Put it directly behind a model with bound tools, without StrOutputParser in between.",
        )

    def _parse_input(self, given: Any) -> Any:
        calls = self._calls(given)
        if self.first_tool_only:
            return calls[0] if calls else None
        return calls

    def _calls(self, given: Any) -> list[dict[str, Any]]:
        if not isinstance(given, AIMessage):
            return [self.parse(given)]
        if given.invalid_tool_calls:
            broken = given.invalid_tool_calls[0]
            raise OutputParserException(
                f"The arguments of the call to {broken.get('name')!r} cannot be read: "
                f"{broken.get('error') or 'they are no JSON object'} (got {broken.get('args')!r:.200}).",
                llm_output=broken.get("args"),
            )
        if self.return_id:
            return [{"type": call["name"], "args": call["args"], "id": call["id"]} for call in given.tool_calls]
        return [{"type": call["name"], "args": call["args"]} for call in given.tool_calls]


class JsonOutputKeyToolsParser(JsonOutputToolsParser):
    """The arguments of the calls to the tool `key_name`; calls to other tools are left out.

    With `first_tool_only` those of the first such call, or None. With `return_id` the whole call, as
    `JsonOutputToolsParser` gives it, instead of its arguments.
    """

    def __init__(
        self, key_name: str, *, first_tool_only: bool = False, return_id: bool = False, name: str | None = None
    ) -> None:
        super().__init__(first_tool_only=first_tool_only, return_id=return_id, name=name)
        self.key_name = key_name

    def _calls(self, given: Any) -> list[dict[str, Any]]:
        calls = [call for call in super()._calls(given) if call["type"] == self.key_name]
        return calls if self.return_id else [call["args"] for call in calls]


class PydanticToolsParser(JsonOutputToolsParser):
    """A message's tool calls as values of the types in `tools`, each call by the type of its name.

    A type is a pydantic model, or anything else pydantic can check that has a `__name__`. Raises
    `OutputParserException` for a call to an unknown tool and for arguments that do not fit.
    """

    def __init__(self, tools: Sequence[type[Any]], *, first_tool_only: bool = False, name: str | None = None) -> None:
        super().__init__(first_tool_only=first_tool_only, name=name)
        self.tools = list(tools)
        self._types: dict[str, type[Any]] = {}
        for tool in self.tools:
            key = _tool_name(tool)
            if key in self._types:
                raise InvalidConfig(f"Two of the tools are named {key!r}.")
            self._types[key] = tool

    def _calls(self, given: Any) -> list[Any]:
        return [self._value(call["type"], call["args"]) for call in super()._calls(given)]

    def _value(self, name: str, args: Mapping[str, Any]) -> Any:
        wanted = self._types.get(name)
        written = to_json(args, inf_nan_mode="constants").decode()
        if wanted is None:
            raise OutputParserException(
                f"The model called {name!r}, which is none of the tools{nearest(name, self._types) or '.'}",
                llm_output=written,
                hint=f"The tools are {', '.join(map(repr, self._types))}.",
            )
        try:
            if issubclass(wanted, BaseModel):
                return wanted.model_validate_json(written)
            return TypeAdapter(wanted).validate_json(written)
        except ValidationError as error:
            faults = "; ".join(
                f"{'.'.join(map(str, fault['loc'])) or 'the arguments'}: {fault['msg']}"
                for fault in error.errors(include_url=False, include_context=False)
            )
            raise OutputParserException(f"The arguments are no {name}: {faults}.", llm_output=written) from error


def _tool_name(tool: Any) -> str:
    if not isinstance(tool, type):
        raise InvalidConfig(f"A tool is a type here, not {tool!r:.100}.")
    config: Any = getattr(tool, "model_config", {})
    return str(config.get("title") or tool.__name__)
