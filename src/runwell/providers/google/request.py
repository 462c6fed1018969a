"""The body of a request to Gemini's API beside its messages: settings at their places, tools, choices, formats."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from runwell.errors import InvalidConfig
from runwell.models.tool_choice import tool_choice_for

__all__ = ["SERVED", "Request", "body_of", "shared_tools"]

_TOP = frozenset(
    {"safetySettings", "cachedContent", "labels", "serviceTier", "store", "toolConfig", "modelArmorConfig"}
    | {"continuationToken", "systemInstruction"}
)
"""What stands beside `generationConfig`; all else is in it."""

_OTHER_NAMES = {
    "maxTokens": "maxOutputTokens",
    "maxCompletionTokens": "maxOutputTokens",
    "stop": "stopSequences",
    "n": "candidateCount",
}
SERVED = frozenset(
    {"google_search", "google_search_retrieval", "google_maps", "code_execution", "url_context", "file_search"}
    | {"computer_use", "enterprise_web_search", "retrieval", "mcp_servers", "parallel_ai_search", "exa_ai_search"}
)
"""Tools that Google runs, or describes to its models itself."""
_CITING = SERVED - {"code_execution", "computer_use", "mcp_servers"}
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY", "any": "ANY"}


def body_of(settings: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """The body that settings make, those of the call over those of the model; names in snake or camel case."""
    body: dict[str, Any] = {}
    config: dict[str, Any] = {}
    for given in (settings, asked):
        for name, value in given.items():
            key = _camel(name)
            key = _OTHER_NAMES.get(key, key)
            if key == "responseFormat":
                config |= _format(value)
            elif key == "thinkingBudget" or key == "thinkingLevel" or key == "includeThoughts":
                value = value.upper() if key == "thinkingLevel" else value
                config["thinkingConfig"] = {**_other_thinking(config.get("thinkingConfig"), key), key: value}
            elif key in _TOP:
                body[key] = _safety(value) if key == "safetySettings" else value
            elif key == "generationConfig":
                config |= value
            elif key == "stopSequences":
                config[key] = [value] if isinstance(value, str) else list(value)
            else:
                config[key] = value
    if config.get("stopSequences") == []:
        del config["stopSequences"]
    if config:
        body["generationConfig"] = config
    return body


def _camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)


def _other_thinking(config: Mapping[str, Any] | None, key: str) -> dict[str, Any]:
    """A level takes the place of a budget, and a budget that of a level."""
    rival = {"thinkingBudget": "thinkingLevel", "thinkingLevel": "thinkingBudget"}.get(key)
    return {name: value for name, value in (config or {}).items() if name != rival}


def _safety(given: Any) -> list[dict[str, Any]]:
    if isinstance(given, Mapping):
        return [{"category": _text(category), "threshold": _text(level)} for category, level in given.items()]
    if isinstance(given, Sequence) and all(isinstance(each, Mapping) and "category" in each for each in given):
        return [{key: _text(value) for key, value in each.items()} for each in given]
    raise InvalidConfig(
        f"safety_settings={given!r} is no list of categories with thresholds.",
        hint='{"HARM_CATEGORY_HARASSMENT": "BLOCK_NONE"}',
    )


def _text(value: Any) -> str:
    """A text, or the name of an enumeration's member."""
    if isinstance(value, str):
        return str(getattr(value, "value", value))
    name = getattr(value, "name", None)
    if isinstance(name, str):
        return name
    raise InvalidConfig(f"{value!r} is no name of a category or threshold of safety_settings.")


def _format(asked: Any) -> dict[str, Any]:
    """A response format as the API writes it, from the one that all models share, or from a class."""
    if isinstance(asked, Mapping):
        described = asked.get("json_schema")
        if isinstance(described, Mapping):
            return _json(described["schema"], described.get("name", ""))
        if asked.get("type") == "json_object":
            return {"responseMimeType": "application/json"}
        if asked.get("type") == "text":
            return {"responseMimeType": "text/plain"}
        return _json(asked, str(asked.get("title", "")))
    from runwell.schemas.structured import StructuredSchema

    read = StructuredSchema(asked)
    return _json(read.json_schema, read.name)


def _json(schema: Mapping[str, Any], name: str) -> dict[str, Any]:
    from runwell.schemas.gemini import gemini_schema

    return {
        "responseMimeType": "application/json",
        "responseJsonSchema": gemini_schema(dict(schema), f"The answer {name}"),
    }


