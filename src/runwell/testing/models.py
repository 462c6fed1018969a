"""Models without a model: scripted answers for tests, with nothing left to chance."""

from __future__ import annotations

import hashlib
import inspect
import random
import re
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from runwell.drivers.other_colour import beneath
from runwell.errors import InvalidInput, UsageError
from runwell.messages.calls import calls_as_written, fragment_of
from runwell.messages.chunks import AIMessageChunk
from runwell.messages.message import AIMessage, BaseMessage
from runwell.messages.usage import UsageMetadata
from runwell.models.chat_model import BaseChatModel
from runwell.models.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from runwell.models.retry import RetryPolicy
from runwell.ports.embeddings import Embeddings

__all__ = [
    "DeterministicFakeEmbedding",
    "FakeChatModel",
    "FakeEmbeddings",
    "FakeListChatModel",
    "FakeListChatModelError",
    "FakeMessagesListChatModel",
    "FakeRequest",
    "GenericFakeChatModel",
    "ParrotFakeChatModel",
]


@dataclass(slots=True)
class FakeRequest:
    """What one call asked. `tools` are function definitions as a provider is sent them."""

    messages: list[BaseMessage]
    tools: list[dict[str, Any]] = field(default_factory=list)
    tool_choice: Any = None
    stop: list[str] | None = None
    kwargs: dict[str, Any] = field(default_factory=dict)
    """Everything else the call said."""

    @property
    def tool_names(self) -> list[str]:
        """The names of the tools offered."""
        return [tool["function"]["name"] if "function" in tool else tool.get("type", "") for tool in self.tools]


class _Scripted(BaseChatModel):
    """Turns a message into an answer or a stream of chunks; a subclass says which message."""

    provider: ClassVar[str] = "fake"
    retry_policy: ClassVar[RetryPolicy] = RetryPolicy(first_s=0.0, patience_s=0.0)

    model: str = "fake"
    max_retries: int = 0
    chunk_size: int | None = None
    """Characters in a chunk of text, and in a fragment of a call's arguments; None: whole words, and 8."""
    latency: float = 0.0
    """Seconds before an answer, and between two chunks."""

    def _reply(self, request: FakeRequest) -> Any:
        """The answer: a message, a text, an error to raise, or an awaitable of one."""
        raise NotImplementedError

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        self._wait()
        reply = self._reply(_request(messages, stop, kwargs))
        if inspect.isawaitable(reply):
            from runwell.drivers.sync import call_sync
            from runwell.effects import Callee

            reply = call_sync(Callee(None, _awaited), reply)
        return ChatResult([ChatGeneration(_message(reply, messages))])

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        await self._await()
        reply = self._reply(_request(messages, stop, kwargs))
        if inspect.isawaitable(reply):
            reply = await reply
        return ChatResult([ChatGeneration(_message(reply, messages))])

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        message = self._generate(messages, stop, **kwargs).generations[0].message
        for index, chunk in enumerate(self._split(message)):
            if index:
                self._wait()
            yield ChatGenerationChunk(chunk)

    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        message = (await self._agenerate(messages, stop, **kwargs)).generations[0].message
        for index, chunk in enumerate(self._split(message)):
            if index:
                await self._await()
            yield ChatGenerationChunk(chunk)

    def _wait(self) -> None:
        if self.latency:
            time.sleep(self.latency)

    async def _await(self) -> None:
        if self.latency:
            import asyncio

            await asyncio.sleep(self.latency)

    def _split(self, message: Any) -> list[AIMessageChunk]:
        """Chunks that add up to the message: its text, then its calls in fragments, then what it took."""
        chunks: list[AIMessageChunk] = []
        if isinstance(message.content, str):
            chunks += [AIMessageChunk(piece) for piece in _pieces(message.content, self.chunk_size)]
        else:
            chunks += [AIMessageChunk([_placed(block, place)]) for place, block in enumerate(message.content)]
        for index, call in enumerate(calls_as_written(message)):
            whole = fragment_of(call)
            head = {**whole, "args": "", "index": index}
            chunks.append(AIMessageChunk(tool_call_chunks=[head]))
            text, size = whole["args"] or "", self.chunk_size or 8
            for start in range(0, len(text), size):
                piece = {"name": None, "id": None, "args": text[start : start + size], "index": index}
                chunks.append(AIMessageChunk(tool_call_chunks=[piece]))
        last = AIMessageChunk(
            id=message.id,
            name=message.name,
            additional_kwargs=message.additional_kwargs,
            response_metadata=message.response_metadata,
            usage_metadata=message.usage_metadata,
            chunk_position="last",
        )
        if message.id is not None:
            for chunk in chunks:
                chunk.id = message.id
        return [*chunks, last]


