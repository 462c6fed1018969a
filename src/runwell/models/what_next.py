"""What to do about a request that a provider refused, by what the refusal is about."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["what_next"]

_TOO_LARGE: Final = (
    "Send less at once: smaller or fewer pictures and files, or upload them and give their URL or file_id."
)
_ACCOUNT: Final = "See to the account: its balance, or what it may use."
_SHAPE: Final = (
    'Another way to the same answer: with_structured_output(..., method="function_calling"), in an agent '
    "response_format=ToolStrategy(...)."
)
_CALLS: Final = (
    "Calls and results must stand together, each under its id: validate_history(messages) lists what does not, "
    "repair_history(messages) mends it."
)
_TOOLS: Final = (
    "Look at tool.args_schema of the tool that it names: give it a simpler signature, or bind it with strict=False."
)
_MEDIA: Final = (
    "Check the block that it names: its URL can be fetched from outside, its mime_type is that of its data, and the "
    "model takes that kind (model.profile)."
)
_ARGUMENT: Final = (
    "Leave out or change the argument that it names, on the model, in bind(...) or in model_kwargs=: not every model "
    "of a provider takes the same."
)
_OTHERWISE: Final = (
    "The same request will be refused again. Leave out what was added last (tools, media, model_kwargs=), and try with "
    "a single message."
)

_ABOUT: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), hint)
    for pattern, hint in (
        (r"too large|payload|size limit|maximum (allowed )?size", _TOO_LARGE),
        (r"credit|billing|balance|payment|quota", _ACCOUNT),
        (r"response_format|json_schema|output_config|output_format|responseSchema|structured output", _SHAPE),
        (r"tool_use|tool_result|tool_call|function.?call|function.?response|toolUse|toolResult", _CALLS),
        (r"\btools?\b|function_declarations|input_?schema", _TOOLS),
        (r"image|media|base64|audio|video|document|\bfile", _MEDIA),
        (r"unsupported|not support|unrecognized|unknown (field|name|param|arg)|unexpected|extra inputs", _ARGUMENT),
        (r"not permitted|deprecated|invalid (value|param)|out of range|must be (between|less|great|at)", _ARGUMENT),
    )
)
"""The first that fits is said."""


def what_next(status: int, message: str, code: str = "") -> str:
    """The next thing to do about status 400, 402, 413, 422 and their like."""
    if status == 413:
        return _TOO_LARGE
    if status == 402:
        return _ACCOUNT
    return next((hint for about, hint in _ABOUT if about.search(message) or about.search(code)), _OTHERWISE)
