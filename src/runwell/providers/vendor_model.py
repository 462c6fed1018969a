"""What adapters on vendors' SDKs share: address, key, timeouts, clients, and the four calls in terms of a few hooks."""

from __future__ import annotations

import os
import re
import socket
from abc import abstractmethod
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from re import Pattern
from typing import Any, ClassVar

from pydantic import SecretStr

from runwell.errors import (
    InvalidHistory,
    InvalidInput,
    MissingApiKey,
    MissingExtra,
    ModelError,
    ModelTimeout,
    UnsupportedByProvider,
)
from runwell.messages.message import AIMessage, BaseMessage
from runwell.models.blanks import without_blanks
from runwell.models.call_forms import Forms, Ids, with_fitting_calls
from runwell.models.chat_model import HARMLESS, BaseChatModel
from runwell.models.described_calls import as_ordinary_calls
from runwell.models.idle import IdleWatch
from runwell.models.media_kinds import Sources
from runwell.models.media_places import NONE, Places, with_media_named
from runwell.models.outgoing import check_outgoing, half_characters
from runwell.models.outputs import ChatGenerationChunk, ChatResult
from runwell.models.own_blocks import Fitting
from runwell.models.prices import FREE, host_elsewhere
from runwell.models.settings import check_settings
from runwell.providers.clients import Clients
from runwell.providers.http_library import check_http_clients
from runwell.providers.sent_apart import check_dicts, check_url, sendable_key
from runwell.runnables.fields import PASSWORD

__all__ = ["CLIENT", "CONNECT_S", "FIRST_OUTPUT_S", "PROXY", "VendorModel"]

_PER_REQUEST = frozenset(
    (
        "model",
        "temperature",
        "max_tokens",
        "top_p",
        "seed",
        "stop",
        "timeout",
        "stream_idle_timeout",
        "model_kwargs",
        "max_media_bytes",
    )
)
"""Arguments that stand in each request, and settle nothing about connections."""

CLIENT = "http_client=httpx.Client(...) and http_async_client=httpx.AsyncClient(...); the SDK's client is made here."
PROXY = "http_client=httpx.Client(proxy=...), and http_async_client=httpx.AsyncClient(proxy=...) for async calls."

FIRST_OUTPUT_S = 600.0
CONNECT_S = 10.0


