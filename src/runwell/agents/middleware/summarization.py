"""Replace the older part of a long conversation by a summary."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from runwell.agents.middleware.middleware import AgentMiddleware
from runwell.agents.middleware.other_models import as_model, hidden
from runwell.agents.middleware.request_size import Counter, RequestSize, window_of
from runwell.agents.middleware.requests import ExtendedModelResponse, ModelRequest
from runwell.drivers.colour import callee
from runwell.effects import Call, flow
from runwell.errors import ContextOverflow, InvalidInput, ModelError, OutsideError
from runwell.messages.message import (
    REMOVE_ALL_MESSAGES,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
    new_id,
)
from runwell.messages.transcript import get_buffer_string
from runwell.observe.run import record_decision, watched
from runwell.ports.command import Command
from runwell.ports.seat import Held
from runwell.schemas.arguments import checked_arguments

__all__ = ["SummarizationMiddleware"]

_log = logging.getLogger("runwell.agents")

Size = tuple[Literal["messages", "tokens", "fraction"], float]

SUMMARY_PROMPT = """\
The beginning of a conversation between a person and an assistant is about to be replaced by a summary of it. Write
that summary, so that the assistant can go on without the original. Keep: what the person wants and has said about
how; facts, names, numbers, ids and paths that may be needed again; what was done, with which result; what is open.
Leave out what no longer matters. Write only the summary.

<conversation>
{messages}
</conversation>"""

DEFAULT_PART = 16_000
"""Tokens in one summary call where the model's window is not known."""
CHARS_PER_TOKEN = 4


