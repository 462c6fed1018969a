"""Models that an Ollama server runs, as completion models: its `/api/generate`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from runwell.messages.message import BaseMessage
from runwell.models.outputs import ChatGenerationChunk
from runwell.providers.ollama.chat import ChatOllama, Reader
from runwell.providers.vendor_llm import Prompts, VendorLLM

__all__ = ["OllamaLLM"]


class _Generate(ChatOllama, Prompts):
    system: str | None = None
    template: str | None = None
    raw: bool | None = None
    suffix: str | None = None

    path: ClassVar[str] = "/api/generate"

    def _request(
        self, messages: list[BaseMessage], stop: Any, kwargs: Mapping[str, Any], stream: bool
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        body, sending = super()._request(messages, stop, kwargs, stream)
        del body["messages"]
        body["prompt"] = messages[0].text
        for name in ("system", "template", "raw", "suffix"):
            value = kwargs.get(name, getattr(self, name))
            if value is not None:
                body[name] = value
        return body, sending

    def _said(self, answer: Any) -> Any:
        return _as_chat(answer)

    def _reader(self, request: Any) -> Any:
        return _Reader(self)


class _Reader(Reader):
    __slots__ = ()

    def take(self, event: Any) -> Iterator[ChatGenerationChunk]:
        return super().take(_as_chat(event))


def _as_chat(answer: Any) -> Any:
    """An answer, or a piece of one, as the chat API writes it."""
    if not isinstance(answer, dict) or "response" not in answer:
        return answer
    said = {"role": "assistant", "content": answer["response"], "thinking": answer.get("thinking")}
    return {**answer, "message": said}


class OllamaLLM(VendorLLM):
    """A model that an Ollama server runs, as a completion model. `system` and `template` stand in for the model's own,
    `raw=True` sends the prompt without either, `suffix` is what comes after the answer. All else as for `ChatOllama`,
    which is for conversations and tools.
    """

    speaks: ClassVar[Any] = _Generate
