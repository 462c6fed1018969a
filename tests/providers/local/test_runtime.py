"""The engine around llama.cpp: cancellation, errors and missing libraries, on a stand-in for the native module."""

from __future__ import annotations

import builtins
import os
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runwell.errors import ContextOverflow, MissingExtra, ModelBadRequest, ModelError, ModelOverloaded, ModelTimeout
from runwell.providers.local.runtime import Engine, EngineOptions, Request, close_all, engine_for

Answer = Callable[[dict[str, Any], Callable[[Any], bool]], Any]
HI = [{"role": "user", "content": "hi"}]


class Native:
    """The native module: a server whose answers are a function."""

    def __init__(self) -> None:
        self.made: list[Any] = []
        self.answer: Answer = lambda body, send: None
        self.embed: Callable[[dict[str, Any]], Any] = lambda body: {"data": []}
        native = self

        class Server:
            def __init__(self, params: Any) -> None:
                native.made.append(params)

            def handle_chat_completions(self, body: dict[str, Any], send: Callable[[Any], bool]) -> Any:
                return native.answer(body, send)

            def handle_embeddings(self, body: dict[str, Any]) -> Any:
                return native.embed(body)

        self.module = types.SimpleNamespace(Server=Server, CommonParams=self.params)

    @staticmethod
    def params() -> Any:
        def space() -> types.SimpleNamespace:
            return types.SimpleNamespace()

        return types.SimpleNamespace(model=space(), cpuparams=space(), cpuparams_batch=space())


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> Iterator[Native]:
    stand_in = Native()
    monkeypatch.setitem(sys.modules, "xllamacpp", stand_in.module)
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    yield stand_in
    close_all()


def piece(text: str, **more: Any) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": text}, "finish_reason": None}], **more}


@pytest.fixture
def engine(native: Native) -> Engine:
    return Engine(Path("toy.gguf"), "chat", EngineOptions(threads=1))


def test_text_reason_and_usage(native: Native, engine: Engine) -> None:
    def answer(body: dict[str, Any], send: Callable[[Any], bool]) -> None:
        assert body["max_tokens"] == 512
        assert body["stream"] is True
        send([piece("Hel")])
        send(piece("lo"))
        send({"choices": [{"delta": {}, "finish_reason": "length"}]})
        send({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}})

    native.answer = answer
    text, reason, usage = engine.complete(Request(HI))
    assert (text, reason, usage.input_tokens, usage.output_tokens) == ("Hello", "length", 3, 2)


def test_openmp_is_told_not_to_spin_and_the_port_is_locked(native: Native, engine: Engine) -> None:
    assert os.environ["GOMP_SPINCOUNT"] == "1000"
    (params,) = native.made
    assert len(params.api_keys[0]) >= 32


def test_the_users_own_spin_count_stays(native: Native, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    Engine(Path("toy.gguf"), "chat", EngineOptions())
    assert os.environ["GOMP_SPINCOUNT"] == "7"


def test_closing_the_stream_cancels(native: Native, engine: Engine) -> None:
    cancelled = threading.Event()
    go_on = threading.Event()

    def answer(body: dict[str, Any], send: Callable[[Any], bool]) -> None:
        send(piece("one"))
        assert go_on.wait(10)
        if send(piece("two")):
            cancelled.set()

    native.answer = answer
    stream = engine.stream(Request(HI))
    assert next(stream).text == "one"
    stream.close()  # type: ignore[attr-defined]
    go_on.set()
    assert cancelled.wait(10)


def test_a_native_exception_is_carried_out(native: Native, engine: Engine) -> None:
    def answer(body: dict[str, Any], send: Callable[[Any], bool]) -> None:
        raise RuntimeError("bad grammar")

    native.answer = answer
    with pytest.raises(ModelBadRequest, match="bad grammar"):
        engine.complete(Request(HI))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 400, "message": "no", "type": "invalid_request_error"}, ModelBadRequest),
        ({"code": 503, "message": "loading", "type": "unavailable_error"}, ModelOverloaded),
        ({"code": 400, "message": "long", "type": "exceed_context_size_error"}, ContextOverflow),
        ("text only", ModelBadRequest),
    ],
)
def test_error_dictionaries_are_exceptions(native: Native, engine: Engine, error: Any, kind: type[ModelError]) -> None:
    native.answer = lambda body, send: {"error": error}
    with pytest.raises(kind, match=r"toy\.gguf"):
        engine.complete(Request(HI))
    native.answer = lambda body, send: send({"error": error})
    with pytest.raises(kind):
        engine.complete(Request(HI))


