"""Cohere's models, through Cohere's own SDK."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from runwell.errors import InvalidInput, UnsupportedByProvider
from runwell.messages.message import BaseMessage
from runwell.models.media_kinds import Sources
from runwell.models.media_places import NONE, Places
from runwell.models.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from runwell.models.profile import profile_of
from runwell.models.tool_choice import tool_choice_for, tool_name
from runwell.providers.cohere.account import CohereAccount
from runwell.providers.cohere.blocks import document_to_wire
from runwell.providers.cohere.wire import ChunkReader, message_from_wire, messages_to_wire, metadata_from_wire

__all__ = ["ChatCohere"]

_PASSED = (
    "temperature",
    "max_tokens",
    "p",
    "k",
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "logprobs",
    "safety_mode",
    "citation_options",
    "thinking",
    "priority",
)
"""Arguments that go into each request as they are, when set."""

_SENT_APART = frozenset({"tools", "tool_choice", "parallel_tool_calls", "timeout", "extra_body", "extra_headers"})
_SENT_APART |= {"response_format", "documents", "top_p", "top_k"}


class ChatCohere(CohereAccount):
    """A model behind Cohere's chat API, version 2.

    `base_url` is where requests go: Cohere itself unless given; environment variables change it only with
    `base_url="env"`, which reads CO_API_URL. `api_key` is a text; without it COHERE_API_KEY is read, and MissingApiKey
    raised if that is not set either.

    `documents` (texts, `Document`s or dicts with `data` and `id`) are what the model may cite; so are the results of
    tools. Citations are annotations of the text in `content_blocks`. `thinking` is the API's own, such as
    `{"type": "disabled"}`; thoughts stay in the message's content and go back with it, to Cohere alone. What a model
    says before its calls, its plan, is the message's text.

    The API cannot be told to make one call at a time: `parallel_tool_calls=False` raises UnsupportedByProvider when
    bound. A tool that must be called by name is sent alone. `timeout` is how many seconds the first output may take
    (600), `stream_idle_timeout` each further chunk (120). Async calls keep one client per event loop, plain calls one;
    all may run at once.
    """

    model: str = ""
    temperature: float | None = None
    max_tokens: int | None = None
    stop: list[str] | str | None = None
    p: float | None = None
    k: int | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logprobs: bool | None = None
    safety_mode: str | None = None
    citation_options: dict[str, Any] | None = None
    thinking: dict[str, Any] | None = None
    priority: int | None = None
    documents: list[Any] | None = None

    provider: ClassVar[str] = "cohere"
    _aliases: ClassVar[dict[str, str]] = {
        "model_name": "model",
        "cohere_api_key": "api_key",
        "cohere_api_url": "base_url",
        "request_timeout": "timeout",
        "timeout_seconds": "timeout",
        "user_agent": "client_name",
        "top_p": "p",
        "top_k": "k",
        "stop_sequences": "stop",
    }

    _not_here: ClassVar[Mapping[str, str]] = {
        "preamble": "a SystemMessage before the others.",
        "connectors": "version 2 of the API has none: documents=, or a tool that searches.",
    }

    turns_parallel_off: ClassVar[bool] = False
    media_places: ClassVar[Places] = {"system": NONE, "ai": NONE} | dict.fromkeys(
        ("human", "tool"), frozenset(("image",))
    )
    media_sources: ClassVar[Sources] = {"image": frozenset(("url", "base64"))}
    own_blocks: ClassVar[frozenset[str]] = frozenset(("document",))
    media_in_results: ClassVar[str] = "in a user's message after it"

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        if self.profile is None:
            self.profile = profile_of(self.provider, self.model)
        for document in self.documents or ():
            _checked(document)

    # -- the request

    def _request(
        self, messages: list[BaseMessage], stop: Any, kwargs: Mapping[str, Any], stream: bool
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        body: dict[str, Any] = {"model": self.model, "messages": messages_to_wire(messages), "stream": stream}
        body |= {name: getattr(self, name) for name in _PASSED if getattr(self, name) is not None}
        stop = stop if stop is not None else self.stop
        if stop:
            body["stop_sequences"] = [stop] if isinstance(stop, str) else list(stop)
        body.update(self.model_kwargs)
        body |= {name: value for name, value in kwargs.items() if name not in _SENT_APART and value is not None}
        body |= {short: kwargs[f"top_{short}"] for short in ("p", "k") if kwargs.get(f"top_{short}") is not None}
        documents = kwargs.get("documents", self.documents)
        if documents:
            body["documents"] = [document_to_wire(_checked(each)) for each in documents]
        if kwargs.get("response_format") is not None:
            body["response_format"] = _format(kwargs["response_format"])
        self._add_tools(body, kwargs)
        self._check_together(body)
        body.update(self.extra_body)
        body.update(kwargs.get("extra_body") or {})
        return body, self._sending(kwargs)

    def _add_tools(self, body: dict[str, Any], kwargs: Mapping[str, Any]) -> None:
        tools = kwargs.get("tools")
        if not tools:
            return
        from runwell.schemas.dialects import convert_to_cohere_tool, function_definition

        definitions = [function_definition(tool) for tool in tools]
        choice = kwargs.get("tool_choice")
        if choice is not None:
            choice = tool_choice_for(choice, definitions)
            if isinstance(choice, Mapping):
                named = tool_name(choice)
                definitions = [each for each in definitions if tool_name(each) == named]
            told = {"auto": None, "none": "NONE"}.get(choice, "REQUIRED") if isinstance(choice, str) else "REQUIRED"
            if told:
                body["tool_choice"] = told
        body["tools"] = [convert_to_cohere_tool(each) for each in definitions]
        if any((each.get("function") or {}).get("strict") for each in definitions):
            body["strict_tools"] = True

    def _strict_schema(self, schema: dict[str, Any], whose: str) -> dict[str, Any]:
        from runwell.schemas.cohere import cohere_schema

        return cohere_schema(schema, whose)

    def _check_together(self, kwargs: Mapping[str, Any]) -> None:
        super()._check_together(kwargs)
        if kwargs.get("response_format") is None:
            return
        if kwargs.get("tools") or kwargs.get("documents", self.documents):
            raise UnsupportedByProvider(
                "Cohere's models answer in JSON only without tools and without documents.",
                hint='with_structured_output(..., method="function_calling"), in an agent '
                "response_format=ToolStrategy(...).",
            )

    def _check_tool(self, definition: Mapping[str, Any]) -> None:
        from runwell.schemas.dialects import convert_to_cohere_tool

        convert_to_cohere_tool(definition)

    def _tool_kwargs(
        self, tools: Sequence[Any], tool_choice: Any, strict: bool | None, parallel_tool_calls: bool | None
    ) -> dict[str, Any]:
        kwargs = super()._tool_kwargs(tools, tool_choice, strict, parallel_tool_calls)
        kwargs.pop("parallel_tool_calls", None)  # True is how it is
        return kwargs

    def _post(self, client: Any, request: Any) -> Any:
        return self._sent(client, "chat", *request)

    async def _apost(self, client: Any, request: Any) -> Any:
        return await self._asent(client, "chat", *request)

    def _begin(self, client: Any, request: Any) -> Any:
        return self._events(client, "chat", *request)

    async def _abegin(self, client: Any, request: Any) -> Any:
        return await self._aevents(client, "chat", *request)

    # -- what comes back

    def _result(self, answer: Any, request: Any) -> ChatResult:
        said = self._decoded(answer, "message")
        if not isinstance(said["message"], dict):
            raise self._unreadable(f"{answer.text[:200]!r}", ValueError("no message"))
        self._refuse_failed(said)
        message = message_from_wire(said["message"], said.get("usage"))
        message.response_metadata = {**metadata_from_wire(said), "model_name": self.model}
        return ChatResult([ChatGeneration(message)], {"model_name": self.model, "token_usage": said.get("usage")})

    def _reader(self, request: Any) -> Any:
        return _Reader(self)

    def _refuse_failed(self, answer: Mapping[str, Any]) -> None:
        """An answer that the API broke off is none."""
        reason = answer.get("finish_reason")
        if reason in ("ERROR", "TIMEOUT") or answer.get("error"):
            raise self._broken_off(reason or "ERROR", answer.get("error") or "the answer was not finished")


class _Reader(ChunkReader):
    """Raises the error that an event tells, and says which model answers, which no event does."""

    __slots__ = ("_model",)

    def __init__(self, model: ChatCohere) -> None:
        super().__init__()
        self._model = model

    def take(self, event: Any) -> Any:
        if not isinstance(event, dict):
            raise self._model._unreadable(repr(event)[:200], ValueError("no event"))
        if event.get("type") == "message-end":
            self._model._refuse_failed(event.get("delta") or {})
        if "type" not in event and event.get("message"):
            raise self._model._told(None, event)
        return super().take(event)

    def end(self, who: str | None) -> ChatGenerationChunk:
        chunk = super().end(who)
        chunk.message.response_metadata["model_name"] = self._model.model
        return chunk


def _format(asked: Any) -> Any:
    """A response format as the API writes it, from the one that all models share, or from a class."""
    if isinstance(asked, Mapping):
        described = asked.get("json_schema")
        if asked.get("type") == "json_schema" and isinstance(described, Mapping):
            return {"type": "json_object", "json_schema": described["schema"]}
        return dict(asked)
    from runwell.schemas.structured import StructuredSchema

    return {"type": "json_object", "json_schema": StructuredSchema(asked).json_schema}


def _checked(document: Any) -> Any:
    if isinstance(document, str) or isinstance(getattr(document, "page_content", None), str):
        return document
    if isinstance(document, Mapping) and document.get("data"):
        return dict(document)
    raise InvalidInput(
        f"A document to cite is a text, a Document, or a dict with `data`; got {document!r:.100}.",
        hint='{"id": "1", "data": {"title": ..., "snippet": ...}}',
    )
