"""OpenAI's models, and every server that speaks the same chat completions API, through OpenAI's own SDK."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from runwell.messages.message import BaseMessage
from runwell.models.call_forms import Forms, Ids
from runwell.models.foreign import OPENAI_ITEMS
from runwell.models.media_kinds import Sources, only_kinds, texts_alone
from runwell.models.media_places import NONE, with_media_named
from runwell.models.outputs import ChatGeneration, ChatResult
from runwell.models.profile import profile_of
from runwell.providers.openai.account import SENT_APART, OpenAIAccount
from runwell.providers.openai.responses import (
    PATH,
    SERVED,
    asks_for_responses,
    check_settings,
    may_say_more,
    responses_body,
)
from runwell.providers.openai.responses_stream import ResponseReader, failure_in
from runwell.providers.openai.responses_wire import message_from_response
from runwell.providers.openai.wire import ChunkReader, message_from_wire, messages_to_wire, metadata_from_wire
from runwell.providers.vendor_model import CLIENT

__all__ = ["PASSED", "ChatOpenAI"]

PASSED = (
    "temperature",
    "top_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "logprobs",
    "top_logprobs",
    "logit_bias",
    "reasoning_effort",
    "verbosity",
    "service_tier",
    "user",
    "store",
)
"""Arguments that go into each request as they are, when set."""

_SERVERS_OWN = frozenset(("video_url", "audio_url", "image_embeds"))
"""Parts that servers like OpenAI's take beyond the format."""

_IDS = Ids(None, longest=40)
_RESPONSES_IDS = Ids(None, longest=64)

_APART = SENT_APART | {"tools", "tool_choice", "parallel_tool_calls"}


