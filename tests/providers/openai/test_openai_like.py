"""Servers that are like OpenAI: where each is, what it refuses, and how thoughts travel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from runwell.errors import InvalidConfig, MissingApiKey, UnsupportedByProvider
from runwell.messages import AIMessage, HumanMessage, ToolMessage
from runwell.models import init_chat_model
from runwell.models.init import _OPENAI_LIKE
from runwell.providers.openai import ChatOpenAI
from runwell.providers.openai.like import ChatDeepSeek, ChatGroq, ChatOpenRouter, OpenAILike
from runwell.testing.chat_models import ChatModelSuite
from runwell.testing.chat_wire import Colour
from runwell.testing.wire import OpenAIDialect, WireServer

LOCAL = {"llamacpp", "lmstudio", "vllm"}


class TestDeepSeek(ChatModelSuite):
    dialect = OpenAIDialect()
    ambient = ("OPENAI_BASE_URL", "DEEPSEEK_API_BASE")
    takes_images = False

    def make_model(self, base_url: str, **settings: Any) -> ChatDeepSeek:
        return ChatDeepSeek(model="deepseek-chat", api_key=self.key, base_url=base_url, **settings)


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[WireServer]:
    for prefix in _OPENAI_LIKE:
        monkeypatch.delenv(f"{prefix.upper()}_API_KEY", raising=False)
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_BASE_URL"):
        monkeypatch.setenv(name, "openai's")
    with WireServer(OpenAIDialect()) as server:
        yield server


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> Colour:
    return Colour(request.param)


def completion(**message: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": "Yes.", **message}
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    return {
        "id": "c",
        "model": "served",
        "choices": [{"index": 0, "finish_reason": "stop", "message": said}],
        "usage": usage,
    }


def streamed(*deltas: dict[str, Any], **last: Any) -> list[Any]:
    events: list[Any] = [{"id": "c", "model": "served", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    end = {"id": "c", "model": "served", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], **last}
    return [*events, end, "[DONE]"]


@pytest.mark.parametrize("prefix", sorted(_OPENAI_LIKE))
def test_each_has_its_place_and_its_key(prefix: str, wire: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    if prefix in LOCAL:
        local = init_chat_model(f"{prefix}:m")
        assert isinstance(local, OpenAILike)
        assert (local.base_url or "").startswith("http://127.0.0.1:")
    else:
        with pytest.raises(MissingApiKey, match=f"{prefix.upper()}_API_KEY"):
            init_chat_model(f"{prefix}:m")
    monkeypatch.setenv(f"{prefix.upper()}_API_KEY", "its-own-key")
    assert init_chat_model(f"{prefix}:m").base_url == type(init_chat_model(f"{prefix}:m")).default_base_url  # type: ignore[attr-defined]
    model = init_chat_model(f"{prefix}:a/b:c", base_url=wire.base_url, max_tokens=5)
    wire.say("Hello.")
    answer = model.invoke("Hi")
    assert answer.text == "Hello."
    assert answer.response_metadata["model_provider"] == prefix
    assert wire.last["headers"]["authorization"] == "Bearer its-own-key"
    assert "openai's" not in str(wire.last), "OpenAI's account is no business of others"
    assert wire.last["body"]["model"] == "a/b:c"
    assert wire.last["body"]["max_tokens"] == 5
    assert wire.last["path"] == "/v1/chat/completions"


FIELDS = {
    "reasoning": ("groq", "openrouter", "together", "vllm"),
    "reasoning_content": ("deepseek", "fireworks", "xai"),
}


@pytest.mark.parametrize(("prefix", "field"), [(prefix, field) for field, all_ in FIELDS.items() for prefix in all_])
def test_thoughts_are_reasoning_blocks(prefix: str, field: str, wire: WireServer, colour: Colour) -> None:
    model = init_chat_model(f"{prefix}:m", base_url=wire.base_url, api_key="k")
    wire.json(completion(**{field: "Hm, yes."}))
    answer = colour.invoke(model, "Hi")
    wire.events(*streamed({field: "Hm, "}, {field: "yes."}, {"content": "Yes."}))
    chunks = colour.stream(model, "Hi")
    thoughts = [
        block["reasoning"] for chunk in chunks for block in chunk.content_blocks if block["type"] == "reasoning"
    ]
    assert thoughts == ["Hm, ", "yes."]
    for each in (answer, colour.whole(chunks)):
        assert each.content == "Yes."
        assert each.content_blocks == [
            {"type": "reasoning", "reasoning": "Hm, yes."},
            {"type": "text", "text": "Yes."},
        ]


def history(provider: str) -> list[Any]:
    def answer(thought: str, id: str | None = None) -> AIMessage:
        calls = [{"name": "add", "args": {}, "id": id, "type": "tool_call"}] if id else []
        facts = {"model_provider": provider}
        return AIMessage(
            "", tool_calls=calls, additional_kwargs={"reasoning_content": thought}, response_metadata=facts
        )

    return [
        HumanMessage("One?", name="ada"),
        answer("old call", "1"),
        ToolMessage("1", tool_call_id="1"),
        answer("old words"),
        HumanMessage("Two?"),
        answer("new call", "2"),
        ToolMessage("2", tool_call_id="2"),
    ]


@pytest.mark.parametrize(
    ("prefix", "field", "told"),
    [
        ("deepseek", "reasoning_content", ["new call"]),
        ("vllm", "reasoning", ["new call"]),
        ("openrouter", "reasoning", ["old call", "old words", "new call"]),
        ("groq", "reasoning", []),
        ("xai", "reasoning_content", []),
    ],
)
def test_thoughts_go_back_where_the_server_wants_them(
    wire: WireServer, prefix: str, field: str, told: list[str]
) -> None:
    model = init_chat_model(f"{prefix}:m", base_url=wire.base_url, api_key="k")
    wire.say("Yes.")
    model.invoke(history(prefix))
    sent = wire.last["body"]["messages"]
    assert [each[field] for each in sent if field in each] == told
    wire.say("Yes.")
    model.invoke(history("somebody_else"))
    assert "old" not in str(wire.last["body"])
    assert "new call" not in str(wire.last["body"])


def test_openai_itself_is_sent_nothing_it_would_refuse(wire: WireServer) -> None:
    class AtOpenAI(ChatOpenAI):
        default_base_url = wire.base_url

    wire.say("Yes.")
    AtOpenAI(model="m", api_key="k").invoke(history("deepseek"))
    assert "reasoning_content" not in str(wire.last["body"])


def test_a_developers_message_is_one_of_the_system_elsewhere(wire: WireServer) -> None:
    given = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    for model, role in ((ChatOpenAI, "developer"), (ChatDeepSeek, "system")):
        wire.say("Yes.")
        model(model="m", api_key="k", base_url=wire.base_url).invoke(given)
        assert wire.last["body"]["messages"][0] == {"role": role, "content": "Be brief."}


def test_what_groq_refuses(wire: WireServer, colour: Colour) -> None:
    with pytest.raises(UnsupportedByProvider, match="logprobs"):
        ChatGroq(model="m", api_key="k", logprobs=True)
    model = ChatGroq(model="m", groq_api_key="k", groq_api_base=wire.base_url, reasoning_format="parsed")
    for given in ({"n": 2}, {"logit_bias": {"1": 2}}, {"top_logprobs": 2}):
        with pytest.raises(UnsupportedByProvider, match=next(iter(given))):
            colour.invoke(model, "Hi", **given)
    assert wire.requests == []
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    wire.events(*streamed({"content": "Yes."}, x_groq={"usage": usage}))
    answer = colour.whole(colour.stream(model, history("groq")))
    assert answer.usage_metadata["total_tokens"] == 12
    assert wire.last["body"]["reasoning_format"] == "parsed"
    assert all("name" not in each for each in wire.last["body"]["messages"])


def test_what_deepseek_cannot(wire: WireServer) -> None:
    model = ChatDeepSeek(model="deepseek-reasoner", api_key="k", base_url=wire.base_url, thinking={"type": "enabled"})
    for refused in (
        lambda: model.with_structured_output({"title": "A", "type": "object"}, method="json_schema"),
        lambda: model.bind_tools([sum_of], strict=True),
        lambda: model.bind_tools([sum_of], parallel_tool_calls=False),
        lambda: ChatDeepSeek(model="m", api_key="k", reasoning={"effort": "low"}),
    ):
        with pytest.raises((UnsupportedByProvider, InvalidConfig)):
            refused()
    body = completion()
    body["usage"] |= {"prompt_cache_hit_tokens": 6, "prompt_cache_miss_tokens": 3}
    wire.json(body)
    assert model.invoke("Hi").usage_metadata["input_token_details"] == {"cache_read": 6}  # type: ignore[index,typeddict-item]
    assert wire.last["body"]["thinking"] == {"type": "enabled"}


def sum_of(a: int, b: int) -> int:
    """Add."""
    return a + b


def test_openrouters_own(wire: WireServer, colour: Colour) -> None:
    route = {"order": ["anthropic"], "allow_fallbacks": False}
    model = ChatOpenRouter(
        model="anthropic/claude",
        api_key="k",
        base_url=wire.base_url,
        reasoning={"effort": "high"},
        openrouter_provider=route,
        models=["a/b"],
        app_url="https://mine.example",
        app_title="Mine",
    )
    details = [
        {"type": "reasoning.text", "text": "Hm, ", "index": 0, "format": "anthropic-claude-v1"},
        {"type": "reasoning.text", "text": "yes.", "index": 0, "format": "anthropic-claude-v1"},
        {"type": "reasoning.text", "signature": "c2ln", "index": 0, "format": "anthropic-claude-v1"},
        {"type": "reasoning.encrypted", "data": "eA==", "index": 1},
    ]
    deltas = [{"reasoning": each.get("text"), "reasoning_details": [each], "content": ""} for each in details]
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12, "cost": 0.25}
    wire.events(*streamed(*deltas, {"content": "Yes."}, usage=usage, provider="Anthropic"))
    answer = colour.whole(colour.stream(model, "Hi"))
    whole = [{**details[0], "text": "Hm, yes.", "signature": "c2ln"}, details[3]]
    assert answer.additional_kwargs == {"reasoning_content": "Hm, yes.", "reasoning_details": whole}
    assert (answer.response_metadata["cost"], answer.response_metadata["provider"]) == (0.25, "Anthropic")
    body, headers = wire.last["body"], wire.last["headers"]
    assert (body["reasoning"], body["provider"], body["models"]) == ({"effort": "high"}, route, ["a/b"])
    assert (headers["http-referer"], headers["x-title"]) == ("https://mine.example", "Mine")
    wire.json({**completion(reasoning="Hm.", reasoning_details=whole), "usage": usage, "provider": "Anthropic"})
    said = colour.invoke(model, [HumanMessage("Hi"), answer, HumanMessage("Sure?")])
    assert wire.last["path"] == "/v1/chat/completions"
    assert wire.last["body"]["messages"][1] == {"role": "assistant", "content": "Yes.", "reasoning_details": whole}
    assert said.response_metadata["cost"] == 0.25
