"""A ready test suite for chat models: subclass it, say how to make one and what its wire looks like, run pytest.

    class TestMyModel(ChatModelSuite):
        dialect = OpenAIDialect()

        def make_model(self, base_url, **settings):
            return MyModel(model="m", api_key=self.key, base_url=base_url, **settings)

The model talks to a server on this machine that answers in the vendor's form. Every adapter of runwell passes. What
goes wrong on the wire is in `ChatModelFailures`, which the suite includes.
"""

from __future__ import annotations

import asyncio
import copy
import os
from collections.abc import Sequence
from typing import Any, ClassVar

from runwell.errors import OutputParserException, UnsupportedByProvider
from runwell.messages.message import AIMessage, HumanMessage, SystemMessage, ToolMessage
from runwell.testing.chat_failures import ChatModelFailures
from runwell.testing.chat_wire import Colour
from runwell.testing.savers import raises
from runwell.testing.wire.said import Call, Said

__all__ = ["ChatModelSuite"]

PERSON = {
    "title": "Person",
    "description": "Somebody.",
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
PIXEL = "iVBORw0KGgo="


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def look_up(word: str) -> str:
    """Look a word up."""
    return word


def _plain(message: AIMessage) -> dict[str, Any]:
    """What two answers have in common that say the same."""
    facts = {name: message.response_metadata.get(name) for name in ("finish_reason", "model_name", "model_provider")}
    return {
        "content": message.content,
        "calls": message.tool_calls,
        "broken": message.invalid_tool_calls,
        "usage": message.usage_metadata,
        **facts,
    }


class ChatModelSuite(ChatModelFailures):
    """Subclass it as `Test...`, set `dialect` and implement `make_model`."""

    takes_images: ClassVar[bool] = True
    """Whether the wire has a place for pictures."""
    ambient: ClassVar[Sequence[str]] = ()
    """Environment variables that move the vendor's own client to another address. Ours is not moved by them."""

    names_model: ClassVar[bool] = True
    """Whether the wire tells which model answered."""

    # -- answers

    def test_an_answer(self, colour: Colour) -> None:
        self.wire.say("Hello.")
        answer = colour.invoke(self.model(), [SystemMessage("Be brief."), HumanMessage("Hi")])
        assert type(answer) is AIMessage
        assert answer.content == "Hello."
        assert answer.id
        assert answer.tool_calls == []
        name = answer.response_metadata["model_name"]
        if self.names_model:
            assert name == "served-model-1", "the model that answered, not the one asked"
        else:
            assert name == self.model().model_name
        assert answer.response_metadata["model_provider"]
        assert answer.response_metadata["finish_reason"] == "stop"
        asked = self.wire.asked
        assert asked.system == ["Be brief."]
        assert asked.turns == [("user", "Hi")]
        assert not asked.stream

    def test_usage_is_counted(self, colour: Colour) -> None:
        self.wire.say("Hello.", read=100, cached=60, written=7)
        usage = colour.invoke(self.model(), "Hi").usage_metadata
        assert usage is not None
        assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (100, 7, 107)
        if self.counts_cached:
            assert usage["input_token_details"]["cache_read"] == 60

    counts_cached: ClassVar[bool] = True
    """Whether the wire tells how many tokens came out of the provider's cache."""

    def test_a_stream_adds_up_to_the_answer(self, colour: Colour) -> None:
        said: dict[str, Any] = {"pieces": ["Hel", "lo ", "you."], "read": 100, "cached": 60, "written": 7}
        self.wire.say(**said)
        chunks = colour.stream(self.model(), "Hi")
        assert self.wire.asked.stream
        assert [chunk.text for chunk in chunks if chunk.text] == ["Hel", "lo ", "you."]
        assert len({chunk.id for chunk in chunks}) == 1
        assert chunks[-1].chunk_position == "last"
        assert sum(chunk.usage_metadata is not None for chunk in chunks) == 1, "usage adds up, so it is said once"
        self.wire.say(**said)
        assert _plain(colour.whole(chunks)) == _plain(colour.invoke(self.model(), "Hi"))

    def test_an_answer_cut_at_the_token_limit_says_so(self, colour: Colour) -> None:
        self.wire.say("Hel", finish="length")
        answer = colour.invoke(self.model(max_tokens=5), "Hi")
        assert answer.response_metadata["finish_reason"] == "length"
        assert self.wire.asked.max_tokens == 5
        self.wire.say("Hel", finish="length")
        assert colour.whole(colour.stream(self.model(), "Hi")).response_metadata["finish_reason"] == "length"

    takes_stop: ClassVar[bool] = True
    """Whether the wire has a place for texts that end an answer. Where it has none they are refused, never dropped."""

    def test_stop_texts(self, colour: Colour) -> None:
        if not self.takes_stop:
            with raises(UnsupportedByProvider):
                colour.invoke(self.model(), "Hi", stop=["END"])
            with raises(UnsupportedByProvider):
                colour.stream(self.model(stop=["END"]), "Hi")
            assert self.wire.requests == []
            return
        self.wire.say("Hel")
        colour.invoke(self.model(), "Hi", stop=["END", "STOP"])
        assert self.wire.asked.stop == ["END", "STOP"]
        self.wire.say("Hel")
        colour.stream(self.model(stop=["DONE"]), "Hi")
        assert self.wire.asked.stop == ["DONE"]

    def test_several_turns(self, colour: Colour) -> None:
        self.wire.say("Three.")
        colour.invoke(self.model(), [HumanMessage("One?"), AIMessage("Two."), HumanMessage("And?")])
        assert self.wire.asked.turns == [("user", "One?"), ("assistant", "Two."), ("user", "And?")]

    def test_a_picture(self, colour: Colour) -> None:
        if not self.takes_images:
            return
        self.wire.say("A dot.")
        picture = {"type": "image", "base64": PIXEL, "mime_type": "image/png"}
        colour.invoke(self.model(), [HumanMessage([{"type": "text", "text": "What is it?"}, picture])])
        assert self.wire.asked.images == [PIXEL]
        assert self.wire.asked.turns == [("user", "What is it?")]

    def test_b9_a_system_message_in_the_middle_is_never_an_error(self, colour: Colour) -> None:
        """B9"""
        self.wire.say("Ja.")
        history = [
            SystemMessage("Be brief."),
            HumanMessage("Hi"),
            AIMessage("Hello."),
            SystemMessage("Speak German."),
            HumanMessage("And?"),
        ]
        colour.invoke(self.model(), history)
        assert "Speak German." in "\n".join(self.wire.asked.system)
        assert self.wire.asked.turns == [("user", "Hi"), ("assistant", "Hello."), ("user", "And?")]

    # -- tools

    def test_a_tool_call_and_its_result(self, colour: Colour) -> None:
        self.wire.say("Let me see.", calls=[Call("add", {"a": 1, "b": 2}, "call_a")])
        model = self.model().bind_tools([add])
        answer = colour.invoke(model, "1 + 2?")
        assert answer.text == "Let me see."
        assert answer.response_metadata["finish_reason"] == "tool_calls"
        [call] = answer.tool_calls
        assert (call["name"], call["args"]) == ("add", {"a": 1, "b": 2})
        assert call["id"]
        assert set(self.wire.asked.tools["add"]["properties"]) == {"a", "b"}
        self.wire.say("3")
        colour.invoke(model, [HumanMessage("1 + 2?"), answer, ToolMessage("3", tool_call_id=call["id"], name="add")])
        asked = self.wire.asked
        assert list(asked.calls.values()) == [("add", {"a": 1, "b": 2})]
        assert list(asked.results.values()) == ["3"]
        assert list(asked.calls) == list(asked.results), "the result answers the call"
        assert [turn for turn in asked.turns if turn[0] == "assistant"] == [("assistant", "Let me see.")]

    def test_parallel_calls(self, colour: Colour) -> None:
        calls = [Call("add", {"a": 1, "b": 2}, "call_a"), Call("look_up", {"word": 'x"}{é'}, "call_b")]
        self.wire.say(calls=calls)
        answer = colour.invoke(self.model().bind_tools([add, look_up]), "Hi")
        assert [(call["name"], call["args"]) for call in answer.tool_calls] == [
            ("add", {"a": 1, "b": 2}),
            ("look_up", {"word": 'x"}{é'}),
        ]
        assert len({call["id"] for call in answer.tool_calls}) == 2
        results = [ToolMessage(str(n), tool_call_id=call["id"] or "") for n, call in enumerate(answer.tool_calls)]
        self.wire.say("Done.")
        colour.invoke(self.model().bind_tools([add, look_up]), [HumanMessage("Hi"), answer, *results])
        assert list(self.wire.asked.results.values()) == ["0", "1"]

    def test_streamed_calls_add_up_to_the_answer(self, colour: Colour) -> None:
        said: dict[str, Any] = {
            "pieces": ["Let ", "me."],
            "calls": [Call("add", {"a": 1, "b": 2}, "call_a"), Call("look_up", {"word": "é"}, "call_b")],
        }
        model = self.model().bind_tools([add, look_up])
        self.wire.say(**said)
        chunks = colour.stream(model, "Hi")
        self.wire.say(**said)
        whole, answer = _plain(colour.whole(chunks)), _plain(colour.invoke(model, "Hi"))
        if self.names_calls:
            assert whole == answer
        else:  # ids are the adapter's own
            assert [call["args"] for call in whole["calls"]] == [call["args"] for call in answer["calls"]]

    names_calls: ClassVar[bool] = True
    """Whether calls have ids on the wire."""

    def test_a_call_without_arguments(self, colour: Colour) -> None:
        def now() -> str:
            """What time it is."""
            return "12"

        for form in ("invoke", "stream"):
            self.wire.say(calls=[Call("now", {}, "call_a")])
            model = self.model().bind_tools([now])
            answer = colour.invoke(model, "Hi") if form == "invoke" else colour.whole(colour.stream(model, "Hi"))
            assert [(call["name"], call["args"]) for call in answer.tool_calls] == [("now", {})]
            assert answer.invalid_tool_calls == []

    def test_tool_choice_is_sent_or_refused_when_binding(self, colour: Colour) -> None:
        for choice, told in (("auto", "auto"), ("none", "none"), ("any", "any"), (True, "any"), ("add", "add")):
            kinds = getattr(self.model(), "tool_choices", None)
            try:
                model = self.model().bind_tools([add, look_up], tool_choice=choice)
            except UnsupportedByProvider:
                assert kinds is None or ("a name" if told == "add" else told) not in kinds, "it declares that it can"
                continue
            self.wire.say("Hello.")
            colour.invoke(model, "Hi")
            assert self.wire.asked.choice == told or (told == "auto" and self.wire.asked.choice is None)

    def test_no_parallel_calls_is_sent_or_refused_when_binding(self, colour: Colour) -> None:
        try:
            model = self.model().bind_tools([add], parallel_tool_calls=False)
        except UnsupportedByProvider:
            return
        self.wire.say("Hello.")
        colour.invoke(model, "Hi")
        assert self.wire.asked.parallel is False

    def test_a_picture_in_a_result_reaches_the_model(self, colour: Colour) -> None:
        if not self.takes_images:
            return
        self.wire.say("A dot.")
        call = {"name": "look_up", "args": {"word": "dot"}, "id": "call_a", "type": "tool_call"}
        result = [{"type": "text", "text": "Here."}, {"type": "image", "base64": PIXEL, "mime_type": "image/png"}]
        history = [HumanMessage("Hi"), AIMessage("", tool_calls=[call]), ToolMessage(result, tool_call_id="call_a")]
        colour.invoke(self.model().bind_tools([look_up]), history)
        assert self.wire.asked.images == [PIXEL]
        assert list(self.wire.asked.results.values()) == ["Here."]

    def test_a_failed_call_is_sent(self, colour: Colour) -> None:
        self.wire.say("Sorry.")
        call = {"name": "add", "args": {"a": 1, "b": 2}, "id": "call_a", "type": "tool_call"}
        failed = ToolMessage("no such number", tool_call_id="call_a", status="error")
        colour.invoke(self.model().bind_tools([add]), [HumanMessage("Hi"), AIMessage("", tool_calls=[call]), failed])
        assert "no such number" in next(iter(self.wire.asked.results.values()))

    # -- structured output

    def test_structured_output_by_every_method(self, colour: Colour) -> None:
        model = self.model()
        for method in ("json_schema", "function_calling", "json_mode"):
            if method not in model.structured_methods:
                with raises(UnsupportedByProvider):
                    model.with_structured_output(PERSON, method=method)
                continue
            if method == "function_calling":
                self.wire.say(calls=[Call("Person", {"name": "Ada", "age": 36})])
            else:
                self.wire.say('{"name": "Ada", "age": 36}')
            assert colour.invoke(model.with_structured_output(PERSON, method=method), "Who?") == {
                "name": "Ada",
                "age": 36,
            }
            asked = self.wire.asked
            if method == "json_schema":
                assert asked.schema is not None
                assert set(asked.schema["properties"]) == {"name", "age"}
            elif method == "function_calling":
                assert set(asked.tools["Person"]["properties"]) == {"name", "age"}

    def test_an_answer_that_does_not_fit(self, colour: Colour) -> None:
        for _ in range(2):
            self.wire.say(calls=[Call("Person", {"name": "Ada"})])
        structured = self.model().with_structured_output(PERSON, method="function_calling")
        with raises(OutputParserException):
            colour.invoke(structured, "Who?")
        raw = self.model().with_structured_output(PERSON, method="function_calling", include_raw=True)
        found = colour.invoke(raw, "Who?")
        assert found["parsed"] is None
        assert isinstance(found["parsing_error"], OutputParserException)
        assert found["raw"].tool_calls[0]["args"] == {"name": "Ada"}

    # -- clients

    def test_one_model_serves_threads_and_event_loops(self) -> None:
        model = self.model()

        async def two_at_once() -> list[str]:
            return [answer.text for answer in await asyncio.gather(model.ainvoke("a"), model.ainvoke("b"))]

        for _ in range(6):
            self.wire.say("Hello.")
        assert asyncio.run(two_at_once()) == ["Hello."] * 2
        assert asyncio.run(two_at_once()) == ["Hello."] * 2
        assert [answer.text for answer in model.batch(["a", "b"])] == ["Hello."] * 2

    def test_a_copy_of_a_model_has_its_own_clients(self) -> None:
        for _ in range(2):
            self.wire.say("Hello.")
        model = self.make_model(self.wire.base_url)
        assert model.invoke("Hi").text == "Hello."
        assert copy.deepcopy(model).invoke("Hi").text == "Hello."

    def test_a3_environment_variables_reroute_nothing(self, colour: Colour) -> None:
        """A3"""
        before = {name: os.environ.get(name) for name in self.ambient}
        os.environ.update(dict.fromkeys(self.ambient, "http://127.0.0.1:9"))
        try:
            self.wire.say("Hello.")
            assert colour.invoke(self.model(), "Hi").text == "Hello."
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value

    def test_what_is_said_is_what_a_stream_says(self) -> None:
        """The dialect itself: its two forms of one answer differ in form alone."""
        said = Said(text="Hello.", calls=[Call("add", {"a": 1})])
        assert self.dialect.answer(said)
        assert len(self.dialect.events(said)) > 1
