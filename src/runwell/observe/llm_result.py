"""What a model answered, in the shape that `on_llm_end` promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["LLMResult", "answer_of", "as_llm_result", "completed", "prompts_of", "transcript"]


class _Completion(str):
    """What a completion model answered: the text, with what a chat model's message says beside its own."""

    __slots__ = ("response_metadata", "usage_metadata")
    response_metadata: Mapping[str, Any]
    usage_metadata: Any


class _Completions(list[str]):
    """As `_Completion`, of several prompts that went in one request."""

    __slots__ = ("response_metadata", "usage_metadata")
    response_metadata: Mapping[str, Any]
    usage_metadata: Any


def completed(texts: str | Sequence[str], metadata: Mapping[str, Any], usage: Any) -> Any:
    """The output of a completion model's run: a text, or a list of them, that knows the model and the tokens. Those of
    a list are said of its first text, for handlers that look at that alone."""
    outputs: _Completion | _Completions
    if isinstance(texts, str):
        outputs = _Completion(texts)
    else:
        outputs = _Completions(completed(text, metadata, None if at else usage) for at, text in enumerate(texts))
    outputs.response_metadata, outputs.usage_metadata = metadata, usage
    return outputs


class _Generation:
    """One answer; `message` is it, `text` its text."""

    __slots__ = ("generation_info", "message", "text")

    def __init__(self, message: Any) -> None:
        self.message = message
        text = getattr(message, "text", message)
        self.text = text if isinstance(text, str) else str(text)
        self.generation_info: dict[str, Any] | None = None
        if isinstance(message, _Completion):
            self.generation_info = dict(message.response_metadata)


class LLMResult:
    """`generations[0]` holds the answers to the one prompt; `llm_output` is what else the provider said, a dict."""

    __slots__ = ("generations", "llm_output")

    def __init__(self, generations: list[list[Any]], llm_output: dict[str, Any] | None = None) -> None:
        self.generations = generations
        self.llm_output = llm_output if llm_output is not None else {}

    def __repr__(self) -> str:
        return f"LLMResult({self.generations!r})"


def as_llm_result(outputs: Any) -> LLMResult:
    """A model run's outputs (a message, or something with `.generations`) as an `LLMResult`."""
    if isinstance(outputs, LLMResult):
        return outputs
    generations = getattr(outputs, "generations", None)
    if generations is not None:
        return LLMResult([list(generations)], getattr(outputs, "llm_output", None))
    if _are_texts(outputs):
        return LLMResult([[_Generation(text)] for text in outputs], _told(outputs))
    return LLMResult([[_Generation(outputs)]], _told(outputs))


def _told(outputs: Any) -> dict[str, Any] | None:
    if not isinstance(outputs, _Completion | _Completions):
        return None
    about = {"model_name": outputs.response_metadata.get("model_name"), "token_usage": outputs.usage_metadata}
    return {name: value for name, value in about.items() if value}


def prompts_of(inputs: Any) -> list[str]:
    """A model's input as prompts: several where it was given several, otherwise one text."""
    return list(inputs) if _are_texts(inputs) else [transcript(inputs)]


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value)


def answer_of(outputs: Any) -> Any:
    """The message in a model run's outputs, whichever of the shapes above they have."""
    generations = getattr(outputs, "generations", None)
    if generations is None:
        return outputs
    first = generations[0] if generations else None
    if isinstance(first, list):
        first = first[0] if first else None
    return getattr(first, "message", first)


def transcript(inputs: Any) -> str:
    """A model's input as one text, for handlers that only know of prompts."""
    if isinstance(inputs, str):
        return inputs
    if isinstance(inputs, list | tuple):
        return "\n".join(f"{getattr(m, 'type', '')}: {getattr(m, 'text', m)}".removeprefix(": ") for m in inputs)
    return str(inputs)
