"""Make a failed tool call again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from runwell.agents.middleware.middleware import AgentMiddleware
from runwell.agents.middleware.requests import ToolCallRequest
from runwell.agents.middleware.transient import Attempts, RetryOn, check_tools, chosen_tools, is_transient
from runwell.drivers.colour import callee
from runwell.effects import Call, flow
from runwell.errors import InvalidInput
from runwell.messages.message import ToolMessage
from runwell.ports.seat import Held
from runwell.schemas.arguments import checked_arguments

__all__ = ["ToolRetryMiddleware"]


class ToolRetryMiddleware(AgentMiddleware):
    """Makes a tool call again, up to `max_retries` times, when it fails with what `retry_on` takes.

    By default that is what may pass by itself (timeouts, broken connections, a busy server); what a tool says to the
    model (`ToolError`) is the model's to act on. `tools` are names or tools; without it every tool is meant but those
    declared `destructive=True` or `idempotent=False`, which must be named to be repeated. A tool that repeats safely
    uses `runtime.idempotency_key`, which stays the same. The pauses are as in `ModelRetryMiddleware`.

    `on_failure` after the last attempt: "error" leaves it to the agent's `on_tool_error`, "continue" tells the model,
    a function of the error gives what it is told.

    Seats: E7 (does the runtime retry a step).
    """

    @checked_arguments
    def __init__(
        self,
        *,
        max_retries: int = 2,
        tools: Sequence[Any] | None = None,
        retry_on: RetryOn = is_transient,
        on_failure: Literal["error", "continue"] | Callable[[Exception], str] = "error",
        backoff_factor: float = 2.0,
        initial_delay: float = 0.5,
        max_delay: float = 30.0,
        jitter: bool = True,
    ) -> None:
        if not callable(on_failure) and on_failure not in ("error", "continue"):
            raise InvalidInput(f"on_failure={on_failure!r}.", hint='It is "error", "continue", or a function.')
        self._attempts = Attempts(max_retries, retry_on, backoff_factor, initial_delay, max_delay, jitter)
        self.max_retries = max_retries
        self.tool_names = chosen_tools(tools, self.name)
        self.on_failure = on_failure

    def check(self, tools: dict[str, Any]) -> None:
        check_tools(self.tool_names, tools, self.name)

    def seats(self) -> Iterable[Held]:
        safe = "all tools but those declared destructive or not idempotent"
        names = safe if self.tool_names is None else ", ".join(sorted(self.tool_names))
        yield Held("E7", f"Calls of {names} {self.max_retries} times.", self.wrap_tool_call, adds=True)

    @flow
    async def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        if not self._covers(request):
            return await handler(request)
        try:
            return await self._attempts.make(request, handler)
        except Exception as error:
            if self.on_failure == "error":
                raise
            call = request.tool_call
            text = f"{type(error).__name__}: {getattr(error, 'message', error)}"
            if callable(self.on_failure):
                text = await Call(callee(self.on_failure, cheap=True), error)
            return ToolMessage(text, tool_call_id=call["id"], name=call["name"], status="error")

    def _covers(self, request: ToolCallRequest) -> bool:
        if self.tool_names is not None:
            return request.tool_call["name"] in self.tool_names
        tool = request.tool
        return tool is not None and not tool.destructive and tool.idempotent is not False
