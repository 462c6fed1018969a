"""A chat completion on a local model: requests and answers in OpenAI's wire form, tools included.

The chat model and the HTTP endpoint are both thin shells around `LocalRuntime`.
"""

from __future__ import annotations

import json
import os
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from runwell.errors import InvalidInput, nearest
from runwell.providers.local import toolcalls
from runwell.providers.local.fetch import fetch
from runwell.providers.local.grammar import constrainable
from runwell.providers.local.runtime import (
    DEFAULT_MAX_TOKENS,
    DEFAULT_TIMEOUT_S,
    Engine,
    EngineOptions,
    Request,
    Usage,
    engine_for,
)
from runwell.providers.local.toolcalls import ANSWER, Tool
from runwell.providers.local.transcript import Made, Turn, read

__all__ = ["Call", "Calls", "End", "LocalRuntime", "Settings", "Text", "ToolChoice"]

ToolChoice = Literal["auto", "required", "none"]
_REMEMBERED = 512


@dataclass(frozen=True, slots=True)
class Settings:
    """How to generate. `timeout` in seconds per generation; `cache_prompt=False` makes equal calls exactly equal."""

    max_tokens: int = DEFAULT_MAX_TOKENS
    temperature: float = 0.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    timeout: float = DEFAULT_TIMEOUT_S
    cache_prompt: bool = True
    top_p: float | None = None


@dataclass(slots=True)
class Text:
    """A piece of the answer."""

    text: str


@dataclass(slots=True)
class Call:
    """One tool call. `arguments` is JSON text; cut short if the model ran out of `max_tokens`."""

    name: str
    arguments: str
    id: str


@dataclass(slots=True)
class Calls:
    """The tools to call next."""

    calls: list[Call]


@dataclass(slots=True)
class End:
    """The last event. `reason` is "stop", "length" or "tool_calls"."""

    reason: str
    usage: Usage


