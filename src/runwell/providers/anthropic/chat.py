"""Anthropic's models, and every server that speaks its Messages API, through Anthropic's own SDK."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from re import Pattern
from typing import Any, ClassVar

from runwell.drivers.closing import aclose
from runwell.errors import InvalidConfig, UnsupportedByProvider
from runwell.messages.message import BaseMessage
from runwell.models.call_forms import Ids
from runwell.models.media_places import NONE, Places
from runwell.models.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from runwell.models.profile import profile_of
from runwell.models.turns import BEGINS, begun_by_a_person
from runwell.providers.anthropic.blocks import is_own
from runwell.providers.anthropic.clients import AnthropicClients
from runwell.providers.anthropic.pauses import Turn, is_paused, joined, kept_container
from runwell.providers.anthropic.tools import SERVED
from runwell.providers.anthropic.wire import ChunkReader, message_from_wire, messages_to_wire, metadata_from_wire
from runwell.providers.clients import Clients
from runwell.providers.stainless import StainlessModel
from runwell.providers.vendor_model import PROXY

__all__ = ["ChatAnthropic"]

MAX_TOKENS = 4096
"""The limit on an answer of a model that nothing is known about: all of Anthropic's take it."""

_PASSED = (
    "temperature",
    "top_p",
    "top_k",
    "thinking",
    "cache_control",
    "container",
    "context_management",
    "mcp_servers",
    "inference_geo",
    "service_tier",
)
"""Arguments that go into each request as they are, when set."""

_SENT_APART = frozenset({"tools", "tool_choice", "parallel_tool_calls", "timeout", "extra_body", "response_format"})
_SENT_APART |= {"effort", "output_config", "betas"}

_TOOL_EXTRAS = ("cache_control", "defer_loading", "allowed_callers", "input_examples", "eager_input_streaming")


