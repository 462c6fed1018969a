"""Old tool results that the model is not sent again."""

from __future__ import annotations

from typing import Any

import pytest

from runwell.agents import create_agent
from runwell.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware
from runwell.errors import InvalidInput
from runwell.messages import AIMessage, HumanMessage, ToolMessage, validate_history
from runwell.testing.models import FakeChatModel


def history(results: int, size: int = 400) -> list[Any]:
    messages: list[Any] = [HumanMessage("go")]
    for n in range(results):
        name = "note" if n == 0 else "look"
        messages.append(
            AIMessage("", tool_calls=[{"name": name, "args": {"at": n}, "id": f"c{n}", "type": "tool_call"}])
        )
        messages.append(ToolMessage(f"{n}" * size, tool_call_id=f"c{n}", name=name))
    return [*messages, AIMessage("seen"), HumanMessage("and?")]


def sent(run: Any, edit: Any, given: list[Any], **settings: Any) -> tuple[list[Any], list[Any]]:
    model = FakeChatModel(responses=["ok"])
    agent = create_agent(model, middleware=[ContextEditingMiddleware([edit], **settings)])
    stored = run.invoke(agent, {"messages": given})["messages"]
    assert not validate_history(model.requests[0].messages)
    return [m for m in model.requests[0].messages if isinstance(m, ToolMessage)], stored


def test_f7_all_but_the_newest_results_are_blanked_and_the_history_stays(run: Any) -> None:
    shown, stored = sent(run, ClearToolUsesEdit(trigger=100, keep=2), history(5), readable=False)
    assert [m.text for m in shown] == ["[cleared]"] * 3 + ["3" * 400, "4" * 400]
    assert [m.text for m in stored if isinstance(m, ToolMessage)] == [f"{n}" * 400 for n in range(5)]


def test_f7_below_the_trigger_nothing_is_blanked(run: Any) -> None:
    shown, _ = sent(run, ClearToolUsesEdit(), history(5))
    assert all("cleared" not in m.text for m in shown)


def test_f7_some_tools_are_left_alone_and_little_gain_is_none(run: Any) -> None:
    shown, _ = sent(run, ClearToolUsesEdit(trigger=100, keep=1, exclude_tools=["note"]), history(3), readable=False)
    assert [m.text for m in shown] == ["0" * 400, "[cleared]", "2" * 400]
    shown, _ = sent(run, ClearToolUsesEdit(trigger=100, keep=1, clear_at_least=5_000), history(3))
    assert all("cleared" not in m.text for m in shown)


def test_f7_results_the_model_has_not_read_are_kept_whatever_keep_says(run: Any) -> None:
    shown, _ = sent(run, ClearToolUsesEdit(trigger=10, keep=0), history(2)[:-2], readable=False)
    assert [m.text for m in shown] == ["[cleared]", "1" * 400]


def test_f7_the_calls_arguments_may_go_too(run: Any) -> None:
    model = FakeChatModel(responses=["ok"])
    edit = ClearToolUsesEdit(trigger=10, keep=1, clear_tool_inputs=True, placeholder="-")
    agent = create_agent(model, middleware=[ContextEditingMiddleware([edit], readable=False)])
    stored = run.invoke(agent, {"messages": history(2)})["messages"]
    calls = [m.tool_calls[0]["args"] for m in model.requests[0].messages if isinstance(m, AIMessage) and m.tool_calls]
    assert calls == [{}, {"at": 1}]
    assert stored[1].tool_calls[0]["args"] == {"at": 0}


def test_f7_a_cleared_result_can_be_read_again(run: Any) -> None:
    def read(messages: list[Any]) -> AIMessage:
        blanked = next(m for m in messages if isinstance(m, ToolMessage))
        assert blanked.text == '[cleared] read_tool_result(call_id="c0") shows it.'
        call: Any = {"name": "read_tool_result", "args": {"call_id": "c0"}, "id": "r", "type": "tool_call"}
        return AIMessage("", tool_calls=[call])

    model = FakeChatModel(responses=[read, "thanks"])
    agent = create_agent(model, middleware=[ContextEditingMiddleware([ClearToolUsesEdit(trigger=500, keep=1)])])
    messages = run.invoke(agent, {"messages": history(2, 11_000)})["messages"]
    answer = next(m for m in messages if isinstance(m, ToolMessage) and m.tool_call_id == "r")
    assert answer.text == "0" * 10_000 + "\n[1000 more characters: start=10000]"
    assert answer.text in [m.text for m in model.requests[1].messages], "what was asked for is not blanked again"


def test_f7_the_model_may_count(run: Any) -> None:
    class Counting(FakeChatModel):
        def get_num_tokens_from_messages(self, messages: Any, tools: Any = None) -> int:
            return 1_000 if any("0000" in m.text for m in messages) else 1

    for method, blanked in (("approximate", False), ("model", True)):
        model = Counting(responses=["ok"])
        edit = ClearToolUsesEdit(trigger=900, keep=1)
        agent = create_agent(model, middleware=[ContextEditingMiddleware([edit], token_count_method=method)])  # type: ignore[arg-type]
        run.invoke(agent, {"messages": history(2, 40)})
        assert ("cleared" in model.requests[0].messages[2].text) is blanked


def test_msg_12_the_system_prompt_counts(run: Any) -> None:
    model = FakeChatModel(responses=["ok"])
    edit = ClearToolUsesEdit(trigger=2_000, keep=1)
    agent = create_agent(model, system_prompt="Rules. " * 2_000, middleware=[ContextEditingMiddleware([edit])])
    run.invoke(agent, {"messages": history(3)})
    assert "cleared" in str(model.requests[0].messages)


@pytest.mark.parametrize("bad", [{"trigger": 0}, {"keep": -1}, {"clear_at_least": -1}, {"exclude_tools": "look"}])
def test_settings_that_cannot_work_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        ClearToolUsesEdit(**bad)


def test_an_editor_without_edits_is_refused() -> None:
    with pytest.raises(InvalidInput):
        ContextEditingMiddleware([])
    with pytest.raises(InvalidInput):
        ContextEditingMiddleware([object()])  # type: ignore[list-item]