class SummarizationMiddleware(AgentMiddleware):
    """Summarises the older messages when a request has grown past a trigger, and keeps the newer ones verbatim.

    `trigger` is one of `("tokens", n)`, `("messages", n)`, `("fraction", of the model's window)`, or a list of which
    any suffices; tokens are those of the whole request, system prompt and tool definitions included. It also works
    when the provider says that the conversation does not fit. `keep` says how much stays, in the same units; a call
    and its results stay together. `token_counter(messages)` replaces the estimate.

    The summary is made by `model`, from all that is dropped: what is longer than `trim_tokens_to_summarize` (default:
    half the model's window) is summarised in parts, and then the parts. It is stored as a HumanMessage at the
    beginning, with the ids it stands for in `additional_kwargs["summary_of"]`; the originals stay in the thread's
    earlier checkpoints. A summary that fails changes nothing: the model is asked with the whole history and the log
    says so (`on_failure="continue"`), or the error is raised (`"raise"`). While what is kept alone is past the
    trigger, a new summary waits until there is at least as much to summarise.

    Seats: F3 (conversation outgrows the window), F4 (when to summarise), F5 (what the summary says), F6 (what is
    kept verbatim).
    """

    lends_tools = False

    @checked_arguments
    def __init__(
        self,
        model: Any,
        *,
        trigger: Size | Sequence[Size] | None = None,
        keep: Size = ("messages", 20),
        token_counter: Counter | None = None,
        summary_prompt: str = SUMMARY_PROMPT,
        trim_tokens_to_summarize: int | None = None,
        on_failure: Literal["continue", "raise"] = "continue",
    ) -> None:
        if not trigger:
            raise InvalidInput(
                "SummarizationMiddleware was given no trigger, so that it would never summarise.",
                hint='Pass trigger=("tokens", 100_000), ("fraction", 0.8) or ("messages", 60).',
            )
        triggers: Any = [trigger] if isinstance(trigger[0], str) else list(trigger)
        for name, size in (*(("trigger", each) for each in triggers), ("keep", keep)):
            _check(name, size)
        for kind, size in triggers:
            if kind == keep[0] and keep[1] >= size:
                raise InvalidInput(
                    f"keep={keep!r} is not less than trigger={(kind, size)!r}: each turn would be summarised again.",
                    hint="Keep less, or trigger later.",
                )
        if "{messages}" not in summary_prompt:
            raise InvalidInput("summary_prompt has no place for the conversation.", hint="Write {messages} in it.")
        if trim_tokens_to_summarize is not None and trim_tokens_to_summarize < 1:
            raise InvalidInput(f"trim_tokens_to_summarize={trim_tokens_to_summarize!r} leaves nothing to summarise.")
        if on_failure not in ("continue", "raise"):
            raise InvalidInput(f"on_failure={on_failure!r}.", hint='It is "continue" or "raise".')
        self.model = as_model(model)
        self.trigger: list[Size] = triggers
        self.keep = keep
        self.summary_prompt = summary_prompt
        self.on_failure = on_failure
        window = (getattr(self.model, "profile", None) or {}).get("max_input_tokens")
        self._part_chars = (trim_tokens_to_summarize or (window or 2 * DEFAULT_PART) // 2) * CHARS_PER_TOKEN
        self._size = RequestSize(token_counter)
        self._ask = callee(hidden(self.model))

    def seats(self) -> Iterable[Held]:
        sizes = " or ".join(f"{size:,} {kind}" for kind, size in self.trigger)
        yield Held("B2", "Older messages are replaced by their summary (F4).", self.wrap_model_call)
        yield Held("F3", "It is summarised and asked once more.", self.wrap_model_call, adds=True)
        yield Held("F4", f"Past {sizes}, or when the provider says that it does not fit.", self.wrap_model_call)
        yield Held("F5", "What a model writes, having read all that is dropped.", self._shorter, "model")
        kind, size = self.keep
        yield Held("F6", f"The newest {size:,} {kind}; a call and its results stay together.", self._shorter)

    @flow
    async def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        shorter = await self._shorter(request) if self._reached(request, request.messages) else None
        if shorter is None:
            try:
                return await handler(request)
            except ContextOverflow:
                shorter = await self._shorter(request, forced=True)
                if shorter is None:
                    raise
        older, messages = shorter
        response = await handler(request.override(messages=messages))
        gone = {message.id for message in older}
        kept = [message for message in request.state["messages"] if message.id not in gone]
        update = {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), messages[0], *kept]}
        return ExtendedModelResponse(response, Command(update=update))

    # -- when, and where to cut

    def _reached(self, request: ModelRequest, messages: Sequence[BaseMessage]) -> bool:
        tokens: int | None = None
        for kind, size in self.trigger:
            if kind == "messages":
                if len(messages) >= size:
                    return True
                continue
            if tokens is None:
                tokens = self._size.of(messages) + self._size.besides(request)
            limit = size * window_of(request.model, f"The trigger is {(kind, size)!r}") if kind == "fraction" else size
            if tokens >= limit:
                return True
        return False

    def _cut(self, request: ModelRequest) -> int:
        """The place of the first message that stays."""
        messages, (kind, size) = request.messages, self.keep
        if kind == "messages":
            cut = max(0, len(messages) - int(size))
        else:
            left = size if kind == "tokens" else size * window_of(request.model, f"keep is {self.keep!r}")
            cut = len(messages)
            while cut and (left := left - self._size.of([messages[cut - 1]])) >= 0:
                cut -= 1
            cut = min(cut, len(messages) - 1)
        while cut and isinstance(messages[cut], ToolMessage):
            cut -= 1
        return cut

    async def _shorter(
        self, request: ModelRequest, forced: bool = False
    ) -> tuple[list[BaseMessage], list[BaseMessage]] | None:
        """What is dropped, and the messages with a summary in its place; None if that is not to be."""
        cut = self._cut(request)
        older, tail = request.messages[:cut], request.messages[cut:]
        fresh = [message for message in older if "summary_of" not in (message._kwargs or ())]
        if not fresh:
            return None
        stuck = not forced and len(fresh) < len(older) and self._reached(request, tail)
        if stuck and self._size.of(fresh) < self._size.of(tail):
            return None
        try:
            text = await self._summary([get_buffer_string([message], format="xml") for message in older])
        except OutsideError as error:
            if self.on_failure == "raise":
                raise
            _log.warning("the summary of %d messages failed, all are kept: %s", len(older), error)
            return None
        if watched():
            why = "the conversation does not fit" if forced else "it is past the trigger"
            record_decision("F4", f"{len(older)} messages summarised", why, "code")
        marks = {"from": "runwell", "summary_of": [message.id for message in older]}
        said = f"Summary of the conversation so far:\n\n{text}"
        return older, [HumanMessage(said, id=new_id(), additional_kwargs=marks), *tail]

    # -- what it says

    async def _summary(self, texts: list[str]) -> str:
        """One text for all; parts are summarised first where they do not fit into one call."""
        while True:
            parts = _packed(texts, self._part_chars)
            made = [await self._one(part) for part in parts]
            if len(made) == 1:
                return made[0]
            if sum(map(len, made)) >= sum(map(len, texts)):
                return "\n\n".join(made)  # it does not get shorter
            texts = made

    async def _one(self, text: str) -> str:
        prompt = self.summary_prompt.replace("{messages}", text)
        reply = await Call(self._ask, [HumanMessage(prompt)])
        said = str(reply.text).strip()
        if not said:
            raise ModelError(f"{self.model!r:.100} gave an empty summary.", hint="Use another model for summaries.")
        return said


def _check(name: str, size: Any) -> None:
    if not (isinstance(size, (tuple, list)) and len(size) == 2 and size[0] in ("messages", "tokens", "fraction")):
        raise InvalidInput(f"{name}={size!r}.", hint='It is ("tokens", 4000), ("messages", 20) or ("fraction", 0.5).')
    if not size[1] > 0 or (size[0] == "fraction" and size[1] > 1):
        raise InvalidInput(f"{name}={size!r} is out of range.", hint="More than 0; a fraction at most 1.")


def _packed(texts: Sequence[str], limit: int) -> list[str]:
    """Whole texts together up to `limit` characters; one that is longer alone is split."""
    parts: list[str] = []
    room = 0
    for text in texts:
        for start in range(0, len(text), limit):
            piece = text[start : start + limit]
            if len(piece) + 1 > room:
                parts.append(piece)
                room = limit - len(piece)
            else:
                parts[-1] += f"\n{piece}"
                room -= len(piece) + 1
    return parts
