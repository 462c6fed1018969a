"""Hooks around an agent: order, jumps, both colours, and what they may not do."""

from __future__ import annotations

from typing import Any

import pytest

from runwell.agents import AgentMiddleware, AgentState, Budget, create_agent
from runwell.agents.middleware import (
    ExtendedModelResponse,
    ModelCallLimitMiddleware,
    ModelRequest,
    ModelResponse,
    after_model,
    before_agent,
    before_model,
    dynamic_prompt,
    hook_config,
    wrap_model_call,
    wrap_tool_call,
)
from runwell.errors import BudgetExceeded, InvalidInput, InvalidUpdateError
from runwell.graph import Command, interrupt
from runwell.messages import AIMessage, HumanMessage, ToolMessage
from runwell.persistence import InMemorySaver
from runwell.testing.models import FakeChatModel
from runwell.tools import tool


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def asks(**args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "add", "args": args, "id": "1", "type": "tool_call"}])


GO = {"messages": [HumanMessage("go")]}


def tracer(label: str, log: list[str], colour: str) -> AgentMiddleware:
    """A middleware with every hook, plain or async."""

    class Plain(AgentMiddleware):
        name = label

        def before_agent(self, state: Any, runtime: Any) -> None:
            log.append(f"{label} before_agent")

        def before_model(self, state: Any, runtime: Any) -> None:
            log.append(f"{label} before_model")

        def after_model(self, state: Any, runtime: Any) -> None:
            log.append(f"{label} after_model")

        def after_agent(self, state: Any, runtime: Any) -> None:
            log.append(f"{label} after_agent")

        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            log.append(f"{label} model in")
            made = handler(request)
            log.append(f"{label} model out")
            return made

        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            log.append(f"{label} tool in")
            made = handler(request)
            log.append(f"{label} tool out")
            return made

    class Async(AgentMiddleware):
        name = label

        async def before_agent(self, state: Any, runtime: Any) -> None:
            log.append(f"{label} before_agent")

        async def before_model(self, state: Any, runtime: Any) -> None:
            log.append(f"{label} before_model")

        async def after_model(self, state: Any, runtime: Any) -> None:
            log.append(f"{label} after_model")

        async def after_agent(self, state: Any, runtime: Any) -> None:
            log.append(f"{label} after_agent")

        async def wrap_model_call(self, request: Any, handler: Any) -> Any:
            log.append(f"{label} model in")
            made = await handler(request)
            log.append(f"{label} model out")
            return made

        async def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            log.append(f"{label} tool in")
            made = await handler(request)
            log.append(f"{label} tool out")
            return made

    return {"plain": Plain, "async": Async}[colour]()


@pytest.mark.parametrize("colours", [("plain", "plain"), ("async", "async"), ("plain", "async"), ("async", "plain")])
def test_hooks_nest_like_an_onion_whatever_their_colour(run: Any, colours: tuple[str, str]) -> None:
    log: list[str] = []
    middleware = [tracer("A", log, colours[0]), tracer("B", log, colours[1])]
    model = FakeChatModel(responses=[asks(a=1, b=2), "done"])
    result = run.invoke(create_agent(model, [add], middleware=middleware), GO)
    assert result["messages"][-1].text == "done"
    round_ = ["A before_model", "B before_model", "A model in", "B model in", "B model out", "A model out",
              "B after_model", "A after_model"]  # fmt: skip
    tools = ["A tool in", "B tool in", "B tool out", "A tool out"]
    start, end = ["A before_agent", "B before_agent"], ["B after_agent", "A after_agent"]
    assert log == [*start, *round_, *tools, *round_, *end]


def test_a11_the_graph_shows_just_the_phases_that_have_hooks() -> None:
    agent = create_agent(FakeChatModel(responses=[]), [add], middleware=[tracer("A", [], "plain")])
    assert set(agent.nodes) == {"before_agent", "before_model", "model", "after_model", "tools", "after_agent"}

    @before_model
    def only(state: Any, runtime: Any) -> None: ...

    assert set(create_agent(FakeChatModel(responses=[]), middleware=[only]).nodes) == {"before_model", "model"}


class Visits(AgentState):
    visits: int


