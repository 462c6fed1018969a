"""Let a model choose which tools are offered."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, NotRequired

from runwell.agents.middleware.middleware import AgentMiddleware
from runwell.agents.middleware.other_models import as_model, hidden
from runwell.agents.middleware.requests import ExtendedModelResponse, ModelRequest
from runwell.agents.middleware.tool_choice import check_selection, newest_question, selectable, with_only
from runwell.agents.middleware.transient import check_tools
from runwell.agents.state import AgentState, PrivateStateAttr
from runwell.drivers.colour import callee
from runwell.effects import Call, flow
from runwell.errors import OutputParserException
from runwell.messages.message import HumanMessage, SystemMessage
from runwell.observe.run import record_decision, watched
from runwell.ports.command import Command
from runwell.ports.seat import Held
from runwell.schemas.arguments import checked_arguments

__all__ = ["LLMToolSelectorMiddleware", "ToolSelectionState"]

_log = logging.getLogger("runwell.agents")

SYSTEM_PROMPT = "Choose the tools that are likely to be needed to answer the person's request."


class ToolSelectionState(AgentState):
    """What was chosen, for which question."""

    tool_selection: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]


class LLMToolSelectorMiddleware(AgentMiddleware):
    """Asks a model, once for each question of a person, which tools are relevant, and offers the agent's model these.

    `model` (default: the agent's own) sees the question and the tools' names and descriptions. `max_tools` cuts its
    list (the most relevant first), `always_include` names tools that are offered in any case and not counted. Tools
    called in the current turn, and those the provider runs, stay. With no more tools than `max_tools` nothing is
    asked. If the answer cannot be read all tools are offered, and the log says so. `RetrievalToolSelectorMiddleware`
    does without a model.

    Seats: B5 (full toolbox or selection).
    """

    lends_tools = False

    state_schema = ToolSelectionState

    @checked_arguments
    def __init__(
        self,
        *,
        model: Any = None,
        system_prompt: str = SYSTEM_PROMPT,
        max_tools: int | None = None,
        always_include: Sequence[str] | None = None,
    ) -> None:
        self.always_include = check_selection(self.name, max_tools, always_include)
        self.model = as_model(model) if model is not None else None
        self.system_prompt = system_prompt
        self.max_tools = max_tools

    def check(self, tools: dict[str, Any]) -> None:
        check_tools(self.always_include, tools, self.name)

    def seats(self) -> Iterable[Held]:
        whose = "the agent's own model" if self.model is None else "a model of its own"
        most = "" if self.max_tools is None else f" at most {self.max_tools},"
        answer = f"A selection:{most} chosen by {whose} for each question."
        yield Held("B5", answer, self.wrap_model_call, "llm" if self.model is None else "model")

    @flow
    async def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        candidates = selectable(request, self.always_include)
        question = newest_question(request.messages)
        if question is None or not candidates or len(candidates) <= (self.max_tools or 0):
            return await handler(request)
        known = request.state.get("tool_selection")
        if known is not None and question.id is not None and known["question"] == question.id:
            return await handler(with_only(request, candidates, known["names"]))
        chosen = await self._choose(request, question, candidates)
        if chosen is None:
            return await handler(request)
        if watched():
            holder = "llm" if self.model is None else "model"
            record_decision("B5", chosen, f"chosen for this question among {len(candidates)}", holder)
        response = await handler(with_only(request, candidates, chosen))
        update = {"tool_selection": {"question": question.id, "names": chosen}}
        return ExtendedModelResponse(response, Command(update=update))

    async def _choose(self, request: ModelRequest, question: HumanMessage, candidates: list[Any]) -> list[str] | None:
        listed = "\n".join(f"- {tool.name}: {tool.description}" for tool in candidates)
        most = f" Name at most {self.max_tools}, the most relevant first." if self.max_tools else ""
        schema = {
            "title": "ToolSelection",
            "description": "The chosen tools, the most relevant first.",
            "type": "object",
            "properties": {"tools": {"type": "array", "items": {"enum": [tool.name for tool in candidates]}}},
            "required": ["tools"],
            "additionalProperties": False,
        }
        model = hidden((self.model or request.model).with_structured_output(schema))
        prompt = [SystemMessage(f"{self.system_prompt}{most}\n\n{listed}"), HumanMessage(question.content)]
        try:
            answer = await Call(callee(model), prompt)
        except OutputParserException as error:
            _log.warning("all %d tools are offered, as no selection could be read: %s", len(candidates), error.message)
            return None
        names = list(dict.fromkeys(answer["tools"]))
        return names[: self.max_tools]
