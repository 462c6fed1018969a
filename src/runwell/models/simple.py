"""The least that makes a chat model: a function from messages to a text."""

from __future__ import annotations

from inspect import iscoroutinefunction
from typing import Any

from runwell.errors import UsageError
from runwell.messages.message import AIMessage, BaseMessage
from runwell.models.chat_model import BaseChatModel
from runwell.models.outputs import ChatGeneration, ChatResult
from runwell.models.reply import from_plain, from_thread

__all__ = ["SimpleChatModel"]


class SimpleChatModel(BaseChatModel):
    """A chat model whose subclass writes `_call`, plain or `async`: messages to the text of the answer."""

    def __init__(self, **given: Any) -> None:
        if type(self)._call is SimpleChatModel._call:
            raise UsageError(f"{type(self).__name__} does not write _call.", hint="def _call(self, messages, **kw).")
        super().__init__(**given)

    def _call(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> str:
        """The text of the answer."""
        raise NotImplementedError

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        def call() -> Any:
            return self._call(messages, stop=stop, run_manager=run_manager, **kwargs)

        return _result(from_plain(call) if iscoroutinefunction(self._call) else call())

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        def call() -> Any:
            return self._call(messages, stop=stop, run_manager=run_manager, **kwargs)

        if iscoroutinefunction(self._call):
            return _result(await call())
        return _result(call() if self.never_blocks else await from_thread(call))


def _result(text: Any) -> ChatResult:
    return ChatResult([ChatGeneration(text if isinstance(text, BaseMessage) else AIMessage(text))])
