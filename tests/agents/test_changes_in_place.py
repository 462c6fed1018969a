"""What a hook changes in place in its request: it is seen by what the hook calls, and by nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runwell.agents import AgentMiddleware, ToolNode, create_agent
from runwell.agents.middleware import (
    ExtendedModelResponse,
    ModelFallbackMiddleware,
    ModelRefusalMiddleware,
    ModelRetryMiddleware,
    ToolRetryMiddleware,
)
from runwell.errors import InvalidInput, InvalidUpdateError, ModelOverloaded
from runwell.graph import Command
from runwell.messages import AIMessage, HumanMessage, SystemMessage
from runwell.persistence import InMemorySaver
from runwell.runnables import RunnableLambda
from runwell.testing.models import FakeChatModel
from runwell.tools import tool

GO = {"messages": [HumanMessage("go")]}


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def more() -> str:
    """Tell more."""
    return "more"


def asks(name: str = "add", **args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": "1", "type": "tool_call"}])


def hooked(hook: str, function: Callable[..., Any]) -> AgentMiddleware:
    made: AgentMiddleware = type("Own", (AgentMiddleware,), {hook: function})()
    return made


def remind(self: Any, request: Any, handler: Any) -> Any:
    request.system_message = SystemMessage(f"{request.system_prompt or ''}!")
    request.messages.append(HumanMessage("Be brief."))
    request.tools.append(more)
    return handler(request)


async def remind_async(self: Any, request: Any, handler: Any) -> Any:
    request.system_message = SystemMessage(f"{request.system_prompt or ''}!")
    request.messages.append(HumanMessage("Be brief."))
    request.tools.append(more)
    return await handler(request)


REFUSED = AIMessage("No.", response_metadata={"finish_reason": "content_filter"})


@pytest.mark.parametrize("hook", [remind, remind_async])
@pytest.mark.parametrize("kind", ["retry", "fallback", "refusal"])
def test_a_second_try_begins_with_the_request_as_it_was(run: Any, kind: str, hook: Any) -> None:
    first = FakeChatModel([REFUSED if kind == "refusal" else ModelOverloaded("busy"), "Fine."])
    second = FakeChatModel(["Fine."])
    around = {
        "retry": lambda: ModelRetryMiddleware(initial_delay=0.0),
        "fallback": lambda: ModelFallbackMiddleware(second),
        "refusal": lambda: ModelRefusalMiddleware(second),
    }[kind]()
    agent = create_agent(first, [add], middleware=[around, hooked("wrap_model_call", hook)], model_retry=0)
    assert run.invoke(agent, GO)["messages"][-1].text == "Fine."
    requests = [*first.requests, *second.requests]
    assert [[message.text for message in each.messages] for each in requests] == [["!", "go", "Be brief."]] * 2
    assert [each.tool_names for each in requests] == [["add", "more"]] * 2


def test_a_second_try_of_a_tool_begins_with_the_arguments_as_they_were(run: Any) -> None:
    tried: list[str] = []

    @tool(idempotent=True)
    def look(where: str) -> str:
        """Look."""
        tried.append(where)
        if len(tried) == 1:
            raise TimeoutError("slow")
        return where

    def mark(self: Any, request: Any, handler: Any) -> Any:
        request.tool_call["args"]["where"] += "!"
        return handler(request)

    model = FakeChatModel([asks("look", where="here"), "Done."])
    retry = ToolRetryMiddleware(initial_delay=0.0)
    run.invoke(create_agent(model, [look], middleware=[retry, hooked("wrap_tool_call", mark)]), GO)
    assert tried == ["here!", "here!"]


def twice(self: Any, request: Any, handler: Any) -> Any:
    handler(request)
    return handler(request)


async def twice_async(self: Any, request: Any, handler: Any) -> Any:
    await handler(request)
    return await handler(request)


@pytest.mark.parametrize("inner", [remind, remind_async])
@pytest.mark.parametrize("outer", [twice, twice_async])
@pytest.mark.parametrize("between", [0, 2])
def test_a_hook_that_asks_again_begins_with_the_request_as_it_was(
    run: Any, outer: Any, inner: Any, between: int
) -> None:
    model = FakeChatModel(["No.", "Fine."])
    seen: list[Any] = []

    def looks(self: Any, request: Any, handler: Any) -> Any:
        reply = handler(request)
        seen.append((request.system_prompt, len(request.messages), len(request.tools)))
        return reply

    hooks = [outer, *[looks] * between, inner]
    agent = create_agent(
        model, [add], middleware=[named(f"h{n}", "wrap_model_call", hook) for n, hook in enumerate(hooks)]
    )
    assert run.invoke(agent, GO)["messages"][-1].text == "Fine."
    assert [[message.text for message in each.messages] for each in model.requests] == [["!", "go", "Be brief."]] * 2
    assert [each.tool_names for each in model.requests] == [["add", "more"]] * 2
    assert seen == [(None, 1, 1)] * 2 * between  # what a hook inside changes is no business of those around it


@pytest.mark.parametrize("outer", [twice, twice_async])
def test_a_hook_that_calls_a_tool_again_begins_with_the_arguments_as_they_were(run: Any, outer: Any) -> None:
    tried: list[str] = []

    @tool
    def look(where: str, deep: dict[str, list[str]]) -> str:
        """Look."""
        tried.append(f"{where} {deep['in']}")
        return where

    def mark(self: Any, request: Any, handler: Any) -> Any:
        request.tool_call["args"]["where"] += "!"
        request.tool_call["args"]["deep"]["in"].append("!")
        return handler(request)

    model = FakeChatModel([asks("look", where="here", deep={"in": ["box"]}), "Done."])
    hooks = [named("outer", "wrap_tool_call", outer), named("inner", "wrap_tool_call", mark)]
    run.invoke(create_agent(model, [look], middleware=hooks), GO)
    assert tried == ["here! ['box', '!']"] * 2


def named(name: str, hook: str, function: Callable[..., Any]) -> AgentMiddleware:
    made: AgentMiddleware = type(name, (AgentMiddleware,), {hook: function})()
    return made


@pytest.mark.parametrize("saved", [False, True])
def test_the_history_keeps_the_call_that_a_hook_changed_as_the_model_wrote_it(
    run: Any, thread: dict[str, Any], saved: bool
) -> None:
    def change(self: Any, request: Any, handler: Any) -> Any:
        request.tool_call["args"]["a"]["deep"] = 100
        return handler(request)

    @tool
    def total(a: dict[str, int]) -> int:
        """Add all up."""
        return sum(a.values())

    agent = create_agent(
        FakeChatModel([asks("total", a={"one": 1}), "Done."]),
        [total],
        middleware=[hooked("wrap_tool_call", change)],
        checkpointer=InMemorySaver() if saved else None,
    )
    messages = run.invoke(agent, GO, thread)["messages"]
    assert messages[1].tool_calls[0]["args"] == {"a": {"one": 1}}
    assert messages[2].text == "101"


@pytest.mark.parametrize("command", [Command(goto="tools"), Command(resume=1), {"messages": []}])
def test_what_a_response_cannot_bring_along_is_refused(run: Any, command: Any) -> None:
    def around(self: Any, request: Any, handler: Any) -> Any:
        return ExtendedModelResponse(handler(request), command)

    agent = create_agent(FakeChatModel(["Hello."]), middleware=[hooked("wrap_model_call", around)])
    with pytest.raises(InvalidUpdateError, match="with its response") as caught:
        run.invoke(agent, GO)
    assert "Command(update={...})" in (caught.value.hint or "")


WRONG: dict[str, Callable[..., Any]] = {
    "returned": lambda self, request, handler: 5,
    "called its handler with": lambda self, request, handler: handler(5),
}


@pytest.mark.parametrize("hook", ["wrap_model_call", "wrap_tool_call"])
@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_hook_that_gives_what_it_may_not_is_named(run: Any, hook: str, wrong: str, at: int) -> None:
    def passes(self: Any, request: Any, handler: Any) -> Any:
        return handler(request)

    hooks = [named(f"h{place}", hook, WRONG[wrong] if place == at else passes) for place in range(3)]
    agent = create_agent(FakeChatModel([asks(a=1, b=2), "Done."]), [add], middleware=hooks)
    with pytest.raises(InvalidUpdateError, match=rf"^h{at}\.{hook} {wrong} 5\."):
        run.invoke(agent, GO)


@pytest.mark.parametrize("hook", ["wrap_model_call", "wrap_tool_call"])
@pytest.mark.filterwarnings("error")
def test_a_handler_that_was_not_awaited_is_told_as_such(run: Any, hook: str) -> None:
    async def forgetful(self: Any, request: Any, handler: Any) -> Any:
        return handler(request)

    agent = create_agent(FakeChatModel([asks(a=1, b=2), "Done."]), [add], middleware=[hooked(hook, forgetful)])
    with pytest.raises(InvalidUpdateError, match="a coroutine that nothing awaited") as caught:
        run.invoke(agent, GO)
    assert "return await handler(request)" in (caught.value.hint or "")


AROUND: dict[str, Callable[[FakeChatModel], Any]] = {
    "config": lambda model: model.with_config(tags=["mine"]),
    "retry": lambda model: model.with_retry(wait_exponential_jitter=False),
    "fallbacks": lambda model: FakeChatModel([ModelOverloaded("busy")], cycle=True).with_fallbacks([model]),
    "listeners": lambda model: model.with_listeners(on_end=lambda run: None).with_config(tags=["mine"]),
}


@pytest.mark.parametrize("around", list(AROUND))
def test_tools_are_bound_through_what_stands_around_a_model(run: Any, around: str) -> None:
    model = FakeChatModel([asks(a=1, b=2), "Done."])
    assert run.invoke(create_agent(AROUND[around](model), [add]), GO)["messages"][-1].text == "Done."
    assert [request.tool_names for request in model.requests] == [["add"], ["add"]]


def test_a_config_around_a_model_is_that_of_each_call(run: Any) -> None:
    heard: list[Any] = []
    model = FakeChatModel([asks(a=1, b=2), "Done."]).with_config(tags=["mine"])
    listened = model.with_listeners(on_end=lambda run: heard.append(run.tags))
    run.invoke(create_agent(listened, [add]), GO)
    assert heard == [["mine"], ["mine"]]


def test_a_model_that_takes_no_tools_is_refused_also_from_a_hook(run: Any) -> None:
    def other(self: Any, request: Any, handler: Any) -> Any:
        return handler(request.override(model=RunnableLambda(lambda given: AIMessage("Hello."))))

    agent = create_agent(FakeChatModel([]), [add], middleware=[hooked("wrap_model_call", other)])
    with pytest.raises(InvalidInput, match="takes no tools"):
        run.invoke(agent, GO)


def test_a_model_that_takes_no_tools_is_refused_when_the_agent_is_built() -> None:
    model = RunnableLambda(lambda given: AIMessage("Hello."))
    assert create_agent(model).invoke(GO)["messages"][-1].text == "Hello."
    for parts in ({"tools": [add]}, {"response_format": {"title": "Answer", "type": "object", "properties": {}}}):
        with pytest.raises(InvalidInput, match=r"takes no tools.*no bind_tools") as caught:
            create_agent(model, **parts)  # type: ignore[arg-type]
        assert "Pass a chat model" in (caught.value.hint or "")


def test_every_middleware_and_hook_that_is_wrong_is_told() -> None:
    class Bad(AgentMiddleware):
        def before_model(self) -> None: ...

        def wrap_tool_call(self, request: Any) -> None: ...

    with pytest.raises(InvalidInput) as caught:
        create_agent(
            FakeChatModel([]),
            middleware=["none", Bad()],  # type: ignore[list-item]
            fallbacks="none",
            model_retry=-1,
            tool_retry=-2,
            approvals=["absent"],
        )
    for said in ("'none'", "Bad.before_model", "Bad.wrap_tool_call", "fallbacks=", "-1", "-2", "absent"):
        assert said in caught.value.message, said


def test_a_tool_node_by_hand_keeps_the_call_as_the_model_wrote_it(run: Any) -> None:
    def change(request: Any, handler: Any) -> Any:
        request.tool_call["args"]["a"] = 100
        return handler(request)

    reply = asks(a=1, b=2)
    [answer] = run.invoke(ToolNode([add], wrap_tool_call=change), [reply])
    assert (answer.text, reply.tool_calls[0]["args"]) == ("102", {"a": 1, "b": 2})


def test_a_tool_node_refuses_listed_calls_of_one_id(run: Any) -> None:
    [call] = asks(a=1, b=2).tool_calls
    with pytest.raises(InvalidInput, match="Several calls have the id '1'"):
        run.invoke(ToolNode([add]), [call, call])


def test_a_request_that_a_hook_keeps_is_read_later_as_it_was(run: Any) -> None:
    """What is in a request is the hook's own, whenever it first looks at it."""
    kept: list[Any] = []

    def keeps(self: Any, request: Any, handler: Any) -> Any:
        kept.append(request)
        return handler(request)

    model = FakeChatModel([asks(a=1, b=2), "Done."])
    hooks = [named(name, "wrap_model_call", keeps) for name in ("outer", "inner")]
    state = run.invoke(create_agent(model, [add], middleware=hooks), GO)
    assert [[message.type for message in each.messages] for each in kept] == [["human"]] * 2 + [
        ["human", "ai", "tool"]
    ] * 2
    assert [each.runtime.execution_info.node for each in kept] == ["model"] * 4
    kept[0].messages.clear()
    kept[0].tools.clear()
    kept[0].model_settings["temperature"] = 1.0
    assert [(len(each.messages), len(each.tools), each.model_settings) for each in kept[1:]] == [
        (1, 1, {}), (3, 1, {}), (3, 1, {}),
    ]  # fmt: skip
    assert len(state["messages"]) == 4
    assert kept[1].override(tools=[]).messages == kept[1].messages


