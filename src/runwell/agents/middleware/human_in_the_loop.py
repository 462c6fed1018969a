"""Ask a person before a tool call runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict

from runwell.agents.history import last_reply, open_calls, was_lent
from runwell.agents.middleware.middleware import AgentMiddleware
from runwell.agents.middleware.requests import ToolCallRequest
from runwell.errors import GraphInterrupt, InvalidInput, nearest
from runwell.graph.interrupts import interrupt, record
from runwell.messages.message import AIMessage, ToolMessage
from runwell.observe.run import record_decision, watched
from runwell.schemas.arguments import checked_arguments

if TYPE_CHECKING:
    from runwell.ports.seat import Held

__all__ = ["Decision", "HumanInTheLoopMiddleware", "InterruptOnConfig"]

DecisionType = Literal["approve", "edit", "reject", "respond"]
DECISIONS: tuple[DecisionType, ...] = ("approve", "edit", "reject", "respond")


class InterruptOnConfig(TypedDict, total=False):
    """How calls of one tool are reviewed.

    `allowed_decisions` (default: all four), `description` (a text, or a function of (tool_call, state, runtime)),
    `when` (a predicate of a `ToolCallRequest`: review only if true; asked once per call), `allow_rename`
    (an edit may name another tool).
    """

    allowed_decisions: list[DecisionType]
    description: str | Callable[[Any, Any, Any], str]
    when: Callable[[ToolCallRequest], bool]
    allow_rename: bool


class Decision(TypedDict, total=False):
    """A person's answer: `type`; for an edit `edited_action` ({"name", "args"}); for a reject or respond `message`."""

    type: DecisionType
    edited_action: dict[str, Any]
    message: str


