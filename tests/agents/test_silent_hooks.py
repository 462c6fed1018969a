"""Hooks with nothing to say: what follows them runs in the same task, and nothing but the time tells."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from runwell.agents import AgentMiddleware, create_agent
from runwell.agents.middleware import wrap_model_call
from runwell.errors import GraphRecursionError, InvalidUpdateError
from runwell.graph import Command, interrupt
from runwell.messages import AIMessage, HumanMessage, SystemMessage, add_messages
from runwell.observe import DecisionLog
from runwell.persistence import InMemorySaver
from runwell.testing.models import FakeChatModel
from runwell.tools import ToolRuntime, tool

GO = {"messages": [HumanMessage("go")]}
REQUEST: ContextVar[str] = ContextVar("request", default="none")


def asks(number: int = 1, name: str = "look") -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": {}, "id": str(number), "type": "tool_call"}])


class Silent(AgentMiddleware):
    """Every hook, none of which says anything; `places` is where they were."""

    def __init__(self) -> None:
        self.places: list[tuple[str, int, str]] = []

    def note(self, name: str, runtime: Any) -> None:
        info = runtime.execution_info
        self.places.append((name, info.step, info.task_id))
        REQUEST.set(name)

    def before_agent(self, state: Any, runtime: Any) -> None:
        self.note("before_agent", runtime)

    def before_model(self, state: Any, runtime: Any) -> None:
        self.note("before_model", runtime)

    def after_model(self, state: Any, runtime: Any) -> None:
        self.note("after_model", runtime)


def test_steps_count_and_are_named_as_when_somebody_watches(run: Any) -> None:
    def play(**config: Any) -> list[Any]:
        silent = Silent()

        @tool
        def look(runtime: ToolRuntime[Any, Any]) -> str:
            """Look."""
            silent.note("look", runtime)
            return "seen"

        agent = create_agent(FakeChatModel(responses=[asks(), asks(2), "done"]), [look], middleware=[silent])
        run.invoke(agent, GO, config or None)
        return silent.places

    places = play()
    assert places == play(callbacks=[DecisionLog()])
    assert [(name, step) for name, step, _ in places] == [
        ("before_agent", 1), ("before_model", 2), ("after_model", 4), ("look", 5), ("before_model", 6),
        ("after_model", 8), ("look", 9), ("before_model", 10), ("after_model", 12),
    ]  # fmt: skip


def test_what_a_hook_sets_does_not_reach_the_model_and_the_tools(run: Any) -> None:
    seen: list[str] = []

    @tool
    def look() -> str:
        """Look."""
        seen.append(REQUEST.get())
        return "seen"

    def answers(messages: list[Any]) -> Any:
        seen.append(REQUEST.get())
        return asks() if len(messages) == 1 else "done"

    run.invoke(create_agent(FakeChatModel(responses=[answers, answers]), [look], middleware=[Silent()]), GO)
    assert seen == ["none"] * 3


@pytest.mark.parametrize("limit", range(1, 12))
def test_the_step_limit_holds_at_every_step(run: Any, limit: int) -> None:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    def play(**config: Any) -> tuple[str, Any]:
        saver = InMemorySaver()
        agent = create_agent(
            FakeChatModel(responses=[asks(), "done"]), [look], middleware=[Silent()], checkpointer=saver
        )
        config = {"recursion_limit": limit, "configurable": {"thread_id": "t"}, **config}
        try:
            said = run.invoke(agent, GO, config)["messages"][-1].text
        except GraphRecursionError as error:
            said = str(error)
        state = run.state(agent, {"configurable": {"thread_id": "t"}})
        return said, (state.next, [message.type for message in state.values["messages"]])

    assert play() == play(callbacks=[DecisionLog()])


def test_a_pause_behind_silent_hooks_goes_on_where_it_stood(run: Any, thread: dict[str, Any]) -> None:
    ran: list[str] = []

    @tool
    def look() -> str:
        """Look."""
        answer = interrupt("may I?")
        ran.append(answer)
        return "seen"

    agent = create_agent(
        FakeChatModel(responses=[asks(), "done"]), [look], middleware=[Silent()], checkpointer=InMemorySaver()
    )
    paused = run.invoke(agent, GO, thread)
    assert [question.value for question in paused["__interrupt__"]] == ["may I?"]
    result = run.invoke(agent, Command(resume="yes"), thread)
    assert result["messages"][-1].text == "done"
    assert ran == ["yes"]


def test_a_hook_that_changes_a_list_in_place_is_named(run: Any, thread: dict[str, Any]) -> None:
    class Careless(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> None:
            state["messages"].append(HumanMessage("more"))

    agent = create_agent(FakeChatModel(responses=["done"]), middleware=[Careless()], checkpointer=InMemorySaver())
    with pytest.raises(InvalidUpdateError, match="before_model"):
        run.invoke(agent, GO, thread)


def _another_list(request: Any) -> None:
    request.messages = add_messages(request.messages[:-1], [HumanMessage("another")])


CHANGES: dict[str, Callable[[Any], Any]] = {
    "a message added": lambda request: request.messages.append(HumanMessage("more")),
    "a message in place of another": lambda request: request.messages.__setitem__(-1, HumanMessage("another")),
    "another list, as long": _another_list,
    "the tools taken out": lambda request: request.tools.clear(),
    "a system message": lambda request: setattr(request, "system_message", SystemMessage("be brief")),
    "a tool choice": lambda request: setattr(request, "tool_choice", "look"),
    "a setting": lambda request: request.model_settings.update(temperature=0.5),
    "nothing": lambda request: None,
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_a_hook_changes_in_the_request_it_was_given_is_sent(run: Any, what: str) -> None:
    """A request that hooks leave alone goes out as the agent made it; whatever they change in it, in place too, counts
    for this call and is not in the state."""

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    @wrap_model_call
    def changing(request: Any, handler: Any) -> Any:
        CHANGES[what](request)
        return handler(request)

    def sent(*middleware: Any) -> tuple[list[str], Any]:
        model = FakeChatModel(responses=["ok"])
        state = run.invoke(create_agent(model, [look], middleware=middleware), GO)
        assert [message.text for message in state["messages"]] == ["go", "ok"]
        [asked] = model.requests
        return [message.text for message in asked.messages], (asked.tool_names, asked.tool_choice, asked.kwargs)

    assert (sent(changing) == sent()) == (what == "nothing")


def test_a_hook_that_asks_twice_may_change_the_request_in_between(run: Any) -> None:
    @wrap_model_call
    def twice(request: Any, handler: Any) -> Any:
        handler(request)
        request.messages.append(HumanMessage("once more"))
        return handler(request)

    model = FakeChatModel(responses=["one", "two"])
    state = run.invoke(create_agent(model, [], middleware=[twice]), GO)
    assert [[message.text for message in request.messages] for request in model.requests] == [
        ["go"],
        ["go", "once more"],
    ]
    assert [message.text for message in state["messages"]] == ["go", "two"]
