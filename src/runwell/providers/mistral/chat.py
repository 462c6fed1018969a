"""Mistral's models, through Mistral's own SDK."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from json import loads
from typing import Any, ClassVar

from runwell.errors import InvalidInput, ModelConnectionError, ModelTimeout
from runwell.messages.message import BaseMessage
from runwell.models.media_places import NONE, Places
from runwell.models.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from runwell.models.profile import profile_of
from runwell.models.system_place import system_first
from runwell.models.turns import with_answers
from runwell.models.wire_errors import error_from_wire
from runwell.providers.clients import Clients
from runwell.providers.http_library import REACH, ended
from runwell.providers.mistral.clients import MistralClients
from runwell.providers.mistral.wire import FINISH, OWN, ChunkReader, message_from_wire, messages_to_wire
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


class ChatMistralAI(VendorModel):
    """A model behind Mistral's chat API.

    `base_url` is where requests go: Mistral itself unless given; environment variables change it only with
    `base_url="env"`, which reads MISTRAL_BASE_URL. `api_key` is a text; without it MISTRAL_API_KEY is read, and
    MissingApiKey raised if that is not set either. What the API does not name goes in `model_kwargs`, if the SDK takes
    it.

    The API takes system messages at the top only: a later one goes there, and that is recorded as a decision of the
    seat B9. It takes ids of calls in nine letters and digits: others are sent as nine made from them. Thoughts and
    references stay in the message's content and go back with it. `timeout` is how many seconds the first output may
    take (600), `stream_idle_timeout` each further chunk (120). Async calls keep one client per event loop, plain calls
    one; all may run at once.
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
        "safe_mode": "safe_prompt",
    }

    strict_tools: ClassVar[bool] = True
    media: ClassVar[tuple[str, ...]] = ("image", "audio", "file")
    media_places: ClassVar[Places] = {"system": NONE} | dict.fromkeys(("human", "tool"), frozenset(media))
    own_blocks: ClassVar[frozenset[str]] = OWN
    passes_blocks: ClassVar[bool] = False
    system_in_middle: ClassVar[str] = "at the top (B9)"

    sdk: ClassVar[str] = "mistralai"
    extra: ClassVar[str] = "mistral"
    default_base_url: ClassVar[str] = "https://api.mistral.ai"
    url_variable: ClassVar[str] = "MISTRAL_BASE_URL"
    key_variable: ClassVar[str] = "MISTRAL_API_KEY"
    clients: ClassVar[type[Clients]] = MistralClients
    answers_with: ClassVar[str] = "a chat completion"

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        if self.profile is None:
            self.profile = profile_of(self.provider, self.model)

    # -- the request

    def _request(
        self, messages: list[BaseMessage], stop: Any, kwargs: Mapping[str, Any], stream: bool
    ) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self.model,
            "messages": with_answers(messages_to_wire(system_first(messages, self))),
        }
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
            reason = choice.get("finish_reason")
            self._refuse_failed(reason)
            message.response_metadata = {
                "finish_reason": FINISH.get(reason, reason),
                "model_name": said.get("model"),
                "id": said.get("id"),
            }
            generations.append(ChatGeneration(message))
        return ChatResult(generations, {"model_name": said.get("model"), "token_usage": said.get("usage")})

    def _reader(self, request: Any) -> Any:
        return _Reader(self)

    def _refuse_failed(self, reason: str | None) -> None:
        if reason == "error":
            raise self._broken_off(reason, "the answer was not finished")

    def _translated(self, error: Exception) -> Exception:
        import httpx2
        from mistralai.client.errors import MistralError, ResponseValidationError
        from pydantic import ValidationError

        who = self.base_url or ""
        if isinstance(error, httpx2.TimeoutException):
            return ModelTimeout(
                f"{who} gave no answer in time.", hint="timeout= sets how long the first output may take."
            )
        if isinstance(error, httpx2.TransportError):
            return ModelConnectionError(f"{who} was not reached, or the connection broke: {ended(error)}", hint=REACH)
        if isinstance(error, ResponseValidationError) or (isinstance(error, MistralError) and error.status_code < 400):
            return self._unreadable(repr(error.body[:200]), ValueError("it does not fit"))
        if isinstance(error, ValidationError):
            wrong = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(each) for each in wrong["loc"] if each not in ("body", "str"))
            return InvalidInput(
                f"Mistral's SDK refused the request: {place}: {wrong['msg']}.",
                hint="What it takes is what the API's description says; pip install -U mistralai may know more.",
            )
        if isinstance(error, MistralError):
            try:
                body = loads(error.body)
            except ValueError:
                body = None
            if isinstance(body, dict) and "message" not in body and isinstance(body.get("detail"), str):
                body["message"] = body["detail"]
            return error_from_wire(error.status_code, body, headers=error.headers, text=error.body[:500], who=who)
        return error


class _Reader(ChunkReader):
    """Reads the events that the SDK gives."""

    __slots__ = ("_model",)

    def __init__(self, model: ChatMistralAI) -> None:
        super().__init__()
        self._model = model

    def take(self, event: Any) -> Sequence[ChatGenerationChunk]:
        return super().take(event.data.model_dump(mode="json"))

    def end(self, who: str | None) -> ChatGenerationChunk:
        chunk = super().end(who)
        self._model._refuse_failed(chunk.message.response_metadata.get("finish_reason"))
        return chunk


def _response_format(asked: Any) -> Any:
    """A dict as it is; a class as the JSON schema of its fields."""
    if isinstance(asked, Mapping):
        return asked
    from runwell.schemas.strict import strict_schema
    from runwell.schemas.structured import StructuredSchema

    read = StructuredSchema(asked)
    schema = strict_schema(read.json_schema, f"The answer {read.name}")
    return {"type": "json_schema", "json_schema": {"name": read.name, "schema": schema, "strict": True}}
