"""A tool behind rules: it runs with what the model meant, and everybody else sees what has passed the rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runwell.agents.pii.stage import Stage
from runwell.agents.pii.walk import clean_message, clean_value
from runwell.messages.message import BaseMessage
from runwell.ports.command import Command

__all__ = ["GuardedTool", "cleaned_answer", "unhidden"]


class GuardedTool:
    """One call of `tool`, whose hidden arguments are `meant`, shown as `shown`. Everything else is the tool's."""

    def __init__(self, tool: Any, stages: Sequence[Stage], meant: Any, shown: Any) -> None:
        self._tool = tool
        self._stages = tuple(stages)
        self._meant = meant
        self._shown = shown

    def joined(self, stage: Stage) -> GuardedTool:
        """With one rule more, after those there are."""
        return GuardedTool(self._tool, [*self._stages, stage], self._meant, self._shown)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._tool, name)

    def __repr__(self) -> str:
        return repr(self._tool)

    def prepare(self, args: Mapping[str, Any], *given: Any, **more: Any) -> dict[str, Any]:
        if self._meant is not None:
            args = unhidden(args, self._shown, self._meant)
        for stage in self._stages:
            if stage.tool_args:
                args = clean_value(args, stage.text("in a tool's arguments"))
        return self._tool.prepare(args, *given, **more)  # type: ignore[no-any-return]

    def finish(self, result: Any, call: Mapping[str, Any]) -> Any:
        return self._cleaned(self._tool.finish(result, call))

    def answer_error(self, error: BaseException, call: Mapping[str, Any]) -> Any:
        return self._cleaned(self._tool.answer_error(error, call))

    def _cleaned(self, answer: Any) -> Any:
        for stage in self._stages:
            if stage.tool_results:
                answer = cleaned_answer(answer, stage)
        return answer


def unhidden(args: Any, shown: Any, meant: Any) -> Any:
    """Arguments with what was hidden in them put back, wherever they still are as they were shown.

    What a person changed stays changed.
    """
    if args == shown:
        return meant
    if isinstance(args, dict) and isinstance(shown, dict) and isinstance(meant, dict) and shown.keys() == meant.keys():
        return {key: unhidden(value, shown[key], meant[key]) if key in shown else value for key, value in args.items()}
    lists = isinstance(args, list) and isinstance(shown, list) and isinstance(meant, list)
    if lists and len(args) == len(shown) == len(meant):
        return [unhidden(*each) for each in zip(args, shown, meant, strict=True)]
    return args


def cleaned_answer(answer: Any, stage: Stage) -> Any:
    """What a tool gave, cleaned: a message, the messages of a Command, a list of these."""
    clean = stage.text("in a tool's result")
    if isinstance(answer, BaseMessage):
        return clean_message(answer, clean)
    if isinstance(answer, list):
        return [cleaned_answer(each, stage) for each in answer]
    if isinstance(answer, Command) and isinstance(answer.update, dict) and "messages" in answer.update:
        given = answer.update["messages"]
        listed = given if isinstance(given, list) else [given]
        made = [clean_message(each, clean) if isinstance(each, BaseMessage) else each for each in listed]
        if any(new is not old for new, old in zip(made, listed, strict=True)):
            update = {**answer.update, "messages": made}
            return Command(graph=answer.graph, update=update, resume=answer.resume, goto=answer.goto)
    return answer