class VendorModel(BaseChatModel):
    """A model behind a vendor's SDK. A subclass writes `_request`, `_result`, `_reader`, `_translated` and how its SDK
    sends (`_post`, `_apost`) and streams (`_begin`, `_abegin`).

    Nothing in the environment decides where requests go or who pays, but the key's own variable and
    `base_url="env"`.
    """

    api_key: Any = None
    base_url: str | None = None
    timeout: Any = None
    stream_idle_timeout: float | None = 120.0
    model_kwargs: dict[str, Any] = {}
    extra_body: dict[str, Any] = {}
    default_headers: dict[str, str] = {}
    max_media_bytes: int = 50_000_000
    """The largest picture, sound or file that is sent."""
    http_client: Any = None
    http_async_client: Any = None

    _beyond: ClassVar[str] = " Fields of the vendor's API that it does not name: model_kwargs={...}."
    _not_here: ClassVar[Mapping[str, str]] = {
        "client": CLIENT,
        "async_client": CLIENT,
        "client_kwargs": "default_headers={...} for headers, http_client= and http_async_client= for the rest.",
        "sync_client_kwargs": "http_client=httpx.Client(...).",
        "async_client_kwargs": "http_async_client=httpx.AsyncClient(...).",
        "client_args": "default_headers={...} for headers, http_client= and http_async_client= for the rest.",
        "parallel_tool_calls": "model.bind_tools([...], parallel_tool_calls=False).",
        "n": "one answer to a call; model.batch([question] * 3) gives three.",
        "headers": "default_headers={...}.",
        "proxy": PROXY,
        "max_concurrent_requests": 'the config of a batch: model.batch(questions, {"max_concurrency": 8}).',
    }

    sdk: ClassVar[str] = ""
    """The module that must be there."""
    extra: ClassVar[str] = ""
    """What installs it."""
    default_base_url: ClassVar[str] = ""
    url_variable: ClassVar[str] = ""
    key_variable: ClassVar[str] = ""
    """Empty: no key is needed."""
    keyed_by: ClassVar[str] = ""
    """What stands for the key where no variable holds it, for the table in docs/providers.md."""
    key_may_be_a_function: ClassVar[bool] = False
    clients: ClassVar[type[Clients]] = Clients
    http_library: ClassVar[tuple[str, ...]] = ("httpx2",)
    """Whose clients its SDK works with; empty if it has a client of its own kind."""
    any_role: ClassVar[bool] = False
    """Whether servers of this API take roles of their own."""
    takes_functions: ClassVar[bool] = False
    """Whether the API takes results of functions, which came before tools."""
    own_blocks: ClassVar[frozenset[str]] = frozenset()
    """Types of content blocks of the vendor's own that have no standard form."""
    passes_blocks: ClassVar[bool] = True
    """Whether blocks that the program marks as the vendor's (`non_standard`) are sent as they are."""
    call_names: ClassVar[Pattern[str] | None] = re.compile(r"[a-zA-Z0-9_-]{1,64}")
    call_ids: ClassVar[Ids | None] = None
    """What names of calls in a history must match, and their ids be; None: anything."""
    refuses_blanks: ClassVar[bool] = False
    """Whether the API refuses a text that is nothing but blanks wherever it stands."""
    # What it declares it can do: the table in docs/providers.md, and what is refused when binding.
    tool_choices: ClassVar[tuple[str, ...]] = ("auto", "none", "any", "a name")
    turns_parallel_off: ClassVar[bool] = True
    strict_tools: ClassVar[bool] = True
    no_limit: ClassVar[tuple[int, ...]] = ()
    """Numbers below 0 that the server takes as `max_tokens`, for no limit."""
    media: ClassVar[tuple[str, ...]] = ("image",)
    tells_cached: ClassVar[bool] = True
    system_in_middle: ClassVar[str] = "in place"
    media_in_results: ClassVar[str] = "in place"
    media_places: ClassVar[Places] = {"system": NONE}
    """Where media of which kinds may stand; elsewhere they are named in a text."""
    media_sources: ClassVar[Sources] = {}
    """How media may be given; those that are given otherwise are named in a text."""

    answers_with: ClassVar[str] = "an answer"
    """What the vendor calls an answer, for errors."""

    def __init__(self, **given: Any) -> None:
        names = ["base_url", *(alias for alias, name in self._aliases.items() if name == "base_url")]
        self._given_url = next((given[name] for name in names if name in given), None)
        super().__init__(**given)

    @property
    def server_side_tools(self) -> Collection[str]:
        """Types of tools that this model's provider runs: dicts of these may be given to `create_agent`."""
        return ()

    def model_post_init(self, context: Any) -> None:
        self._given_profile = self.profile
        if not _is_there(self.sdk):
            raise MissingExtra(type(self).__name__, self.extra)
        name = getattr(self, "model", None)
        if not isinstance(name, str) or not name.strip():
            raise InvalidInput(f"{type(self).__name__} needs the name of a model; got model={name!r}.")
        given = {each: getattr(self, each, None) for each in self._fields}
        for each, value in check_settings(type(self).__name__, given, no_limit=self.no_limit).items():
            setattr(self, each, value)
        check_dicts(type(self).__name__, given)
        check_url(self.base_url)
        for each in ("model_kwargs", "extra_body", "default_headers"):
            if given.get(each, self) is None:
                setattr(self, each, {})
        if self.http_library:
            check_http_clients(type(self).__name__, self.http_client, self.http_async_client, self.http_library)
        self.base_url = self._resolve_base_url()
        self.api_key = self._resolve_key()
        self._clients = self.clients()

    def _resolve_base_url(self) -> str:
        url = self.base_url
        if url == "env":
            url = os.environ.get(self.url_variable)
        url = (url or self.default_base_url).rstrip("/")
        if not url.startswith(("http://", "https://")):
            raise InvalidInput(f"base_url must start with http:// or https://; got {url!r}.")
        return url

    def _resolve_key(self) -> Any:
        key = self.api_key
        if key is None and self.key_variable:
            key = os.environ.get(self.key_variable)
        if isinstance(key, SecretStr):
            key = key.get_secret_value()
        if isinstance(key, str) and key.strip():
            return SecretStr(sendable_key(type(self).__name__, key))
        if self.key_may_be_a_function and callable(key):
            return key
        if not self.key_variable and not key:
            return None
        if key is not None and not isinstance(key, str):
            kinds = "a text, or a function that gives one" if self.key_may_be_a_function else "a text"
            raise InvalidInput(f"{type(self).__name__}: api_key is {kinds}; got one of type {type(key).__name__}.")
        local = "" if self.base_url == self.default_base_url else ' For a server that wants no key: api_key="none".'
        raise MissingApiKey(
            f"{type(self).__name__} has no API key.", hint=f"Set {self.key_variable}, or pass api_key=...{local}"
        )

    def _advice(self, argument: str) -> str | None:
        found = super()._advice(argument)
        return (found and self.http_library and found.replace("httpx.", f"{self.http_library[0]}.")) or found

    @property
    def model_name(self) -> str:
        """The same as `model`."""
        return str(getattr(self, "model", ""))

    @property
    def model_host(self) -> str | None:
        """Where the server stands, if that matters for the price and is not the program's own."""
        if self.provider not in FREE:
            return None
        return host_elsewhere(self.base_url or "")

    def _name_model(self, message: AIMessage) -> None:
        super()._name_model(message)
        host = self.model_host
        if host is not None:
            message.response_metadata.setdefault("model_host", host)

    @property
    def _identifying_params(self) -> dict[str, Any]:
        hidden = ("api_key", "default_headers", "http_client", "http_async_client", "timeout", "stream_idle_timeout")
        shown = super()._identifying_params
        return {name: value for name, value in shown.items() if name not in hidden} | {"model": self.model_name}

    def model_copy(self, *, update: dict[str, Any] | None = None) -> Any:
        """A copy with some arguments changed. It shares the connections unless where they lead, or who pays, does."""
        twin = super().model_copy(update=update)
        changed = set(update or ()) - HARMLESS
        if changed:
            # as they were given, not as they were made out: the whole is made out anew
            twin._given_url = twin.base_url = (update or {}).get("base_url", self._given_url)
            if "profile" not in changed:
                twin.profile = self._given_profile  # that of another model is not its own
            twin.model_post_init(None)
        if changed <= _PER_REQUEST:
            twin._clients = self._clients
        return twin

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_clients"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._clients = self.clients()

    def _tool_kwargs(
        self, tools: Sequence[Any], tool_choice: Any, strict: bool | None, parallel_tool_calls: bool | None
    ) -> dict[str, Any]:
        kwargs = super()._tool_kwargs(tools, tool_choice, strict, parallel_tool_calls)
        who = type(self).__name__
        choice = kwargs.get("tool_choice")
        kind = {"required": "any", "auto": "auto", "none": "none", None: "auto"}.get(
            choice if isinstance(choice, str) else None if choice is None else "", "a name"
        )
        if choice is not None and kind not in self.tool_choices:
            raise UnsupportedByProvider(
                f"{who} cannot be told which tools to call; got tool_choice={tool_choice!r}.",
                hint=f"It takes {', '.join(map(repr, self.tool_choices))}. For an answer in a shape: "
                'with_structured_output(..., method="json_schema"), in an agent response_format=ProviderStrategy(...).',
            )
        if parallel_tool_calls is False and not self.turns_parallel_off:
            raise UnsupportedByProvider(f"{who} cannot be told to make one call at a time.")
        if strict and not self.strict_tools:
            raise UnsupportedByProvider(f"{who} cannot hold calls to a schema; got strict=True.")
        return kwargs

    def _bound_tools(self, tools: Any) -> Any:
        """Definitions, all of them: what cannot be described is refused when it is bound."""
        from runwell.models.tool_choice import as_definitions

        return as_definitions(tools)

    def _check_together(self, kwargs: Mapping[str, Any]) -> None:
        """Numbers, times and `stop` too: they are wrong when they are bound, not first when they are sent."""
        check_settings(type(self).__name__, kwargs, no_limit=self.no_limit)
        check_dicts(type(self).__name__, kwargs)

    def _checked(self, messages: list[BaseMessage], stop: Any, kwargs: Mapping[str, Any], stream: bool) -> Any:
        """The request for messages that a provider could take."""
        numbers = check_settings(type(self).__name__, {**kwargs, "stop": stop}, no_limit=self.no_limit)
        check_dicts(type(self).__name__, kwargs)
        if numbers:
            kwargs = {**kwargs, **numbers}
        look: Any = partial(
            check_outgoing,
            largest=self.max_media_bytes,
            any_role=self.any_role and self.base_url != self.default_base_url,
            functions=self.takes_functions,
            pairs=self._has_whole_history(kwargs),
            blanks=self.refuses_blanks,
        )
        callers: list[AIMessage] = []
        try:
            plain = look(messages, callers=callers)
        except InvalidHistory:  # a result may answer a call in another vendor's form
            told = as_ordinary_calls(messages)
            if told is None:
                raise
            messages = told
            callers.clear()
            plain = look(messages, callers=callers)
        messages = with_fitting_calls(messages, callers, self._call_forms(kwargs))
        if not plain:
            messages = self._fitted(messages, kwargs)
        return self._request(messages, stop, kwargs, stream)

    def _fitted(self, messages: list[BaseMessage], kwargs: Mapping[str, Any]) -> list[BaseMessage]:
        """The messages with what this provider has no place for converted, by the rules that all adapters share."""
        fitting = Fitting(
            type(self).__name__, self.provider, lambda block: self._is_own_block(block, kwargs), self.passes_blocks
        )
        fitted = without_blanks(fitting.fit(messages), texts=self.refuses_blanks)
        return with_media_named(fitted, self.media_places, self.media_sources)

    def _is_own_block(self, block: Mapping[str, Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether a content block is in the vendor's own form, which this request goes on with as it is."""
        return block.get("type") in self.own_blocks

    def _call_forms(self, kwargs: Mapping[str, Any]) -> Forms:
        """What names and ids of calls in a history must match."""
        return self.call_names, self.call_ids

    def _has_whole_history(self, kwargs: Mapping[str, Any]) -> bool:
        """Whether calls and results must all be in the request: nothing of the conversation is kept elsewhere."""
        return True

    # -- what a subclass writes

    @abstractmethod
    def _request(self, messages: list[BaseMessage], stop: Any, kwargs: Mapping[str, Any], stream: bool) -> Any:
        """What `_post` and `_begin` are given."""

    @abstractmethod
    def _result(self, answer: Any, request: Any) -> ChatResult:
        """The result in what `_post` gave for a request."""

    @abstractmethod
    def _reader(self, request: Any) -> Any:
        """Reads one stream: `take(event)` gives chunks, `end(who)` the last one."""

    @abstractmethod
    def _translated(self, error: Exception) -> Exception:
        """Our error for the SDK's."""

    @abstractmethod
    def _post(self, client: Any, request: Any) -> Any: ...

    @abstractmethod
    async def _apost(self, client: Any, request: Any) -> Any: ...

    @abstractmethod
    def _begin(self, client: Any, request: Any) -> Any:
        """An iterator of events with `close()`."""

    @abstractmethod
    async def _abegin(self, client: Any, request: Any) -> Any:
        """An async iterator of events with `async close()`."""

    def _response_of(self, stream: Any) -> Any:
        """The HTTP response that a stream reads."""
        return stream.response

    # -- timeouts

    def _timeout(self, asked: Any, kind: Any) -> Any:
        """The HTTP client's timeout (of its class `kind`) until the first output."""
        seconds = asked if asked is not None else self.timeout
        if seconds is None:
            return kind(FIRST_OUTPUT_S, connect=CONNECT_S)
        if isinstance(seconds, int | float):
            return kind(seconds, connect=min(CONNECT_S, seconds))
        return kind(seconds) if isinstance(seconds, tuple) else seconds

    def _idle_s(self, kwargs: Mapping[str, Any]) -> float | None:
        """Seconds that a further chunk may take: never more than the first may."""
        first = kwargs.get("timeout", self.timeout)
        limits = [each for each in (self.stream_idle_timeout, first) if isinstance(each, int | float)]
        return min(limits, default=None)

    def _watch(self, stream: Any, idle_s: float | None) -> IdleWatch:
        def silent() -> ModelTimeout:
            return ModelTimeout(
                f"{self.base_url} sent nothing more for {idle_s:g} s in the middle of a stream.",
                hint="stream_idle_timeout= sets how long a chunk may take.",
            )

        return IdleWatch(idle_s, lambda: sever(self._response_of(stream)), silent)

    # -- the four calls

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        request = self._checked(messages, stop, kwargs, False)
        client = self._clients.plain(self)
        try:
            return self._result(self._post(client, request), request)
        except Exception as error:
            raise self._safe(self._translated(error)) from None

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        request = self._checked(messages, stop, kwargs, False)
        client = await self._clients.on_loop(self)
        try:
            return self._result(await self._apost(client, request), request)
        except Exception as error:
            raise self._safe(self._translated(error)) from None

    def _stream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        request = self._checked(messages, stop, kwargs, True)
        client, reader = self._clients.plain(self), self._reader(request)
        idle_s = self._idle_s(kwargs)
        stream: Any = None
        try:
            stream = self._begin(client, request)
            event = next(stream, None)  # until then the HTTP client's own limit holds
            with self._watch(stream, idle_s) as watch:
                while event is not None:
                    watch.rest()
                    yield from reader.take(event)
                    watch.beat()
                    event = next(stream, None)
            yield reader.end(self.base_url)
        except Exception as error:
            raise self._safe(self._translated(error)) from None
        finally:
            if stream is not None:
                stream.close()

    async def _astream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        request = self._checked(messages, stop, kwargs, True)
        client, reader = await self._clients.on_loop(self), self._reader(request)
        idle_s = self._idle_s(kwargs)
        stream: Any = None
        try:
            stream = await self._abegin(client, request)
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
            raise self._safe(self._translated(error)) from None
        finally:
            if stream is not None:
                await stream.close()

    # -- what goes wrong

    def _safe(self, error: Exception) -> Exception:
        """What it says holds no key, even where a server echoes the one it was sent."""
        if isinstance(error, UnicodeEncodeError):
            return half_characters(error, "The request")
        if isinstance(error, TypeError) and "JSON serializable" in str(error):
            return InvalidInput(
                f"The request to {self.base_url} holds what JSON cannot say: {error}.",
                hint="Look at model_kwargs=, extra_body=, what was bound, and the extras of content blocks.",
            )
        if isinstance(error, TypeError) and "unexpected keyword argument" in str(error):
            return InvalidInput(
                f"{type(self).__name__}: the vendor's SDK does not know an argument: {error}.",
                hint="Look at model_kwargs=, extra_body= and what was bound.",
            )
        if isinstance(error, _ODD) and (place := _read_at(error)):
            error = self._unreadable("something in it has another form than it should have", error)
            error.add_note(f"It was read at {place}.")
        for secret in self._not_to_show():
            if secret != "none" and isinstance(error, ModelError) and secret in error.message:
                error.message = error.message.replace(secret, "**********")
                error.args = (error.message,)
        return error

    def _not_to_show(self) -> list[str]:
        """What must be in no error."""
        address = PASSWORD.search(self.base_url or "")
        word = address and address[2]
        key = self.api_key.get_secret_value() if isinstance(self.api_key, SecretStr) else None
        return [secret for secret in (key, word) if secret]

    def _broken_off(self, reason: str, told: str) -> ModelError:
        """An answer that the provider itself calls failed is none: it may pass."""
        problem = ModelError(f"{self.base_url} ended the answer with {reason}: {told}.")
        problem.retryable = True
        return problem

    def _unreadable(self, what: str, error: Exception) -> ModelError:
        """A proxy's page, or half an answer: it may pass."""
        problem = ModelError(f"{self.base_url} answered with what is not {self.answers_with}: {what} ({error}).")
        problem.retryable = True
        return problem


_ODD = (KeyError, TypeError, AttributeError, IndexError, ValueError)
_READING = frozenset({"_result", "take", "end"})


def _read_at(error: Exception) -> str | None:
    """Where an answer was read that this error comes from; None for an error of something else, such as of a function
    that gives the key."""
    from traceback import extract_tb

    frames = extract_tb(error.__traceback__)
    if not any(frame.name in _READING and "runwell" in frame.filename for frame in frames):
        return None
    return f"{frames[-1].filename}:{frames[-1].lineno}"


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of a package that another holds, which is not there either
        return False


def sever(response: Any) -> None:
    """Make a read that is under way in another thread fail."""
    network = response.extensions.get("network_stream")
    connection = network.get_extra_info("socket") if network is not None else None
    if connection is not None:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
