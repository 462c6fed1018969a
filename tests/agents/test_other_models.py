"""Routing a call to one of several models, and what follows a refusal."""

from __future__ import annotations

from typing import Any

import pytest

from runwell.agents import create_agent
from runwell.agents.middleware import ModelChoice, ModelRefusalMiddleware, ModelRouterMiddleware
from runwell.errors import InvalidInput, ModelRefusalError
from runwell.messages import AIMessage, HumanMessage, validate_history
from runwell.testing.models import FakeChatModel
from runwell.tools import tool

GO = {"messages": [HumanMessage("go")]}


def says(text: str, **about: Any) -> FakeChatModel:
    return FakeChatModel(responses=[text], cycle=True, **about)


def answer(run: Any, router: Any, given: Any = None, **settings: Any) -> str:
    agent = create_agent(says("own"), middleware=[router], **settings)
    return str(run.invoke(agent, given or GO)["messages"][-1].text)


def test_a4_the_cheapest_the_fastest_or_the_first_that_fits(run: Any) -> None:
    def choices() -> list[ModelChoice]:
        return [
            ModelChoice(model=says("dear"), cost=10, latency=2),
            ModelChoice(model=says("cheap"), cost=1, latency=5),
            ModelChoice(model=says("quick"), cost=5, latency=0.5),
        ]

    for prefer, expected in (("order", "dear"), ("cost", "cheap"), ("latency", "quick")):
        assert answer(run, ModelRouterMiddleware(choices(), prefer=prefer)) == expected  # type: ignore[arg-type]


def test_a4_a_request_goes_to_a_model_that_can_hold_it(run: Any) -> None:
    def router() -> ModelRouterMiddleware:
        return ModelRouterMiddleware(
            [
                ModelChoice(model=says("small", profile={"max_input_tokens": 100}), cost=1),
                ModelChoice(model=says("large"), max_input_tokens=10_000, cost=9),
            ],
            prefer="cost",
        )

    assert answer(run, router()) == "small"
    assert answer(run, router(), {"messages": [HumanMessage("word " * 200)]}) == "large"
    assert answer(run, router(), system_prompt="rule " * 200) == "large"
    assert answer(run, router(), {"messages": [HumanMessage("word " * 20_000)]}) == "own"


def test_a4_a_condition_of_either_colour_decides(run: Any) -> None:
    async def with_tools(request: Any) -> bool:
        return bool(request.tools)

    @tool
    def look() -> str:
        """Look."""
        return ""

    router = ModelRouterMiddleware(
        [
            ModelChoice(model=says("for tools"), when=with_tools),
            ModelChoice(model=says("long"), when=lambda request: len(request.messages) > 2),
        ]
    )
    assert answer(run, router, tools=[look]) == "for tools"
    assert answer(run, router, {"messages": [HumanMessage("1"), AIMessage("2"), HumanMessage("3")]}) == "long"
    assert answer(run, router) == "own"


def test_choices_that_cannot_work_are_refused() -> None:
    with pytest.raises(InvalidInput):
        ModelRouterMiddleware([])
    with pytest.raises(InvalidInput, match="does not say its cost"):
        ModelRouterMiddleware([says("x")], prefer="cost")
    for bad in ({"cost": -1}, {"max_input_tokens": 0}, {"when": 3}):
        with pytest.raises(InvalidInput):
            ModelChoice(model=says("x"), **bad)


REFUSALS = [
    AIMessage("", response_metadata={"finish_reason": "content_filter"}),
    AIMessage("No.", response_metadata={"stop_reason": "refusal"}),
    AIMessage("", additional_kwargs={"refusal": "I will not."}),
    AIMessage([{"type": "refusal", "refusal": "I will not."}]),
    ModelRefusalError("blocked"),
]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_h4_a_refusal_goes_to_the_next_model_and_leaves_no_trace(run: Any, refusal: Any) -> None:
    second, third = FakeChatModel(responses=[refusal]), says("gladly")
    agent = create_agent(FakeChatModel(responses=[refusal]), middleware=[ModelRefusalMiddleware(second, third)])
    assert [m.text for m in run.invoke(agent, GO)["messages"]] == ["go", "gladly"]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_g1_a_refusal_is_no_answer_unless_it_is_kept(run: Any, refusal: Any) -> None:
    model: Any = lambda: FakeChatModel(responses=[refusal])  # noqa: E731
    with pytest.raises(ModelRefusalError):
        run.invoke(create_agent(model(), middleware=[ModelRefusalMiddleware()]), GO)
    polite = ModelRefusalMiddleware(on_refusal="message", message="Sorry.")
    assert run.invoke(create_agent(model(), middleware=[polite]), GO)["messages"][-1].text == "Sorry."
    if isinstance(refusal, AIMessage):
        kept = create_agent(model(), middleware=[ModelRefusalMiddleware(model(), on_refusal="keep")])
        assert run.invoke(kept, GO)["messages"][-1].content == refusal.content


def test_the_calls_of_a_refused_reply_do_not_run(run: Any) -> None:
    ran: list[int] = []

    @tool
    def look() -> str:
        """Look."""
        ran.append(1)
        return ""

    call: Any = {"name": "look", "args": {}, "id": "1", "type": "tool_call"}
    refused = AIMessage("", tool_calls=[call], response_metadata={"finish_reason": "content_filter"})
    agent = create_agent(FakeChatModel(responses=[refused]), [look], middleware=[ModelRefusalMiddleware(says("fine"))])
    messages = run.invoke(agent, GO)["messages"]
    assert not ran and messages[-1].text == "fine" and not validate_history(messages)


def test_what_counts_as_a_refusal_may_be_told(run: Any) -> None:
    async def detect(message: Any) -> bool:
        return "cannot" in message.text

    other = ModelRefusalMiddleware(says("can"), detect=detect)
    assert run.invoke(create_agent(says("I cannot"), middleware=[other]), GO)["messages"][-1].text == "can"
    assert run.invoke(create_agent(says("I can"), middleware=[other]), GO)["messages"][-1].text == "I can"


def test_a_refusal_rule_that_does_nothing_is_refused() -> None:
    for bad in ({"on_refusal": "keep"}, {"on_refusal": "x"}, {"detect": 3}):
        with pytest.raises(InvalidInput):
            ModelRefusalMiddleware(**bad)
