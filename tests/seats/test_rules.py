"""Seats whose answer shows only across rooms: what the model sees, what leaves, what a tool's return becomes."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from runwell.agents import ProviderStrategy, create_agent
from runwell.agents.middleware import wrap_model_call
from runwell.errors import InvalidUpdateError
from runwell.graph import Command
from runwell.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from runwell.observe import DecisionLog
from runwell.persistence import InMemorySaver, InMemoryStore
from runwell.testing.models import FakeChatModel
from runwell.tools import InjectedStore, tool


def asks(name: str, id: str = "1", **args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": id, "type": "tool_call"}])


def go(text: str = "go") -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Answer(BaseModel):
    """The answer."""

    total: int


def test_b2_the_model_sees_the_whole_conversation(run: Any) -> None:
    model = FakeChatModel(responses=["noted"], cycle=True)
    agent = create_agent(model, checkpointer=InMemorySaver())
    for turn in range(12):
        run.invoke(agent, go(f"turn {turn} " + "x" * 5000), {"configurable": {"thread_id": "t"}})
    assert len(model.requests[-1].messages) == 23
    assert model.requests[-1].messages[0].text.startswith("turn 0 ")


def test_b5_every_tool_is_offered_at_every_call_unless_a_hook_selects(run: Any) -> None:
    @tool
    def other() -> str:
        """Do something else."""
        return ""

    model = FakeChatModel(responses=[asks("add", a=1, b=2), "done"])
    run.invoke(create_agent(model, [add, other]), go())
    assert [request.tool_names for request in model.requests] == [["add", "other"]] * 2

    @wrap_model_call
    def one_only(request: Any, handler: Any) -> Any:
        return handler(request.override(tools=request.tools[:1]))

    model = FakeChatModel(responses=["done"])
    run.invoke(create_agent(model, [add, other], middleware=[one_only]), go())
    assert model.requests[0].tool_names == ["add"]


def test_b7_the_shape_is_a_tool_or_the_providers_response_format(run: Any) -> None:
    model = FakeChatModel(responses=[asks("Answer", total=3)])
    assert run.invoke(create_agent(model, response_format=Answer), go())["structured_response"] == Answer(total=3)
    assert model.requests[0].tool_names == ["Answer"]
    model = FakeChatModel(responses=['{"total": 3}'])
    agent = create_agent(model, response_format=ProviderStrategy(Answer))
    assert run.invoke(agent, go())["structured_response"] == Answer(total=3)
    assert model.requests[0].tool_names == []
    assert "total" in str(model.requests[0].kwargs["response_format"])


def test_d2_a_hook_inspects_what_leaves_and_may_refuse_it(run: Any) -> None:
    @wrap_model_call
    def guard(request: Any, handler: Any) -> Any:
        if "password" in request.messages[-1].text:
            return AIMessage("This was not sent.")
        return handler(request)

    model = FakeChatModel(responses=["hello"])
    agent = create_agent(model, middleware=[guard])
    assert run.invoke(agent, go("my password is tulip"))["messages"][-1].text == "This was not sent."
    assert model.requests == []
    assert run.invoke(agent, go("hi"))["messages"][-1].text == "hello"
    row = agent.seats()["D2"]
    assert row.status == "held"
    assert "guard stands around each call" in row.answer


def test_d3_e11_a_tools_command_is_checked_against_the_state_and_the_graph(run: Any) -> None:
    @tool
    def wander(place: str, key: str) -> Any:
        """Go somewhere."""
        return Command(update={key: []}, goto=place)

    agent = create_agent(FakeChatModel(responses=[asks("wander", place="model", key="massages")]), [wander])
    with pytest.raises(InvalidUpdateError, match="'massages', which is not a key of the state"):
        run.invoke(agent, go())
    agent = create_agent(FakeChatModel(responses=[asks("wander", place="modal", key="messages")]), [wander])
    with pytest.raises(InvalidUpdateError, match="modal"):
        run.invoke(agent, go())


def test_e9_e13_a_return_becomes_a_message_and_its_artifact_is_kept_apart(run: Any) -> None:
    @tool
    def table() -> dict[str, int]:
        """A table."""
        return {"rows": 2}

    @tool(response_format="content_and_artifact")
    def chart() -> tuple[str, bytes]:
        """A chart."""
        return "a chart of two rows", b"\x89PNG"

    model = FakeChatModel(responses=[asks("table"), asks("chart", "2"), "done"])
    messages = run.invoke(create_agent(model, [table, chart]), go())["messages"]
    first, second = (message for message in messages if isinstance(message, ToolMessage))
    assert first.text == '{"rows":2}'
    assert (second.text, second.artifact) == ("a chart of two rows", b"\x89PNG")
    assert "PNG" not in str([message.text for message in model.requests[-1].messages])


def test_e10_a_malformed_call_is_answered_by_its_id_and_never_run(run: Any) -> None:
    bad = AIMessage("", invalid_tool_calls=[{"name": "add", "args": '{"a": 1', "id": "7", "error": "cut short"}])
    model = FakeChatModel(responses=[bad, "sorry"])
    run.invoke(create_agent(model, [add]), go())
    (told,) = (message for message in model.requests[1].messages if isinstance(message, ToolMessage))
    assert (told.tool_call_id, told.status) == ("7", "error")
    assert "cut short" in told.text


def test_h3_an_agent_called_in_a_tool_is_saved_by_its_parents_checkpointer(run: Any) -> None:
    """It pauses with the parent's thread and goes on where it was; its conversation is not the parent's."""
    thinker = FakeChatModel(responses=[asks("add", "inner", a=6, b=9), "fifteen"])
    child = create_agent(thinker, [add], approvals="all", name="child")

    @tool
    def think(about: str) -> str:
        """Think."""
        return child.invoke(go(about))["messages"][-1].text  # type: ignore[no-any-return]

    model = FakeChatModel(responses=[asks("think", about="six and nine"), "It is 15."])
    agent = create_agent(model, [think], checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    (question,) = run.invoke(agent, go("what is it?"), config)["__interrupt__"]
    assert question.value["action_requests"][0]["name"] == "add"
    result = run.invoke(agent, Command(resume={"decisions": {"inner": {"type": "approve"}}}), config)
    assert [message.text for message in result["messages"]] == ["what is it?", "", "fifteen", "It is 15."]
    assert len(thinker.requests) == 2, "what the child had done before the pause is not done again"


def test_i1_nothing_outlives_the_conversation_but_what_a_tool_puts_into_the_store(run: Any) -> None:
    @tool
    def remember(fact: str, store: Annotated[Any, InjectedStore()]) -> str:
        """Remember a fact."""
        store.put(("facts",), "one", {"text": fact})
        return "noted"

    store = InMemoryStore()
    run.invoke(create_agent(FakeChatModel(responses=["hi"]), [remember], store=store), go())
    assert store.search(("facts",)) == []
    agent = create_agent(FakeChatModel(responses=[asks("remember", fact="tea"), "ok"]), [remember], store=store)
    run.invoke(agent, go())
    assert [item.value for item in store.search(("facts",))] == [{"text": "tea"}]
    assert agent.seats()["I1"].holder == "external"


def test_i2_what_is_not_known_of_a_model_is_visible_and_can_be_told() -> None:
    unknown = create_agent(FakeChatModel(responses=[]), response_format=Answer)
    assert unknown.seats()["I2"].status == "nobody"
    assert unknown.seats()["G5"].answer == "By a tool."
    told = create_agent(FakeChatModel(responses=[], profile={"structured_output": True}), response_format=Answer)
    assert told.seats()["I2"].answer == "structured_output=True."
    assert told.seats()["G5"].answer == "By the provider's own structured output."


PLACES = [
    ("a text", "Speak Latin.", "Be brief.\n\nSpeak Latin."),
    (
        "blocks",
        [{"type": "text", "text": "Speak Latin."}],
        [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Speak Latin."}],
    ),
]


@pytest.mark.parametrize(("late", "merged"), [case[1:] for case in PLACES], ids=[case[0] for case in PLACES])
def test_b9_a_late_system_message_goes_to_the_top_where_a_model_takes_it_only_there(
    run: Any, late: Any, merged: Any
) -> None:
    log = DecisionLog()
    model = FakeChatModel(responses=["ave", "vale"], profile={"system_in_middle": False})
    agent = create_agent(model, system_prompt="Be brief.", checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}, "callbacks": [log]}
    run.invoke(agent, go(), config)
    result = run.invoke(agent, {"messages": [SystemMessage(late), HumanMessage("more")]}, config)
    sent = model.requests[1].messages
    assert [message.type for message in sent] == ["system", "human", "ai", "human"]
    assert sent[0].content == merged
    assert [message.type for message in result["messages"]] == ["human", "ai", "system", "human", "ai"]
    [moved] = log.of("B9")
    assert moved.outcome == "1 moved to the top" and moved.holder == "code"
    assert "recorded" in agent.seats()["B9"].answer


@pytest.mark.parametrize("profile", [{"system_in_middle": True}, {}, None])
def test_b9_it_stays_in_place_otherwise(run: Any, profile: Any) -> None:
    log = DecisionLog()
    model = FakeChatModel(responses=["ave"], profile=profile)
    messages = [HumanMessage("go"), AIMessage("yes"), SystemMessage("Speak Latin."), HumanMessage("more")]
    run.invoke(create_agent(model), {"messages": messages}, {"callbacks": [log]})
    assert [message.type for message in model.requests[0].messages] == ["human", "ai", "system", "human"]
    assert log.of("B9") == []


def test_b9_without_one_at_the_top_the_late_one_is_the_first(run: Any) -> None:
    model = FakeChatModel(responses=["ave"] * 2, profile={"system_in_middle": False})
    late = SystemMessage("Speak Latin.")
    run.invoke(model, [HumanMessage("go"), late, HumanMessage("more")])
    assert model.requests[0].messages[0] is late
    run.invoke(model, [late, HumanMessage("go")])
    assert [message.type for message in model.requests[1].messages] == ["system", "human"]
