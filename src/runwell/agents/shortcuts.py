"""The middlewares that `approvals=`, `fallbacks=`, `model_retry=` and `tool_retry=` stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from runwell.agents.middleware.human_in_the_loop import HumanInTheLoopMiddleware
from runwell.agents.middleware.middleware import AgentMiddleware
from runwell.agents.problems import Problems
from runwell.errors import InvalidInput
from runwell.tools.base_tool import BaseTool

__all__ = ["Approvals", "gate_for", "second_tries"]

Approvals = Literal["off", "destructive", "all"] | Sequence[str] | Mapping[str, Any]


def gate_for(approvals: Approvals, tools: Mapping[str, Any], lends: bool) -> HumanInTheLoopMiddleware | None:
    """The middleware that `approvals=` stands for."""
    if approvals == "off":
        return None
    local = {name: tool for name, tool in tools.items() if isinstance(tool, BaseTool)}
    chosen: Mapping[str, Any]
    if approvals == "destructive":
        chosen = {name: True for name, tool in local.items() if tool.destructive}
    elif approvals == "all":
        chosen = dict.fromkeys(local, True)
    elif isinstance(approvals, Mapping):
        chosen = approvals
    elif isinstance(approvals, str):
        raise InvalidInput(
            f"approvals={approvals!r}.", hint='It is "off", "destructive", "all", a list of tool names, or a dict.'
        )
    elif not isinstance(approvals, Iterable):
        raise InvalidInput(
            f"approvals={approvals!r:.100}.", hint='It is "off", "destructive", "all", a list of tool names, or a dict.'
        )
    else:
        chosen = dict.fromkeys(approvals, True)
    if not chosen and approvals not in ("all", "destructive"):
        raise InvalidInput(
            f"approvals={approvals!r} asks about no tool.",
            hint='Name tools, or write "off" where nothing is to be asked.',
        )
    rule = str(approvals) if lends and approvals in ("all", "destructive") else None
    if not chosen and rule is None:
        return None
    gate = HumanInTheLoopMiddleware(chosen or {str(rule): False})  # none of the agent's own: those that hooks will add
    gate.lent_rule = rule
    return gate


def second_tries(
    hooks: Sequence[AgentMiddleware],
    tools: Mapping[str, Any],
    fallbacks: Sequence[Any],
    model_retry: int | AgentMiddleware | None,
    tool_retry: int | AgentMiddleware | None,
    problems: Problems,
) -> list[AgentMiddleware]:
    """The middleware that `fallbacks=`, `model_retry=` and `tool_retry=` stand for: each model has its retries."""
    made: list[Any] = []
    if isinstance(fallbacks, str) or not isinstance(fallbacks, Sequence):
        problems.add(InvalidInput(f"fallbacks={fallbacks!r:.100}.", hint="Pass a list of models."))
    elif fallbacks:
        from runwell.agents.middleware.model_fallback import ModelFallbackMiddleware

        made.append(problems.of(lambda: ModelFallbackMiddleware(*fallbacks)))
    if isinstance(model_retry, AgentMiddleware):
        made.append(model_retry)
    elif model_retry and type(model_retry) is int:
        from runwell.agents.middleware.model_retry import ModelRetryMiddleware

        made.append(problems.of(lambda: ModelRetryMiddleware(max_retries=model_retry)))
    if isinstance(tool_retry, AgentMiddleware):
        made.append(tool_retry)
    elif tool_retry is None or (type(tool_retry) is int and tool_retry != 0):
        safe = [name for name, tool in tools.items() if getattr(tool, "idempotent", None)]
        if tool_retry is not None or safe:
            from runwell.agents.middleware.tool_retry import ToolRetryMiddleware

            if tool_retry is not None:
                made.append(problems.of(lambda: ToolRetryMiddleware(max_retries=tool_retry)))
            elif not any(isinstance(each, ToolRetryMiddleware) for each in hooks):
                made.append(ToolRetryMiddleware(tools=safe))
    return [each for each in made if each is not None]
