"""Summaries in place of the older part of a conversation."""

from __future__ import annotations

from typing import Any

import pytest

from runwell.agents import create_agent
from runwell.agents.middleware import SummarizationMiddleware, TodoListMiddleware
from runwell.errors import ContextOverflow, InvalidInput, ModelOverloaded
from runwell.messages import AIMessage, HumanMessage, ToolMessage, validate_history
from runwell.persistence import InMemorySaver
from runwell.testing.models import FakeChatModel
from runwell.tools import tool


def talk(turns: int, words: int = 1) -> list[Any]:
    return [
        message
        for n in range(turns)
        for message in (HumanMessage(f"question {n} " * words), AIMessage(f"answer {n} " * words))
    ]


def summaries(**settings: Any) -> FakeChatModel:
    return FakeChatModel(responses=["S1", "S2", "S3", "S4"], **settings)


def texts(messages: list[Any]) -> list[str]:
    return [message.text.strip() for message in messages]


FIRST = "Summary of the conversation so far:\n\nS1"


def test_f4_past_the_trigger_the_older_messages_become_a_summary(run: Any) -> None:
    brief, model = summaries(), FakeChatModel(responses=["ok"])
    agent = create_agent(
        model, middleware=[SummarizationMiddleware(brief, trigger=("messages", 6), keep=("messages", 2))]
    )
    given = [*talk(3), HumanMessage("now")]
    messages = run.invoke(agent, {"messages": given})["messages"]
    assert texts(messages) == [FIRST, "answer 2", "now", "ok"]
    assert texts(model.requests[0].messages) == [FIRST, "answer 2", "now"]
    asked = brief.requests[0].messages[0].text
    assert all(f"{word} {n}" in asked for n in range(3) for word in ("question",)) and "now" not in asked
    assert isinstance(messages[0], HumanMessage)
    assert len(messages[0].additional_kwargs["summary_of"]) == 5


def test_f4_a_summary_made_inside_another_hook_is_stored_too(run: Any) -> None:
    summary = SummarizationMiddleware(summaries(), trigger=("messages", 6), keep=("messages", 2))
    agent = create_agent(FakeChatModel(responses=["ok"]), middleware=[TodoListMiddleware(), summary])
    messages = run.invoke(agent, {"messages": [*talk(3), HumanMessage("now")]})["messages"]
    assert texts(messages) == [FIRST, "answer 2", "now", "ok"]


def test_f4_below_the_trigger_nothing_happens(run: Any) -> None:
    brief = summaries()
    agent = create_agent(
        FakeChatModel(responses=["ok"]),
        middleware=[SummarizationMiddleware(brief, trigger=[("messages", 60), ("tokens", 9_000)])],
    )
    assert len(run.invoke(agent, {"messages": talk(2)})["messages"]) == 5
    assert not brief.requests


def test_f5_the_originals_stay_in_the_threads_history(run: Any, thread: Any) -> None:
    agent = create_agent(
        FakeChatModel(responses=["ok"]),
        middleware=[SummarizationMiddleware(summaries(), trigger=("messages", 6), keep=("messages", 2))],
        checkpointer=InMemorySaver(),
    )
    run.invoke(agent, {"messages": [*talk(3), HumanMessage("now")]}, thread)
    newest, *before = run.history(agent, thread)
    assert len(newest.values["messages"]) == 4
    ids = newest.values["messages"][0].additional_kwargs["summary_of"]
    assert ids == [message.id for message in before[0].values["messages"][:5]]


@pytest.mark.parametrize("keep", range(1, 6))
def test_f6_a_call_and_its_results_stay_together(run: Any, keep: int) -> None:
    calls: list[Any] = [{"name": "look", "args": {}, "id": f"c{n}", "type": "tool_call"} for n in range(2)]
    history = [
        *talk(2),
        HumanMessage("look"),
        AIMessage("", tool_calls=calls),
        *(ToolMessage("saw", tool_call_id=f"c{n}", name="look") for n in range(2)),
    ]
    model = FakeChatModel(responses=["ok"])
    middleware = [SummarizationMiddleware(summaries(), trigger=("messages", 6), keep=("messages", keep))]
    messages = run.invoke(create_agent(model, middleware=middleware), {"messages": history})["messages"]
    assert not validate_history(messages) and not validate_history(model.requests[0].messages)
    assert messages[0].text == FIRST


