"""Any conversation goes to the Responses API and comes back equal; any answer is the same streamed and whole."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import Response, ResponseStreamEvent
from openai.types.responses.response_input_item_param import ResponseInputItemParam
from pydantic import TypeAdapter

from runwell.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from runwell.providers.openai.responses_blocks import items_of_blocks
from runwell.providers.openai.responses_stream import ResponseReader
from runwell.providers.openai.responses_wire import message_from_response, messages_from_input, messages_to_input
from runwell.testing.wire import Call, ResponsesDialect, Said
from runwell.testing.wire.responses import events_of_response

adapter: Any = cache(TypeAdapter)  # takes a second to make
TEXT = st.text(min_size=1, max_size=12)
NAME = st.sampled_from(["add", "look_up"])
JSON = st.dictionaries(TEXT, st.one_of(st.integers(-9, 9), TEXT, st.none(), st.lists(TEXT, max_size=2)), max_size=2)
CITATION = st.sampled_from(
    [
        {"type": "citation", "url": "https://x", "title": "T", "start_index": 0, "end_index": 1},
        {"type": "citation", "title": "a.md", "extras": {"type": "file_citation", "file_id": "file_1", "index": 3}},
        {
            "type": "citation",
            "title": "a.png",
            "start_index": 0,
            "end_index": 1,
            "extras": {"type": "container_file_citation", "file_id": "file_1", "container_id": "c_1"},
        },
    ]
)


def block(kind: str, **fields: Any) -> Any:
    return st.fixed_dictionaries({"type": st.just(kind)}, optional=fields)


source = st.sampled_from(
    [{"base64": "aGk=", "mime_type": "image/png"}, {"url": "https://x/y.png"}, {"file_id": "file_1"}]
)
text_block = TEXT.map(lambda text: {"type": "text", "text": text})
image = st.tuples(source, st.sampled_from([{}, {"extras": {"detail": "low"}}])).map(
    lambda found: {"type": "image", **found[0], **found[1]}
)
document = st.sampled_from(
    [
        {"type": "file", "base64": "aGk=", "mime_type": "application/pdf", "extras": {"filename": "a.pdf"}},
        {"type": "file", "file_id": "file_1"},
        {"type": "file", "url": "https://x/y.pdf"},
    ]
)
said = st.one_of(TEXT, st.lists(st.one_of(text_block, image, document), min_size=1, max_size=3))

cited = st.tuples(TEXT, st.lists(CITATION, min_size=1, max_size=3)).map(
    lambda found: {"type": "text", "text": found[0], "annotations": found[1], "id": "msg_1"}
)
phased = st.tuples(TEXT, st.sampled_from(["commentary", "final_answer"])).map(
    lambda found: {"type": "text", "text": found[0], "id": "msg_2", "extras": {"phase": found[1]}}
)
reasoning = st.one_of(
    TEXT.map(lambda text: {"type": "reasoning", "reasoning": text, "id": "rs_1"}),
    st.just({"type": "reasoning", "reasoning": "", "id": "rs_2", "extras": {"encrypted_content": "eA=="}}),
    st.lists(TEXT, min_size=2, max_size=3).map(
        lambda parts: {"type": "reasoning", "reasoning": "\n\n".join(parts), "id": "rs_3", "extras": {"summary": parts}}
    ),
    TEXT.map(lambda text: {"type": "reasoning", "reasoning": text, "id": "rs_4", "extras": {"content": [text]}}),
)


def served(kind: str, name: str, args: Any, output: Any, place: int, **extras: Any) -> list[dict[str, Any]]:
    return [
        {
            "type": "server_tool_call",
            "id": f"srv_{place}",
            "name": name,
            "args": args,
            "extras": {"block_type": kind, "status": "completed", **extras},
        },
        {
            "type": "server_tool_result",
            "tool_call_id": f"srv_{place}",
            "status": "success",
            "output": output,
            "extras": {"block_type": kind},
        },
    ]


@st.composite
def served_blocks(draw: Any, place: int) -> list[dict[str, Any]]:
    kind = draw(st.sampled_from(["web_search", "file_search", "code_interpreter", "mcp", "image", "whole"]))
    words = draw(TEXT)
    if kind == "web_search":
        return served("web_search_call", kind, {"type": "search", "query": words}, [{"url": "https://x"}], place)
    if kind == "file_search":
        return served("file_search_call", kind, {"queries": [words]}, [{"file_id": "f", "text": words}], place)
    if kind == "code_interpreter":
        logs = [{"type": "logs", "logs": words}]
        return served("code_interpreter_call", kind, {"code": words}, logs, place, container_id="c_1")
    if kind == "mcp":
        return served("mcp_call", draw(NAME), draw(JSON), words, place, server_label="s")
    if kind == "image":
        extras = {"block_type": "image_generation_call", "status": "completed", "revised_prompt": words}
        return [{"type": "image", "id": f"ig_{place}", "base64": "aGk=", "mime_type": "image/png", "extras": extras}]
    listed = {"type": "mcp_list_tools", "id": f"l_{place}", "server_label": words, "tools": []}
    return [{"type": "non_standard", "value": listed}]


@st.composite
def answers(draw: Any, first_id: int) -> AIMessage:
    form = draw(st.sampled_from(["text", "calls", "rich", "refusal"]))
    calls: list[Any] = [
        {"name": draw(NAME), "args": draw(JSON), "id": f"call_{first_id}_{place}", "type": "tool_call"}
        for place in range(draw(st.integers(0 if form != "calls" else 1, 2)))
    ]
    if form == "text":
        return AIMessage(draw(TEXT), tool_calls=calls)
    if form == "calls":
        return AIMessage("", tool_calls=calls)
    if form == "refusal":
        return AIMessage("", additional_kwargs={"refusal": draw(TEXT)})
    blocks: list[Any] = [draw(reasoning)]
    for place in range(draw(st.integers(0, 3))):
        found = draw(st.one_of(text_block, cited, phased, served_blocks(place), reasoning))
        blocks += found if isinstance(found, list) else [found]
    for place, call in enumerate(calls):
        custom = draw(st.booleans())
        blocks.append({**call, "extras": {"item_id": f"fc_{place}"}})
        if custom:
            blocks[-1] |= {"args": {"input": draw(TEXT)}, "extras": {"item_id": f"fc_{place}", "custom": True}}
    return AIMessage(
        blocks,
        tool_calls=[{k: v for k, v in each.items() if k != "extras"} for each in blocks if each["type"] == "tool_call"],
    )


@st.composite
def conversations(draw: Any) -> list[BaseMessage]:
    messages: list[BaseMessage] = []
    if draw(st.booleans()):
        role = draw(st.sampled_from([{}, {"openai_role": "developer"}]))
        messages.append(SystemMessage(draw(said), additional_kwargs=role))
    for turn in range(draw(st.integers(1, 3))):
        messages.append(HumanMessage(draw(said)))
        answer = draw(answers(turn))
        messages.append(answer)
        messages += [ToolMessage(draw(said), tool_call_id=call["id"] or "") for call in answer.tool_calls]
    return messages


@settings(max_examples=100, deadline=None)
@given(conversations())
def test_what_goes_to_the_wire_comes_back(messages: list[BaseMessage]) -> None:
    wire = json.loads(json.dumps(messages_to_input(messages)))
    assert messages_from_input(wire) == messages


@settings(max_examples=100, deadline=None)
@given(answers(0))
def test_a_stream_adds_up_to_the_whole(answer: AIMessage) -> None:
    items = [
        {"type": "message", "id": "msg_0", **item, "content": _parts(item["content"])}
        if item.get("role") == "assistant"
        else item
        for item in messages_to_input([answer])
    ]
    body = {"id": "resp_1", "status": "completed", "model": "m", "output": items, "usage": {"input_tokens": 1}}
    whole = message_from_response(body, rich=isinstance(answer.content, list))
    reader = ResponseReader(isinstance(answer.content, list))
    chunks = [piece.message for _, event in events_of_response(body) for piece in reader.take(event)]
    chunks.append(reader.end("x").message)
    streamed = (chunks[0] + chunks[1:]).to_message() if len(chunks) > 1 else chunks[0].to_message()
    assert streamed == whole
    if isinstance(answer.content, list):
        back = messages_from_input(messages_to_input([whole]))
        assert [each.content for each in back] == [whole.content]


def _parts(content: Any) -> Any:
    return [{"type": "output_text", "text": content}] if isinstance(content, str) else content


def test_nothing_of_a_strangers_is_taken_for_ones_own() -> None:
    foreign: list[Any] = [
        {"type": "server_tool_call", "id": "s", "name": "web_search", "args": {}},
        {"type": "reasoning", "reasoning": "Hm.", "extras": {"signature": "c2ln"}},
        {
            "type": "text",
            "text": "x",
            "annotations": [{"type": "citation", "cited_text": "y", "extras": {"type": "z"}}],
        },
    ]
    assert list(items_of_blocks(foreign, True)) == [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]}
    ]


@settings(max_examples=100, deadline=None)
@given(conversations())
def test_what_is_sent_is_what_the_sdk_knows(messages: list[BaseMessage]) -> None:
    """But for messages of an answer without an id, which the API takes and the SDK's types do not."""
    for item in messages_to_input(messages):
        parts = item.get("content")
        if item.get("role") == "assistant" and isinstance(parts, list) and "id" not in item:
            item |= {"id": "msg_0", "status": "completed"}
        if isinstance(parts, list) and item.get("role") == "assistant":
            item["content"] = [{"annotations": [], **part} if part["type"] == "output_text" else part for part in parts]
        adapter(ResponseInputItemParam).validate_python(item)


@pytest.mark.parametrize("finish", ["stop", "length", "tool_calls"])
def test_the_server_of_the_tests_speaks_as_the_sdk_knows(finish: Any) -> None:
    said = Said(text="Hello.", calls=[Call("add", {"a": 1})] if finish == "tool_calls" else [], finish=finish)
    Response.model_validate(ResponsesDialect().answer(said))
    for _, event in ResponsesDialect().events(said):
        adapter(ResponseStreamEvent).validate_python(event)
