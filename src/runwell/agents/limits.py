"""How far an agent may go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from runwell.errors import BudgetExceeded, InvalidInput
from runwell.schemas.arguments import check_fields

if TYPE_CHECKING:
    from runwell.models.prices import Prices

__all__ = ["AgentLimits", "LIMITS", "Budget"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one run of an agent may use, its resumes included. None means no limit.

    `model_calls` and `tool_calls` are counts, `tokens` is input plus output as the provider reports them, `cost` is in
    US dollars, `seconds` is time since the run began, pauses included. Every call of a chat model in the run counts:
    the agent's own, those of its middleware and tools, and those of agents that it calls. Tool calls over their limit
    are answered with an error and the run goes on; any other limit raises `BudgetExceeded` (`on_limit="raise"`), with
    everything finished saved, or ends the run with what there is and the reason under `"stopped"`
    (`on_limit="return"`).

    `prices` are by model name, for models that the price table (`pip install "runwell[prices]"`) does not know or that
    cost you something else. With `cost` set, a model whose price nobody knows is refused before it is called.
    """

    model_calls: int | None = 200
    tool_calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    on_limit: Literal["raise", "return"] = "raise"
    prices: Prices | None = None
    _counted: tuple[tuple[str, float], ...] = field(init=False, repr=False, compare=False, default=())

    def __post_init__(self) -> None:
        check_fields(self)
        given = ((name, getattr(self, name)) for name in LIMITS)
        empty = [f"{name}={value!r}" for name, value in given if value is not None and value <= 0]
        if empty:
            raise InvalidInput(f"Budget({', '.join(empty)}) leaves nothing to run with.", hint="Use None for no limit.")
        if self.on_limit not in ("raise", "return"):
            raise InvalidInput(f"Budget(on_limit={self.on_limit!r}).", hint='It is "raise" or "return".')
        counted = ((kind, getattr(self, kind)) for kind in ("model_calls", "tokens", "cost"))
        object.__setattr__(self, "_counted", tuple(pair for pair in counted if pair[1] is not None))

    def reached(self, used: Mapping[str, Any], now: float | None, name: str = "the agent") -> BudgetExceeded | None:
        """The limit that forbids one more model call, if any. `now` in seconds since the epoch, None: not looked at."""
        for kind, limit in self._counted:
            if used.get(kind, 0) >= limit:
                return _exceeded(name, kind, used.get(kind, 0), limit)
        if self.seconds is not None and now is not None and now - used.get("began", now) >= self.seconds:
            return _exceeded(name, "seconds", round(now - used["began"], 3), self.seconds)
        return None


LIMITS = ("model_calls", "tool_calls", "tokens", "cost", "seconds")
"""What a budget limits."""


def _exceeded(name: str, kind: str, value: Any, limit: Any) -> BudgetExceeded:
    said = f"{value:.6g} of {limit:g} US dollars" if kind == "cost" else f"{value} of {limit} {kind}"
    return BudgetExceeded(
        f"The budget of {name} is used up: {said}.",
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
    tool's text beyond this keeps its head and tail, and the model gets a tool to read the rest (None: whole).
    `max_tool_media`, `max_tool_media_bytes`: how many pictures, files and other media of one result the model is
    shown, and how many bytes of them in all (None: any number). `max_concurrency`: tool calls at once.
    `on_sibling_failure`: whether tool calls beside one that ends the run are awaited ("wait") or stopped where that is
    possible ("cancel"); what has finished is kept either way. `allowed_roles`: the roles that a caller's messages may
    have, for instance `["user"]` where the caller is not the program; None: any. `overflow`: what comes of a
    conversation that the model's window cannot hold, measured before the call or told by the provider: "error" raises
    `ContextOverflow`, "trim" leaves the oldest messages out of the request, "summarize" replaces them by a summary that
    the agent's model writes.
    """

    max_repairs: int = 2
    max_answers: int = 3
    max_sent_back: int = 3
    max_tool_chars: int | None = 100_000
    max_tool_media: int | None = 20
    max_tool_media_bytes: int | None = 10_000_000
    max_concurrency: int | None = 32
    on_sibling_failure: Literal["wait", "cancel"] = "wait"
    allowed_roles: Sequence[str] | None = None
    overflow: Literal["error", "trim", "summarize"] = "error"

    def __post_init__(self) -> None:
        check_fields(self)
        wrong = [
            f"{name}={getattr(self, name)!r} is negative"
            for name in ("max_repairs", "max_answers", "max_sent_back")
            if getattr(self, name) < 0
        ]
        for name in ("max_tool_chars", "max_tool_media", "max_tool_media_bytes", "max_concurrency"):
            value = getattr(self, name)
            if value is not None and value < 1:
                wrong.append(f"{name}={value!r} allows nothing")
        if wrong:
            raise InvalidInput(f"AgentLimits: {'; '.join(wrong)}.", hint="Where None may be given it means no limit.")
        if self.allowed_roles is not None:
            from runwell.agents.roles import message_types

            message_types(self.allowed_roles)
        if self.overflow not in ("error", "trim", "summarize"):
            raise InvalidInput(
                f"AgentLimits(overflow={self.overflow!r}).", hint='It is "error", "trim" or "summarize".'
            )
        if self.on_sibling_failure not in ("wait", "cancel"):
            raise InvalidInput(
                f"AgentLimits(on_sibling_failure={self.on_sibling_failure!r}).", hint='It is "wait" or "cancel".'
            )
