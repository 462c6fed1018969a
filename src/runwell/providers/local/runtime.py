"""llama.cpp in this process: one engine per model file, shared by everything that uses it.

The engine is loaded at first use, serves concurrent calls on a few slots (more calls queue), and is closed when the
process ends. Its built-in HTTP port is bound to loopback behind a random key; nothing here talks through it.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from runwell.errors import (
    ContextOverflow,
    MissingExtra,
    ModelBadRequest,
    ModelError,
    ModelOverloaded,
    ModelTimeout,
)

__all__ = ["Delta", "Engine", "EngineOptions", "Request", "Usage", "close_all", "engine_for"]

Kind = Literal["chat", "embedding"]

DEFAULT_MAX_TOKENS = 512
DEFAULT_CONTEXT = 8192
DEFAULT_SLOTS = 4
DEFAULT_TIMEOUT_S = 300.0

_CLOSE_GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How an engine is loaded; equal options on the same file share one engine.

    `context` is in tokens and shared by the `slots` (calls served at once); `threads` None means every core this
    process may use.
    """

    context: int = DEFAULT_CONTEXT
    slots: int = DEFAULT_SLOTS
    threads: int | None = None


@dataclass(slots=True)
class Usage:
    """Tokens of one or several generations. `cached_tokens` of the input were read before and cost next to nothing."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0

    def add(self, other: Usage | None) -> None:
        if other is not None:
            self.input_tokens += other.input_tokens
            self.output_tokens += other.output_tokens
            self.cached_tokens += other.cached_tokens

    def to_wire(self) -> dict[str, Any]:
        """As OpenAI's API says it."""
        return {
            "prompt_tokens": self.input_tokens,
            "completion_tokens": self.output_tokens,
            "total_tokens": self.input_tokens + self.output_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }


@dataclass(slots=True)
class Request:
    """One generation. `messages` are role/content dictionaries.

    `schema` constrains the output to JSON of that schema. `max_tokens` always applies (a small model can run on for
    ever). `timeout` is in seconds for the whole generation. `extra` goes to llama.cpp as it is.
    """

    messages: Sequence[Mapping[str, Any]]
    max_tokens: int = DEFAULT_MAX_TOKENS
    temperature: float = 0.0
    seed: int = 0
    stop: Sequence[str] = ()
    schema: Mapping[str, Any] | None = None
    cache_prompt: bool = True
    timeout: float = DEFAULT_TIMEOUT_S
    extra: Mapping[str, Any] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "messages": list(self.messages),
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "seed": self.seed,
            "cache_prompt": self.cache_prompt,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.stop:
            body["stop"] = list(self.stop)
        if self.schema is not None:
            body["response_format"] = {"type": "json_schema", "json_schema": {"schema": self.schema}}
        return {**body, **self.extra}


@dataclass(slots=True)
class Delta:
    """What came next: some text, why the generation ended, what it used; the last two arrive at the end."""

    text: str = ""
    finish_reason: str | None = None
    usage: Usage | None = None
    logprobs: Any = None


_END = object()


class Engine:
    """One loaded model. Thread-safe: concurrent calls share the slots, and queue when all are taken."""

    def __init__(self, path: Path, kind: Kind, options: EngineOptions) -> None:
        self.path = path
        self.kind = kind
        self.options = options
        self._running: set[threading.Event] = set()
        self._guard = threading.Lock()
        self._closed = False
        self._server = _load(path, kind, options)

    def stream(self, request: Request) -> Iterator[Delta]:
        """The generation, piece by piece. Closing the iterator early cancels it.

        Raises `ContextOverflow`, `ModelBadRequest`, `ModelTimeout` or another `ModelError`.
        """
        if not request.messages:  # llama.cpp would generate from nothing until the timeout
            raise ModelBadRequest("There is no message to answer: the list of messages is empty.")
        chunks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        stop = threading.Event()

        def receive(chunk: Any) -> bool:
            # Runs on a native thread, where an exception would vanish: it only hands over.
            chunks.put(chunk)
            return stop.is_set()

        self._start(lambda server: server.handle_chat_completions(request.body(), receive), stop, chunks)
        deadline = time.monotonic() + request.timeout
        try:
            while True:
                try:
                    chunk = chunks.get(timeout=max(0.0, deadline - time.monotonic()))
                except queue.Empty:
                    raise ModelTimeout(
                        f"{self.path.name} did not finish within {request.timeout:g} s.",
                        hint="Raise timeout=, lower max_tokens=, or shorten the conversation.",
                    ) from None
                if chunk is _END:
                    return
                if isinstance(chunk, BaseException):
                    raise _translate(chunk) from chunk
                yield from self._deltas(chunk)
        finally:
            stop.set()

    def complete(self, request: Request) -> tuple[str, str | None, Usage]:
        """The whole generation: text, why it ended, what it used."""
        text: list[str] = []
        reason: str | None = None
        usage = Usage()
        with closing(self.stream(request)) as deltas:  # type: ignore[type-var]
            for delta in deltas:
                text.append(delta.text)
                reason = delta.finish_reason or reason
                usage.add(delta.usage)
        return "".join(text), reason, usage

    def embed(self, texts: Sequence[str]) -> tuple[list[list[float]], int]:
        """One normalised vector per text, in order, and the tokens read. Too long a text is a `ContextOverflow`."""
        if not texts:
            return [], 0
        with self._guard:
            self._check_open()
            server = self._server
        try:
            answer = server.handle_embeddings({"input": list(texts)})
        except Exception as error:
            raise _translate(error) from error
        if "error" in answer:
            raise _from_error(answer["error"], self.path.name)
        vectors = [entry["embedding"] for entry in sorted(answer["data"], key=lambda entry: entry["index"])]
        return vectors, int((answer.get("usage") or {}).get("prompt_tokens", 0))

    def close(self) -> None:
        """Cancel what is running, wait for it a little, and free the model. Later calls raise `ModelError`."""
        with self._guard:
            self._closed = True
            running = list(self._running)
        for stop in running:
            stop.set()
        deadline = time.monotonic() + _CLOSE_GRACE_S
        while self._running and time.monotonic() < deadline:
            time.sleep(0.01)
        if not self._running:  # freeing it under a native thread would crash; the system reclaims it then
            self._server = None

    def _start(self, call: Callable[[Any], Any], stop: threading.Event, chunks: queue.SimpleQueue[Any]) -> None:
        with self._guard:
            self._check_open()
            server = self._server
            self._running.add(stop)

        def work() -> None:
            try:
                answer = call(server)
                if isinstance(answer, dict) and "error" in answer:
                    chunks.put(answer)
            except BaseException as error:
                chunks.put(error)
            finally:
                with self._guard:
                    self._running.discard(stop)
                chunks.put(_END)

        threading.Thread(target=work, name="runwell-local", daemon=True).start()

    def _check_open(self) -> None:
        if self._closed:
            raise ModelError(f"{self.path.name} was closed.", hint="Make a new model object to load it again.")

    def _deltas(self, chunk: Any) -> Iterator[Delta]:
        for event in chunk if isinstance(chunk, list) else [chunk]:
            if "error" in event:
                raise _from_error(event["error"], self.path.name)
            usage = _usage(event.get("usage"))
            for choice in event.get("choices", ()):
                text = (choice.get("delta") or {}).get("content") or ""
                if text or choice.get("finish_reason"):
                    yield Delta(text, choice.get("finish_reason"), None, choice.get("logprobs"))
            if usage is not None:
                yield Delta(usage=usage)


