"""Models on Amazon Bedrock, through its Converse API and AWS's own SDK."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from pydantic import SecretStr

from runwell.drivers.closing import aclose
from runwell.drivers.streams import iterate_async
from runwell.errors import (
    InvalidConfig,
    InvalidHistory,
    InvalidInput,
    ModelConnectionError,
    ModelError,
    ModelTimeout,
    RunwellError,
    UnsupportedByProvider,
)
from runwell.messages.message import BaseMessage
from runwell.models.idle import IdleWatch
from runwell.models.media_kinds import Sources
from runwell.models.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from runwell.models.profile import profile_of
from runwell.models.reply import from_thread
from runwell.models.turns import BEGINS, begun_by_a_person
from runwell.providers.bedrock.blocks import is_known
from runwell.providers.bedrock.clients import BedrockClients, Secrets
from runwell.providers.bedrock.errors import error_of
from runwell.providers.bedrock.severing import Call
from runwell.providers.bedrock.wire import ChunkReader, message_from_wire, messages_to_wire, metadata_from_wire
from runwell.providers.clients import Clients
from runwell.providers.http_library import REACH, ended
from runwell.providers.sent_apart import sendable_key
from runwell.providers.vendor_model import CONNECT_S, FIRST_OUTPUT_S, VendorModel

__all__ = ["ChatBedrockConverse"]

_INFERENCE = {"temperature": "temperature", "top_p": "topP", "max_tokens": "maxTokens"}
_PASSED = {
    "guardrail_config": "guardrailConfig",
    "additional_model_response_field_paths": "additionalModelResponseFieldPaths",
    "request_metadata": "requestMetadata",
    "performance_config": "performanceConfig",
    "service_tier": "serviceTier",
    "prompt_variables": "promptVariables",
}
"""Arguments that go into each request, and their names there."""

_CLAUDE = re.compile(r"\banthropic\.(claude-[a-z0-9.-]+?)(-v\d+)?(:\d+k?)*\Z")

_SENT_APART = frozenset({"tools", "tool_choice", "parallel_tool_calls", "timeout", "extra_body", "response_format"})
_SENT_APART |= {"additional_model_request_fields", "effort", "output_config", *_INFERENCE, *_PASSED}


class ChatBedrockConverse(VendorModel):
    """A model on Amazon Bedrock. `model` is its id, an inference profile or an ARN.

    `region_name` says where; without it AWS_REGION, AWS_DEFAULT_REGION or the profile's is meant, and `base_url` is
    that region's address unless given. Variables that move AWS's SDK to another address are read only with
    `base_url="env"` (AWS_ENDPOINT_URL_BEDROCK_RUNTIME). Who pays: `api_key` (a Bedrock API key), `aws_access_key_id`
    with `aws_secret_access_key` (and `aws_session_token`), or `credentials_profile_name`; without any of them
    AWS_BEARER_TOKEN_BEDROCK, then AWS's own chain (environment, files, role), which is asked when first needed.

    `guardrail_config`, `performance_config`, `service_tier`, `request_metadata`,
    `additional_model_response_field_paths` are the API's own; what a model takes beyond them goes in
    `additional_model_request_fields` (or `model_kwargs`), such as `{"thinking": {...}}`. Thoughts stay in the message's
    content with their signatures, and go back with it. `{"cachePoint": {"type": "default"}}` stands where you put it
    in a content; `cache_control` on a block means the same. `client` is one that boto3 made for "bedrock-runtime", and
    is asked as it is, with its own retries.

    The SDK blocks, so async calls run in worker threads; a cancelled one is left behind there. `timeout` is how many
    seconds the first output may take (600), `stream_idle_timeout` each further chunk (120). All may run at once.
    """

    model: str = ""
    region_name: str | None = None
    aws_access_key_id: Any = None
    aws_secret_access_key: Any = None
    aws_session_token: Any = None
    credentials_profile_name: str | None = None
    config: Any = None
    """A `botocore.config.Config` for what is not said here (proxies, certificates)."""
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: list[str] | str | None = None
    guardrail_config: dict[str, Any] | None = None
    performance_config: dict[str, Any] | None = None
    service_tier: Any = None
    request_metadata: dict[str, str] | None = None
    prompt_variables: dict[str, Any] | None = None
    additional_model_request_fields: dict[str, Any] | None = None
    additional_model_response_field_paths: list[str] | None = None
    effort: str | None = None
    output_config: dict[str, Any] | None = None

    provider: ClassVar[str] = "bedrock_converse"
    passes_blocks: ClassVar[bool] = False
    refuses_blanks: ClassVar[bool] = True
    structured_methods: ClassVar[tuple[str, ...]] = ("json_schema", "function_calling")
    _aliases: ClassVar[dict[str, str]] = {
        "model_id": "model",
        "model_name": "model",
        "endpoint_url": "base_url",
        "client": "http_client",
        "guardrails": "guardrail_config",
        "bedrock_api_key": "api_key",
        "stop_sequences": "stop",
    }

    _not_here: ClassVar[Mapping[str, str]] = {
        "async_client": "client=: async calls use it in threads.",
        "proxy": "config=botocore.config.Config(proxies={...}).",
        "bedrock_client": "client=, a boto3 client of bedrock-runtime.",
        "base_model_id": "profile={...} says what the model behind an ARN can do.",
        "provider": "profile={...} says what the model behind an ARN can do.",
        "guard_last_turn_only": '{"guardContent": ...} blocks in the messages that are to be judged.',
        "supports_tool_choice_values": "profile={...} says what the model can do.",
        "raw_blocks": "blocks of the Converse API may stand in a message's content.",
    }

    tool_choices: ClassVar[tuple[str, ...]] = ("auto", "any", "a name")
    turns_parallel_off: ClassVar[bool] = False
    media: ClassVar[tuple[str, ...]] = ("image", "audio", "video", "file")
    media_sources: ClassVar[Sources] = dict.fromkeys(media, frozenset(("base64", "s3")))
    system_in_middle: ClassVar[str] = "at the top (B9), or in place where the profile says it may"

    sdk: ClassVar[str] = "boto3"
    extra: ClassVar[str] = "bedrock"
    default_base_url: ClassVar[str] = "https://bedrock-runtime.{region}.amazonaws.com"
    url_variable: ClassVar[str] = "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"
    key_variable: ClassVar[str] = "AWS_BEARER_TOKEN_BEDROCK"
    keyed_by: ClassVar[str] = "`AWS_BEARER_TOKEN_BEDROCK`, else AWS's chain"
    clients: ClassVar[type[Clients]] = BedrockClients
    http_library: ClassVar[tuple[str, ...]] = ()
    answers_with: ClassVar[str] = "a message"
    _clients: BedrockClients

    # Written in one colour: the SDK blocks, so async calls go through the threads that plain models go through.

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        claude = _CLAUDE.search(self.model)
        if self.profile is None and claude:
            # as Anthropic's own, but for what Bedrock may not do alike
            known = profile_of("anthropic", claude[1])
            unsure = ("system_in_middle", "tool_search", "structured_output")
            self.profile = {k: v for k, v in known.items() if k not in unsure} if known else None  # type: ignore[assignment]

    def _resolve_base_url(self) -> str:
        url = os.environ.get(self.url_variable) if self.base_url == "env" else self.base_url
        if self.http_client is not None:  # which knows where it asks
            url = url or self.http_client.meta.endpoint_url
            self.region_name = self.region_name or self.http_client.meta.region_name
        self.region_name = self.region_name or _region(self.credentials_profile_name)
        if not url:
            if not self.region_name:
                raise InvalidConfig(
                    f"{type(self).__name__} has no region.", hint='Pass region_name="eu-central-1", or set AWS_REGION.'
                )
            ending = ".amazonaws.com.cn" if self.region_name.startswith("cn-") else ".amazonaws.com"
            url = f"https://bedrock-runtime.{self.region_name}{ending}"
        self.region_name = self.region_name or "us-east-1"  # a server of one's own: it is signed for some region
        url = url.rstrip("/")
        if not url.startswith(("http://", "https://")):
            raise InvalidInput(f"base_url must start with http:// or https://; got {url!r}.")
        return url

    def _resolve_key(self) -> Any:
        key, given = _plain(self.api_key), (self.aws_access_key_id, self.aws_secret_access_key)
        if any(given) and not all(given):
            raise InvalidInput("aws_access_key_id and aws_secret_access_key go together; got one of them.")
        if key and any(given):
            raise InvalidInput(f"{type(self).__name__} got both api_key and aws_access_key_id: one of them pays.")
        if not key and not any(given) and not self.credentials_profile_name:
            key = os.environ.get(self.key_variable) or None
        if key:
            key = sendable_key(type(self).__name__, key)
        self._hidden = Secrets(key, _plain(self.aws_secret_access_key), _plain(self.aws_session_token))
        for name in ("aws_secret_access_key", "aws_session_token"):
            if getattr(self, name) is not None:
                setattr(self, name, SecretStr(str(_plain(getattr(self, name)))))
        self.aws_access_key_id = _plain(self.aws_access_key_id)
        return SecretStr(key) if key else None

    @property
    def _identifying_params(self) -> dict[str, Any]:
        hidden = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token", "credentials_profile_name")
        return {name: value for name, value in super()._identifying_params.items() if name not in (*hidden, "config")}

    @classmethod
    def create_cache_point(cls, cache_type: str = "default", ttl: str | None = None) -> dict[str, Any]:
        """A block that says: what stands before it may be cached. It goes in a message's content, or among tools."""
        return {"cachePoint": {"type": cache_type, **({"ttl": ttl} if ttl else {})}}

    # -- the request

    def _is_own_block(self, block: Mapping[str, Any], kwargs: Mapping[str, Any]) -> bool:
        return is_known(block)

    def _request(
        self, messages: list[BaseMessage], stop: Any, kwargs: Mapping[str, Any], stream: bool
    ) -> tuple[dict[str, Any], Any]:
        in_middle = bool((self.profile or {}).get("system_in_middle"))
        system, wire = messages_to_wire(messages, system_in_middle=in_middle)
        wire = begun_by_a_person(wire, {"role": "user", "content": [{"text": BEGINS}]})
        body: dict[str, Any] = {"modelId": self.model, "messages": wire}
        if not wire:
            raise InvalidHistory(
                "Bedrock is sent nothing to answer: the history holds instructions alone.", hint="Add a HumanMessage."
            )
        if system:
            body["system"] = system
        inference = {theirs: _either(kwargs, self, ours) for ours, theirs in _INFERENCE.items()}
        inference = {name: value for name, value in inference.items() if value is not None}
        stop = stop if stop is not None else self.stop
        if stop:
            inference["stopSequences"] = [stop] if isinstance(stop, str) else list(stop)
        if inference:
            body["inferenceConfig"] = inference
        for ours, theirs in _PASSED.items():
            value = _either(kwargs, self, ours)
            if value is not None:
                body[theirs] = {"type": value} if ours == "service_tier" and isinstance(value, str) else value
        if "guardrailConfig" in body and not stream:
            body["guardrailConfig"] = {k: v for k, v in body["guardrailConfig"].items() if k != "streamProcessingMode"}
        beyond = {**self.model_kwargs, **(_either(kwargs, self, "additional_model_request_fields") or {})}
        if beyond:
            body["additionalModelRequestFields"] = beyond
        self._add_output_config(body, kwargs)
        self._add_tools(body, kwargs)
        body |= {name: value for name, value in kwargs.items() if name not in _SENT_APART and value is not None}
        body.update(self.extra_body)
        body.update(kwargs.get("extra_body") or {})
        return body, kwargs.get("timeout", self.timeout)

    def _add_output_config(self, body: dict[str, Any], kwargs: Mapping[str, Any]) -> None:
        config = dict(_either(kwargs, self, "output_config") or {})
        effort = _either(kwargs, self, "effort")
        if effort:
            config["effort"] = effort
        if kwargs.get("response_format") is not None:
            config["textFormat"] = _format(kwargs["response_format"])
        if config:
            body["outputConfig"] = config

    def _add_tools(self, body: dict[str, Any], kwargs: Mapping[str, Any]) -> None:
        tools = kwargs.get("tools")
        if not tools:
            used = _used(body["messages"])
            if used:  # a history with calls is refused without their declarations
                body["toolConfig"] = {"tools": [_bygone(name) for name in used]}
            return
        from runwell.models.tool_choice import tool_choice_for
        from runwell.schemas.dialects import convert_to_bedrock_tool

        body["toolConfig"] = {"tools": []}
        for tool in tools:
            if isinstance(tool, Mapping) and tool.get("type") in _OWN_TOOLS:
                tool = {key: value for key, value in tool.items() if key in _OWN_TOOLS}
            body["toolConfig"]["tools"].append(convert_to_bedrock_tool(tool))
            mark = tool.get("cache_control") if isinstance(tool, Mapping) else None
            if mark:
                body["toolConfig"]["tools"].append(self.create_cache_point(ttl=mark.get("ttl")))
        choice = kwargs.get("tool_choice")
        if choice is not None:
            choice = tool_choice_for(choice, list(tools))
            body["toolConfig"]["toolChoice"] = _choice(choice)

    def _strict_schema(self, schema: dict[str, Any], whose: str) -> dict[str, Any]:
        from runwell.schemas.claude import claude_schema

        return claude_schema(schema, whose, "Bedrock's strict mode")

    def _check_answer(self, described: Mapping[str, Any]) -> None:
        _held(described["schema"], described.get("name"))

    def _check_tool(self, definition: Mapping[str, Any]) -> None:
        from runwell.schemas.dialects import convert_to_bedrock_tool

        convert_to_bedrock_tool(definition)

    def _tool_kwargs(
        self, tools: Sequence[Any], tool_choice: Any, strict: bool | None, parallel_tool_calls: bool | None
    ) -> dict[str, Any]:
        # with a type, as what a provider runs itself has elsewhere
        own = [{"type": next(iter(tool)), **tool} for tool in tools if _is_own_tool(tool)]
        kwargs = super()._tool_kwargs(
            [tool for tool in tools if not _is_own_tool(tool)], tool_choice, strict, parallel_tool_calls
        )
        kwargs.pop("parallel_tool_calls", None)  # True is how it is
        kwargs["tools"] += own
        return kwargs

    # -- sending

    def _seconds(self, timeout: Any) -> tuple[float, float]:
        """(To connect, to read.)"""
        if isinstance(timeout, tuple):
            return timeout[0], timeout[1]
        seconds = FIRST_OUTPUT_S if timeout is None else float(timeout)
        return min(CONNECT_S, seconds), seconds

    def _post(self, client: Any, request: Any) -> Any:
        body, timeout = request
        client = self._clients.timed(self, timeout)
        try:
            return client.converse(**body)
        except (AttributeError, TypeError, KeyError) as error:  # the SDK's parser, at what is no answer
            raise self._unreadable("what the SDK cannot read", error) from None

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        """In a thread, which ends with the task that waits for it."""
        call = Call()
        try:
            return await from_thread(partial(call.run, self._generate, messages, stop, run_manager, **kwargs))
        except BaseException:
            call.sever()  # where the call itself has failed, this does nothing
            raise

    async def _astream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        """As `_agenerate`."""
        call = Call()
        pieces = iterate_async(call.steps(self._stream(messages, stop, run_manager, **kwargs)))
        try:
            async for piece in pieces:
                yield piece
        finally:
            call.sever()
            await aclose(pieces)

    async def _apost(self, client: Any, request: Any) -> Any:
        raise NotImplementedError

    def _begin(self, client: Any, request: Any) -> Any:
        body, timeout = request
        return _Stream(self._clients.timed(self, timeout).converse_stream(**body))

    async def _abegin(self, client: Any, request: Any) -> Any:
        raise NotImplementedError

    def _watch(self, stream: Any, idle_s: float | None) -> IdleWatch:
        watch = super()._watch(stream, idle_s)
        watch._sever = stream.sever
        return watch

    # -- what comes back

    def _result(self, answer: Any, request: Any) -> ChatResult:
        said = (answer.get("output") or {}).get("message") if isinstance(answer, dict) else None
        if not isinstance(said, dict):
            raise self._unreadable(repr(answer)[:200], ValueError("no message"))
        self._refuse_malformed(answer.get("stopReason"))
        usage = answer.get("usage")
        message = message_from_wire(said, usage, stop=answer.get("stopReason"))
        about = answer.get("ResponseMetadata") or {}
        metadata = {"model_name": self.model, **metadata_from_wire(answer)}
        if about.get("RequestId"):
            metadata["request_id"] = about["RequestId"]
        message.response_metadata = metadata
        return ChatResult([ChatGeneration(message)], {"model_name": self.model, "token_usage": usage})

    def _reader(self, request: Any) -> Any:
        return _Reader(self)

    def _refuse_malformed(self, reason: str | None) -> None:
        """Half a call, or what Bedrock could not read, would pass for an answer without calls."""
        if reason in ("malformed_tool_use", "malformed_model_output"):
            raise self._broken_off(reason, "the model wrote what Bedrock could not read")

    def _translated(self, error: Exception) -> Exception:
        from botocore import exceptions as sdk
        from botocore.eventstream import ParserError
        from botocore.parsers import ResponseParserError
        from urllib3 import exceptions as http

        who = self.base_url or ""
        if isinstance(error, RunwellError):
            return error
        if isinstance(error, sdk.ClientError):  # also what a stream reports
            return error_of(error, who, self.model)
        if isinstance(error, sdk.ParamValidationError):
            return InvalidInput(f"Bedrock's SDK refused the request: {error}")
        if isinstance(error, sdk.ReadTimeoutError | sdk.ConnectTimeoutError | http.TimeoutError):
            return ModelTimeout(
                f"{who} gave no answer in time.", hint="timeout= sets how long the first output may take."
            )
        if isinstance(error, ResponseParserError | ParserError | ValueError):
            return self._unreadable("what the SDK cannot read", error)
        if isinstance(error, sdk.HTTPClientError | sdk.ConnectionError | http.HTTPError | OSError):
            return ModelConnectionError(f"{who} was not reached, or the connection broke: {ended(error)}", hint=REACH)
        if isinstance(error, sdk.BotoCoreError):
            return InvalidConfig(f"AWS's SDK could not ask {who}: {error}")
        return error

    def _safe(self, error: Exception) -> Exception:
        error = super()._safe(error)
        if isinstance(error, ModelError | InvalidInput | InvalidConfig):
            error.message = self._hidden.out_of(error.message)
            error.args = (error.message,)
        return error


