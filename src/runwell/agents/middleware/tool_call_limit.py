"""A limit on tool calls, for one run or for a whole thread, of one tool or of all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, NotRequired

from runwell.agents.history import open_calls
from runwell.agents.middleware.middleware import AgentMiddleware, hook_config
from runwell.agents.middleware.model_call_limit import positive_limits
from runwell.agents.middleware.transient import check_tools
from runwell.agents.state import AgentState, PrivateStateAttr, RunStateAttr
from runwell.errors import BudgetExceeded, InvalidInput
from runwell.messages.message import AIMessage, ToolMessage
from runwell.observe.run import record_decision, watched
from runwell.ports.seat import Held
from runwell.schemas.arguments import checked_arguments

__all__ = ["ToolCallLimitExceededError", "ToolCallLimitMiddleware", "ToolCallLimitState"]

ALL = "__all__"


class ToolCallLimitExceededError(BudgetExceeded):
    """A turn asks for more tool calls than a `ToolCallLimitMiddleware` allows; none of them was run."""


class ToolCallLimitState(AgentState):
    """The counts by tool name, kept with the thread."""

    thread_tool_call_count: NotRequired[Annotated[dict[str, int], PrivateStateAttr]]
    run_tool_call_count: NotRequired[Annotated[dict[str, int] | None, RunStateAttr]]


class ToolCallLimitMiddleware(AgentMiddleware):
    """Refuses tool calls past a limit; each is answered, so that the history stays valid.

    `tool_name` limits one tool, otherwise all are counted together; use several of these for several tools.
    `run_limit` counts from the last input, `thread_limit` for the whole conversation (and needs a checkpointer: a run
    without one is refused when it starts). Only calls that are let through count.

    `exit_behavior` when a turn asks for more: "continue" runs those within the limit and tells the model about the
    others; "end" runs none of the turn's calls and ends the run with an AIMessage that says why; "error" raises
    `ToolCallLimitExceededError` before any runs. Calls that something else answered before (a person, say) do not
    count: put this middleware first in the list to see what the others left.

    Seats: F9 (tool call limits).
    """

    state_schema = ToolCallLimitState

    @checked_arguments
    def __init__(
        self,
        *,
        tool_name: str | None = None,
        thread_limit: int | None = None,
        run_limit: int | None = None,
        exit_behavior: Literal["continue", "end", "error"] = "continue",
    ) -> None:
        self.tool_name = tool_name
        positive_limits(self.name, thread_limit=thread_limit, run_limit=run_limit)
        if exit_behavior not in ("continue", "end", "error"):
            raise InvalidInput(f"exit_behavior={exit_behavior!r}.", hint='It is "continue", "end" or "error".')
        if thread_limit is not None and run_limit is not None and run_limit > thread_limit:
            raise InvalidInput(f"run_limit={run_limit!r} is more than thread_limit={thread_limit!r}.")
        self.thread_limit = thread_limit
        self.run_limit = run_limit
        self.exit_behavior = exit_behavior

    @property
    def name(self) -> str:
        return type(self).__name__ if self.tool_name is None else f"{type(self).__name__}[{self.tool_name}]"

    def needs_checkpointer(self) -> str | None:
        return None if self.thread_limit is None else f"{self.name} counts tool calls of the whole thread"

    def check(self, tools: dict[str, Any]) -> None:
        if self.tool_name is not None:
            check_tools(frozenset((self.tool_name,)), tools, self.name)

    def seats(self) -> Iterable[Held]:
        limits = (("a run", self.run_limit), ("a thread", self.thread_limit))
        said = ", ".join(f"{what} {limit:,}" for what, limit in limits if limit is not None)
        then = {"continue": "the excess is answered with an error", "end": "it ends", "error": "an error"}
        answer = f"Calls of {self.tool_name or 'all tools'}: {said}; then {then[self.exit_behavior]}."
        yield Held("F9", answer, self.after_model, adds=True)

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        calls = open_calls(state["messages"])
        counted = [call for call in calls if self.tool_name in (None, call["name"])]
        if not counted:
            return None
        kind, used, limit = self._tightest(state)
        if used + len(counted) <= limit:
            return self._after(state, len(counted))
        text = f"The limit of {limit} calls of {self.tool_name or 'tools'} in this {kind} is reached"
        if watched():
            record_decision("F9", self.exit_behavior, f"{used} of {limit} are used, {len(counted)} more asked", "code")
        if self.exit_behavior == "error":
            raise ToolCallLimitExceededError(
                f"{text}: {used} are used, and the model asks for {len(counted)} more.",
                kind=f"{kind}_tool_calls",
                value=used + len(counted),
                limit=limit,
                hint='Raise the limit, or use exit_behavior="continue" to tell the model.',
            )
        if self.exit_behavior == "end":
            answers = [_not_run(call, f"{text}, and the run ends here.") for call in calls]
            said = f"{text}: {used} were used, and {len(counted)} more were asked for."
            return {"jump_to": "end", "messages": [*answers, AIMessage(said)], "stopped": said}
        let_through = max(0, limit - used)
        refused = [_not_run(call, f"{text}. Go on without it.") for call in counted[let_through:]]
        return {**self._after(state, let_through), "messages": refused}

    def _tightest(self, state: Any) -> tuple[str, int, int]:
        """The limit with the least left: its kind, what is used, how much there is."""
        found = [
            (kind, self._used(state, kind), limit)
            for kind, limit in (("thread", self.thread_limit), ("run", self.run_limit))
            if limit is not None
        ]
        return min(found, key=lambda each: each[2] - each[1])

    def _used(self, state: Any, kind: str) -> int:
        return int((state.get(f"{kind}_tool_call_count") or {}).get(self.tool_name or ALL, 0))

    def _after(self, state: Any, more: int) -> dict[str, Any]:
        return {
            f"{kind}_tool_call_count": {
                **(state.get(f"{kind}_tool_call_count") or {}),
                self.tool_name or ALL: self._used(state, kind) + more,
            }
            for kind in ("thread", "run")
        }


def _not_run(call: Any, why: str) -> ToolMessage:
    return ToolMessage(f"Not run: {why}", tool_call_id=call["id"], name=call["name"], status="error")
