"""Keep personal data and secrets from models, from readers, or from both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, TypedDict

from runwell.agents.history import last_reply
from runwell.agents.middleware.middleware import AgentMiddleware
from runwell.agents.middleware.requests import ExtendedModelResponse, ModelRequest, ModelResponse, ToolCallRequest
from runwell.agents.pii.detector import BUILTIN, detector_for
from runwell.agents.pii.guarded_model import GuardedModel
from runwell.agents.pii.guarded_tool import GuardedTool, cleaned_answer
from runwell.agents.pii.rule import Rule
from runwell.agents.pii.stage import Stage
from runwell.agents.pii.strategy import Strategy, replacement
from runwell.agents.pii.walk import clean_message
from runwell.agents.state import OmitFromSchema
from runwell.effects import flow
from runwell.errors import InvalidInput
from runwell.messages.message import AIMessage
from runwell.ports.seat import Held
from runwell.schemas.arguments import checked_arguments

__all__ = ["PIIMiddleware", "PIIState"]

HIDDEN = "hidden_args"
ROLES = ("system", "human", "ai", "tool")


class PIIState(TypedDict, total=False):
    """What calls' arguments were before something in them was hidden, until the calls have run."""

    hidden_args: Annotated[dict[str, Any], OmitFromSchema(unseen=True)]


