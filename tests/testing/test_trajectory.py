"""Comparing trajectories says what differs, and where."""

from __future__ import annotations

from typing import Any

import pytest

from runwell.agents import create_agent
from runwell.errors import InvalidInput
from runwell.messages import AIMessage
from runwell.testing.models import FakeChatModel
from runwell.testing.trajectory import match_trajectory, tool_calls_of

SEARCH = ("search", {"q": "tram times"})
BOOK = ("book", {"seat": 4})


def search(q: str) -> str:
    """Search."""
    return "found"


def test_test_02_a_mismatch_says_step_tool_and_argument() -> None:
    calls = [{"name": "search", "args": {"q": "tram times"}, "id": "1", "type": "tool_call"}]
    model = FakeChatModel([AIMessage("", tool_calls=calls), "At noon."])
    result = create_agent(model, [search]).invoke({"messages": "When?"})
    found = match_trajectory(result, [("search", {"q": "tram times today"})])
    assert not found
    assert found.score is False
    assert found.comment == "step 1: search got other arguments: q is 'tram times', expected 'tram times today'"
    assert match_trajectory(result["messages"], [SEARCH])
    assert tool_calls_of(result) == [SEARCH]


@pytest.mark.parametrize(
    ("did", "due", "mode", "comment"),
    [
        ([SEARCH, BOOK], [SEARCH, BOOK], "strict", ""),
        ([BOOK, SEARCH], [SEARCH, BOOK], "unordered", ""),
        ([SEARCH], [SEARCH, BOOK], "subset", ""),
        ([SEARCH, BOOK], [BOOK], "superset", ""),
        ([SEARCH], [SEARCH, BOOK], "strict", 'step 2: expected book({"seat": 4}), and nothing was called'),
        ([SEARCH, BOOK], [SEARCH], "strict", 'step 2: book({"seat": 4}) was not expected'),
        ([BOOK], [SEARCH], "strict", 'step 1: expected search({"q": "tram times"}), got book({"seat": 4})'),
        ([SEARCH, BOOK], [SEARCH], "subset", 'step 2: book({"seat": 4}) was not expected'),
        ([], [BOOK], "superset", 'expected step 1: book({"seat": 4}) was not called'),
        (
            [("book", {})],
            [BOOK],
            "superset",
            'expected step 1: book({"seat": 4}) was not called; book got other arguments: seat is missing, expected 4',
        ),
        ([SEARCH, SEARCH], [SEARCH], "unordered", 'step 2: search({"q": "tram times"}) was not expected'),
    ],
)
def test_each_mode_says_what_it_misses(did: Any, due: Any, mode: Any, comment: str) -> None:
    found = match_trajectory(did, due, mode=mode)
    assert (found.score, found.comment) == (not comment, comment)


def test_arguments_may_be_left_out_or_judged() -> None:
    other = [("search", {"q": "TRAM TIMES"})]
    assert match_trajectory(other, [SEARCH], args="ignore")
    assert match_trajectory(other, [SEARCH], args={"search": lambda a, b: a["q"].lower() == b["q"].lower()})
    assert not match_trajectory(other, [SEARCH], args={"book": lambda a, b: True})
    with pytest.raises(InvalidInput, match="mode='loose'"):
        match_trajectory([], [], mode="loose")  # type: ignore[arg-type]
