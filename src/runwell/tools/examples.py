"""Examples of tool calls, as messages for a prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runwell.errors import InvalidInput
from runwell.messages.message import AIMessage, BaseMessage, HumanMessage, ToolMessage

__all__ = ["tool_example_to_messages"]


def tool_example_to_messages(
    input: str,
    tool_calls: Sequence[Any],
    tool_outputs: Sequence[str] | None = None,
    *,
    ai_response: str | None = None,
) -> list[BaseMessage]:
    """One example: what a person says, the calls it should lead to, their results, and a last answer if given.

    A call is an instance of a Pydantic model (its class's name is the tool's, its fields the arguments) or a dict with
    `name` and `args`. Without `tool_outputs` each call is answered "You have correctly called this tool.". Ids are made
    from the content, so the same example is the same in every request.
    """
    if tool_outputs is not None and len(tool_outputs) != len(tool_calls):
        raise InvalidInput(
            f"The example has {len(tool_calls)} tool calls and {len(tool_outputs)} outputs.", hint="One for each call."
        )
    from hashlib import blake2b

    calls: list[Any] = []
    for place, each in enumerate(tool_calls):
        name, args = _read(each)
        key = blake2b(f"{input}|{place}|{name}|{args}".encode("utf-8", "surrogatepass"), digest_size=9).hexdigest()
        calls.append({"type": "tool_call", "name": name, "args": args, "id": f"call_{key}"})
    outputs = tool_outputs if tool_outputs is not None else ["You have correctly called this tool."] * len(calls)
    messages: list[BaseMessage] = [HumanMessage(input), AIMessage("", tool_calls=calls)]
    messages += [
        ToolMessage(output, tool_call_id=call["id"], name=call["name"])
        for call, output in zip(calls, outputs, strict=True)
    ]
    return [*messages, AIMessage(ai_response)] if ai_response is not None else messages


def _read(call: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(call, Mapping) and "name" in call and "args" in call:
        return call["name"], dict(call["args"])
    if hasattr(call, "model_dump"):
        return type(call).__name__, call.model_dump(mode="json")
    raise InvalidInput(f"{call!r:.200} is no tool call.", hint="Use a Pydantic instance, or a dict of name and args.")