@pytest.mark.parametrize("reads", ["outer", "inner", "both"])
def test_reading_the_messages_changes_nothing(run: Any, reads: str) -> None:
    def looks(self: Any, request: Any, handler: Any) -> Any:
        if reads in ("both", self.name):
            assert [message.text for message in request.messages] == ["go"]
            assert [each.name for each in request.tools] == ["add"]
        return handler(request)

    model = FakeChatModel(["Done."])
    hooks = [named(name, "wrap_model_call", looks) for name in ("outer", "inner")]
    run.invoke(create_agent(model, [add], middleware=hooks), GO)
    [request] = model.requests
    assert ([message.text for message in request.messages], request.tool_names) == (["go"], ["add"])


def test_what_an_outer_hook_changed_is_what_an_inner_one_is_given(run: Any) -> None:
    seen: list[str] = []

    def looks(self: Any, request: Any, handler: Any) -> Any:
        seen.extend(message.text for message in request.messages)
        request.messages.append(HumanMessage("Please."))
        return handler(request)

    model = FakeChatModel(["Done."])
    hooks = [named("outer", "wrap_model_call", remind), named("inner", "wrap_model_call", looks)]
    run.invoke(create_agent(model, [add], middleware=hooks), GO)
    assert seen == ["go", "Be brief."]
    assert [message.text for message in model.requests[0].messages] == ["!", "go", "Be brief.", "Please."]
