"""How a small model is brought to call tools: what it is asked, and what it is allowed to say.

Models of this size do not follow a chat template's native tool format, but they choose well when the choice is put
as one JSON object out of an `anyOf` (one branch per tool, one for "answer"), after a few examples with unrelated
tools. They also lose the second half of a request once the first is done; so a request that may hold several things
is first split into them, and each is decided by itself, with the results so far in view.

The wording here was measured (docs/local-models.md); change it only with a measurement.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runwell.providers.local.grammar import constrainable
from runwell.providers.local.transcript import Made, Turn

__all__ = [
    "Tool",
    "answer_messages",
    "call_schema",
    "decision_messages",
    "may_hold_several",
    "split_messages",
    "split_schema",
    "tidy_parts",
]

Message = dict[str, str]

ANSWER = "answer"
MAX_PARTS = 4
_PART_CHARS = 300
_RESULT_CHARS = 400
_INSTRUCTION_CHARS = 500


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as the model is told of it. `parameters` is a JSON schema of the arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Tool:
        """From OpenAI's form, `{"type": "function", "function": {...}}`."""
        function = wire.get("function", wire)
        parameters = function.get("parameters") or {"type": "object", "properties": {}}
        return cls(str(function["name"]), str(function.get("description") or ""), parameters)

    @property
    def takes_arguments(self) -> bool:
        return bool(constrainable(self.parameters).get("properties"))

    def line(self) -> str:
        """`- name(argument, other: one|two): description`."""
        properties = constrainable(self.parameters).get("properties") or {}
        arguments = ", ".join(name + _choices(schema) for name, schema in properties.items())
        return f"- {self.name}({arguments}): {' '.join(self.description.split())}"


def _choices(schema: Mapping[str, Any]) -> str:
    options = schema.get("enum")
    return ": " + "|".join(map(str, options)) if options and len(options) <= 12 else ""


# -- one request or several


_SEVERAL = re.compile(r"[,;\n]|[.?!]\s+\S|\b(and|then|also|plus|und|et|y|e)\b", re.IGNORECASE)

_SPLIT_SYSTEM = (
    "Split the request into the separate things it asks for, in order. Reply with a JSON list. "
    "One thing: a list of one."
)
_SPLIT_SHOTS: tuple[tuple[str, list[str]], ...] = (
    (
        "How do you say 'good night' in Spanish, and what does TSLA cost?",
        ["How do you say 'good night' in Spanish?", "What does TSLA cost?"],
    ),
    ("Good morning, how are you?", ["Good morning, how are you?"]),
    ("Compare the price of NVDA and of AMD.", ["What is the price of NVDA?", "What is the price of AMD?"]),
    (
        "Remind me about the pasta with tomatoes and cheese in 12 minutes.",
        ["Remind me about the pasta with tomatoes and cheese in 12 minutes."],
    ),
    (
        "Look in the recipes for pancakes and tell me the score.",
        ["Look in the recipes for pancakes.", "Tell me the score."],
    ),
    ("How do I make tea? Look in the recipes.", ["How do I make tea? Look in the recipes."]),
    (
        "Find the phone number of Ann Lee and then call her to say the tea is ready.",
        ["Find the phone number of Ann Lee.", "Call Ann Lee to say the tea is ready."],
    ),
    ("Take 8 from 20 and double it.", ["Take 8 from 20 and double it."]),
    ("Compare the height of Ann and of Bob.", ["What is the height of Ann?", "What is the height of Bob?"]),
    ("Where is the museum? Look at the map.", ["Where is the museum? Look at the map."]),
    ("Who is taller, and when does the train leave?", ["Who is taller?", "When does the train leave?"]),
)


def may_hold_several(request: str) -> bool:
    """Whether it is worth asking. A long text is matter to work on, not a list of errands."""
    return len(request) <= _PART_CHARS and _SEVERAL.search(request.strip()) is not None


def split_messages(request: str) -> list[Message]:
    messages: list[Message] = [{"role": "system", "content": _SPLIT_SYSTEM}]
    for asked, parts in _SPLIT_SHOTS:
        messages += [_user(asked), _assistant(parts)]
    return [*messages, _user(request)]


def split_schema() -> dict[str, Any]:
    part = {"type": "string", "minLength": 1, "maxLength": _PART_CHARS}
    return {"type": "array", "items": part, "minItems": 1, "maxItems": MAX_PARTS}


def tidy_parts(request: str, parts: Sequence[str]) -> list[str]:
    """The parts without repetitions, without the whole among its own parts, and without inventions.

    A part that shares no word with the request was made up.
    """
    words = _words(request)
    kept: list[str] = []
    for part in parts:
        if part not in kept and (_words(part) & words or part.strip() == request.strip()):
            kept.append(part)
    if len(kept) > 1:
        kept = [part for part in kept if _plain(part) != _plain(request)]
    return kept or [request]


def _plain(text: str) -> str:
    return re.sub(r"\W+", " ", text).strip().lower()


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


# -- which tool, with what

_SYSTEM = "Choose the right tool for the request and reply with JSON."
_ANSWER_LINE = (
    "- answer(): Reply directly, without a tool: greetings, thanks, small talk, questions about yourself, "
    "or no tool fits."
)


