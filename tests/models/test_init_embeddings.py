"""Which embeddings a string names."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from runwell.errors import MissingApiKey, MissingExtra, UnknownModel
from runwell.models import Embeddings, init, init_embeddings
from runwell.models.embeddings import _inferred
from runwell.providers.openai import OpenAIEmbeddings


class Third(Embeddings):
    def __init__(self, model: str, size: int = 2) -> None:
        self.model, self.size = model, size

    def embed_documents(self, texts: Any) -> list[list[float]]:
        return [[0.0] * self.size for _ in texts]


class Point:
    name, value = "third", "third_party:Third"

    def load(self) -> Any:
        return Third


@pytest.fixture
def third_party(monkeypatch: pytest.MonkeyPatch) -> Any:
    init._providers.cache_clear()
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [Point()] if "embeddings" in group else [])
    yield
    init._providers.cache_clear()


@pytest.mark.parametrize("name", ["openai:text-embedding-3-small", "text-embedding-3-small"])
def test_a1_prefix_and_name(name: str) -> None:
    embeddings = init_embeddings(name, api_key="k", dimensions=3)
    assert isinstance(embeddings, OpenAIEmbeddings)
    assert (embeddings.model, embeddings.dimensions) == ("text-embedding-3-small", 3)


def test_a1_a_third_party_adds_a_provider(third_party: None) -> None:
    for made in (init_embeddings("third:a:b", size=4), init_embeddings("a:b", provider="third", size=4)):
        assert isinstance(made, Third)
        assert made.model == "a:b"
        assert len(made.embed_query("x")) == 4
    with pytest.raises(UnknownModel, match="No provider is known"):
        init.init_chat_model("third:a")  # chat models are another register


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("text-embedding-3-large", "openai"),
        ("text-embedding-ada-002", "openai"),
        ("gemini-embedding-001", "google_genai"),
        ("mistral-embed", "mistralai"),
        ("embed-multilingual-v3.0", "cohere"),
        ("amazon.titan-embed-text-v2:0", "bedrock"),
    ],
)
def test_a2_families_that_leave_no_doubt(name: str, provider: str) -> None:
    assert _inferred(name) == provider


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nomic-embed-text", "served by many"),
        ("opnai:text-embedding-3-small", "did you mean 'openai'"),
        ("nonsense", "known providers: "),
        ("openai:", "no model"),
        ("", "named by a string"),
        (None, "named by a string"),
    ],
)
def test_a2_names_that_say_too_little(name: Any, says: str) -> None:
    with pytest.raises(UnknownModel, match=re.escape(says)):
        init_embeddings(name)


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(MissingApiKey, match="OPENAI_API_KEY"):
        init_embeddings("openai:text-embedding-3-small")
    monkeypatch.setattr("runwell.providers.vendor_model.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"runwell\[openai\]"):
        init_embeddings("openai:text-embedding-3-small", api_key="k")


def test_naming_embeddings_loads_no_sdk() -> None:
    import subprocess

    code = (
        "import sys; from runwell.models import init_embeddings;"
        "init_embeddings('text-embedding-3-small', api_key='k');"
        "print(sorted({'openai', 'httpx', 'httpx2', 'asyncio', 'tenacity', 'anyio'} & sys.modules.keys()))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
