"""Tell the model about errors of tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from runwell.agents.middleware.middleware import AgentMiddleware
from runwell.agents.middleware.requests import ToolCallRequest
from runwell.agents.middleware.transient import check_tools, chosen_tools
from runwell.drivers.colour import callee
from runwell.effects import Call, flow
from runwell.errors import InvalidInput, ToolError
from runwell.messages.message import ToolMessage
from runwell.observe.run import record_decision, watched
from runwell.ports.seat import Held
from runwell.schemas.arguments import checked_arguments

__all__ = ["ToolErrorMiddleware"]

Handle = bool | str | type[Exception] | tuple[type[Exception], ...] | Callable[[Exception, ToolCallRequest], Any]


class ToolErrorMiddleware(AgentMiddleware):
    """Answers a call whose tool raised with an error message, so that the model can act on it.

    `handle_tool_errors`: True for every exception; exception classes for these; a text to say instead; or a function
    of (error, request) that gives a text, a ToolMessage, or None to leave the error alone. `tools` (names or tools)
    limits it to some. What is not handled goes on to the agent's `on_tool_error`. A pause for a person passes through.

    Seats: E3 (a tool raises).
    """

    @checked_arguments
    def __init__(self, handle_tool_errors: Handle = True, *, tools: Sequence[Any] | None = None) -> None:
        if handle_tool_errors is False:
            raise InvalidInput("ToolErrorMiddleware(False) does nothing.", hint="Leave the middleware out.")
        if isinstance(handle_tool_errors, type):
            handle_tool_errors = (handle_tool_errors,)
        kinds: tuple[Any, ...] = handle_tool_errors if isinstance(handle_tool_errors, tuple) else (Exception,)
        if not kinds or not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
            raise InvalidInput(f"handle_tool_errors={handle_tool_errors!r}.", hint="Pass exception classes.")
        if not (callable(handle_tool_errors) or isinstance(handle_tool_errors, (bool, str, tuple))):
            raise InvalidInput(
                f"handle_tool_errors={handle_tool_errors!r}.",
                hint="It is True, exception classes, a text, or a function of (error, request).",
            )
        if isinstance(handle_tool_errors, str) and not handle_tool_errors.strip():
            raise InvalidInput(
                f"handle_tool_errors={handle_tool_errors!r} tells the model nothing.",
                hint="Pass what it is to be told, or True for the error itself.",
            )
        self.handle_tool_errors = handle_tool_errors
        self.tool_names = chosen_tools(tools, self.name)
        self._kinds = kinds

    def check(self, tools: dict[str, Any]) -> None:
        check_tools(self.tool_names, tools, self.name)

    def seats(self) -> Iterable[Held]:
        names = "every tool" if self.tool_names is None else ", ".join(sorted(self.tool_names))
        kinds = ", ".join(kind.__name__ for kind in self._kinds)
        answer = f"{self.name} comes before that: the model hears {kinds} of {names}."
        yield Held("E3", answer, self.wrap_tool_call, adds=True)

    @flow
    async def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        call = request.tool_call
        if self.tool_names is not None and call["name"] not in self.tool_names:
            return await handler(request)
        try:
            return await handler(request)
        except self._kinds as error:
            said: Any = self.handle_tool_errors
            if callable(said):
                said = await Call(callee(said, cheap=True), error, request)
                if said is None:
                    raise
            if watched():
                reason = f"{type(error).__name__} in call {call['id']!r} of {call['name']!r}, by {self.name}"
                record_decision("E3", "told", reason, "code")
            if callable(self.handle_tool_errors):
                if isinstance(said, ToolMessage):
                    return said
            elif not isinstance(said, str):
                said = str(error) if isinstance(error, ToolError) else f"{type(error).__name__}: {_text(error)}"
            return ToolMessage(str(said), tool_call_id=call["id"], name=call["name"], status="error")


def _text(error: Exception) -> str:
    return str(getattr(error, "message", error))