def _usage(reported: Mapping[str, Any] | None) -> Usage | None:
    if not reported:
        return None
    cached = (reported.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return Usage(reported["prompt_tokens"], reported["completion_tokens"], cached)


def _translate(error: BaseException) -> BaseException:
    """A native error as ours; Ctrl-C and the like as they are."""
    if not isinstance(error, Exception) or isinstance(error, ModelError):
        return error
    return ModelBadRequest(f"llama.cpp refused the request: {error}")


def _from_error(error: Mapping[str, Any] | str, model: str) -> ModelError:
    if isinstance(error, str):
        return ModelBadRequest(f"{model}: {error}")
    status = error.get("code")
    message = f"{model}: {error.get('message', error)}"
    needed, window = error.get("n_prompt_tokens"), error.get("n_ctx")
    if error.get("type") == "exceed_context_size_error" or "too large to process" in message:
        return ContextOverflow(
            message,
            over=needed - window if needed and window else None,
            status=status,
            hint="Shorten the conversation (trim_messages), or load the model with a larger context=.",
        )
    kind = ModelOverloaded if isinstance(status, int) and status >= 500 else ModelBadRequest
    return kind(message, status=status)


# -- loading


def _import() -> Any:
    # With OpenMP's default spinning, a busy machine gives about one token a second. Read when libgomp loads.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    try:
        import xllamacpp
    except ModuleNotFoundError as error:
        if error.name != "xllamacpp":
            raise
        raise MissingExtra("Running a model in this process (llama.cpp)", "local") from None
    except ImportError as error:  # the wheel is there, a library of the system is not
        missing = MissingExtra("llama.cpp", "local")
        missing.message = f"llama.cpp is installed but a library of the system is missing: {error}."
        missing.hint = (
            "Install it: `apt-get install libgomp1 libstdc++6` on Debian and Ubuntu, "
            "`dnf install libgomp libstdc++` on Fedora, `apk add libgomp libstdc++` on Alpine."
        )
        raise missing from error
    return xllamacpp


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


def _load(path: Path, kind: Kind, options: EngineOptions) -> Any:
    llama = _import()
    params = llama.CommonParams()
    params.model.path = str(path)
    params.verbosity = -1
    threads = options.threads or _cores()
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.api_keys = [os.urandom(24).hex()]
    params.n_ctx = options.context
    params.n_parallel = options.slots
    params.kv_unified = True
    if kind == "embedding":
        params.embedding = True
        params.n_batch = params.n_ubatch = options.context
    try:
        return llama.Server(params)
    except Exception as error:
        raise ModelError(
            f"llama.cpp could not load {str(path)!r} ({kind}): {error}",
            hint="The file may be damaged (`runwell models remove`, then fetch), or need more memory than is free.",
        ) from error


# -- sharing

_Key = tuple[int, Path, Kind, EngineOptions]
_engines: dict[_Key, Engine] = {}
_loading: dict[_Key, threading.Lock] = {}
_guard = threading.Lock()


def engine_for(path: Path, kind: Kind, options: EngineOptions) -> Engine:
    """The engine of this process for a model file, loaded if it is not yet. Waits while another thread loads it.

    The process id is part of the key: after a fork the parent's native threads do not exist in the child.
    """
    key = (os.getpid(), path, kind, options)
    with _guard:
        lock = _loading.setdefault(key, threading.Lock())
    with lock:
        engine = _engines.get(key)
        if engine is None or engine._closed:
            engine = _engines[key] = Engine(path, kind, options)
        return engine


def close_all() -> None:
    """Close every engine of this process; they are loaded again when next used. Runs by itself at exit."""
    with _guard:
        mine = [key for key in _engines if key[0] == os.getpid()]
        engines = [_engines.pop(key) for key in mine]
    for engine in engines:
        engine.close()


atexit.register(close_all)