def _shot_tool(name: str, description: str, *arguments: str) -> Tool:
    return Tool(name, description, {"type": "object", "properties": {argument: {} for argument in arguments}})


# Unrelated to anything a program is likely to have, so that they teach the form and not the choice. One of them
# searches: without a search among the examples the model searches for everything.
_SHOT_TOOLS = (
    _shot_tool("translate", "Translate text into another language.", "text", "language"),
    _shot_tool("get_stock_price", "Get the current price of a stock.", "symbol"),
    _shot_tool("set_timer", "Start a countdown timer.", "minutes", "label"),
    _shot_tool("search_recipes", "Search the recipe collection.", "query"),
)
_SHOTS: tuple[tuple[str, str, dict[str, Any] | None], ...] = (
    ("What does one share of AAPL cost?", "get_stock_price", {"symbol": "AAPL"}),
    ("Good morning!", ANSWER, None),
    ("How do you say 'good night' in Spanish?", "translate", {"text": "good night", "language": "Spanish"}),
    ("How do I make pancakes? Look in the recipes.", "search_recipes", {"query": "pancakes"}),
    ("Is TSLA going up today?", "get_stock_price", {"symbol": "TSLA"}),
    ("Remind me about the pasta in 12 minutes.", "set_timer", {"minutes": 12, "label": "pasta"}),
    ("What are you able to do?", ANSWER, None),
    ("Thank you so much!", ANSWER, None),
)


def decision_messages(
    part: str, tools: Sequence[Tool], turn: Turn, made: Sequence[Made], *, may_answer: bool
) -> list[Message]:
    """The question which tool serves `part`, given what was `made` so far.

    The examples come first and are always the same, so their reading is cached from call to call.
    """
    messages: list[Message] = [{"role": "system", "content": _SYSTEM}]
    for request, name, arguments in _SHOTS:
        reply = {"name": name} if arguments is None else {"name": name, "arguments": arguments}
        messages += [_user(_question(request, _SHOT_TOOLS)), _assistant(reply)]
    known: list[str] = []
    if turn.system:
        known.append(f"Instructions: {_cut(turn.system, _INSTRUCTION_CHARS)}")
    if turn.before:
        known.append(f"Earlier:\n{turn.earlier()}")
    known += [
        f"Known: {call.name}({json.dumps(call.arguments, ensure_ascii=False)}) gave {_cut(call.result, _RESULT_CHARS)}"
        for call in made
        if call.result is not None
    ]
    return [*messages, _user(_question(part, tools, known, may_answer=may_answer))]


def _question(request: str, tools: Iterable[Tool], known: Sequence[str] = (), *, may_answer: bool = True) -> str:
    lines = ["Tools:", *(tool.line() for tool in _likeliest_first(request, tools))]
    if may_answer:
        lines.append(_ANSWER_LINE)
    return "\n".join([*lines, *known, f"Request: {request}"])


def _likeliest_first(request: str, tools: Iterable[Tool]) -> list[Tool]:
    """Tools that share words with the request before the others: position sways a small model, so let it sway right."""
    asked = {word for word in _words(request) if len(word) > 2}
    return sorted(tools, key=lambda tool: -len(asked & _words(f"{tool.name} {tool.description}".replace("_", " "))))


def call_schema(tools: Sequence[Tool], *, may_answer: bool) -> dict[str, Any]:
    """One object: a call of one of the tools, or `{"name": "answer"}`."""
    branches = [
        {
            "type": "object",
            "properties": {"name": {"const": tool.name}, "arguments": _arguments_schema(tool)},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for tool in tools
    ]
    if may_answer:
        branches.append(
            {
                "type": "object",
                "properties": {"name": {"const": ANSWER}},
                "required": ["name"],
                "additionalProperties": False,
            }
        )
    return {"anyOf": branches}


def _arguments_schema(tool: Tool) -> dict[str, Any]:
    schema = constrainable(tool.parameters)
    return schema if schema.get("properties") else {"type": "object", "properties": {}, "additionalProperties": False}


# -- the answer


def answer_messages(turn: Turn) -> list[Message]:
    """The final question: plain chat when no tool was called, else the question with its results."""
    system = turn.system
    if not turn.made:
        first = [{"role": "system", "content": system}] if system else []
        return [*first, *turn.before, _user(turn.request)]
    told = "Answer the user's question in one or two short sentences, using the tool results."
    results = [
        f"Tool result from {call.name}({json.dumps(call.arguments, ensure_ascii=False)}): "
        + (call.result if call.result is not None else "(no result)")
        for call in turn.made
    ]
    earlier = [f"Earlier:\n{turn.earlier()}"] if turn.before else []
    text = "\n".join([*earlier, f"Question: {turn.request}", *results, "Answer:"])
    return [{"role": "system", "content": f"{system}\n{told}".strip()}, _user(text)]


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _assistant(value: Any) -> Message:
    return {"role": "assistant", "content": json.dumps(value, ensure_ascii=False)}


def _cut(text: str | None, limit: int) -> str:
    flat = " ".join((text or "").split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
