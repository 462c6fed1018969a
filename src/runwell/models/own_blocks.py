"""Content blocks in a vendor's own form: they go to that vendor, others are told what they say, and what is nobody's is
refused before it is sent. One behaviour for every adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from runwell.errors import InvalidInput, UnsupportedByProvider, nearest
from runwell.messages.blocks import KNOWN_BLOCK_TYPES
from runwell.messages.calls import json_text
from runwell.messages.message import AIMessage, BaseMessage
from runwell.messages.normal import standard_block
from runwell.models.block_forms import check_form
from runwell.models.foreign import OPENAI_ITEMS
from runwell.observe.run import record_decision, watched

__all__ = ["Fitting"]

_VENDORS: Final = OPENAI_ITEMS | {
    *("redacted_thinking", "container_upload", "tool_reference", "search_result", "tool_result", "mcp_tool_use"),
    *("compaction", "reference", "document_url", "resource", "resource_link", "document"),
    *("video_url", "audio_url", "image_embeds"),
    *("thinking", "reasoning_content", "executable_code", "code_execution_result", "guard_content"),
}
"""Types of blocks that some vendor knows and that have no standard form, `thinking` in parts among them."""

_PARTS: Final = frozenset(
    {"cachePoint", "guardContent", "reasoningContent", "citationsContent", "searchResult", "toolUse", "toolResult"}
    | {"document", "video", "image", "audio", "json", "inlineData", "inline_data", "fileData", "file_data"}
    | {"functionCall", "functionResponse", "executableCode", "codeExecutionResult", "toolCall", "toolResponse"}
)
"""What names a block of a vendor (Bedrock, Gemini) whose blocks have no type."""

_MODELS_SAY: Final = frozenset(
    {"reasoning", "tool_call", "tool_call_chunk", "invalid_tool_call", "server_tool_call", "server_tool_call_chunk"}
)
"""Standard types that only a model's message has a place for."""

_NAMES: Final = (
    *("title", "name", "filename", "document_url", "url", "uri", "file_id", "id", "fileUri", "file_uri"),
    *("mimeType", "mime_type"),
)


@dataclass(slots=True, frozen=True)
class Fitting:
    """Fits the blocks of a conversation to one provider."""

    who: str
    """What errors call the adapter."""
    provider: str
    is_own: Callable[[Mapping[str, Any]], bool]
    """Whether a block is in a form of the vendor's own."""
    passes: bool
    """Whether the API takes what the program marks as the vendor's, `{"type": "non_standard", "value": {...}}`, as it
    is; otherwise it is sent as a text of its JSON."""

    def fit(self, messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
        """The messages, with a text in the place of each block that only another vendor knows, and without what only a
        model says where a person, the system or a tool says it; the decision B9 is then recorded. Messages without such
        blocks are the same objects. What a model of the same provider said goes back to it, whatever it is.

        Raises UnsupportedByProvider, naming the type and the place, for a block of a type that nobody knows;
        InvalidInput for one without a type.
        """
        found: list[BaseMessage] | None = None
        for place, message in enumerate(messages):
            if type(message.content) is str:
                continue
            blocks = [self._fitted(block, message, place, at) for at, block in enumerate(message.content)]
            changed = [
                old if isinstance(old, str) else str(old.get("type"))
                for old, new in zip(message.content, blocks, strict=True)
                if new is not old
            ]
            if not changed:
                continue
            found = found or list(messages)
            found[place] = message.model_copy(update={"content": [block for block in blocks if block is not None]})
            if watched():
                reason = f"message {place} holds {', '.join(changed)}, which {self.who} does not take there"
                record_decision("B9", "said in a text, or left out", reason, "code")
        return messages if found is None else found

    def _fitted(self, block: Any, message: BaseMessage, place: int, at: int) -> Any:
        """The block, another in its place, or None where it is left out."""
        if isinstance(block, str):
            return block
        where = f"Message {place} ({type(message).__name__}), block {at}"
        check_form(block, where)
        if self.is_own(block):
            return block
        shot = _screenshot(block)
        if shot is not None and not isinstance(message, AIMessage):
            return shot
        standard: Mapping[str, Any] = standard_block(block)
        kind, answered = standard["type"], isinstance(message, AIMessage)
        if kind != "non_standard":
            if answered or (kind not in _MODELS_SAY and kind != "refusal"):
                return block
            return {"type": "text", "text": standard["refusal"]} if kind == "refusal" else None
        value, marked = standard["value"], block.get("type") == "non_standard"
        if not isinstance(value, Mapping):
            raise InvalidInput(
                f"{where}, is marked as the vendor's and holds {value!r:.200}.", hint="Give a dict as its value."
            )
        inner = value.get("type")
        if marked and self.is_own(value):
            return block
        if inner is None and not marked:
            part = next((key for key in value if key in _PARTS), None)
            if part is not None:  # a mark for a vendor's cache says nothing to others
                return None if answered or part == "cachePoint" else {"type": "text", "text": _told(part, value[part])}
            raise InvalidInput(
                f"{where}, is a block without a type: {value!r:.200}.", hint='{"type": "text", "text": "..."}'
            )
        if answered:
            told_by = (message._facts or {}).get("model_provider")
            if told_by == self.provider:
                return block
            if inner in _VENDORS or told_by is not None:
                return None
        elif inner in _VENDORS:
            return {"type": "text", "text": _said(value)}
        if marked:
            return block if self.passes else {"type": "text", "text": json_text(value)}
        like = nearest(str(inner), KNOWN_BLOCK_TYPES)
        raise UnsupportedByProvider(
            f"{where}, is of type {inner!r:.200}, which {self.who} does not know{like}.",
            hint='Say it in a standard block, such as {"type": "text", "text": "..."}, or mark it as the vendor\'s own '
            'and to be sent as it is: {"type": "non_standard", "value": {...}}.',
        )


def _screenshot(block: Mapping[str, Any]) -> Any:
    """The picture in what OpenAI calls a screenshot, or the output of a computer's call."""
    value = block.get("value") if block.get("type") == "non_standard" else block
    if isinstance(value, Mapping) and value.get("type") == "computer_call_output":
        value = value.get("output")
    if not isinstance(value, Mapping) or value.get("type") != "computer_screenshot":
        return None
    return standard_block({**value, "type": "input_image"})


def _told(part: str, held: Any) -> str:
    """What a block without a type says, or its name: it may hold the data of media."""
    if part == "json":
        return json_text(held)
    if isinstance(held, Mapping):
        named = ("text", "content", "title", *_NAMES) if part in ("guardContent", "searchResult") else _NAMES
        held = {key: held[key] for key in named if key in held}
    else:
        held = {}
    return _said({"type": part, **held})


def _said(block: Mapping[str, Any]) -> str:
    """What a block of another vendor's says, or at least its name."""
    for key in ("content", "text", "document", "data", "resource", "source"):
        said = block.get(key)
        if isinstance(said, str) and said:
            text = said
        elif isinstance(said, list) and said:
            text = "\n".join(part if isinstance(part, str) else str(part.get("text") or "") for part in said).strip()
        elif isinstance(said, Mapping) and said:
            text = str(said.get("text") or (_said({"type": "", **said}) if "content" in said else json_text(said)))
        else:
            continue
        if text:
            title = block.get("title")
            return f"{title}\n{text}" if isinstance(title, str) and title else text
    name = next((block[key] for key in _NAMES if isinstance(block.get(key), str)), None)
    return f"[{block['type']}: {name}]" if name else f"[{block['type']}]"
