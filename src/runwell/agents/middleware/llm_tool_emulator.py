"""Let a model make up the results of tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from runwell.agents.middleware.middleware import AgentMiddleware
from runwell.agents.middleware.other_models import as_model, hidden
from runwell.agents.middleware.requests import ToolCallRequest
from runwell.agents.middleware.transient import check_tools, chosen_tools
from runwell.drivers.colour import callee
from runwell.effects import Call, flow
from runwell.errors import InvalidInput
from runwell.messages.message import HumanMessage, ToolMessage
from runwell.ports.seat import Held
from runwell.schemas.arguments import checked_arguments

__all__ = ["LLMToolEmulator"]

PROMPT = """\
You stand in for a tool while a program is being tried out. Give the result that the tool would plausibly give for
this call: only the result, as the tool would print it, without explanation.

Tool: {name}
Description: {description}
Arguments: {args}"""


class LLMToolEmulator(AgentMiddleware):
    """Answers calls with what `model` makes up, so that an agent can be tried before its tools exist or may run.

    `tools` (names or tools) are emulated, without it all; the others run. Arguments are checked as for a real call,
    so that a bad call is answered as the real tool would. Emulated answers carry `artifact={"emulated": True}`.

    Seats: E13 (what the agent observes).
    """

    @checked_arguments
    def __init__(self, *, tools: Sequence[Any] | None = None, model: Any = None) -> None:
        if model is None:
            raise InvalidInput("LLMToolEmulator was given no model.", hint="Pass the model that makes results up.")
        self.tool_names = chosen_tools(tools, self.name)
        self.model = as_model(model)
        self._ask = callee(hidden(self.model))

    def check(self, tools: dict[str, Any]) -> None:
        check_tools(self.tool_names, tools, self.name)

    def seats(self) -> Iterable[Held]:
        names = "every tool" if self.tool_names is None else ", ".join(sorted(self.tool_names))
        yield Held("E13", f"{self.name}: a model makes up what {names} gives.", self.wrap_tool_call, "model", adds=True)

    @flow
    async def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        call, tool = request.tool_call, request.tool
        if tool is None or (self.tool_names is not None and call["name"] not in self.tool_names):
            return await handler(request)
        tool.prepare(call["args"], request.runtime)
        args = json.dumps(call["args"], ensure_ascii=False, default=str)
        prompt = PROMPT.format(name=tool.name, description=tool.description, args=args)
        reply = await Call(self._ask, [HumanMessage(prompt)])
        return ToolMessage(reply.text, tool_call_id=call["id"], name=call["name"], artifact={"emulated": True})
