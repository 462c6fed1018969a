"""A number that JSON can write and no float can hold: its call goes back to the model, and no later turn breaks."""

from __future__ import annotations

import pytest

from runwell.messages import AIMessageChunk


@pytest.mark.parametrize("number", ["1e999", "-1e999"])
def test_a_call_with_a_number_too_large_is_one_that_could_not_be_read(number: str) -> None:
    chunk = AIMessageChunk("", tool_call_chunks=[{"name": "f", "args": f'{{"a": {number}}}', "id": "1", "index": 0}])
    assert not chunk.tool_calls
    (broken,) = chunk.invalid_tool_calls
    assert f"{number} is too large a number" in str(broken["error"])


def test_other_numbers_are_read_as_they_were() -> None:
    chunk = AIMessageChunk(
        "", tool_call_chunks=[{"name": "f", "args": '{"a": 1.5e3, "b": -0.25, "c": 7}', "id": "1", "index": 0}]
    )
    assert chunk.tool_calls[0]["args"] == {"a": 1500.0, "b": -0.25, "c": 7}
