"""Handing a request to another model than the one it was made for."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from runwell.agents.middleware.requests import ModelRequest
from runwell.errors import InvalidInput
from runwell.messages.message import BaseMessage
from runwell.schemas.dialects import MARKS
from runwell.tools.provider_tool import ProviderTool

__all__ = ["as_model", "as_models", "hidden", "request_for"]

_log = logging.getLogger("runwell.agents")

_PORTABLE = frozenset({"temperature", "top_p", "max_tokens", "stop", "max_retries", "parallel_tool_calls"})
"""Settings that mean the same to every provider."""
_CACHE_MARKS = ("cache_control", "cachePoint")


def as_model(given: Any) -> Any:
    """A model, from one or from a string such as "openai:gpt-5"."""
    if isinstance(given, str):
        from runwell.models.init import init_chat_model

        return init_chat_model(given)
    if not (hasattr(given, "invoke") and hasattr(given, "ainvoke")):
        raise InvalidInput(f"{given!r:.100} is not a chat model.", hint='Pass one, or a string like "openai:gpt-5".')
    return given


def as_models(given: Sequence[Any], owner: str) -> list[Any]:
    """At least one model."""
    if not given:
        raise InvalidInput(f"{owner} was given no model.", hint="Pass at least one model to go on with.")
    return [as_model(each) for each in given]


def hidden(model: Any) -> Any:
    """The model for calls of the program's own: their tokens are no part of a streamed conversation."""
    return model.with_config({"tags": ["nostream"]}) if hasattr(model, "with_config") else model


def request_for(request: ModelRequest, model: Any) -> ModelRequest:
    """The request for `model`, without what only the provider of the first one understands.

    Left out, with a note in the log, are the other provider's own tools, cache marks, and settings that do not mean
    the same everywhere.
    """
    ours, theirs = getattr(request.model, "provider", None), getattr(model, "provider", None)
    if ours == theirs:
        return request.override(model=model)
    kept = [_unmarked_tool(tool) for tool in request.tools if _runs(tool, model, theirs)]
    settings = {key: value for key, value in request.model_settings.items() if key in _PORTABLE}
    messages = [_unmarked(message) for message in request.messages]
    system = request.system_message
    dropped = [tool.name for tool in request.tools if not _runs(tool, model, theirs)]
    dropped += sorted(request.model_settings.keys() - settings.keys())
    if dropped:
        _log.warning("%s is asked without %s, which is for %s", theirs, ", ".join(dropped), ours)
    return request.override(
        model=model,
        tools=kept,
        model_settings=settings,
        messages=messages,
        system_message=_unmarked(system) if system is not None else None,
    )


def _runs(tool: Any, model: Any, provider: Any) -> bool:
    if not isinstance(tool, ProviderTool):
        return True
    if tool.provider is not None:
        return bool(tool.provider == provider)
    return tool.type in getattr(model, "server_side_tools", ())


def _unmarked_tool(tool: Any) -> Any:
    """A tool's definition without marks for a provider; anything else as it is."""
    if not isinstance(tool, Mapping) or not any(mark in tool for mark in MARKS):
        return tool
    return {key: value for key, value in tool.items() if key not in MARKS}


def _unmarked(message: Any) -> Any:
    """The message without marks for a provider's prompt cache; the same object when there are none."""
    content = message.content
    if isinstance(content, str) or not any(_marked(block) for block in content):
        return message
    clean: list[Any] = [
        {key: value for key, value in block.items() if key not in _CACHE_MARKS} if isinstance(block, dict) else block
        for block in content
    ]
    assert isinstance(message, BaseMessage)
    return message.model_copy(update={"content": [block for block in clean if block != {}]})


def _marked(block: Any) -> bool:
    return isinstance(block, dict) and any(mark in block for mark in _CACHE_MARKS)
