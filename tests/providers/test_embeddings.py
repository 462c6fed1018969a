"""Every vendor's embeddings pass the suite that all embeddings pass, and are asked in the vendor's own words."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any, ClassVar

import pytest

from runwell.errors import InvalidInput, MissingApiKey, ModelAuthenticationError, ModelError, ModelRateLimitError
from runwell.models import init_embeddings
from runwell.models.retry import RetryPolicy
from runwell.providers.bedrock import BedrockEmbeddings
from runwell.providers.cohere import CohereEmbeddings
from runwell.providers.google import GoogleGenerativeAIEmbeddings
from runwell.providers.mistral import MistralAIEmbeddings
from runwell.providers.ollama import OllamaEmbeddings
from runwell.providers.openai import OpenAIEmbeddings
from runwell.providers.vendor_embeddings import VendorEmbeddings
from runwell.testing.embeddings import EmbeddingsSuite
from runwell.testing.wire import (
    BedrockDialect,
    CohereDialect,
    GoogleDialect,
    MistralDialect,
    OllamaDialect,
    OpenAIDialect,
    WireDialect,
    WireServer,
)

KEY = "sk-test-0123456789-secret"


def vector(text: str) -> list[float]:
    return [byte / 255 for byte in hashlib.sha256(text.encode()).digest()[:4]]


class Vectors(WireServer):
    """Answers each request that no script is for with vectors made of its texts."""

    def __init__(self, dialect: WireDialect, answer: Callable[[Any], Any]) -> None:
        super().__init__(dialect)
        self._of = answer
        self.otherwise = lambda handler: self._whole(answer(vars(handler)["got"]["body"]))(handler)


def cohere(body: Any) -> Any:
    return {"id": "e", "response_type": "embeddings_by_type", "embeddings": {"float": [*map(vector, body["texts"])]}}


def mistral(body: Any) -> Any:
    data = [{"object": "embedding", "index": at, "embedding": vector(text)} for at, text in enumerate(body["input"])]
    usage = {"prompt_tokens": 1, "completion_tokens": 0, "total_tokens": 1}
    return {"id": "e", "object": "list", "model": "m", "data": data[::-1], "usage": usage}


def google(body: Any) -> Any:
    return GoogleDialect().vectors([vector(text) for text in google_texts(body)])


def google_texts(body: Any) -> list[str]:
    return [each["content"]["parts"][0]["text"] for each in body["requests"]]


def ollama(body: Any) -> Any:
    return {"model": "m", "embeddings": [vector(text) for text in body["input"]]}


def titan(body: Any) -> Any:
    return {"embedding": vector(body["inputText"]), "inputTextTokenCount": 1}


def nova(body: Any) -> Any:
    return {"embeddings": [{"embeddingType": "TEXT", "embedding": vector(nova_text(body))}]}


def nova_text(body: Any) -> str:
    return str(body["singleEmbeddingParams"]["text"]["value"])


def cohere_on_bedrock(body: Any) -> Any:
    return {"id": "e", "response_type": "embeddings_floats", "embeddings": [*map(vector, body["texts"])]}


class OnTitan(BedrockEmbeddings):
    """With the account of a test."""

    def __init__(self, **given: Any) -> None:
        key = given.pop("api_key")
        name = given.pop("model").replace("m", "amazon.titan-embed-text-v2:0")
        given = {"region_name": "us-east-1", "aws_access_key_id": "AKIATEST", "aws_secret_access_key": key, **given}
        super().__init__(model=name, **given)


class OnBedrock(OnTitan):
    def __init__(self, **given: Any) -> None:
        super().__init__(**given, provider="cohere")


class OnNova(OnTitan):
    def __init__(self, **given: Any) -> None:
        super().__init__(**given, provider="nova")


def openai(body: Any) -> Any:
    data = [{"index": place, "embedding": vector(text)} for place, text in enumerate(body["input"])]
    return {"data": data[::-1], "model": "m"}


VENDORS: dict[str, tuple[type[VendorEmbeddings], WireDialect, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "cohere": (CohereEmbeddings, CohereDialect(), cohere, itemgetter("texts")),
    "mistralai": (MistralAIEmbeddings, MistralDialect(), mistral, itemgetter("input")),
    "google_genai": (GoogleGenerativeAIEmbeddings, GoogleDialect(), google, google_texts),
    "openai": (OpenAIEmbeddings, OpenAIDialect(), openai, itemgetter("input")),
    "ollama": (OllamaEmbeddings, OllamaDialect(), ollama, itemgetter("input")),
    "titan": (OnTitan, BedrockDialect(), titan, itemgetter("inputText")),
    "nova": (OnNova, BedrockDialect(), nova, nova_text),
    "bedrock": (OnBedrock, BedrockDialect(), cohere_on_bedrock, itemgetter("texts")),
}


class OnTheWire(EmbeddingsSuite):
    vendor: ClassVar[str]

    def setup_method(self) -> None:
        self.wire = Vectors(*VENDORS[self.vendor][1:3])

    def teardown_method(self) -> None:
        self.wire.close()

    def make_embeddings(self) -> VendorEmbeddings:
        return VENDORS[self.vendor][0](model="m", api_key=KEY, base_url=self.wire.base_url)


class TestCohereEmbeddings(OnTheWire):
    vendor = "cohere"


class TestGoogleGenerativeAIEmbeddings(OnTheWire):
    vendor = "google_genai"


class TestMistralAIEmbeddings(OnTheWire):
    vendor = "mistralai"


class TestOllamaEmbeddings(OnTheWire):
    vendor = "ollama"


class TestNovaEmbeddings(OnTheWire):
    vendor = "nova"


class TestTitanEmbeddings(OnTheWire):
    vendor = "titan"


class TestBedrockEmbeddings(OnTheWire):
    vendor = "bedrock"


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=VENDORS)
def vendor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def wire(vendor: str) -> Iterator[Vectors]:
    with Vectors(*VENDORS[vendor][1:3]) as server:
        yield server


@pytest.fixture
def make(vendor: str, wire: Vectors) -> Callable[..., VendorEmbeddings]:
    def made(**given: Any) -> VendorEmbeddings:
        embeddings = VENDORS[vendor][0](**{"model": "m", "api_key": KEY, "base_url": wire.base_url, **given})
        embeddings._policy = RetryPolicy(first_s=0.001)
        return embeddings

    return made


def embed(embeddings: VendorEmbeddings, texts: list[str], colour: str) -> Any:
    if colour == "sync":
        return embeddings.embed_documents(texts)
    return asyncio.run(embeddings.aembed_documents(texts))


def test_texts_go_in_chunks(vendor: str, wire: Vectors, make: Callable[..., VendorEmbeddings], colour: str) -> None:
    size, sent = (1, ["a", "b", "c"]) if vendor in ("titan", "nova") else (2, [["a", "b"], ["c"]])
    assert embed(make(chunk_size=size, max_concurrency=1), ["a", "b", "c"], colour) == [vector(text) for text in "abc"]
    assert [VENDORS[vendor][3](each["body"]) for each in wire.requests] == sent


def test_requests_go_side_by_side(
    vendor: str, wire: Vectors, make: Callable[..., VendorEmbeddings], colour: str
) -> None:
    together = threading.Barrier(3)

    def meet(handler: Any) -> None:
        together.wait(10)
        wire._whole(wire._of(vars(handler)["got"]["body"]))(handler)

    wire.script += [meet] * 3
    made = make(chunk_size=1, max_concurrency=3)
    assert embed(made, ["a", "b", "c"], colour) == [vector(text) for text in "abc"], "in the order of the texts"
    wire.fail(401, "no")
    with pytest.raises(ModelAuthenticationError):
        embed(made, ["a", "b", "c", "d"], colour)
    with pytest.raises(InvalidInput, match="max_concurrency"):
        make(max_concurrency=0)


def test_a_passing_failure_is_tried_again(wire: Vectors, make: Callable[..., VendorEmbeddings], colour: str) -> None:
    wire.fail(503, "busy")
    wire.fail(429, "slow down", retry_after="0.01")
    assert embed(make(), ["a"], colour) == [vector("a")]
    assert len(wire.requests) == 3
    wire.fail(429, "slow down")
    with pytest.raises(ModelRateLimitError):
        embed(make(max_retries=0), ["a"], colour)


def test_what_cannot_pass_is_told_without_the_key(
    wire: Vectors, make: Callable[..., VendorEmbeddings], colour: str
) -> None:
    wire.fail(401, f"the key {KEY} is wrong")
    with pytest.raises(ModelAuthenticationError) as caught:
        embed(make(), ["a"], colour)
    assert KEY not in str(caught.value) + repr(make()) + str(vars(make()))
    assert len(wire.requests) == 1


@pytest.mark.parametrize("body", ["<html>", "{}", '{"embeddings": [], "data": []}'], ids=["page", "nothing", "too few"])
def test_an_answer_that_is_none(wire: Vectors, make: Callable[..., VendorEmbeddings], colour: str, body: str) -> None:
    wire.json(body)
    with pytest.raises(ModelError):
        embed(make(max_retries=0), ["a"], colour)


def test_bad_input_stays_here(wire: Vectors, make: Callable[..., VendorEmbeddings], colour: str) -> None:
    for texts in ("one text", [3], [None]):
        with pytest.raises(InvalidInput):
            embed(make(), texts, colour)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        make(chunk_size=0)
    assert wire.requests == []


def test_a_name_is_enough(vendor: str, wire: Vectors) -> None:
    if vendor in ("titan", "nova", "bedrock"):
        return  # below
    made = init_embeddings(f"{vendor}:m", api_key=KEY, base_url=wire.base_url)
    assert type(made) is VENDORS[vendor][0]
    assert made.embed_query("a") == vector("a")


def test_cohere_tells_questions_from_documents(colour: str) -> None:
    with Vectors(CohereDialect(), cohere) as wire:
        made = CohereEmbeddings(api_key=KEY, base_url=wire.base_url, dimensions=256, truncate="START")
        if colour == "sync":
            made.embed_query("cats?")
        else:
            asyncio.run(made.aembed_query("cats?"))
        body = wire.last["body"]
        assert (body["input_type"], body["output_dimension"], body["truncate"]) == ("search_query", 256, "START")
        embed(made, ["Cats."], colour)
        assert wire.last["body"]["input_type"] == "search_document"
        assert wire.last["path"] == "/v2/embed"
        embed(CohereEmbeddings(api_key=KEY, base_url=wire.base_url, input_type="clustering"), ["Cats."], colour)
        assert wire.last["body"]["input_type"] == "clustering"
    with pytest.raises(InvalidInput, match="96"):
        CohereEmbeddings(api_key=KEY, chunk_size=200)


def test_names_that_mean_google() -> None:
    for name in ("google:gemini-embedding-001", "google-genai:gemini-embedding-001", "gemini-embedding-001"):
        made = init_embeddings(name, api_key=KEY, dimensions=256)
        assert isinstance(made, GoogleGenerativeAIEmbeddings)
        assert (made.model, made.output_dimensionality) == ("gemini-embedding-001", 256)


def test_google_tells_questions_from_documents(colour: str) -> None:
    with Vectors(GoogleDialect(), google) as wire:
        made = GoogleGenerativeAIEmbeddings(google_api_key=KEY, base_url=wire.base_url, dimensions=256)
        if colour == "sync":
            made.embed_query("cats?")
        else:
            asyncio.run(made.aembed_query("cats?"))
        [asked] = wire.last["body"]["requests"]
        assert (asked["taskType"], asked["outputDimensionality"]) == ("RETRIEVAL_QUERY", 256)
        assert asked["model"] == "models/gemini-embedding-001"
        embed(made, ["Cats."], colour)
        assert wire.last["body"]["requests"][0]["taskType"] == "RETRIEVAL_DOCUMENT"
        assert wire.last["path"] == "/v1beta/models/gemini-embedding-001:batchEmbedContents"
        embed(GoogleGenerativeAIEmbeddings(api_key=KEY, base_url=wire.base_url, task_type="clustering"), ["a"], colour)
        assert wire.last["body"]["requests"][0]["taskType"] == "CLUSTERING"
    with pytest.raises(InvalidInput, match="100"):
        GoogleGenerativeAIEmbeddings(api_key=KEY, batch_size=200)


@pytest.mark.parametrize("model", ["gemini-embedding-001", "text-embedding-005"])
def test_google_in_the_cloud(colour: str, model: str) -> None:
    def answer(body: Any) -> Any:
        if "requests" in body:
            return google(body)
        return {"predictions": [{"embeddings": {"values": vector(each["content"])}} for each in body["instances"]]}

    with Vectors(GoogleDialect(), answer) as wire:
        made = GoogleGenerativeAIEmbeddings(
            model=model, api_key=KEY, base_url=wire.base_url, vertexai=True, output_dimensionality=4
        )
        assert embed(made, ["a", "b"], colour) == [vector("a"), vector("b")]
        method = "batchEmbedContents" if "gemini" in model else "predict"
        assert wire.last["path"] == f"/v1beta1/publishers/google/models/{model}:{method}"
        assert "RETRIEVAL_DOCUMENT" in str(wire.last["body"])


def test_keys_and_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COHERE_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "MISTRAL_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CO_API_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:9")
    for kind in (CohereEmbeddings, GoogleGenerativeAIEmbeddings, MistralAIEmbeddings):
        with pytest.raises(MissingApiKey):
            kind(model="m")
    assert CohereEmbeddings(api_key=KEY).base_url == "https://api.cohere.com"
    assert OllamaEmbeddings(model="m").base_url == "http://127.0.0.1:11434"


def test_ollama_passes_what_the_server_takes(colour: str) -> None:
    with Vectors(OllamaDialect(), ollama) as wire:
        made = OllamaEmbeddings(model="m", base_url=wire.base_url, num_ctx=512, truncate=False, keep_alive="5m")
        embed(made, ["a"], colour)
        body = wire.last["body"]
        assert (body["options"], body["truncate"], body["keep_alive"]) == ({"num_ctx": 512}, False, "5m")
        assert wire.last["path"] == "/api/embed"


def test_bedrock_asks_each_model_in_its_own_words(colour: str) -> None:
    account = {"region_name": "us-east-1", "api_key": KEY}
    with Vectors(BedrockDialect(), titan) as wire:
        made = init_embeddings(
            "amazon.titan-embed-text-v2:0", base_url=wire.base_url, dimensions=256, normalize=False, **account
        )
        assert isinstance(made, BedrockEmbeddings)
        assert embed(made, ["a", "b"], colour) == [vector("a"), vector("b")]
        sent = sorted(each["body"]["inputText"] for each in wire.requests)
        assert sent == ["a", "b"]
        assert {**wire.last["body"], "inputText": ""} == {"inputText": "", "dimensions": 256, "normalize": False}
        assert wire.last["path"] == "/model/amazon.titan-embed-text-v2%3A0/invoke"
        assert wire.last["headers"]["authorization"] == f"Bearer {KEY}"
    with Vectors(BedrockDialect(), cohere_on_bedrock) as wire:
        made = BedrockEmbeddings(model="us.cohere.embed-v4:0", base_url=wire.base_url, truncate="END", **account)
        if colour == "sync":
            made.embed_query("cats?")
        else:
            asyncio.run(made.aembed_query("cats?"))
        assert wire.last["body"] == {"texts": ["cats?"], "input_type": "search_query", "truncate": "END"}
    with Vectors(BedrockDialect(), nova) as wire:
        made = init_embeddings(
            "amazon.nova-2-multimodal-embeddings-v1:0", base_url=wire.base_url, dimensions=1024, **account
        )
        assert embed(made, ["a"], colour) == [vector("a")]  # type: ignore[arg-type]
        purposes = [wire.last["body"]["singleEmbeddingParams"].pop("embeddingPurpose")]
        assert wire.last["body"] == {
            "taskType": "SINGLE_EMBEDDING",
            "singleEmbeddingParams": {
                "embeddingDimension": 1024,
                "text": {"truncationMode": "NONE", "value": "a"},
            },
        }
        made.embed_query("cats?")
        purposes.append(wire.last["body"]["singleEmbeddingParams"]["embeddingPurpose"])
        assert purposes == ["GENERIC_INDEX", "GENERIC_RETRIEVAL"]
    with pytest.raises(InvalidInput, match="provider="):
        BedrockEmbeddings(model="arn:aws:bedrock:us-east-1:1:application-inference-profile/x", **account)
    with pytest.raises(InvalidInput, match="at most"):
        BedrockEmbeddings(chunk_size=2, **account)