def test_agent_07_a_failed_summary_changes_nothing(run: Any, caplog: Any) -> None:
    brief = FakeChatModel(responses=[ModelOverloaded("busy")])
    agent = create_agent(
        FakeChatModel(responses=["ok"]),
        middleware=[SummarizationMiddleware(brief, trigger=("messages", 4), keep=("messages", 2))],
    )
    messages = run.invoke(agent, {"messages": talk(3)})["messages"]
    assert texts(messages) == [*texts(talk(3)), "ok"]
    assert "summary of 4 messages failed" in caplog.text


def test_agent_07_a_failed_or_empty_summary_may_raise_and_the_thread_is_whole(run: Any, thread: Any) -> None:
    for answer in (ModelOverloaded("busy"), ""):
        agent = create_agent(
            FakeChatModel(responses=["ok"]),
            middleware=[
                SummarizationMiddleware(
                    FakeChatModel(responses=[answer]), trigger=("messages", 4), keep=("messages", 2), on_failure="raise"
                )
            ],
            checkpointer=InMemorySaver(),
        )
        with pytest.raises(Exception, match=r"busy|empty summary"):
            run.invoke(agent, {"messages": talk(3)}, thread)
        assert texts(run.state(agent, thread).values["messages"]) == texts(talk(3))


def test_agent_08_a_window_without_a_person_is_summarised_too(run: Any) -> None:
    call: Any = {"name": "look", "args": {"at": "the moon"}, "id": "c", "type": "tool_call"}
    history = [
        AIMessage("", tool_calls=[call]),
        ToolMessage("a crater", tool_call_id="c", name="look"),
        AIMessage("A crater."),
        HumanMessage("and now?"),
    ]
    brief = summaries()
    middleware = [SummarizationMiddleware(brief, trigger=("messages", 4), keep=("messages", 1))]
    agent = create_agent(FakeChatModel(responses=["ok"]), middleware=middleware)
    assert texts(run.invoke(agent, {"messages": history})["messages"]) == [FIRST, "and now?", "ok"]
    asked = brief.requests[0].messages[0].text
    assert "the moon" in asked and "a crater" in asked


def test_agent_09_no_summary_of_the_summary_on_every_turn(run: Any, thread: Any) -> None:
    brief = summaries()
    agent = create_agent(
        FakeChatModel(responses=["answer " * 50], cycle=True),
        middleware=[SummarizationMiddleware(brief, trigger=("tokens", 100), keep=("messages", 6))],
        checkpointer=InMemorySaver(),
    )
    run.invoke(agent, {"messages": [*talk(5, 25), HumanMessage("now")]}, thread)
    assert len(brief.requests) == 1
    for _ in range(2):  # what is kept is past the trigger by itself
        run.invoke(agent, {"messages": [HumanMessage("more " * 50)]}, thread)
    assert len(brief.requests) == 1
    for _ in range(8):
        run.invoke(agent, {"messages": [HumanMessage("more " * 60)]}, thread)
    assert 1 < len(brief.requests) <= 4, "it is summarised again once there is enough"
    assert "S1" in brief.requests[1].messages[0].text


def test_agent_09_nothing_older_than_what_is_kept_is_nothing_to_summarise(run: Any) -> None:
    brief = summaries()
    agent = create_agent(
        FakeChatModel(responses=["ok"]),
        middleware=[SummarizationMiddleware(brief, trigger=("tokens", 10), keep=("messages", 20))],
    )
    run.invoke(agent, {"messages": talk(3, 30)})
    assert not brief.requests