class _Stream:
    """The events of a response."""

    __slots__ = ("_events", "_next")

    def __init__(self, response: Mapping[str, Any]) -> None:
        self._events = response["stream"]
        self._next: Iterator[Any] = iter(self._events)

    def __next__(self) -> Any:
        return next(self._next)

    def sever(self) -> None:
        """Make a read that is under way in another thread fail."""
        try:
            self._events._raw_stream.shutdown()
        except (AttributeError, OSError, RuntimeError, ValueError):  # it is read to its end, or closed
            return

    def close(self) -> None:
        self._events.close()


class _Reader(ChunkReader):
    """Says which model answers, which no event does, and refuses an answer that was malformed."""

    __slots__ = ("_model",)

    def __init__(self, model: ChatBedrockConverse) -> None:
        super().__init__()
        self._model = model

    def end(self, who: str | None) -> ChatGenerationChunk:
        chunk = super().end(who)
        facts = chunk.message.response_metadata
        self._model._refuse_malformed(facts.get("stop_reason"))
        facts.setdefault("model_name", self._model.model)
        return chunk


def _plain(secret: Any) -> str | None:
    """Without the blanks around it that a file or a variable has."""
    found = secret.get_secret_value() if isinstance(secret, SecretStr) else secret
    if found is not None and not isinstance(found, str):
        raise InvalidInput(f"A key of AWS's is a text; got one of type {type(found).__name__}.")
    return (found or "").strip() or None