def test_a_hook_changes_state_that_later_hooks_and_the_result_see(run: Any) -> None:
    @before_model(state_schema=Visits)
    def first(state: Any, runtime: Any) -> Any:
        return {"visits": state.get("visits", 0) + 1}

    seen: list[int] = []

    @before_model
    def second(state: Any, runtime: Any) -> None:
        seen.append(state["visits"])

    agent = create_agent(FakeChatModel(responses=[asks(a=1, b=2), "done"]), [add], middleware=[first, second])
    assert run.invoke(agent, GO)["visits"] == 2
    assert seen == [1, 2]


def test_agent_13_a_jump_needs_its_mark_and_then_works(run: Any) -> None:
    class Unmarked(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> Any:
            return {"jump_to": "end"}

    class Marked(AgentMiddleware):
        @hook_config(can_jump_to=["end"])
        def before_model(self, state: Any, runtime: Any) -> Any:
            return {"jump_to": "end", "messages": [AIMessage("enough")]}

    with pytest.raises(InvalidUpdateError, match="not marked"):
        run.invoke(create_agent(FakeChatModel(responses=[]), middleware=[Unmarked()]), GO)
    result = run.invoke(create_agent(FakeChatModel(responses=[]), middleware=[Marked(), tracer("B", [], "plain")]), GO)
    assert result["messages"][-1].text == "enough"


def test_agent_13_the_first_before_model_hook_may_jump_to_the_model(run: Any) -> None:
    jumped: list[int] = []

    @before_model(can_jump_to=["model"])
    def first(state: Any, runtime: Any) -> Any:
        jumped.append(1)
        return {"jump_to": "model"} if len(jumped) == 1 else None

    agent = create_agent(FakeChatModel(responses=["ok"]), middleware=[first, tracer("B", [], "plain")])
    assert run.invoke(agent, GO)["messages"][-1].text == "ok"
    assert len(jumped) == 2


def test_f1_a_hook_that_asks_again_uses_up_the_budget(run: Any) -> None:
    @wrap_model_call
    def insist(request: ModelRequest, handler: Any) -> Any:
        while True:
            handler(request)

    model = FakeChatModel(responses=["no"], cycle=True)
    with pytest.raises(BudgetExceeded):
        run.invoke(create_agent(model, middleware=[insist], budget=Budget(model_calls=5)), GO)
    assert len(model.requests) == 5


def test_an_unknown_jump_is_refused_when_marked() -> None:
    with pytest.raises(InvalidInput, match="'nowhere'"):
        hook_config(can_jump_to=["nowhere"])


def test_a_model_hook_may_change_the_request_answer_itself_or_try_again(run: Any) -> None:
    @wrap_model_call
    def retry(request: ModelRequest, handler: Any) -> Any:
        first = handler(request.override(system_prompt="one"))
        return handler(request.override(system_prompt="two")) if first.result[0].text == "bad" else first

    model = FakeChatModel(responses=["bad", "good"])
    result = run.invoke(create_agent(model, middleware=[retry]), GO)
    assert [m.text for m in result["messages"]] == ["go", "good"]
    assert [request.messages[0].text for request in model.requests] == ["one", "two"]

    @wrap_model_call
    def short(request: ModelRequest, handler: Any) -> Any:
        return AIMessage("cached")

    assert (
        run.invoke(create_agent(FakeChatModel(responses=[]), middleware=[short]), GO)["messages"][-1].text == "cached"
    )


def test_a4_a_hook_may_let_another_model_answer(run: Any) -> None:
    other = FakeChatModel(responses=["from the other"])

    @wrap_model_call
    async def swap(request: ModelRequest, handler: Any) -> Any:
        return await handler(request.override(model=other))

    agent = create_agent(FakeChatModel(responses=[]), [add], middleware=[swap])
    assert run.invoke(agent, GO)["messages"][-1].text == "from the other"
    assert other.requests[0].tool_names == ["add"]


def test_c3_a_tool_choice_set_by_a_hook_is_honoured(run: Any) -> None:
    @wrap_model_call
    def force(request: ModelRequest, handler: Any) -> Any:
        return handler(request.override(tool_choice="add"))

    model = FakeChatModel(responses=["ok"])
    run.invoke(create_agent(model, [add], middleware=[force]), GO)
    assert "add" in str(model.requests[0].tool_choice)


def test_an_extended_response_carries_an_update(run: Any) -> None:
    @wrap_model_call(state_schema=Visits)
    def extended(request: ModelRequest, handler: Any) -> Any:
        return ExtendedModelResponse(handler(request), Command(update={"visits": 7}))

    assert run.invoke(create_agent(FakeChatModel(responses=["ok"]), middleware=[extended]), GO)["visits"] == 7


@pytest.mark.parametrize("colour", ["plain", "async"])
def test_the_update_of_an_inner_hook_is_kept_and_that_of_an_outer_one_wins(run: Any, colour: str) -> None:
    class Both(AgentState):
        visits: int
        inner: str

    @wrap_model_call(state_schema=Both)
    def inside(request: ModelRequest, handler: Any) -> Any:
        return ExtendedModelResponse(handler(request), Command(update={"visits": 1, "inner": "kept"}))

    @wrap_model_call
    def plain(request: ModelRequest, handler: Any) -> Any:
        return ExtendedModelResponse(handler(request), Command(update={"visits": 2}))

    @wrap_model_call
    async def aio(request: ModelRequest, handler: Any) -> Any:
        return ExtendedModelResponse(await handler(request), Command(update={"visits": 2}))

    outside = {"plain": plain, "async": aio}[colour]
    result = run.invoke(create_agent(FakeChatModel(responses=["ok"]), middleware=[outside, inside]), GO)
    assert (result["visits"], result["inner"]) == (2, "kept")


def test_the_update_of_an_attempt_that_was_made_again_is_forgotten(run: Any) -> None:
    class Attempt(AgentState):
        bad: str
        good: str

    @wrap_model_call
    def again(request: ModelRequest, handler: Any) -> Any:
        first = handler(request)
        return handler(request) if first.result[0].text == "bad" else first

    @wrap_model_call(state_schema=Attempt)
    def inside(request: ModelRequest, handler: Any) -> Any:
        made = handler(request)
        text = made.result[0].text
        return ExtendedModelResponse(made, Command(update={text: text}))

    result = run.invoke(create_agent(FakeChatModel(responses=["bad", "good"]), middleware=[again, inside]), GO)
    assert result["good"] == "good" and "bad" not in result


def test_an_attempt_without_an_update_forgets_the_one_before(run: Any) -> None:
    @wrap_model_call
    def again(request: ModelRequest, handler: Any) -> Any:
        handler(request)
        return handler(request)

    @wrap_model_call(state_schema=Visits)
    def inside(request: ModelRequest, handler: Any) -> Any:
        made = handler(request)
        return ExtendedModelResponse(made, Command(update={"visits": 1})) if made.result[0].text == "bad" else made

    result = run.invoke(create_agent(FakeChatModel(responses=["bad", "good"]), middleware=[again, inside]), GO)
    assert "visits" not in result


def test_a_hook_that_returns_nonsense_is_named(run: Any) -> None:
    @wrap_model_call
    def wrong(request: ModelRequest, handler: Any) -> Any:
        return "text"

    with pytest.raises(InvalidUpdateError, match=r"^wrong\.wrap_model_call returned 'text'"):
        run.invoke(create_agent(FakeChatModel(responses=[]), middleware=[wrong]), GO)


def test_dynamic_prompt_sets_the_system_message_of_each_call(run: Any) -> None:
    @dynamic_prompt
    def prompt(request: ModelRequest) -> str:
        return f"{len(request.messages)} so far"

    model = FakeChatModel(responses=["ok"])
    run.invoke(create_agent(model, middleware=[prompt]), GO)
    assert model.requests[0].messages[0].text == "1 so far"


def test_a_tool_hook_may_change_the_call_answer_it_or_catch_its_error(run: Any) -> None:
    @wrap_tool_call
    async def double(request: Any, handler: Any) -> Any:
        return await handler(request.override(tool_call={**request.tool_call, "args": {"a": 10, "b": 20}}))

    agent = create_agent(FakeChatModel(responses=[asks(a=1, b=2), "ok"]), [add], middleware=[double])
    assert run.invoke(agent, GO)["messages"][2].content == "30"

    @wrap_tool_call
    def canned(request: Any, handler: Any) -> Any:
        return ToolMessage("canned", tool_call_id=request.tool_call["id"])

    agent = create_agent(FakeChatModel(responses=[asks(a=1, b=2), "ok"]), [add], middleware=[canned])
    assert run.invoke(agent, GO)["messages"][2].content == "canned"


def test_agent_17_a_retry_around_a_tool_lets_a_pause_through(run: Any, thread: Any) -> None:
    @tool
    def asking() -> str:
        """Ask."""
        return str(interrupt("sure?"))

    tries: list[int] = []

    @wrap_tool_call
    def retry(request: Any, handler: Any) -> Any:
        for _ in range(3):
            tries.append(1)
            try:
                return handler(request)
            except Exception:
                continue
        raise AssertionError

    asking_call = AIMessage("", tool_calls=[{"name": "asking", "args": {}, "id": "1", "type": "tool_call"}])
    model = FakeChatModel(responses=[asking_call, "done"])
    agent = create_agent(model, [asking], middleware=[retry], checkpointer=InMemorySaver())
    assert run.invoke(agent, GO, thread)["__interrupt__"][0].value == "sure?"
    assert len(tries) == 1
    assert run.invoke(agent, Command(resume="yes"), thread)["messages"][2].content == "yes"


def test_tools_of_a_middleware_are_offered_and_run(run: Any) -> None:
    class Adder(AgentMiddleware):
        tools = (add,)

    model = FakeChatModel(responses=[asks(a=2, b=3), "five"])
    assert run.invoke(create_agent(model, middleware=[Adder()]), GO)["messages"][2].content == "5"


def test_two_middlewares_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidInput, match="Two middlewares"):
        create_agent(FakeChatModel(responses=[]), middleware=[tracer("A", [], "plain"), tracer("A", [], "plain")])


