"""The estimate of tokens."""

import json
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwell.messages import AIMessage, HumanMessage, ToolMessage, count_tokens_approximately, tool_call


def test_text_counts_by_length():
    assert count_tokens_approximately([HumanMessage("x" * 400)]) == 103
    assert count_tokens_approximately("x" * 400, chars_per_token=2, extra_tokens_per_message=0) == 200
    assert count_tokens_approximately([]) == 0


def test_other_scripts_count_more_than_a_quarter_token_per_character():
    assert count_tokens_approximately([HumanMessage("漢" * 400)]) == 303


def test_msg_10_media_count_alike_whatever_their_data_weighs():
    data = "A" * 400_000
    media = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        {"type": "input_image", "image_url": f"data:image/png;base64,{data}"},
        {"type": "audio", "base64": data, "mime_type": "audio/wav"},
        {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{data}", "filename": "a.pdf"}},
        {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": data}},
        {"type": "video", "base64": data},
        {"type": "media", "data": data, "mime_type": "image/png"},
    ]
    counts = [count_tokens_approximately([HumanMessage([{"type": "text", "text": "look"}, each])]) for each in media]
    assert max(counts) <= 2_000 and max(counts) <= 10 * min(counts)


def test_msg_10_what_a_picture_counts_may_be_set():
    picture = HumanMessage([{"type": "image", "url": "u"}])
    assert count_tokens_approximately([picture], tokens_per_image=85) == 88


def test_msg_11_a_call_block_counts_as_compact_json():
    nested = {"rows": [{"name": f"row {n}", "values": [n, n + 1], "on": True, "off": None} for n in range(40)]}
    message = AIMessage([{"type": "tool_use", "id": "t", "name": "save", "input": nested}])
    expected = len(json.dumps(nested, separators=(",", ":"))) / 4
    assert expected > 500
    assert count_tokens_approximately([message]) == pytest.approx(expected, rel=0.3)


def test_msg_11_a_call_counts_once_wherever_it_stands():
    args = {"x": "y" * 400}
    apart = AIMessage("", tool_calls=[tool_call(name="f", args=args, id="1")])
    within = AIMessage([{"type": "tool_use", "id": "1", "name": "f", "input": args}])
    assert within.tool_calls
    assert count_tokens_approximately([apart]) == count_tokens_approximately([within])


def test_results_names_and_tools_count():
    plain = count_tokens_approximately([HumanMessage("x")])
    assert count_tokens_approximately([HumanMessage("x", name="a" * 40)]) == plain + 10
    assert count_tokens_approximately([HumanMessage("x", name="a" * 40)], count_name=False) == plain
    assert count_tokens_approximately([ToolMessage("x", tool_call_id="c" * 40)]) == plain + 10
    tools = [{"name": "f", "description": "d" * 4_000, "parameters": {}}]
    assert count_tokens_approximately([HumanMessage("x")], tools=tools) > plain + 1_000


def test_reported_usage_scales_the_estimate():
    usage = {"input_tokens": 900, "output_tokens": 100, "total_tokens": 1_000}
    history = [HumanMessage("x" * 388), AIMessage("y" * 388, usage_metadata=usage), HumanMessage("z" * 388)]
    assert count_tokens_approximately(history) == 300
    assert count_tokens_approximately(history, use_usage_metadata_scaling=True) == 1_500


def test_safe_08_counting_connects_to_nothing(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/a.png"
        blocks = [
            {"type": "image_url", "image_url": {"url": url, "detail": "high"}},
            {"type": "image", "url": url},
            {"type": "file", "url": url},
        ]
        assert count_tokens_approximately([HumanMessage(blocks)]) > 0
        assert HumanMessage(blocks).content_blocks
        with pytest.raises(BlockingIOError):
            listener.accept()


@given(st.lists(st.text(max_size=20), max_size=5), st.lists(st.text(max_size=20), max_size=5))
def test_the_estimate_of_a_history_is_the_sum_of_its_parts(left, right):
    assert count_tokens_approximately(left + right) == count_tokens_approximately(left) + count_tokens_approximately(
        right
    )