def test_an_overflow_says_by_how_much(native: Native, engine: Engine) -> None:
    error = {"code": 400, "message": "m", "type": "exceed_context_size_error", "n_prompt_tokens": 130, "n_ctx": 100}
    native.answer = lambda body, send: {"error": error}
    with pytest.raises(ContextOverflow) as caught:
        engine.complete(Request(HI))
    assert caught.value.over == 30


def test_a_timeout_cancels_and_says_so(native: Native, engine: Engine) -> None:
    over = threading.Event()
    stopped: list[bool] = []

    def answer(body: dict[str, Any], send: Callable[[Any], bool]) -> None:
        assert over.wait(10)
        stopped.append(send(piece("late")))

    native.answer = answer
    with pytest.raises(ModelTimeout, match=r"did not finish within 0\.05 s"):
        engine.complete(Request(HI, timeout=0.05))
    over.set()
    engine.close()
    assert stopped == [True]


def test_no_messages_are_refused_at_once(native: Native, engine: Engine) -> None:
    with pytest.raises(ModelBadRequest, match="empty"):
        engine.complete(Request([]))


def test_embeddings_in_order_and_their_errors(native: Native) -> None:
    embedder = Engine(Path("toy.gguf"), "embedding", EngineOptions(context=64))
    data = [{"index": 1, "embedding": [1.0]}, {"index": 0, "embedding": [0.0]}]
    native.embed = lambda body: {"data": data, "usage": {"prompt_tokens": 5}}
    assert embedder.embed(["a", "b"]) == ([[0.0], [1.0]], 5)
    assert embedder.embed([]) == ([], 0)
    native.embed = lambda body: {"error": {"code": 400, "message": "too large to process"}}
    with pytest.raises(ContextOverflow):
        embedder.embed(["a"])
    assert native.made[-1].embedding is True
    assert native.made[-1].n_batch == native.made[-1].n_ubatch == 64


def test_one_engine_for_one_file(native: Native) -> None:
    found: list[Engine] = []
    options = EngineOptions(threads=1)
    threads = [
        threading.Thread(target=lambda: found.append(engine_for(Path("a.gguf"), "chat", options))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == len(native.made) == 1
    assert engine_for(Path("a.gguf"), "chat", EngineOptions(context=16)) is not found[0]
    close_all()
    with pytest.raises(ModelError, match="closed"):
        found[0].complete(Request(HI))
    assert engine_for(Path("a.gguf"), "chat", options) is not found[0]


def test_a_file_that_does_not_load_is_named(native: Native, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(params: Any) -> None:
        raise RuntimeError("failed to load")

    monkeypatch.setattr(native.module, "Server", refuse)
    with pytest.raises(ModelError, match=r"toy\.gguf.*failed to load"):
        Engine(Path("toy.gguf"), "chat", EngineOptions())


def _import_fails(monkeypatch: pytest.MonkeyPatch, error: ImportError) -> None:
    real = builtins.__import__

    def importing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "xllamacpp":
            raise error
        return real(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "xllamacpp", raising=False)
    monkeypatch.setattr(builtins, "__import__", importing)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    _import_fails(monkeypatch, ModuleNotFoundError("No module named 'xllamacpp'", name="xllamacpp"))
    with pytest.raises(MissingExtra, match=r"runwell\[local\]"):
        Engine(Path("toy.gguf"), "chat", EngineOptions())


def test_without_the_systems_openmp(monkeypatch: pytest.MonkeyPatch) -> None:
    _import_fails(monkeypatch, ImportError("libgomp.so.1: cannot open shared object file"))
    with pytest.raises(MissingExtra, match=r"libgomp\.so\.1") as caught:
        Engine(Path("toy.gguf"), "chat", EngineOptions())
    assert "apt-get install libgomp1" in str(caught.value)
