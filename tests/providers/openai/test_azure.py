"""OpenAI's models in a resource of Azure's: where requests go, who pays, what the filters found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from runwell.errors import InvalidConfig, InvalidInput, MissingApiKey, ModelRefusalError
from runwell.models import init_chat_model, init_embeddings
from runwell.models.retry import RetryPolicy
from runwell.providers.openai import AzureChatOpenAI, AzureOpenAIEmbeddings
from runwell.testing.chat_models import ChatModelSuite
from runwell.testing.chat_wire import Colour
from runwell.testing.embeddings import EmbeddingsSuite
from runwell.testing.wire import AzureOpenAIDialect, WireServer

KEY = "az-test-0123456789-secret"
NAMES = ("API_KEY", "AD_TOKEN", "ENDPOINT")


class TestAzure(ChatModelSuite):
    dialect = AzureOpenAIDialect()
    ambient = ("AZURE_OPENAI_ENDPOINT", "OPENAI_BASE_URL")

    def make_model(self, base_url: str, **settings: Any) -> AzureChatOpenAI:
        endpoint = base_url.removesuffix("/openai/v1")
        return AzureChatOpenAI(model="m", api_key=self.key, azure_endpoint=endpoint, **settings)


class TestAzureOfAVersion(ChatModelSuite):
    """The address of a deployment, in a version of the API."""

    dialect = AzureOpenAIDialect()

    def make_model(self, base_url: str, **settings: Any) -> AzureChatOpenAI:
        return AzureChatOpenAI(
            azure_deployment="m",
            api_version="2024-10-21",
            azure_ad_token=self.key,
            azure_endpoint=base_url.removesuffix("/openai/v1"),
            **settings,
        )


class TestAzureEmbeddings(EmbeddingsSuite):
    def setup_method(self) -> None:
        self.wire = WireServer(AzureOpenAIDialect())

    def teardown_method(self) -> None:
        self.wire.close()

    def make_embeddings(self) -> AzureOpenAIEmbeddings:
        class Vectors(list[Any]):
            """A script that never ends: to each text a vector of its length."""

            def __bool__(self) -> bool:
                return True

            def pop(self, place: Any = -1) -> Any:
                return lambda handler: wire._whole(answer(wire.last["body"]["input"]))(handler)

        def answer(texts: list[str]) -> dict[str, Any]:
            return {"data": [{"index": n, "embedding": [float(len(text)), 1.0]} for n, text in enumerate(texts)]}

        wire = self.wire
        wire.script = Vectors()
        root = wire.base_url.removesuffix("/openai/v1")
        return AzureOpenAIEmbeddings(
            azure_deployment="embed", api_key=KEY, azure_endpoint=root, api_version="2024-10-21"
        )

    def test_where_they_go(self) -> None:
        assert self.make_embeddings().embed_query("abc") == [3.0, 1.0]
        assert self.wire.last["path"] == "/openai/deployments/embed/embeddings?api-version=2024-10-21"
        assert self.wire.last["body"]["model"] == "embed"
        assert self.wire.last["headers"]["api-key"] == KEY
        assert KEY not in repr(self.make_embeddings())

    def test_a_text_where_a_list_belongs(self) -> None:
        with pytest.raises(InvalidInput, match="list of texts"):
            self.make_embeddings().embed_documents("abc")
        with pytest.raises(InvalidInput, match="Text 1"):
            self.make_embeddings().embed_documents(["a", 2])  # type: ignore[list-item]
        assert self.wire.requests == []

    def test_by_name(self) -> None:
        made = init_embeddings("azure_openai:embed", base_url=self.wire.base_url, api_key=KEY)
        self.make_embeddings()
        assert made.embed_query("ab") == [2.0, 1.0]
        assert self.wire.last["path"] == "/openai/v1/embeddings"


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[WireServer]:
    for name in NAMES:
        monkeypatch.delenv(f"AZURE_OPENAI_{name}", raising=False)
    for name in ("OPENAI_API_VERSION", "OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.delenv(name, raising=False)
    with WireServer(AzureOpenAIDialect()) as server:
        yield server


@pytest.fixture
def endpoint(wire: WireServer) -> str:
    return wire.base_url.removesuffix("/openai/v1")


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> Colour:
    return Colour(request.param)


def paid_by(wire: WireServer) -> tuple[str, str]:
    """How the account is told in the latest request, and as what."""
    headers = wire.last["headers"]
    found = [("key", headers["api-key"])] if "api-key" in headers else []
    bearer = headers.get("authorization", "").removeprefix("Bearer ")
    [told] = [*found, *([("bearer", bearer)] if bearer else [])]
    return told


def model(endpoint: str, **given: Any) -> AzureChatOpenAI:
    class QuickRetries(AzureChatOpenAI):
        retry_policy = RetryPolicy(first_s=0.001)

    return QuickRetries(**{"azure_endpoint": endpoint, "azure_deployment": "my-gpt", **given})


@pytest.mark.parametrize(
    ("version", "responses", "path"),
    [
        (None, False, "/openai/v1/chat/completions"),
        (None, True, "/openai/v1/responses"),
        ("2024-10-21", False, "/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21"),
        ("2025-04-01-preview", True, "/openai/responses?api-version=2025-04-01-preview"),
    ],
)
def test_where_requests_go(
    wire: WireServer, endpoint: str, colour: Colour, version: str | None, responses: bool, path: str
) -> None:
    azure = model(endpoint, api_key=KEY, api_version=version, use_responses_api=responses, model="gpt-4o")
    body: dict[str, Any] = {"id": "resp_1", "object": "response", "status": "completed", "output": [{"type": "x"}]}
    if responses:
        wire.json(body)
    else:
        wire.say("Hello.")
    colour.invoke(azure, "Hi")
    assert wire.last["path"] == path
    assert wire.last["body"]["model"] == "my-gpt"
    assert paid_by(wire) == ("key" if version else "bearer", KEY)
    assert (azure.profile or {})["max_input_tokens"] == 128_000, "the profile is that of the model in the deployment"


@pytest.mark.parametrize("version", [None, "2024-10-21"])
def test_tokens_of_entra(wire: WireServer, endpoint: str, colour: Colour, version: str | None) -> None:
    async def later() -> str:
        return "tok-2"

    for given in ({"azure_ad_token": "tok-1"}, {"azure_ad_token_provider": lambda: "tok-1"}):
        wire.say("Hello.")
        colour.invoke(model(endpoint, api_version=version, **given), "Hi")
        assert wire.last["headers"]["authorization"] == "Bearer tok-1"
        assert "api-key" not in wire.last["headers"]
        assert "tok-1" not in repr(model(endpoint, **given))
    wire.say("Hello.")
    colour.invoke(model(endpoint, api_version=version, azure_ad_token_provider=later), "Hi")
    assert wire.last["headers"]["authorization"] == "Bearer tok-2"


def test_who_pays_is_said_once(wire: WireServer, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingApiKey, match="AZURE_OPENAI_API_KEY"):
        model(endpoint)
    with pytest.raises(InvalidConfig, match="api_key and azure_ad_token"):
        model(endpoint, api_key="k", azure_ad_token="t")
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", "env-token")
    wire.say("Hello.")
    model(endpoint).invoke("Hi")
    assert wire.last["headers"]["authorization"] == "Bearer env-token"
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "env-key")
    wire.say("Hello.")
    model(endpoint).invoke("Hi")
    assert paid_by(wire) == ("bearer", "env-key"), "the API without a version takes a key there, as its SDK sends it"
    assert "env-token" not in str(wire.last["headers"])


def test_a3_the_environment_reroutes_only_where_it_is_asked(
    wire: WireServer, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A3"""
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", endpoint)
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    with pytest.raises(InvalidInput, match="address of a resource"):
        AzureChatOpenAI(azure_deployment="d", api_key=KEY)
    wire.say("Hello.")
    AzureChatOpenAI(azure_deployment="d", api_key=KEY, azure_endpoint="env", api_version="env").invoke("Hi")
    assert wire.last["path"] == "/openai/deployments/d/chat/completions?api-version=2024-10-21"
    with pytest.raises(InvalidConfig, match="both say"):
        AzureChatOpenAI(azure_deployment="d", api_key=KEY, azure_endpoint=endpoint, base_url=endpoint)


