"""A call whose server asks back: each round's questions are answered, and the call goes on where it was.

Questions are asked through `interrupt()`, so a run can wait for days. What a round answered is kept with the pause:
when the run goes on, the server is not called for rounds that are done, and nobody is asked twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from runwell.drivers.aio import call_async
from runwell.drivers.colour import callee
from runwell.errors import InvalidInput, MCPToolError, ToolDefinitionError
from runwell.graph.interrupts import interrupt
from runwell.mcp.text import MCPLimits, bounded, clean_schema
from runwell.ports.runtime import CURRENT_TASK, TaskScope
from runwell.schemas.branches import told_problems
from runwell.schemas.json_schema import dereference_refs, never_fetch

__all__ = ["PAGE", "Asker", "Rounds", "answer_schema", "elicit_result", "pages_to_visit", "question_of"]

Send = Callable[[dict[str, Any] | None, str | None], Awaitable[Any]]

_WAIT_S = (0.05, 0.1, 0.2, 0.25)

_calls: WeakKeyDictionary[TaskScope, dict[str, int]] = WeakKeyDictionary()


class Rounds:
    """What the rounds of one call gave, kept with the task's pauses."""

    def __init__(self, server: str, tool: str, arguments: Mapping[str, Any]) -> None:
        self.scope = CURRENT_TASK.get()
        said = json.dumps([server, tool, arguments], sort_keys=True, default=str)
        key = hashlib.sha256(said.encode()).hexdigest()[:16]
        count = 0
        if self.scope is not None:  # the same call twice in one task is two calls
            counts = _calls.setdefault(self.scope, {})
            count = counts.get(key, 0)
            counts[key] = count + 1
        self.key = f"mcp:{key}:{count}:"

    def get(self, number: int) -> Any:
        if self.scope is None:
            return None
        return self.scope.records.get(f"{self.scope.prefix}{self.key}{number}")

    def keep(self, number: int, made: Any) -> None:
        if self.scope is not None:
            self.scope.records[f"{self.scope.prefix}{self.key}{number}"] = made


class Asker:
    """Answers what a server asks during calls of its tools.

    `elicit`, `sample` and `roots` are the program's handlers (None: there is none). Without `elicit`, a person is asked
    through a pause of the run.
    """

    def __init__(self, server: str, limits: MCPLimits, *, elicit: Any = None, sample: Any = None, roots: Any = None):
        self.server = server
        self.limits = limits
        self.elicit = elicit
        self.sample = sample
        self.roots = roots

    async def result(self, tool: str, arguments: Mapping[str, Any], send: Send) -> Any:
        """The call's result, after as many rounds of questions as the limit allows. Raises MCPToolError past it."""
        from mcp.shared.exceptions import MCPError
        from mcp_types import INVALID_PARAMS

        rounds = Rounds(self.server, tool, arguments)
        known: list[tuple[Any, Any]] = []
        try:
            return await self._rounds(tool, send, rounds, known)
        except MCPError as error:
            if not known or error.code != INVALID_PARAMS:
                raise
            # It no longer knows of its earlier rounds (it was started anew, or the answer came late): begin again, and
            # give the answers that are there.
            return await self._rounds(tool, send, None, known)

    async def _rounds(self, tool: str, send: Send, rounds: Rounds | None, known: list[tuple[Any, Any]]) -> Any:
        from mcp_types import CallToolResult, InputRequiredResult

        responses: dict[str, Any] | None = None
        state: str | None = None
        for number in range(self.limits.rounds + 1):
            kept = rounds.get(number) if rounds is not None else None
            if kept is None:
                result = await send(responses, state)
                if rounds is not None and (number or isinstance(result, InputRequiredResult)):
                    rounds.keep(number, result.model_dump(mode="json", by_alias=True, exclude_none=True))
            elif kept.get("resultType") == "input_required":
                result = InputRequiredResult.model_validate(kept)
            else:
                result = CallToolResult.model_validate(kept)
            if not isinstance(result, InputRequiredResult):
                return result
            state = result.request_state or None
            if result.input_requests:
                responses = {}
                for name in sorted(result.input_requests):
                    answer = await self._answered(tool, result.input_requests[name], known)
                    if name.startswith(PAGE) and answer.action != "accept":
                        raise MCPToolError(f"Tool {tool!r} needs a page to be visited, and that was refused.")
                    responses[name] = answer
            else:  # it only wants to be asked again
                responses = None
                if kept is None:
                    await asyncio.sleep(_WAIT_S[min(number, len(_WAIT_S) - 1)])
        raise MCPToolError(
            f"Tool {tool!r} of MCP server {self.server!r} asked back more than {self.limits.rounds} times: given up."
        )

    async def _answered(self, tool: str, request: Any, known: list[tuple[Any, Any]]) -> Any:
        said = request.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"params": {"meta"}})
        for earlier, answer in known:
            if earlier == said:
                return answer
        answer = await self._answer(tool, request)
        known.append((said, answer))
        return answer

    async def _answer(self, tool: str, request: Any) -> Any:
        from mcp_types import ErrorData

        if request.method == "elicitation/create":
            return await self._asked(tool, request.params)
        handler = self.sample if request.method == "sampling/createMessage" else self.roots
        if handler is None:
            what = "a model's answer" if request.method == "sampling/createMessage" else "the program's roots"
            raise MCPToolError(
                f"Tool {tool!r} of MCP server {self.server!r} asks for {what}, and this program gives none."
            )
        made = await handler(None, request.params) if handler is self.sample else await handler(None)
        if isinstance(made, ErrorData):
            raise MCPToolError(f"Tool {tool!r} of MCP server {self.server!r} was refused: {made.message}")
        return made

    async def _asked(self, tool: str, params: Any) -> Any:
        question = question_of(self.server, tool, params, self.limits)
        if self.elicit is not None:
            return await self.by_handler(question)
        if CURRENT_TASK.get() is None:
            raise MCPToolError(
                f"Tool {tool!r} of MCP server {self.server!r} asks {question['message']!r}, and nobody can be asked: "
                "it was called outside a graph, and there is no on_elicitation handler."
            )
        return elicit_result(interrupt(question, response_schema=answer_schema(question)))

    async def by_handler(self, question: dict[str, Any]) -> Any:
        """The handler's answer, checked. Raises InvalidInput for one that does not fit the question."""
        import jsonschema_rs

        made = await call_async(callee(self.elicit), question)
        if isinstance(made, str):
            made = {"action": made}
        elif made is None:
            made = {"action": "decline"}
        elif isinstance(made, Mapping) and "action" not in made:
            made = {"action": "accept", "content": dict(made)}
        validator = jsonschema_rs.validator_for(answer_schema(question), retriever=never_fetch)
        problems = [
            f"{'.'.join(map(str, path)) or '(whole)'}: {text}"
            for path, text in told_problems(validator.iter_errors(made))
        ]
        if problems:
            raise InvalidInput(
                f"on_elicitation answered {made!r:.200} to {question['message']!r:.200}, which does not fit: "
                f"{'; '.join(problems)}.",
                hint="Give what was asked for as a dict, or 'decline' or 'cancel'.",
            )
        return elicit_result(made)


