"""OpenAI's models, and every server that speaks the same chat completions API, through OpenAI's own SDK."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from json import loads
from typing import Any, ClassVar, Final

from pydantic import SecretStr

from runwell.errors import (
    InvalidInput,
    MissingApiKey,
    MissingExtra,
    ModelConnectionError,
    ModelError,
    ModelTimeout,
    UnsupportedByProvider,
)
from runwell.messages.message import BaseMessage
from runwell.models.chat_model import BaseChatModel
from runwell.models.idle import IdleWatch
from runwell.models.openai_wire import ChunkReader, message_from_wire, messages_to_wire
from runwell.models.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from runwell.models.profile import profile_of
from runwell.models.wire_errors import error_from_wire
from runwell.providers.openai_clients import Clients

__all__ = ["ChatOpenAI"]

DEFAULT_BASE_URL: Final = "https://api.openai.com/v1"
FIRST_OUTPUT_S: Final = 600.0
CONNECT_S: Final = 10.0

_PASSED = (
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


_SENT_APART = frozenset({"tools", "tool_choice", "parallel_tool_calls", "timeout", "extra_body"})


class ChatOpenAI(BaseChatModel):
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
    api_key: Any = None
    base_url: str | None = None
    organization: str | None = None
    project: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: list[str] | str | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    logit_bias: dict[str, int] | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    service_tier: str | None = None
    user: str | None = None
    store: bool | None = None
    timeout: Any = None
    stream_idle_timeout: float | None = 120.0
    stream_usage: bool = True
    """Ask for the token counts at the end of a stream."""
    model_kwargs: dict[str, Any] = {}
    extra_body: dict[str, Any] = {}
    default_headers: dict[str, str] = {}
    default_query: dict[str, Any] = {}
    http_client: Any = None
    http_async_client: Any = None

    provider: ClassVar[str] = "openai"
    _aliases: ClassVar[dict[str, str]] = {
        "model_name": "model",
        "openai_api_key": "api_key",
        "openai_api_base": "base_url",
        "openai_organization": "organization",
        "request_timeout": "timeout",
        "max_completion_tokens": "max_tokens",
        "stop_sequences": "stop",
    }

    def model_post_init(self, context: Any) -> None:
        if find_spec("openai") is None:
            raise MissingExtra(type(self).__name__, "openai")
        if not self.model or not isinstance(self.model, str):
            raise InvalidInput(f"{type(self).__name__} needs the name of a model; got model={self.model!r}.")
        self.base_url = self._resolve_base_url()
        self.api_key = self._resolve_key()
        at_openai = self.base_url == DEFAULT_BASE_URL
        if at_openai:  # account settings, which say nothing to other servers and are not their business
            self.organization = self.organization or os.environ.get("OPENAI_ORG_ID")
            self.project = self.project or os.environ.get("OPENAI_PROJECT_ID")
        self._max_tokens_name = "max_completion_tokens" if at_openai else "max_tokens"
        if self.profile is None:
            self.profile = profile_of(self.provider, self.model) if at_openai else None
        self._clients = Clients()

    def _resolve_base_url(self) -> str:
        url = self.base_url
        if url == "env":
            url = os.environ.get("OPENAI_BASE_URL")
        url = (url or DEFAULT_BASE_URL).rstrip("/")
        if not url.startswith(("http://", "https://")):
            raise InvalidInput(f"base_url must start with http:// or https://; got {url!r}.")
        return url

    def _resolve_key(self) -> Any:
        key = self.api_key if self.api_key is not None else os.environ.get("OPENAI_API_KEY")
        if isinstance(key, str) and key.strip():
            return SecretStr(key)
        if callable(key) or isinstance(key, SecretStr):
            return key
        local = "" if self.base_url == DEFAULT_BASE_URL else ' For a server that wants no key: api_key="none".'
        raise MissingApiKey(
            f"{type(self).__name__} has no API key.", hint=f"Set OPENAI_API_KEY, or pass api_key=...{local}"
        )

    @property
    def model_name(self) -> str:
        """The same as `model`."""
        return self.model

    @property
    def _identifying_params(self) -> dict[str, Any]:
        hidden = ("api_key", "default_headers", "http_client", "http_async_client", "profile", "cache", "callbacks")
        return {name: value for name, value in self._shown() if name not in hidden} | {"model": self.model}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_clients"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._clients = Clients()

    # -- the request

    def _request(
        self, messages: list[BaseMessage], stop: Any, kwargs: Mapping[str, Any], stream: bool
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """(the body, what the SDK is told about sending it)."""
        body: dict[str, Any] = {"model": self.model, "messages": messages_to_wire(messages)}
        for name in _PASSED:
            value = getattr(self, name)
            if value is not None:
                body[name] = value
        if self.max_tokens is not None:
            body[self._max_tokens_name] = self.max_tokens
        stop = stop if stop is not None else self.stop
        if stop:
            body["stop"] = [stop] if isinstance(stop, str) else list(stop)
        body.update(self.model_kwargs)
        options: dict[str, Any] = {"security": {"bearer_auth": True}, "timeout": self._timeout(kwargs.get("timeout"))}
        for name, value in kwargs.items():
            if name == "extra_headers":
                options["headers"] = value
            elif name == "extra_query":
                options["params"] = value
            elif name == "max_tokens":
                body[self._max_tokens_name] = value
            elif name == "response_format":
                body[name] = _response_format(value)
            elif (
                name not in ("tools", "tool_choice", "timeout", "extra_body", "parallel_tool_calls")
                and value is not None
            ):
                body[name] = value
        self._add_tools(body, kwargs)
        if stream:
            if body.get("n", 1) != 1:
                raise UnsupportedByProvider("A stream gives one answer; n > 1 is for invoke and generate.")
            body["stream"] = True
            if self.stream_usage:
                body["stream_options"] = {"include_usage": True}
        body.update(self.extra_body)
        body.update(kwargs.get("extra_body") or {})
        return body, options

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

    def _timeout(self, asked: Any) -> Any:
        from openai import Timeout

        seconds = asked if asked is not None else self.timeout
        if seconds is None:
            return Timeout(FIRST_OUTPUT_S, connect=CONNECT_S)
        if isinstance(seconds, int | float):
            return Timeout(seconds, connect=min(CONNECT_S, seconds))
        return Timeout(seconds) if isinstance(seconds, tuple) else seconds

    def _idle_s(self, kwargs: Mapping[str, Any]) -> float | None:
        """Seconds that a further chunk may take: never more than the first may."""
        first = kwargs.get("timeout", self.timeout)
        limits = [each for each in (self.stream_idle_timeout, first) if isinstance(each, int | float)]
        return min(limits, default=None)

    # -- the four calls

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        body, options = self._request(messages, stop, kwargs, False)
        client = self._clients.plain(self)
        try:
            response = client.post("/chat/completions", body=body, cast_to=_response_type(), options=options)
            return self._result(response)
        except Exception as error:
            raise self._translated(error) from None

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        body, options = self._request(messages, stop, kwargs, False)
        client = await self._clients.on_loop(self)
        try:
            response = await client.post("/chat/completions", body=body, cast_to=_response_type(), options=options)
            return self._result(response)
        except Exception as error:
            raise self._translated(error) from None

    def _stream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        from openai import Stream

        body, options = self._request(messages, stop, kwargs, True)
        client, reader = self._clients.plain(self), ChunkReader()
        idle_s = self._idle_s(kwargs)
        stream: Any = None
        try:
            stream = client.post(
                "/chat/completions",
                body=body,
                cast_to=object,
                options=options,
                stream=True,
                stream_cls=Stream[object],
            )
            event = next(stream, None)  # until then the HTTP client's own limit holds
            with self._watch(stream, idle_s) as watch:
                while event is not None:
                    watch.rest()
                    yield from reader.take(event)
                    watch.beat()
                    event = next(stream, None)
            yield reader.end(self.base_url)
        except Exception as error:
            raise self._translated(error) from None
        finally:
            if stream is not None:
                stream.close()

    async def _astream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        from openai import AsyncStream

        body, options = self._request(messages, stop, kwargs, True)
        client, reader = await self._clients.on_loop(self), ChunkReader()
        idle_s = self._idle_s(kwargs)
        stream: Any = None
        try:
            stream = await client.post(
                "/chat/completions",
                body=body,
                cast_to=object,
                options=options,
                stream=True,
                stream_cls=AsyncStream[object],
            )
            event = await anext(stream, None)  # until then the HTTP client's own limit holds
            with self._watch(stream, idle_s) as watch:
                while event is not None:
                    watch.rest()
                    for chunk in reader.take(event):
                        yield chunk
                    watch.beat()
                    event = await anext(stream, None)
            yield reader.end(self.base_url)
        except Exception as error:
            raise self._translated(error) from None
        finally:
            if stream is not None:
                await stream.close()

    # -- what comes back

    def _result(self, response: Any) -> ChatResult:
        try:
            answer = loads(response.content)
        except ValueError as error:
            raise self._unreadable(f"{response.text[:200]!r}", error) from None
        if not isinstance(answer, dict) or not answer.get("choices"):
            if isinstance(answer, dict) and answer.get("error"):  # with status 200
                raise error_from_wire(None, answer, headers=response.headers, who=self.base_url or "")
            raise self._unreadable(f"{response.text[:200]!r}", ValueError("no choices"))
        generations = []
        for choice in answer["choices"]:
            message = message_from_wire(choice["message"], answer.get("usage"))
            message.response_metadata = _metadata(answer, choice, response.headers.get("x-request-id"))
            generations.append(ChatGeneration(message))
        return ChatResult(generations, {"model_name": answer.get("model"), "token_usage": answer.get("usage")})

    def _unreadable(self, what: str, error: Exception) -> ModelError:
        problem = ModelError(f"{self.base_url} answered with what is not a chat completion: {what} ({error}).")
        problem.retryable = True
        return problem

    def _watch(self, stream: Any, idle_s: float | None) -> IdleWatch:
        def silent() -> ModelTimeout:
            return ModelTimeout(
                f"{self.base_url} sent nothing more for {idle_s:g} s in the middle of a stream.",
                hint="stream_idle_timeout= sets how long a chunk may take.",
            )

        return IdleWatch(idle_s, lambda: _sever(stream.response), silent)

    def _translated(self, error: Exception) -> Exception:
        """Our error for the SDK's. What it says holds no key, even where a server echoes the one it was sent."""
        import openai

        who = self.base_url or ""
        if isinstance(error, openai.APITimeoutError):
            return ModelTimeout(
                f"{who} gave no answer in time.", hint="timeout= sets how long the first output may take."
            )
        if isinstance(error, openai.APIConnectionError):
            why = error.__cause__
            return ModelConnectionError(f"{who} was not reached, or the connection broke: {why or error}.")
        if isinstance(error, openai.APIStatusError):
            response = error.response
            told = error_from_wire(
                error.status_code, error.body, headers=response.headers, text=response.text[:500], who=who
            )
        elif isinstance(error, openai.APIError):  # an error event in a stream
            told = error_from_wire(None, error.body, text=error.message, who=who)
        elif isinstance(error, ValueError) and type(error).__name__ == "JSONDecodeError":
            return self._unreadable("a stream event that is no JSON", error)
        else:
            return error
        key = self.api_key.get_secret_value() if isinstance(self.api_key, SecretStr) else None
        if key and key in told.message:
            told.message = told.message.replace(key, "**********")
            told.args = (told.message,)
        return told


def _metadata(answer: Mapping[str, Any], choice: Mapping[str, Any], request_id: str | None) -> dict[str, Any]:
    metadata = {
        "finish_reason": choice.get("finish_reason"),
        "model_name": answer.get("model"),
        "id": answer.get("id"),
        "system_fingerprint": answer.get("system_fingerprint"),
        "service_tier": answer.get("service_tier"),
        "logprobs": choice.get("logprobs"),
        "request_id": request_id,
    }
    return {name: value for name, value in metadata.items() if value is not None}


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


def _response_type() -> Any:
    """The SDK's HTTP client's response class: the answer is read from it as the server wrote it, nothing left out."""
    import httpx2

    return httpx2.Response


def _sever(response: Any) -> None:
    """Make a read that is under way in another thread fail."""
    import socket

    network = response.extensions.get("network_stream")
    connection = network.get_extra_info("socket") if network is not None else None
    if connection is not None:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