class HumanInTheLoopMiddleware(AgentMiddleware):
    """Pauses before calls of the named tools run, and does what a person decides.

    `interrupt_on` maps a tool's name to True (all decisions allowed), False (never), or an `InterruptOnConfig`. The
    pause asks `{"action_requests": [{"name", "args", "id", "description"}], "review_configs": [...]}`; resume with
    `Command(resume={"decisions": {call_id: decision}})`, or a complete list in the order asked. An answer that is
    not allowed, or whose edited arguments do not fit the tool, is refused and the run stays paused.

    A rejected call is answered with an error and never runs; other calls of the turn still do. An edited call runs
    instead of the model's, whose original stays in the message's `additional_kwargs["edited_calls"]`, and the model
    is told.
    """

    _asks_by_name: ClassVar[bool] = True
    """Only about the tools of `interrupt_on`: with none there it would do nothing."""

    @checked_arguments
    def __init__(
        self,
        interrupt_on: Mapping[str, bool | InterruptOnConfig],
        *,
        description_prefix: str = "This tool call needs approval",
    ) -> None:
        if not interrupt_on and self._asks_by_name:
            raise InvalidInput(
                "HumanInTheLoopMiddleware(interrupt_on={}) asks about no tool.",
                hint='Name tools, as in {"send": True}, or leave the middleware out.',
            )
        self.interrupt_on: dict[str, InterruptOnConfig] = {}
        for name, setting in interrupt_on.items():
            if setting is False:
                continue
            config: InterruptOnConfig = {} if setting is True else setting
            for key in config:
                if key not in InterruptOnConfig.__annotations__:
                    raise InvalidInput(
                        f"interrupt_on[{name!r}] has an unknown key {key!r}"
                        f"{nearest(key, InterruptOnConfig.__annotations__)}.",
                        hint=f"Keys are {sorted(InterruptOnConfig.__annotations__)}.",
                    )
            allowed: Any = config.get("allowed_decisions", list(DECISIONS))
            if not allowed or isinstance(allowed, str) or any(decision not in DECISIONS for decision in allowed):
                raise InvalidInput(
                    f"interrupt_on[{name!r}] allows {allowed!r}.", hint=f"Choose among {', '.join(DECISIONS)}."
                )
            if not callable(config.get("when", callable)):
                raise InvalidInput(
                    f"interrupt_on[{name!r}] has when={config['when']!r:.100}.",
                    hint="It is a function of a ToolCallRequest.",
                )
            described = config.get("description", "")
            if not isinstance(described, str) and not callable(described):
                raise InvalidInput(
                    f"interrupt_on[{name!r}] has description={described!r:.100}.",
                    hint="It is a text, or a function of (tool_call, state, runtime).",
                )
            self.interrupt_on[name] = config
        self.description_prefix = description_prefix
        self.lent_rule: str | None = None
        self._schemas: dict[str, dict[str, Any]] = {}
        self._tools: dict[str, Any] = {}

    def seats(self) -> Iterable[Held]:
        from runwell.ports.seat import Held

        names = ", ".join(sorted(self.interrupt_on)) or "none"
        some = sorted(name for name, config in self.interrupt_on.items() if "when" in config)
        asked = f", of {', '.join(some)} only when a predicate says so" if some else ""
        yield Held("D1", f"Calls of {names} wait for a person; others run.", self.after_model)
        yield Held("D9", f"Calls of {names} do{asked}.", self._needs_review)
        allowed = "; ".join(f"{name}: {', '.join(self._allowed(name))}" for name in sorted(self.interrupt_on))
        yield Held("D10", f"A person decides for each call ({allowed}).", self.after_model, "human")
        yield Held("D11", "Checked against what is allowed and against the tool's schema.", self._decision_schema)
        yield Held("D12", "The edited one; both stay in the history, and the model is told.", _edited)

    def pauses(self) -> str | None:
        names = ", ".join(sorted(self.interrupt_on))
        if names:
            return f"calls of {names} wait for approval"
        return "calls of tools that hooks add may wait for approval" if self.lent_rule is not None else None

    def check(self, tools: dict[str, Any]) -> None:
        for name in self.interrupt_on:
            if name not in tools:
                raise InvalidInput(
                    f"interrupt_on names {name!r}, which is not a tool of this agent{nearest(name, tools)}.",
                    hint=f"Its tools are {sorted(tools)}.",
                )
        self._tools = tools
        self._schemas = {name: tool.json_schema() for name, tool in tools.items() if hasattr(tool, "json_schema")}

    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        messages = state["messages"]
        reply, _ = last_reply(messages)
        gated = [call for call in open_calls(messages) if self._needs_review(call, state, runtime)]
        if reply is None or not gated:
            return None
        try:
            answer = interrupt(self._question(gated, state, runtime), response_schema=self._answer_schema(gated))
        except GraphInterrupt:  # the first time here; when the answer is there this is not asked again
            if watched():
                for call in gated:
                    record_decision("D9", "review", f"interrupt_on names {call['name']!r}", "code")
            raise
        given = answer["decisions"]
        decisions = given if isinstance(given, dict) else {c["id"]: d for c, d in zip(gated, given, strict=True)}
        return self._applied(reply, {call["id"]: call for call in gated}, decisions)

    def _request(self, call: Any, state: Any, runtime: Any) -> ToolCallRequest:
        return ToolCallRequest(tool_call=call, tool=self._tools.get(call["name"]), state=state, runtime=runtime)

    def _needs_review(self, call: Any, state: Any, runtime: Any) -> bool:
        config = self.interrupt_on.get(call["name"])
        if config is None:
            return self._lent_needs_review(call, state)
        when = config.get("when")
        if when is None:
            return True
        # asked once: the verdict is kept with the pause, so that the answer cannot be skipped on the way back
        return bool(
            record(f"review/{call['id']}", lambda: self._verdict(when(self._request(call, state, runtime)), call))
        )

    def _lent_needs_review(self, call: Any, state: Any) -> bool:
        """Whether a tool that a hook added for this turn is gated, as `approvals=` says of all tools."""
        lent = was_lent(state, call["name"]) if self.lent_rule is not None else None
        return lent is not None and (self.lent_rule == "all" or lent["destructive"])

    def _verdict(self, asked: Any, call: Any) -> bool:
        """What a predicate said; that a call is waved through is told here, since nothing else happens to it."""
        if not asked and watched():
            record_decision("D9", "waved through", f"its predicate says no for call {call['id']!r}", "code")
        return bool(asked)

    def _question(self, gated: list[Any], state: Any, runtime: Any) -> dict[str, Any]:
        requests, configs = [], {}
        for call in gated:
            config = self.interrupt_on.get(call["name"], {})
            described = config.get("description")
            if described is None:
                described = f"{self.description_prefix}: {call['name']}({call['args']})"
            elif not isinstance(described, str):
                described = described(call, state, runtime)
            requests.append({"name": call["name"], "args": call["args"], "id": call["id"], "description": described})
            configs[call["name"]] = {"action_name": call["name"], "allowed_decisions": self._allowed(call["name"])}
        return {"action_requests": requests, "review_configs": list(configs.values())}

    def _allowed(self, name: str) -> list[DecisionType]:
        return list(self.interrupt_on.get(name, {}).get("allowed_decisions", DECISIONS))

    def _answer_schema(self, gated: list[Any]) -> dict[str, Any]:
        """A complete list in the order asked, or a decision for each call id; nothing else."""
        each = {call["id"]: self._decision_schema(call) for call in gated}
        listed = {"type": "array", "prefixItems": list(each.values()), "minItems": len(each), "maxItems": len(each)}
        keyed = {
            "type": "object",
            "properties": each,
            "required": list(each),
            "additionalProperties": False,
        }
        return {
            "type": "object",
            "required": ["decisions"],
            "properties": {
                "decisions": {"if": {"type": "array"}, "then": listed, "else": keyed, "type": ["array", "object"]}
            },
        }

    def _decision_schema(self, call: Any) -> dict[str, Any]:
        name = call["name"]
        rename = self.interrupt_on.get(name, {}).get("allow_rename", False)
        arguments: dict[str, Any] = {"type": "object"}
        if not rename and name in self._schemas:
            arguments = {"$id": f"urn:runwell:tool:{name}:{call['id']}", **self._schemas[name]}
        action = {
            "type": "object",
            "required": ["name", "args"],
            "properties": {
                "name": {"enum": sorted(self._schemas)} if rename else {"const": name},
                "args": arguments,
            },
        }
        return {
            "type": "object",
            "required": ["type"],
            "properties": {"type": {"enum": self._allowed(name)}},
            "allOf": [
                _when("edit", {"required": ["edited_action"], "properties": {"edited_action": action}}),
                _when("respond", {"required": ["message"], "properties": {"message": {"type": "string"}}}),
                _when("reject", {"properties": {"message": {"type": "string"}}}),
            ],
        }

    def _applied(self, reply: AIMessage, gated: dict[str, Any], decisions: Mapping[str, Any]) -> dict[str, Any] | None:
        """The edited reply, if any call was edited, and answers to the calls that will not run."""
        changed: dict[str, Any] = {}
        answers: list[Any] = []
        for call_id, call in gated.items():
            decision = decisions[call_id]
            kind, text = decision["type"], decision.get("message")
            if watched():
                record_decision("D10", kind, text or f"call {call_id!r} of {call['name']!r}", "human")
            if kind == "edit":
                changed[call_id] = decision["edited_action"]
            elif kind == "respond":
                answers.append(ToolMessage(text, tool_call_id=call_id, name=call["name"]))
            elif kind == "reject":
                said = f"A person rejected this call of {call['name']!r}, and it was not run."
                said += f" Their reason: {text}" if text else " Do not try it again unless they ask."
                answers.append(ToolMessage(said, tool_call_id=call_id, name=call["name"], status="error"))
        if changed:
            answers.insert(0, _edited(reply, gated, changed))
        return {"messages": answers} if answers else None


def _when(kind: str, then: dict[str, Any]) -> dict[str, Any]:
    return {"if": {"properties": {"type": {"const": kind}}, "required": ["type"]}, "then": then}


def _edited(reply: AIMessage, gated: Mapping[str, Any], changed: Mapping[str, Any]) -> AIMessage:
    """The reply with edited calls in place of the model's, which are kept beside them."""
    calls = [
        {**call, "name": changed[id_]["name"], "args": changed[id_]["args"]}
        if (id_ := call["id"] or "") in changed
        else call
        for call in reply.tool_calls
    ]
    originals = {call_id: {"name": gated[call_id]["name"], "args": gated[call_id]["args"]} for call_id in changed}
    kept = {**reply.additional_kwargs, "edited_calls": {**reply.additional_kwargs.get("edited_calls", {}), **originals}}
    return reply.model_copy(update={"tool_calls": calls, "additional_kwargs": kept})
