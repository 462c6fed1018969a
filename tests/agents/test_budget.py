"""Budgets: what counts, who shares them, what happens at the end of one."""

from __future__ import annotations

from typing import Any

import pytest

from runwell.agents import AgentLimits, Budget, Price, create_agent
from runwell.agents.middleware import SummarizationMiddleware, wrap_model_call
from runwell.errors import BudgetExceeded, InvalidInput, MissingExtra
from runwell.graph import Command, interrupt
from runwell.messages import AIMessage, HumanMessage
from runwell.persistence import InMemorySaver
from runwell.runnables import RunnableLambda
from runwell.testing.models import FakeChatModel
from runwell.tools import ToolRuntime, tool


def call(name: str, id: str = "1", **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


def says(text: str = "", *calls: dict[str, Any], tokens: int = 10) -> AIMessage:
    usage: Any = {"input_tokens": tokens, "output_tokens": 0, "total_tokens": tokens}
    return AIMessage(text, tool_calls=list(calls), usage_metadata=usage)


GO = {"messages": [HumanMessage("go")]}
PRICES = {"fake": Price(input=1000, output=2000)}


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def meter_of(seen: list[Any]) -> Any:
    @tool
    def look(runtime: ToolRuntime) -> str:
        """Look at what is used."""
        seen.append(runtime.budget.spent)
        seen.append({kind: runtime.budget.left(kind) for kind in ("model_calls", "tool_calls", "tokens", "cost")})
        return "seen"

    return look


def test_a_budget_is_visible_while_the_run_uses_it(run: Any) -> None:
    seen: list[Any] = []
    model = FakeChatModel([says("", call("look"), tokens=7), says("done")])
    run.invoke(create_agent(model, [meter_of(seen)], budget=Budget(model_calls=5, tokens=100)), GO)
    spent, left = seen
    assert spent == {"model_calls": 1, "tool_calls": 1, "tokens": 7}
    assert left == {"model_calls": 4, "tool_calls": None, "tokens": 93, "cost": None}


def test_an_unknown_kind_of_budget_is_refused(run: Any) -> None:
    @tool
    def look(runtime: ToolRuntime) -> str:
        """Look."""
        return str(runtime.budget.left("money"))

    with pytest.raises(InvalidInput, match="no 'money'"):
        run.invoke(create_agent(FakeChatModel([says("", call("look"))]), [look]), GO)


# -- whose calls count


def test_f1_calls_made_by_middleware_count(run: Any) -> None:
    """F1, F8: a summary is a call of a model as any other."""
    seen: list[Any] = []
    summary = FakeChatModel(responses=[says("short", tokens=50)], cycle=True)
    shorten = SummarizationMiddleware(model=summary, trigger=("messages", 3), keep=("messages", 1))
    model = FakeChatModel([says("", call("look")), says("done")])
    history = [HumanMessage(f"m{n}") for n in range(5)]
    run.invoke(create_agent(model, [meter_of(seen)], middleware=[shorten]), {"messages": history})
    assert seen[0] == {"model_calls": 2, "tool_calls": 1, "tokens": 60}


def test_f1_calls_made_by_a_tool_count_in_every_form(run: Any) -> None:
    seen: list[Any] = []
    helper = FakeChatModel(responses=[says("x y", tokens=3)], cycle=True)

    @tool
    async def think() -> str:
        """Think."""
        chunks = [chunk async for chunk in helper.astream("a")]
        return (helper.invoke("b").text + (await helper.ainvoke("c")).text) + str(len(chunks)) + _whole(helper)

    model = FakeChatModel([says("", call("think")), says("", call("look", "2")), says("done")])
    run.invoke(create_agent(model, [think, meter_of(seen)]), GO)
    assert seen[0] == {"model_calls": 2 + 4, "tool_calls": 2, "tokens": 20 + 12}


def _whole(model: Any) -> str:
    return "".join(chunk.text for chunk in model.stream("d"))


def test_f1_a_tool_that_calls_models_without_end_is_stopped(run: Any) -> None:
    helper = FakeChatModel(responses=[says("again", tokens=1)], cycle=True)

    @tool
    def loop() -> str:
        """Never come back."""
        while True:
            helper.invoke("x")

    agent = create_agent(FakeChatModel([says("", call("loop"))]), [loop], budget=Budget(model_calls=6))
    with pytest.raises(BudgetExceeded, match="6 of 6 model_calls"):
        run.invoke(agent, GO)
    agent = create_agent(
        FakeChatModel([says("", call("loop"))]), [loop], budget=Budget(model_calls=6, on_limit="return")
    )
    result = run.invoke(agent, GO)
    assert result["stopped"] == "model_calls: 6 of 6"
    assert "Not finished" in result["messages"][-1].text


def test_a_call_that_fails_does_not_count(run: Any) -> None:
    seen: list[Any] = []

    @wrap_model_call
    def again(request: Any, handler: Any) -> Any:
        try:
            return handler(request)
        except ConnectionError:
            return handler(request)

    model = FakeChatModel([ConnectionError("no"), says("", call("look")), says("done")])
    run.invoke(create_agent(model, [meter_of(seen)], middleware=[again]), GO)
    assert seen[0]["model_calls"] == 1


def test_a_model_of_another_kind_is_counted_too(run: Any) -> None:
    class Plain(RunnableLambda):  # type: ignore[type-arg]
        def bind_tools(self, tools: Any, **settings: Any) -> Any:
            return self

    seen: list[Any] = []
    replies = iter([says("", call("look"), tokens=4), says("done")])
    run.invoke(create_agent(Plain(lambda messages: next(replies)), [meter_of(seen)]), GO)
    assert seen[0] == {"model_calls": 1, "tool_calls": 1, "tokens": 4}


def test_a_streamed_run_is_counted_once(run: Any) -> None:
    seen: list[Any] = []
    model = FakeChatModel([says("", call("look"), tokens=7), says("done")])
    run.stream(create_agent(model, [meter_of(seen)]), GO, stream_mode="messages")
    assert seen[0] == {"model_calls": 1, "tool_calls": 1, "tokens": 7}


# -- shared with child agents


def team(responses: list[Any], child: list[Any], *, own: Budget | None = None, **settings: Any) -> Any:
    worker = create_agent(FakeChatModel(child), [add], name="worker", budget=own)
    return create_agent(FakeChatModel(responses), [worker.as_tool()], **settings)


ASK = says("", call("worker", task="sum"))
SUM = says("", call("add", a=1, b=2))


def test_h2_a_child_draws_on_its_callers_budget(run: Any) -> None:
    agent = team([ASK, says("done")], [SUM, SUM, says("3")], budget=Budget(model_calls=3))
    with pytest.raises(BudgetExceeded, match="budget of agent is used up: 3 of 3"):
        run.invoke(agent, GO)
    agent = team([ASK, says("done")], [SUM, says("3")], budget=Budget(model_calls=4))
    assert run.invoke(agent, GO)["messages"][-1].text == "done"


def test_h2_a_shared_budget_that_returns_gives_what_there_is(run: Any) -> None:
    agent = team([ASK, says("done")], [SUM, SUM, says("3")], budget=Budget(model_calls=3, on_limit="return"))
    result = run.invoke(agent, GO)
    assert result["stopped"] == "model_calls: 3 of 3"
    assert "stopped before it was finished" in result["messages"][-1].text


def test_h2_a_child_that_uses_up_its_own_budget_is_a_failed_call(run: Any) -> None:
    agent = team([ASK, says("I give up")], [SUM, SUM], own=Budget(model_calls=1), budget=Budget(model_calls=9))
    result = run.invoke(agent, GO)
    assert result["messages"][-1].text == "I give up"
    answer = result["messages"][-2]
    assert answer.status == "error"
    assert "budget of worker is used up: 1 of 1" in answer.text


def test_h2_tool_calls_of_children_count_and_the_excess_is_answered(run: Any) -> None:
    agent = team([ASK, says("done")], [SUM, SUM, says("3")], budget=Budget(tool_calls=2))
    assert run.invoke(agent, GO)["messages"][-1].text == "done"


def test_h2_tokens_and_cost_of_children_count(run: Any) -> None:
    with pytest.raises(BudgetExceeded, match="30 of 25 tokens"):
        run.invoke(team([ASK, says("done")], [SUM, says("3")], budget=Budget(tokens=25)), GO)
    with pytest.raises(BudgetExceeded, match=r"0\.03 of 0\.025 US dollars"):
        run.invoke(team([ASK, says("done")], [SUM, says("3")], budget=Budget(cost=0.025, prices=PRICES)), GO)


def test_h2_what_a_child_used_before_a_pause_counts_after_it(run: Any, thread: Any) -> None:
    seen: list[Any] = []

    @tool
    def ask(question: str) -> str:
        """Ask a person."""
        return str(interrupt(question))

    worker = create_agent(
        FakeChatModel([SUM, says("", call("ask", question="?")), says("ok")]), [add, ask], name="worker"
    )
    model = FakeChatModel([ASK, says("", call("look", "2")), says("done")])
    agent = create_agent(model, [worker.as_tool(), meter_of(seen)], checkpointer=InMemorySaver())
    assert run.invoke(agent, GO, thread)["__interrupt__"]
    run.invoke(agent, Command(resume="yes"), thread)
    assert seen[0] == {"model_calls": 5, "tool_calls": 4, "tokens": 50}


def test_children_side_by_side_never_use_more_than_is_left(run: Any) -> None:
    calls = [call("worker", str(n), task="sum") for n in range(6)]
    worker = create_agent(FakeChatModel(responses=[says("x")], cycle=True), name="worker")
    agent = create_agent(
        FakeChatModel([says("", *calls), says("done")]), [worker.as_tool()], budget=Budget(model_calls=4)
    )
    with pytest.raises(BudgetExceeded, match="4 of 4"):
        run.invoke(agent, GO)
    assert len(worker.setup.model.requests) == 3


# -- cost


def test_cost_is_limited_by_prices_of_ones_own(run: Any) -> None:
    agent = create_agent(
        FakeChatModel(responses=[says("", call("add", a=1, b=2))], cycle=True),
        [add],
        budget=Budget(cost=0.02, prices=PRICES, on_limit="return"),
    )
    assert run.invoke(agent, GO)["stopped"].startswith("cost: 0.02 of 0.02")


def test_a_model_without_a_price_is_refused_where_cost_is_limited(run: Any) -> None:
    with pytest.raises(InvalidInput, match="nobody knows what model 'fake' of 'fake' costs"):
        run.invoke(create_agent(FakeChatModel(["hi"]), budget=Budget(cost=1.0)), GO)


def test_prices_are_read_from_a_table_that_says_its_version() -> None:
    from runwell.models import price_of, price_table

    usage = {"input_tokens": 1_000_000, "output_tokens": 0, "total_tokens": 1_000_000}
    cost = price_of(usage, "openai", "gpt-4o")
    assert cost is not None
    assert 0.1 < cost < 100
    half = price_of({**usage, "input_token_details": {"cache_read": 1_000_000}}, "openai", "gpt-4o")
    assert half is not None
    assert half < cost
    assert price_of(usage, "local", "anything") == 0
    assert price_of(usage, "openai", "no-such-model") is None
    assert price_table().startswith("genai-prices ")


def test_without_the_table_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from runwell.models import prices

    prices._table.cache_clear()
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    with pytest.raises(MissingExtra, match="price") as caught:
        prices.price_of({"input_tokens": 1}, "openai", "gpt-4o")
    assert "runwell[prices]" in str(caught.value)
    prices._table.cache_clear()


def test_a_price_is_not_negative() -> None:
    with pytest.raises(InvalidInput, match="negative"):
        Price(input=-1, output=0)
    assert Price(input=2, output=4, cached_input=1).of(
        {"input_tokens": 1_000_000, "output_tokens": 500_000, "input_token_details": {"cache_read": 500_000}}
    ) == pytest.approx(1 + 0.5 + 2)


def test_the_bookkeeping_is_not_shown_in_updates_or_snapshots(run: Any, thread: Any) -> None:
    agent = create_agent(FakeChatModel(["hi"]), checkpointer=InMemorySaver())
    assert run.stream(agent, GO, thread, stream_mode="updates")[0]["model"].keys() == {"messages"}
    assert agent.get_state(thread).values.keys() == {"messages"}


def test_all_that_is_wrong_with_limits_is_said_at_once() -> None:
    with pytest.raises(InvalidInput, match=r"Budget\(model_calls=0, tokens=-1\) leaves nothing"):
        Budget(model_calls=0, tokens=-1)
    with pytest.raises(InvalidInput, match="max_repairs=-1 is negative; max_concurrency=0 allows nothing"):
        AgentLimits(max_repairs=-1, max_concurrency=0)
