"""What a model answered, in the shape that `on_llm_end` promises."""

from __future__ import annotations

from typing import Any

__all__ = ["LLMResult", "answer_of", "as_llm_result", "prompts_of", "transcript"]


class _Generation:
    """One answer; `message` is it, `text` its text."""

    __slots__ = ("generation_info", "message", "text")

    def __init__(self, message: Any) -> None:
        self.message = message
        text = getattr(message, "text", message)
        self.text = text if isinstance(text, str) else str(text)
        self.generation_info: dict[str, Any] | None = None


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
        return LLMResult([[_Generation(text)] for text in outputs], None)
    return LLMResult([[_Generation(outputs)]], None)


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
