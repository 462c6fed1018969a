"""Names for what is any language model, for annotations and isinstance."""

from __future__ import annotations

from typing import Any, TypeAlias

from runwell.messages.message import AIMessage
from runwell.models.chat_model import BaseChatModel
from runwell.models.llm import BaseLLM
from runwell.runnables.runnable import Runnable

__all__ = ["BaseLanguageModel", "LanguageModelLike"]

BaseLanguageModel: TypeAlias = BaseChatModel | BaseLLM
"""A chat model or a completion model: `isinstance(model, BaseLanguageModel)`. To write one, subclass either."""

LanguageModelLike: TypeAlias = Runnable[Any, AIMessage] | Runnable[Any, str]
"""What is asked like a language model: one, or one with tools, retries or fallbacks around it."""
