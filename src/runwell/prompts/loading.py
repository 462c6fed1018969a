"""Prompts kept in files, as JSON. A file is data: loading one evaluates nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runwell.errors import InvalidInput, nearest
from runwell.prompts.chat import ChatPromptTemplate
from runwell.prompts.few_shot import FewShotPromptTemplate
from runwell.prompts.message import MessagesPlaceholder
from runwell.prompts.prompt import BasePromptTemplate
from runwell.prompts.prompt_template import PromptTemplate

__all__ = ["load_prompt", "load_prompt_from_config"]

_KEYS = {
    "prompt": {"template", "template_format", "partial_variables", "input_variables"},
    "chat": {"messages", "template_format", "partial_variables", "input_variables"},
    "few_shot": {
        *("example_prompt", "examples", "prefix", "suffix", "example_separator"),
        *("template_format", "partial_variables", "input_variables"),
    },
}
_IGNORED = {"_type", "name", "output_parser", "validate_template", "metadata", "tags"}


def load_prompt(path: str | Path, encoding: str = "utf-8") -> BasePromptTemplate:
    """The prompt in a JSON file.

    The file holds an object: `{"_type": "prompt", "template": "…"}`, `{"_type": "chat", "messages": [["human",
    "…"], …]}` or `{"_type": "few_shot", …}`. Raises OSError when it cannot be read, and `InvalidInput` when it
    is no such object or asks for jinja2, which is only ever chosen in code.
    """
    try:
        config = json.loads(Path(path).read_text(encoding=encoding))
    except ValueError as error:
        raise InvalidInput(f"The prompt file {str(path)!r} is no JSON: {error}.") from error
    try:
        return load_prompt_from_config(config)
    except InvalidInput as error:
        raise InvalidInput(f"In the prompt file {str(path)!r}: {error.message}", hint=error.hint) from error


def load_prompt_from_config(config: Any) -> BasePromptTemplate:
    """The prompt that an object from a file describes (see `load_prompt`)."""
    if not isinstance(config, Mapping):
        raise InvalidInput(f"A prompt is described by an object, not {config!r:.100}.")
    kind = config.get("_type", "chat" if "messages" in config else "prompt")
    if kind not in _KEYS:
        raise InvalidInput(
            f"There is no kind of prompt {kind!r}{nearest(str(kind), _KEYS) or '.'}",
            hint=f"'_type' is one of {', '.join(map(repr, _KEYS))}.",
        )
    given = {key: value for key, value in config.items() if key not in _IGNORED and value is not None}
    unknown = [key for key in given if key not in _KEYS[kind]]
    if unknown:
        raise InvalidInput(
            f"A {kind!r} prompt has no key {unknown[0]!r}{nearest(unknown[0], _KEYS[kind]) or '.'}",
            hint=f"Its keys are {', '.join(sorted(_KEYS[kind]))}.",
        )
    if given.get("template_format", "f-string") not in ("f-string", "mustache"):
        raise InvalidInput(
            f"A prompt file may not choose the template format {given['template_format']!r}.",
            hint="Use f-string or mustache in files. jinja2 has to be chosen in code: "
            'PromptTemplate(text, template_format="jinja2").',
        )
    if kind == "prompt":
        return PromptTemplate(_needed(given, "template", kind), **_rest(given, "template"))
    if kind == "chat":
        entries = [_entry(entry) for entry in _needed(given, "messages", kind)]
        return ChatPromptTemplate(entries, **_rest(given, "messages"))
    example_prompt = load_prompt_from_config(_needed(given, "example_prompt", kind))
    if not isinstance(example_prompt, PromptTemplate):
        raise InvalidInput("The example_prompt of a 'few_shot' prompt is a 'prompt'.")
    return FewShotPromptTemplate(example_prompt=example_prompt, **_rest(given, "example_prompt"))


def _needed(given: Mapping[str, Any], key: str, kind: str) -> Any:
    if key not in given:
        raise InvalidInput(f"A {kind!r} prompt needs the key {key!r}.")
    return given[key]


def _rest(given: Mapping[str, Any], *used: str) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key not in used}


def _entry(entry: Any) -> Any:
    """An entry of a list of messages; `{"placeholder": "history"}` is a required placeholder."""
    if isinstance(entry, Mapping) and "placeholder" in entry:
        return MessagesPlaceholder(
            entry["placeholder"], optional=bool(entry.get("optional")), n_messages=entry.get("n_messages")
        )
    return entry