def test_msg_12_the_system_prompt_and_the_tools_count(run: Any) -> None:
    def make(number: int) -> Any:
        @tool(f"tool_{number}", description="What this tool is good for, at length. " * 20)
        def made(first: str, second: int) -> str:
            return ""

        return made

    history = [*talk(4, 10), HumanMessage("now")]
    trigger: Any = {"trigger": ("tokens", 4_000), "keep": ("messages", 2)}
    for settings, expected in (
        ({}, 0),
        ({"system_prompt": "Rules. " * 3_000}, 1),
        ({"tools": [make(n) for n in range(20)]}, 1),
    ):
        brief = summaries()
        agent = create_agent(
            FakeChatModel(responses=["ok"]), middleware=[SummarizationMiddleware(brief, **trigger)], **settings
        )
        run.invoke(agent, {"messages": history})
        assert len(brief.requests) == expected


def test_f3_a_conversation_that_does_not_fit_is_summarised_and_asked_again(run: Any) -> None:
    model = FakeChatModel(responses=[ContextOverflow("too long", over=100), "ok"])
    middleware = [SummarizationMiddleware(summaries(), trigger=("tokens", 100_000), keep=("messages", 1))]
    messages = run.invoke(create_agent(model, middleware=middleware), {"messages": talk(3)})["messages"]
    assert texts(messages) == [FIRST, "answer 2", "ok"]


def test_f4_a_fraction_is_of_the_agents_models_window(run: Any) -> None:
    brief = summaries()
    middleware = [SummarizationMiddleware(brief, trigger=("fraction", 0.5), keep=("fraction", 0.1))]
    agent = create_agent(FakeChatModel(responses=["ok"], profile={"max_input_tokens": 400}), middleware=middleware)
    run.invoke(agent, {"messages": talk(10, 5)})
    assert len(brief.requests) == 1
    agent = create_agent(FakeChatModel(responses=["ok"]), middleware=middleware)
    with pytest.raises(InvalidInput, match="window"):
        run.invoke(agent, {"messages": talk(10, 5)})


def test_f5_what_is_long_is_summarised_in_parts_and_none_is_left_out(run: Any) -> None:
    brief = FakeChatModel(responses=["part"], cycle=True)
    middleware = [
        SummarizationMiddleware(brief, trigger=("messages", 6), keep=("messages", 1), trim_tokens_to_summarize=200)
    ]
    agent = create_agent(FakeChatModel(responses=["ok"]), middleware=middleware)
    run.invoke(agent, {"messages": [*talk(10, 20), HumanMessage("now")]})
    asked = "".join(request.messages[0].text for request in brief.requests)
    assert len(brief.requests) > 3
    assert all(f"question {n}" in asked and f"answer {n}" in asked for n in range(10))
    assert "part" in brief.requests[-1].messages[0].text


def test_f6_what_is_kept_may_be_told_in_tokens(run: Any) -> None:
    middleware = [
        SummarizationMiddleware(summaries(), trigger=("tokens", 60), keep=("tokens", 30), token_counter=count)
    ]
    agent = create_agent(FakeChatModel(responses=["ok"]), middleware=middleware)
    messages = run.invoke(agent, {"messages": [HumanMessage("x" * 10) for _ in range(8)]})["messages"]
    assert len(messages) == 1 + 3 + 1


def count(messages: list[Any]) -> int:
    return sum(len(message.text) for message in messages)


def test_the_tokens_of_a_summary_are_no_part_of_the_stream(run: Any) -> None:
    middleware = [SummarizationMiddleware(summaries(), trigger=("messages", 4), keep=("messages", 1))]
    agent = create_agent(FakeChatModel(responses=["ok"]), middleware=middleware)
    shown = [chunk.text for chunk, _ in run.stream(agent, {"messages": talk(3)}, stream_mode="messages")]
    assert "ok" in shown and "S1" not in shown


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"trigger": ("messages", 0)},
        {"trigger": ("letters", 5)},
        {"trigger": ("fraction", 1.5)},
        {"trigger": ("messages", 20), "keep": ("messages", 20)},
        {"trigger": ("messages", 60), "keep": ("messages", 0)},
        {"trigger": ("messages", 60), "summary_prompt": "Summarise!"},
        {"trigger": ("messages", 60), "trim_tokens_to_summarize": 0},
        {"trigger": ("messages", 60), "on_failure": "x"},
    ],
)
def test_settings_that_cannot_work_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        SummarizationMiddleware(summaries(), **bad)
