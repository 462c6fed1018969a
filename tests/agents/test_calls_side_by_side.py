"""Calls of tools as an agent makes them: at once, made again, watched, within their time (SEATS E5, RUN-16)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from runwell.agents import AgentLimits, create_agent
from runwell.messages import AIMessage
from runwell.persistence.checkpoints import InMemorySaver
from runwell.testing import FakeChatModel
from runwell.tools import ProviderTool, ToolRuntime, tool


def asks(*calls: tuple[str, str, dict[str, Any]]) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "id": key, "args": args} for name, key, args in calls])


def go(text: str = "go") -> dict[str, Any]:
    return {"messages": [("user", text)]}


@pytest.mark.parametrize("most", [2, 3])
def test_e5_as_many_run_at_once_as_the_limit_says_and_no_more(run: Any, most: int) -> None:
    together = threading.Barrier(most)
    lock = threading.Lock()
    now = [0]
    peak = [0]

    @tool
    def work(n: int) -> str:
        """Work."""
        with lock:
            now[0] += 1
            peak[0] = max(peak[0], now[0])
        together.wait(10)  # as many as the limit says must be here before any may go on
        with lock:
            now[0] -= 1
        return str(n)

    model = FakeChatModel(responses=[asks(*(("work", str(n), {"n": n}) for n in range(most * 2))), "ok"])
    result = run.invoke(create_agent(model, [work], limits=AgentLimits(max_concurrency=most)), go())
    assert [each.text for each in result["messages"] if each.type == "tool"] == [str(n) for n in range(most * 2)]
    assert peak == [most]


def test_a_call_that_is_made_again_after_a_failure_has_the_same_key(run: Any, thread: dict[str, Any]) -> None:
    """With the key a side effect can be made once: `thread:call id`, whatever happened to the run between."""
    keys: list[str] = []
    paid: set[str] = set()

    @tool
    def pay(euros: int, runtime: ToolRuntime[Any, Any]) -> str:
        """Pay."""
        keys.append(runtime.idempotency_key)
        paid.add(runtime.idempotency_key)
        if len(keys) == 1:
            raise RuntimeError("the connection broke after the payment")
        return "paid"

    saver = InMemorySaver()
    model = FakeChatModel(
        responses=[asks(("pay", "call-1", {"euros": 3})), "ok", asks(("pay", "call-2", {"euros": 3})), "ok"]
    )
    agent = create_agent(model, [pay], checkpointer=saver)
    with pytest.raises(RuntimeError):
        run.invoke(agent, go(), thread)
    assert run.invoke(agent, None, thread)["messages"][-1].text == "ok"
    assert keys == ["t:call-1", "t:call-1"]
    assert len(paid) == 1
    run.invoke(agent, go("once more"), thread)
    assert keys[2] == "t:call-2"


def test_calls_of_one_id_are_told_apart(run: Any, thread: dict[str, Any]) -> None:
    """Some models number their calls from 1 in every turn, and an agent inside another has calls of its own."""
    keys: list[str] = []

    @tool
    def pay(runtime: ToolRuntime[Any, Any]) -> str:
        """Pay."""
        keys.append(runtime.idempotency_key)
        return "paid"

    inner = create_agent(FakeChatModel(responses=[asks(("pay", "1", {})), "ok"]), [pay], name="inner")
    turns = [asks(("pay", "1", {})), asks(("inner", "1", {"task": "pay"})), asks(("pay", "1", {})), "ok"]
    tools = [pay, inner.as_tool(description="Pays.")]
    agent = create_agent(FakeChatModel(responses=turns), tools, checkpointer=InMemorySaver())
    run.invoke(agent, go(), thread)
    assert len(set(keys)) == 3
    assert (keys[0], keys[2]) == ("t:1", "t:1#3")
    assert keys[1].startswith("t:")


def test_the_progress_of_a_generator_is_streamed_and_its_result_answers(run: Any) -> None:
    @tool
    def download(name: str) -> Iterator[dict[str, int]]:
        """Download."""
        yield {"percent": 50}
        yield {"percent": 100}
        return f"{name} is here"  # type: ignore[return-value]

    model = FakeChatModel(responses=[asks(("download", "1", {"name": "x"})), "ok"])
    items = run.stream(create_agent(model, [download]), go(), stream_mode=["custom", "values"])
    assert [item for mode, item in items if mode == "custom"] == [{"percent": 50}, {"percent": 100}]
    assert items[-1][1]["messages"][2].text == "x is here"


def test_run_16_a_tool_that_hangs_is_answered_within_its_time(run: Any) -> None:
    @tool(timeout=0.2)
    async def hang() -> str:
        """Hang."""
        await asyncio.Event().wait()
        return "never"

    def seconds() -> float:
        agent = create_agent(FakeChatModel(responses=[asks(("hang", "1", {})), "ok"]), [hang])
        began = time.monotonic()
        messages = run.invoke(agent, go())["messages"]
        took = time.monotonic() - began
        assert (messages[2].status, messages[-1].text) == ("error", "ok")
        return took

    assert any(seconds() < 0.3 for _ in range(8))  # other work on the machine may hold up any one of them


def test_an_agent_says_what_its_tools_cost(run: Any) -> None:
    @tool
    def small() -> str:
        """Small."""
        return ""

    @tool
    def large(words: list[str], most: int = 10, order: str = "up") -> str:
        """Sort words into an order, and give the first so many of them, each once."""
        return ""

    costs = create_agent(FakeChatModel(responses=[]), [small, large, ProviderTool("web_search")]).tool_cost()
    assert costs[0].name == "large"
    assert {each.name for each in costs} == {"small", "large", "web_search"}
    assert all(each.tokens > 0 for each in costs)


def test_nothing_of_a_signature_is_worked_out_again_for_a_call(monkeypatch: pytest.MonkeyPatch, run: Any) -> None:
    import inspect
    import typing

    @tool
    def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    agent = create_agent(FakeChatModel(responses=[asks(("add", "1", {"a": 1})), "ok"] * 3), [add])
    run.invoke(agent, go())
    run.invoke(agent, go())

    def never(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a signature was read")

    monkeypatch.setattr(inspect, "signature", never)
    monkeypatch.setattr(typing, "get_type_hints", never)
    assert run.invoke(agent, go())["messages"][2].text == "2"
    assert add.invoke({"a": 2}) == 3
