"""Results too long for the model: cut, kept whole, and read on (SEATS B8)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import BaseModel

from runwell.agents import AgentLimits, create_agent
from runwell.errors import DuplicateTool
from runwell.messages import AIMessage
from runwell.persistence.checkpoints import InMemorySaver
from runwell.testing import FakeChatModel
from runwell.tools import tool

TEXT = "".join(f"{number:05}" for number in range(10_000))


def call(name: str, call_id: str = "1", /, **args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": call_id}])


@tool
def long() -> str:
    """A long text."""
    return TEXT


@tool(response_format="content_and_artifact")
def both() -> Any:
    """A long text and something of its own."""
    return TEXT, {"own": 1}


@tool
def lines() -> list[str]:
    """Many texts."""
    return [TEXT[at : at + 5] for at in range(0, 5_000, 5)]


@tool
def short() -> str:
    """A short text."""
    return "short"


def offered(model: FakeChatModel) -> list[list[str]]:
    return [request.tool_names for request in model.requests]


def agent(responses: list[Any], tools: list[Any], limit: int | None = 300, **options: Any) -> tuple[Any, FakeChatModel]:
    model = FakeChatModel(responses=responses)
    return create_agent(model, tools, limits=AgentLimits(max_tool_chars=limit), **options), model


def ask(run: Any, made: Any, config: Any = None) -> list[Any]:
    return run.invoke(made, {"messages": [("user", "go")]}, config)["messages"]  # type: ignore[no-any-return]


@pytest.mark.parametrize(("used", "artifact"), [(long, TEXT), (both, {"own": 1}), (lines, None)])
def test_the_reading_tool_is_offered_once_something_was_cut(run: Any, used: Any, artifact: Any) -> None:
    made, model = agent(
        [call("short"), call(used.name, "2"), call("read_artifact", "3", id="2", offset=200, limit=400), "done"],
        [short, used],
    )
    messages = ask(run, made)
    names = ["short", used.name]
    assert offered(model) == [names, names, [*names, "read_artifact"], [*names, "read_artifact"]]
    cut, read = messages[4], messages[6]
    assert 'read_artifact(id="2", offset=200) shows them' in cut.text
    assert len(cut.text) < 450
    if artifact is not None:
        assert cut.artifact == artifact
    whole = TEXT if used is not lines else "\n".join(lines.func())
    assert read.text == f"{whole[200:600]}\n[Characters 200 to 600 of {len(whole)}.]"
    assert read.status == "success"


def test_all_of_it_can_be_read(run: Any) -> None:
    reads = [call("read_artifact", f"r{at}", id="1", offset=at) for at in range(0, len(TEXT), 20_000)]
    made, _ = agent([call("long"), *reads, "done"], [long])
    pages = [each.text.rpartition("\n")[0] for each in ask(run, made) if each.type == "tool"][1:]
    assert "".join(pages[1:] if len(pages) > len(reads) else pages) == TEXT


def test_in_a_later_run_of_the_thread_it_can_be_read_too(run: Any, thread: dict[str, Any]) -> None:
    saver = InMemorySaver()
    made, _ = agent([call("long"), "cut"], [long], checkpointer=saver)
    ask(run, made, thread)
    again, model = agent([call("read_artifact", "2", id="1", offset=10, limit=5), "done"], [long], checkpointer=saver)
    assert ask(run, again, thread)[-2].text.startswith("00002\n")
    assert offered(model) == [["long", "read_artifact"]] * 2


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"id": "nothing"}, "no result 'nothing' in this conversation"),
        ({"id": "1", "offset": 99_999_999}, f"has {len(TEXT)} characters"),
        ({"id": "1", "offset": -1}, "at least 0"),
        ({"id": "1", "limit": 0}, "at least 1"),
    ],
)
def test_what_cannot_be_read_is_told(run: Any, args: dict[str, Any], said: str) -> None:
    made, _ = agent([call("long"), call("read_artifact", "2", **args), "done"], [long])
    answer = ask(run, made)[-2]
    assert (answer.status, said in answer.text) == ("error", True)


def test_nothing_is_cut_that_is_short_or_may_be_long(run: Any) -> None:
    for limit, used in ((300, short), (None, long)):
        made, model = agent([call(used.name), "done"], [used], limit)
        answer = ask(run, made)[2]
        assert answer.text == used.func()
        assert answer.artifact is None
        assert offered(model) == [[used.name]] * 2


def test_a_tool_that_does_not_exist_is_answered_with_those_that_do(run: Any) -> None:
    made, _ = agent([call("red_artifact"), "done"], [short])
    assert ask(run, made)[2].text.endswith("Available tools: short.")


def test_the_name_is_taken(run: Any) -> None:
    def read_artifact() -> str:
        """Mine."""
        return "mine"

    with pytest.raises(DuplicateTool, match="read_artifact"):
        agent([], [read_artifact])
    made, _ = agent([call("read_artifact"), "done"], [read_artifact], None)
    assert ask(run, made)[2].text == "mine"


def test_e13_a_result_that_does_not_fit_is_told_in_place_of_it(run: Any) -> None:
    class Price(BaseModel):
        euros: float

    @tool(output_schema=Price)
    def price(item: str) -> Any:
        """The price."""
        return {"euros": 3} if item == "tea" else {"error": "unknown"}

    made, _ = agent([call("price", item="tea"), call("price", "2", item="gold"), "done"], [price])
    messages = ask(run, made)
    assert messages[2].text == '{"euros":3.0}'
    assert messages[4].status == "error"
    assert re.search(
        r"gave a result that does not fit what it declares.*- euros: Field required", messages[4].text, re.S
    )
