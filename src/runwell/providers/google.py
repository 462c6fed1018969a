"""Google's Gemini models, on its developer API and on Vertex AI, through Google's own SDK."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from json import loads
from typing import Any, ClassVar

from runwell.errors import InvalidConfig, ModelConnectionError, ModelTimeout, UnsupportedByProvider
from runwell.messages.message import BaseMessage
from runwell.models.google_answer import ChunkReader, message_from_wire
from runwell.models.google_errors import google_error
from runwell.models.google_request import Request, body_of, server_tool
from runwell.models.google_wire import messages_to_wire
from runwell.models.outputs import ChatGeneration, ChatResult
from runwell.models.profile import profile_of
from runwell.models.system_place import system_first
from runwell.providers.clients import Clients
from runwell.providers.google_clients import GoogleClients
from runwell.providers.google_hops import AsyncHops, Hops, next_token
from runwell.providers.vendor_embeddings import with_retries, with_retries_async
from runwell.providers.vendor_model import VendorModel

__all__ = ["ChatGoogleGenerativeAI", "ChatVertexAI"]

_PASSED = (
    "temperature",
    "top_p",
    "top_k",
    "max_output_tokens",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "response_logprobs",
    "logprobs",
    "response_modalities",
    "response_mime_type",
    "response_schema",
    "response_json_schema",
    "n",
    "media_resolution",
    "speech_config",
    "image_config",
    "safety_settings",
    "cached_content",
    "labels",
    "service_tier",
)
"""Arguments that go into each request, when set."""

_SENT_APART = frozenset({"tools", "tool_choice", "parallel_tool_calls", "timeout", "extra_body", "extra_headers"})
_REGIONS_OF_MANY = ("us", "eu")
_OLDER = re.compile(r"(?:.*/)?(?:gemini-[12](?![0-9])|gemini-pro|gemma|learnlm)")


class ChatGoogleGenerativeAI(VendorModel):
    """A Gemini model behind `generateContent`.

    `base_url` is where requests go: Google's developer API unless given; environment variables change it only with
    `base_url="env"`, which reads GOOGLE_GEMINI_BASE_URL. `api_key` is a text; without it GOOGLE_API_KEY is read, then
    GEMINI_API_KEY, and MissingApiKey raised if neither is set.

    With `vertexai=True` requests go to Vertex AI, in the `project` and `location` ("global" unless given) that are
    named here; no variable moves them. `credentials` are of `google-auth`; without them the machine's own (application
    default credentials) are looked for at the first call. An `api_key` alone is Vertex AI's express mode.

    `thinking_level` ("minimal", "low", "medium", "high") or, for older models, `thinking_budget` in tokens say how long
    it thinks (0: not at all, -1: as it sees fit), `include_thoughts` whether it tells. `safety_settings` are a dict of
    categories and thresholds, or the API's list. Tools that Google runs are bound as dicts: `{"type": "google_search"}`
    or `{"google_search": {}}`. What no parameter is named for goes in `model_kwargs` under the API's name.

    The API takes system messages at the top only: a later one goes there, and that is recorded as a decision of the
    seat B9. `timeout` is how many seconds the first output may take (600), `stream_idle_timeout` each further chunk
    (120). Async calls keep one client per event loop, plain calls one; all may run at once.
    """

    model: str = ""
    temperature: float | None = None
    max_output_tokens: int | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: list[str] | str | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    response_logprobs: bool | None = None
    logprobs: int | None = None
    thinking_budget: int | None = None
    thinking_level: str | None = None
    include_thoughts: bool | None = None
    response_modalities: list[str] | None = None
    response_mime_type: str | None = None
    response_schema: Any = None
    response_json_schema: Any = None
    n: int | None = None
    media_resolution: str | None = None
    speech_config: dict[str, Any] | None = None
    image_config: dict[str, Any] | None = None
    safety_settings: Any = None
    cached_content: str | None = None
    labels: dict[str, str] | None = None
    service_tier: str | None = None
    vertexai: bool = False
    project: str | None = None
    location: str | None = None
    credentials: Any = None
    api_version: str | None = None

    provider: ClassVar[str] = "google_genai"
    any_block: ClassVar[bool] = True
    _aliases: ClassVar[dict[str, str]] = {
        "model_name": "model",
        "google_api_key": "api_key",
        "gemini_api_key": "api_key",
        "max_tokens": "max_output_tokens",
        "stop_sequences": "stop",
        "request_timeout": "timeout",
        "reasoning_effort": "thinking_level",
        "additional_headers": "default_headers",
    }

    turns_parallel_off: ClassVar[bool] = False
    media: ClassVar[tuple[str, ...]] = ("image", "audio", "video", "file")
    system_in_middle: ClassVar[str] = "at the top (B9)"
    media_in_results: ClassVar[str] = "in place from Gemini 3 on, else in a user's message after it"

    sdk: ClassVar[str] = "google.genai"
    extra: ClassVar[str] = "google"
    default_base_url: ClassVar[str] = "https://generativelanguage.googleapis.com"
    url_variable: ClassVar[str] = "GOOGLE_GEMINI_BASE_URL"
    key_variable: ClassVar[str] = "GOOGLE_API_KEY"
    clients: ClassVar[type[Clients]] = GoogleClients
    answers_with: ClassVar[str] = "an answer of Gemini's API"

    def model_post_init(self, context: Any) -> None:
        self._check_account()
        super().model_post_init(context)
        if self.api_version is None:
            self.api_version = "v1beta1" if self.vertexai else "v1beta"
        if self.thinking_budget is not None and self.thinking_level is not None:
            raise InvalidConfig(
                "thinking_budget and thinking_level say the same in two ways; got both.",
                hint="thinking_level for Gemini 3 and later, thinking_budget for earlier models.",
            )
        body_of(self._settings(), {})  # what cannot be sent is refused now
        if self.profile is None:
            self.profile = profile_of(ChatGoogleGenerativeAI.provider, self.model.rpartition("/")[2])

    def _check_account(self) -> None:
        if not self.vertexai:
            for name in ("project", "location", "credentials"):
                if getattr(self, name) is not None:
                    raise InvalidConfig(
                        f"{name}= is of Vertex AI; the developer API knows only a key.", hint="Add vertexai=True."
                    )
        elif self.api_key is None and self.project is None:
            raise InvalidConfig(
                "Vertex AI needs the project that pays.",
                hint='project="my-project", with credentials= or the machine\'s own; or api_key= for express mode.',
            )
        elif self.api_key is not None and (self.project is not None or self.credentials is not None):
            raise InvalidConfig(
                "Vertex AI takes an api_key, or a project with credentials; got both.",
                hint="Leave api_key out, or project and credentials.",
            )
        elif self.project is not None and self.location is None:
            self.location = "global"

    def _resolve_base_url(self) -> str:
        if self.vertexai and self.base_url is None:
            where = self.location
            if where in (None, "global"):
                self.base_url = "https://aiplatform.googleapis.com"
            elif where in _REGIONS_OF_MANY:
                self.base_url = f"https://aiplatform.{where}.rep.googleapis.com"
            else:
                self.base_url = f"https://{where}-aiplatform.googleapis.com"
        return super()._resolve_base_url()

    def _resolve_key(self) -> Any:
        if self.vertexai and self.api_key is None:
            return None
        if self.api_key is None and not os.environ.get(self.key_variable):
            self.api_key = os.environ.get("GEMINI_API_KEY")
        return super()._resolve_key()

    @property
    def _newer(self) -> bool:
        """Whether it is a model from Gemini 3 on, which signs its calls and sees the pictures of results."""
        return _OLDER.match(self.model) is None

    # -- the request

    def _settings(self) -> dict[str, Any]:
        settings = {name: getattr(self, name) for name in _PASSED}
        thinking = {
            "includeThoughts": self.include_thoughts,
            "thinkingBudget": self.thinking_budget,
            "thinkingLevel": self.thinking_level and self.thinking_level.upper(),
        }
        settings["thinking_config"] = {key: value for key, value in thinking.items() if value is not None} or None
        settings["stop_sequences"] = self.stop
        return {name: value for name, value in settings.items() if value is not None}

    def _request(self, messages: list[BaseMessage], stop: Any, kwargs: Mapping[str, Any], stream: bool) -> Request:
        system, contents = messages_to_wire(system_first(messages, self), newer=self._newer)
        asked = {name: value for name, value in kwargs.items() if name not in _SENT_APART and value is not None}
        if stop is not None:
            asked["stop_sequences"] = stop
        body = body_of({**self._settings(), **self.model_kwargs}, asked)
        if stream and body.get("generationConfig", {}).get("candidateCount", 1) != 1:
            raise UnsupportedByProvider("A stream gives one answer; n > 1 is for invoke and generate.")
        request = Request(self._path("streamGenerateContent?alt=sse" if stream else "generateContent"), body)
        body["contents"] = contents
        if system is not None:
            body["systemInstruction"] = system
        request.add_tools(kwargs.get("tools") or (), kwargs.get("tool_choice"), circulates=not self.vertexai)
        if not self._newer and "functionDeclarations" in str(body.get("tools")) and _has_format(body):
            raise UnsupportedByProvider(
                f"{self.model!r} takes no format of the answer beside tools.",
                hint='with_structured_output(..., method="function_calling"), or a model from Gemini 3 on.',
            )
        request.add_extra(self.extra_body, kwargs.get("extra_body") or {})
        request.options = {"headers": kwargs.get("extra_headers"), "timeout": kwargs.get("timeout", self.timeout)}
        return request

    def _path(self, method: str) -> str:
        name = self.model
        if self.vertexai and not name.startswith(("projects/", "publishers/")):
            publisher, slash, rest = name.removeprefix("models/").partition("/")
            name = f"publishers/{publisher}/models/{rest}" if slash else f"publishers/google/models/{publisher}"
        elif not self.vertexai and not name.startswith(("models/", "tunedModels/")):
            name = f"models/{name}"
        return f"{name}:{method}"

    def _options(self, client: Any, request: Request) -> dict[str, Any]:
        return {**request.options, "timeout": self._timeout(request.options["timeout"], _timeout_of(client.http))}

    def _strict_schema(self, schema: dict[str, Any], whose: str) -> dict[str, Any]:
        from runwell.schemas.gemini import gemini_schema

        return gemini_schema(schema, whose)

    def _check_tool(self, definition: Mapping[str, Any]) -> None:
        from runwell.schemas.dialects import convert_to_gemini_tool

        convert_to_gemini_tool(definition)

    def _check_answer(self, described: Mapping[str, Any]) -> None:
        body_of({"response_format": {"json_schema": described}}, {})

    def _tool_kwargs(
        self, tools: Sequence[Any], tool_choice: Any, strict: bool | None, parallel_tool_calls: bool | None
    ) -> dict[str, Any]:
        return super()._tool_kwargs([server_tool(tool) for tool in tools], tool_choice, strict, parallel_tool_calls)

    def _sent(self, client: Any, request: Request) -> Any:
        return client.post(request.path, request.body, self._options(client, request))

    async def _asent(self, client: Any, request: Request) -> Any:
        return await client.post(request.path, request.body, self._options(client, request))

    def _post(self, client: Any, request: Request) -> list[Any]:
        """The parts of an answer: one, but where it is long."""
        parts = [self._decoded(self._sent(client, request))]
        while (token := next_token(parts[-1])) is not None:
            parts.append(self._decoded(self._sent(client, request.going_on(token))))
        return parts

    async def _apost(self, client: Any, request: Request) -> list[Any]:
        parts = [self._decoded(await self._asent(client, request))]
        while (token := next_token(parts[-1])) is not None:
            parts.append(self._decoded(await self._asent(client, request.going_on(token))))
        return parts

    def _begin(self, client: Any, request: Request) -> Any:
        options = self._options(client, request)
        return Hops(lambda token: client.stream(request.path, request.going_on(token).body, options))

    async def _abegin(self, client: Any, request: Request) -> Any:
        options = self._options(client, request)
        return await AsyncHops.started(lambda token: client.stream(request.path, request.going_on(token).body, options))

    # -- counting

    def count_tokens(self, messages: Any, tools: Sequence[Any] | None = None) -> int:
        """How many tokens a request of these messages and tools is, as the API counts them: it is asked.
        `get_num_tokens_from_messages` estimates, and asks nobody."""
        request = self._count_request(messages, tools)
        send, read = (lambda client: self._sent(client, request)), self._total_tokens
        return int(with_retries(self, send, read, self.max_retries, self.retry_policy))

    async def acount_tokens(self, messages: Any, tools: Sequence[Any] | None = None) -> int:
        """As `count_tokens`."""
        request = self._count_request(messages, tools)
        send, read = (lambda client: self._asent(client, request)), self._total_tokens
        return int(await with_retries_async(self, send, read, self.max_retries, self.retry_policy))

    def _count_request(self, messages: Any, tools: Sequence[Any] | None) -> Request:
        kwargs = self._tool_kwargs(tools, None, None, None) if tools else {}
        request = self._request(self._messages(messages), None, kwargs, False)
        request.path = self._path("countTokens")
        if not self.vertexai:
            request.body = {"generateContentRequest": {"model": self._path("")[:-1], **request.body}}
        return request

    def _total_tokens(self, answer: Any) -> int:
        _, text = answer
        try:
            return int(loads(text)["totalTokens"])
        except (ValueError, KeyError, TypeError) as error:
            raise self._unreadable(f"{text[:200]!r}", error) from None

    # -- what comes back

    def _reader(self, request: Request) -> ChunkReader:
        return ChunkReader(request.may_cite, self.base_url or "")

    def _decoded(self, answer: Any) -> Any:
        """A part of an answer. One that holds nothing is none, unless it says that the prompt was blocked."""
        headers, text = answer
        try:
            said = loads(text)
        except ValueError as error:
            raise self._unreadable(f"{text[:200]!r}", error) from None
        if isinstance(said, dict) and (said.get("candidates") or (said.get("promptFeedback") or {}).get("blockReason")):
            return said
        if isinstance(said, dict) and said.get("error"):  # with status 200
            raise google_error(None, said, headers=headers, who=self.base_url or "")
        raise self._unreadable(f"{text[:200]!r}", ValueError("no candidates"))

    def _result(self, answer: list[Any], request: Request) -> ChatResult:
        rich, who = request.may_cite, self.base_url or ""
        said = answer[-1]
        several = range(len(answer[0].get("candidates") or ()) or 1)
        messages = [message_from_wire(answer, place, rich=rich, who=who) for place in several]
        return ChatResult(
            [ChatGeneration(message) for message in messages],
            {"model_name": said.get("modelVersion"), "token_usage": said.get("usageMetadata")},
        )

    def _not_to_show(self) -> list[str]:
        token = getattr(self.credentials, "token", None)
        return [*super()._not_to_show(), *([token] if isinstance(token, str) and token else [])]

    def _translated(self, error: Exception) -> Exception:
        """Our error for the SDK's, or for its HTTP client's, which it lets through."""
        from google.auth.exceptions import GoogleAuthError
        from google.genai.errors import APIError, UnknownApiResponseError

        from runwell.errors import ModelAuthenticationError

        who = self.base_url or ""
        name = _http_error(error)
        if name == "timeout":
            return ModelTimeout(
                f"{who} gave no answer in time.", hint="timeout= sets how long the first output may take."
            )
        if name == "transport":
            return ModelConnectionError(f"{who} was not reached, or the connection broke: {error}.")
        if isinstance(error, APIError):
            text = str(error.message or error.details)[:500]
            headers = getattr(error.response, "headers", None) or {}
            return google_error(error.code, error.details, headers=headers, text=text, who=who)
        if isinstance(error, UnknownApiResponseError):
            return self._unreadable("a stream event that is no JSON", error)
        if isinstance(error, GoogleAuthError):
            return ModelAuthenticationError(
                f"Google gave no token for {who}: {error}.", hint="Pass credentials=, or see to the machine's own."
            )
        return error


def _has_format(body: Mapping[str, Any]) -> bool:
    return "responseMimeType" in body.get("generationConfig", {})


class ChatVertexAI(ChatGoogleGenerativeAI):
    """`ChatGoogleGenerativeAI` with `vertexai=True`."""

    vertexai: bool = True

    provider: ClassVar[str] = "google_vertexai"
    default_base_url: ClassVar[str] = "https://aiplatform.googleapis.com"
    url_variable: ClassVar[str] = "GOOGLE_VERTEX_BASE_URL"
    keyed_by: ClassVar[str] = "`project` and `credentials`, or `api_key`"


def _http_module(thing: Any) -> Any:
    """The HTTP library that a client or an error is of: the SDK takes httpx2 and httpx."""
    from importlib import import_module

    for kind in type(thing).__mro__:
        name = kind.__module__.partition(".")[0]
        if name in ("httpx", "httpx2"):
            return import_module(name)
    return None


def _timeout_of(http: Any) -> Any:
    import httpx2

    return (_http_module(http) or httpx2).Timeout


def _http_error(error: Exception) -> str:
    module = _http_module(error)
    if module is None:
        return ""
    if isinstance(error, module.TimeoutException):
        return "timeout"
    return "transport" if isinstance(error, module.TransportError) else ""