def shared_tools(tool: Any) -> list[Any]:
    """A tool in the forms that all models share: what Google runs as dicts with their `type`, its declarations of
    functions as definitions. Any other as it is."""
    dump = getattr(tool, "model_dump", None)
    if dump is not None and type(tool).__module__.startswith("google.genai"):
        tool = dump(mode="json", exclude_none=True)
    if not isinstance(tool, Mapping) or not tool or "type" in tool:
        return [tool]
    found: list[Any] = []
    for name, said in tool.items():
        kind = re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", str(name))
        if kind == "function_declarations":
            found += map(_function, said)
        elif kind in SERVED and isinstance(said, Mapping):
            found.append({"type": kind, **said})
        else:
            return [tool]
    return found


def _function(declared: Any) -> dict[str, Any]:
    dump = getattr(declared, "model_dump", None)
    said = dict(dump(mode="json", exclude_none=True) if dump is not None else declared)
    schema = said.get("parameters_json_schema") or said.get("parametersJsonSchema") or _lowered(said.get("parameters"))
    function = {"name": said.get("name"), "description": said.get("description", "")}
    return {"type": "function", "function": {**function, "parameters": schema or {"type": "object", "properties": {}}}}


def _lowered(schema: Any) -> Any:
    """A schema in Google's older form, whose types are in capitals, as JSON schema."""
    if isinstance(schema, list):
        return [_lowered(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    lowered = {key: _lowered(value) for key, value in schema.items() if key != "nullable"}
    kind = lowered.get("type")
    if isinstance(kind, str):
        lowered["type"] = [kind.lower(), "null"] if schema.get("nullable") else kind.lower()
    return lowered


class Request:
    """One request: where it goes, its body, and what the SDK is told about sending it."""

    __slots__ = ("body", "may_cite", "options", "path")

    def __init__(self, path: str, body: dict[str, Any]) -> None:
        self.path = path
        self.body = body
        self.options: dict[str, Any] = {}
        self.may_cite = False
        """Whether the answer may name sources, which come after the text they are of."""

    def going_on(self, token: str | None) -> Request:
        """The request for the next part of a long answer; this one without a token."""
        if token is None:
            return self
        further = Request(self.path, {**self.body, "continuationToken": token})
        further.options, further.may_cite = self.options, self.may_cite
        return further

    def add_tools(self, tools: Sequence[Any], choice: Any, *, circulates: bool) -> None:
        """The tools and which of them to call. Google's tells of the calls that it ran itself beside ours only when
        asked, where it can (`circulates`)."""
        if not tools:
            return
        from runwell.schemas.dialects import convert_to_gemini_tool, function_definition

        definitions = [function_definition(each) for tool in tools for each in shared_tools(tool)]
        functions = [each for each in definitions if each.get("type") == "function"]
        own = [each for each in definitions if each.get("type") != "function"]
        sent: list[dict[str, Any]] = []
        if functions:
            sent.append({"functionDeclarations": [_declared(convert_to_gemini_tool(each)) for each in functions]})
        sent += [{_camel(each["type"]): {key: value for key, value in each.items() if key != "type"}} for each in own]
        self.body["tools"] = sent
        self.may_cite = any(each["type"] in _CITING for each in own)
        config = self._calling(functions, tool_choice_for(choice, definitions) if choice is not None else None)
        told: dict[str, Any] = {"functionCallingConfig": config} if config else {}
        if functions and own and circulates:
            told["includeServerSideToolInvocations"] = True
        if told:
            self.body["toolConfig"] = {**told, **self.body.get("toolConfig", {})}

    def _calling(self, functions: list[dict[str, Any]], choice: Any) -> dict[str, Any]:
        if isinstance(choice, Mapping):
            function = choice.get("function")
            if isinstance(function, Mapping):
                return {"mode": "ANY", "allowedFunctionNames": [function["name"]]}
            return {} if "type" in choice else dict(choice)
        if choice in (None, "auto") and any(each["function"].get("strict") for each in functions):
            return {"mode": "VALIDATED"}
        return {"mode": _MODES[choice]} if choice is not None else {}

    def add_extra(self, *extras: Mapping[str, Any]) -> None:
        """What a program adds to the body; parts of `generationConfig` and the like beside those that are there."""
        for extra in extras:
            _update(self.body, extra)


def _declared(tool: Mapping[str, Any]) -> dict[str, Any]:
    declared = {key: tool[key] for key in ("name", "description") if tool.get(key)}
    if "parameters_json_schema" in tool:
        declared["parametersJsonSchema"] = tool["parameters_json_schema"]
    return declared


def _update(body: dict[str, Any], extra: Mapping[str, Any]) -> None:
    for key, value in extra.items():
        if isinstance(value, Mapping) and isinstance(body.get(key), dict):
            _update(body[key], value)
        else:
            body[key] = value
