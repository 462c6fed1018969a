"""A conversation that outgrows its model is measured before the call, and refused, cut or summarised (seat F3)."""

from __future__ import annotations

from typing import Any

import pytest

from runwell.agents import AgentLimits, create_agent
from runwell.agents.middleware import ModelFallbackMiddleware
from runwell.errors import ContextOverflow, InvalidInput
from runwell.messages import AIMessage, HumanMessage, ToolMessage, validate_history
from runwell.observe import DecisionLog
from runwell.persistence import InMemorySaver
from runwell.testing.models import FakeChatModel
from runwell.tools import tool


class Exact(FakeChatModel):
    """A model with a tokenizer: a word is a token."""

    def get_num_tokens_from_messages(self, messages: Any, tools: Any = None) -> int:
        return sum(len(message.text.split()) for message in messages) + 10 * len(tools or ())


def talk(turns: int, words: int = 40) -> list[Any]:
    said = "word " * words
    return [each for n in range(turns) for each in (HumanMessage(f"{n} {said}"), AIMessage(f"{n} {said}"))]


def reported(total: int) -> AIMessage:
    usage: Any = {"input_tokens": total - 1, "output_tokens": 1, "total_tokens": total}
    return AIMessage("so far", usage_metadata=usage)


def test_f3_what_a_tokenizer_counts_is_refused_before_the_call(run: Any) -> None:
    log = DecisionLog()
    model = Exact(responses=["ok"], profile={"max_input_tokens": 300})
    agent = create_agent(model, system_prompt="Be brief.")
    with pytest.raises(ContextOverflow, match="427 tokens") as caught:
        run.invoke(agent, {"messages": [*talk(5), HumanMessage("more " * 15)]}, {"callbacks": [log]})
    assert caught.value.over == 127 and model.requests == []
    assert [each.outcome for each in log.of("F3")] == ["refused"]
    assert "Measured before each call" in agent.seats()["F3"].answer


def test_f3_what_fits_is_sent(run: Any) -> None:
    model = Exact(responses=["ok"], profile={"max_input_tokens": 500})
    assert run.invoke(create_agent(model), {"messages": [*talk(5), HumanMessage("on")]})["messages"][-1].text == "ok"


def test_f3_the_tools_count_too(run: Any) -> None:
    @tool
    def look() -> str:
        """Look."""
        return ""

    model = Exact(responses=["ok"], profile={"max_input_tokens": 415})
    with pytest.raises(ContextOverflow):
        run.invoke(create_agent(model, [look]), {"messages": [*talk(5), HumanMessage("on")]})


def test_f3_an_estimate_only_warns(run: Any, caplog: Any) -> None:
    log = DecisionLog()
    model = FakeChatModel(responses=["ok"], profile={"max_input_tokens": 300})
    run.invoke(create_agent(model), {"messages": [*talk(5), HumanMessage("on")]}, {"callbacks": [log]})
    assert "that is an estimate" in caplog.text and [each.outcome for each in log.of("F3")] == ["warned"]


def test_f3_what_the_provider_reported_is_sure(run: Any) -> None:
    model = FakeChatModel(responses=["ok"], profile={"max_input_tokens": 500})
    with pytest.raises(ContextOverflow, match="tokens"):
        run.invoke(create_agent(model), {"messages": [*talk(5), reported(700), HumanMessage("on")]})
    assert model.requests == []


def test_f3_what_was_reported_of_a_history_that_was_cut_since_is_not(run: Any) -> None:
    model = FakeChatModel(responses=["ok"], profile={"max_input_tokens": 500})
    run.invoke(create_agent(model), {"messages": [HumanMessage("go"), reported(700), HumanMessage("on")]})
    assert len(model.requests) == 1


@pytest.mark.parametrize("profile", [None, {}, {"max_output_tokens": 5}])
def test_f3_nothing_is_measured_where_the_window_is_not_known(run: Any, profile: Any) -> None:
    model = Exact(responses=["ok"], profile=profile)
    run.invoke(create_agent(model), {"messages": [*talk(50), HumanMessage("on")]})
    assert len(model.requests[0].messages) == 101


def test_f3_a_fallback_may_have_a_larger_window(run: Any) -> None:
    small = Exact(responses=["small"], profile={"max_input_tokens": 100})
    large = Exact(responses=["large"], profile={"max_input_tokens": 1_000})
    agent = create_agent(small, middleware=[ModelFallbackMiddleware(large)])
    assert run.invoke(agent, {"messages": [*talk(5), HumanMessage("on")]})["messages"][-1].text == "large"
    assert small.requests == []


@pytest.mark.parametrize("known", [True, False], ids=["measured", "told by the provider"])
def test_f3_trim_leaves_out_the_oldest_and_the_history_stays(run: Any, thread: Any, known: bool) -> None:
    log = DecisionLog()
    if known:
        model: Any = Exact(responses=["ok"], profile={"max_input_tokens": 200})
    else:
        model = FakeChatModel(responses=[ContextOverflow("too long"), ContextOverflow("still", over=50), "ok"])
    agent = create_agent(model, limits=AgentLimits(overflow="trim"), checkpointer=InMemorySaver())
    result = run.invoke(agent, {"messages": [*talk(5), HumanMessage("on")]}, {**thread, "callbacks": [log]})
    sent = model.requests[-1].messages
    assert sent[0].type == "human" and sent[-1].text == "on" and len(sent) < 11 and not validate_history(sent)
    assert len(result["messages"]) == 12 and result["messages"][-1].text == "ok"
    assert any("trimmed" in each.outcome for each in log.of("F3"))


def test_f3_trim_keeps_calls_with_their_results(run: Any) -> None:
    call: Any = {"name": "look", "args": {}, "id": "1", "type": "tool_call"}
    history = [
        *talk(4),
        HumanMessage("look"),
        AIMessage("", tool_calls=[call]),
        ToolMessage("x " * 60, tool_call_id="1"),
    ]
    model = Exact(responses=["ok"], profile={"max_input_tokens": 130})
    run.invoke(create_agent(model, limits=AgentLimits(overflow="trim")), {"messages": history})
    assert [message.type for message in model.requests[0].messages] == ["human", "ai", "tool"]


def test_f3_trim_gives_up_where_one_question_alone_does_not_fit(run: Any) -> None:
    model = Exact(responses=["ok"], profile={"max_input_tokens": 20})
    with pytest.raises(ContextOverflow):
        run.invoke(create_agent(model, limits=AgentLimits(overflow="trim")), {"messages": [HumanMessage("word " * 90)]})
    assert model.requests == []


def test_f3_summarize_replaces_the_oldest_by_a_summary_only_when_it_does_not_fit(run: Any, thread: Any) -> None:
    model = Exact(responses=["fits", "in short", "ok"], profile={"max_input_tokens": 1_500})
    agent = create_agent(model, limits=AgentLimits(overflow="summarize"), checkpointer=InMemorySaver())
    run.invoke(agent, {"messages": [*talk(14), HumanMessage("on")]}, thread)
    assert len(model.requests) == 1
    result = run.invoke(agent, {"messages": [HumanMessage("word " * 400)]}, thread)
    assert "in short" in result["messages"][0].text and result["messages"][-1].text == "ok"
    assert "summarised" in agent.seats()["F3"].answer and agent.seats()["F4"].answer == "When a request does not fit."


def test_an_overflow_that_is_no_policy_is_refused() -> None:
    with pytest.raises(InvalidInput, match="overflow"):
        AgentLimits(overflow="cut")  # type: ignore[arg-type]
