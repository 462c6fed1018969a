"""The tool calls of a message, as plain values or as checked ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import to_json

from runwell.errors import InvalidConfig, InvalidInput, OutputParserException, nearest
from runwell.messages.message import AIMessage
from runwell.parsers.json_reader import JsonReader, MalformedJson
from runwell.parsers.parser import BaseTransformOutputParser, Feed
from runwell.parsers.partial_json import parse_partial_json
from runwell.runnables.addable import add_all

__all__ = ["JsonOutputKeyToolsParser", "JsonOutputToolsParser", "PydanticToolsParser", "parse_tool_call"]


def parse_tool_call(
    raw_tool_call: Mapping[str, Any], *, partial: bool = False, strict: bool = False, return_id: bool = True
) -> dict[str, Any] | None:
    """A call in OpenAI's form, `{"id", "function": {"name", "arguments"}}`, as `{"name", "args", "id", "type"}`.

    With `partial` arguments may break off: what is there is given, and None when that is no object yet. `strict`
    refuses control characters in strings. Raises `OutputParserException` for arguments that are no JSON object.
    """
    function = raw_tool_call.get("function")
    if not isinstance(function, Mapping) or "name" not in function:
        if partial:
            return None
        raise InvalidInput(
            f"{raw_tool_call!r:.200} is no call of a function.", hint='It has "function" with "name" and "arguments".'
        )
    name, written = function["name"], function.get("arguments") or ""
    args: Any = written
    if isinstance(written, str):
        try:
            args = parse_partial_json(written) if partial else json.loads(written or "{}", strict=strict)
        except ValueError as error:
            if partial:
                return None
            raise OutputParserException(
                f"The arguments of the call to {name!r} are no JSON: {error}.", llm_output=written
            ) from error
    if not isinstance(args, dict):
        if partial:
            return None
        raise OutputParserException(
            f"The arguments of the call to {name!r} are {args!r:.200}, not a JSON object.", llm_output=str(written)
        )
    call = {"name": name or "", "args": args}
    return {**call, "id": raw_tool_call.get("id"), "type": "tool_call"} if return_id else call


class JsonOutputToolsParser(BaseTransformOutputParser[Any]):
    """A message's tool calls, in order, as dicts `{"type": name, "args": {...}}`; with `return_id` also `"id"`.

    With `first_tool_only` the first call, or None when there is none. Calls whose arguments could not be
    read raise `OutputParserException`: they are never passed over. A stream shows the calls as their arguments
    grow, by the rules of `JsonOutputParser`.
    """

    never_blocks = True
    streams_snapshots = True

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
        return self._shape(self._calls(given))

    def _shape(self, calls: list[Any]) -> Any:
        if self.first_tool_only:
            return calls[0] if calls else None
        return calls

    def _piece(self, given: Any) -> Any:
        return given

    def _feed(self) -> Feed[Any]:
        return _CallFeed(self)

    def _so_far(self, calls: list[dict[str, Any]]) -> Any:
        """What to show of calls that are still being written; None for nothing yet."""
        return self._shape([self._shown(call) for call in calls]) or None

    def _shown(self, call: Mapping[str, Any]) -> Any:
        shown = {"type": call["name"], "args": call["args"]}
        return {**shown, "id": call["id"]} if self.return_id else shown

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
        return [self._shown(call) for call in given.tool_calls]


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

    def _so_far(self, calls: list[dict[str, Any]]) -> Any:
        calls = [call for call in calls if call["name"] == self.key_name]
        return self._shape([self._shown(call) if self.return_id else call["args"] for call in calls]) or None


class PydanticToolsParser(JsonOutputToolsParser):
    """A message's tool calls as values of the types in `tools`, each call by the type of its name.

    A type is a pydantic model, or anything else pydantic can check that has a `__name__`. Raises
    `OutputParserException` for a call to an unknown tool and for arguments that do not fit. A stream gives the
    values once, at its end: half a call is never checked.
    """

    streams_snapshots = False

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

    def _so_far(self, calls: list[dict[str, Any]]) -> Any:
        return None

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


_NOTHING = object()


class _CallFeed(Feed[Any]):
    """Shows calls while their arguments are written; the end is read from the whole message, as without a stream."""

    def __init__(self, parser: JsonOutputToolsParser) -> None:
        self._parser = parser
        self._pieces: list[Any] = []
        self._calls: dict[Any, dict[str, Any]] = {}
        self._readers: dict[Any, JsonReader] = {}
        self._shown: Any = _NOTHING

    def feed(self, piece: Any) -> Iterator[Any]:
        self._pieces.append(piece)
        changed = False
        for fragment in getattr(piece, "tool_call_chunks", ()):
            changed = self._read(fragment) or changed
        if changed:
            named = [call for call in self._calls.values() if call["name"] and call["args"] is not None]
            value = self._parser._so_far(named)
            if value is not None and value != self._shown:
                self._shown = value
                yield value

    def finish(self) -> Iterator[Any]:
        if not self._pieces:
            return
        value = self._parser._parse_input(add_all(self._pieces))
        if value != self._shown:
            yield value

    def _read(self, fragment: Mapping[str, Any]) -> bool:
        slot = fragment.get("index")
        if slot is None:
            slot = fragment.get("id") or next(reversed(self._calls), 0)
        if slot not in self._calls:
            self._calls[slot] = {"name": None, "args": None, "id": None}
            self._readers[slot] = JsonReader()
        reader = self._readers[slot]
        call = dict(self._calls[slot])
        call["name"] = call["name"] or fragment.get("name")
        call["id"] = call["id"] or fragment.get("id")
        try:
            reader.feed(fragment.get("args") or "")
        except MalformedJson:
            return False  # told at the end, with the whole text of the arguments
        if reader.changed and isinstance(value := reader.value(), dict):
            call["args"] = value
        changed = call != self._calls[slot]
        self._calls[slot] = call
        return changed


def _tool_name(tool: Any) -> str:
    if not isinstance(tool, type):
        raise InvalidConfig(f"A tool is a type here, not {tool!r:.100}.")
    config: Any = getattr(tool, "model_config", {})
    return str(config.get("title") or tool.__name__)
