"""Go on with another model when one fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from runwell.agents.middleware.middleware import AgentMiddleware
from runwell.agents.middleware.other_models import as_models, request_for
from runwell.agents.middleware.requests import ModelRequest
from runwell.agents.middleware.transient import RetryOn, is_transient, one_of
from runwell.effects import Call, flow
from runwell.errors import (
    ContextOverflow,
    ModelAuthenticationError,
    ModelNotFound,
    ModelOverloaded,
    ModelRateLimitError,
)
from runwell.observe.run import record_decision, watched
from runwell.ports.seat import Held
from runwell.schemas.arguments import checked_arguments

__all__ = ["ModelFallbackMiddleware", "another_may_do"]

_ELSEWHERE = (ContextOverflow, ModelAuthenticationError, ModelNotFound, ModelOverloaded, ModelRateLimitError)


def another_may_do(error: BaseException) -> bool:
    """Whether another model may do: transient errors, overload, quota, a refused key, an unknown model, overflow."""
    return isinstance(error, _ELSEWHERE) or is_transient(error)


class ModelFallbackMiddleware(AgentMiddleware):
    """Asks `first_model`, then `additional_models` in turn, when the agent's model fails with what `on` takes.

    By default: errors that may pass, overload, quota, a refused key, an unknown model, and a conversation that does
    not fit; never an interrupt, a used-up budget or an error of the program. Models are chat models or strings.
    Another provider is asked without the first one's own tools, cache marks and settings; the log says which.
    If all fail the last error is raised, with notes about those before it.

    Seats: H4 (another model on failure).
    """

    lends_tools = False

    @checked_arguments
    def __init__(self, first_model: Any, *additional_models: Any, on: RetryOn = another_may_do) -> None:
        self.models = as_models([first_model, *additional_models], self.name)
        self._on = one_of(on, "on")

    def seats(self) -> Iterable[Held]:
        answer = f"{len(self.models)} more models in turn, for errors that another may not have."
        yield Held("H4", answer, self.wrap_model_call)
        yield Held("A4", "Another model may answer where one fails (H4).", self.wrap_model_call, adds=True)

    @flow
    async def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        notes: list[str] = []
        for model in (None, *self.models):
            changed = request if model is None else request_for(request, model)
            try:
                return await handler(changed)
            except Exception as error:
                if model is self.models[-1] or not await Call(self._on, error):
                    for note in notes:
                        error.add_note(note)
                    raise
                if watched():
                    reason = f"{changed.model!r:.100} failed: {type(error).__name__}"
                    record_decision("H4", "another model", reason, "code")
                notes.append(f"before that, {changed.model!r:.100} failed: {type(error).__name__}: {error!s:.300}")
        raise AssertionError("the last model either answers or raises")  # pragma: no cover