class LocalRuntime:
    """Chat completions on one model file. Cheap to make: the engine is loaded at first use and shared.

    Thread-safe. Streams end early and cancel their generation when closed.
    """

    def __init__(self, model: str | os.PathLike[str], options: EngineOptions | None = None) -> None:
        self.model = model
        self.options = options or EngineOptions()
        self._path: Path | None = None
        self._remembered: OrderedDict[str, Any] = OrderedDict()
        self._guard = Lock()

    def engine(self) -> Engine:
        """The loaded engine; fetches the model first if it is not on this machine."""
        if self._path is None:
            self._path = fetch(self.model)
        return engine_for(self._path, "chat", self.options)

    def complete(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> tuple[str, list[Call], End]:
        """`stream`, gathered: the text, the calls, how it ended."""
        text: list[str] = []
        calls: list[Call] = []
        end = End("stop", Usage())
        with closing(self.stream(messages, **options)) as events:  # type: ignore[type-var]
            for event in events:
                if isinstance(event, Text):
                    text.append(event.text)
                elif isinstance(event, Calls):
                    calls += event.calls
                else:
                    end = event
        return "".join(text), calls, end

    def stream(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        settings: Settings = Settings(),
        tools: Sequence[Mapping[str, Any]] = (),
        tool_choice: ToolChoice | Mapping[str, Any] | str | None = None,
        parallel_tool_calls: bool = False,
        response_format: Mapping[str, Any] | None = None,
    ) -> Iterator[Text | Calls | End]:
        """Answer the last user message, or say which tools to call for it.

        `messages`, `tools`, `tool_choice` and `response_format` are as in OpenAI's API. With
        `parallel_tool_calls` the calls for all parts of a request come together, else one at a time.
        """
        usage = Usage()
        turn = read(messages)
        known = [Tool.from_wire(tool) for tool in tools]
        chosen, forced = _choose(known, tool_choice)
        if chosen:
            decision = _Decision(self, turn, chosen, forced, parallel_tool_calls, settings, usage)
            calls, reason = decision.calls()
            if calls:
                yield Calls(calls)
                yield End(reason, usage)
                return
        schema = _response_schema(response_format)
        # Without tools in play the conversation goes to the model as it is; with results in it, as one question.
        plain = not turn.made and not any(m.get("role") == "tool" for m in messages)
        request = self.request(messages if plain else toolcalls.answer_messages(turn), settings, schema)
        reason = "stop"
        with closing(self.engine().stream(request)) as deltas:  # type: ignore[type-var]
            for delta in deltas:
                usage.add(delta.usage)
                reason = delta.finish_reason or reason
                if delta.text:
                    yield Text(delta.text)
        yield End(reason, usage)

    def request(
        self, messages: Sequence[Mapping[str, Any]], settings: Settings, schema: Mapping[str, Any] | None = None
    ) -> Request:
        return Request(
            messages=messages,
            max_tokens=settings.max_tokens,
            temperature=settings.temperature,
            seed=settings.seed,
            stop=settings.stop,
            schema=schema,
            cache_prompt=settings.cache_prompt,
            timeout=settings.timeout,
            extra={} if settings.top_p is None else {"top_p": settings.top_p},
        )

    def ask_json(
        self, messages: Sequence[Mapping[str, Any]], schema: Mapping[str, Any], settings: Settings, usage: Usage
    ) -> str:
        """Constrained output for a question of our own, always at temperature 0, remembered while the process lives."""
        key = json.dumps([messages, schema], sort_keys=True)
        with self._guard:
            if key in self._remembered:
                self._remembered.move_to_end(key)
                return str(self._remembered[key])
        steady = Settings(
            max_tokens=max(settings.max_tokens, DEFAULT_MAX_TOKENS),
            seed=settings.seed,
            timeout=settings.timeout,
            cache_prompt=settings.cache_prompt,
        )
        text, _, used = self.engine().complete(self.request(messages, steady, schema))
        usage.add(used)
        with self._guard:
            self._remembered[key] = text
            while len(self._remembered) > _REMEMBERED:
                self._remembered.popitem(last=False)
        return text


class _Decision:
    """Which tools to call next in a turn, if any."""

    def __init__(
        self,
        runtime: LocalRuntime,
        turn: Turn,
        tools: Sequence[Tool],
        forced: bool,
        parallel: bool,
        settings: Settings,
        usage: Usage,
    ) -> None:
        self.runtime = runtime
        self.turn = turn
        self.tools = tools
        self.forced = forced
        self.parallel = parallel
        self.settings = settings
        self.usage = usage
        self.reason = "tool_calls"

    def calls(self) -> tuple[list[Call], str]:
        """The next calls and the reason to end with; no calls means: answer now."""
        made = list(self.turn.made)
        found: list[Call] = []
        answered: list[Made] = []
        for part in self._parts():
            call = self._decide(part, answered)
            if call is None:
                continue
            if made:  # this part was served in an earlier step, perhaps with arguments that somebody edited
                answered.append(made.pop(0))
                continue
            found.append(call)
            if not self.parallel:
                break
        if not found and self.forced:
            call = self._decide_forced()
            if call is not None:
                found.append(call)
        return found, self.reason

    def _parts(self) -> list[str]:
        request = self.turn.request
        if (len(self.tools) < 2 and self.forced) or not toolcalls.may_hold_several(request):
            return [request]
        text = self.runtime.ask_json(
            toolcalls.split_messages(request), toolcalls.split_schema(), self.settings, self.usage
        )
        try:
            parts = json.loads(text)
        except ValueError:  # cut short by max_tokens
            return [request]
        return toolcalls.tidy_parts(request, [str(part) for part in parts])

    def _decide(self, part: str, answered: Sequence[Made]) -> Call | None:
        """The call for one part, or None for an answer. Never one that was already made with the same arguments."""
        tools = [tool for tool in self.tools if tool.takes_arguments or not _was_called(tool, answered)]
        may_answer = not self.forced or bool(answered)
        while tools:
            call = self._ask(part, tools, answered, may_answer)
            if call is None or not _repeats(call, answered):
                return call
            tools = [tool for tool in tools if tool.name != call.name]
        return None

    def _decide_forced(self) -> Call | None:
        """A call must be made although every part has one: rather a tool that was not used yet in this turn."""
        made = self.turn.made
        unused = [tool for tool in self.tools if not _was_called(tool, made)]
        tools = unused or [tool for tool in self.tools if tool.takes_arguments] or list(self.tools)
        return self._ask(self.turn.request, tools, made, may_answer=False)

    def _ask(self, part: str, tools: Sequence[Tool], answered: Sequence[Made], may_answer: bool) -> Call | None:
        messages = toolcalls.decision_messages(part, tools, self.turn, answered, may_answer=may_answer)
        schema = toolcalls.call_schema(tools, may_answer=may_answer)
        text = self.runtime.ask_json(messages, schema, self.settings, self.usage)
        try:
            decision = json.loads(text)
        except ValueError:
            return self._cut_short(text)
        if decision["name"] == ANSWER and "arguments" not in decision:
            return None
        return Call(decision["name"], json.dumps(decision["arguments"], ensure_ascii=False), _new_id())

    def _cut_short(self, text: str) -> Call | None:
        """A call whose arguments outgrew `max_tokens`: handed on as it is, so that the caller sees what happened."""
        match = re.match(r'\s*\{\s*"name"\s*:\s*"([^"]+)"\s*,\s*"arguments"\s*:\s*(.*)', text, re.DOTALL)
        if match is None:
            return None
        self.reason = "length"
        return Call(match[1], match[2], _new_id())


def _new_id() -> str:
    return f"call_{os.urandom(12).hex()}"


def _was_called(tool: Tool, made: Sequence[Made]) -> bool:
    return any(call.name == tool.name for call in made)


def _repeats(call: Call, made: Sequence[Made]) -> bool:
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        return False
    return any(one.same_as(call.name, arguments) for one in made)


def _choose(tools: Sequence[Tool], choice: Any) -> tuple[Sequence[Tool], bool]:
    """The tools that may be called now, and whether one must be."""
    if choice in (None, "auto"):
        return tools, False
    if choice == "none":
        return (), False
    if choice in ("any", "required", True):
        return tools, bool(tools)
    name = choice if isinstance(choice, str) else (choice.get("function") or choice).get("name")
    chosen = [tool for tool in tools if tool.name == name]
    if not chosen:
        names = [tool.name for tool in tools]
        raise InvalidInput(
            f"tool_choice names the tool {name!r}, which is not among the tools {names}{nearest(str(name), names)}."
        )
    return chosen, True


def _response_schema(response_format: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if response_format is None or response_format.get("type") == "text":
        return None
    kind = response_format.get("type")
    if kind == "json_object":
        return {"type": "object"}
    if kind == "json_schema":
        return constrainable(response_format["json_schema"]["schema"])
    raise InvalidInput(f"response_format type {kind!r} is unknown; known: text, json_object, json_schema.")