class PIIMiddleware(AgentMiddleware):
    """Looks for data of `pii_type`, and hides it or lets nothing pass.

    Built in are "email", "credit_card", "ip", "mac_address", "url", "phone", "iban", "us_ssn" and "api_key"; a list
    looks for several at once. Any other type needs a `detector`: a regular expression, or a function from a text to
    matches with `start` and `end`.

    `strategy`: "redact" writes `[REDACTED_EMAIL]`, "mask" leaves a part to recognise the value by, "hash" writes a
    keyed hash, the same for the same value, "tokenize" writes a token that is turned back into the value in what the
    model answers, "block" raises `PIIDetectionError`. The last two but one use `key`, a secret; without one they use
    one of their own that changes with each process.

    `apply_to_input`: every message that leaves for a model, older ones, calls and tools' results included; the stored
    history stays as it was. `roles` narrows it, for instance to `["human"]`. `apply_to_output`: what the model says,
    before any reader, stream, observer or person asked for approval sees it, and before it is stored. Calls are shown
    and stored with hidden arguments, and run with the real ones, unless `apply_to_tool_args`. `apply_to_tool_results`:
    what tools give, before it is stored. `hold` is the longest match of a detector of your own, in characters: a
    stream keeps back no more.

    Put it first, so that the models of other middlewares are behind it too. Seats: D2, D13, D14, D15, D16.
    """

    lends_tools = False

    state_schema = PIIState

    @checked_arguments
    def __init__(
        self,
        pii_type: str | Sequence[str],
        *,
        strategy: Strategy = "redact",
        detector: Any = None,
        apply_to_input: bool = True,
        apply_to_output: bool = False,
        apply_to_tool_results: bool = False,
        apply_to_tool_args: bool = False,
        key: str | bytes | None = None,
        roles: Sequence[str] | None = None,
        hold: int | None = None,
    ) -> None:
        types: list[Any] = [pii_type] if isinstance(pii_type, str) else list(pii_type)
        if not types or any(not isinstance(each, str) or not each.isidentifier() for each in types):
            raise InvalidInput(
                f"pii_type={pii_type!r:.200}.", hint=f"A name such as {BUILTIN[0]!r}, or a list of names."
            )
        if len(set(types)) < len(types):
            raise InvalidInput(f"pii_type={pii_type!r:.200} names a type twice.", hint="Name each once.")
        if detector is not None and len(types) > 1:
            raise InvalidInput(
                f"One detector for {len(types)} types.", hint="Use a PIIMiddleware for each detector of your own."
            )
        if not (apply_to_input or apply_to_output or apply_to_tool_results or apply_to_tool_args):
            raise InvalidInput(f"PIIMiddleware({pii_type!r:.200}) applies to nothing.", hint="Leave it out.")
        if roles is not None and (isinstance(roles, str) or not roles or not set(roles) <= set(ROLES)):
            raise InvalidInput(f"roles={roles!r:.200}.", hint=f"A list of some of {', '.join(ROLES)}.")
        if roles is not None and not apply_to_input:
            raise InvalidInput("roles= narrows apply_to_input, which is off.", hint="Leave one of them out.")
        self.types = tuple(types)
        self.strategy = strategy
        self._own_key = key is None
        self._rule = Rule(
            [detector_for(each, detector, hold) for each in types],
            replacement(strategy, key),
            tokens=strategy == "tokenize",
        )
        self._custom = detector
        self._stage = Stage(
            self._rule,
            strategy,
            to_model=apply_to_input,
            from_model=apply_to_output,
            tool_results=apply_to_tool_results,
            tool_args=apply_to_tool_args,
            roles=frozenset(roles) if roles is not None else None,
        )

    @property
    def name(self) -> str:
        return f"PIIMiddleware[{','.join(self.types)}]"

    def seats(self) -> Iterable[Held]:
        stage, names = self._stage, ", ".join(self.types)
        by = self._rule.detectors[0].find if self._custom is None else self._custom
        found_by = "built-in detectors" if self._custom is None else "a detector of the program's own"
        yield Held("D13", f"{names}: by {found_by}.", by if callable(by) else Rule.find)
        yield Held("D14", self._scanned(), Stage.outgoing)
        what = {
            "redact": "replaced by its type's name",
            "mask": "masked but for a part",
            "hash": "replaced by a keyed hash",
            "tokenize": "replaced by a token, which is turned back in the answer",
            "block": "the run raises",
        }[self.strategy]
        keyed = self.strategy in ("hash", "tokenize")
        key = " (the key is of this process)" if keyed and self._own_key else ""
        yield Held("D15", f"{names}: {what}{key}.", replacement)
        if stage.from_model:
            seen = "Nothing of it in the model's answer, in any mode"
            results = ", nor in tools' results" if stage.tool_results else "; tools' results as they are"
            yield Held("D16", f"{names}: {seen}{results}.", self.guard_model)
        elif stage.tool_results:
            yield Held("D16", f"{names}: hidden in tools' results, not in the model's answer.", self.wrap_tool_call)
        if stage.to_model:
            yield Held("D2", f"Inspected for {names}.", self.guard_model)

    def _scanned(self) -> str:
        stage = self._stage
        scanned = []
        if stage.to_model:
            which = "every message" if stage.roles is None else f"messages of {', '.join(sorted(stage.roles))}"
            scanned.append(f"{which} that leaves for a model (the copy; the history stays)")
        if stage.from_model:
            scanned.append("what the model answers")
        if stage.tool_results:
            scanned.append("tools' results")
        if stage.tool_args:
            scanned.append("the arguments tools run with")
        text = "; ".join(scanned)
        return f"{', '.join(self.types)}: {text}."

    # -- the model

    @flow
    async def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        messages = self._stage.outgoing(request.messages)  # what hooks inside, and their models, get
        if messages is not request.messages:
            request = request.override(messages=messages)
        made = await handler(request)
        return self._answered(made) if self._stage.from_model else made

    def guard_model(self, model: Any, request: ModelRequest) -> Any:
        """The model behind this rule: what hooks inside have added passes it too, and so does every chunk."""
        if isinstance(model, _Guarded):
            return model.joined(self._stage)
        return _Guarded(model, [self._stage], request.state.get("messages") or (), bool(request.state.get(HIDDEN)))

    def _answered(self, made: Any) -> Any:
        """Answers that a hook inside made up have not come through the model."""
        response = made.model_response if isinstance(made, ExtendedModelResponse) else made
        if isinstance(response, AIMessage):
            return clean_message(response, self._stage.text("in an answer"))
        if isinstance(response, ModelResponse):
            clean = self._stage.text("in an answer")
            response.result = [
                clean_message(each, clean) if isinstance(each, AIMessage) else each for each in response.result
            ]
        return made

    # -- tools

    @flow
    async def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        answer = await handler(request.override(tool=self._guarded(request)))
        return cleaned_answer(answer, self._stage) if self._stage.tool_results else answer

    def guard_answer(self, answer: Any) -> Any:
        """An error may quote what was hidden."""
        return cleaned_answer(answer, self._stage) if self._stage.tool_results or self._stage.from_model else answer

    def _guarded(self, request: ToolCallRequest) -> Any:
        tool, call = request.tool, request.tool_call
        if tool is None:
            return None
        if isinstance(tool, GuardedTool):
            return tool.joined(self._stage)
        meant = (request.state.get(HIDDEN) or {}).get(call["id"])
        return GuardedTool(tool, [self._stage], meant, _shown(request, call) if meant is not None else None)


class _Guarded(GuardedModel):
    """With what it hid kept for the calls to run with."""

    def __init__(self, model: Any, stages: Sequence[Stage], history: Any, stale: bool) -> None:
        super().__init__(model, stages, history)
        self._stale = stale

    def joined(self, stage: Stage) -> _Guarded:
        return _Guarded(self.model, [*self.stages, stage], self.history, self._stale)

    def update(self) -> dict[str, Any]:
        """The state's update: what is hidden in this answer's calls, in place of what was in the last one's."""
        return {HIDDEN: self.hidden} if self.hidden or self._stale else {}


def _shown(request: ToolCallRequest, call: Any) -> Any:
    """The call's arguments as the model's answer shows them, before a person edited them."""
    reply, _ = last_reply(request.state["messages"])
    if reply is None:
        return None
    edited = (reply.additional_kwargs.get("edited_calls") or {}).get(call["id"])
    if edited is not None:
        return edited["args"]
    return next((each["args"] for each in reply.tool_calls if each["id"] == call["id"]), None)
