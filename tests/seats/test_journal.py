"""With somebody watching, the decisions of a run are told as they are taken; with nobody, nothing is made of them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from runwell.agents import AgentLimits, Budget, create_agent
from runwell.agents.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    ModelCallLimitMiddleware,
    ModelFallbackMiddleware,
    ModelRefusalMiddleware,
    ModelRetryMiddleware,
    ModelRouterMiddleware,
    RetrievalToolSelectorMiddleware,
    ToolErrorMiddleware,
)
from runwell.errors import BudgetExceeded, ModelOverloaded, StructuredOutputError, ToolError
from runwell.graph import Command
from runwell.messages import AIMessage, HumanMessage
from runwell.observe import DecisionLog, observing
from runwell.persistence import InMemorySaver
from runwell.testing.models import FakeChatModel
from runwell.tools import tool


def call(name: str, id: str = "1", **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


def asks(*calls: dict[str, Any], **more: Any) -> AIMessage:
    return AIMessage("", tool_calls=list(calls), **more)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def fetch(url: str) -> str:
    """Fetch a page."""
    raise ToolError("404") if url == "gone" else ValueError("a bug")


@tool
def page() -> str:
    """A long page."""
    return "word " * 500


class Answer(BaseModel):
    """The answer."""

    total: int


def taken(run: Any, responses: list[Any], *args: Any, raises: Any = None, **kwargs: Any) -> DecisionLog:
    """What was decided in one run of an agent."""
    log = DecisionLog()
    agent = create_agent(FakeChatModel(responses=responses), *args, **kwargs)
    config = {"callbacks": [log], "configurable": {"thread_id": "t"}}
    given = {"messages": [HumanMessage("go", id="h")]}
    if raises is None:
        run.invoke(agent, given, config)
    else:
        with pytest.raises(raises):
            run.invoke(agent, given, config)
    return log


def shown(log: DecisionLog) -> list[tuple[str, Any, str]]:
    return [(each.seat, each.outcome, each.holder) for each in log]


def test_c2_c5_where_a_run_goes_is_told_with_the_reason(run: Any) -> None:
    log = taken(run, [asks(call("add", a=1, b=2)), "three"], [add])
    assert shown(log) == [("C2", "tools: add", "code"), ("C5", "model", "code"), ("C2", "end", "code")]
    assert [each.reason for each in log] == [
        "calls are open",
        "the model reads the results",
        "the model called no tool",
    ]
    assert all(each.run.run_id is not None and each.time > 0 for each in log)


def test_e1_a_tool_that_is_not_there(run: Any) -> None:
    (one,) = taken(run, [asks(call("ad", a=1, b=2)), "no"], [add]).of("E1")
    assert one.outcome == "told"
    assert "'ad'" in one.reason


def test_e2_arguments_that_do_not_fit(run: Any) -> None:
    (one,) = taken(run, [asks(call("add", a="x", b=2)), "no"], [add]).of("E2")
    assert one.outcome == "told"
    assert "ToolArgumentsError in call '1' of 'add'" in one.reason


def test_e3_an_error_told_and_an_error_raised(run: Any) -> None:
    (told,) = taken(run, [asks(call("fetch", url="gone")), "no"], [fetch]).of("E3")
    assert (told.outcome, told.holder) == ("told", "code")
    assert "on_tool_error='default'" in told.reason
    (raised,) = taken(run, [asks(call("fetch", url="x"))], [fetch], raises=ValueError).of("E3")
    assert raised.outcome == "raised"
    (by_function,) = taken(
        run, [asks(call("fetch", url="x")), "no"], [fetch], on_tool_error=lambda error, call: "try later"
    ).of("E3")
    assert by_function.outcome == "told"
    assert "a function" in by_function.reason


def test_b4_malformed_arguments_are_told_and_then_end_the_run(run: Any) -> None:
    bad = AIMessage("", invalid_tool_calls=[{"name": "add", "args": "{", "id": "1", "error": "cut short"}])
    log = taken(run, [bad, bad], [add], limits=AgentLimits(max_repairs=1))
    assert [each.outcome for each in log.of("B4")] == ["told", "stopped"]
    assert "add" in log.of("B4")[0].reason


def test_b3_a_reply_under_a_taken_id(run: Any) -> None:
    (one,) = taken(run, [AIMessage("hi", id="h")]).of("B3")
    assert one.outcome != "h"
    assert "'h'" in one.reason


def test_f1_a_budget_that_is_used_up(run: Any) -> None:
    responses = [asks(call("add", a=1, b=2)), "never asked"]
    (raised,) = taken(run, responses, [add], budget=Budget(model_calls=1), raises=BudgetExceeded).of("F1")
    assert (raised.outcome, raised.reason) == ("raise", "model_calls: 1 of 1")
    (returned,) = taken(run, responses, [add], budget=Budget(model_calls=1, on_limit="return")).of("F1")
    assert returned.outcome == "return"


def test_f9_calls_beyond_the_limit(run: Any) -> None:
    both = asks(call("add", "1", a=1, b=2), call("add", "2", a=1, b=2))
    (one,) = taken(run, [both, "done"], [add], budget=Budget(tool_calls=1)).of("F9")
    assert (one.outcome, one.reason) == ("refused", "1 calls beyond 1")


def test_g1_what_done_said(run: Any) -> None:
    verdicts = iter(["too short", True])
    log = taken(run, ["a", "ab"], done=lambda state: next(verdicts))
    assert [(each.outcome, "too short" in each.reason) for each in log.of("G1")] == [
        ("not accepted", True),
        ("accepted", False),
    ]


def test_g3_g4_structured_answers(run: Any) -> None:
    bad, good = asks(call("Answer", total="x")), asks(call("Answer", "2", total=3))
    log = taken(run, [bad, good], response_format=Answer)
    assert [each.outcome for each in log.of("G3")] == ["does not fit", "fits"]
    assert [each.outcome for each in log.of("G4")] == ["tried again"]
    log = taken(run, [bad], response_format=Answer, limits=AgentLimits(max_answers=1), raises=StructuredOutputError)
    assert [each.outcome for each in log.of("G4")] == ["raised"]


def test_d9_d10_each_review_and_each_verdict_is_told_once(run: Any) -> None:
    both = asks(call("add", "1", a=1, b=2), call("add", "2", a=10, b=2))
    log = DecisionLog()
    agent = create_agent(
        FakeChatModel(responses=[both, "done"]),
        [add],
        approvals={"add": {"when": lambda request: request.tool_call["args"]["a"] > 5}},
        checkpointer=InMemorySaver(),
    )
    config = {"callbacks": [log], "configurable": {"thread_id": "t"}}
    run.invoke(agent, {"messages": [HumanMessage("go")]}, config)
    assert shown(log) == [("D9", "waved through", "code"), ("D9", "review", "code")]
    run.invoke(agent, Command(resume={"decisions": {"2": {"type": "reject", "message": "too much"}}}), config)
    assert [each.outcome for each in log.of("D9")] == ["waved through", "review"]
    (one,) = log.of("D10")
    assert (one.outcome, one.reason, one.holder) == ("reject", "too much", "human")


def test_middleware_tells_what_it_decided(run: Any) -> None:
    """A4, B5, E7, F7, F8, G1 and H4 are told by the middleware that takes them."""

    def of(seat: str, responses: list[Any], *tools: Any, middleware: Any, raises: Any = None) -> list[Any]:
        log = taken(run, responses, [add, fetch, *tools], middleware=[middleware], raises=raises)
        return [(each.outcome, each.holder) for each in log.of(seat)]

    backup = FakeChatModel(responses=["hello"], cycle=True)
    assert of("H4", [ModelOverloaded("busy")], middleware=ModelFallbackMiddleware(backup)) == [
        ("another model", "code")
    ]
    retry = ModelRetryMiddleware(initial_delay=0)
    assert of("E7", [ModelOverloaded("busy"), "hi"], middleware=retry) == [("again in 0.0 s", "code")]
    assert [holder for _, holder in of("A4", [], middleware=ModelRouterMiddleware([backup]))] == ["code"]
    chosen = of("B5", ["hi"], middleware=RetrievalToolSelectorMiddleware(max_tools=1))
    assert [(len(names), holder) for names, holder in chosen] == [(1, "code")]
    refused = AIMessage("no", response_metadata={"finish_reason": "refusal"})
    assert of("G1", [refused], middleware=ModelRefusalMiddleware(backup)) == [("refusal", "code")]
    limit = ModelCallLimitMiddleware(run_limit=1)
    assert of("F8", [asks(call("add", a=1, b=2))], middleware=limit) == [("end", "code")]
    clear = ContextEditingMiddleware([ClearToolUsesEdit(trigger=1, keep=0)])
    calls = [asks(call("page")), asks(call("page", "2")), "done"]
    assert ("edited", "code") in of("F7", calls, page, middleware=clear)
    told = of("E3", [asks(call("fetch", url="x")), "hm"], middleware=ToolErrorMiddleware(ValueError))
    assert told == [("told", "code")]


def test_a_log_is_attached_around_code_and_can_be_cleared() -> None:
    log = DecisionLog()
    agent = create_agent(FakeChatModel(responses=["hi"], cycle=True))
    with observing(log):
        agent.invoke({"messages": "hello"})
    agent.invoke({"messages": "not watched"})
    assert [each.seat for each in log] == ["C2"]
    assert "Decision(C2 'end' by code" in repr(log.decisions[0])
    log.clear()
    assert len(log) == 0


def test_without_an_observer_no_words_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    from runwell.agents import model_node, routing, tool_errors

    def never(*args: Any) -> None:
        raise AssertionError(args)

    for module in (model_node, routing, tool_errors):
        monkeypatch.setattr(module, "record_decision", never)
    agent = create_agent(FakeChatModel(responses=[asks(call("ad", a="x")), "ok"]), [add], done=lambda state: True)
    assert agent.invoke({"messages": "go"})["messages"][-1].text == "ok"
