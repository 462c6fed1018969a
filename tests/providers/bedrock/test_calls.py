"""What is Bedrock's own: who pays and where requests go, guardrails, cache points, thoughts, media, its errors."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runwell import create_agent
from runwell.agents.middleware import PromptCachingMiddleware
from runwell.errors import (
    ContextOverflow,
    InvalidConfig,
    InvalidHistory,
    InvalidInput,
    MissingApiKey,
    ModelAuthenticationError,
    ModelBadRequest,
    ModelError,
    ModelOverloaded,
    ModelRateLimitError,
    ModelRefusalError,
    ModelTimeout,
    UnsupportedByProvider,
)
from runwell.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from runwell.models import init_chat_model
from runwell.models.retry import RetryPolicy
from runwell.observe import DecisionLog
from runwell.providers.bedrock import ChatBedrockConverse
from runwell.testing.chat_wire import Colour
from runwell.testing.wire import BedrockDialect, Call, Said, WireServer
from runwell.testing.wire.bedrock import deltas, event_message

SECRET = "aws-secret-0123456789"
TOKEN = "aws-session-token-0123456789"
PIXEL = base64.b64encode(b"pixel").decode()
PERSON = {"title": "Person", "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class QuickRetries(ChatBedrockConverse):
    retry_policy = RetryPolicy(first_s=0.001)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[WireServer]:
    for name in ("AWS_BEARER_TOKEN_BEDROCK", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere/config")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere/credentials")
    with WireServer(BedrockDialect()) as server:
        yield server


@pytest.fixture
def make(wire: WireServer) -> Callable[..., ChatBedrockConverse]:
    def made(**given: Any) -> ChatBedrockConverse:
        keys = {} if "api_key" in given else {"aws_access_key_id": "AKIATEST", "aws_secret_access_key": SECRET}
        known = {"model": "m", "region_name": "eu-central-1", "base_url": wire.base_url, "max_retries": 0}
        return QuickRetries(**{**known, **keys, **given})

    return made


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> Colour:
    return Colour(request.param)


Make = Callable[..., ChatBedrockConverse]


# -- who pays, and where requests go


def test_requests_are_signed_for_the_region(wire: WireServer, make: Make, colour: Colour) -> None:
    wire.say("Hi.")
    colour.invoke(make(model="anthropic.claude-x-v1:0", aws_session_token=TOKEN), "Hi")
    headers = wire.last["headers"]
    assert headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIATEST/")
    assert "/eu-central-1/bedrock/aws4_request" in headers["authorization"]
    assert headers["x-amz-security-token"] == TOKEN
    assert wire.last["path"] == "/model/anthropic.claude-x-v1%3A0/converse"
    assert wire.asked.model == "anthropic.claude-x-v1:0"


def test_an_api_key_pays(wire: WireServer, make: Make, colour: Colour, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "key-of-the-environment")
    for given, sent in (({"api_key": "key-of-mine"}, "key-of-mine"), ({"api_key": None}, "key-of-the-environment")):
        wire.say("Hi.")
        colour.invoke(make(**given), "Hi")
        assert wire.last["headers"]["authorization"] == f"Bearer {sent}"
    wire.say("Hi.")
    colour.invoke(make(), "Hi")
    assert wire.last["headers"]["authorization"].startswith("AWS4"), "access keys that are given go before the variable"


def test_aws_own_chain(wire: WireServer, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingApiKey, match="credentials"):
        make(api_key=None).invoke("Hi")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-environment")
    wire.say("Hi.")
    make(api_key=None).invoke("Hi")
    assert "Credential=AKIAENV/" in wire.last["headers"]["authorization"]


def test_a_token_of_awss_chain_is_not_logged(
    wire: WireServer, make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-environment")
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
    wire.say("Hi.")
    make(api_key=None).invoke("Hi")
    assert wire.last["headers"]["x-amz-security-token"] == TOKEN
    lines = [record.getMessage() for record in caplog.records]
    assert any("**********" in line for line in lines)
    assert not any(TOKEN in line for line in lines)


def test_the_region_gives_the_address(wire: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidConfig, match="no region"):
        ChatBedrockConverse(model="m", api_key="k")
    monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    assert ChatBedrockConverse(model="m", api_key="k").base_url == "https://bedrock-runtime.us-west-2.amazonaws.com"
    china = ChatBedrockConverse(model="m", api_key="k", region_name="cn-north-1")
    assert china.base_url == "https://bedrock-runtime.cn-north-1.amazonaws.com.cn"
    assert ChatBedrockConverse(model="m", api_key="k", base_url="env").base_url == "http://127.0.0.1:9"


@pytest.mark.parametrize(
    "given", [{"credentials_profile_name": "nobody"}, {"region_name": "eu central 1", "api_key": "k"}]
)
def test_what_awss_sdk_refuses_is_told_in_our_words(wire: WireServer, given: dict[str, Any], colour: Colour) -> None:
    model = ChatBedrockConverse(**{"model": "m", "region_name": "us-east-1", "base_url": wire.base_url, **given})
    with pytest.raises(InvalidConfig, match=r"nobody|eu central 1"):
        colour.invoke(model, "Hi")


def test_half_an_account_is_refused() -> None:
    with pytest.raises(InvalidInput, match="go together"):
        ChatBedrockConverse(model="m", region_name="us-east-1", aws_access_key_id="AKIA")
    with pytest.raises(InvalidInput, match="one of them pays"):
        ChatBedrockConverse(
            model="m", region_name="us-east-1", api_key="k", aws_access_key_id="A", aws_secret_access_key="s"
        )


def test_secrets_are_shown_nowhere(wire: WireServer, make: Make, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    key, shown = "bedrock-api-key-0123", []
    for given, own in (({"aws_session_token": TOKEN}, (SECRET, TOKEN)), ({"api_key": key}, (key,))):
        model = make(**given)
        wire.fail(403, f"{' and '.join(own)} may not")
        with pytest.raises(ModelAuthenticationError) as caught:
            model.invoke("Hi")
        shown += [str(caught.value), repr(caught.value.args), repr(model), str(vars(model))]
        shown += [str(model._identifying_params), repr(model.bind(stop=["x"]))]
        wire.say("Hi.")
        assert "".join(chunk.text for chunk in model.stream("Hi")) == "Hi."
    lines = [record.getMessage() for record in caplog.records]
    assert any("Sending http request" in line for line in lines), "the SDK's own lines are there"
    for text in [*shown, *lines]:
        for secret in (SECRET, TOKEN, key):
            assert secret not in text


def test_a_client_of_ones_own(wire: WireServer) -> None:
    import boto3

    client = boto3.client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url=wire.base_url,
        aws_access_key_id="AKIAMINE",
        aws_secret_access_key="s",
    )
    wire.say("Hi.")
    model = ChatBedrockConverse(model="m", client=client)
    assert model.invoke("Hi").text == "Hi."
    assert (model.base_url, model.region_name) == (wire.base_url, "us-east-1")
    assert "AKIAMINE" in wire.last["headers"]["authorization"]


def test_headers_and_configuration_of_ones_own(wire: WireServer, make: Make) -> None:
    from botocore.config import Config

    wire.say("Hi.")
    make(default_headers={"x-team": "blue"}, config=Config(user_agent_extra="mine/1")).invoke("Hi")
    assert wire.last["headers"]["x-team"] == "blue"
    assert "mine/1" in wire.last["headers"]["user-agent"]


# -- what is asked


def test_arguments_of_the_api(wire: WireServer, make: Make, colour: Colour) -> None:
    model = make(
        temperature=0.5,
        top_p=0.9,
        guardrails={"guardrailIdentifier": "g", "guardrailVersion": "1", "streamProcessingMode": "sync"},
        performance_config={"latency": "optimized"},
        service_tier="flex",
        request_metadata={"team": "blue"},
        additional_model_request_fields={"thinking": {"type": "enabled", "budget_tokens": 1024}},
        additional_model_response_field_paths=["/stop_sequence"],
        effort="high",
    )
    wire.say("Hi.")
    colour.invoke(model, "Hi", max_tokens=7)
    body = wire.last["body"]
    assert body["inferenceConfig"] == {"temperature": 0.5, "topP": 0.9, "maxTokens": 7}
    assert body["guardrailConfig"] == {"guardrailIdentifier": "g", "guardrailVersion": "1"}
    assert body["performanceConfig"] == {"latency": "optimized"}
    assert body["serviceTier"] == {"type": "flex"}
    assert body["requestMetadata"] == {"team": "blue"}
    assert body["additionalModelRequestFields"] == {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    assert body["additionalModelResponseFieldPaths"] == ["/stop_sequence"]
    assert body["outputConfig"] == {"effort": "high"}
    wire.say("Hi.")
    colour.stream(model, "Hi")
    assert wire.last["body"]["guardrailConfig"]["streamProcessingMode"] == "sync"


def test_cache_points(wire: WireServer, make: Make, colour: Colour) -> None:
    point = ChatBedrockConverse.create_cache_point()
    history = [
        SystemMessage([{"type": "text", "text": "Be brief."}, point]),
        HumanMessage([{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]),
    ]
    tool = {
        "type": "function",
        "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object", "properties": {}}},
        "cache_control": {"type": "ephemeral"},
    }
    wire.say("Hi.")
    colour.invoke(make().bind_tools([tool]), history)
    body = wire.last["body"]
    assert body["system"] == [{"text": "Be brief."}, {"cachePoint": {"type": "default"}}]
    assert body["messages"][0]["content"] == [{"text": "Hi"}, {"cachePoint": {"type": "default", "ttl": "1h"}}]
    assert body["toolConfig"]["tools"][1] == {"cachePoint": {"type": "default"}}


def test_marks_that_middleware_sets_are_cache_points(wire: WireServer, make: Make, colour: Colour) -> None:
    wire.say("", calls=[Call("add", {"a": 1, "b": 2}, "c1")])
    wire.say("3.")
    model = make(model="anthropic.claude-sonnet-4-5-20250929-v1:0")
    agent = create_agent(model, [add], system_prompt="Be brief.", middleware=[PromptCachingMiddleware(ttl="1h")])
    colour.invoke(agent, {"messages": "1 + 2?"})
    point = {"cachePoint": {"type": "default", "ttl": "1h"}}
    sent = wire.last["body"]
    assert sent["system"] == [{"text": "Be brief."}, point]
    assert sent["toolConfig"]["tools"][-1] == point
    asked, _, result = sent["messages"]
    assert asked["content"][-1] == point
    assert [*map(next, map(iter, result["content"]))] == ["toolResult", "cachePoint"]


def test_media(wire: WireServer, make: Make, colour: Colour) -> None:
    content = [
        {"type": "image", "base64": PIXEL, "mime_type": "image/jpeg"},
        {"type": "image", "url": "s3://bucket/a.png"},
        {"type": "video", "url": "s3://bucket/a.mov", "mime_type": "video/quicktime", "extras": {"bucketOwner": "1"}},
        {"type": "file", "base64": PIXEL, "mime_type": "text/csv", "filename": "the  report_1.csv"},
        {"type": "file", "base64": PIXEL, "mime_type": "application/pdf"},
        {"type": "image", "url": "https://x/y.png"},
    ]
    wire.say("Hm.")
    colour.invoke(make(), [HumanMessage(content)])
    assert wire.last["body"]["messages"][0]["content"] == [
        {"image": {"format": "jpeg", "source": {"bytes": PIXEL}}},
        {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://bucket/a.png"}}}},
        {"video": {"format": "mov", "source": {"s3Location": {"uri": "s3://bucket/a.mov", "bucketOwner": "1"}}}},
        {"document": {"format": "csv", "name": "the report 1 csv", "source": {"bytes": PIXEL}}},
        {"document": {"format": "pdf", "name": "document 1", "source": {"bytes": PIXEL}}},
        {"text": "[image: https://x/y.png]"},
    ]


def test_blocks_without_a_standard_form_are_not_lost(wire: WireServer, make: Make, colour: Colour) -> None:
    found = {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x"}]}
    document = {"document": {"format": "txt", "name": "d", "source": {"text": "x"}}}
    content = [
        {"type": "document", **document},
        {"guardContent": {"text": {"text": "guard me"}}},
        found,
        {"type": "non_standard", "value": {"type": "of_another", "value": [1]}},
    ]
    wire.say("Hm.")
    colour.invoke(make(), [HumanMessage(content)])
    assert wire.last["body"]["messages"][0]["content"] == [
        document,
        {"guardContent": {"text": {"text": "guard me"}}},
        {"searchResult": {"source": "s", "title": "t", "content": [{"text": "x"}]}},
        {"text": '{"type": "of_another", "value": [1]}'},
    ]


def test_turns_alternate(wire: WireServer, make: Make, colour: Colour) -> None:
    call = {"name": "add", "args": {}, "id": "toolu.01/with another alphabet", "type": "tool_call"}
    history = [
        HumanMessage("One."),
        HumanMessage("Two."),
        AIMessage("\n", tool_calls=[call]),
        ToolMessage("3", tool_call_id=str(call["id"]), status="error"),
        HumanMessage("And?"),
    ]
    wire.say("Hm.")
    colour.invoke(make().bind_tools([add]), history)
    first, answer, last = wire.last["body"]["messages"]
    assert first == {"role": "user", "content": [{"text": "One."}, {"text": "Two."}]}
    [used] = answer["content"]
    result, said = last["content"]
    assert result["toolResult"]["status"] == "error"
    assert result["toolResult"]["toolUseId"] == used["toolUse"]["toolUseId"]
    assert said == {"text": "And?"}


def test_a_history_with_calls_needs_their_declarations(wire: WireServer, make: Make, colour: Colour) -> None:
    call = {"name": "add", "args": {"a": 1}, "id": "c", "type": "tool_call"}
    wire.say("Hm.")
    colour.invoke(make(), [HumanMessage("Hi"), AIMessage("", tool_calls=[call]), ToolMessage("3", tool_call_id="c")])
    assert list(wire.asked.tools) == ["add"]


def test_b9_system_messages_go_to_the_top_unless_the_model_takes_them(
    wire: WireServer, make: Make, colour: Colour
) -> None:
    """B9"""
    history = [SystemMessage("Be brief."), HumanMessage("Hi"), SystemMessage("In German.")]
    log = DecisionLog()
    wire.say("Ja.")
    colour.invoke(make(), history, {"callbacks": [log]})
    assert wire.last["body"]["system"] == [{"text": "Be brief."}, {"text": "In German."}]
    [taken] = log.of("B9")
    assert taken.outcome == "moved to the top"
    wire.say("Ja.")
    colour.invoke(make(profile={"system_in_middle": True}), history)
    assert [turn["role"] for turn in wire.last["body"]["messages"]] == ["user", "system"]


def test_structured_output_by_json_schema(wire: WireServer, make: Make, colour: Colour) -> None:
    wire.say('{"name": "Ada"}')
    assert colour.invoke(make().with_structured_output(PERSON, method="json_schema"), "Who?") == {"name": "Ada"}
    form = wire.last["body"]["outputConfig"]["textFormat"]
    assert form["type"] == "json_schema"
    assert json.loads(form["structure"]["jsonSchema"]["schema"])["required"] == ["name"]
    with pytest.raises(UnsupportedByProvider):
        make().with_structured_output(PERSON, method="json_mode")


def test_choices_and_strictness(wire: WireServer, make: Make, colour: Colour) -> None:
    with pytest.raises(UnsupportedByProvider, match="none"):
        make().bind_tools([add], tool_choice="none")
    wire.say("Hi.")
    colour.invoke(make().bind_tools([add, {"systemTool": {"name": "nova_grounding"}}], strict=True), "Hi")
    tools = wire.last["body"]["toolConfig"]["tools"]
    assert tools[0]["toolSpec"]["strict"] is True
    assert tools[1] == {"systemTool": {"name": "nova_grounding"}}


# -- what comes back


def body(*content: dict[str, Any], stop: str = "end_turn", **more: Any) -> dict[str, Any]:
    said = BedrockDialect().answer(Said(text="x"))
    return {**said, "output": {"message": {"role": "assistant", "content": list(content)}}, "stopReason": stop, **more}


def test_thoughts_stay_with_their_signatures_and_go_back(wire: WireServer, make: Make, colour: Colour) -> None:
    hidden = base64.b64encode(b"hidden").decode()
    blocks = [
        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}},
        {"reasoningContent": {"redactedContent": hidden}},
        {"text": "Yes."},
        {"toolUse": {"toolUseId": "c", "name": "add", "input": {"a": 1, "b": 2}}},
    ]
    wire.json(body(*blocks, stop="tool_use"))
    said = colour.invoke(make(), "Hi")
    assert said.text == "Yes."
    assert [block["type"] for block in said.content_blocks] == ["reasoning", "reasoning", "text", "tool_call"]
    json.dumps(said.model_dump())
    wire.say("Done.")
    colour.invoke(make(), [HumanMessage("Hi"), said, ToolMessage("3", tool_call_id="c")])
    assert wire.last["body"]["messages"][1]["content"] == blocks


def test_a_stream_of_thoughts_and_citations(wire: WireServer, make: Make, colour: Colour) -> None:
    citation = {
        "title": "Cats",
        "sourceContent": [{"text": "Cats sleep."}],
        "location": {"documentPage": {"documentIndex": 0, "start": 1, "end": 2}},
    }
    wire.events(
        ("messageStart", {"role": "assistant"}),
        *deltas(0, {"reasoningContent": {"text": "Hm"}}, {"reasoningContent": {"signature": "c2ln"}}),
        *deltas(1, {"text": "They "}, {"text": "sleep."}, {"citation": citation}),
        ("messageStop", {"stopReason": "end_turn", "additionalModelResponseFields": {"x": 1}}),
        ("metadata", {"usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}, "metrics": {"latencyMs": 5}}),
    )
    said = colour.whole(colour.stream(make(), "Hi"))
    thought, text = said.content_blocks
    assert (thought["reasoning"], text["text"]) == ("Hm", "They sleep.")
    [note] = text["annotations"]
    assert (note["title"], note["cited_text"]) == ("Cats", "Cats sleep.")
    assert said.response_metadata["metrics"] == {"latencyMs": 5}
    assert said.response_metadata["additional_model_response_fields"] == {"x": 1}
    wire.say("Yes.")
    colour.invoke(make(), [HumanMessage("Hi"), said, HumanMessage("Sure?")])
    _, cited = wire.last["body"]["messages"][1]["content"]
    assert cited["citationsContent"] == {"content": [{"text": "They sleep."}], "citations": [citation]}


@pytest.mark.parametrize("form", ["invoke", "stream"])
def test_a_guardrail_that_intervened(wire: WireServer, make: Make, colour: Colour, form: str) -> None:
    trace = {"guardrail": {"actionReason": "Guardrail blocked."}}
    if form == "invoke":
        wire.json(body({"text": "I cannot."}, stop="guardrail_intervened", trace=trace))
        said = colour.invoke(make(), "Hi")
    else:
        usage = {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}
        wire.events(
            ("messageStart", {"role": "assistant"}),
            *deltas(0, {"text": "I cannot."}),
            ("messageStop", {"stopReason": "guardrail_intervened"}),
            ("metadata", {"usage": usage, "metrics": {"latencyMs": 1}, "trace": trace}),
        )
        said = colour.whole(colour.stream(make(), "Hi"))
    assert said.response_metadata["finish_reason"] == "content_filter"
    assert said.response_metadata["trace"] == trace
    assert "guardrail" in said.additional_kwargs["refusal"]
    wire.json(body({"text": "I cannot."}, stop="guardrail_intervened"))
    with pytest.raises(ModelRefusalError):
        colour.invoke(make().with_structured_output(PERSON, method="json_schema"), "Who?")


def test_usage_counts_what_the_cache_gave_and_took(wire: WireServer, make: Make, colour: Colour) -> None:
    usage = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 45}
    wire.json(body({"text": "Hi"}, usage={**usage, "cacheReadInputTokens": 20, "cacheWriteInputTokens": 10}))
    said = colour.invoke(make(), "Hi")
    assert said.usage_metadata == {
        "input_tokens": 40,
        "output_tokens": 5,
        "total_tokens": 45,
        "input_token_details": {"cache_read": 20, "cache_creation": 10},
    }


def test_a_router_says_which_model_answered(wire: WireServer, make: Make, colour: Colour) -> None:
    wire.json(body({"text": "Hi"}, trace={"promptRouter": {"invokedModelId": "arn:small"}}))
    assert colour.invoke(make(), "Hi").response_metadata["model_name"] == "arn:small"


# -- what goes wrong


@pytest.mark.parametrize(
    ("name", "status", "message", "kind"),
    [
        ("ThrottlingException", 429, "Too many tokens, please wait before trying again.", ModelRateLimitError),
        ("ServiceQuotaExceededException", 400, "quota", ModelRateLimitError),
        ("ModelNotReadyException", 429, "warming up", ModelOverloaded),
        ("ModelErrorException", 424, "the model failed", ModelOverloaded),
        ("ModelTimeoutException", 408, "took too long", ModelTimeout),
        ("ExpiredTokenException", 403, "expired", ModelAuthenticationError),
        ("ValidationException", 400, "Input is too long for requested model.", ContextOverflow),
        (
            "ValidationException",
            400,
            "The model returned: prompt is too long: 213 tokens > 200 maximum",
            ContextOverflow,
        ),
        ("ValidationException", 400, "roles must alternate", ModelBadRequest),
    ],
)
def test_errors_by_their_names(
    wire: WireServer, make: Make, colour: Colour, name: str, status: int, message: str, kind: type[ModelError]
) -> None:
    wire.json({"message": message}, status, x_amzn_errortype=f"{name}:http://x", x_amzn_requestid="r-1")
    with pytest.raises(kind) as caught:
        colour.invoke(make(), "Hi")
    assert type(caught.value) is kind
    assert message in str(caught.value)
    assert caught.value.request_id == "r-1"
    assert caught.value.retryable == (kind in (ModelRateLimitError, ModelOverloaded, ModelTimeout))


def test_a_model_that_wants_a_profile(wire: WireServer, make: Make, colour: Colour) -> None:
    wire.fail(400, "Invocation of model ID m with on-demand throughput isn't supported.")
    with pytest.raises(ModelBadRequest, match=r"us\.m"):
        colour.invoke(make(), "Hi")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("modelStreamErrorException", ModelOverloaded),
        ("internalServerException", ModelOverloaded),
        ("throttlingException", ModelRateLimitError),
        ("validationException", ModelBadRequest),
    ],
)
def test_errors_in_the_middle_of_a_stream(
    wire: WireServer, make: Make, colour: Colour, name: str, kind: type[ModelError]
) -> None:
    start, piece, *_ = BedrockDialect().events(Said(pieces=["Hel", "lo."]))
    wire.events(start, piece, (name, {"message": "it broke"}))
    chunks: list[Any] = []
    with pytest.raises(kind, match="it broke"):
        colour.stream(make(max_retries=2), "Hi", into=chunks)
    assert [chunk.text for chunk in chunks] == ["Hel"]
    assert len(wire.requests) == 1, "what the reader has seen is not asked for again"


def test_an_error_before_the_first_chunk_is_tried_again(wire: WireServer, make: Make, colour: Colour) -> None:
    wire.events(("messageStart", {"role": "assistant"}), ("throttlingException", {"message": "slow down"}))
    wire.say("Hello.")
    assert colour.whole(colour.stream(make(max_retries=1), "Hi")).text == "Hello."


@pytest.mark.parametrize("form", ["invoke", "stream"])
def test_a_malformed_answer_is_none(wire: WireServer, make: Make, colour: Colour, form: str) -> None:
    if form == "invoke":
        wire.json(body({"text": "I will"}, stop="malformed_tool_use"))
        wire.say("Hello.")
        assert colour.invoke(make(max_retries=1), "Hi").text == "Hello."
        return
    wire.events(
        ("messageStart", {"role": "assistant"}),
        *deltas(0, {"text": "I will"}),
        ("messageStop", {"stopReason": "malformed_tool_use"}),
    )
    with pytest.raises(ModelError, match="malformed_tool_use"):
        colour.stream(make(), "Hi")


def test_a_message_whose_checksum_is_wrong(wire: WireServer, make: Make, colour: Colour) -> None:
    good = event_message("messageStart", b'{"role": "assistant"}')
    wire.events(good, good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(ModelError, match="cannot read"):
        colour.stream(make(), "Hi")


def test_a_timeout_of_one_call(wire: WireServer, make: Make, colour: Colour) -> None:
    model = make()
    wire.hang()
    with pytest.raises(ModelTimeout):
        colour.invoke(model, "Hi", timeout=0.1)
    assert not wire.outwaited.is_set()
    wire.say("Hi.")
    assert colour.invoke(model, "Hi").text == "Hi."


def test_many_at_once_do_not_wait_for_each_other(wire: WireServer, make: Make) -> None:
    together = threading.Barrier(12)
    answer = BedrockDialect().answer(Said(text="Hi."))

    def meet(handler: Any) -> None:
        together.wait(10)
        wire._whole(answer)(handler)

    wire.script += [meet] * 12
    model = make()

    async def ask() -> list[str]:
        return [each.text for each in await asyncio.gather(*(model.ainvoke("Hi") for _ in range(12)))]

    assert asyncio.run(ask()) == ["Hi."] * 12


def test_bad_input_stays_here(wire: WireServer, make: Make, colour: Colour) -> None:
    with pytest.raises(InvalidHistory, match="Message 1"):
        colour.invoke(make(), [AIMessage("Hi"), HumanMessage("")])
    with pytest.raises(InvalidInput, match="not base64"):
        colour.invoke(make(), [HumanMessage([{"type": "image", "base64": "no base64!", "mime_type": "image/png"}])])
    with pytest.raises(InvalidInput, match="seed"):
        colour.invoke(make(), "Hi", seed=3)
    with pytest.raises(InvalidInput, match="temprature"):
        make(temprature=1)
    assert wire.requests == []


def test_an_agent_with_structured_output(wire: WireServer, make: Make, colour: Colour) -> None:
    wire.say("I add.", calls=[Call("add", {"a": 1, "b": 2}, "c1")])
    wire.say("", calls=[Call("Person", {"name": "Ada"}, "c2")])
    agent = create_agent(make(), [add], response_format=PERSON)
    assert colour.invoke(agent, {"messages": "Who?"})["structured_response"] == {"name": "Ada"}


@pytest.mark.parametrize(
    "name",
    [
        "anthropic.claude-sonnet-4-5-20250929-v1:0",
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    ],
)
def test_what_is_known_of_claude_is_known_here(name: str) -> None:
    profile = ChatBedrockConverse(model=name, region_name="us-east-1", api_key="k").profile
    assert profile is not None
    assert profile["max_input_tokens"] == 200_000
    assert "structured_output" not in profile
    assert ChatBedrockConverse(model="amazon.nova-pro-v1:0", region_name="us-east-1", api_key="k").profile is None


def test_init_chat_model(wire: WireServer) -> None:
    names = ("bedrock_converse:m", "bedrock:m", "bedrock-converse:m", "us.anthropic.claude-x", "jp.amazon.nova-2-lite")
    for name in (*names, "arn:aws:bedrock:us-east-1:1:application-inference-profile/x"):
        wire.say("Hi.")
        model = init_chat_model(name, region_name="us-east-1", api_key="k", endpoint_url=wire.base_url)
        assert isinstance(model, ChatBedrockConverse)
        assert model.invoke("Hi").text == "Hi."