PAGE = "runwell/page/"
"""Begins the names of questions that an older server asked by an error: their answers are not sent."""


def pages_to_visit(error: Any, state: str | None) -> Any:
    """The pages that an older server wants visited before it does what it is asked, as a round of questions."""
    from mcp.shared.exceptions import UrlElicitationRequiredError
    from mcp_types import ElicitRequest, InputRequiredResult

    pages = UrlElicitationRequiredError.from_error(error.error).elicitations
    asked: dict[str, Any] = {f"{PAGE}{number}": ElicitRequest(params=page) for number, page in enumerate(pages)}
    return InputRequiredResult(input_requests=asked or None, request_state="" if state is None else state)


def question_of(server: str, tool: str | None, params: Any, limits: MCPLimits) -> dict[str, Any]:
    """A server's question, as whoever answers it sees it. Raises MCPToolError for an address that is none."""
    made: dict[str, Any] = {
        "type": "mcp_elicitation",
        "server": server,
        "tool": tool,
        "mode": params.mode,
        "message": bounded(params.message, limits.message),
    }
    if params.mode == "form":
        try:
            form = clean_schema(server, f"{tool} (its question)", params.requested_schema, limits)
            made["schema"] = dereference_refs(form)  # it becomes a part of another one
        except ToolDefinitionError as error:
            raise MCPToolError(f"{error.message} So its question cannot be asked.") from error
        return made
    parts = urlsplit(params.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise MCPToolError(f"MCP server {server!r} asks to open {params.url!r:.200}, which is no web address.")
    made["url"] = params.url
    made["host"] = parts.hostname
    return made


def answer_schema(question: Mapping[str, Any]) -> dict[str, Any]:
    """What an answer must fit: `{"action": "accept", "content": {...}}`, or the action "decline" or "cancel"."""
    refusal = {
        "type": "object",
        "properties": {"action": {"enum": ["decline", "cancel"]}},
        "required": ["action"],
        "additionalProperties": False,
    }
    accepted: dict[str, Any] = {"action": {"const": "accept"}}
    required = ["action"]
    if question["mode"] == "form":
        accepted["content"] = question["schema"]
        required.append("content")
    accept = {"type": "object", "properties": accepted, "required": required, "additionalProperties": False}
    return {"anyOf": [accept, refusal]}


def elicit_result(answer: Mapping[str, Any]) -> Any:
    """An answer that fits, in the protocol's form."""
    from mcp_types import ElicitResult

    return ElicitResult(action=answer["action"], content=answer.get("content"))