def _region(profile: str | None) -> str | None:
    found = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if found:
        return found
    from botocore.exceptions import ProfileNotFound
    from botocore.session import Session

    try:
        return Session(profile=profile).get_config_variable("region")  # type: ignore[no-any-return]
    except ProfileNotFound as error:
        raise InvalidConfig(f"{error}", hint="Profiles stand in ~/.aws/config and ~/.aws/credentials.") from None


def _either(kwargs: Mapping[str, Any], model: Any, name: str) -> Any:
    """What the call says, else what the model says."""
    return kwargs[name] if kwargs.get(name) is not None else getattr(model, name)


_OWN_TOOLS = frozenset({"toolSpec", "systemTool", "cachePoint"})


def _is_own_tool(tool: Any) -> bool:
    return isinstance(tool, Mapping) and "type" not in tool and not _OWN_TOOLS.isdisjoint(tool)


def _used(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """The tools that a history calls, and some name for results that answer no call."""
    blocks = [block for turn in messages for block in turn["content"]]
    names = [block["toolUse"]["name"] for block in blocks if "toolUse" in block]
    if not names and any("toolResult" in block for block in blocks):
        return ["unknown"]
    return list(dict.fromkeys(names))


def _bygone(name: str) -> dict[str, Any]:
    told = "Was called earlier in this conversation. It cannot be called any more."
    return {"toolSpec": {"name": name, "description": told, "inputSchema": {"json": {"type": "object"}}}}


def _choice(choice: Any) -> dict[str, Any]:
    if choice == "required":
        return {"any": {}}
    if choice == "auto":
        return {"auto": {}}
    if isinstance(choice, str):
        raise UnsupportedByProvider(
            f"Bedrock cannot be told which tools to call by {choice!r}.",
            hint="Bind no tools, or leave the choice open.",
        )
    function = choice.get("function")
    return {"tool": {"name": function["name"]}} if isinstance(function, Mapping) else dict(choice)


def _held(schema: Any, name: Any) -> dict[str, Any]:
    from runwell.schemas.claude import claude_answer

    return claude_answer(schema, name, "Bedrock")


def _format(asked: Any) -> dict[str, Any]:
    """A response format as the API writes it, from the one that all models share, or from a class."""
    if isinstance(asked, Mapping):
        described = asked.get("json_schema")
        if not isinstance(described, Mapping):
            if asked.get("type") == "json_object":
                raise UnsupportedByProvider(
                    "Bedrock has no JSON mode.", hint='with_structured_output(..., method="json_schema").'
                )
            return dict(asked)
        name, schema, told = described.get("name"), described["schema"], described.get("description")
    else:
        from runwell.schemas.structured import StructuredSchema

        read = StructuredSchema(asked)
        name, schema, told = read.name, read.json_schema, read.description
    form = {"schema": json.dumps(_held(schema, name)), "name": name, "description": told}
    return {
        "type": "json_schema",
        "structure": {"jsonSchema": {key: value for key, value in form.items() if value}},
    }
