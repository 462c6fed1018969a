"""Mark what a provider may keep of a request, so that the next one costs less."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from runwell.agents.middleware.marked_tools import (
    MarkedTools,
    Unsupported,
    check_unsupported,
    is_deferred,
    profile_of_model,
    unsupported,
)
from runwell.agents.middleware.middleware import AgentMiddleware
from runwell.agents.middleware.requests import ModelRequest
from runwell.effects import flow
from runwell.errors import InvalidInput
from runwell.messages.message import AIMessage, BaseMessage, HumanMessage, ToolMessage
from runwell.observe.run import record_decision, watched
from runwell.ports.seat import Held
from runwell.schemas.arguments import checked_arguments
from runwell.tools.provider_tool import ProviderTool

__all__ = ["PromptCachingMiddleware"]

_log = logging.getLogger("runwell.agents")

MARK = "cache_control"
_MARKABLE = frozenset({"text", "image", "image_url", "file", "document", "audio", "search_result"})


class PromptCachingMiddleware(AgentMiddleware):
    """Puts cache marks (`cache_control`) on the request: the provider keeps what stands before a mark, and a later
    request that begins the same is cheaper and faster. For models whose profile has `cache_breakpoints`.

    Marked are the newest message, the system prompt, the last tool, and the message that ended the request before, in
    this order as far as the model takes marks; marks of your own count, and stay. A tool that the provider loads later
    is never marked. `ttl` is how long it is kept since its last use, "5m" or "1h". With fewer than
    `min_messages_to_cache` messages the messages are not marked. The stored history has no marks.

    `unsupported`: for any other model the request goes out as it is; "warn" says so in the log once for a model,
    "raise" raises `UnsupportedByProvider`. Put it last in the list: what hooks further in change is not marked.

    Seats: B2 (what the model sees: the same, marked), I2 (what is known about the model).
    """

    @checked_arguments
    def __init__(
        self,
        type: Literal["ephemeral"] = "ephemeral",
        ttl: Literal["5m", "1h"] = "5m",
        min_messages_to_cache: int = 0,
        unsupported: Unsupported = "warn",
        *,
        unsupported_model_behavior: Unsupported | None = None,
    ) -> None:
        if type != "ephemeral":
            raise InvalidInput(f"type={type!r}.", hint='It is "ephemeral".')
        if ttl not in ("5m", "1h"):
            raise InvalidInput(f"ttl={ttl!r}.", hint='It is "5m" or "1h".')
        if min_messages_to_cache < 0:
            raise InvalidInput(f"min_messages_to_cache={min_messages_to_cache!r} is negative.")
        self.unsupported: Unsupported = unsupported_model_behavior or unsupported
        check_unsupported(self.unsupported, self.name)
        self.ttl = ttl
        self.min_messages_to_cache = min_messages_to_cache
        self._mark = {"type": type} if ttl == "5m" else {"type": type, "ttl": ttl}
        self._tools = MarkedTools()
        self._told: set[str] = set()

    def check(self, tools: dict[str, Any]) -> None:
        self._tools.learn(tools)

    def seats(self) -> Iterable[Held]:
        other = {"ignore": "nothing", "warn": "a warning", "raise": "an error"}[self.unsupported]
        yield Held(
            "B2", f"{self.name} marks it for the provider's cache ({self.ttl}).", self.wrap_model_call, adds=True
        )
        answer = f"{self.name} goes by cache_breakpoints; without it {other}."
        yield Held("I2", answer, self._limit, adds=True)

    @flow
    async def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        return await handler(self._marked(request, self._limit(request.model)))

    def _limit(self, model: Any) -> int:
        """How many marks the model takes."""
        known = profile_of_model(model).get("cache_breakpoints")
        if isinstance(known, int) and known > 0:
            return known
        unsupported(self.unsupported, "a prompt cache with marks", model, "cache_breakpoints", self._warn)
        return 0

    def _warn(self, said: str) -> None:
        if said not in self._told:
            self._told.add(said)
            _log.warning("%s: %s; the request goes out without marks", self.name, said)

    def _marked(self, request: ModelRequest, limit: int) -> ModelRequest:
        left = limit - _marks_in(request)
        if left <= 0:
            return request
        changes: dict[str, Any] = {}
        places: list[str] = []
        ends = _ends(request.messages) if len(request.messages) >= self.min_messages_to_cache else []

        def message(at: int) -> None:
            nonlocal left
            marked = self._with_mark(request.messages[at]) if left else None
            if marked is not None:
                changes.setdefault("messages", list(request.messages))[at] = marked
                places.append(f"message {at}")
                left -= 1

        if ends:
            message(ends[0])
        system = self._with_mark(request.system_message) if left and request.system_message is not None else None
        if system is not None:
            changes["system_message"] = system
            places.append("system prompt")
            left -= 1
        tools = self._with_last_marked(request.tools) if left else None
        if tools is not None:
            changes["tools"] = tools
            places.append("tools")
            left -= 1
        for at in ends[1:]:
            message(at)
        if places and watched():
            record_decision("B2", f"marked: {', '.join(places)}", f"the model takes {limit} marks", "code")
        return request.override(**changes) if changes else request

    def _with_mark(self, message: BaseMessage) -> BaseMessage | None:
        """The message with its last block marked; None if nothing of it can be, or is already."""
        content: Any = message.content
        if isinstance(content, str):
            if not content.strip():
                return None
            return message.model_copy(update={"content": [{"type": "text", "text": content, MARK: self._mark}]})
        for at in range(len(content) - 1, -1, -1):
            block = content[at]
            if isinstance(block, str):
                block = {"type": "text", "text": block}
            if MARK in block:
                return None
            if block.get("type") in _MARKABLE and (block.get("type") != "text" or block.get("text", "").strip()):
                changed = [*content[:at], {**block, MARK: self._mark}, *content[at + 1 :]]
                return message.model_copy(update={"content": changed})
        return None

    def _with_last_marked(self, tools: Sequence[Any]) -> list[Any] | None:
        for at in range(len(tools) - 1, -1, -1):
            tool = tools[at]
            if _is_marked(tool):
                return None
            if not is_deferred(tool) and self._tools.takes(tool):
                return [*tools[:at], self._tools.marked(tool, **{MARK: self._mark}), *tools[at + 1 :]]
        return None


def _ends(messages: Sequence[BaseMessage]) -> list[int]:
    """The places of the newest message that is not the model's, and of the one that ended the request before it."""
    newest = next((at for at in range(len(messages) - 1, -1, -1) if isinstance(messages[at], _ASKING)), None)
    if newest is None:
        return []
    reply = next((at for at in range(newest, -1, -1) if isinstance(messages[at], AIMessage)), None)
    before = next((at for at in range(reply - 1, -1, -1) if isinstance(messages[at], _ASKING)), None) if reply else None
    return [newest] if before is None else [newest, before]


_ASKING = (HumanMessage, ToolMessage)


def _marks_in(request: ModelRequest) -> int:
    system = [] if request.system_message is None else [request.system_message]
    blocks = [
        block
        for message in (*system, *request.messages)
        if not isinstance(message.content, str)
        for block in message.content
    ]
    return sum(isinstance(block, dict) and MARK in block for block in blocks) + sum(map(_is_marked, request.tools))


def _is_marked(tool: Any) -> bool:
    given = tool.config if isinstance(tool, ProviderTool) else tool
    return isinstance(given, Mapping) and MARK in given
