"""What is Gemini's own on the wire: thoughts and signatures, parts, tools that Google runs, settings, choices."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from runwell.agents import create_agent
from runwell.errors import (
    InvalidConfig,
    InvalidHistory,
    InvalidInput,
    ModelBadRequest,
    ModelError,
    ModelRefusalError,
    UnsupportedByProvider,
)
from runwell.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage
from runwell.observe import DecisionLog

SIGNED = {"google": {"thought_signature": "c2ln"}}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


# -- thoughts and signatures


def test_thoughts_are_blocks_and_signatures_go_back(wire: Any, model: Any, call: Any) -> None:
    wire.parts(
        {"text": "First I add.", "thought": True},
        {"text": "Let me see."},
        {"functionCall": {"id": "c1", "name": "add", "args": {"a": 1, "b": 2}}, "thoughtSignature": "c2ln"},
        {"functionCall": {"id": "c2", "name": "add", "args": {"a": 3, "b": 4}}},
        top={"usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 4, "thoughtsTokenCount": 6}},
    )
    bound = model(include_thoughts=True, thinking_level="low").bind_tools([add])
    answer = call(bound, "1 + 2, 3 + 4?")
    assert [block["type"] for block in answer.content] == ["reasoning", "text", "tool_call", "tool_call"]
    assert answer.text == "Let me see."
    assert answer.content[2]["extras"] == SIGNED
    assert [one["args"] for one in answer.tool_calls] == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert answer.response_metadata["finish_reason"] == "tool_calls"
    assert answer.usage_metadata["output_tokens"] == 10
    assert answer.usage_metadata["output_token_details"] == {"reasoning": 6}
    config = wire.last["body"]["generationConfig"]
    assert config["thinkingConfig"] == {"includeThoughts": True, "thinkingLevel": "LOW"}

    wire.parts({"text": "3 and 7."})
    results = [ToolMessage(str(n), tool_call_id=one["id"]) for n, one in zip((3, 7), answer.tool_calls, strict=True)]
    call(bound, [HumanMessage("1 + 2, 3 + 4?"), answer, *results])
    _, said, given = wire.last["body"]["contents"]
    assert said["parts"][0] == {"text": "Let me see."}
    assert [part.get("thoughtSignature") for part in said["parts"]] == [None, "c2ln", None]
    assert given["role"] == "user"
    assert [part["functionResponse"]["name"] for part in given["parts"]] == ["add", "add"]
    assert [part["functionResponse"]["id"] for part in given["parts"]] == ["c1", "c2"]
    assert [part["functionResponse"]["response"] for part in given["parts"]] == [{"output": "3"}, {"output": "7"}]


def test_a_signature_in_a_last_empty_text_is_kept(wire: Any, model: Any, call: Any) -> None:
    wire.parts({"text": "Hel"}, {"text": "lo."}, {"text": "", "thoughtSignature": "c2ln"})
    answer = call(model(), "Hi")
    assert answer.content == "Hello."
    wire.parts({"text": "Yes."})
    call(model(), [HumanMessage("Hi"), answer, HumanMessage("And?")])
    assert wire.last["body"]["contents"][1]["parts"] == [{"text": "Hello."}, {"text": "", "thoughtSignature": "c2ln"}]


def test_a_signed_answer_looks_as_any_vendors(wire: Any, model: Any, call: Any) -> None:
    """A text and its calls: the signatures stand beside them, and go back at their places."""
    parts = [
        {"text": "Let me see.", "thoughtSignature": "dGV4dA=="},
        {"functionCall": {"id": "c1", "name": "add", "args": {"a": 1, "b": 2}}, "thoughtSignature": "c2ln"},
        {"functionCall": {"id": "c2", "name": "add", "args": {"a": 3, "b": 4}}},
    ]
    wire.parts(*parts)
    bound = model().bind_tools([add])
    answer = call(bound, "1 + 2, 3 + 4?")
    assert answer.content == "Let me see."
    assert [one["id"] for one in answer.tool_calls] == ["c1", "c2"]
    edited = answer.model_copy(update={"tool_calls": [{**answer.tool_calls[0], "args": {"a": 9, "b": 9}}]})
    for history, sent in (
        (answer, parts),
        (edited, [parts[0], {**parts[1], "functionCall": {"id": "c1", "name": "add", "args": {"a": 9, "b": 9}}}]),
    ):
        wire.parts({"text": "3 and 7."})
        results = [ToolMessage("0", tool_call_id=one["id"]) for one in history.tool_calls]
        call(bound, [HumanMessage("1 + 2, 3 + 4?"), history, *results])
        assert wire.last["body"]["contents"][1]["parts"] == sent


@pytest.mark.parametrize(
    ("name", "signature"),
    [
        ("gemini-3-pro-preview", "skip_thought_signature_validator"),
        ("models/gemini-flash-latest", "skip_thought_signature_validator"),
        ("gemini-pro-latest", "skip_thought_signature_validator"),
        ("gemini-2.5-flash", None),
        ("gemini-pro", None),
        ("models/gemini-2.0-flash", None),
        ("gemma-3-27b-it", None),
    ],
)
def test_calls_of_another_model_go_unsigned_or_say_so(wire: Any, model: Any, name: str, signature: str | None) -> None:
    calls = [{"name": "add", "args": {"a": n, "b": n}, "id": f"toolu_{n}"} for n in (1, 2)]
    results = [ToolMessage("3", tool_call_id=f"toolu_{n}") for n in (1, 2)]
    wire.parts({"text": "3"})
    model(model=name).invoke([HumanMessage("?"), AIMessage("", tool_calls=calls), *results])
    parts = wire.last["body"]["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in parts] == [signature, None]


def test_calls_without_ids_get_one_each_the_same_when_read_again(wire: Any, model: Any, call: Any) -> None:
    found = []
    for _ in range(2):
        wire.parts(*({"functionCall": {"name": "add", "args": {"a": n, "b": n}}} for n in (1, 2)))
        found.append([one["id"] for one in call(model().bind_tools([add]), "Hi").tool_calls])
    assert found[0] == found[1]
    assert len(set(found[0])) == 2


# -- parts


def test_every_medium_has_its_part(wire: Any, model: Any, call: Any) -> None:
    wire.parts({"text": "Yes."})
    blocks: list[Any] = [
        "See:",
        {"type": "image", "base64": "aGk=", "mime_type": "image/jpeg"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
        {"type": "image", "url": "https://x.example/a.webp"},
        {"type": "audio", "base64": "aGk=", "mime_type": "audio/mpeg"},
        {"type": "video", "url": "https://www.youtube.com/watch?v=1", "extras": {"video_metadata": {"fps": 1}}},
        {"type": "file", "file_id": "files/abc", "mime_type": "application/pdf"},
        {"type": "file", "base64": "aGk=", "mime_type": "application/pdf"},
        {"type": "media", "mime_type": "video/mp4", "file_uri": "gs://b/c.mp4"},
        {"type": "text-plain", "text": "A page."},
    ]
    call(model(), [HumanMessage(blocks)])
    assert wire.last["body"]["contents"][0]["parts"] == [
        {"text": "See:"},
        {"inlineData": {"mimeType": "image/jpeg", "data": "aGk="}},
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        {"fileData": {"fileUri": "https://x.example/a.webp", "mimeType": "image/webp"}},
        {"inlineData": {"mimeType": "audio/mpeg", "data": "aGk="}},
        {"fileData": {"fileUri": "https://www.youtube.com/watch?v=1"}, "videoMetadata": {"fps": 1}},
        {
            "fileData": {
                "fileUri": "https://generativelanguage.googleapis.com/v1beta/files/abc",
                "mimeType": "application/pdf",
            }
        },
        {"inlineData": {"mimeType": "application/pdf", "data": "aGk="}},
        {"fileData": {"fileUri": "gs://b/c.mp4", "mimeType": "video/mp4"}},
        {"text": "A page."},
    ]


def test_parts_in_googles_own_words(wire: Any, model: Any, call: Any) -> None:
    parts = [{"inline_data": {"mime_type": "image/png", "data": "aGk="}}, {"fileData": {"fileUri": "gs://b/c"}}]
    wire.parts({"text": "Yes."})
    call(model(), [HumanMessage(["See:", *parts])])
    assert wire.last["body"]["contents"][0]["parts"] == [{"text": "See:"}, *parts]
    with pytest.raises(InvalidInput, match="without a type"):
        call(model(), [HumanMessage([{"txt": "Hi"}])])
    assert len(wire.requests) == 1


def test_a_picture_that_was_made_is_a_block_and_goes_back(wire: Any, model: Any, call: Any) -> None:
    made = {"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thoughtSignature": "c2ln"}
    wire.parts({"text": "Here."}, made)
    answer = call(model(response_modalities=["TEXT", "IMAGE"], image_config={"aspectRatio": "1:1"}), "Draw.")
    config = wire.last["body"]["generationConfig"]
    assert (config["responseModalities"], config["imageConfig"]) == (["TEXT", "IMAGE"], {"aspectRatio": "1:1"})
    assert answer.text == "Here."
    [picture] = [block for block in answer.content_blocks if block["type"] == "image"]
    assert (picture["base64"], picture["mime_type"]) == ("aGk=", "image/png")
    wire.parts({"text": "Done."})
    call(model(), [HumanMessage("Draw."), answer, HumanMessage("Larger.")])
    assert wire.last["body"]["contents"][1]["parts"][-1] == made


@pytest.mark.parametrize("name", ["gemini-3-flash", "gemini-2.5-flash"])
def test_a_picture_in_a_result(wire: Any, model: Any, name: str) -> None:
    result = ToolMessage(
        ["Here.", {"type": "image", "base64": "aGk=", "mime_type": "image/png"}], tool_call_id="x", name="look"
    )
    calls = [{"name": "look", "args": {}, "id": "x"}]
    wire.parts({"text": "A dot."})
    model(model=name).invoke([HumanMessage("?"), AIMessage("", tool_calls=calls), result])
    picture = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    given = wire.last["body"]["contents"][2:]
    response = given[0]["parts"][0]["functionResponse"]
    if name == "gemini-3-flash":
        assert response["parts"] == [picture]
        assert len(given) == 1
    else:
        assert "parts" not in response
        assert given[1]["parts"][-1] == picture


def test_b9_system_messages_go_to_the_top(wire: Any, model: Any, call: Any) -> None:
    """B9"""
    log = DecisionLog()
    wire.parts({"text": "Ja."})
    history = [SystemMessage("Be brief."), HumanMessage("Hi"), AIMessage("Hello."), SystemMessage("In German.")]
    call(model(), history, {"callbacks": [log]})
    body = wire.last["body"]
    assert body["systemInstruction"] == {"parts": [{"text": "Be brief.\n\nIn German."}]}
    assert [turn["role"] for turn in body["contents"]] == ["user", "model"]
    [taken] = log.of("B9")
    assert taken.outcome == "1 moved to the top"


def test_b9_a_model_that_takes_no_instructions_hears_them_from_the_user(wire: Any, model: Any, call: Any) -> None:
    """B9"""
    for name in ("gemma-3-27b-it", "models/gemma-3n-e4b-it", "gemma-4-31b-it"):
        log = DecisionLog()
        wire.parts({"text": "Ja."})
        call(model(model=name), [SystemMessage("In German."), HumanMessage("Hi")], {"callbacks": [log]})
        body = wire.last["body"]
        if name.startswith("gemma-4"):
            assert body["systemInstruction"] == {"parts": [{"text": "In German."}]}
            assert log.of("B9") == []
        else:
            assert "systemInstruction" not in body
            assert [turn["parts"][0]["text"] for turn in body["contents"]] == ["In German.", "Hi"]
            assert [taken.outcome for taken in log.of("B9")] == ["said as the user's"]


# -- tools that Google runs


def test_code_that_google_ran(wire: Any, model: Any, call: Any) -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "print(6*7)"}}
    ran = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42\n"}}
    wire.parts(code, ran, {"text": "It is 42."})
    bound = model().bind_tools([{"code_execution": {}}])
    answer = call(bound, "6 * 7?")
    assert wire.last["body"]["tools"] == [{"codeExecution": {}}]
    asked, gave, text = answer.content_blocks
    assert (asked["type"], asked["name"], asked["args"]["code"]) == ("server_tool_call", "code_execution", "print(6*7)")
    assert (gave["type"], gave["status"], gave["output"]) == ("server_tool_result", "success", "42\n")
    assert gave["tool_call_id"] == asked["id"]
    assert text["text"] == answer.text == "It is 42."
    assert answer.tool_calls == []
    wire.parts({"text": "Yes."})
    call(bound, [HumanMessage("6 * 7?"), answer, HumanMessage("Sure?")])
    assert wire.last["body"]["contents"][1]["parts"] == [code, ran, {"text": "It is 42."}]


def test_code_that_ran_twice(wire: Any, model: Any, call: Any) -> None:
    parts = [
        {"executableCode": {"language": "PYTHON", "code": "1/0"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "ZeroDivisionError"}},
        {"executableCode": {"language": "PYTHON", "code": "1/1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1.0"}},
    ]
    wire.parts(*parts)
    first, failed, second, done = call(model().bind_tools([{"type": "code_execution"}]), "?").content_blocks
    assert first["id"] == failed["tool_call_id"] != second["id"] == done["tool_call_id"]
    assert (failed["status"], done["status"]) == ("error", "success")


def test_sources_are_citations_with_their_places_in_the_text(wire: Any, model: Any, call: Any) -> None:
    first, second = "Überall scheint die Sonne. ", "Es sind 20°."
    grounding = {
        "webSearchQueries": ["wetter"],
        "groundingChunks": [
            {"web": {"uri": "https://a.example", "title": "A"}},
            {"web": {"uri": "https://b.example", "title": "B"}},
        ],
        "groundingSupports": [
            {
                "segment": {
                    "startIndex": len(first.encode()),
                    "endIndex": len((first + second).encode()),
                    "text": second,
                },
                "groundingChunkIndices": [0, 1],
                "confidenceScores": [0.9, 0.5],
            }
        ],
    }
    wire.parts({"text": first}, {"text": second}, groundingMetadata=grounding)
    answer = call(model().bind_tools([{"type": "google_search"}]), "Wetter?")
    assert wire.last["body"]["tools"] == [{"googleSearch": {}}]
    text, asked, gave = answer.content_blocks
    assert text["text"] == first + second
    assert [(note["url"], note["title"]) for note in text["annotations"]] == [
        ("https://a.example", "A"),
        ("https://b.example", "B"),
    ]
    for note in text["annotations"]:
        assert text["text"][note["start_index"] : note["end_index"]] == second
    assert (asked["name"], asked["args"]) == ("google_search", {"queries": ["wetter"]})
    assert [each["url"] for each in gave["output"]] == ["https://a.example", "https://b.example"]
    assert answer.response_metadata["grounding_metadata"] == grounding
    wire.parts({"text": "Ja."})
    call(model(), [HumanMessage("Wetter?"), answer, HumanMessage("Sicher?")])
    assert wire.last["body"]["contents"][1]["parts"] == [{"text": first + second}]


def test_googles_tools_beside_ours_tell_what_they_did(wire: Any, model: Any, call: Any) -> None:
    search = {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["x"]}, "id": "t1"}}
    found = {
        "toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "response": {"n": 1}, "id": "t1"},
        "thoughtSignature": "c2ln",
    }
    mine = {"functionCall": {"name": "add", "args": {"a": 1, "b": 2}, "id": "c1"}, "thoughtSignature": "c2k="}
    wire.parts(search, found, mine)
    bound = model().bind_tools([add, {"google_search": {}}])
    answer = call(bound, "Hi")
    body = wire.last["body"]
    assert [list(tool) for tool in body["tools"]] == [["functionDeclarations"], ["googleSearch"]]
    assert body["toolConfig"] == {"includeServerSideToolInvocations": True}
    assert [block["type"] for block in answer.content] == ["server_tool_call", "server_tool_result", "tool_call"]
    assert answer.content[0]["name"] == "google_search_web"
    wire.parts({"text": "3"})
    call(bound, [HumanMessage("Hi"), answer, ToolMessage("3", tool_call_id="c1")])
    assert wire.last["body"]["contents"][1]["parts"] == [search, found, mine]


def test_tools_of_the_sdks_own_types(wire: Any, model: Any) -> None:
    from google.genai import types

    wire.parts({"text": "Yes."})
    schema = types.Schema(type="OBJECT", properties={"n": types.Schema(type="INTEGER", nullable=True)}, required=["n"])
    mine = types.FunctionDeclaration(name="square", description="Square it.", parameters=schema)
    both = types.Tool(google_search=types.GoogleSearch(), function_declarations=[mine])
    plain = {"function_declarations": [{"name": "now", "description": "The time."}]}
    model().bind_tools([both, add, plain], tool_choice="square").invoke("Hi")
    functions, search = wire.last["body"]["tools"]
    assert search == {"googleSearch": {}}
    square, *others = functions["functionDeclarations"]
    assert [each["name"] for each in others] == ["add", "now"]
    assert square["description"] == "Square it."
    assert square["parametersJsonSchema"]["properties"] == {"n": {"type": ["integer", "null"]}}
    assert wire.last["body"]["toolConfig"]["functionCallingConfig"]["allowedFunctionNames"] == ["square"]


# -- choices, formats, settings


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("any", {"mode": "ANY"}),
        ("add", {"mode": "ANY", "allowedFunctionNames": ["add"]}),
    ],
)
def test_which_tool_to_call(wire: Any, model: Any, choice: str, config: dict[str, Any]) -> None:
    wire.parts({"text": "Yes."})
    model().bind_tools([add], tool_choice=choice).invoke("Hi")
    assert wire.last["body"]["toolConfig"] == {"functionCallingConfig": config}


def test_strict_tools_are_validated(wire: Any, model: Any) -> None:
    wire.parts({"text": "Yes."})
    model().bind_tools([add], strict=True).invoke("Hi")
    assert wire.last["body"]["toolConfig"] == {"functionCallingConfig": {"mode": "VALIDATED"}}
    wire.parts({"text": "Yes."})
    model().bind_tools([add], strict=True, tool_choice="any").invoke("Hi")
    assert wire.last["body"]["toolConfig"] == {"functionCallingConfig": {"mode": "ANY"}}


class Tree(BaseModel):
    """A tree."""

    name: str
    kind: Literal["oak", "elm"] = "oak"
    twins: list[Tree] = []


class Endless(BaseModel):
    next: Endless


def test_what_gemini_cannot_express_is_refused_when_bound(model: Any) -> None:
    def grow(tree: Endless) -> str:
        """Grow."""
        return ""

    with pytest.raises(UnsupportedByProvider, match="'grow'"):
        model().bind_tools([grow])
    with pytest.raises(UnsupportedByProvider, match="no tool called"):
        model().bind_tools([{"name": "1st", "description": "x", "parameters": {"type": "object", "properties": {}}}])
    with pytest.raises(UnsupportedByProvider, match="one call at a time"):
        model().bind_tools([add], parallel_tool_calls=False)
    for method in ("json_schema", "function_calling"):
        with pytest.raises(UnsupportedByProvider, match="Endless"):
            model().with_structured_output(Endless, method=method)


def test_an_answer_held_to_a_schema(wire: Any, model: Any, colour: Any) -> None:
    wire.parts({"text": '{"name": "a", "kind": "elm", "twins": [{"name": "b"}]}'})
    tree = colour.invoke(model().with_structured_output(Tree, method="json_schema"), "Hi")
    assert (tree.kind, tree.twins[0].name) == ("elm", "b")
    config = wire.last["body"]["generationConfig"]
    assert config["responseMimeType"] == "application/json"
    assert set(config["responseJsonSchema"]["properties"]) == {"name", "kind", "twins"}
    wire.parts({"text": '{"name": "a"}'})
    assert colour.invoke(model().with_structured_output(Tree, method="json_mode"), "Hi").name == "a"
    assert wire.last["body"]["generationConfig"] == {"responseMimeType": "application/json"}


def test_before_gemini_3_a_format_and_tools_exclude_each_other(wire: Any, model: Any, colour: Any) -> None:
    """Its API refuses them together, so that is said here; the profile leads to a tool instead."""
    old = model(model="gemini-2.5-flash").bind_tools([add])
    with pytest.raises(UnsupportedByProvider, match="beside tools"):
        colour.invoke(old.with_structured_output(Tree, method="json_schema"), "Hi")
    assert wire.requests == []
    wire.parts({"functionCall": {"name": "Tree", "args": {"name": "a"}}})
    assert colour.invoke(old.with_structured_output(Tree), "Hi").name == "a"
    wire.parts({"text": '{"name": "a"}'})
    new = model(model="gemini-3.8-flash").bind_tools([add])
    assert colour.invoke(new.with_structured_output(Tree), "Hi").name == "a"
    assert "responseJsonSchema" in wire.last["body"]["generationConfig"]


def test_settings_stand_where_the_api_has_them(wire: Any, model: Any, call: Any) -> None:
    wire.parts({"text": "Yes."})
    settings = {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "max_tokens": 99,
        "seed": 7,
        "stop": ["END"],
        "presence_penalty": 0.1,
        "thinking_budget": 0,
        "media_resolution": "MEDIA_RESOLUTION_LOW",
        "safety_settings": {"HARM_CATEGORY_HARASSMENT": "BLOCK_NONE"},
        "cached_content": "cachedContents/1",
        "labels": {"team": "x"},
        "model_kwargs": {"enable_enhanced_civic_answers": True},
        "extra_body": {"generationConfig": {"audioTimestamp": True}, "new": 1},
        "default_headers": {"x-team": "y"},
    }
    call(model(**settings), "Hi", temperature=0.1, extra_headers={"x-call": "z"})
    body = wire.last["body"]
    assert body["generationConfig"] == {
        "temperature": 0.1,
        "topP": 0.9,
        "topK": 40,
        "maxOutputTokens": 99,
        "seed": 7,
        "stopSequences": ["END"],
        "presencePenalty": 0.1,
        "thinkingConfig": {"thinkingBudget": 0},
        "mediaResolution": "MEDIA_RESOLUTION_LOW",
        "enableEnhancedCivicAnswers": True,
        "audioTimestamp": True,
    }
    assert body["safetySettings"] == [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]
    assert (body["cachedContent"], body["labels"], body["new"]) == ("cachedContents/1", {"team": "x"}, 1)
    headers = wire.last["headers"]
    assert (headers["x-team"], headers["x-call"]) == ("y", "z")
    assert headers["x-goog-api-key"] == "AIza-test-0123456789-secret"
    from google.genai.types import GenerationConfig

    known = {key: value for key, value in body["generationConfig"].items() if key != "enableEnhancedCivicAnswers"}
    GenerationConfig.model_validate(known, extra="forbid")


def test_what_a_cache_holds_is_not_sent_again(wire: Any, model: Any, colour: Any) -> None:
    cached = model(cached_content="cachedContents/1")
    for refused, history in ((cached, [SystemMessage("Be brief."), "Hi"]), (cached.bind_tools([add]), "Hi")):
        with pytest.raises(UnsupportedByProvider, match="the cache has its own"):
            colour.invoke(refused, history)
    assert wire.requests == []


def test_a_call_may_change_how_long_it_thinks(wire: Any, model: Any) -> None:
    wire.parts({"text": "Yes."})
    model(thinking_budget=100, include_thoughts=True).invoke("Hi", thinking_level="high")
    thinking = wire.last["body"]["generationConfig"]["thinkingConfig"]
    assert thinking == {"includeThoughts": True, "thinkingLevel": "HIGH"}


def test_tokens_are_counted_by_the_api(wire: Any, model: Any, colour: Any) -> None:
    def count(counting: Any, *given: Any) -> int:
        return counting.count_tokens(*given) if colour.name == "sync" else asyncio.run(counting.acount_tokens(*given))

    wire.fail(503, "busy")
    wire.json(wire.dialect.counted(31))
    assert count(model(), [SystemMessage("Be brief."), HumanMessage("Hi")], [add]) == 31
    assert wire.last["path"] == "/v1beta/models/gemini-3-flash:countTokens"
    asked = wire.last["body"]["generateContentRequest"]
    assert asked["model"] == "models/gemini-3-flash"
    assert asked["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert asked["contents"] == [{"role": "user", "parts": [{"text": "Hi"}]}]
    assert asked["tools"][0]["functionDeclarations"][0]["name"] == "add"
    wire.json(wire.dialect.counted(2))
    assert count(model(vertexai=True), "Hi") == 2
    assert wire.last["body"]["contents"] == [{"role": "user", "parts": [{"text": "Hi"}]}]
    wire.json({})
    with pytest.raises(ModelError, match="totalTokens"):
        count(model(max_retries=0), "Hi")
    before = len(wire.requests)
    assert model().get_num_tokens("Hi there") > 0
    assert len(wire.requests) == before, "an estimate asks nobody"


def test_a_long_answer_goes_on_by_itself(wire: Any, model: Any, call: Any) -> None:
    wire.parts({"text": "Once upon "}, finish="CONTINUATION", continuationToken="dDE=")
    wire.parts({"text": "a time "}, finish="CONTINUATION", continuationToken="dDI=")
    wire.parts({"text": "."})
    answer = call(model(temperature=0), "Tell.")
    assert answer.content == "Once upon a time ."
    assert answer.response_metadata["finish_reason"] == "stop"
    assert "continuation_token" not in answer.response_metadata
    assert answer.usage_metadata["total_tokens"] == 36
    bodies = [each["body"] for each in wire.requests]
    assert [body.get("continuationToken") for body in bodies] == [None, "dDE=", "dDI="]
    assert len({str({**body, "continuationToken": ""}) for body in bodies}) == 1


def test_a_long_answer_that_breaks_off(wire: Any, model: Any, call: Any) -> None:
    wire.parts({"text": "Once upon "}, finish="CONTINUATION", continuationToken="dDE=")
    wire.fail(400, "no")
    with pytest.raises(ModelBadRequest, match="no"):
        call(model(), "Tell.")


def test_several_candidates(wire: Any, model: Any) -> None:
    candidates = [
        {"content": {"parts": [{"text": text}]}, "finishReason": "STOP", "index": n} for n, text in enumerate("ab")
    ]
    wire.json({"candidates": candidates, "modelVersion": "m"})
    result = model()._generate([HumanMessage("Hi")], n=2)
    assert [each.text for each in result.generations] == ["a", "b"]
    assert wire.last["body"]["generationConfig"] == {"candidateCount": 2}
    with pytest.raises(UnsupportedByProvider, match="one answer"):
        list(model(n=2).stream("Hi"))


def test_settings_in_the_sdks_own_words(wire: Any, model: Any) -> None:
    from google.genai.types import HarmBlockThreshold, HarmCategory

    wire.parts({"text": "Yes."})
    level = {HarmCategory.HARM_CATEGORY_HARASSMENT: HarmBlockThreshold.BLOCK_ONLY_HIGH}
    schema = {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}
    model(safety_settings=level, response_mime_type="application/json", response_schema=schema).invoke("Hi")
    body = wire.last["body"]
    assert body["safetySettings"] == [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_ONLY_HIGH"}]
    assert body["generationConfig"] == {"responseMimeType": "application/json", "responseSchema": schema}


# -- what is blocked or broken


def test_a_blocked_prompt_is_an_answer_that_says_so(wire: Any, model: Any, call: Any) -> None:
    ratings = [{"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "probability": "HIGH", "blocked": True}]
    blocked = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT", "safetyRatings": ratings}, "modelVersion": "m"}
    give = (lambda: wire.events(blocked)) if call.form else (lambda: wire.json(blocked))
    give()
    answer = call(model(), "Hi")
    assert answer.content == ""
    assert answer.response_metadata["finish_reason"] == "content_filter"
    assert answer.response_metadata["stop_reason"] == "PROHIBITED_CONTENT"
    assert answer.response_metadata["safety_ratings"] == ratings
    refusal = answer.additional_kwargs["refusal"]
    assert "PROHIBITED_CONTENT" in refusal
    assert "HARM_CATEGORY_DANGEROUS_CONTENT: HIGH" in refusal
    wire.json(blocked)
    with pytest.raises(ModelRefusalError, match="PROHIBITED_CONTENT"):
        model().with_structured_output(Tree, method="json_schema").invoke("Hi")


@pytest.mark.parametrize("reason", ["SAFETY", "RECITATION", "SPII", "IMAGE_SAFETY"])
def test_an_answer_that_was_broken_off(wire: Any, model: Any, call: Any, reason: str) -> None:
    ratings = [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "MEDIUM"}]
    wire.parts({"text": "Well, "}, finish=reason, safetyRatings=ratings)
    answer = call(model(), "Hi")
    assert answer.text == "Well, "
    assert answer.response_metadata["finish_reason"] == "content_filter"
    assert answer.response_metadata["stop_reason"] == reason
    assert reason in answer.additional_kwargs["refusal"]
    assert answer.response_metadata["safety_ratings"] == ratings


def test_a_call_that_could_not_be_written_is_asked_for_again(wire: Any, model: Any, colour: Any) -> None:
    said = "Malformed function call: print(default_api.add(a=1, b="
    for _ in range(2):
        wire.parts(finish="MALFORMED_FUNCTION_CALL", finishMessage=said)
    for answer in (colour.invoke(model(), "Hi"), colour.whole(colour.stream(model(), "Hi"))):
        [broken] = answer.invalid_tool_calls
        assert broken["args"] == said
        assert broken["id"]
        assert answer.response_metadata["stop_reason"] == "MALFORMED_FUNCTION_CALL"
    wire.parts(finish="MALFORMED_FUNCTION_CALL", finishMessage=said)
    wire.parts({"functionCall": {"name": "add", "args": {"a": 1, "b": 2}, "id": "c1"}})
    wire.parts({"text": "3"})
    agent = create_agent(model(), [add])
    state = agent.invoke({"messages": "1 + 2?"})
    assert state["messages"][-1].text == "3"
    assert state["messages"][-2].content == "3"


# -- bad input, before the network


def test_bad_settings_are_refused_when_made(wire: Any, model: Any) -> None:
    with pytest.raises(InvalidConfig, match="same in two ways"):
        model(thinking_budget=1, thinking_level="low")
    with pytest.raises(InvalidConfig, match="thinking_level is a text"):
        model(thinking_level=3)
    with pytest.raises(InvalidConfig, match="safety_settings"):
        model(safety_settings="none")
    with pytest.raises(InvalidConfig, match="vertexai=True"):
        model(project="p")
    with pytest.raises(InvalidInput, match="max_output_tokens"):
        model(max_tokens=1, max_output_tokens=2)
    with pytest.raises(InvalidInput, match="name of a model"):
        model(model="")
    assert wire.requests == []


@pytest.mark.parametrize(
    ("history", "told"),
    [
        ([SystemMessage("Be brief.")], "instructions alone"),
        ([HumanMessage("")], "Message 0, a HumanMessage, is empty"),
        ([HumanMessage([""])], "Message 0, a HumanMessage, is empty"),
        ([HumanMessage("Hi"), ToolMessage("3", tool_call_id="x")], "message 1 is the result of call 'x'"),
        ([HumanMessage("Hi"), ToolMessage("3", tool_call_id="x", name="add")], "message 1 is the result of call 'x'"),
        (
            [HumanMessage("Hi"), AIMessage("", tool_calls=[{"name": "add", "args": {}, "id": "x"}] * 2)],
            "two calls of message 1 have the id 'x'",
        ),
        ([HumanMessage("Hi"), ChatMessage("Hi", role="critic")], "Message 1 is a ChatMessage of role 'critic'"),
    ],
)
def test_histories_that_cannot_be_sent(wire: Any, model: Any, colour: Any, history: Any, told: str) -> None:
    with pytest.raises(InvalidHistory, match=told):
        colour.invoke(model(), history)
    assert wire.requests == []
