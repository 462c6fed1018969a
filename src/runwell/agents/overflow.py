"""What if a conversation outgrows its model: it is measured before the call."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from runwell.agents.middleware.request_size import RequestSize
from runwell.agents.middleware.requests import ModelRequest
from runwell.errors import ContextOverflow
from runwell.messages.message import AIMessage, BaseMessage
from runwell.observe.run import record_decision, watched

__all__ = ["check_fits"]

_log = logging.getLogger("runwell.agents")

NEAR = 0.7
"""From which part of the window on an estimate is not enough."""
SURE = 0.8
"""How much of the window an estimate of the whole must be for what a provider reported to be believed: the history may
have been cut since."""


def check_fits(request: ModelRequest, size: RequestSize) -> None:
    """Raise ContextOverflow for what is sure not to fit; an estimate only warns.

    Sure is what the model's own tokenizer counts, and what the provider reported for the turns so far. Nothing is
    measured for a model whose window is not known.
    """
    window = (getattr(request.model, "profile", None) or {}).get("max_input_tokens")
    if not window:
        return
    reported = _reported(request.messages, size)
    estimate = reported if reported is not None else size.whole(request)
    if estimate <= NEAR * window:
        return
    tokens, sure = _counted(request, size, estimate, reported is not None, window)
    if tokens <= window:
        return
    said = f"The request has {'' if sure else 'about '}{tokens:,} tokens, and {request.model!r:.100} takes {window:,}."
    if sure:
        if watched():
            record_decision("F3", "refused", said, "code")
        raise ContextOverflow(
            said, over=tokens - window, hint='Shorten it, or AgentLimits(overflow="trim") or "summarize".'
        )
    _log.warning("%s It is sent, as that is an estimate.", said)
    if watched():
        record_decision("F3", "warned", said, "code")


def _reported(messages: Sequence[BaseMessage], size: RequestSize) -> int | None:
    """What the newest reply says that it and all before it took, and an estimate of what came since."""
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if isinstance(message, AIMessage):
            usage = message.usage_metadata
            return None if not usage else usage["total_tokens"] + size.of(messages[at + 1 :])
    return None


def _counted(request: ModelRequest, size: RequestSize, estimate: int, reported: bool, window: int) -> tuple[int, bool]:
    """The tokens of a request that is near its limit, and whether that is sure."""
    from runwell.models.chat_model import BaseChatModel  # here: only a request near its limit needs it

    count = getattr(request.model, "get_num_tokens_from_messages", None)
    own = getattr(type(request.model), "get_num_tokens_from_messages", None)
    if count is not None and own is not None and own is not BaseChatModel.get_num_tokens_from_messages:
        system = [request.system_message] if request.system_message is not None else []
        return int(count([*system, *request.messages], list(request.tools) or None)), True
    return estimate, reported and size.whole(request) >= SURE * window
