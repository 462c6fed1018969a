"""Adding to a request's system prompt."""

from __future__ import annotations

from runwell.agents.middleware.requests import ModelRequest
from runwell.messages.message import SystemMessage

__all__ = ["with_system_text"]


def with_system_text(request: ModelRequest, text: str) -> ModelRequest:
    """The request with `text` as the last paragraph of its system prompt; blocks stay blocks."""
    system = request.system_message
    if system is None:
        return request.override(system_message=SystemMessage(text))
    content = system.content
    if isinstance(content, str):
        changed = system.model_copy(update={"content": f"{content}\n\n{text}" if content else text})
    else:
        changed = system.model_copy(update={"content": [*content, {"type": "text", "text": text}]})
    return request.override(system_message=changed)
