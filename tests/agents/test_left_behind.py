"""A run that failed leaves what it finished: a new input finds it, and only what did not finish is said to be open."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

import pytest

from runwell.agents import AgentState, create_agent
from runwell.agents.middleware import wrap_model_call
from runwell.agents.structured_output import ProviderStrategy, ToolStrategy
from runwell.graph import Command
from runwell.messages import AIMessage, HumanMessage, ToolMessage
from runwell.messages.validity import require_valid_history
from runwell.persistence import InMemorySaver, SqliteSaver
from runwell.testing.models import FakeChatModel
from runwell.tools import InjectedToolCallId, tool

GO = {"messages": [HumanMessage("go")]}
THREAD = {"configurable": {"thread_id": "1"}}


def call(name: str, id: str, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


class Shop(AgentState):
    paid: NotRequired[int]


@pytest.mark.parametrize("where", ["memory", "sqlite"])
def test_E6_a_new_input_after_a_failure_keeps_what_the_other_calls_did(run: Any, where: str, tmp_path: Any) -> None:
    made: list[int] = []

    @tool
    def pay(amount: int, id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Pay."""
        made.append(amount)
        return Command(update={"paid": amount, "messages": [ToolMessage("paid", tool_call_id=id)]})

    @tool
    def look(at: str) -> str:
        """Look."""
        raise RuntimeError("dark")

    saver = InMemorySaver() if where == "memory" else SqliteSaver(tmp_path / "s.db")
    model = FakeChatModel([AIMessage("", tool_calls=[call("look", "l", at="x"), call("pay", "p", amount=5)]), "Done."])
    agent = create_agent(model, [pay, look], state_schema=Shop, checkpointer=saver)
    with pytest.raises(RuntimeError, match="dark"):
        run.invoke(agent, GO, THREAD)
    result = run.invoke(agent, {"messages": "and now?"}, THREAD)
    require_valid_history(result["messages"])
    looked, paid = result["messages"][2:4]
    assert (looked.tool_call_id, looked.status) == ("l", "error")
    assert (paid.tool_call_id, paid.text, paid.status) == ("p", "paid", "success")
    assert result["paid"] == 5
    assert made == [5]


ANSWER = {"title": "Answer", "type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


@pytest.mark.parametrize("asked", [ANSWER, ToolStrategy(ANSWER), ProviderStrategy(ANSWER)], ids=["bare", "tool", "own"])
@pytest.mark.parametrize("usual", [None, ANSWER], ids=["none", "answer"])
def test_G3_an_answer_is_judged_by_the_format_that_a_hook_asked_for(run: Any, asked: Any, usual: Any) -> None:
    @wrap_model_call
    def around(request: Any, handler: Any) -> Any:
        return handler(request.override(response_format=asked))

    own = isinstance(asked, ProviderStrategy)
    said = '{"x": 4}' if own else AIMessage("", tool_calls=[call("Answer", "1", x=4)])
    agent = create_agent(
        FakeChatModel([said]), middleware=[around], response_format=usual, checkpointer=InMemorySaver()
    )
    result = run.invoke(agent, GO, THREAD)
    assert result["structured_response"] == {"x": 4}
    require_valid_history(result["messages"])


def test_G3_a_hook_may_ask_for_plain_text(run: Any) -> None:
    @wrap_model_call
    def around(request: Any, handler: Any) -> Any:
        return handler(request.override(response_format=None))

    agent = create_agent(FakeChatModel(["Four."]), middleware=[around], response_format=ANSWER)
    result = run.invoke(agent, GO)
    assert result["messages"][-1].text == "Four."
    assert result.get("structured_response") is None
