"""Second tries: of models, of tools, and by other models."""

from __future__ import annotations

from typing import Any

import pytest

from runwell.agents import create_agent
from runwell.agents.middleware import ModelFallbackMiddleware, ModelRetryMiddleware, ToolErrorMiddleware
from runwell.agents.middleware.tool_retry import ToolRetryMiddleware
from runwell.errors import (
    BudgetExceeded,
    ContextOverflow,
    InvalidInput,
    ModelAuthenticationError,
    ModelBadRequest,
    ModelOverloaded,
    ToolError,
)
from runwell.graph import Command, interrupt
from runwell.messages import AIMessage, HumanMessage, SystemMessage, validate_history
from runwell.persistence import InMemorySaver
from runwell.testing.models import FakeChatModel
from runwell.tools import ProviderTool, tool

GO = {"messages": [HumanMessage("go")]}
QUICK: dict[str, Any] = {"initial_delay": 0.0}


def calls(*named: str, **args: Any) -> AIMessage:
    return AIMessage(
        "", tool_calls=[{"name": n, "args": args, "id": f"c{i}", "type": "tool_call"} for i, n in enumerate(named)]
    )


class Shaky:
    """A function that fails as often as it is told."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.tries = 0

    def __call__(self) -> str:
        self.tries += 1
        if self.errors:
            raise self.errors.pop(0)
        return "fine"


def shaky(work: Shaky, **about: Any) -> Any:
    @tool(**about)
    def fetch() -> str:
        """Fetch."""
        return work()

    return fetch


# -- models


def test_e7_a_model_call_is_tried_again_after_what_may_pass(run: Any) -> None:
    model = FakeChatModel(responses=[ModelOverloaded("busy"), ModelOverloaded("busy"), "ok"])
    agent = create_agent(model, middleware=[ModelRetryMiddleware(max_retries=2, **QUICK)])
    assert run.invoke(agent, GO)["messages"][-1].text == "ok"
    assert len(model.requests) == 3


def test_e7_retries_replace_the_models_own_and_never_multiply(run: Any) -> None:
    model = FakeChatModel(responses=[ModelOverloaded("busy")], cycle=True, max_retries=5)
    agent = create_agent(model, middleware=[ModelRetryMiddleware(max_retries=2, **QUICK)])
    with pytest.raises(ModelOverloaded) as caught:
        run.invoke(agent, GO)
    assert len(model.requests) == 3
    assert "tried 3 times" in caught.value.__notes__


def test_e7_what_cannot_pass_is_not_tried_again(run: Any) -> None:
    model = FakeChatModel(responses=[ModelBadRequest("no"), "ok"])
    with pytest.raises(ModelBadRequest):
        run.invoke(create_agent(model, middleware=[ModelRetryMiddleware(**QUICK)]), GO)
    assert len(model.requests) == 1


def test_a_retry_rule_may_be_classes_or_a_function_of_either_colour(run: Any) -> None:
    async def always(error: Exception) -> bool:
        return True

    for rule in (ValueError, (ValueError, KeyError), lambda error: True, always):
        model = FakeChatModel(responses=[ValueError("odd"), "ok"])
        agent = create_agent(model, middleware=[ModelRetryMiddleware(retry_on=rule, **QUICK)])
        assert run.invoke(agent, GO)["messages"][-1].text == "ok"


def test_a_model_that_stays_down_may_end_the_turn_with_words(run: Any) -> None:
    for choice, said in (("continue", "ModelOverloaded: busy"), (lambda error: "Come back later.", "Come back later.")):
        model = FakeChatModel(responses=[ModelOverloaded("busy")], cycle=True)
        agent = create_agent(model, middleware=[ModelRetryMiddleware(max_retries=1, on_failure=choice, **QUICK)])
        assert said in run.invoke(agent, GO)["messages"][-1].text


def test_a_used_up_budget_is_not_tried_again(run: Any) -> None:
    from runwell.agents import Budget

    model = FakeChatModel(responses=[calls("fetch"), calls("fetch")], cycle=True)
    agent = create_agent(
        model,
        [shaky(Shaky())],
        middleware=[ModelRetryMiddleware(retry_on=ModelOverloaded, **QUICK)],
        budget=Budget(model_calls=2),
    )
    with pytest.raises(BudgetExceeded):
        run.invoke(agent, GO)
    assert len(model.requests) == 2


@pytest.mark.parametrize("bad", [{"max_retries": 0}, {"max_delay": 0.1}, {"retry_on": ()}, {"on_failure": "maybe"}])
def test_settings_that_cannot_work_are_refused(bad: dict[str, Any]) -> None:
    for kind in (ModelRetryMiddleware, ToolRetryMiddleware):
        with pytest.raises(InvalidInput):
            kind(**bad)


def test_model_retry_of_create_agent_is_a_number_or_a_middleware(run: Any) -> None:
    for given, tries in ((0, 1), (ModelRetryMiddleware(max_retries=3, **QUICK), 4)):
        model = FakeChatModel(responses=[ModelOverloaded("busy")], cycle=True, max_retries=2)
        with pytest.raises(ModelOverloaded):
            run.invoke(create_agent(model, model_retry=given), GO)
        assert len(model.requests) == tries


# -- tools


def test_e7_a_tool_is_called_again_and_its_call_answered_once(run: Any) -> None:
    work = Shaky(TimeoutError("slow"), ConnectionError("gone"))
    agent = create_agent(
        FakeChatModel(responses=[calls("fetch"), "done"]), [shaky(work)], middleware=[ToolRetryMiddleware(**QUICK)]
    )
    messages = run.invoke(agent, GO)["messages"]
    assert [m.text for m in messages] == ["go", "", "fine", "done"]
    assert work.tries == 3 and not validate_history(messages)


def test_e7_by_default_only_idempotent_tools_are_called_again(run: Any) -> None:
    for about, tries in (({}, 1), ({"idempotent": True}, 2), ({"destructive": True}, 1)):
        work = Shaky(ConnectionError("gone"))
        agent = create_agent(FakeChatModel(responses=[calls("fetch"), "done"]), [shaky(work, **about)])
        run.invoke(agent, GO)
        assert work.tries == tries


def test_the_default_gives_way_to_a_retry_of_ones_own_and_to_none(run: Any) -> None:
    for settings, tries in (({"middleware": [ToolRetryMiddleware(max_retries=4, **QUICK)]}, 5), ({"tool_retry": 0}, 1)):
        work = Shaky(*[ConnectionError("gone")] * 9)
        model = FakeChatModel(responses=[calls("fetch"), "done"])
        run.invoke(create_agent(model, [shaky(work, idempotent=True)], **settings), GO)
        assert work.tries == tries


def test_a_destructive_tool_is_repeated_only_by_name(run: Any) -> None:
    for tools, tries in ((None, 1), (["fetch"], 2)):
        work = Shaky(ConnectionError("gone"))
        agent = create_agent(
            FakeChatModel(responses=[calls("fetch"), "done"]),
            [shaky(work, destructive=True)],
            middleware=[ToolRetryMiddleware(tools=tools, **QUICK)],
        )
        run.invoke(agent, GO)
        assert work.tries == tries


def test_what_a_tool_says_to_the_model_is_not_tried_again(run: Any) -> None:
    work = Shaky(ToolError("no such city"))
    agent = create_agent(
        FakeChatModel(responses=[calls("fetch"), "done"]), [shaky(work)], middleware=[ToolRetryMiddleware(**QUICK)]
    )
    assert run.invoke(agent, GO)["messages"][2].text == "no such city"
    assert work.tries == 1


def test_a_tool_that_stays_down_is_told_or_left_to_the_agent(run: Any) -> None:
    class Odd(Exception):
        pass

    rule: dict[str, Any] = {"retry_on": Odd, "max_retries": 1, **QUICK}
    agent = create_agent(
        FakeChatModel(responses=[calls("fetch"), "done"]),
        [shaky(Shaky(Odd("1"), Odd("2")))],
        middleware=[ToolRetryMiddleware(on_failure="continue", **rule)],
    )
    assert run.invoke(agent, GO)["messages"][2].text == "Odd: 2"
    agent = create_agent(
        FakeChatModel(responses=[calls("fetch")]),
        [shaky(Shaky(Odd("1"), Odd("2")))],
        middleware=[ToolRetryMiddleware(**rule)],
    )
    with pytest.raises(Odd):
        run.invoke(agent, GO)


def test_a_retry_of_a_tool_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidInput, match="did you mean 'fetch'"):
        create_agent(FakeChatModel(responses=[]), [shaky(Shaky())], middleware=[ToolRetryMiddleware(tools=["fetsh"])])


def test_agent_17_a_pause_surfaces_through_retry_fallback_and_error_hooks(run: Any, thread: Any) -> None:
    asked: list[int] = []

    @tool
    def asking() -> str:
        """Ask."""
        asked.append(1)
        return str(interrupt("sure?"))

    other = FakeChatModel(responses=["from the other"])
    middleware = [
        ToolErrorMiddleware(),
        ToolRetryMiddleware(retry_on=Exception, **QUICK),
        ModelRetryMiddleware(retry_on=Exception, **QUICK),
        ModelFallbackMiddleware(other, on=Exception),
    ]
    model = FakeChatModel(responses=[calls("asking"), "done"])
    agent = create_agent(model, [asking], middleware=middleware, checkpointer=InMemorySaver())
    assert run.invoke(agent, GO, thread)["__interrupt__"][0].value == "sure?"
    assert len(asked) == 1 and not other.requests
    assert run.invoke(agent, Command(resume="yes"), thread)["messages"][2].text == "yes"


# -- errors of tools


def test_e3_an_error_of_a_tool_is_told_as_asked(run: Any) -> None:
    async def by_function(error: Exception, request: Any) -> str:
        return f"{request.tool_call['name']} said {error}"

    cases: list[tuple[Any, str]] = [
        (True, "KeyError: 'x'"),
        (KeyError, "KeyError: 'x'"),
        ("Try later.", "Try later."),
        (by_function, "fetch said 'x'"),
    ]
    for rule, said in cases:
        agent = create_agent(
            FakeChatModel(responses=[calls("fetch"), "done"]),
            [shaky(Shaky(KeyError("x")))],
            middleware=[ToolErrorMiddleware(rule)],
        )
        answer = run.invoke(agent, GO)["messages"][2]
        assert (answer.text, answer.status) == (said, "error")


def test_e3_what_is_not_handled_goes_on(run: Any) -> None:
    for rule in (ValueError, lambda error, request: None):
        agent = create_agent(
            FakeChatModel(responses=[calls("fetch")]),
            [shaky(Shaky(KeyError("x")))],
            middleware=[ToolErrorMiddleware(rule)],
        )
        with pytest.raises(KeyError):
            run.invoke(agent, GO)
    with pytest.raises(InvalidInput):
        ToolErrorMiddleware(False)


# -- other models


class ElsewhereModel(FakeChatModel):
    provider = "elsewhere"


def test_h4_the_next_model_answers_when_one_fails(run: Any) -> None:
    for error in (ModelOverloaded("busy"), ModelAuthenticationError("key"), ContextOverflow("long", over=3)):
        second = FakeChatModel(responses=[error])
        third = FakeChatModel(responses=["third"])
        agent = create_agent(FakeChatModel(responses=[error]), [shaky(Shaky())], fallbacks=[second, third])
        assert run.invoke(agent, GO)["messages"][-1].text == "third"
        assert third.requests[0].tool_names == ["fetch"]


def test_h4_an_error_of_the_program_or_the_request_is_raised(run: Any) -> None:
    for error in (ModelBadRequest("malformed"), KeyError("bug")):
        other = FakeChatModel(responses=["other"])
        with pytest.raises(type(error)):
            run.invoke(create_agent(FakeChatModel(responses=[error]), fallbacks=[other]), GO)
        assert not other.requests


def test_h4_when_all_fail_the_error_tells_of_each(run: Any) -> None:
    other = FakeChatModel(responses=[ModelOverloaded("second")])
    with pytest.raises(ModelOverloaded, match="second") as caught:
        run.invoke(create_agent(FakeChatModel(responses=[ModelAuthenticationError("first")]), fallbacks=[other]), GO)
    assert "first" in str(caught.value.__notes__)


def test_h4_another_provider_is_not_sent_what_only_the_first_understands(run: Any, caplog: Any) -> None:
    class Searching(FakeChatModel):
        server_side_tools = ("web_search",)

    from runwell.agents.middleware import wrap_model_call

    @wrap_model_call
    def settings(request: Any, handler: Any) -> Any:
        return handler(request.override(model_settings={"temperature": 0.5, "service_tier": "flex"}))

    block = {"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}
    other = ElsewhereModel(responses=["ok"])
    agent = create_agent(
        Searching(responses=[ModelOverloaded("busy")]),
        [ProviderTool("web_search"), shaky(Shaky())],
        system_prompt=SystemMessage([block]),
        middleware=[settings],
        fallbacks=[other],
    )
    run.invoke(agent, GO)
    asked = other.requests[0]
    assert asked.tool_names == ["fetch"]
    assert asked.kwargs == {"temperature": 0.5}
    assert asked.messages[0].content == [{"type": "text", "text": "be brief"}]
    assert "web_search" in caplog.text and "service_tier" in caplog.text


def test_each_model_has_its_retries_before_the_next_is_asked(run: Any) -> None:
    first = FakeChatModel(responses=[ModelOverloaded("busy")], cycle=True, max_retries=7)
    other = FakeChatModel(responses=[ModelOverloaded("busy"), "ok"], max_retries=7)
    retry = ModelRetryMiddleware(max_retries=1, **QUICK)
    assert run.invoke(create_agent(first, fallbacks=[other], model_retry=retry), GO)["messages"][-1].text == "ok"
    assert (len(first.requests), len(other.requests)) == (2, 2)


def test_a_fallback_that_is_no_model_is_refused() -> None:
    with pytest.raises(InvalidInput):
        create_agent(FakeChatModel(responses=[]), fallbacks=[3])
    with pytest.raises(InvalidInput):
        create_agent(FakeChatModel(responses=[]), fallbacks="openai:gpt-5")
