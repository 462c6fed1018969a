"""Models that an Ollama server runs, through Ollama's own API and SDK."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from re import Pattern
from typing import Any, ClassVar

from runwell.errors import ModelConnectionError, ModelTimeout
from runwell.messages.message import BaseMessage
from runwell.models.media_kinds import Sources
from runwell.models.media_places import Places
from runwell.models.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from runwell.models.profile import ModelProfile
from runwell.models.wire_errors import error_from_wire
from runwell.providers.clients import Clients
from runwell.providers.event_lines import AsyncLines, Lines
from runwell.providers.http_library import ended
from runwell.providers.ollama.clients import OllamaClients
from runwell.providers.ollama.wire import ChunkReader, message_from_wire, messages_to_wire, metadata_from_wire
from runwell.providers.vendor_model import VendorModel

__all__ = ["ChatOllama", "Reader"]

_OPTIONS = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "seed",
    "num_ctx",
    "num_gpu",
    "num_thread",
    "repeat_last_n",
    "repeat_penalty",
    "presence_penalty",
    "frequency_penalty",
    "mirostat",
    "mirostat_eta",
    "mirostat_tau",
)
"""Arguments that go into `options`, when set."""

_SENT_APART = frozenset({"tools", "tool_choice", "parallel_tool_calls", "timeout", "extra_body", "response_format"})
_SENT_APART |= {"format", "max_tokens", "num_predict", "options", "extra_headers", "reasoning"}


class ChatOllama(VendorModel):
    """A model that an Ollama server runs.

    `base_url` is the server's address, http://127.0.0.1:11434 unless given; OLLAMA_HOST is read only with
    `base_url="env"`. No key is needed; `api_key` is for servers behind one. `num_predict` (or `max_tokens`) limits an
    answer, `num_ctx` is the room for the whole conversation: the server cuts what does not fit, from the front.
    `reasoning` turns thinking on or off, or says how much ("low", "medium", "high"); thoughts are in
    `additional_kwargs["reasoning_content"]`. `keep_alive` is how long the model stays loaded.

    The server cannot be told to call a tool, or how many: `tool_choice` but "auto" and `parallel_tool_calls=False`
    raise UnsupportedByProvider when bound. Structured output is by JSON schema unless you say otherwise. `timeout` is
    how many seconds the first output may take (600), `stream_idle_timeout` each further chunk (120).
    """

    model: str = ""
    max_tokens: int | None = None
    stop: list[str] | str | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int | None = None
    num_ctx: int | None = None
    num_gpu: int | None = None
    num_thread: int | None = None
    repeat_last_n: int | None = None
    repeat_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    mirostat: int | None = None
    mirostat_eta: float | None = None
    mirostat_tau: float | None = None
    reasoning: bool | str | None = None
    keep_alive: int | str | None = None
    format: Any = None
    """"json", or a JSON schema that each answer must fit."""

    provider: ClassVar[str] = "ollama"
    any_role: ClassVar[bool] = True
    _aliases: ClassVar[dict[str, str]] = {
        "model_name": "model",
        "num_predict": "max_tokens",
        "stop_sequences": "stop",
        "host": "base_url",
    }

    _not_here: ClassVar[Mapping[str, str]] = {
        "think": "reasoning=True, or 'low', 'medium', 'high'.",
        "validate_model_on_init": "leave it out: the first call says if the model is not there.",
        **{
            option: f"model_kwargs={{'options': {{{option!r}: ...}}}}."
            for option in ("tfs_z", "typical_p", "num_keep", "num_batch", "main_gpu", "use_mmap", "penalize_newline")
        },
    }

    tool_choices: ClassVar[tuple[str, ...]] = ("auto",)
    turns_parallel_off: ClassVar[bool] = False
    media_places: ClassVar[Places] = dict.fromkeys(("system", "human", "ai", "tool"), frozenset(("image",)))
    media_sources: ClassVar[Sources] = {"image": frozenset(("base64",))}
    passes_blocks: ClassVar[bool] = False
    strict_tools: ClassVar[bool] = False
    call_names: ClassVar[Pattern[str] | None] = None
    no_limit: ClassVar[tuple[int, ...]] = (-1, -2)
    tells_cached: ClassVar[bool] = False
    media_in_results: ClassVar[str] = "in a user's message after it"

    path: ClassVar[str] = "/api/chat"
    sdk: ClassVar[str] = "ollama"
    extra: ClassVar[str] = "ollama"
    default_base_url: ClassVar[str] = "http://127.0.0.1:11434"
    url_variable: ClassVar[str] = "OLLAMA_HOST"
    clients: ClassVar[type[Clients]] = OllamaClients
    http_library: ClassVar[tuple[str, ...]] = ("httpx",)

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        if self.profile is None:
            known: ModelProfile = {"structured_output": True, "system_in_middle": True, "tool_choice": False}
            self.profile = known

    # -- the request

    def _request(
        self, messages: list[BaseMessage], stop: Any, kwargs: Mapping[str, Any], stream: bool
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        from httpx import Timeout

        options = {name: getattr(self, name) for name in _OPTIONS if getattr(self, name) is not None}
        options |= {name: kwargs[name] for name in _OPTIONS if kwargs.get(name) is not None}
        limit = kwargs.get("max_tokens", kwargs.get("num_predict", self.max_tokens))
        if limit is not None:
            options["num_predict"] = limit
        stop = stop if stop is not None else self.stop
        if stop:
            options["stop"] = [stop] if isinstance(stop, str) else list(stop)
        options |= {**(self.model_kwargs.get("options") or {}), **(kwargs.get("options") or {})}
        body: dict[str, Any] = {"model": self.model, "messages": messages_to_wire(messages), "stream": stream}
        if options:
            body["options"] = options
        asked = kwargs.get("response_format")
        form = _format(asked) if asked is not None else kwargs.get("format", self.format)
        for name, value in (
            ("format", form),
            ("think", kwargs.get("reasoning", self.reasoning)),
            ("keep_alive", self.keep_alive),
        ):
            if value is not None:
                body[name] = value
        if kwargs.get("tools"):
            from runwell.schemas.dialects import function_definition

            body["tools"] = [function_definition(tool) for tool in kwargs["tools"]]
        taken = {*_SENT_APART, *_OPTIONS}
        body.update({name: value for name, value in kwargs.items() if name not in taken and value is not None})
        body.update({name: value for name, value in self.model_kwargs.items() if name != "options"})
        body.update(self.extra_body)
        body.update(kwargs.get("extra_body") or {})
        sending = {
            "timeout": self._timeout(kwargs.get("timeout"), Timeout),
            "headers": dict(kwargs.get("extra_headers") or {}),
        }
        return body, sending

    def _post(self, client: Any, request: Any) -> Any:
        body, sending = request
        return client.post(self.path, json=body, **sending)

    async def _apost(self, client: Any, request: Any) -> Any:
        body, sending = request
        return await client.post(self.path, json=body, **sending)

    def _begin(self, client: Any, request: Any) -> Any:
        body, sending = request
        response = client.send(client.build_request("POST", self.path, json=body, **sending), stream=True)
        if response.status_code >= 400:
            response.read()
            response.close()
            raise self._refused(response)
        return Lines(response)

    async def _abegin(self, client: Any, request: Any) -> Any:
        body, sending = request
        response = await client.send(client.build_request("POST", self.path, json=body, **sending), stream=True)
        if response.status_code >= 400:
            await response.aread()
            await response.aclose()
            raise self._refused(response)
        return AsyncLines(response)

    # -- what comes back

    def _result(self, answer: Any, request: Any) -> ChatResult:
        if answer.status_code >= 400:
            raise self._refused(answer)
        try:
            said = answer.json()
        except ValueError as error:
            raise self._unreadable(f"{answer.text[:200]!r}", error) from None
        said = self._said(said)
        if not isinstance(said, dict) or not isinstance(said.get("message"), dict):
            raise self._unreadable(f"{answer.text[:200]!r}", ValueError("no message"))
        message = message_from_wire(said)
        message.response_metadata = metadata_from_wire(said, called=bool(message.tool_calls))
        return ChatResult([ChatGeneration(message)], {"model_name": said.get("model")})

    def _said(self, answer: Any) -> Any:
        """An answer as the chat API writes it."""
        return answer

    def _reader(self, request: Any) -> Any:
        return Reader(self)

    def _refused(self, response: Any) -> Exception:
        try:
            body = response.json()
        except ValueError:
            body = None
        return error_from_wire(
            response.status_code, body, headers=response.headers, text=response.text[:500], who=self.base_url or ""
        )

    def _translated(self, error: Exception) -> Exception:
        import httpx

        who = self.base_url
        if isinstance(error, httpx.TimeoutException):
            return ModelTimeout(
                f"{who} gave no answer in time.", hint="timeout= sets how long the first output may take."
            )
        if isinstance(error, httpx.TransportError):
            return ModelConnectionError(
                f"{who} was not reached, or the connection broke: {ended(error)}",
                hint="Is the server running? `ollama serve`",
            )
        if type(error).__name__ == "JSONDecodeError":
            return self._unreadable("a line that is no JSON", error)
        return error


class Reader(ChunkReader):
    """Raises the error that a line in the middle of a stream tells."""

    __slots__ = ("_model",)

    def __init__(self, model: ChatOllama) -> None:
        super().__init__()
        self._model = model

    def take(self, event: Any) -> Iterator[ChatGenerationChunk]:
        if not isinstance(event, dict):
            raise self._model._unreadable(repr(event)[:200], ValueError("no message"))
        if event.get("error"):
            raise error_from_wire(None, event, who=self._model.base_url or "")
        return super().take(event)


def _format(asked: Any) -> Any:
    """A response format as the API writes it: "json", or the schema itself."""
    if isinstance(asked, Mapping):
        described = asked.get("json_schema")
        if isinstance(described, Mapping):
            return described["schema"]
        return "json" if asked.get("type") == "json_object" else dict(asked)
    from runwell.schemas.structured import StructuredSchema

    return StructuredSchema(asked).json_schema
