"""What is done about a conversation that outgrows its model: its oldest messages are cut, or summarised."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from runwell.agents.middleware.middleware import AgentMiddleware
from runwell.agents.middleware.request_size import RequestSize
from runwell.agents.middleware.requests import ModelRequest
from runwell.agents.middleware.summarization import SummarizationMiddleware
from runwell.effects import flow
from runwell.errors import ContextOverflow
from runwell.messages.message import BaseMessage
from runwell.messages.trim import trim_messages
from runwell.observe.run import record_decision, watched
from runwell.ports.seat import Held

__all__ = ["overflow_hook"]

NEVER = 1 << 60
"""Tokens: more than any request has."""
TRIES = 3


def overflow_hook(policy: str, model: Any) -> AgentMiddleware:
    """What stands around a call for a policy other than "error"."""
    return Trim() if policy == "trim" else SummarizeOnOverflow(model, trigger=("tokens", NEVER))


class Trim(AgentMiddleware):
    """Leaves out the oldest messages when a request does not fit; the history stays."""

    name = "overflow"

    def __init__(self) -> None:
        self._size = RequestSize()

    def seats(self) -> Iterable[Held]:
        said = "The oldest messages are left out of the request, which is made again; the history stays."
        yield Held("F3", said, self.wrap_model_call, adds=True)
        yield Held("B2", "Whole as long as it fits; then without its oldest messages.", self.wrap_model_call)

    @flow
    async def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        shorter = request
        for left in range(TRIES, -1, -1):
            try:
                return await handler(shorter)
            except ContextOverflow as error:
                messages = self._cut(shorter, error.over) if left else []
                if not messages or len(messages) == len(shorter.messages):
                    raise
                if watched():
                    gone = len(request.messages) - len(messages)
                    record_decision("F3", f"trimmed {gone} messages", str(error.message), "code")
                shorter = shorter.override(messages=messages)
        raise AssertionError  # the last try has returned or raised

    def _cut(self, request: ModelRequest, over: int | None) -> list[BaseMessage]:
        """The newest messages that are by that much shorter, or half of them where nobody says by how much."""
        now = self._size.of(request.messages)
        room = now - int(over * 1.1) - 1 if over is not None and over * 1.1 < now else now // 2
        return trim_messages(
            request.messages, max_tokens=room, token_counter="approximate", strategy="last", start_on="human"
        )


class SummarizeOnOverflow(SummarizationMiddleware):
    """Summarises when a request does not fit, and not before."""

    name = "overflow"

    def seats(self) -> Iterable[Held]:
        for held in super().seats():
            yield held._replace(answer="When a request does not fit.") if held.seat == "F4" else held
