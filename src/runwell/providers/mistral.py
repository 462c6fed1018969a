"""Mistral's models, through Mistral's own SDK."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from json import loads
from typing import Any, ClassVar

from runwell.errors import InvalidHistory, ModelConnectionError, ModelTimeout
from runwell.messages.message import BaseMessage
from runwell.models.openai_wire import ChunkReader, message_from_wire, messages_to_wire
from runwell.models.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from runwell.models.system_place import system_first
from runwell.models.wire_errors import error_from_wire
from runwell.providers.clients import Clients
from runwell.providers.mistral_clients import MistralClients
from runwell.providers.vendor_model import FIRST_OUTPUT_S, VendorModel

__all__ = ["ChatMistralAI"]

_PASSED = (
    "temperature",
    "top_p",
    "max_tokens",
    "random_seed",
    "presence_penalty",
    "frequency_penalty",
    "safe_prompt",
    "prompt_mode",
    "reasoning_effort",
)
"""Arguments that go into each request as they are, when set."""

_SENT_APART = frozenset({"tools", "tool_choice", "timeout", "extra_body", "extra_headers", "response_format", "seed"})
_FINISH = {"model_length": "length"}
_CALL_ID = re.compile(r"[a-zA-Z0-9]{9}")


class ChatMistralAI(VendorModel):
    """A model behind Mistral's chat API.

    `base_url` is where requests go: Mistral itself unless given; environment variables change it only with
    `base_url="env"`, which reads MISTRAL_BASE_URL. `api_key` is a text; without it MISTRAL_API_KEY is read, and
    MissingApiKey raised if that is not set either. What the API does not name goes in `model_kwargs`, if the SDK takes
    it.

    The API takes system messages at the top only: a later one goes there, and that is recorded as a decision of the
    seat B9. It takes ids of calls in nine letters and digits: others are sent as nine made from them. `timeout` is how
    many seconds the first output may take (600), `stream_idle_timeout` each further chunk (120). Async calls keep one
    client per event loop, plain calls one; all may run at once.
    """

    model: str = ""
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    random_seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stop: list[str] | str | None = None
    safe_prompt: bool | None = None
    prompt_mode: str | None = None
    reasoning_effort: str | None = None

    provider: ClassVar[str] = "mistralai"
    _aliases: ClassVar[dict[str, str]] = {
        "model_name": "model",
        "mistral_api_key": "api_key",
        "endpoint": "base_url",
        "seed": "random_seed",
        "stop_sequences": "stop",
    }

    strict_tools: ClassVar[bool] = True
    system_in_middle: ClassVar[str] = "at the top (B9)"

    sdk: ClassVar[str] = "mistralai"
    extra: ClassVar[str] = "mistral"
    default_base_url: ClassVar[str] = "https://api.mistral.ai"
    url_variable: ClassVar[str] = "MISTRAL_BASE_URL"
    key_variable: ClassVar[str] = "MISTRAL_API_KEY"
    clients: ClassVar[type[Clients]] = MistralClients
    answers_with: ClassVar[str] = "a chat completion"

    # -- the request

    def _request(
        self, messages: list[BaseMessage], stop: Any, kwargs: Mapping[str, Any], stream: bool
    ) -> dict[str, Any]:
        request: dict[str, Any] = {"model": self.model, "messages": _wire(system_first(messages, self))}
        request |= {name: getattr(self, name) for name in _PASSED if getattr(self, name) is not None}
        stop = stop if stop is not None else self.stop
        if stop:
            request["stop"] = [stop] if isinstance(stop, str) else list(stop)
        request.update(self.model_kwargs)
        request |= {name: value for name, value in kwargs.items() if name not in _SENT_APART and value is not None}
        if kwargs.get("seed") is not None:
            request["random_seed"] = kwargs["seed"]
        if kwargs.get("response_format") is not None:
            request["response_format"] = _response_format(kwargs["response_format"])
        self._add_tools(request, kwargs)
        request.update(self.extra_body)
        request.update(kwargs.get("extra_body") or {})
        request["http_headers"] = {**self.default_headers, **(kwargs.get("extra_headers") or {})}
        seconds = kwargs.get("timeout", self.timeout)
        request["timeout_ms"] = round(1000 * (seconds if isinstance(seconds, int | float) else FIRST_OUTPUT_S))
        return request

    def _strict_schema(self, schema: dict[str, Any], whose: str) -> dict[str, Any]:
        from runwell.schemas.mistral import mistral_schema

        return mistral_schema(schema, whose)

    def _check_tool(self, definition: Mapping[str, Any]) -> None:
        from runwell.schemas.dialects import convert_to_mistral_tool

        convert_to_mistral_tool(definition)

    def _add_tools(self, request: dict[str, Any], kwargs: Mapping[str, Any]) -> None:
        tools = kwargs.get("tools")
        if not tools:
            request.pop("parallel_tool_calls", None)
            return
        from runwell.models.tool_choice import tool_choice_for
        from runwell.schemas.dialects import convert_to_mistral_tool

        request["tools"] = [convert_to_mistral_tool(tool) for tool in tools]
        choice = kwargs.get("tool_choice")
        if choice is not None:
            request["tool_choice"] = tool_choice_for(choice, request["tools"])

    def _post(self, client: Any, request: Any) -> Any:
        return client.chat.complete(**request)

    async def _apost(self, client: Any, request: Any) -> Any:
        return await client.chat.complete_async(**request)

    def _begin(self, client: Any, request: Any) -> Any:
        return client.chat.stream(**request)

    async def _abegin(self, client: Any, request: Any) -> Any:
        return await client.chat.stream_async(**request)

    # -- what comes back

    def _result(self, answer: Any, request: Any) -> ChatResult:
        said = answer.model_dump(mode="json")
        if not said.get("choices"):
            raise self._unreadable(repr(said)[:200], ValueError("no choices"))
        generations = []
        for choice in said["choices"]:
            message = message_from_wire(choice["message"], said.get("usage"))
            message.additional_kwargs.pop("prefix", None)
            reason = choice.get("finish_reason")
            message.response_metadata = {
                "finish_reason": _FINISH.get(reason, reason),
                "model_name": said.get("model"),
                "id": said.get("id"),
            }
            generations.append(ChatGeneration(message))
        return ChatResult(generations, {"model_name": said.get("model"), "token_usage": said.get("usage")})

    def _reader(self, request: Any) -> Any:
        return _Reader()

    def _translated(self, error: Exception) -> Exception:
        import httpx2
        from mistralai.client.errors import MistralError, ResponseValidationError

        who = self.base_url or ""
        if isinstance(error, httpx2.TimeoutException):
            return ModelTimeout(
                f"{who} gave no answer in time.", hint="timeout= sets how long the first output may take."
            )
        if isinstance(error, httpx2.TransportError):
            return ModelConnectionError(f"{who} was not reached, or the connection broke: {error}.")
        if isinstance(error, ResponseValidationError) or (isinstance(error, MistralError) and error.status_code < 400):
            return self._unreadable(repr(error.body[:200]), ValueError("it does not fit"))
        if isinstance(error, MistralError):
            try:
                body = loads(error.body)
            except ValueError:
                body = None
            if isinstance(body, dict) and "message" not in body and isinstance(body.get("detail"), str):
                body["message"] = body["detail"]
            return error_from_wire(error.status_code, body, headers=error.headers, text=error.body[:500], who=who)
        return error


class _Reader:
    """The API's events, which are OpenAI's inside the SDK's."""

    __slots__ = ("_inner",)

    def __init__(self) -> None:
        self._inner = ChunkReader()

    def take(self, event: Any) -> Any:
        said = event.data.model_dump(mode="json")
        for choice in said.get("choices") or ():
            choice["finish_reason"] = _FINISH.get(choice.get("finish_reason"), choice.get("finish_reason"))
        return self._inner.take(said)

    def end(self, who: str | None) -> ChatGenerationChunk:
        return self._inner.end(who)


