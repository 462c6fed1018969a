"""How many tokens a request takes: the system prompt and the tools' definitions are part of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from runwell.agents.middleware.requests import ModelRequest
from runwell.errors import InvalidInput
from runwell.messages.count import count_tokens_approximately
from runwell.messages.message import BaseMessage
from runwell.tools.cost import tool_cost

__all__ = ["RequestSize", "window_of"]

Counter = Callable[[list[Any]], int]


class RequestSize:
    """Counts with `counter`, a function of a list of messages; by default an estimate."""

    def __init__(self, counter: Counter | None = None) -> None:
        if counter is not None and not callable(counter):
            raise InvalidInput(f"token_counter={counter!r}.", hint="Pass a function of a list of messages.")
        self.counter: Counter = counter or count_tokens_approximately
        self._tools: tuple[Sequence[Any], int] | None = None

    def of(self, messages: Sequence[BaseMessage]) -> int:
        """Tokens of messages."""
        return self.counter(list(messages)) if messages else 0

    def whole(self, request: ModelRequest) -> int:
        """Tokens of all that is sent."""
        return self.of(request.messages) + self.besides(request)

    def besides(self, request: ModelRequest) -> int:
        """Tokens of what comes with every call: the system prompt and the tools."""
        system = [request.system_message] if request.system_message is not None else []
        known = self._tools
        if known is None or len(known[0]) != len(request.tools) or any(map(_differ, known[0], request.tools)):
            known = (list(request.tools), sum(cost.tokens for cost in tool_cost(request.tools)))
            self._tools = known
        return self.of(system) + known[1]


def _differ(one: Any, other: Any) -> bool:
    return one is not other


def window_of(model: Any, why: str) -> int:
    """The most tokens the model takes."""
    size = (getattr(model, "profile", None) or {}).get("max_input_tokens")
    if size is None:
        raise InvalidInput(
            f"{why}, and how large the window of {model!r:.100} is, is not known.",
            hint='Give the model profile={"max_input_tokens": ...}, or use ("tokens", n).',
        )
    return int(size)
