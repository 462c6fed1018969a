"""Requests to OpenAI's Responses API: when it is asked for, and how what was asked for is written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from runwell.errors import InvalidConfig, UnsupportedByProvider
from runwell.messages.message import AIMessage, BaseMessage, SystemMessage, ToolMessage
from runwell.messages.validity import require_valid_history
from runwell.models.described_calls import as_ordinary_calls
from runwell.providers.openai.responses_wire import messages_to_input

__all__ = ["PATH", "SERVED", "asks_for_responses", "check_settings", "may_say_more", "responses_body"]

PATH = "/responses"

SERVED = frozenset(
    {"web_search", "web_search_preview", "file_search", "code_interpreter", "image_generation", "mcp", "computer"}
    | {"computer_use_preview", "local_shell", "shell", "apply_patch", "tool_search"}
)
"""Tools that OpenAI runs, or describes to its models itself."""

# Arguments that only this API has.
_OWN = frozenset(
    {"reasoning", "include", "previous_response_id", "truncation", "text", "conversation", "prompt", "background"}
    | {"max_tool_calls", "context_management", "instructions", "background_options"}
)
# Models that OpenAI serves by this API alone, by the names on its pages of models.
_ONLY_HERE = re.compile(r"(o\d|gpt-\d[\w.]*)-pro\b|codex|-deep-research|computer-use")

_NOT_HERE = ("stop", "seed", "presence_penalty", "frequency_penalty", "logit_bias", "n")
_TAKEN = ("temperature", "top_p", "top_logprobs", "service_tier", "user", "store", "reasoning", "truncation")
_APART = frozenset(
    {"tools", "tool_choice", "timeout", "extra_body", "extra_headers", "extra_query", "parallel_tool_calls"}
)


def asks_for_responses(model: Any, kwargs: Mapping[str, Any]) -> bool:
    """Whether a call goes to the Responses API: as said, else if it asks for something that only this API has."""
    if model.use_responses_api is not None:
        return bool(model.use_responses_api)
    if not model.chooses_api:
        return False
    if model.reasoning is not None or model.include or model.truncation or model.use_previous_response_id:
        return True
    if any(name in _OWN and kwargs[name] is not None for name in kwargs):
        return True
    if not _OWN.isdisjoint(model.model_kwargs):
        return True
    if not model._at_openai:
        return False  # another server's tools are written as it likes them
    return any(map(_is_served, kwargs.get("tools") or ())) or bool(_ONLY_HERE.search(model.model))


def _is_served(tool: Any) -> bool:
    """Whether a definition names what only this API runs or takes. A free-form tool in the other API's form is none."""
    kind = tool.get("type", "function")
    return kind != "function" and not (kind == "custom" and "custom" in tool)


def may_say_more(body: Mapping[str, Any]) -> bool:
    """Whether an answer may hold what needs blocks: a text's sources come after its first words."""
    return any(tool.get("type") not in ("function", "custom") for tool in body.get("tools") or ())


def responses_body(
    model: Any, messages: list[BaseMessage], stop: Any, kwargs: Mapping[str, Any], stream: bool
) -> dict[str, Any]:
    """The request's body. Raises UnsupportedByProvider for what this API has no place for."""
    asked = _asked(model, stop, kwargs)
    messages = as_ordinary_calls(messages, unless_by=model.provider) or messages
    body: dict[str, Any] = {"model": model._sent_model}
    if model.use_previous_response_id and not asked.get("previous_response_id") and not asked.get("conversation"):
        messages, added = _since_last(messages, model.provider)
        body |= added
    elif model._is_strict and not asked.get("previous_response_id") and not asked.get("conversation"):
        require_valid_history(_own_calls(messages))
    stored = asked.get("store") is not False
    body["input"] = messages_to_input(messages, model.provider, stored)
    for name, value in asked.items():
        if name == "max_tokens":
            body["max_output_tokens"] = value
        elif name not in ("reasoning_effort", "verbosity", "response_format", "logprobs", "include", "text", "n"):
            body[name] = value
    if asked.get("reasoning_effort"):
        body["reasoning"] = {"effort": asked["reasoning_effort"], **(asked.get("reasoning") or {})}
    text = dict(asked.get("text") or {})
    if asked.get("verbosity"):
        text.setdefault("verbosity", asked["verbosity"])
    if asked.get("response_format") is not None:
        text["format"] = _format(asked["response_format"])
    if text:
        body["text"] = text
    include = list(asked.get("include") or ())
    if asked.get("logprobs"):
        include.append("message.output_text.logprobs")
    if not stored and (body.get("reasoning") or (model.profile or {}).get("reasoning_output")):
        include.append("reasoning.encrypted_content")  # without it, thoughts could not go back
    if include:
        body["include"] = list(dict.fromkeys(include))
    _add_tools(body, kwargs)
    if stream:
        body["stream"] = True
    body.update(model.extra_body)
    body.update(kwargs.get("extra_body") or {})
    return body