class ChatOpenAI(OpenAIAccount):
    """A model behind the chat completions API.

    `base_url` is where requests go: OpenAI itself unless given; environment variables change it only with
    `base_url="env"`, which reads OPENAI_BASE_URL. `api_key` is a text, or a function that gives one; without it
    OPENAI_API_KEY is read, and MissingApiKey raised if that is not set either. For a server that wants no key pass
    `api_key="none"`.

    `timeout` is how many seconds the first output may take (600), `stream_idle_timeout` each further chunk of a stream
    (120). Arguments that no parameter is named for go in `model_kwargs`, or in `extra_body` where a server has its own.
    Async calls keep one client per event loop, plain calls one; all may run at once.
    """

    model: str = "gpt-5.5"
    logprobs: bool | None = None
    top_logprobs: int | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    service_tier: str | None = None
    store: bool | None = None
    use_responses_api: bool | None = None
    """Which API: True the Responses API, False chat completions, None the one that has what is asked for."""
    reasoning: dict[str, Any] | None = None
    include: list[str] | None = None
    truncation: str | None = None
    use_previous_response_id: bool = False

    any_role: ClassVar[bool] = True
    takes_functions: ClassVar[bool] = True
    _aliases: ClassVar[dict[str, str]] = {
        **OpenAIAccount._aliases,
        "stream_chunk_timeout": "stream_idle_timeout",
        "max_completion_tokens": "max_tokens",
    }

    _not_here: ClassVar[Mapping[str, str]] = {
        "http_socket_options": CLIENT,
        "tiktoken_model_name": "leave it out: get_num_tokens estimates without a tokenizer.",
        "include_response_headers": "leave it out: an error has status, request_id and retry_after.",
        "disabled_params": "leave out what the server does not take: only what is given is sent.",
        "max_tokens_to_sample": "max_tokens=.",
        **{
            field: f"model_kwargs={{{field!r}: ...}}."
            for field in ("modalities", "audio", "prediction", "prompt_cache_key", "safety_identifier")
        },
        "context_management": "model_kwargs={'context_management': [...]}, with use_responses_api=True.",
    }

    chooses_api: ClassVar[bool] = True
    """Whether what is asked for decides between the two APIs, where `use_responses_api` does not."""
    passed: ClassVar[tuple[str, ...]] = PASSED
    known_as: ClassVar[str] = ""
    """The provider whose models' profiles are its own, if another."""
    thoughts: ClassVar[str] = "reasoning_content"
    """The field of an answer that holds what the model thought, where the server tells it."""
    media: ClassVar[tuple[str, ...]] = ("image", "audio", "file")
    media_in_results: ClassVar[str] = "in a user's message after it"
    media_given: ClassVar[Sources] = {
        "image": frozenset(("url", "base64")),
        "audio": frozenset(("base64",)),
        "file": frozenset(("base64", "file_id")),
    }
    """How chat completions take media; the Responses API takes them by address, data and id."""

    answers_with: ClassVar[str] = "a chat completion"
    path: ClassVar[str] = "/chat/completions"

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        self._max_tokens_name = "max_completion_tokens" if self._at_openai else "max_tokens"
        if self.profile is None:
            self.profile = profile_of(self.known_as or self.provider, self.model) if self._at_openai else None
        check_settings(self)

    @property
    def _at_openai(self) -> bool:
        """Whether the server is OpenAI's, whose rules are known, and not one that is like it."""
        return self.base_url == self.default_base_url

    @property
    def _is_strict(self) -> bool:
        """Whether the server is known to refuse what is beyond the format, and histories that lack a call or result."""
        return self._at_openai

    @property
    def server_side_tools(self) -> frozenset[str]:
        served = self.use_responses_api or (self.use_responses_api is None and self._at_openai)
        return SERVED if served else frozenset()

    # -- the request

    def _check_tool(self, definition: Mapping[str, Any]) -> None:
        if self._at_openai and isinstance(definition.get("function"), Mapping):
            from runwell.schemas.dialects import convert_to_openai_function

            convert_to_openai_function(definition)

    def _is_own_block(self, block: Mapping[str, Any], kwargs: Mapping[str, Any]) -> bool:
        kind = block.get("type")
        return (
            kind in OPENAI_ITEMS if asks_for_responses(self, kwargs) else not self._at_openai and kind in _SERVERS_OWN
        )

    def _call_forms(self, kwargs: Mapping[str, Any]) -> Forms:
        if not self._at_openai:
            return None, None  # another server's, which takes what it gives
        return self.call_names, _RESPONSES_IDS if asks_for_responses(self, kwargs) else _IDS

    def _has_whole_history(self, kwargs: Mapping[str, Any]) -> bool:
        return not asks_for_responses(self, kwargs)  # the API keeps answers, and takes results of calls that it made

    def _request(
        self, messages: list[BaseMessage], stop: Any, kwargs: Mapping[str, Any], stream: bool
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """(the body, what the SDK is told about sending it)."""
        options = self._options(kwargs)
        responses = asks_for_responses(self, kwargs)
        takes = [kind for kind in self.media if kind != "audio"] if responses else self.media
        if not texts_alone(messages):
            elsewhere = " The Responses API takes it: use_responses_api=True." if self._at_openai else ""
            given = {} if responses else self.media_given
            messages = list(only_kinds(messages, type(self).__name__, takes, given, elsewhere))
            if not responses:
                messages = with_media_named(messages, {"ai": NONE})
        if responses:
            asked = kwargs.get("response_format")
            if asked is not None:
                kwargs = {**kwargs, "response_format": _response_format(asked)}
            return responses_body(self, messages, stop, kwargs, stream), options
        body: dict[str, Any] = {"model": self._sent_model, "messages": self._wire(messages)}
        if self.max_tokens is not None:
            body[self._max_tokens_name] = self.max_tokens
        self._fill(body, stop)
        for name, value in kwargs.items():
            if name == "max_tokens":
                body[self._max_tokens_name] = value
            elif name == "response_format":
                body[name] = _response_format(value)
            elif name not in _APART and value is not None:
                body[name] = value
        self._add_tools(body, kwargs)
        self._finish(body, kwargs, stream)
        return body, options

    def _wire(self, messages: list[BaseMessage]) -> list[dict[str, Any]]:
        """The messages as the server takes them."""
        return messages_to_wire(messages, strictly=self._is_strict, readable=not self._is_strict)

    def _add_tools(self, body: dict[str, Any], kwargs: Mapping[str, Any]) -> None:
        tools = kwargs.get("tools")
        if not tools:  # an empty list is refused, and so is what refers to it
            return
        from runwell.models.tool_choice import tool_choice_for
        from runwell.schemas.dialects import function_definition

        body["tools"] = [function_definition(tool) for tool in tools]
        choice = kwargs.get("tool_choice")
        if choice is not None:
            body["tool_choice"] = tool_choice_for(choice, body["tools"])
        if kwargs.get("parallel_tool_calls") is not None:
            body["parallel_tool_calls"] = kwargs["parallel_tool_calls"]

    # -- what comes back

    def _path(self, request: Any) -> str:
        return PATH if "input" in request[0] else self.path

    def _wanted(self, request: Any) -> str:
        return "output" if "input" in request[0] else self.wanted

    def _may_be_empty(self, answer: Mapping[str, Any]) -> bool:
        return answer.get("object") == "response" and answer.get("status") is not None

    def _reader(self, request: Any) -> Any:
        if "input" in request[0]:
            return ResponseReader(may_say_more(request[0]), self.base_url or "")
        return ChunkReader(self.thoughts)

    def _read(self, answer: Mapping[str, Any], headers: Mapping[str, str], request: Any) -> ChatResult:
        if "input" in request[0]:
            return self._read_response(answer, headers, request)
        generations = []
        for choice in answer["choices"]:
            message = message_from_wire(choice["message"], answer.get("usage"), thoughts=self.thoughts)
            message.response_metadata = metadata_from_wire(answer, choice, headers.get("x-request-id"))
            generations.append(ChatGeneration(message))
        return ChatResult(generations, {"model_name": answer.get("model"), "token_usage": answer.get("usage")})

    def _read_response(self, answer: Mapping[str, Any], headers: Mapping[str, str], request: Any) -> ChatResult:
        if answer.get("status") == "failed":
            raise failure_in(answer, self.base_url or "")
        message = message_from_response(answer, rich=may_say_more(request[0]))
        if headers.get("x-request-id"):
            message.response_metadata["request_id"] = headers["x-request-id"]
        usage = {"model_name": answer.get("model"), "token_usage": answer.get("usage")}
        return ChatResult([ChatGeneration(message)], usage)


def _response_format(asked: Any) -> Any:
    """A dict as it is; a class as the JSON schema of its fields."""
    if isinstance(asked, Mapping):
        return asked
    from runwell.schemas.strict import strict_schema
    from runwell.schemas.structured import StructuredSchema

    read = StructuredSchema(asked)
    described = {
        "name": read.name,
        "schema": strict_schema(read.json_schema, f"The answer {read.name}"),
        "strict": True,
    }
    return {"type": "json_schema", "json_schema": described}