class ChatAnthropic(StainlessModel):
    """A model behind the Messages API.

    `base_url` is where requests go: Anthropic itself unless given; environment variables change it only with
    `base_url="env"`, which reads ANTHROPIC_BASE_URL. `api_key` is a text; without it ANTHROPIC_API_KEY is read, and
    MissingApiKey raised if that is not set either.

    The API wants a limit on each answer: `max_tokens` is the model's own limit where that is known, otherwise 4096. An
    answer that it cut says `finish_reason` "length".

    `thinking` is the API's own, such as `{"type": "adaptive"}`; thoughts stay in the message's content with their
    signatures, and go back with it. `cache_control` stands on blocks, tools and messages where you put it; the argument
    of that name marks the whole request. `betas` are names of features that want a header. Tools that Anthropic runs
    are bound as dicts with their `type`.

    A system message in the middle stays there for models whose profile says `system_in_middle`, if it follows a turn of
    the user's; otherwise it goes to the top, and that is recorded as a decision of the seat B9. `timeout` is how many
    seconds the first output may take (600), `stream_idle_timeout` each further chunk (120). Async calls keep one client
    per event loop, plain calls one; all may run at once.
    """

    model: str = ""
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: list[str] | str | None = None
    thinking: dict[str, Any] | None = None
    effort: str | None = None
    output_config: dict[str, Any] | None = None
    cache_control: dict[str, Any] | None = None
    betas: list[str] = []
    container: Any = None
    context_management: dict[str, Any] | None = None
    mcp_servers: list[dict[str, Any]] | None = None
    inference_geo: str | None = None
    service_tier: str | None = None
    max_pauses: int = 10
    """How often a turn that Anthropic pauses is gone on with by itself; 0: never."""

    provider: ClassVar[str] = "anthropic"
    structured_methods: ClassVar[tuple[str, ...]] = ("json_schema", "function_calling")
    _aliases: ClassVar[dict[str, str]] = {
        "model_name": "model",
        "anthropic_api_key": "api_key",
        "anthropic_api_url": "base_url",
        "default_request_timeout": "timeout",
        "max_tokens_to_sample": "max_tokens",
        "stop_sequences": "stop",
    }

    _not_here: ClassVar[Mapping[str, str]] = {
        "anthropic_proxy": PROXY,
        "reuse_last_container": "container=, with the id that an answer's response_metadata told.",
        "stream_usage": "leave it out: streams count their tokens.",
    }

    media: ClassVar[tuple[str, ...]] = ("image", "file")
    refuses_blanks: ClassVar[bool] = True
    media_places: ClassVar[Places] = {"system": NONE, "ai": NONE, "human": frozenset(media), "tool": frozenset(media)}
    call_names: ClassVar[Pattern[str] | None] = re.compile(r"[a-zA-Z0-9_-]{1,128}")
    call_ids: ClassVar[Ids | None] = Ids(re.compile(r"[a-zA-Z0-9_-]*"))
    system_in_middle: ClassVar[str] = "in place after a user's turn where the model takes it, else at the top (B9)"

    sdk: ClassVar[str] = "anthropic"
    extra: ClassVar[str] = "anthropic"
    default_base_url: ClassVar[str] = "https://api.anthropic.com"
    url_variable: ClassVar[str] = "ANTHROPIC_BASE_URL"
    key_variable: ClassVar[str] = "ANTHROPIC_API_KEY"
    clients: ClassVar[type[Clients]] = AnthropicClients
    answers_with: ClassVar[str] = "a message"
    path: ClassVar[str] = "/v1/messages"
    wanted: ClassVar[str] = "content"

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        if self.profile is None:
            self.profile = profile_of(self.provider, self.model)
        thinking = self.thinking or {}
        budget = thinking.get("budget_tokens")
        if budget is not None and budget >= self._limit():
            raise InvalidConfig(
                f"thinking has a budget of {budget} tokens, and the whole answer a limit of {self._limit()}.",
                hint="Thoughts count towards max_tokens: set it higher than the budget.",
            )

    def _limit(self) -> int:
        return self.max_tokens or (self.profile or {}).get("max_output_tokens") or MAX_TOKENS

    @property
    def server_side_tools(self) -> Collection[str]:
        return SERVED

    # -- the request

    def _is_own_block(self, block: Mapping[str, Any], kwargs: Mapping[str, Any]) -> bool:
        return is_own(block)

    def _request(
        self, messages: list[BaseMessage], stop: Any, kwargs: Mapping[str, Any], stream: bool
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        from anthropic import Timeout

        in_middle = bool((self.profile or {}).get("system_in_middle"))
        system, wire = messages_to_wire(messages, system_in_middle=in_middle)
        wire = begun_by_a_person(wire, {"role": "user", "content": BEGINS})
        body: dict[str, Any] = {"model": self.model, "max_tokens": self._limit(), "messages": wire}
        if system is not None:
            body["system"] = system
        for name in _PASSED:
            value = getattr(self, name)
            if value is not None:
                body[name] = value
        stop = stop if stop is not None else self.stop
        if stop:
            body["stop_sequences"] = [stop] if isinstance(stop, str) else list(stop)
        body.update(self.model_kwargs)
        options: dict[str, Any] = {"timeout": self._timeout(kwargs.get("timeout"), Timeout)}
        headers = {}
        betas = kwargs.get("betas") or self.betas
        if betas:
            headers["anthropic-beta"] = ",".join(betas)
        for name, value in kwargs.items():
            if name == "extra_headers":
                headers.update(value)
            elif name == "extra_query":
                options["params"] = value
            elif name not in _SENT_APART and value is not None:
                body[name] = value
        if headers:
            options["headers"] = headers
        self._add_output_config(body, kwargs)
        self._add_tools(body, kwargs)
        if stream:
            body["stream"] = True
        body.update(self.extra_body)
        body.update(kwargs.get("extra_body") or {})
        return body, options

    def _add_output_config(self, body: dict[str, Any], kwargs: Mapping[str, Any]) -> None:
        config = {**(self.output_config or {}), **(kwargs.get("output_config") or {})}
        effort = kwargs.get("effort") or self.effort
        if effort:
            config["effort"] = effort
        asked = kwargs.get("response_format")
        if asked is not None:
            config["format"] = _format(asked)
        if config:
            body["output_config"] = config

    def _add_tools(self, body: dict[str, Any], kwargs: Mapping[str, Any]) -> None:
        tools = kwargs.get("tools")
        if not tools:
            return
        from runwell.models.tool_choice import tool_choice_for
        from runwell.schemas.dialects import function_definition

        definitions = [function_definition(tool) for tool in tools]
        body["tools"] = [_tool(definition) for definition in definitions]
        asked = kwargs.get("tool_choice")
        parallel = kwargs.get("parallel_tool_calls")
        if asked is None and parallel is not False:
            return
        choice = _choice(tool_choice_for(asked, definitions) if asked is not None else "auto")
        self._check_choice(choice)
        if parallel is not None and choice["type"] != "none":
            choice["disable_parallel_tool_use"] = not parallel
        body["tool_choice"] = choice

    def _check_choice(self, choice: Mapping[str, Any]) -> None:
        if choice.get("type") in ("any", "tool") and (self.thinking or {}).get("type") == "enabled":
            raise UnsupportedByProvider(
                "Anthropic's models cannot be made to call a tool while they think.",
                hint='tool_choice="auto", or no thinking; for structured output, method="json_schema".',
            )

    def _check_answer(self, described: Mapping[str, Any]) -> None:
        _held(described["schema"], described.get("name"))

    def _strict_schema(self, schema: dict[str, Any], whose: str) -> dict[str, Any]:
        from runwell.schemas.claude import claude_schema

        return claude_schema(schema, whose, "Anthropic's strict mode")

    def _check_tool(self, definition: Mapping[str, Any]) -> None:
        _tool(definition)

    def _tool_kwargs(
        self, tools: Sequence[Any], tool_choice: Any, strict: bool | None, parallel_tool_calls: bool | None
    ) -> dict[str, Any]:
        kwargs = super()._tool_kwargs(tools, tool_choice, strict, parallel_tool_calls)
        for tool, definition in zip(tools, kwargs["tools"], strict=True):
            if isinstance(tool, Mapping):  # the marks of the API's own form, beside the definition
                definition.update({key: tool[key] for key in _TOOL_EXTRAS if key in tool})
        if "tool_choice" in kwargs:
            self._check_choice(_choice(kwargs["tool_choice"]))
        return kwargs

    # -- turns that Anthropic pauses

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        result = super()._generate(messages, stop, run_manager, **kwargs)
        message: Any = result.generations[0].message
        for _ in range(self.max_pauses):
            if not is_paused(message):
                break
            further = kept_container(message, kwargs)
            rest = super()._generate([*messages, message], stop, run_manager, **further)
            message = joined(message, rest.generations[0].message)  # type: ignore[arg-type]
            result = ChatResult([ChatGeneration(message)], rest.llm_output)
        return result

    async def _agenerate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Any:
        result = await super()._agenerate(messages, stop, run_manager, **kwargs)
        message: Any = result.generations[0].message
        for _ in range(self.max_pauses):
            if not is_paused(message):
                break
            further = kept_container(message, kwargs)
            rest = await super()._agenerate([*messages, message], stop, run_manager, **further)
            message = joined(message, rest.generations[0].message)  # type: ignore[arg-type]
            result = ChatResult([ChatGeneration(message)], rest.llm_output)
        return result

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        turn, sent, further = Turn(self.max_pauses), messages, kwargs
        while True:
            for piece in super()._stream(sent, stop, run_manager, **further):
                turn.take(piece.message)
                yield piece
            if not turn.paused:
                return
            so_far = turn.go_on()
            sent, further = [*messages, so_far], kept_container(so_far, kwargs)

    async def _astream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        turn, sent, further = Turn(self.max_pauses), messages, kwargs
        while True:
            chunks = super()._astream(sent, stop, run_manager, **further)
            try:
                async for piece in chunks:
                    turn.take(piece.message)
                    yield piece
            finally:
                await aclose(chunks)
            if not turn.paused:
                return
            so_far = turn.go_on()
            sent, further = [*messages, so_far], kept_container(so_far, kwargs)

    # -- what comes back

    def _reader(self, request: Any) -> ChunkReader:
        return ChunkReader(rich=may_cite(request[0]))

    def _read(self, answer: Mapping[str, Any], headers: Mapping[str, str], request: Any) -> ChatResult:
        message = message_from_wire(answer, answer.get("usage"), rich=may_cite(request[0]))
        message.response_metadata = metadata_from_wire(answer)
        if headers.get("request-id"):
            message.response_metadata["request_id"] = headers["request-id"]
        return ChatResult(
            [ChatGeneration(message)], {"model_name": answer.get("model"), "token_usage": answer.get("usage")}
        )

    def _may_be_empty(self, answer: Mapping[str, Any]) -> bool:
        return answer.get("stop_reason") is not None


def may_cite(body: Mapping[str, Any]) -> bool:
    """Whether an answer may cite: a text's sources come after its first words, and must find it a block. The rest of a
    turn that was paused comes in blocks too."""
    if body["messages"] and body["messages"][-1]["role"] == "assistant":
        return True
    for turn in body["messages"]:
        top = turn["content"] if isinstance(turn["content"], list) else []
        for block in [*top, *(inner for each in top for inner in _inner(each))]:
            kind = block.get("type", "")
            if kind == "web_search_tool_result" or (block.get("citations") and kind in ("document", "search_result")):
                return True
    return False


def _inner(block: Mapping[str, Any]) -> list[Any]:
    content = block.get("content") if block.get("type") == "tool_result" else None
    return content if isinstance(content, list) else []


def _tool(definition: Mapping[str, Any]) -> dict[str, Any]:
    """A definition as the API writes it; what Anthropic runs itself stays as it is."""
    function = definition.get("function")
    if not isinstance(function, Mapping):
        return dict(definition)
    from runwell.schemas.dialects import convert_to_anthropic_tool

    tool = convert_to_anthropic_tool(function)
    if function.get("strict") is not None:
        tool["strict"] = function["strict"]
    return {**tool, **{key: value for key, value in definition.items() if key not in ("type", "function")}}


def _choice(choice: Any) -> dict[str, Any]:
    if choice == "required":
        return {"type": "any"}
    if isinstance(choice, str):
        return {"type": choice}
    function = choice.get("function")
    if isinstance(function, Mapping):
        return {"type": "tool", "name": function["name"]}
    return dict(choice)


def _format(asked: Any) -> dict[str, Any]:
    """A response format as the API writes it, from the one that all models share, or from a class."""
    if isinstance(asked, Mapping):
        described = asked.get("json_schema")
        if isinstance(described, Mapping):
            return {"type": "json_schema", "schema": _held(described["schema"], described.get("name"))}
        if asked.get("type") == "json_object":
            raise UnsupportedByProvider(
                "Anthropic has no JSON mode.", hint='with_structured_output(..., method="json_schema").'
            )
        return dict(asked)
    from runwell.schemas.structured import StructuredSchema

    read = StructuredSchema(asked)
    return {"type": "json_schema", "schema": _held(read.json_schema, read.name)}


def _held(schema: Any, name: Any) -> dict[str, Any]:
    from runwell.schemas.claude import claude_answer

    return claude_answer(schema, name, "Anthropic")
