"""What to do when a model declines to answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from runwell.agents.middleware.middleware import AgentMiddleware
from runwell.agents.middleware.other_models import as_model, request_for
from runwell.agents.middleware.requests import ModelRequest, ModelResponse
from runwell.drivers.colour import callee
from runwell.effects import Call, flow
from runwell.errors import InvalidInput, ModelRefusalError
from runwell.messages.message import AIMessage
from runwell.observe.run import record_decision, watched
from runwell.ports.seat import Held
from runwell.schemas.arguments import checked_arguments

__all__ = ["ModelRefusalMiddleware", "is_refusal"]

_REASONS = frozenset({"content_filter", "refusal", "safety", "blocked", "prohibited_content"})
_KEYS = ("finish_reason", "stop_reason")


def is_refusal(message: AIMessage) -> bool:
    """Whether the provider marks the reply as declined: its finish reason, a refusal block, or a refusal beside it."""
    if any(str(message.response_metadata.get(key) or "").lower() in _REASONS for key in _KEYS):
        return True
    if message.additional_kwargs.get("refusal"):
        return True
    content = message.content
    return not isinstance(content, str) and any(
        isinstance(block, dict) and block.get("type") == "refusal" for block in content
    )


class ModelRefusalMiddleware(AgentMiddleware):
    """Notices a refusal, marked by the provider or raised as `ModelRefusalError`, and asks `models` in turn.

    `detect(message)`, plain or `async`, replaces what counts as one (default: `is_refusal`; texts are not guessed
    at). When no model is left: `on_refusal` "error" raises `ModelRefusalError`, "message" ends the turn with
    `message`, "keep" lets the model's own refusal stand. Tool calls of a refused reply never run, unless it is kept.

    Seats: G1 (finished?): a refusal is not taken for an answer. H4 (another model on failure).
    """

    lends_tools = False

    @checked_arguments
    def __init__(
        self,
        *models: Any,
        on_refusal: Literal["error", "message", "keep"] = "error",
        message: str = "I cannot help with that.",
        detect: Callable[[AIMessage], Any] = is_refusal,
    ) -> None:
        if on_refusal not in ("error", "message", "keep"):
            raise InvalidInput(f"on_refusal={on_refusal!r}.", hint='It is "error", "message" or "keep".')
        if on_refusal == "keep" and not models:
            raise InvalidInput("ModelRefusalMiddleware with no model and on_refusal='keep' does nothing.")
        if on_refusal == "message" and not message.strip():
            raise InvalidInput(f"message={message!r} tells the person nothing.", hint="Say that it was declined.")
        if not callable(detect):
            raise InvalidInput(f"detect={detect!r} is not a function of a message.")
        self.models = [as_model(model) for model in models]
        self.on_refusal = on_refusal
        self.message = message
        self._detect = callee(detect, cheap=True)

    def seats(self) -> Iterable[Held]:
        then = {"error": "an error", "message": "a message of the program's", "keep": "the refusal stands"}
        answer = f"A refusal is no answer: {len(self.models)} more models are asked, then {then[self.on_refusal]}."
        yield Held("G1", answer, self._detect, adds=True)
        if self.models:
            yield Held(
                "H4", f"{self.name}: {len(self.models)} more models, for refusals.", self.wrap_model_call, adds=True
            )

    @flow
    async def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        response: Any = None
        refused: ModelRefusalError | None = None
        for model in (None, *self.models):
            changed = request if model is None else request_for(request, model)
            try:
                response = await handler(changed)
            except ModelRefusalError as error:
                refused, response = error, None
                continue
            reply = response.result[-1]
            if not isinstance(reply, AIMessage) or not await Call(self._detect, reply):
                return response
            if watched():
                record_decision("G1", "refusal", f"{changed.model!r:.100} declined to answer", "code")
            refused = ModelRefusalError(
                f"{changed.model!r:.100} declined to answer: {reply.text!r:.300}",
                hint="Give ModelRefusalMiddleware another model, or on_refusal='message'.",
            )
        if self.on_refusal == "message":
            return ModelResponse([AIMessage(self.message, response_metadata={"finish_reason": "refusal"})])
        if self.on_refusal == "keep" and response is not None:
            return response
        assert refused is not None
        raise refused
