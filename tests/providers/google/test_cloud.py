"""Gemini on Vertex AI: the account is what the program says, and nothing is asked before the first call."""

from __future__ import annotations

from typing import Any

import pytest

from runwell import init_chat_model
from runwell.errors import InvalidConfig, MissingApiKey, ModelAuthenticationError
from runwell.models.retry import RetryPolicy
from runwell.providers.google.chat import ChatGoogleGenerativeAI, ChatVertexAI

TOKEN = "ya29.test-token-0123456789"


def credentials(token: str | None = TOKEN) -> Any:
    """As `google.auth.default()` gives them; a token that is missing is got once."""
    from google.auth.credentials import Credentials

    class Mine(Credentials):  # type: ignore[misc]
        refreshed = 0

        def refresh(self, request: Any) -> None:
            self.refreshed += 1
            self.token = TOKEN

    made = Mine()
    made.token = token
    return made


class Quick(ChatGoogleGenerativeAI):
    retry_policy = RetryPolicy(first_s=0.001)


@pytest.fixture
def cloud(wire: Any) -> Any:
    def make(**given: Any) -> ChatGoogleGenerativeAI:
        account = {"project": "p1", "location": "us-central1", "credentials": credentials()}
        return Quick(**{"model": "gemini-3-flash", "vertexai": True, "base_url": wire.base_url, **account, **given})

    return make


@pytest.fixture(autouse=True)
def _nothing_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """No machine's own credentials, and no server asked for them."""
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError

    def default(**kwargs: Any) -> Any:
        raise DefaultCredentialsError("no credentials here")

    monkeypatch.setattr(google.auth, "default", default)