def test_what_the_filters_found(wire: WireServer, endpoint: str, colour: Colour) -> None:
    for call in (colour.invoke, lambda *given: colour.whole(colour.stream(*given))):
        wire.say("Hello.")
        facts = call(model(endpoint, api_key=KEY), "Hi").response_metadata
        assert facts["content_filter_results"]["hate"]["severity"] == "safe"
        assert facts["prompt_filter_results"][0]["content_filter_results"]["violence"]["filtered"] is False
        assert facts["model_provider"] == "azure_openai"
    found = {"hate": {"filtered": True, "severity": "high"}, "violence": {"filtered": False, "severity": "safe"}}
    error = {"code": "content_filter", "message": "The response was filtered.", "status": 400}
    wire.json({"error": {**error, "innererror": {"content_filter_result": found}}}, 400)
    with pytest.raises(ModelRefusalError, match="hate"):
        colour.invoke(model(endpoint, api_key=KEY), "Hi")


def test_names_that_programs_have(wire: WireServer) -> None:
    azure = init_chat_model(
        "azure_openai:gpt-4o", base_url=wire.base_url, openai_api_key=KEY, deployment_name="d", openai_api_version=None
    )
    assert isinstance(azure, AzureChatOpenAI)
    wire.say("Hello.")
    assert azure.invoke("Hi").text == "Hello."
    assert wire.last["body"]["model"] == "d"
