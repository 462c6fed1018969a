"""A limit on model calls, for one run or for a whole thread."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, NotRequired

from runwell.agents.middleware.middleware import AgentMiddleware, hook_config
from runwell.agents.state import AgentState, PrivateStateAttr, RunStateAttr
from runwell.errors import BudgetExceeded, InvalidInput
from runwell.messages.message import AIMessage
from runwell.observe.run import record_decision, watched
from runwell.ports.seat import Held
from runwell.schemas.arguments import checked_arguments

__all__ = ["ModelCallLimitExceededError", "ModelCallLimitMiddleware", "ModelCallLimitState", "positive_limits"]


class ModelCallLimitExceededError(BudgetExceeded):
    """The model was called as often as a `ModelCallLimitMiddleware` allows."""


class ModelCallLimitState(AgentState):
    """The counts, kept with the thread."""

    thread_model_call_count: NotRequired[Annotated[int, PrivateStateAttr]]
    run_model_call_count: NotRequired[Annotated[int | None, RunStateAttr]]


def positive_limits(owner: str, **limits: int | None) -> None:
    """Refuse limits that allow nothing, or none at all."""
    if all(limit is None for limit in limits.values()):
        raise InvalidInput(f"{owner} was given no limit.", hint=f"Set {' or '.join(limits)}.")
    for name, limit in limits.items():
        if limit is not None and limit < 1:
            raise InvalidInput(f"{owner}({name}={limit!r}) allows nothing.", hint="Use at least 1, or None.")


class ModelCallLimitMiddleware(AgentMiddleware):
    """Ends a run, or raises, when the model has been called so many times.

    `run_limit` counts from the last input, resumes included; `thread_limit` counts for the whole conversation, and
    therefore needs a checkpointer: a run without one is refused when it starts. `exit_behavior` is "end" (an AIMessage
    says why and the run ends) or "error" (`ModelCallLimitExceededError`). Attempts of a retry are one call here;
    `Budget` counts each.

    Seats: F8 (model call limits).
    """

    state_schema = ModelCallLimitState

    @checked_arguments
    def __init__(
        self,
        *,
        thread_limit: int | None = None,
        run_limit: int | None = None,
        exit_behavior: Literal["end", "error"] = "end",
    ) -> None:
        positive_limits(self.name, thread_limit=thread_limit, run_limit=run_limit)
        if exit_behavior not in ("end", "error"):
            raise InvalidInput(f"exit_behavior={exit_behavior!r}.", hint='It is "end" or "error".')
        if thread_limit is not None and run_limit is not None and run_limit > thread_limit:
            raise InvalidInput(f"run_limit={run_limit!r} is more than thread_limit={thread_limit!r}.")
        self.thread_limit = thread_limit
        self.run_limit = run_limit
        self.exit_behavior = exit_behavior

    def needs_checkpointer(self) -> str | None:
        return None if self.thread_limit is None else f"{self.name} counts model calls of the whole thread"

    def seats(self) -> Iterable[Held]:
        limits = (("a run", self.run_limit), ("a thread", self.thread_limit))
        said = ", ".join(f"{what} {limit:,}" for what, limit in limits if limit is not None)
        then = "it ends" if self.exit_behavior == "end" else "an error"
        yield Held("F8", f"{self.name}: {said}; then {then}.", self.before_model, adds=True)

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        for kind, limit in (("thread", self.thread_limit), ("run", self.run_limit)):
            used = state.get(f"{kind}_model_call_count") or 0
            if limit is None or used < limit:
                continue
            if watched():
                record_decision("F8", self.exit_behavior, f"{used} of {limit} model calls of the {kind}", "code")
            text = f"Model call limit of the {kind} is reached: {used} of {limit}."
            if self.exit_behavior == "error":
                raise ModelCallLimitExceededError(
                    text,
                    kind=f"{kind}_model_calls",
                    value=used,
                    limit=limit,
                    hint='Raise the limit, or use exit_behavior="end" to end with what there is.',
                )
            return {"jump_to": "end", "messages": [AIMessage(text)], "stopped": text}
        return None

    def after_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {
            "thread_model_call_count": (state.get("thread_model_call_count") or 0) + 1,
            "run_model_call_count": (state.get("run_model_call_count") or 0) + 1,
        }