def test_project_and_credentials(wire: Any, cloud: Any, call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key in the environment, and its project, are not taken."""
    monkeypatch.setenv("GOOGLE_API_KEY", "AIza-somebodys")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "somebodys")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "mars")
    monkeypatch.setenv("GOOGLE_API_USE_MTLS_ENDPOINT", "always")
    wire.parts({"text": "Hel"}, {"text": "lo."})
    assert call(cloud(labels={"team": "x"}), "Hi").text == "Hello."
    path = "/v1beta1/projects/p1/locations/us-central1/publishers/google/models/gemini-3-flash"
    assert wire.last["path"].partition(":")[0] == path
    assert wire.last["headers"]["authorization"] == f"Bearer {TOKEN}"
    assert "x-goog-api-key" not in wire.last["headers"]
    assert wire.last["body"]["labels"] == {"team": "x"}


def test_a_token_is_got_at_the_first_call(wire: Any, cloud: Any, call: Any) -> None:
    mine = credentials(None)
    model = cloud(credentials=mine)
    assert mine.refreshed == 0
    for _ in range(2):
        wire.parts({"text": "Hello."})
        assert call(model, "Hi").text == "Hello."
    assert mine.refreshed == 1
    assert wire.last["headers"]["authorization"] == f"Bearer {TOKEN}"


def test_who_pays_is_told_where_the_credentials_say_so(wire: Any, cloud: Any, call: Any) -> None:
    mine = credentials()
    mine._quota_project_id = "billing"
    wire.parts({"text": "Hello."})
    call(cloud(credentials=mine), "Hi")
    assert wire.last["headers"]["x-goog-user-project"] == "billing"


def test_a_token_that_cannot_be_got_now_is_tried_for_again(wire: Any, cloud: Any, call: Any) -> None:
    from google.auth.exceptions import RefreshError, TransportError

    mine = credentials(None)
    refresh, failures = mine.refresh, [TransportError("unreachable"), RefreshError("busy", retryable=True)]

    def fail_first(request: Any) -> None:
        if failures:
            raise failures.pop()
        refresh(request)

    mine.refresh = fail_first
    model = cloud(credentials=mine)
    wire.parts({"text": "Hello."})
    assert call(model, "Hi").text == "Hello."
    mine.token, failures[:] = None, [RefreshError("revoked")]
    with pytest.raises(ModelAuthenticationError, match="revoked"):
        call(model, "Hi")
    assert failures == []


def test_no_credentials_at_all(wire: Any, cloud: Any, call: Any) -> None:
    model = cloud(credentials=None)  # nobody is asked yet
    with pytest.raises(ModelAuthenticationError, match="no credentials here"):
        call(model, "Hi")
    assert wire.requests == []


def test_express_mode(wire: Any, call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "somebodys")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "mars")
    wire.parts({"text": "Hello."})
    model = ChatVertexAI(model="gemini-3-flash", api_key="AQ.express", base_url=wire.base_url)
    assert call(model, "Hi").text == "Hello."
    assert wire.last["path"].partition(":")[0] == "/v1beta1/publishers/google/models/gemini-3-flash"
    assert wire.last["headers"]["x-goog-api-key"] == "AQ.express"
    assert "authorization" not in wire.last["headers"]


@pytest.mark.parametrize(
    ("location", "host"),
    [
        (None, "aiplatform.googleapis.com"),
        ("global", "aiplatform.googleapis.com"),
        ("us", "aiplatform.us.rep.googleapis.com"),
        ("europe-west4", "europe-west4-aiplatform.googleapis.com"),
    ],
)
def test_where_it_goes(location: str | None, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_VERTEX_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("GOOGLE_API_USE_MTLS_ENDPOINT", "always")
    model = ChatVertexAI(model="m", project="p1", location=location)
    assert model.base_url == f"https://{host}"
    api = model._clients.plain(model)._api
    request = api._build_request("post", model._path("generateContent"), {})
    assert api._httpx_url(request.url, is_async=False) == api._httpx_url(request.url, is_async=True) == request.url
    where = location or "global"
    assert (
        request.url
        == f"https://{host}/v1beta1/projects/p1/locations/{where}/publishers/google/models/m:generateContent"
    )


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("gemini-3-flash", "publishers/google/models/gemini-3-flash"),
        ("google/gemini-3-flash", "publishers/google/models/gemini-3-flash"),
        ("meta/llama-4", "publishers/meta/models/llama-4"),
        ("projects/p2/locations/l/endpoints/5", "projects/p2/locations/l/endpoints/5"),
    ],
)
def test_names_of_models(name: str, path: str) -> None:
    assert ChatVertexAI(model=name, project="p1")._path("generateContent") == f"{path}:generateContent"


def test_an_account_that_is_none_is_refused_when_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "AIza-somebodys")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "somebodys")
    with pytest.raises(InvalidConfig, match="the project that pays"):
        ChatVertexAI(model="m")
    with pytest.raises(InvalidConfig, match="got both"):
        ChatVertexAI(model="m", project="p1", api_key="k")
    with pytest.raises(InvalidConfig, match="got both"):
        ChatVertexAI(model="m", credentials=credentials(), api_key="k")
    with pytest.raises(MissingApiKey):
        ChatVertexAI(model="m", api_key=" ")


def test_nothing_secret_is_shown(wire: Any, cloud: Any, colour: Any) -> None:
    model = cloud()
    wire.fail(401, f"the token {TOKEN} has expired")
    with pytest.raises(ModelAuthenticationError) as caught:
        colour.invoke(model, "Hi")
    for text in (repr(model), str(vars(model)), str(model._identifying_params), str(caught.value)):
        assert TOKEN not in text


def test_a_prefix_of_its_own(wire: Any) -> None:
    model = init_chat_model("google_vertexai:gemini-3-flash", project="p1", credentials=credentials())
    assert isinstance(model, ChatVertexAI)
    assert model.vertexai
    wire.parts({"text": "Hello."})
    answer = init_chat_model("google-vertexai:gemini-3-flash", api_key="k", base_url=wire.base_url).invoke("Hi")
    assert answer.response_metadata["model_provider"] == "google_vertexai"