def _wire(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """The request's `messages`: pictures of results in place, ids as the API takes them."""
    wire: list[dict[str, Any]] = []
    for message in messages:
        try:
            sent = messages_to_wire([message])
        except InvalidHistory:
            messages_to_wire(messages)  # which names the place
            raise
        first = sent[0]
        if len(sent) > 1:  # the media of a result
            texts = first["content"] if isinstance(first["content"], list) else []
            first["content"] = [*texts, *sent[1]["content"][1:]]
        if "tool_call_id" in first:
            first["tool_call_id"] = _call_id(first["tool_call_id"])
        for call in first.get("tool_calls") or ():
            call["id"] = _call_id(call["id"])
        wire.append(first)
    return wire


def _call_id(given: str | None) -> str:
    if given is not None and _CALL_ID.fullmatch(given):
        return given
    return sha256((given or "").encode()).hexdigest()[:9]


def _response_format(asked: Any) -> Any:
    """A dict as it is; a class as the JSON schema of its fields."""
    if isinstance(asked, Mapping):
        return asked
    from runwell.schemas.strict import strict_schema
    from runwell.schemas.structured import StructuredSchema

    read = StructuredSchema(asked)
    schema = strict_schema(read.json_schema, f"The answer {read.name}")
    return {"type": "json_schema", "json_schema": {"name": read.name, "schema": schema, "strict": True}}