def test_what_is_no_middleware_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not a middleware"):
        create_agent(FakeChatModel(responses=[]), middleware=[lambda state: None])


def test_idle_hooks_take_no_step_of_their_own_between_others(run: Any, thread: Any) -> None:
    @before_model
    def idle(state: Any, runtime: Any) -> None: ...

    @after_model
    def idle_after(state: Any, runtime: Any) -> None: ...

    @before_agent
    def idle_start(state: Any, runtime: Any) -> None: ...

    model = FakeChatModel(responses=[asks(a=1, b=2), "ok"])
    agent = create_agent(model, [add], middleware=[idle, idle_after, idle_start], checkpointer=InMemorySaver())
    run.invoke(agent, GO, thread)
    ran = [s.metadata.get("ran") for s in run.history(agent, thread)]
    assert ran == [["after_model"], ["model"], ["tools"], ["model"], None]
    assert run.state(agent, thread).next == ()


def test_model_response_is_what_a_handler_gives(run: Any) -> None:
    given: list[Any] = []

    @wrap_model_call
    def look(request: ModelRequest, handler: Any) -> Any:
        given.append(handler(request))
        return given[0]

    run.invoke(create_agent(FakeChatModel(responses=["ok"]), middleware=[look]), GO)
    assert isinstance(given[0], ModelResponse) and given[0].result[0].text == "ok"


