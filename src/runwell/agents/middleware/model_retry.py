"""Try a failed model call again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from runwell.agents.middleware.middleware import AgentMiddleware
from runwell.agents.middleware.requests import ModelRequest, ModelResponse
from runwell.agents.middleware.transient import Attempts, RetryOn, is_transient
from runwell.drivers.colour import callee
from runwell.effects import Call, flow
from runwell.errors import InvalidInput
from runwell.messages.message import AIMessage
from runwell.ports.seat import Held
from runwell.schemas.arguments import checked_arguments

__all__ = ["ModelRetryMiddleware"]


class ModelRetryMiddleware(AgentMiddleware):
    """Tries a model call again, up to `max_retries` times, when it fails with what `retry_on` takes.

    By default that is what may pass by itself: overload, rate limits, timeouts, broken connections. The pauses begin
    at `initial_delay` seconds and grow by `backoff_factor` up to `max_delay`; a provider's Retry-After is waited out
    when it is longer. The model's own `max_retries` is replaced, never multiplied. A pause for a person, a cancel and
    a used-up budget pass through at once.

    `on_failure` after the last attempt: "error" raises, "continue" ends the turn with an AIMessage that says what
    failed, a function of the error gives the text of that message.

    Seats: E7 (does the runtime retry a step), E8 (is a rate-limited call retried).
    """

    lends_tools = False

    @checked_arguments
    def __init__(
        self,
        *,
        max_retries: int = 2,
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
        self.on_failure = on_failure

    def seats(self) -> Iterable[Held]:
        answer = f"Model calls {self.max_retries} times, in place of the model's own retries."
        yield Held("E7", answer, self.wrap_model_call, adds=True)
        yield Held("E8", f"{answer[:-1]}; Retry-After is waited out.", self.wrap_model_call)

    @flow
    async def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        if getattr(request.model, "max_retries", 0):  # one place retries, and this is it
            request = request.override(model_settings={**request.model_settings, "max_retries": 0})
        try:
            return await self._attempts.make(request, handler)
        except Exception as error:
            if self.on_failure == "error":
                raise
            text = f"The model could not be reached: {type(error).__name__}: {getattr(error, 'message', error)}"
            if callable(self.on_failure):
                text = await Call(callee(self.on_failure, cheap=True), error)
            return ModelResponse([AIMessage(text)])
