"""An agent as a tool of another one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from string import Formatter
from typing import Any

from runwell.agents.calling import call_graph
from runwell.errors import BudgetExceeded, InvalidInput, ToolError, nearest
from runwell.messages.message import HumanMessage
from runwell.ports.runtime import CURRENT_TASK
from runwell.tools.base_tool import BaseTool

__all__ = ["AgentTool", "as_tool"]

TASK = {
    "type": "object",
    "properties": {
        "task": {
            "type": "string",
            "description": "What is to be done, with all that is needed to do it: nothing else of this conversation "
            "can be seen there.",
        }
    },
    "required": ["task"],
    "additionalProperties": False,
}


class AgentTool(BaseTool):
    """A tool whose work an agent does, from `agent.as_tool()`.

    The agent sees its arguments and nothing else of the caller's conversation; the caller sees its structured
    response, or the text of its last answer. Its calls count for the budget of the run that it is called in.
    """

    agent: Any = None
    prompt: Any = None

    def _run(self, **arguments: Any) -> Any:
        try:
            return self.answer(self.agent.invoke(self.given(arguments)))
        except BudgetExceeded as over:
            raise self.refusal(over) from over

    async def _arun(self, **arguments: Any) -> Any:
        try:
            return self.answer(await self.agent.ainvoke(self.given(arguments)))
        except BudgetExceeded as over:
            raise self.refusal(over) from over

    def call(self, kwargs: dict[str, Any]) -> Any:
        """Inside a graph the agent runs in the caller's own driver, unless it has a timeout."""
        if self.timeout is not None or CURRENT_TASK.get() is None:
            return super().call(kwargs)
        return self._delegated(kwargs)

    async def _delegated(self, arguments: dict[str, Any]) -> Any:
        try:
            return self.answer(await call_graph(self.agent, self.given(arguments)))
        except BudgetExceeded as over:
            raise self.refusal(over) from over

    def given(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The agent's input: arguments that its state has keys for, and the others as a message."""
        known = self.agent.input_schema.channels
        state = {name: value for name, value in arguments.items() if name in known}
        rest = {name: value for name, value in arguments.items() if name not in known}
        if callable(self.prompt):
            made = self.prompt(dict(arguments))
            return {**state, **made} if isinstance(made, Mapping) else {**state, "messages": made}
        if isinstance(self.prompt, str):
            return {**state, "messages": [HumanMessage(self.prompt.format(**arguments))]}
        if rest or "messages" not in state:
            state["messages"] = [*state.get("messages", ()), HumanMessage(_said(rest))]
        return state

    def answer(self, result: Mapping[str, Any]) -> Any:
        """What the caller's model reads."""
        made = result.get("structured_response")
        if made is not None:
            return (made, made) if self.response_format == "content_and_artifact" else made
        messages = result.get("messages") or []
        text = messages[-1].text if messages else ""
        if result.get("stopped"):
            text = f"{text}\n[{self.name} stopped before it was finished: {result['stopped']}]".lstrip()
        return (text, None) if self.response_format == "content_and_artifact" else text

    def refusal(self, over: BudgetExceeded) -> BaseException:
        """A limit of the agent's own is a failed call; one that it shares is the caller's business."""
        scope = CURRENT_TASK.get()
        meter = scope.runtime.budget if scope is not None else None
        if meter is None or meter.bounds(over):
            return over
        return ToolError(f"{self.name} did not finish: {over.message}")


def _said(arguments: Mapping[str, Any]) -> str:
    if len(arguments) == 1 and isinstance(only := next(iter(arguments.values())), str):
        return only
    return json.dumps(arguments, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    return value.model_dump() if hasattr(value, "model_dump") else str(value)


def as_tool(
    agent: Any,
    name: str | None,
    description: str | None,
    input_schema: Any,
    prompt: str | Callable[[dict[str, Any]], Any] | None,
    **fields: Any,
) -> AgentTool:
    """The tool that `agent.as_tool()` gives."""
    called = name or agent.name
    if name is None and agent.name == "agent":
        raise InvalidInput(
            "An agent without a name cannot be told from other tools.",
            hint='Name it: create_agent(..., name="researcher"), or agent.as_tool(name="researcher", ...).',
        )
    if prompt is not None and not isinstance(prompt, str) and not callable(prompt):
        raise InvalidInput(
            f"prompt={prompt!r:.100}.", hint="Pass a text with {fields}, or a function of the call's arguments."
        )
    if agent.name == "agent":  # its namespace, and the name its tokens are streamed under
        agent = agent.with_name(called)
    made = AgentTool(
        name=called,
        description=description or f"Hand a task to the agent {called!r}, which works on it alone and answers once.",
        args_schema=TASK if input_schema is None else input_schema,
        agent=agent,
        prompt=prompt,
        **fields,
    )
    if isinstance(prompt, str):
        _check_prompt(prompt, made.json_schema().get("properties") or {})
    return made


def _check_prompt(prompt: str, arguments: Mapping[str, Any]) -> None:
    """Refuse a text that could not be filled in with the call's arguments."""
    try:
        parts = [field for _, field, _, _ in Formatter().parse(prompt) if field is not None]
    except ValueError as error:
        raise InvalidInput(
            f"prompt={prompt!r:.200}: {error}.", hint="Write a brace of the text twice: {{ }}."
        ) from error
    for field in (part.partition(".")[0].partition("[")[0] for part in parts):
        if field not in arguments:
            raise InvalidInput(
                f"prompt={prompt!r:.200} has the field {field!r}, which is no argument{nearest(field, arguments)}.",
                hint=f"The arguments are {sorted(arguments)}; input_schema= names others. Double other braces.",
            )
