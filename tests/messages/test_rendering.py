"""Messages for readers: on a terminal, in a notebook, with rich; also while they are still being written."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from runwell.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage

PIXEL = "iVBORw0KGgo="


def test_each_kind_says_what_it_is_and_what_it_holds(capsys: Any) -> None:
    call = {"name": "search", "args": {"q": "naïve"}, "id": "c1", "type": "tool_call"}
    SystemMessage("Be brief.").pretty_print()
    AIMessage("Let me see.", tool_calls=[call]).pretty_print()
    ToolMessage("nothing", tool_call_id="c1", name="search", status="error").pretty_print()
    printed = capsys.readouterr().out
    for line in ("System Message", "Ai Message", "Tool Message", "  search (c1)", "    q: naïve", "Status: error"):
        assert line in printed


def test_a_chunk_is_shown_as_what_it_becomes() -> None:
    half = AIMessageChunk("Hi", tool_call_chunks=[{"name": "f", "args": '{"a": "xy', "id": "c", "index": 0}])
    shown = half.pretty_repr()
    assert " Ai Message " in shown
    assert "    a: xy" in shown
    assert "Invalid" not in shown


def test_calls_that_are_being_written_show_what_came() -> None:
    pieces = ['{"city": "Ly', 'on", "days', '": 1', '2, "why": nu', 'll, "tags": ["a", "b']
    total: Any = AIMessageChunk("", tool_call_chunks=[{"name": "plan", "args": "", "id": "c", "index": 0}])
    seen = []
    for piece in pieces:
        total = total + AIMessageChunk("", tool_call_chunks=[{"name": None, "args": piece, "id": None, "index": 0}])
        seen.append(total.partial_tool_calls[0]["args"])
        assert total.tool_calls == [], "not to be made yet"
    assert seen == [
        {"city": "Ly"},
        {"city": "Lyon"},
        {"city": "Lyon"},
        {"city": "Lyon", "days": 12},
        {"city": "Lyon", "days": 12, "why": None, "tags": ["a", "b"]},
    ]
    assert total.partial_tool_calls[0]["name"] == "plan"
    assert AIMessageChunk("x").partial_tool_calls == []
    broken = AIMessageChunk("", tool_call_chunks=[{"name": "f", "args": "no json", "id": "c", "index": 0}])
    assert broken.partial_tool_calls[0]["args"] == {}


def test_a_notebook_shows_pictures_and_runs_no_script_and_fetches_nothing() -> None:
    html = HumanMessage(
        [
            {"type": "text", "text": "<script>alert(1)</script>"},
            {"type": "image", "base64": PIXEL, "mime_type": "image/png"},
            {"type": "image", "base64": '"/><script>', "mime_type": "image/png"},
            {"type": "image", "base64": PIXEL, "mime_type": "image/svg+xml"},
            {"type": "image", "url": "https://tracker.example/x.png"},
        ]
    )._repr_html_()
    assert "<script>" not in html
    assert f'<img src="data:image/png;base64,{PIXEL}"' in html
    assert "svg+xml" not in html
    assert 'src="https' not in html
    assert "[image: https://tracker.example/x.png]" in html
    thoughts = AIMessage([{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "Yes."}])._repr_html_()
    assert "<summary>Reasoning</summary><pre>Hm.</pre>" in thoughts


def test_rich_shows_fields_and_no_megabytes() -> None:
    data = "A" * 4_000_000
    message = HumanMessage([{"type": "text", "text": "Look."}, {"type": "image", "base64": data}], name="ada")
    out = io.StringIO()
    Console(file=out, width=200).print(message)
    assert "Look." in out.getvalue()
    assert "name='ada'" in out.getvalue()
    assert "4,000,000 characters" in out.getvalue()
    assert len(out.getvalue()) < 1000
    assert data in repr(message), "the plain repr is whole"
