"""The half of the chat models' suite where the other end fails, and what the caller is told."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Mapping
from typing import Any, ClassVar

from runwell.errors import (
    ContextOverflow,
    InvalidHistory,
    InvalidInput,
    ModelAuthenticationError,
    ModelBadRequest,
    ModelConnectionError,
    ModelError,
    ModelNotFound,
    ModelOverloaded,
    ModelRateLimitError,
    ModelTimeout,
    UsageError,
)
from runwell.messages.message import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from runwell.observe.handlers import BaseCallbackHandler
from runwell.testing.chat_wire import ChatWire, Colour
from runwell.testing.savers import raises

__all__ = ["ChatModelFailures"]

CALL = {"name": "add", "args": {"a": 1}, "id": "c1", "type": "tool_call"}


def _picture(**block: Any) -> list[HumanMessage]:
    if "base64" in block:
        block.setdefault("mime_type", "image/png")
    return [HumanMessage([{"type": "image", **block}])]


class ChatModelFailures(ChatWire):
    """Refusals, broken connections, silence, and callers that leave."""

    a_passing_failure_is_tried_again_cases: ClassVar[Mapping[str, Any]] = {
        str(status): (status, kind)
        for status, kind in (
            (429, ModelRateLimitError),
            (500, ModelOverloaded),
            (503, ModelOverloaded),
            (529, ModelOverloaded),
        )
    }

    def test_a_passing_failure_is_tried_again(self, colour: Colour, case: Any) -> None:
        status, kind = case
        self.wire.fail(status, "busy")
        self.wire.say("Hello.")
        assert colour.invoke(self.model(), "Hi").text == "Hello."
        assert len(self.wire.requests) == 2
        for _ in range(3):
            self.wire.fail(status, "busy")
        with raises(kind) as caught:
            colour.invoke(self.model(max_retries=2), "Hi")
        assert caught[0].status == status  # type: ignore[attr-defined]
        assert "busy" in str(caught[0])
        assert len(self.wire.requests) == 5, "no retries but ours"

    what_cannot_pass_is_not_tried_again_cases: ClassVar[Mapping[str, Any]] = {
        str(status): (status, kind)
        for status, kind in (
            (400, ModelBadRequest),
            (401, ModelAuthenticationError),
            (403, ModelAuthenticationError),
            (404, ModelNotFound),
        )
    }

    def test_what_cannot_pass_is_not_tried_again(self, colour: Colour, case: Any) -> None:
        status, kind = case
        self.wire.fail(status, "no such thing")
        with raises(ModelError) as caught:
            colour.invoke(self.model(), "Hi")
        assert type(caught[0]) is kind
        assert "no such thing" in str(caught[0])
        assert len(self.wire.requests) == 1

    def test_e8_retry_after_is_waited_out(self, colour: Colour) -> None:
        """E8"""
        self.wire.fail(429, "slow down", retry_after="0.08")
        self.wire.say("Hello.")
        started = time.monotonic()
        assert colour.invoke(self.model(), "Hi").text == "Hello."
        assert time.monotonic() - started >= 0.08

    def test_e8_a_wait_too_long_is_the_callers_to_decide(self, colour: Colour) -> None:
        """E8"""
        self.wire.fail(429, "come back in an hour", retry_after="3600")
        with raises(ModelRateLimitError) as caught:
            colour.invoke(self.model(), "Hi")
        assert caught[0].retry_after == 3600  # type: ignore[attr-defined]
        assert len(self.wire.requests) == 1

    def test_a_stream_is_tried_again_before_its_first_chunk(self, colour: Colour) -> None:
        self.wire.fail(503, "busy")
        self.wire.say("Hello.")
        assert "".join(chunk.text for chunk in colour.stream(self.model(), "Hi")) == "Hello."
        assert len(self.wire.requests) == 2

    tells_overflow: ClassVar[bool] = True
    """Whether the wire says by how much a conversation is too long."""

    def test_f3_a_conversation_too_long(self, colour: Colour) -> None:
        """F3"""
        status, body = self.dialect.too_long(9000, 8192)
        self.wire.json(body, status)
        with raises(ContextOverflow) as caught:
            colour.invoke(self.model(), "Hi")
        if self.tells_overflow:
            assert caught[0].over == 808  # type: ignore[attr-defined]
        assert len(self.wire.requests) == 1

    def test_f2_no_answer_in_time(self, colour: Colour) -> None:
        """F2"""
        for call in (colour.invoke, colour.stream):
            self.wire.hang()
            with raises(ModelTimeout):
                call(self.model(timeout=0.1, max_retries=0), "Hi")
        assert not self.wire.outwaited.is_set(), "the client waited until the server gave up"

    def test_f2_a_stream_that_goes_silent(self, colour: Colour) -> None:
        """F2"""
        self.wire.events(*self._begun("Hel"), then="hang")
        chunks: list[Any] = []
        with raises(ModelTimeout):
            colour.stream(self.model(stream_idle_timeout=0.15), "Hi", into=chunks)
        assert [chunk.text for chunk in chunks if chunk.text] == ["Hel"]
        assert not self.wire.outwaited.is_set(), "the client waited until the server gave up"

    def test_a_slow_reader_is_no_silent_server(self) -> None:
        self.wire.say(pieces=["Hel", "lo."])
        texts = []
        for chunk in self.model(stream_idle_timeout=0.05).stream("Hi"):
            texts.append(chunk.text)
            time.sleep(0.07)
        assert "".join(texts) == "Hello."

    def test_the_connection_breaks_in_a_stream(self, colour: Colour) -> None:
        self.wire.events(*self._begun("Hel"), then="cut")
        chunks: list[Any] = []
        with raises(ModelConnectionError):
            colour.stream(self.model(), "Hi", into=chunks)
        assert [chunk.text for chunk in chunks if chunk.text] == ["Hel"]
        assert len(self.wire.requests) == 1, "what the reader has seen is not asked for again"

    def test_a_stream_that_ends_too_early_is_no_answer(self, colour: Colour) -> None:
        self.wire.events(*self._begun("Hel"))
        with raises(ModelConnectionError):
            colour.stream(self.model(), "Hi")

    def test_nobody_listens(self, colour: Colour) -> None:
        with raises(ModelConnectionError) as caught:
            colour.invoke(self.make_model(f"http://127.0.0.1:9{self.dialect.prefix}", max_retries=0), "Hi")
        assert "127.0.0.1:9" in str(caught[0])

    an_answer_that_is_none_cases: ClassVar[Mapping[str, str]] = {
        "cut": '{"id": [',
        "page": "<html>Gateway</html>",
        "list": "[]",
        "nothing": "{}",
    }

    def test_an_answer_that_is_none(self, colour: Colour, case: str) -> None:
        self.wire.json(case)
        with raises(ModelError):
            colour.invoke(self.model(max_retries=0), "Hi")
        self.wire.json(case)
        self.wire.say("Hello.")
        assert colour.invoke(self.model(), "Hi").text == "Hello.", "a proxy's hiccup passes"

    def test_bad_input_never_reaches_the_network(self, colour: Colour) -> None:
        with raises(InvalidInput):
            colour.invoke(self.model(), [])
        with raises(InvalidHistory) as caught:
            colour.invoke(self.model(), [HumanMessage("Hi"), RemoveMessage(id="1")])
        assert "Message 1" in str(caught[0])
        with raises(InvalidInput):
            self.model(temprature=1)
        assert self.wire.requests == []

    what_no_provider_takes_cases: ClassVar[Mapping[str, Any]] = {
        "a result without its call": ([HumanMessage("Hi"), ToolMessage("3", tool_call_id="x")], "result of call 'x'"),
        "a call without its result": (
            [HumanMessage("Hi"), AIMessage("", tool_calls=[CALL]), HumanMessage("?")],
            "call 'c1'",
        ),
        "two calls under one id": (
            [HumanMessage("Hi"), AIMessage("", tool_calls=[CALL, CALL]), ToolMessage("3", tool_call_id="c1")],
            "two calls of message 1 have the id 'c1'",
        ),
        "an empty message": ([HumanMessage("")], "Message 0, a HumanMessage, is empty"),
        "a message of an empty block": ([HumanMessage([{"type": "text", "text": ""}])], "is empty"),
        "a message of blanks": ([HumanMessage(" \n\t")], "Message 0, a HumanMessage, holds nothing but blanks"),
        "a block of blanks": ([HumanMessage([{"type": "text", "text": "  "}, ""])], "holds nothing but blanks"),
        "a block of a type that nobody knows": (
            [HumanMessage("Hi"), AIMessage("Yes?"), HumanMessage(["See:", {"type": "imge", "url": "https://x/y.png"}])],
            "Message 2 (HumanMessage), block 1, is of type 'imge'",
        ),
        "a block without a type": (
            [HumanMessage([{"txt": "Hi"}])],
            "block 0, is a block without a type",
        ),
        "half a character": ([HumanMessage("a\ud800b")], "half a character"),
        "half a character in a call": (
            [
                HumanMessage("Hi"),
                AIMessage("", tool_calls=[{**CALL, "args": {"x": ["\udfff"]}}]),
                ToolMessage("3", tool_call_id="c1"),
            ],
            "Message 1 (AIMessage) holds half a character",
        ),
        "a text that is none": ([HumanMessage([{"type": "text", "text": b"x"}])], "whose text is b'x'"),
        "data that is no base64": (_picture(base64="not base64!"), "not base64"),
        "the alphabet for URLs": (_picture(base64="_-_-"), "alphabet for URLs"),
        "base64 in lines": (_picture(base64="aGk=\naGk="), "line breaks"),
        "a data URL as data": (_picture(base64="data:image/png;base64,aGk="), "what follows its comma"),
        "a data URL that is no base64": (
            [HumanMessage([{"type": "image_url", "image_url": {"url": "data:image/png;base64,@@@"}}])],
            "not base64",
        ),
        "bytes": (_picture(base64=b"aGk="), "bytes"),
        "no data": (_picture(base64=""), "empty"),
        "no mime type": ([HumanMessage([{"type": "image", "base64": "aGk="}])], "without a mime_type"),
        "half a mime type": (_picture(base64="aGk=", mime_type="png"), "mime_type 'png'"),
        "neither data nor address": (_picture(), "none of a URL"),
        "a file of this machine": (_picture(url="file:///etc/passwd"), "file:///etc/passwd"),
        "a sound without its form": ([HumanMessage([{"type": "audio", "base64": "aGk="}])], "audio data without"),
    }

    def test_what_no_provider_takes(self, colour: Colour, case: Any) -> None:
        """MSG-03 and its kin: said here, naming the message, not by a refusal from afar."""
        history, told = case
        model: Any = self.model()
        if "call" in told and "half" not in told and not getattr(model, "_has_whole_history", lambda _: True)({}):
            return  # the other end keeps conversations
        with raises(UsageError) as caught:
            colour.invoke(model, history)
        assert told in str(caught[0])
        with raises(UsageError):
            colour.stream(model, history)
        assert self.wire.requests == []

    def test_a_picture_of_100_mb_is_refused_at_once(self) -> None:
        with raises(InvalidInput) as caught:
            self.model().invoke(_picture(base64="A" * 134_000_000))
        assert "100 MB" in str(caught[0])
        assert len(str(caught[0])) < 1000
        assert self.wire.requests == []

    def test_two_system_messages_and_an_empty_answer_are_taken(self, colour: Colour) -> None:
        self.wire.say("Hello.")
        history = [SystemMessage("Be brief."), SystemMessage("Be kind."), HumanMessage("Hi"), AIMessage("")]
        assert colour.invoke(self.model(), [*history, HumanMessage("Well?")]).text == "Hello."
        said = "\n".join(self.wire.asked.system)
        assert "Be brief." in said
        assert "Be kind." in said

    def test_the_key_is_shown_nowhere(self) -> None:
        lines: list[str] = []

        class Watch(BaseCallbackHandler):
            def on_chat_model_start(self, serialized: Any, messages: Any, **about: Any) -> None:
                lines.append(repr((serialized, messages, about)))

            def on_llm_end(self, response: Any, **about: Any) -> None:
                lines.append(repr((response.generations[0][0].message.model_dump(), about)))

            def on_llm_error(self, error: BaseException, **about: Any) -> None:
                lines.append(repr((error, error.args, str(error), about)))

            def on_retry(self, retry_state: Any, **about: Any) -> None:
                lines.append(repr((retry_state, about)))

        class Lines(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                lines.append(record.getMessage())

        handler, root = Lines(), logging.getLogger()
        level = root.level
        root.addHandler(handler)
        root.setLevel(logging.DEBUG)
        try:
            model = self.model()
            errors: list[BaseException] = []
            watched: Any = {"callbacks": [Watch()]}
            for call in (
                model.invoke,
                lambda said, config: asyncio.run(model.ainvoke(said, config)),
                lambda said, config: list(model.stream(said, config)),
            ):
                self.wire.fail(503, f"busy, {self.key}")
                self.wire.fail(401, f"Incorrect API key provided: {self.key}")
                with raises(ModelAuthenticationError) as caught:
                    call("Hi", watched)
                errors += caught
            self.wire.say("Hello.")
            model.invoke("Hi", watched)
            assert len(lines) >= 8, "the handlers were told"
            shown = [
                repr(model),
                repr(model.bind(stop=["x"])),
                str(vars(model)),
                str(model._identifying_params),
                *lines,
            ]
            for error in errors:
                shown += ["".join(traceback.format_exception(error)), repr(error.args)]
        finally:
            root.removeHandler(handler)
            root.setLevel(level)
        for text in shown:
            assert self.key not in text

    # -- callers that leave

    def test_leaving_a_stream_ends_the_call(self) -> None:
        self.wire.events(*self._begun("Hel"), then="flood")
        stream = self.model().stream("Hi")
        assert any(chunk.text for chunk in stream)
        stream.close()
        assert self.wire.gone.wait(10), "the server still writes to somebody"

    def test_leaving_an_async_stream_ends_the_call(self) -> None:
        self.wire.events(*self._begun("Hel"), then="flood")

        async def read_one() -> None:
            stream = self.model().astream("Hi")
            async for chunk in stream:
                if chunk.text:
                    await stream.aclose()
                    return

        asyncio.run(read_one())
        assert self.wire.gone.wait(10), "the server still writes to somebody"

    def test_a_cancelled_call_ends_at_once(self) -> None:
        self.wire.hang()

        async def cancel() -> None:
            call = asyncio.ensure_future(self.model().ainvoke("Hi"))
            while not self.wire.requests:
                await asyncio.sleep(0.005)
            call.cancel()
            await call

        with raises(asyncio.CancelledError):
            asyncio.run(cancel())
        assert not self.wire.outwaited.is_set()

    def _begun(self, text: str) -> list[Any]:
        """The events of an answer up to its first piece of text."""
        from runwell.testing.wire.said import Said

        events = self.dialect.events(Said(pieces=[text, "?"]))
        place = next(place for place, event in enumerate(events) if text in str(event))
        return events[: place + 1]
