"""A pause's question as a form that an MCP client can show, and what was filled in as the pause's answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from runwell.mcp.text import sendable
from runwell.ports.command import Interrupt
from runwell.tools.result import to_text

__all__ = ["Declined", "answer_of", "request_of"]

_PLAIN = ("string", "integer", "number", "boolean")


class Declined(Exception):
    """Whoever was asked did not want to answer."""


def request_of(question: Interrupt, problem: str | None = None) -> Any:
    """The protocol's request for a question; `problem` says why an earlier answer was not taken."""
    from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitRequestURLParams

    value = question.value
    before = f"{sendable(problem)}\n" if problem else ""
    if _relayed(value) and value["mode"] == "url":
        return ElicitRequest(params=ElicitRequestURLParams(message=before + value["message"], url=value["url"]))
    return ElicitRequest(
        params=ElicitRequestFormParams(
            message=before + sendable(_message(value)), requested_schema=sendable(_schema(question))
        )
    )


def answer_of(question: Interrupt, result: Any, *, keep: bool = False) -> Any:
    """What a run goes on with. Raises Declined where the question has no word for a refusal.

    With `keep` a question that was put aside ("cancel") stays open, which raises Declined as well.
    """
    value = question.value
    if keep and result.action == "cancel":
        raise Declined(result.action)
    content = dict(result.content or {})
    if _relayed(value):
        if result.action != "accept":
            return {"action": result.action}
        return {"action": "accept"} if value["mode"] == "url" else {"action": "accept", "content": content}
    if _review(value):
        return {"decisions": _decisions(value, result.action, content)}
    if result.action != "accept":
        raise Declined(result.action)
    if _is_form(question.response_schema):
        return content
    answer = content.get("answer")
    if question.response_schema is None or _is_plain(question.response_schema) or not isinstance(answer, str):
        return answer
    try:
        return json.loads(answer)
    except ValueError:
        return answer


def _relayed(value: Any) -> bool:
    """A question of another MCP server's."""
    return isinstance(value, Mapping) and value.get("type") == "mcp_elicitation"


def _review(value: Any) -> bool:
    """A question whether tool calls may run."""
    return isinstance(value, Mapping) and "action_requests" in value and "review_configs" in value


def _message(value: Any) -> str:
    if _review(value):
        return "\n".join(str(each["description"]) for each in value["action_requests"])
    if isinstance(value, Mapping):
        for key in ("message", "question", "prompt"):
            if isinstance(value.get(key), str):
                return str(value[key])
    return to_text(value)


def _schema(question: Interrupt) -> dict[str, Any]:
    value, schema = question.value, question.response_schema
    if _relayed(value):
        return dict(value["schema"])
    if _review(value):
        return _review_form(value)
    if _is_form(schema):
        return {key: each for key, each in (schema or {}).items() if key in ("type", "properties", "required")}
    if _is_plain(schema):
        answer = dict(schema or {})
    else:
        answer = {"type": "string"}
        if schema is not None:
            answer["description"] = f"JSON that fits {json.dumps(schema, ensure_ascii=False)[:2_000]}"
    return {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}


def _is_plain(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") in _PLAIN


def _is_form(schema: Any) -> bool:
    """Whether a schema is what the protocol calls a form: an object of plain values."""
    return (
        isinstance(schema, Mapping)
        and schema.get("type") == "object"
        and bool(schema.get("properties"))
        and all(_is_plain(each) for each in schema["properties"].values())
    )


def _review_form(value: Mapping[str, Any]) -> dict[str, Any]:
    allowed = {each["action_name"]: each["allowed_decisions"] for each in value["review_configs"]}
    properties: dict[str, Any] = {}
    required = []
    for number, each in enumerate(value["action_requests"]):
        # An edit needs arguments of any shape, which a form cannot ask for.
        choices = [choice for choice in allowed[each["name"]] if choice != "edit"] or ["reject"]
        decision, message = _fields(value, number)
        properties[decision] = {"type": "string", "enum": choices, "description": str(each["description"])}
        properties[message] = {"type": "string", "description": "Why, or what to answer instead."}
        required.append(decision)
    return {"type": "object", "properties": properties, "required": required}


def _fields(value: Mapping[str, Any], number: int) -> tuple[str, str]:
    end = "" if len(value["action_requests"]) == 1 else f"_{number + 1}"
    return f"decision{end}", f"message{end}"


def _decisions(value: Mapping[str, Any], action: str, content: Mapping[str, Any]) -> dict[str, Any]:
    made = {}
    for number, each in enumerate(value["action_requests"]):
        decision, message = _fields(value, number)
        one = {"type": content.get(decision) if action == "accept" else "reject"}
        if content.get(message) and one["type"] != "approve":
            one["message"] = content[message]
        made[each["id"]] = one
    return made