class Twins(AgentMiddleware):
    """A hook in both colours, each on its own."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def before_model(self, state: Any, runtime: Any) -> None:
        self.log.append("plain")

    async def abefore_model(self, state: Any, runtime: Any) -> None:
        self.log.append("async")


def test_a_hook_in_both_colours_is_asked_in_the_runs(run: Any) -> None:
    hooks = Twins()
    run.invoke(create_agent(FakeChatModel(responses=["Hi."]), middleware=[hooks]), GO)
    assert hooks.log == ["plain" if run.name == "sync" else "async"]


@pytest.mark.parametrize("written", ["before_model", "abefore_model"])
@pytest.mark.parametrize("base", ["a user's", "ready-made"])
def test_a_hook_that_a_class_writes_anew_in_one_colour_stands_for_both(run: Any, written: str, base: str) -> None:
    log: list[str] = []

    def plain(self: Any, state: Any, runtime: Any) -> None:
        log.append("own")

    async def coloured(self: Any, state: Any, runtime: Any) -> None:
        log.append("own")

    body = {written: plain if written == "before_model" else coloured}
    if base == "a user's":
        hooks: Any = type("Own", (Twins,), body)()
    else:
        hooks = type("Own", (ModelCallLimitMiddleware,), body)(run_limit=5)
    run.invoke(create_agent(FakeChatModel(responses=["Hi."]), middleware=[hooks]), GO)
    assert log == ["own"]
    assert getattr(hooks, "log", []) == []
