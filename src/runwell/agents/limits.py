"""How far an agent may go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from runwell.errors import BudgetExceeded, InvalidInput

__all__ = ["AgentLimits", "Budget", "spent_after"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one run of an agent may use, its resumes included. None means no limit.

    `model_calls` and `tool_calls` are counts, `tokens` is input plus output as the provider reports them, `seconds`
    is time since the run began, pauses included. Tool calls over their limit are answered with an error and the run
    goes on; any other limit raises `BudgetExceeded` (`on_limit="raise"`), with everything finished saved, or ends
    the run with what there is and the reason under `"stopped"` (`on_limit="return"`).
    """

    model_calls: int | None = 200
    tool_calls: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    on_limit: Literal["raise", "return"] = "raise"

    def __post_init__(self) -> None:
        for name in ("model_calls", "tool_calls", "tokens", "seconds"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise InvalidInput(
                    f"Budget({name}={value!r}) leaves nothing to run with.", hint="Use None for no limit."
                )
        if self.on_limit not in ("raise", "return"):
            raise InvalidInput(f"Budget(on_limit={self.on_limit!r}).", hint='It is "raise" or "return".')

    def reached(self, spent: Mapping[str, Any], now: float) -> BudgetExceeded | None:
        """The limit that forbids one more model call, if any. `now` in seconds since the epoch."""
        for name in ("model_calls", "tokens"):
            limit = getattr(self, name)
            if limit is not None and spent.get(name, 0) >= limit:
                return _exceeded(name, spent.get(name, 0), limit)
        if self.seconds is not None and now - spent.get("began", now) >= self.seconds:
            return _exceeded("seconds", round(now - spent["began"], 3), self.seconds)
        return None


def _exceeded(kind: str, value: Any, limit: Any) -> BudgetExceeded:
    return BudgetExceeded(
        f"The agent's budget is used up: {value} of {limit} {kind}.",
        kind=kind,
        value=value,
        limit=limit,
        hint=f"Everything finished is saved: go on under a larger Budget({kind}=...), or see why it did not finish.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLimits:
    """The rarer settings of an agent.

    `max_repairs`: how often in a row the model is told that all its calls were malformed. `max_answers`: how often a
    structured answer may be tried. `max_sent_back`: how often `done=` may send an answer back. `max_tool_chars`: a
    tool's text beyond this keeps its head and tail (None: whole). `max_concurrency`: tool calls at once.
    """

    max_repairs: int = 2
    max_answers: int = 3
    max_sent_back: int = 3
    max_tool_chars: int | None = 100_000
    max_concurrency: int | None = 32

    def __post_init__(self) -> None:
        for name in ("max_repairs", "max_answers", "max_sent_back"):
            if getattr(self, name) < 0:
                raise InvalidInput(f"AgentLimits({name}={getattr(self, name)!r}) is negative.")
        for name in ("max_tool_chars", "max_concurrency"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidInput(f"AgentLimits({name}={value!r}) allows nothing.", hint="Use None for no limit.")


def spent_after(spent: Mapping[str, Any], replies: Sequence[Any], tool_calls: int) -> dict[str, Any]:
    """What is used up after the model gave `replies`, the last of which asks for `tool_calls` calls."""
    after = dict(spent)
    after["model_calls"] = spent.get("model_calls", 0) + len(replies)
    after["tool_calls"] = spent.get("tool_calls", 0) + tool_calls
    used = sum((reply.usage_metadata or {}).get("total_tokens") or 0 for reply in replies)
    if used:
        after["tokens"] = spent.get("tokens", 0) + used
    return after
