"""The SDKs' clients of models: what they share, what each has to itself, and what a forked process has."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import certifi
import pytest

from runwell import init_chat_model
from runwell.errors import InvalidConfig
from runwell.testing import WireServer
from runwell.testing.wire import (
    AnthropicDialect,
    BedrockDialect,
    CohereDialect,
    GoogleDialect,
    MistralDialect,
    OllamaDialect,
    OpenAIDialect,
)

HTTP: dict[str, Any] = {
    "openai": OpenAIDialect,
    "anthropic": AnthropicDialect,
    "google_genai": GoogleDialect,
    "mistralai": MistralDialect,
    "cohere": CohereDialect,
    "ollama": OllamaDialect,
}
ALL = {**HTTP, "bedrock_converse": BedrockDialect}


def made(name: str, wire: WireServer | None = None, **given: Any) -> Any:
    where = wire.base_url if wire is not None else "http://127.0.0.1:9"
    return init_chat_model(f"{name}:m", api_key="k", base_url=where, **given)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who read certificates. Ollama's SDK makes a client of its own when it is imported, which does not count."""
    import ollama  # noqa: F401

    seen: list[str] = []
    before = ssl.SSLContext.load_verify_locations

    def load(self: ssl.SSLContext, *args: Any, **kwargs: Any) -> None:
        seen.append(threading.current_thread().name)
        before(self, *args, **kwargs)

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", load)
    return seen


@pytest.fixture
def bundle(tmp_path: Path, few_certificates: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What SSL_CERT_FILE names, read by nobody yet."""
    path = tmp_path / "trusted.pem"
    path.write_text(Path(few_certificates).read_text())
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    return path


@pytest.mark.parametrize("name", HTTP)
def test_models_read_the_certificates_once_in_both_colours(name: str, bundle: Path, reads: list[str]) -> None:
    async def ask(model: Any) -> None:
        for _ in range(2):
            wire.say("Yes.")
            assert (await model.ainvoke("Well?")).text == "Yes."

    with WireServer(HTTP[name]()) as wire:
        for _ in range(3):
            wire.say("Yes.")
            assert made(name, wire).invoke("Well?").text == "Yes."
            asyncio.run(ask(made(name, wire)))
    assert len(reads) == 1


def test_threads_that_begin_together_read_them_once(bundle: Path, reads: list[str]) -> None:
    together = threading.Barrier(8)

    def begin() -> None:
        together.wait(10)
        model = made("openai")
        model._clients.plain(model)

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reads) == 1


@pytest.mark.parametrize("name", ["openai", "ollama"])
def test_other_certificates_are_read_by_the_next_model(name: str, bundle: Path, reads: list[str]) -> None:
    def trusted() -> int:
        model = made(name)
        client = model._clients.plain(model)
        http = getattr(client, "_client", client)
        context: ssl.SSLContext = http._transport._pool._ssl_context
        return len(context.get_ca_certs())

    assert trusted() == 1
    every = Path(certifi.where()).read_text(encoding="utf-8")
    two = every.split("-----END CERTIFICATE-----", 2)[:2]
    bundle.write_text("-----END CERTIFICATE-----".join((*two, "\n")))
    os.utime(bundle, ns=(1, 1))
    assert trusted() == 2
    assert len(reads) == 2


def test_certificates_that_cannot_be_read_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    with pytest.raises(InvalidConfig, match=r"No such file[^\n]*\n?[\s\S]*SSL_CERT_FILE=.*none\.pem"):
        made("openai", max_retries=0).invoke("Hi")


@pytest.mark.parametrize("name", HTTP)
def test_a_model_that_ends_closes_its_own_client_alone(name: str) -> None:
    with WireServer(HTTP[name]()) as wire:
        wire.say("One.")
        wire.say("Two.")
        wire.say("Three.")
        one, two = made(name, wire), made(name, wire)
        assert one.invoke("Well?").text == "One."
        assert two.invoke("Well?").text == "Two."
        one._clients.plain(one).close()
        del one
        assert two.invoke("Well?").text == "Three."


FORKED = """
import os, sys
from runwell import init_chat_model
model = init_chat_model(sys.argv[1] + ":m", api_key="k", base_url=sys.argv[2])
print(model.invoke("before").text, flush=True)
child = os.fork()
if child == 0:
    said = model.invoke("child").text
    del model
    os._exit(0 if said else 1)
assert os.waitpid(child, 0)[1] == 0  # one after the other: the server tells them apart by what came last
print(model.invoke("parent").text)
print(model.invoke("after").text)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("name", ["openai", "bedrock_converse"])
def test_a_forked_process_has_connections_of_its_own(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that read one connection would each get pieces of the other's answer."""
    came: dict[str, Any] = {}

    class Ports(WireServer):
        def _serve(self, handler: Any) -> None:
            super()._serve(handler)
            said = next(text for text in ("before", "child", "parent", "after") if text in str(self.last["body"]))
            came[said] = handler.client_address

    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with Ports(ALL[name]()) as wire:
        for text in ("One.", "Two.", "Three.", "Four."):
            wire.say(text)
        out = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", FORKED, name, wire.base_url],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert out.returncode == 0, out.stderr
    assert came["before"] == came["parent"] == came["after"], "the parent keeps its connection"
    assert came["child"] != came["before"]
