"""The model asks a person."""

from __future__ import annotations

from typing import Any

import pytest

from runwell.agents import create_agent, human_input_tool
from runwell.errors import InvalidResume
from runwell.graph import Command
from runwell.messages import AIMessage
from runwell.persistence.checkpoints import InMemorySaver
from runwell.testing import FakeChatModel


def asking(**args: Any) -> FakeChatModel:
    call = {"name": "ask_human", "args": args, "id": "1"}
    return FakeChatModel(responses=[AIMessage("", tool_calls=[call]), "Thank you."])


def test_the_run_pauses_and_goes_on_with_the_answer(run: Any, thread: dict[str, Any]) -> None:
    agent = create_agent(asking(question="Which size?"), [human_input_tool()], checkpointer=InMemorySaver())
    paused = run.invoke(agent, {"messages": [("user", "Order a shirt.")]}, thread)
    assert [each.value for each in paused["__interrupt__"]] == [{"question": "Which size?"}]
    done = run.invoke(agent, Command(resume="M"), thread)
    assert [message.text for message in done["messages"]][-2:] == ["M", "Thank you."]


def test_an_answer_that_is_no_choice_is_refused_and_the_pause_stays(run: Any, thread: dict[str, Any]) -> None:
    model = asking(question="Which?", choices=["S", "M"])
    agent = create_agent(model, [human_input_tool()], checkpointer=InMemorySaver())
    paused = run.invoke(agent, {"messages": [("user", "Order.")]}, thread)
    assert paused["__interrupt__"][0].value == {"question": "Which?", "choices": ["S", "M"]}
    with pytest.raises(InvalidResume, match="does not fit"):
        run.invoke(agent, Command(resume="XXL"), thread)
    assert run.invoke(agent, Command(resume="S"), thread)["messages"][-2].text == "S"
