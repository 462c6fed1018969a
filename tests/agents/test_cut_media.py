"""Results that mix text and media, or hold too much of it: bounded, kept whole, and shown on demand (SEATS B8)."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runwell.agents import AgentLimits, ToolNode, create_agent
from runwell.agents.cut_blocks import blocks_text, cut_blocks, media_in, media_size
from runwell.errors import InvalidInput, ToolError
from runwell.graph import Command
from runwell.messages import AIMessage, ToolMessage
from runwell.observe import BaseCallbackHandler
from runwell.testing import FakeChatModel
from runwell.tools import ToolRuntime, tool


def picture(size: int = 30, mark: int = 0) -> dict[str, Any]:
    data = base64.b64encode(bytes([mark]) * size).decode()
    return {"type": "image", "base64": data, "mime_type": "image/png"}


def call(name: str, call_id: str = "1", /, **args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": call_id}])


def giving(result: Any, **options: Any) -> Any:
    @tool(**options)
    def look() -> Any:
        """Look at it."""
        return result

    return look


def results(run: Any, used: Any, *more: AIMessage, limits: AgentLimits, **options: Any) -> list[ToolMessage]:
    """What the model reads of a call of the tool, and of the further calls it makes."""
    agent = create_agent(FakeChatModel(responses=[call("look"), *more, "done"]), [used], limits=limits, **options)
    messages = run.invoke(agent, {"messages": [("user", "go")]})["messages"]
    return [each for each in messages if isinstance(each, ToolMessage)]


def test_text_between_pictures_is_cut_as_one_and_the_pictures_stay(run: Any) -> None:
    letters = "".join(f"{number:04}" for number in range(500))
    blocks = [{"type": "text", "text": letters}, picture(), {"type": "text", "text": letters}, picture(mark=1), "end"]
    limits = AgentLimits(max_tool_chars=300)
    first, page, late = results(
        run,
        giving(blocks),
        call("read_artifact", "2", id="1", offset=200, limit=50),
        call("read_artifact", "3", id="1", offset=4000, limit=50),
        limits=limits,
    )
    assert [block["type"] for block in first.content] == ["text", "image", "text", "image", "text"]
    head, _, tail, _, end = first.content
    assert head["text"].startswith(letters[:200] + "\n[... ")
    assert head["text"].endswith('characters left out; read_artifact(id="1", offset=200) shows them ...]')
    assert (tail["text"], end["text"]) == (letters[-(100 - 4) :], "end")
    whole = f"{letters}\n{letters}\nend"
    assert page.text == f"{whole[200:250]}\n[Characters 200 to 250 of {len(whole)}.]"
    assert late.text.startswith(f"{whole[4000:]}\n")
    assert first.artifact == [*blocks[:4], {"type": "text", "text": "end"}]


def test_too_many_pictures_are_left_out_and_shown_one_by_one(run: Any) -> None:
    blocks = [{"type": "text", "text": "six"}, *(picture(mark=at) for at in range(6))]
    first, fifth, none = results(
        run,
        giving(blocks),
        call("read_artifact", "2", id="1", item=5),
        call("read_artifact", "3", id="1", item=7),
        limits=AgentLimits(max_tool_media=2),
    )
    assert first.content[:3] == blocks[:3]
    assert first.content[3]["text"] == (
        '[4 of 6 pictures or other media left out: 3 to 6, about 160 bytes; read_artifact(id="1", item=3) shows one]'
    )
    assert len(first.content) == 4
    assert first.artifact == blocks
    assert fifth.content == [{"type": "text", "text": "[Item 5 of 6.]"}, blocks[5]]
    assert none.text == "The result has 6 pictures or other media; item counts them from 1."


def test_too_large_ones_are_left_out_and_smaller_ones_after_them_stay(run: Any) -> None:
    blocks = [picture(900), picture(30), picture(5000), picture(60)]
    first, refused = results(
        run,
        giving(blocks),
        call("read_artifact", "2", id="1", item=3),
        limits=AgentLimits(max_tool_media_bytes=1000),
    )
    assert first.content[:2] == [blocks[0], blocks[1]]
    assert "2 of 4 pictures or other media left out: 3 to 4, " in first.content[2]["text"]
    assert "item=4) shows one" in first.content[2]["text"]
    assert refused.status == "error"
    assert "more than the 1,000 that can be shown" in refused.text


def test_an_artifact_of_the_tool_s_own_stays_and_the_whole_is_kept_beside_it(run: Any) -> None:
    blocks = [picture(mark=at) for at in range(4)]
    used = giving((blocks, {"own": 1}), response_format="content_and_artifact")
    first, shown = results(run, used, call("read_artifact", "2", id="1", item=4), limits=AgentLimits(max_tool_media=1))
    assert first.artifact == {"own": 1}
    assert shown.content[1] == blocks[3]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "json", "json": {"rows": ["x" * 10] * 100}},
        {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x" * 900}]},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x" * 900}},
        {"type": "text-plain", "text": "x" * 900},
        {"type": "non_standard", "value": {"a": "x" * 900}},
    ],
    ids=lambda block: block["type"],
)
def test_what_is_text_in_another_block_is_cut_as_text(run: Any, block: dict[str, Any]) -> None:
    (first,) = results(run, giving([block, picture()]), limits=AgentLimits(max_tool_chars=90))
    assert [each["type"] for each in first.content] == ["text", "image"]
    assert len(first.content[0]["text"]) < 250
    assert first.artifact == [block, picture()]
    (same,) = results(run, giving([block, picture()]), limits=AgentLimits())
    assert same.content == [block, picture()]
    assert same.artifact is None


def test_urls_take_no_room(run: Any) -> None:
    blocks = [{"type": "image", "url": f"https://example.com/{at}.png"} for at in range(5)]
    (first,) = results(run, giving(blocks), limits=AgentLimits(max_tool_media_bytes=200))
    assert first.content == blocks


def test_nothing_is_bounded_that_may_be_large(run: Any) -> None:
    blocks = [picture(2000, at) for at in range(30)]
    limits = AgentLimits(max_tool_chars=None, max_tool_media=None, max_tool_media_bytes=None)
    (first,) = results(run, giving([*blocks, "x" * 200_000]), limits=limits)
    assert first.content == [*blocks, {"type": "text", "text": "x" * 200_000}]
    assert first.artifact is None


def test_without_the_reading_tool_the_note_names_none(run: Any) -> None:
    limits = AgentLimits(max_tool_chars=None, max_tool_media=1)
    (first,) = results(run, giving([picture(), picture()]), limits=limits)
    assert first.content[1]["text"] == "[1 of 2 pictures or other media left out: 2, about 40 bytes]"


@pytest.mark.parametrize("told", ["raised", "handled", "returned", "in a command", "in a list"])
def test_what_is_told_in_other_ways_is_bounded_too(run: Any, told: str) -> None:
    text = "y" * 5_000

    @tool(handle_tool_error=told == "handled")
    def look(runtime: ToolRuntime) -> Any:
        """Look at it."""
        answer = ToolMessage(text, tool_call_id=runtime.tool_call_id)
        if told == "returned":
            return answer
        if told in ("in a command", "in a list"):
            made = Command(update={"messages": [answer]})
            return [made] if told == "in a list" else made
        raise ToolError(text)

    first, page = results(
        run, look, call("read_artifact", "2", id="1", offset=4_990), limits=AgentLimits(max_tool_chars=300)
    )
    assert len(first.text) < 500
    assert page.text == "y" * 10 + "\n[Characters 4990 to 5000 of 5000.]"


def test_that_it_was_cut_is_a_decision(run: Any) -> None:
    heard: list[Any] = []

    class Listening(BaseCallbackHandler):
        def on_decision(self, decision: Any, **_: Any) -> None:
            if decision.seat == "B8":
                heard.append((decision.outcome, decision.reason))

    agent = create_agent(
        FakeChatModel(responses=[call("look"), "done"]),
        [giving(["z" * 500, picture(), picture()])],
        limits=AgentLimits(max_tool_chars=300, max_tool_media=1),
    )
    run.invoke(agent, {"messages": [("user", "go")]}, {"callbacks": [Listening()]})
    assert heard == [("cut", "200 characters and 1 media of the result of call '1' of 'look' left out")]


def test_a_tool_node_of_a_loop_of_one_s_own_bounds_them_too(run: Any) -> None:
    node = ToolNode([giving([picture(mark=at) for at in range(25)])])
    (answer,) = run.invoke(node, [call("look")])
    assert len(answer.content) == 21
    assert len(answer.artifact) == 25


def test_a_tool_node_takes_limits_of_its_own(run: Any) -> None:
    tools = [giving([picture(mark=at) for at in range(25)] + ["y" * 500])]
    limits = AgentLimits(max_tool_media=None, max_tool_chars=300)
    (answer,) = run.invoke(ToolNode(tools, limits=limits), [call("look")])
    assert [block["type"] for block in answer.content] == ["image"] * 25 + ["text"]
    assert "[... 200 characters left out ...]" in answer.text


@pytest.mark.parametrize("name", ["max_tool_media", "max_tool_media_bytes"])
def test_a_limit_that_allows_nothing_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=f"{name}=0"):
        AgentLimits(**{name: 0})


BLOCK = st.one_of(
    st.text(max_size=30).map(lambda text: {"type": "text", "text": text}),
    st.text(max_size=30),
    st.integers(0, 60).map(picture),
)


@example(["abcd", "ef"], 6, 1, 1)
@given(st.lists(BLOCK, max_size=12), st.integers(1, 80), st.integers(1, 5), st.integers(1, 200))
def test_what_is_shown_is_within_the_limits_and_with_what_is_not_all_there_is(
    blocks: list[Any], chars: int, count: int, size: int
) -> None:
    limits = AgentLimits(max_tool_chars=chars, max_tool_media=count, max_tool_media_bytes=size)
    made = cut_blocks(blocks, limits, "")
    media, text = media_in(blocks), blocks_text(blocks)
    if made is None:
        assert len(text) <= chars
        assert len(media) <= count
        assert sum(map(media_size, media)) <= size
        return
    shown, cut, left_out = made
    assert len(media_in(shown)) == len(media) - left_out <= count
    assert sum(map(media_size, media_in(shown))) <= size
    assert all(block in media for block in media_in(shown))
    if cut:
        head, tail = chars * 2 // 3, chars // 3
        assert cut == len(text) - head - tail
        assert f"[... {cut} characters left out ...]" in blocks_text(shown)
        assert blocks_text(shown).startswith(text[:head])
