"""Choose the model of each call by rules: size, price, speed, or a condition of your own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from runwell.agents.middleware.middleware import AgentMiddleware
from runwell.agents.middleware.other_models import as_model, request_for
from runwell.agents.middleware.request_size import Counter, RequestSize
from runwell.agents.middleware.requests import ModelRequest
from runwell.drivers.colour import callee
from runwell.effects import Call, Callee, flow
from runwell.errors import InvalidInput
from runwell.observe.run import record_decision, watched
from runwell.ports.seat import Held
from runwell.schemas.arguments import check_fields, checked_arguments

__all__ = ["ModelChoice", "ModelRouterMiddleware"]

_log = logging.getLogger("runwell.agents")


@dataclass(slots=True, kw_only=True)
class ModelChoice:
    """A model, and when it may be chosen.

    `max_input_tokens` (default: what the model's profile says) is the largest request it is given. `cost` is a price
    in any one unit, say dollars for a million input tokens, `latency` seconds to a usual answer. `when(request)`,
    plain or `async`, says whether it fits; without it always.
    """

    model: Any
    max_input_tokens: int | None = None
    cost: float | None = None
    latency: float | None = None
    when: Callable[[ModelRequest], Any] | None = None
    _when: Callee[Any] | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_fields(self)
        self.model = as_model(self.model)
        if self.max_input_tokens is None:
            self.max_input_tokens = (getattr(self.model, "profile", None) or {}).get("max_input_tokens")
        for name in ("max_input_tokens", "cost", "latency"):
            value = getattr(self, name)
            if value is not None and value < (name == "max_input_tokens"):
                raise InvalidInput(f"ModelChoice({name}={value!r}) is out of range.")
        if self.when is not None and not callable(self.when):
            raise InvalidInput(f"ModelChoice(when={self.when!r}) is not a function of the request.")
        self._when = callee(self.when) if self.when is not None else None


class ModelRouterMiddleware(AgentMiddleware):
    """Gives each model call to one of `choices`: of those that fit, the first, the cheapest or the fastest.

    A choice fits when the whole request (system prompt and tool definitions included, estimated or by
    `token_counter`) is within its `max_input_tokens` and its `when` agrees. `prefer` is "order", "cost" or "latency";
    equals go by order. When none fits the agent's own model is asked, and the log says so. Another provider is asked
    without the first one's own tools, cache marks and settings. The model that answered stands in the reply's metadata.

    Seats: A4 (may a later step use another model).
    """

    lends_tools = False

    @checked_arguments
    def __init__(
        self,
        choices: Sequence[ModelChoice | Any],
        *,
        prefer: Literal["order", "cost", "latency"] = "order",
        token_counter: Counter | None = None,
    ) -> None:
        self.choices = [each if isinstance(each, ModelChoice) else ModelChoice(model=each) for each in choices]
        if not self.choices:
            raise InvalidInput("ModelRouterMiddleware was given no choices.", hint="Pass ModelChoice(model=...)s.")
        if prefer not in ("order", "cost", "latency"):
            raise InvalidInput(f"prefer={prefer!r}.", hint='It is "order", "cost" or "latency".')
        if prefer != "order":
            for each in self.choices:
                if getattr(each, prefer) is None:
                    raise InvalidInput(
                        f"prefer={prefer!r}, and the choice of {each.model!r:.100} does not say its {prefer}.",
                        hint=f"Pass ModelChoice(..., {prefer}=...).",
                    )
            self.choices.sort(key=lambda each: getattr(each, prefer))
        self.prefer = prefer
        self._size = RequestSize(token_counter)

    def seats(self) -> Iterable[Held]:
        by = {"order": "the first", "cost": "the cheapest", "latency": "the fastest"}[self.prefer]
        answer = f"Each call goes to {by} of {len(self.choices)} models that fits, else to the agent's own."
        yield Held("A4", answer, self.wrap_model_call)

    @flow
    async def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        size: int | None = None
        for choice in self.choices:
            if choice.max_input_tokens is not None:
                size = self._size.whole(request) if size is None else size
                if size > choice.max_input_tokens:
                    continue
            if choice._when is None or await Call(choice._when, request):
                if watched():
                    record_decision("A4", str(choice.model)[:200], f"it fits, and {self.prefer} prefers it", "code")
                return await handler(request_for(request, choice.model))
        _log.info(
            "none of %d choices fits a request of %s tokens; the agent's own model is asked", len(self.choices), size
        )
        return await handler(request)