class FakeChatModel(_Scripted):
    """Gives scripted responses, one a call, and records what it was asked in `requests`.

    A response is an AIMessage (with tool calls if you like), a text, an exception to raise, or a plain or `async`
    function of the list of messages (and of the FakeRequest, if it takes two arguments) that gives one of these.
    A call after the last response raises UsageError, unless `cycle`. Streams come in chunks, calls in fragments.
    Retries are off unless `max_retries` says otherwise, and then do not wait. May be shared between threads.
    """

    responses: list[Any] = field(default_factory=list)
    cycle: bool = False

    def __init__(self, responses: Sequence[Any] | None = None, **fields: Any) -> None:
        if responses is not None:
            fields["responses"] = list(responses)
        super().__init__(**fields)
        self.requests: list[FakeRequest] = []
        self._lock = threading.Lock()

    def _reply(self, request: FakeRequest) -> Any:
        with self._lock:
            place, count = len(self.requests), len(self.responses)
            self.requests.append(request)
        if place >= count and not (self.cycle and count):
            raise UsageError(
                f"FakeChatModel was called {place + 1} times and has {count} responses; the last message it got is "
                f"{request.messages[-1]!r:.300}.",
                hint="Add a response, or pass cycle=True to start over.",
            )
        reply = self.responses[place % count]
        if callable(reply) and not isinstance(reply, type):
            given = inspect.signature(reply).parameters.values()
            takes = [each for each in given if each.default is each.empty and each.kind is not each.VAR_KEYWORD]
            reply = reply(request.messages, request) if len(takes) > 1 else reply(request.messages)
        return reply

    @property
    def remaining(self) -> int:
        """How many responses have not been asked for."""
        return max(0, len(self.responses) - len(self.requests))


class GenericFakeChatModel(_Scripted):
    """Gives what `messages`, an iterator of AIMessages or texts, gives next."""

    messages: Iterator[Any]

    def _reply(self, request: FakeRequest) -> Any:
        try:
            return next(self.messages)
        except StopIteration:
            raise UsageError("GenericFakeChatModel: its iterator of messages is used up.") from None


class FakeMessagesListChatModel(_Scripted):
    """Gives `responses` in turn, and starts over after the last."""

    responses: list[Any]
    i: int = 0

    def _reply(self, request: FakeRequest) -> Any:
        reply = self.responses[self.i]
        self.i = (self.i + 1) % len(self.responses)
        return reply


class FakeListChatModelError(RuntimeError):
    """What `FakeListChatModel` fails with where `error_on_chunk_number` asks for it."""


class FakeListChatModel(FakeMessagesListChatModel):
    """Gives the texts of `responses` in turn, streamed a character at a time. `sleep` is seconds before each."""

    chunk_size: int | None = 1
    sleep: float | None = None
    error_on_chunk_number: int | None = None
    """Raise FakeListChatModelError instead of giving this chunk (the first is 0)."""

    def model_post_init(self, context: Any) -> None:
        if self.sleep:
            self.latency = self.sleep

    def _split(self, message: Any) -> Any:
        return self._failing(super()._split(message))

    def _failing(self, chunks: list[AIMessageChunk]) -> Iterator[AIMessageChunk]:
        for number, chunk in enumerate(chunks):
            if number == self.error_on_chunk_number:
                raise FakeListChatModelError(f"chunk {number} failed, as error_on_chunk_number asks")
            yield chunk


class ParrotFakeChatModel(_Scripted):
    """Repeats the last message."""

    def _reply(self, request: FakeRequest) -> Any:
        return AIMessage(request.messages[-1].content)


def _request(messages: list[BaseMessage], stop: Any, kwargs: dict[str, Any]) -> FakeRequest:
    rest = {key: value for key, value in kwargs.items() if key not in ("tools", "tool_choice")}
    return FakeRequest(list(messages), list(kwargs.get("tools") or ()), kwargs.get("tool_choice"), stop, rest)


async def _awaited(reply: Any) -> Any:
    return await reply


def _message(reply: Any, messages: list[BaseMessage]) -> AIMessage:
    """A message of its own for each call; raises a scripted error."""
    if isinstance(reply, BaseException) or (isinstance(reply, type) and issubclass(reply, BaseException)):
        raise reply
    if isinstance(reply, str | list):
        reply = AIMessage(reply)
    if not isinstance(reply, AIMessage):
        raise InvalidInput(f"A scripted response is an AIMessage, a text, an exception or a function; got {reply!r}.")
    if isinstance(reply, AIMessageChunk):
        reply = reply.to_message()
    usage = reply.usage_metadata or _usage(messages, reply)
    copied: AIMessage = reply.model_copy(
        update={"response_metadata": dict(reply.response_metadata), "usage_metadata": usage}
    )
    return copied


def _usage(messages: list[BaseMessage], reply: AIMessage) -> UsageMetadata:
    """A token for four characters, rounded up."""
    given = -(-sum(len(message.text) for message in messages) // 4)
    made = -(-(len(reply.text) + sum(len(str(call["args"])) for call in reply.tool_calls)) // 4)
    return {"input_tokens": given, "output_tokens": made, "total_tokens": given + made}


def _pieces(text: str, size: int | None) -> list[str]:
    if size is None:
        return re.findall(r"\s*\S+|\s+\Z", text)
    return [text[start : start + size] for start in range(0, len(text), size)]


def _placed(block: Any, place: int) -> Any:
    return {**block, "index": place} if isinstance(block, dict) else block


class FakeEmbeddings(Embeddings):
    """Random vectors of `size` numbers: another one each time."""

    def __init__(self, size: int) -> None:
        self.size = size

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._vector(text) for text in texts]

    async def aembed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        return beneath(self, "embed_documents")(texts)  # type: ignore[no-any-return]

    def _vector(self, text: str) -> list[float]:
        return [random.gauss(0.0, 1.0) for _ in range(self.size)]


class DeterministicFakeEmbedding(FakeEmbeddings):
    """Vectors that look random and are always the same for the same text."""

    def _vector(self, text: str) -> list[float]:
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest())
        source = random.Random(seed)
        return [source.gauss(0.0, 1.0) for _ in range(self.size)]