def _own_calls(messages: list[BaseMessage]) -> list[BaseMessage]:
    """Without the results of calls that OpenAI described itself, as of a computer's use, which are blocks."""
    served = {
        block.get("id")
        for message in messages
        if isinstance(message, AIMessage) and not isinstance(message.content, str)
        for block in message.content
        if isinstance(block, dict) and block.get("type") == "server_tool_call"
    }
    if not served:
        return messages
    return [each for each in messages if not (isinstance(each, ToolMessage) and each.tool_call_id in served)]


def _asked(model: Any, stop: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """All that model and call ask for, under the names of `ChatOpenAI`."""
    names = (*_TAKEN, *_NOT_HERE, "max_tokens", "reasoning_effort", "verbosity", "logprobs", "include")
    asked = {name: getattr(model, name) for name in names if getattr(model, name, None) is not None}
    asked.update(model.model_kwargs)
    asked.update((name, value) for name, value in kwargs.items() if name not in _APART and value is not None)
    if stop is not None:
        asked["stop"] = stop
    for name in ("max_completion_tokens", "max_output_tokens"):
        if name in asked:
            asked["max_tokens"] = asked.pop(name)
    for name in _NOT_HERE:
        if asked.get(name) and not (name == "n" and asked["n"] == 1):
            raise UnsupportedByProvider(
                f"The Responses API takes no {name!r}; got {name}={asked[name]!r}.",
                hint="use_responses_api=False goes to chat completions, which do.",
            )
    return asked


def check_settings(model: Any) -> None:
    """Raises InvalidConfig for settings that contradict one another, or are of another shape than the API's."""
    if model.reasoning is not None and not isinstance(model.reasoning, Mapping):
        raise InvalidConfig(
            f"reasoning is a dict such as {{'effort': 'low', 'summary': 'auto'}}; got {model.reasoning!r}.",
            hint='For the effort alone: reasoning_effort="low".',
        )
    if isinstance(model.include, str):
        raise InvalidConfig(f"include is a list of what to include; got {model.include!r}.")
    if model.use_previous_response_id and model.store is False:
        raise InvalidConfig(
            "use_previous_response_id=True goes on from answers that OpenAI keeps, and store=False has it keep none.",
            hint="Leave one of them out.",
        )
    if model.use_responses_api is False or not (model.chooses_api or model.use_responses_api):
        for name in ("reasoning", "include", "truncation", "use_previous_response_id"):
            if getattr(model, name) and name not in model.passed:
                raise InvalidConfig(
                    f"{name} is the Responses API's, and this model speaks chat completions.",
                    hint='reasoning_effort="low" is what chat completions take.' if name == "reasoning" else None,
                )


def _since_last(messages: list[BaseMessage], provider: str) -> tuple[list[BaseMessage], dict[str, Any]]:
    """The messages after the latest answer that the provider keeps, and what refers to it.

    The system's leading texts become instructions: those are not kept with an answer, so that they are always today's.
    """
    lead: list[str] = []
    for message in messages:
        if not isinstance(message, SystemMessage) or not isinstance(message.content, str):
            break
        lead.append(message.content)
    added: dict[str, Any] = {"instructions": "\n\n".join(lead)} if lead else {}
    for place in range(len(messages) - 1, len(lead) - 1, -1):
        facts = messages[place].response_metadata
        if str(facts.get("id", "")).startswith("resp_") and facts.get("model_provider") in (None, provider):
            if place + 1 == len(messages):
                break  # nothing new was said
            return messages[place + 1 :], {**added, "previous_response_id": facts["id"]}
    return messages[len(lead) :] or messages, added if len(lead) < len(messages) else {}


# -- tools and formats


def _add_tools(body: dict[str, Any], kwargs: Mapping[str, Any]) -> None:
    tools = kwargs.get("tools")
    if not tools:
        return
    from runwell.models.tool_choice import tool_choice_for
    from runwell.schemas.dialects import function_definition

    definitions = [function_definition(tool) for tool in tools]
    body["tools"] = [_tool(definition) for definition in definitions]
    choice = kwargs.get("tool_choice")
    if choice is not None:
        body["tool_choice"] = _choice(tool_choice_for(choice, definitions))
    if kwargs.get("parallel_tool_calls") is not None:
        body["parallel_tool_calls"] = kwargs["parallel_tool_calls"]


def _tool(definition: Mapping[str, Any]) -> dict[str, Any]:
    inner = definition.get(str(definition.get("type")))
    if definition.get("type") not in ("function", "custom") or not isinstance(inner, Mapping):
        return dict(definition)
    tool = {**definition, **inner}
    del tool[definition["type"]]
    if definition["type"] == "function":
        tool.setdefault("strict", False)  # which is not the API's default
    return tool


def _choice(choice: Any) -> Any:
    if not isinstance(choice, Mapping):
        return choice
    inner = choice.get(str(choice.get("type")))
    return {"type": choice["type"], "name": inner["name"]} if isinstance(inner, Mapping) else dict(choice)


def _format(asked: Any) -> dict[str, Any]:
    """A response format as this API writes it."""
    inner = asked.get("json_schema")
    return {"type": "json_schema", **inner} if isinstance(inner, Mapping) else dict(asked)
