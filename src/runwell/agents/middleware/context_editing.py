"""Leave old tool results out of what the model is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from runwell.agents.cut_results import whole_text
from runwell.agents.middleware.middleware import AgentMiddleware
from runwell.agents.middleware.request_size import RequestSize
from runwell.agents.middleware.requests import ModelRequest
from runwell.effects import flow
from runwell.errors import InvalidInput, ToolError
from runwell.messages.message import AIMessage, BaseMessage, ToolMessage
from runwell.observe.run import record_decision, watched
from runwell.ports.seat import Held
from runwell.schemas.arguments import check_fields, checked_arguments
from runwell.tools.decorator import tool
from runwell.tools.runtime import ToolRuntime

__all__ = ["ClearToolUsesEdit", "ContextEdit", "ContextEditingMiddleware"]

READ = "read_tool_result"
PAGE = 10_000
"""Characters that one reading of a cleared result shows."""


class ContextEdit(Protocol):
    """One way to make a request smaller."""

    def apply(self, messages: list[BaseMessage], tokens: Callable[[list[BaseMessage]], int]) -> list[BaseMessage]:
        """The messages to send instead; `tokens` counts a whole request with these messages."""
        ...


@dataclass(slots=True)
class ClearToolUsesEdit:
    """Blanks the oldest tool results once a request is past `trigger` tokens, all but the newest `keep`.

    Only if that saves at least `clear_at_least` tokens. `clear_tool_inputs` blanks the calls' arguments too. Results
    of `exclude_tools` stay. `placeholder` is what stands in a blanked result.
    """

    trigger: int = 100_000
    clear_at_least: int = 0
    keep: int = 3
    clear_tool_inputs: bool = False
    exclude_tools: Sequence[str] = ()
    placeholder: str = "[cleared]"

    def __post_init__(self) -> None:
        check_fields(self)
        if self.trigger < 1:
            raise InvalidInput(f"ClearToolUsesEdit(trigger={self.trigger!r}).", hint="Use at least 1 token.")
        if self.keep < 0 or self.clear_at_least < 0:
            raise InvalidInput(f"ClearToolUsesEdit(keep={self.keep!r}, clear_at_least={self.clear_at_least!r}).")
        if isinstance(self.exclude_tools, str):
            raise InvalidInput(f"exclude_tools={self.exclude_tools!r}.", hint="Pass a list of names.")

    def apply(self, messages: list[BaseMessage], tokens: Callable[[list[BaseMessage]], int]) -> list[BaseMessage]:
        before = tokens(messages)
        if before < self.trigger:
            return messages
        names = {call["id"]: call["name"] for message in messages for call in getattr(message, "tool_calls", ())}
        never = {READ, *self.exclude_tools}
        results = [
            place
            for place, message in enumerate(messages)
            if isinstance(message, ToolMessage) and names.get(message.tool_call_id, message.name) not in never
        ]
        # the answers to the newest turn have not been read yet
        unread = next((n for n in range(len(messages), 0, -1) if not isinstance(messages[n - 1], ToolMessage)), 0)
        chosen = [place for place in (results[: -self.keep] if self.keep else results) if place < unread]
        edited = list(messages)
        for place in chosen:
            edited[place] = self._blank(messages[place])
        if self.clear_tool_inputs:
            ids = {edited[place].tool_call_id for place in chosen}  # type: ignore[attr-defined]
            edited = [_without_inputs(message, ids) for message in edited]
        if not chosen or before - tokens(edited) < max(1, self.clear_at_least):
            return messages
        return edited

    def _blank(self, message: BaseMessage) -> BaseMessage:
        assert isinstance(message, ToolMessage)
        return message.model_copy(update={"content": self.placeholder, "artifact": None})


def _without_inputs(message: BaseMessage, ids: set[str]) -> BaseMessage:
    if not isinstance(message, AIMessage) or not any(call["id"] in ids for call in message.tool_calls):
        return message
    calls = [{**call, "args": {}} if call["id"] in ids else call for call in message.tool_calls]
    content = message.content
    if not isinstance(content, str):  # a provider's own form of the call stands among the blocks
        content = [
            {**block, "input": {}} if isinstance(block, dict) and block.get("id") in ids and "input" in block else block
            for block in content
        ]
    return message.model_copy(update={"tool_calls": calls, "content": content})


class ContextEditingMiddleware(AgentMiddleware):
    """Edits what the model is sent once it is large; the stored history stays whole.

    `edits` (default: one `ClearToolUsesEdit()`) are applied in turn. Tokens are those of the whole request, system
    prompt and tool definitions included, estimated, or counted by the model with `token_count_method="model"`.

    With `readable`, a blanked result names its call, and the model is offered a tool `read_tool_result` that shows it
    again, a page at a time.

    Seats: F7 (which tool results are blanked).
    """

    lends_tools = False

    @checked_arguments
    def __init__(
        self,
        edits: Sequence[ContextEdit] | None = None,
        *,
        token_count_method: Literal["approximate", "model"] = "approximate",
        readable: bool = True,
    ) -> None:
        self.edits: list[Any] = [ClearToolUsesEdit()] if edits is None else list(edits)
        if not self.edits:
            raise InvalidInput("ContextEditingMiddleware(edits=[]) edits nothing.", hint="Leave the middleware out.")
        for edit in self.edits:
            if not callable(getattr(edit, "apply", None)):
                raise InvalidInput(f"{edit!r:.100} is not a context edit.", hint="Pass a ClearToolUsesEdit().")
        if token_count_method not in ("approximate", "model"):
            raise InvalidInput(f"token_count_method={token_count_method!r}.", hint='It is "approximate" or "model".')
        self.token_count_method = token_count_method
        self.readable = readable
        self.tools = (_reader(),) if readable else ()
        self._size = RequestSize()

    def seats(self) -> Iterable[Held]:
        for edit in self.edits:
            if isinstance(edit, ClearToolUsesEdit):
                answer = f"Past {edit.trigger:,} tokens all but the newest {edit.keep}; the stored history stays whole."
            else:
                answer = f"As {type(edit).__name__} says; the stored history stays whole."
            yield Held("F7", answer, edit)

    @flow
    async def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        size = self._size
        if self.token_count_method == "model":
            size = RequestSize(request.model.get_num_tokens_from_messages)
        besides = size.besides(request)
        edited: list[BaseMessage] = request.messages
        for edit in self.edits:
            edited = edit.apply(edited, lambda messages: size.of(messages) + besides)
        if edited is not request.messages:
            if self.readable and len(edited) == len(request.messages):
                edited = [_pointed(new, old) for new, old in zip(edited, request.messages, strict=True)]
            if watched():
                record_decision("F7", "edited", "the request is past the trigger of an edit", "code")
            request = request.override(messages=edited)
        return await handler(request)


def _pointed(edited: BaseMessage, original: BaseMessage) -> BaseMessage:
    """A blanked result that says how to read it."""
    if edited is original or not isinstance(edited, ToolMessage) or not isinstance(edited.content, str):
        return edited
    content = f'{edited.content} {READ}(call_id="{edited.tool_call_id}") shows it.'
    return edited.model_copy(update={"content": content})


def _reader() -> Any:
    @tool(READ, read_only=True, idempotent=True)
    def read_tool_result(call_id: str, runtime: ToolRuntime[Any, Any], start: int = 0) -> str:
        """Show the result of an earlier tool call that was cleared from the conversation, from character `start` on."""
        for message in runtime.state["messages"]:
            if isinstance(message, ToolMessage) and message.tool_call_id == call_id:
                text = whole_text(message)
                rest = len(text) - start - PAGE
                more = f"\n[{rest} more characters: start={start + PAGE}]" if rest > 0 else ""
                return f"{text[start : start + PAGE]}{more}"
        raise ToolError(f"No call {call_id!r} has a result in this conversation.")

    return read_tool_result
