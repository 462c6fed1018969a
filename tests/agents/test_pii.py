"""Personal data in an agent: what a model is sent, what it says, what tools get and give, and who sees it."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from runwell.agents import AgentLimits, Budget, ProviderStrategy, ToolStrategy, create_agent
from runwell.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    PIIDetectionError,
    PIIMiddleware,
    SummarizationMiddleware,
)
from runwell.errors import BudgetExceeded, InvalidInput, ModelOverloaded
from runwell.graph import Command
from runwell.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from runwell.models import BaseChatModel, ChatGeneration, ChatGenerationChunk, ChatResult
from runwell.observe import DecisionLog
from runwell.persistence import InMemorySaver, SqliteSaver
from runwell.runnables import RunnableLambda
from runwell.testing.models import FakeChatModel
from runwell.tools import ToolException, tool

MAIL = "bob@example.com"
CARD = "4111 1111 1111 1111"


def call(name: str = "send", /, **args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": "c1", "type": "tool_call"}])


def sender(got: list[Any], answer: str = "sent") -> Any:
    @tool
    def send(to: Any, text: str = "") -> str:
        """Send a mail."""
        got.append((to, text) if text else to)
        return answer.format(to=to)

    return send


def said(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


# -- on the way to the model


def test_agent_14_d14_every_message_that_leaves_is_clean_and_the_history_stays(run: Any) -> None:
    model = FakeChatModel(responses=["ok"])
    agent = create_agent(model, middleware=[PIIMiddleware("email")], system_prompt="Owner: root@example.org.")
    history = [HumanMessage(f"I am {MAIL}"), AIMessage(f"Hello {MAIL}"), HumanMessage("and now?")]
    result = run.invoke(agent, {"messages": history})
    sent = [message.text for message in model.requests[0].messages]
    assert sent == ["Owner: [REDACTED_EMAIL].", "I am [REDACTED_EMAIL]", "Hello [REDACTED_EMAIL]", "and now?"]
    assert result["messages"][0].text == f"I am {MAIL}"


def test_agent_14_d15_block_raises_for_an_older_message_and_names_no_value(run: Any) -> None:
    model = FakeChatModel(responses=["ok"])
    agent = create_agent(model, middleware=[PIIMiddleware("email", strategy="block")])
    history = [HumanMessage(f"I am {MAIL}"), AIMessage("Hello"), HumanMessage("and now?")]
    with pytest.raises(PIIDetectionError) as raised:
        run.invoke(agent, {"messages": history})
    assert (raised.value.pii_type, raised.value.count) == ("email", 1)
    assert MAIL not in str(raised.value)
    assert model.requests == []


def test_agent_15_d14_arguments_are_redacted_and_blocks_stay_blocks(run: Any) -> None:
    model = FakeChatModel(responses=["ok"])
    agent = create_agent(model, [sender([])], middleware=[PIIMiddleware("email")])
    blocks = [
        {"type": "text", "text": f"from {MAIL}"},
        {"type": "image", "base64": "Ym9iQGV4YW1wbGUuY29t", "mime_type": "image/png", "alt": f"of {MAIL}"},
        f"and {MAIL}",
    ]
    history = [
        HumanMessage(blocks),
        call(to={MAIL: [1, {"cc": [MAIL]}]}),
        ToolMessage([{"type": "text", "text": MAIL}], tool_call_id="c1"),
        HumanMessage("go on"),
    ]
    run.invoke(agent, {"messages": history})
    human, ai, answer, _ = model.requests[0].messages
    hidden = "[REDACTED_EMAIL]"
    assert human.content == [
        {"type": "text", "text": f"from {hidden}"},
        {"type": "image", "base64": "Ym9iQGV4YW1wbGUuY29t", "mime_type": "image/png", "alt": f"of {hidden}"},
        f"and {hidden}",
    ]
    assert ai.tool_calls[0]["args"] == {"to": {hidden: [1, {"cc": [hidden]}]}}
    assert answer.content == [{"type": "text", "text": hidden}]


def test_d14_a_number_in_arguments_is_looked_at_as_its_digits(run: Any) -> None:
    model = FakeChatModel(responses=["ok"])
    agent = create_agent(model, [sender([])], middleware=[PIIMiddleware("credit_card")])
    history = [HumanMessage("pay"), call(to=4111111111111111), ToolMessage("ok", tool_call_id="c1"), HumanMessage("?")]
    run.invoke(agent, {"messages": history})
    assert model.requests[0].messages[1].tool_calls[0]["args"] == {"to": "[REDACTED_CREDIT_CARD]"}


def test_d14_roles_narrow_what_is_looked_at(run: Any) -> None:
    model = FakeChatModel(responses=["ok"])
    agent = create_agent(model, middleware=[PIIMiddleware("email", roles=["human"])], system_prompt=f"ask {MAIL}")
    run.invoke(agent, said(MAIL))
    assert [message.text for message in model.requests[0].messages] == [f"ask {MAIL}", "[REDACTED_EMAIL]"]


def test_d14_a_text_is_searched_once(run: Any) -> None:
    looked: list[str] = []

    def names(text: str) -> list[Any]:
        looked.append(text)
        return [(m.start(), m.end()) for m in re.finditer("Ada", text)]

    model = FakeChatModel(responses=[call(to="Eve"), call(to="Eve"), "ok"])
    agent = create_agent(model, [sender([])], middleware=[PIIMiddleware("name", detector=names)])
    run.invoke(agent, said("I am Ada"))
    assert model.requests[-1].messages[0].text == "I am [REDACTED_NAME]"
    assert looked.count("I am Ada") == 1


def test_d14_a_model_of_another_middleware_is_behind_it_too(run: Any) -> None:
    brief = FakeChatModel(responses=["in short"])
    agent = create_agent(
        FakeChatModel(responses=["ok"]),
        middleware=[
            PIIMiddleware("email"),
            SummarizationMiddleware(brief, trigger=("messages", 3), keep=("messages", 1)),
        ],
    )
    run.invoke(agent, {"messages": [HumanMessage(f"I am {MAIL}"), AIMessage("hi"), HumanMessage("so?")]})
    assert MAIL not in repr(brief.requests[0].messages)


def test_d14_what_a_hook_inside_adds_is_clean_too(run: Any) -> None:
    class Adds(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request.override(system_message=SystemMessage(f"for {MAIL}")))

    model = FakeChatModel(responses=["ok"])
    run.invoke(create_agent(model, middleware=[PIIMiddleware("email"), Adds()]), said("hi"))
    assert model.requests[0].messages[0].text == "for [REDACTED_EMAIL]"


# -- what the model says


@pytest.mark.parametrize("mode", ["messages", "updates", "values", ["messages", "updates", "values", "custom"]])
def test_strm_05_d16_an_address_over_two_chunks_is_in_no_chunk_and_no_snapshot(run: Any, mode: Any) -> None:
    pieces = ["Write to bob@exa", "mple.com ok", ", or not."]
    agent = create_agent(Pieces(pieces=pieces), middleware=[PIIMiddleware("email", apply_to_output=True)])
    items = run.stream(agent, said("hi"), stream_mode=mode)
    assert "bob" not in repr(items)
    assert "example" not in repr(items)
    if mode == "messages":
        assert "".join(chunk.text for chunk, _ in items) == "Write to [REDACTED_EMAIL] ok, or not."
        assert len(items) == 4  # three pieces and the last word's rest


def test_strm_05_d16_what_is_hidden_in_a_call_is_in_no_mode(run: Any, thread: Any) -> None:
    got: list[Any] = []
    model = FakeChatModel(responses=[call(to=MAIL), "done"], chunk_size=3)
    agent = create_agent(
        model,
        [sender(got)],
        middleware=[PIIMiddleware("email", apply_to_output=True), Peeks()],
        checkpointer=InMemorySaver(),
    )
    modes = ["messages", "updates", "values", "custom", "tasks", "checkpoints", "debug"]
    items = run.stream(agent, said("hi"), stream_mode=modes, config=thread, subgraphs=True)
    assert {mode for _, mode, _ in items} == set(modes) - {"custom"}
    assert MAIL not in repr(items)
    assert "hidden_args" not in repr(items)
    assert got == [MAIL]


class Peeks(AgentMiddleware):
    """Has a node of its own after the model, whose input is the state."""

    def after_model(self, state: Any, runtime: Any) -> None:
        assert state["messages"]


def test_a_structured_answer_is_clean_too(run: Any) -> None:
    schema = {"title": "Person", "type": "object", "properties": {"mail": {"type": "string"}}, "required": ["mail"]}
    model = FakeChatModel(responses=[call("Person", mail=f"to\n{MAIL}")], chunk_size=2)
    agent = create_agent(
        model, response_format=ToolStrategy(schema), middleware=[PIIMiddleware("email", apply_to_output=True)]
    )
    items = run.stream(agent, said("hi"), stream_mode=["messages", "values"])
    assert MAIL not in repr(items)
    assert items[-1][1]["structured_response"] == {"mail": "to\n[REDACTED_EMAIL]"}


def test_a_native_structured_answer_is_clean_and_still_json(run: Any) -> None:
    schema = {"title": "Person", "type": "object", "properties": {"mail": {"type": "string"}}, "required": ["mail"]}
    model = FakeChatModel(responses=[json.dumps({"mail": f"to\n{MAIL}"})], chunk_size=2)
    agent = create_agent(
        model, response_format=ProviderStrategy(schema), middleware=[PIIMiddleware("email", apply_to_output=True)]
    )
    items = run.stream(agent, said("hi"), stream_mode=["messages", "values"])
    assert MAIL not in repr(items)
    assert items[-1][1]["structured_response"] == {"mail": "to\n[REDACTED_EMAIL]"}


def test_a_budget_counts_calls_behind_it_once(run: Any) -> None:
    model = FakeChatModel(responses=[call(to="x"), "done"])
    middleware = [PIIMiddleware("email", apply_to_output=True)]
    with pytest.raises(BudgetExceeded):
        run.invoke(create_agent(model, [sender([])], middleware=middleware, budget=Budget(model_calls=1)), said("hi"))
    model = FakeChatModel(responses=[call(to="x"), "done"])
    enough = create_agent(model, [sender([])], middleware=middleware, budget=Budget(model_calls=2))
    assert run.stream(enough, said("hi"), stream_mode="messages")


class Pieces(BaseChatModel):
    """Says its answer in these pieces."""

    pieces: list[Any]

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        for piece in self.pieces:
            yield ChatGenerationChunk(piece if isinstance(piece, AIMessageChunk) else AIMessageChunk(piece))


@pytest.mark.parametrize("size", [1, 2, 5, None])
def test_strm_05_d16_no_event_and_no_handler_hears_it(size: int | None) -> None:
    got: list[Any] = []
    model = FakeChatModel(responses=[AIMessage(f"To {MAIL}.", tool_calls=call(to=MAIL).tool_calls), f"Sent to {MAIL}!"])
    model.chunk_size = size
    agent = create_agent(
        model,
        [sender(got, "sent to {to}")],
        middleware=[PIIMiddleware("email", apply_to_output=True, apply_to_tool_results=True)],
        checkpointer=InMemorySaver(),
    )

    async def events() -> list[Any]:
        config = {"configurable": {"thread_id": "t"}}
        return [event async for event in agent.astream_events(said("hi"), config, version="v2")]

    heard = asyncio.run(events())
    assert {"on_chat_model_stream", "on_chat_model_end", "on_tool_start", "on_tool_end"} <= {e["event"] for e in heard}
    assert MAIL not in repr(heard)
    assert got == [MAIL]


def test_d16_chunks_are_about_as_many_as_the_model_gave(run: Any) -> None:
    text = "It was a bright cold day in April, and the clocks were striking 13. " * 20
    plain = FakeChatModel(responses=[text])
    guarded = FakeChatModel(responses=[text])
    types = ["email", "credit_card", "ip", "mac_address", "url", "phone", "iban", "us_ssn", "api_key"]
    middleware = [PIIMiddleware(types, apply_to_output=True)]
    before = run.stream(create_agent(plain), said("hi"), stream_mode="messages")
    after = run.stream(create_agent(guarded, middleware=middleware), said("hi"), stream_mode="messages")
    assert "".join(c.text for c, _ in after) == "".join(c.text for c, _ in before) == text
    assert len(after) >= 0.9 * len(before)


def test_d16_blocks_and_reasoning_in_pieces_are_clean_and_in_order(run: Any) -> None:
    pieces = [
        AIMessageChunk([{"type": "reasoning", "reasoning": "ask bob@exam", "index": 0}]),
        AIMessageChunk([{"type": "reasoning", "reasoning": "ple.com", "index": 0}]),
        AIMessageChunk([{"type": "text", "text": "I ask bob@exa", "index": 1}]),
        AIMessageChunk([{"type": "text", "text": "mple.com", "index": 1}]),
        AIMessageChunk(
            "", chunk_position="last", usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
        ),
    ]
    agent = create_agent(Pieces(pieces=pieces), middleware=[PIIMiddleware("email", apply_to_output=True)])
    items = run.stream(agent, said("hi"), stream_mode=["messages", "values"])
    assert "bob" not in repr(items)
    final = items[-1][1]["messages"][-1]
    assert final.content == [
        {"type": "reasoning", "reasoning": "ask [REDACTED_EMAIL]"},
        {"type": "text", "text": "I ask [REDACTED_EMAIL]"},
    ]
    assert final.usage_metadata["total_tokens"] == 3
    kinds = [block["type"] for mode, item in items if mode == "messages" for block in item[0].content]
    assert kinds == sorted(kinds)


def test_d16_what_a_provider_adds_beside_the_text_is_clean_too(run: Any) -> None:
    pieces = [
        AIMessageChunk("", additional_kwargs={"reasoning_content": "is it bob@exa"}),
        AIMessageChunk("", additional_kwargs={"reasoning_content": "mple.com?", "raw": {"of": [MAIL]}}),
        AIMessageChunk("yes"),
    ]
    agent = create_agent(Pieces(pieces=pieces), middleware=[PIIMiddleware("email", apply_to_output=True)])
    items = run.stream(agent, said("hi"), stream_mode=["messages", "values"])
    assert "bob" not in repr(items)
    beside = items[-1][1]["messages"][-1].additional_kwargs
    assert beside == {"reasoning_content": "is it [REDACTED_EMAIL]?", "raw": {"of": ["[REDACTED_EMAIL]"]}}


def test_agent_16_arguments_arrive_whole(run: Any) -> None:
    got: list[Any] = []
    model = FakeChatModel(responses=[call(to="x", text="weather"), "done"])
    agent = create_agent(model, [sender(got)], middleware=[PIIMiddleware("email", apply_to_output=True)])
    run.invoke(agent, said("hi"))
    assert got == [("x", "weather")]


@pytest.mark.parametrize("how", ["invoke", "stream"])
def test_agent_16_d14_a_tool_runs_with_what_is_hidden_in_its_call(run: Any, how: str) -> None:
    got: list[Any] = []
    args = {"to": [MAIL, {"cc": MAIL}], "text": f'line\n{MAIL} "quoted" é'}
    model = FakeChatModel(responses=[call(**args), "done"], chunk_size=3)
    agent = create_agent(model, [sender(got)], middleware=[PIIMiddleware("email", apply_to_output=True)])
    if how == "invoke":
        seen: Any = run.invoke(agent, said("hi"))
    else:
        seen = run.stream(agent, said("hi"), stream_mode=["messages", "updates", "values"])
    assert MAIL not in repr(seen)
    assert got == [(args["to"], args["text"])]
    assert model.requests[1].messages[1].tool_calls[0]["args"] == {
        "to": ["[REDACTED_EMAIL]", {"cc": "[REDACTED_EMAIL]"}],
        "text": 'line\n[REDACTED_EMAIL] "quoted" é',
    }


def test_d14_tools_get_clean_arguments_where_that_is_asked_for(run: Any) -> None:
    got: list[Any] = []
    model = FakeChatModel(responses=[call(to=MAIL), "done"])
    run.invoke(
        create_agent(model, [sender(got)], middleware=[PIIMiddleware("email", apply_to_tool_args=True)]), said("hi")
    )
    assert got == ["[REDACTED_EMAIL]"]


def test_d15_block_ends_a_stream_before_the_value(run: Any) -> None:
    agent = create_agent(
        Pieces(pieces=["Call bob@exa", "mple.com", " now"]),
        middleware=[PIIMiddleware("email", strategy="block", apply_to_output=True)],
    )
    with pytest.raises(PIIDetectionError):
        run.stream(agent, said("hi"), stream_mode="messages")


def test_broken_arguments_do_not_show_it(run: Any) -> None:
    broken = {"name": "send", "args": f'{{"to": "{MAIL}"', "id": "c1", "error": f"cut at {MAIL}"}
    model = FakeChatModel(responses=[AIMessage("", invalid_tool_calls=[broken]), "done"])
    agent = create_agent(model, [sender([])], middleware=[PIIMiddleware("email", apply_to_output=True)])
    items = run.stream(agent, said("hi"), stream_mode=["messages", "updates", "values"])
    assert MAIL not in repr(items)


def test_d16_a_fallback_is_behind_it_whatever_the_order(run: Any) -> None:
    first = FakeChatModel(responses=[ModelOverloaded("busy")])
    second = FakeChatModel(responses=[f"I am {MAIL}"], chunk_size=2)
    agent = create_agent(first, fallbacks=[second], middleware=[PIIMiddleware("email", apply_to_output=True)])
    items = run.stream(agent, said(MAIL), stream_mode=["messages", "updates"])
    assert MAIL not in repr(items)
    assert second.requests[0].messages[0].text == "[REDACTED_EMAIL]"


def test_d16_a_model_that_tells_its_tokens_itself_is_not_heard_before_the_rules(run: Any) -> None:
    class Tells(BaseChatModel):
        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
            if run_manager is not None:
                run_manager.on_llm_new_token(MAIL)
            return ChatResult([ChatGeneration(AIMessage(f"I am {MAIL}"))])

    agent = create_agent(Tells(), middleware=[PIIMiddleware("email", apply_to_output=True)])
    items = run.stream(agent, said("hi"), stream_mode=["messages", "values"])
    assert MAIL not in repr(items)
    assert items[-1][1]["messages"][-1].text == "I am [REDACTED_EMAIL]"


def test_d16_a_model_of_another_make_is_not_heard_around_it(run: Any) -> None:
    inner = FakeChatModel(responses=[f"I am {MAIL}"], chunk_size=2)
    agent = create_agent(
        inner | RunnableLambda(lambda reply: reply), middleware=[PIIMiddleware("email", apply_to_output=True)]
    )
    items = run.stream(agent, said("hi"), stream_mode=["messages", "values"])
    assert MAIL not in repr(items)
    assert "".join(i[0].text for m, i in items if m == "messages") == "I am [REDACTED_EMAIL]"


def test_d16_an_answer_that_a_hook_made_up_is_clean(run: Any) -> None:
    class Instead(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return AIMessage(f"I am {MAIL}")

    agent = create_agent(
        FakeChatModel(responses=[]), middleware=[PIIMiddleware("email", apply_to_output=True), Instead()]
    )
    assert MAIL not in repr(run.stream(agent, said("hi"), stream_mode=["messages", "values"]))


# -- what tools give


def test_d16_results_are_clean_before_anybody_sees_them(run: Any) -> None:
    @tool(response_format="content_and_artifact")
    def find(name: str) -> Any:
        """Find a person."""
        return [{"type": "text", "text": f"{name}: {MAIL}"}], {"row": [MAIL]}

    model = FakeChatModel(responses=[call("find", name="Bob"), "done"])
    agent = create_agent(model, [find], middleware=[PIIMiddleware("email", apply_to_tool_results=True)])
    items = run.stream(agent, said("hi"), stream_mode=["messages", "updates", "values"])
    assert MAIL not in repr(items)
    answer = items[-1][1]["messages"][2]
    assert answer.content == [{"type": "text", "text": "Bob: [REDACTED_EMAIL]"}]
    assert answer.artifact == {"row": ["[REDACTED_EMAIL]"]}


def test_d14_results_leave_clean_even_where_they_are_kept(run: Any) -> None:
    model = FakeChatModel(responses=[call(to="x"), "done"])
    agent = create_agent(model, [sender([], MAIL)], middleware=[PIIMiddleware("email")])
    result = run.invoke(agent, said("hi"))
    assert result["messages"][2].text == MAIL
    assert model.requests[1].messages[2].text == "[REDACTED_EMAIL]"


@pytest.mark.parametrize("handled", [False, True])
def test_d16_an_error_does_not_tell_what_was_hidden(run: Any, handled: bool) -> None:
    @tool
    def send(to: str) -> str:
        """Send a mail."""
        raise ToolException(f"no such address: {to}")

    send.handle_tool_error = handled
    model = FakeChatModel(responses=[call(to=MAIL), "done"])
    settings: Any = {"apply_to_output": True, "apply_to_tool_results": handled}
    agent = create_agent(model, [send], middleware=[PIIMiddleware("email", **settings)])
    items = run.stream(agent, said("hi"), stream_mode=["messages", "updates", "values"])
    assert MAIL not in repr(items)
    assert items[-1][1]["messages"][2].text == "no such address: [REDACTED_EMAIL]"


# -- a person in between


@pytest.mark.parametrize("saver", ["memory", "sqlite"])
def test_a_person_sees_what_is_hidden_hidden_and_approves_the_real_call(
    run: Any, thread: Any, saver: str, tmp_path: Any
) -> None:
    got: list[Any] = []

    def build(*responses: Any) -> Any:
        kept = memory if saver == "memory" else SqliteSaver(tmp_path / "t.db")
        return create_agent(
            FakeChatModel(responses=list(responses)),
            [sender(got)],
            middleware=[PIIMiddleware("email", apply_to_output=True), HumanInTheLoopMiddleware({"send": True})],
            checkpointer=kept,
        )

    memory = InMemorySaver()
    agent = build(call(to=MAIL))
    paused = run.invoke(agent, said("hi"), thread)
    assert paused["__interrupt__"][0].value["action_requests"][0]["args"] == {"to": "[REDACTED_EMAIL]"}
    assert MAIL not in repr(paused)
    assert MAIL not in repr(run.state(agent, thread))
    again = build("done")  # another process, with another object
    result = run.invoke(again, Command(resume={"decisions": {"c1": {"type": "approve"}}}), thread)
    assert got == [MAIL]
    assert MAIL not in repr(result)
    assert MAIL not in repr(run.history(again, thread))


def test_an_edit_changes_what_the_person_changed_and_keeps_the_rest(run: Any, thread: Any) -> None:
    got: list[Any] = []
    agent = create_agent(
        FakeChatModel(responses=[call(to=MAIL, text=f"about {CARD}"), "done"]),
        [sender(got)],
        middleware=[
            PIIMiddleware(["email", "credit_card"], apply_to_output=True),
            HumanInTheLoopMiddleware({"send": True}),
        ],
        checkpointer=InMemorySaver(),
    )
    run.invoke(agent, said("hi"), thread)
    edited = {"name": "send", "args": {"to": "[REDACTED_EMAIL]", "text": "about nothing"}}
    decision = {"type": "edit", "edited_action": edited}
    run.invoke(agent, Command(resume={"decisions": {"c1": decision}}), thread)
    assert got == [(MAIL, "about nothing")]


# -- what stands in the place of a finding


def test_d15_masks_leave_enough_to_recognise_it_by(run: Any) -> None:
    text = f"{MAIL} {CARD} 10.1.2.34 https://example.com/x +49 171 1234567 sk-{'a' * 30}"
    types = ["email", "credit_card", "ip", "url", "phone", "api_key"]
    model = FakeChatModel(responses=["ok"])
    run.invoke(create_agent(model, middleware=[PIIMiddleware(types, strategy="mask")]), said(text))
    assert model.requests[0].messages[0].text == (
        "****@example.com **** **** **** 1111 ****.34 https://**** +** *** ***4567 sk-****"
    )


def test_d15_hashes_are_keyed_and_the_same_for_the_same_value(run: Any) -> None:
    def sent(key: str | None, text: str) -> str:
        model = FakeChatModel(responses=["ok"])
        run.invoke(create_agent(model, middleware=[PIIMiddleware("email", strategy="hash", key=key)]), said(text))
        return model.requests[0].messages[0].text

    one = sent("a secret key", MAIL)
    assert re.fullmatch(r"<email_hash:[a-p]{16}>", one)
    assert sent("a secret key", MAIL.upper()) == one
    assert sent("a secret key", "ann@example.com") != one
    assert sent("another key!", MAIL) != one
    assert sent(None, MAIL) != sent(None, MAIL)


@pytest.mark.parametrize("size", [1, 4, None])
def test_d15_tokens_go_to_the_model_and_values_come_back(run: Any, size: int | None) -> None:
    got: list[Any] = []

    def answers(messages: Any) -> AIMessage:
        token = re.search(r"<email:[a-p]+>", messages[0].text)
        assert token is not None
        return AIMessage(f"I write to {token.group()}!", tool_calls=call(to=token.group()).tool_calls)

    model = FakeChatModel(responses=[answers, "Done."], chunk_size=size)
    agent = create_agent(model, [sender(got)], middleware=[PIIMiddleware("email", strategy="tokenize")])
    items = run.stream(agent, said(f"write to {MAIL}"), stream_mode=["messages", "values"])
    assert got == [MAIL]
    assert items[-1][1]["messages"][1].text == f"I write to {MAIL}!"
    assert "<email" not in repr([item for mode, item in items if mode == "messages"])
    assert MAIL not in repr([request.messages for request in model.requests])


def test_d15_a_token_of_another_conversation_stands_for_nothing(run: Any) -> None:
    middleware = PIIMiddleware("email", strategy="tokenize")
    model = FakeChatModel(responses=["ok"])
    run.invoke(create_agent(model, middleware=[middleware]), said(MAIL))
    token = model.requests[0].messages[0].text
    thief = FakeChatModel(responses=[f"It is {token}"])
    result = run.invoke(create_agent(thief, middleware=[middleware]), said(f"who is {token}?"))
    assert result["messages"][-1].text == f"It is {token}"


def test_several_middlewares_go_one_after_the_other(run: Any) -> None:
    got: list[Any] = []
    model = FakeChatModel(responses=[call(to=f"{MAIL} {CARD}"), f"{MAIL} has {CARD}"], chunk_size=3)
    agent = create_agent(
        model,
        [sender(got, "{to}")],
        middleware=[
            PIIMiddleware("email", apply_to_output=True, apply_to_tool_results=True),
            PIIMiddleware("credit_card", strategy="mask", apply_to_output=True, apply_to_tool_results=True),
        ],
    )
    items = run.stream(agent, said(f"{MAIL} {CARD}"), stream_mode=["messages", "values"])
    shown = "[REDACTED_EMAIL] **** **** **** 1111"
    final = items[-1][1]["messages"]
    assert final[1].tool_calls[0]["args"] == {"to": shown}
    assert [message.text for message in final[2:]] == [shown, "[REDACTED_EMAIL] has **** **** **** 1111"]
    assert [message.text for message in model.requests[0].messages] == [shown]
    assert got == [f"{MAIL} {CARD}"]


def test_a_replacement_is_never_taken_for_a_finding(run: Any) -> None:
    model = FakeChatModel(responses=["say abc", "ok"], chunk_size=2)
    rule = PIIMiddleware("word", detector=r"[a-z]{3,}", strategy="hash", key="a secret key", apply_to_output=True)
    agent = create_agent(model, middleware=[rule])
    first = run.stream(agent, said("abc"), stream_mode="values")[-1]["messages"]
    assert re.fullmatch(r"<word_hash:[a-p]{16}> <word_hash:[a-p]{16}>", first[-1].text)
    run.invoke(agent, {"messages": [*first, HumanMessage("abc")]})
    sent = [message.text for message in model.requests[1].messages]
    assert sent[1] == first[-1].text
    assert sent[0] == sent[2] == first[-1].text.split()[1]


def test_two_of_one_type_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"PIIMiddleware\[email\]"):
        create_agent(FakeChatModel(responses=[]), middleware=[PIIMiddleware("email"), PIIMiddleware("email")])


# -- who decided


def test_d13_d14_d15_d16_decisions_are_recorded_without_the_value(run: Any) -> None:
    journal = DecisionLog()
    agent = create_agent(
        FakeChatModel(responses=[f"I am {MAIL}"]), middleware=[PIIMiddleware("email", apply_to_output=True)]
    )
    run.stream(agent, said(f"for {MAIL}"), stream_mode="messages", config={"callbacks": [journal]})
    told = {(each.seat, each.outcome) for each in journal}
    assert {("D13", "found"), ("D14", "changed"), ("D15", "redact"), ("D16", "hidden")} <= told
    assert MAIL not in repr(list(journal))


def test_d13_d14_d15_d16_the_map_says_what_is_set() -> None:
    seats = create_agent(
        FakeChatModel(responses=[]),
        middleware=[
            PIIMiddleware("email", strategy="hash", apply_to_output=True),
            PIIMiddleware("ip", roles=["human"]),
        ],
    ).seats()
    assert "email: by built-in detectors" in seats["D13"].answer
    assert "messages of human" in seats["D14"].answer
    assert "keyed hash (the key is of this process)" in seats["D15"].answer
    assert "Nothing of it in the model's answer" in seats["D16"].answer
    assert all(row.status == "held" for row in (seats["D13"], seats["D14"], seats["D15"], seats["D16"]))


@pytest.mark.parametrize("beside", [False, True], ids=["text", "text and artifact"])
@pytest.mark.parametrize("at", [0, 150, 194, 200, 400, 700])
def test_d14_a_result_that_was_cut_is_clean_in_every_piece_that_is_read(run: Any, at: int, beside: bool) -> None:
    """Also where the cut, or the border between two pieces, goes through the secret."""
    text = f"{'x' * at} {MAIL} {'y' * (1000 - at)}"

    @tool(response_format="content_and_artifact" if beside else "content")
    def find() -> Any:
        """Find it."""
        return (text, {"found": 1}) if beside else text

    def piece(number: int) -> AIMessage:
        args = {"id": "c0", "offset": number * 100 + 3, "limit": 100}
        wanted = {"name": "read_artifact", "args": args, "id": f"c{number + 1}", "type": "tool_call"}
        return AIMessage("", tool_calls=[wanted])

    first = AIMessage("", tool_calls=[{"name": "find", "args": {}, "id": "c0", "type": "tool_call"}])
    model = FakeChatModel(responses=[first, *map(piece, range(10)), "done"])
    agent = create_agent(
        model,
        [find],
        middleware=[PIIMiddleware("email", apply_to_tool_results=True)],
        limits=AgentLimits(max_tool_chars=300),
    )
    result = run.invoke(agent, said("go"))
    answers = [message.text for message in result["messages"] if isinstance(message, ToolMessage)]
    assert len(answers) == 11
    assert "EMAIL] y" in "".join(each.partition("\n[Characters")[0] for each in answers[1:])
    for messages in (*(request.messages for request in model.requests), result["messages"]):
        for message in messages:
            assert not {"bob", "example.com", "@"} & set(re.findall(r"bob|example\.com|@", message.text))
            assert MAIL not in repr(message)
