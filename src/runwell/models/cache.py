"""Answers kept and given again to the same question, and what makes a question the same."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from runwell.drivers.other_colour import answer_in_both, beneath
from runwell.messages.message import BaseMessage

__all__ = ["BaseCache", "InMemoryCache", "cache_key"]

_NO_PART = frozenset({"id", "response_metadata", "usage_metadata", "artifact"})
"""Fields of a message that no provider is sent."""


def cache_key(
    messages: Sequence[BaseMessage],
    model: str,
    params: Mapping[str, Any],
    stop: Sequence[str] | None,
    kwargs: Mapping[str, Any],
) -> tuple[str, str]:
    """(the question, who is asked and how). Everything that may change the answer is in it: tools, tool_choice, stop,
    the response format and each other argument of the call."""
    from pydantic_core import to_json

    def text(value: Any) -> str:
        return to_json(value, fallback=repr, inf_nan_mode="strings").decode()

    said = [
        [message.type, *(getattr(message, name) for name in message._fields if name not in _NO_PART)]
        for message in messages
    ]
    how = [model, _sorted(params), list(stop or ()), _sorted(kwargs)]
    return text(said), text(how)


def _sorted(value: Any) -> Any:
    """Dicts in one order of keys, so that equal calls have equal keys."""
    if isinstance(value, Mapping):
        return {str(key): _sorted(value[key]) for key in sorted(value, key=str)}
    return [_sorted(each) for each in value] if isinstance(value, list | tuple) else value


class BaseCache(ABC):
    """Where answers are kept: `lookup` and `update` by the two halves of `cache_key`. Called from several threads."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        answer_in_both(cls, {"lookup": "alookup", "update": "aupdate", "clear": "aclear"}, BaseCache)

    @abstractmethod
    def lookup(self, prompt: str, llm_string: str) -> Sequence[Any] | None:
        """The generations stored, or None."""

    @abstractmethod
    def update(self, prompt: str, llm_string: str, return_val: Sequence[Any]) -> None:
        """Store generations."""

    @abstractmethod
    def clear(self, **kwargs: Any) -> None:
        """Forget everything."""

    async def alookup(self, prompt: str, llm_string: str) -> Sequence[Any] | None:
        """As `lookup`; override it where looking up waits for something."""
        return beneath(self, "lookup")(prompt, llm_string)  # type: ignore[no-any-return]

    async def aupdate(self, prompt: str, llm_string: str, return_val: Sequence[Any]) -> None:
        """As `update`."""
        beneath(self, "update")(prompt, llm_string, return_val)

    async def aclear(self, **kwargs: Any) -> None:
        """As `clear`."""
        beneath(self, "clear")(**kwargs)


class InMemoryCache(BaseCache):
    """Kept in this process, at most `maxsize` answers, the longest unused forgotten first (None: unbounded)."""

    def __init__(self, *, maxsize: int | None = 10_000) -> None:
        self._answers: OrderedDict[tuple[str, str], Sequence[Any]] = OrderedDict()
        self._lock = threading.Lock()
        self.maxsize = maxsize

    def lookup(self, prompt: str, llm_string: str) -> Sequence[Any] | None:
        with self._lock:
            found = self._answers.get((prompt, llm_string))
            if found is not None:
                self._answers.move_to_end((prompt, llm_string))
            return found

    def update(self, prompt: str, llm_string: str, return_val: Sequence[Any]) -> None:
        with self._lock:
            self._answers[prompt, llm_string] = return_val
            self._answers.move_to_end((prompt, llm_string))
            if self.maxsize is not None and len(self._answers) > self.maxsize:
                self._answers.popitem(last=False)

    def clear(self, **kwargs: Any) -> None:
        with self._lock:
            self._answers.clear()
