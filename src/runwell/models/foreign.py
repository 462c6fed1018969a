"""Blocks of an answer that only the provider that gave it can read, and what others are sent in their place.

They stay in the message, so that a conversation may go to another provider and come back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["OPENAI_ITEMS", "readable_by"]

OPENAI_ITEMS = frozenset(
    {"mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "item_reference", "local_shell_call_output"}
    | {"tool_search_call", "tool_search_output", "program", "program_output", "additional_tools", "shell_call_output"}
    | {"apply_patch_call_output", "computer_call_output", "image_generation_call", "web_search_call", "mcp_call"}
    | {"file_search_call", "code_interpreter_call", "computer_call", "local_shell_call", "shell_call"}
    | {"apply_patch_call", "custom_tool_call", "function_call"}
)
"""Items of the Responses API that are not messages or thoughts."""

_ANTHROPIC = frozenset({"redacted_thinking", "container_upload", "tool_reference"})

_GOOGLE = frozenset({"reasoning", "server_tool_call", "image", "audio", "video", "file"})
"""Where they carry its mark: thoughts, calls that it ran, media that its models made."""

_MARKS = {"item_id": "openai", "custom": "openai", "namespace": "openai", "phase": "openai", "google": "google"}
"""What a vendor says of its own blocks in their `extras`, and to whom."""


_MADE = {"image": "(an image)", "audio": "(a sound)", "video": "(a film)", "file": "(a file)"}
"""What is said in the place of what a model made."""


def readable_by(whom: str, blocks: Sequence[Any]) -> list[Any]:
    """The blocks without those of other vendors. `whom` is "openai" (its Responses API), "anthropic", "google",
    or any other."""
    kept = []
    for block in blocks:
        vendor = None if isinstance(block, str) else _vendor(block)
        if vendor is None or vendor == whom:
            kept.append(block if isinstance(block, str) else _without_marks(block, whom))
        elif block.get("type") in _MADE:
            kept.append({"type": "text", "text": _MADE[block["type"]]})
    return kept


def _without_marks(block: Mapping[str, Any], whom: str) -> Mapping[str, Any]:
    """Without what other vendors say of their own blocks."""
    extras = block.get("extras")
    if not extras or _MARKS.keys().isdisjoint(extras):
        return block
    return {**block, "extras": {key: value for key, value in extras.items() if _MARKS.get(key, whom) == whom}}


def _vendor(block: Mapping[str, Any]) -> str | None:
    """Whose a block is; None where anybody may read it."""
    kind = block.get("type")
    if kind == "non_standard" and isinstance(block.get("value"), Mapping):
        block = block["value"]
        kind = block.get("type")
    if kind in _ANTHROPIC:
        return "anthropic"
    if kind == "compaction":
        return "openai" if "encrypted_content" in block else "anthropic"
    extras = block.get("extras") or {}
    if "google" in extras and (kind in _GOOGLE or (kind == "text" and not block.get("text"))):
        return "google"
    if kind in ("image", "server_tool_call"):
        kind = extras.get("block_type")
    return "openai" if kind in OPENAI_ITEMS else None
