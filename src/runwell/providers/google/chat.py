"""Google's Gemini models, on its developer API and on Vertex AI, through Google's own SDK."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from json import loads
from re import Pattern
from typing import Any, ClassVar

from runwell.errors import InvalidConfig, UnsupportedByProvider
from runwell.messages.message import BaseMessage
from runwell.models.outputs import ChatGeneration, ChatResult
from runwell.models.profile import profile_of
from runwell.models.system_place import system_first
from runwell.models.turns import BEGINS, begun_by_a_person, with_joined_answers
from runwell.observe.run import record_decision, watched
from runwell.providers.google.account import GoogleAccount
from runwell.providers.google.answer import ChunkReader, message_from_wire
from runwell.providers.google.errors import google_error
from runwell.providers.google.hops import AsyncHops, Hops, next_token
from runwell.providers.google.parts import is_part
from runwell.providers.google.request import SERVED, Request, body_of, shared_tools
from runwell.providers.google.wire import messages_to_wire
from runwell.providers.vendor_embeddings import with_retries, with_retries_async

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
_OLDER = re.compile(
    r"(?:.*/)?(?:gemini-(?:live-)?[12](?![0-9])|gemini-robotics-er-1\.5|gemini-pro(?:-vision)?$|gemma|learnlm)"
)
_WITHOUT_INSTRUCTIONS = re.compile(r"(?:.*/)?gemma-(?:1(?:\.1)?|2|3n?)(?![0-9.])")


class ChatGoogleGenerativeAI(GoogleAccount):
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

    provider: ClassVar[str] = "google_genai"
    _aliases: ClassVar[dict[str, str]] = {
        "model_name": "model",
        "google_api_key": "api_key",
        "gemini_api_key": "api_key",
        "max_tokens": "max_output_tokens",
        "stop_sequences": "stop",
        "request_timeout": "timeout",
        "retries": "max_retries",
        "reasoning_effort": "thinking_level",
        "additional_headers": "default_headers",
    }

    _not_here: ClassVar[Mapping[str, str]] = {
        "transport": "leave it out: the API is spoken over HTTP (REST).",
        "client_options": "base_url= for the address, default_headers={...} for headers.",
        "convert_system_message_to_human": "leave it out: done by itself for models that take no instructions.",
        "default_metadata": "default_headers={...}.",
        "wait_exponential_kwargs": "max_retries=; Google's own delays are waited out.",
    }

    takes_functions: ClassVar[bool] = True
    turns_parallel_off: ClassVar[bool] = False
    media: ClassVar[tuple[str, ...]] = ("image", "audio", "video", "file")
    call_names: ClassVar[Pattern[str] | None] = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
    system_in_middle: ClassVar[str] = "at the top (B9)"
    media_in_results: ClassVar[str] = "in place from Gemini 3 on, else in a user's message after it"

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        if self.thinking_budget is not None and self.thinking_level is not None:
            raise InvalidConfig(
                "thinking_budget and thinking_level say the same in two ways; got both.",
                hint="thinking_level for Gemini 3 and later, thinking_budget for earlier models.",
            )
        if self.thinking_level is not None and not isinstance(self.thinking_level, str):
            raise InvalidConfig(f'thinking_level is a text such as "low"; got {self.thinking_level!r}.')
        body_of(self._settings(), {})  # what cannot be sent is refused now
        if self.profile is None:
            self.profile = profile_of(ChatGoogleGenerativeAI.provider, self.model.rpartition("/")[2])

    @property
    def _newer(self) -> bool:
        """Whether it is a model from Gemini 3 on, which signs its calls and sees the pictures of results."""
        return _OLDER.match(self.model) is None

    @property
    def server_side_tools(self) -> frozenset[str]:
        return SERVED

    # -- the request

    def _is_own_block(self, block: Mapping[str, Any], kwargs: Mapping[str, Any]) -> bool:
        return is_part(block)

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
        if system is not None and _WITHOUT_INSTRUCTIONS.match(self.model):
            contents = [{"role": "user", "parts": system["parts"]}, *contents]
            if watched():
                record_decision("B9", "said as the user's", f"{self.model} takes no instructions", "code")
            system = None
        started = {"role": "user", "parts": [{"text": BEGINS}]}
        body["contents"] = begun_by_a_person(with_joined_answers(contents), started)
        if system is not None:
            body["systemInstruction"] = system
        request.add_tools(kwargs.get("tools") or (), kwargs.get("tool_choice"), circulates=not self.vertexai)
        if (
            not self._newer
            and any("functionDeclarations" in each for each in body.get("tools", ()))
            and _has_format(body)
        ):
            raise UnsupportedByProvider(
                f"{self.model!r} takes no format of the answer beside tools.",
                hint='with_structured_output(..., method="function_calling"), or a model from Gemini 3 on.',
            )
        if "cachedContent" in body and (system is not None or "tools" in body):
            raise UnsupportedByProvider(
                "A request with cached_content takes no instructions and no tools: the cache has its own.",
                hint="Put them in the cache when you make it, and leave out system_prompt and tools here.",
            )
        request.add_extra(self.extra_body, kwargs.get("extra_body") or {})
        request.options = {"headers": kwargs.get("extra_headers"), "timeout": kwargs.get("timeout", self.timeout)}
        return request

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
        return super()._tool_kwargs(
            [each for tool in tools for each in shared_tools(tool)], tool_choice, strict, parallel_tool_calls
        )

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
        request: Request = self._checked(self._messages(messages), None, kwargs, False)
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


def _has_functions(body: Mapping[str, Any]) -> bool:
    return any("functionDeclarations" in each for each in body.get("tools", ()))


def _has_format(body: Mapping[str, Any]) -> bool:
    return "responseMimeType" in body.get("generationConfig", {})


class ChatVertexAI(ChatGoogleGenerativeAI):
    """`ChatGoogleGenerativeAI` with `vertexai=True`."""

    vertexai: bool = True

    provider: ClassVar[str] = "google_vertexai"
    default_base_url: ClassVar[str] = "https://aiplatform.googleapis.com"
    url_variable: ClassVar[str] = "GOOGLE_VERTEX_BASE_URL"
    keyed_by: ClassVar[str] = "`project` and `credentials`, or `api_key`"
