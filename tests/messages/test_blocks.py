"""Standard blocks from every form in which content is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwell.errors import InvalidInput
from runwell.messages import (
    KNOWN_BLOCK_TYPES,
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    create_citation,
    create_file_block,
    create_image_block,
    create_non_standard_block,
    create_plaintext_block,
    create_reasoning_block,
    create_text_block,
    is_data_content_block,
)

DATA = "aGk="


def block_of(item):
    (block,) = HumanMessage([item]).content_blocks
    return block


def test_text_is_a_text_block():
    assert HumanMessage("hi").content_blocks == [{"type": "text", "text": "hi"}]
    assert HumanMessage("").content_blocks == []
    assert HumanMessage(["a", {"type": "text", "text": "b"}]).content_blocks == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]


def test_msg_13_an_old_media_block_with_an_id_keeps_it():
    old = {"type": "image", "source_type": "base64", "data": DATA, "mime_type": "image/png", "id": "i1"}
    assert block_of(old) == {"type": "image", "base64": DATA, "mime_type": "image/png", "id": "i1"}


def test_msg_13_all_old_media_blocks_are_read():
    for kind in ("image", "audio", "file"):
        for source, given_key, key in (("base64", "data", "base64"), ("url", "url", "url")):
            old = {"type": kind, "source_type": source, given_key: DATA, "id": "i", "metadata": {"a": 1}}
            assert block_of(old) == {"type": kind, key: DATA, "id": "i", "extras": {"metadata": {"a": 1}}}
    assert block_of({"type": "file", "source_type": "id", "id": "f1"}) == {"type": "file", "file_id": "f1"}
    assert block_of({"type": "file", "source_type": "text", "text": "x", "id": "i"}) == {
        "type": "text-plain",
        "text": "x",
        "mime_type": "text/plain",
        "id": "i",
    }


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}", "detail": "low"}},
            {"type": "image", "base64": DATA, "mime_type": "image/png", "extras": {"detail": "low"}},
        ),
        ({"type": "image_url", "image_url": "https://x/y.png"}, {"type": "image", "url": "https://x/y.png"}),
        (
            {"type": "input_image", "image_url": f"data:image/jpeg;base64,{DATA}"},
            {"type": "image", "base64": DATA, "mime_type": "image/jpeg"},
        ),
        ({"type": "input_image", "file_id": "f"}, {"type": "image", "file_id": "f"}),
        (
            {"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}},
            {"type": "audio", "base64": DATA, "mime_type": "audio/wav"},
        ),
        (
            {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{DATA}", "filename": "a.pdf"}},
            {"type": "file", "base64": DATA, "mime_type": "application/pdf", "extras": {"filename": "a.pdf"}},
        ),
        ({"type": "file", "file": {"file_id": "f"}}, {"type": "file", "file_id": "f"}),
        ({"type": "input_file", "file_url": "https://x/a.pdf"}, {"type": "file", "url": "https://x/a.pdf"}),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}},
            {"type": "image", "base64": DATA, "mime_type": "image/png"},
        ),
        (
            {"type": "document", "source": {"type": "text", "data": "t", "media_type": "text/plain"}, "title": "T"},
            {"type": "text-plain", "text": "t", "mime_type": "text/plain", "extras": {"title": "T"}},
        ),
        ({"type": "document", "source": {"type": "file", "file_id": "f"}}, {"type": "file", "file_id": "f"}),
        (
            {"type": "media", "mime_type": "video/mp4", "file_uri": "gs://x"},
            {"type": "video", "url": "gs://x", "mime_type": "video/mp4"},
        ),
        (
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "reasoning", "reasoning": "hm", "extras": {"signature": "s"}},
        ),
        (
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": "x"}},
            {"type": "server_tool_call", "id": "s", "name": "web_search", "args": {"q": "x"}},
        ),
        ({"text": "x"}, {"type": "text", "text": "x"}),
        ({"type": "output_text", "text": "x", "annotations": []}, {"type": "text", "text": "x"}),
        ({"type": "refusal", "refusal": "no"}, {"type": "refusal", "refusal": "no"}),
    ],
)
def test_forms_of_providers_become_standard(item, expected):
    assert block_of(item) == expected


def test_results_of_server_tools_say_whether_they_failed():
    ok = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "u"}]}
    bad = {"type": "web_search_tool_result", "tool_use_id": "s", "content": {"type": "web_search_tool_result_error"}}
    assert block_of(ok)["status"] == "success" and block_of(ok)["output"] == [{"url": "u"}]
    assert block_of(bad)["status"] == "error"


def test_citations_become_annotations():
    searched = {
        "type": "output_text",
        "text": "x",
        "annotations": [{"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}],
    }
    assert block_of(searched)["annotations"] == [
        {"type": "citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}
    ]
    cited = {
        "type": "text",
        "text": "x",
        "citations": [{"type": "char_location", "cited_text": "c", "document_title": "d", "document_index": 0}],
    }
    assert block_of(cited)["annotations"] == [
        {
            "type": "citation",
            "cited_text": "c",
            "title": "d",
            "extras": {"type": "char_location", "document_index": 0},
        }
    ]


def test_standard_blocks_are_given_back_as_they_are():
    blocks = [
        create_text_block("x", annotations=[create_citation(url="u")]),
        create_reasoning_block("hm", signature="s"),
        create_image_block(url="u", mime_type="image/png"),
        create_file_block(file_id="f"),
        create_plaintext_block("t"),
        create_non_standard_block({"type": "odd"}),
    ]
    read = HumanMessage(blocks).content_blocks
    assert read == blocks and all(mine is given for mine, given in zip(read, blocks, strict=True))


def test_what_has_no_standard_form_is_kept_whole():
    odd = {"type": "hologram", "data": {"x": 1}}
    assert block_of(odd) == {"type": "non_standard", "value": odd}


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "type",
                "text",
                "image_url",
                "source",
                "source_type",
                "data",
                "file",
                "id",
                "input",
                "name",
                "summary",
                "content",
            ]
        ),
        st.one_of(
            st.none(),
            st.text(max_size=5),
            st.integers(),
            st.dictionaries(st.sampled_from(["type", "url", "data"]), st.text(max_size=4), max_size=2),
            st.sampled_from(
                [*sorted(KNOWN_BLOCK_TYPES), "image_url", "tool_use", "document", "thinking", "x_tool_result"]
            ),
            st.lists(st.integers(), max_size=1),
        ),
        max_size=5,
    )
)
def test_reading_never_raises_and_always_gives_known_types(block):
    (read,) = HumanMessage([block]).content_blocks
    assert read["type"] in KNOWN_BLOCK_TYPES


def test_calls_are_among_the_blocks_once():
    call = {"name": "f", "args": {"x": 1}, "id": "1", "type": "tool_call"}
    apart = AIMessage("Hi", tool_calls=[call])
    within = AIMessage(
        [{"type": "text", "text": "Hi"}, {"type": "tool_use", "name": "f", "input": {"x": 1}, "id": "1"}]
    )
    assert apart.content_blocks == within.content_blocks == [{"type": "text", "text": "Hi"}, call]


def test_a_streaming_message_shows_fragments_and_the_last_one_calls():
    fragment = {"name": "f", "args": "{}", "id": "1", "index": 0}
    assert AIMessageChunk("", tool_call_chunks=[fragment]).content_blocks[0]["type"] == "tool_call_chunk"
    last = AIMessageChunk("", tool_call_chunks=[fragment], chunk_position="last")
    assert last.content_blocks[0]["type"] == "tool_call"


def test_media_carry_exactly_one_source():
    with pytest.raises(InvalidInput, match="exactly one"):
        create_image_block()
    with pytest.raises(InvalidInput, match="exactly one"):
        create_file_block(url="u", file_id="f")
    assert is_data_content_block(create_image_block(base64=DATA, mime_type="image/png"))
    assert not is_data_content_block({"type": "image"})
