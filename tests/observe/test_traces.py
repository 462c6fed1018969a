"""Where what happened is written: a file, the terminal, token counts."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import stat
import weakref
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from types import SimpleNamespace
from uuid import UUID

import pytest

from runwell.messages.message import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from runwell.observe import (
    BaseCallbackHandler,
    ConsoleHandler,
    DecisionLog,
    JsonlTrace,
    get_usage_metadata_callback,
    observing,
    record_decision,
)
from runwell.observe.managers import AsyncRunManager, RunManager
from runwell.observe.run import enter_run, leave_run, open_run
from runwell.runnables import RunnableLambda


class Message:
    """Stands for a chat model's answer."""

    type = "ai"

    def __init__(self, text, tokens):
        self.text = self.content = text
        self.usage_metadata = {
            "input_tokens": tokens,
            "output_tokens": 1,
            "total_tokens": tokens + 1,
            "input_token_details": {"cache_read": 2},
        }
        self.response_metadata = {"model_name": "m1"}

    def model_dump(self):
        return {"type": self.type, "content": self.content}


def model(text, tokens=10):
    """A step that opens a chat model's run, as a chat model does."""

    def call(messages):
        run = open_run("chat_model", "m", [SimpleNamespace(type="human", text=messages)])
        answer = Message(text, tokens)
        if run is None:
            return answer.text
        with run:
            manager = RunManager(run)
            for piece in text.split():
                manager.on_llm_new_token(piece + " ", chunk=piece)
            run.end(answer)
        return answer.text

    return RunnableLambda(call, name="call")


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_trace_is_a_tree_of_lines_with_times_and_tokens(tmp_path, driver):
    path = tmp_path / "sub" / "trace.jsonl"
    with JsonlTrace(path, redact=None) as trace:
        driver.invoke(model("hello you"), "hi", {"callbacks": [trace], "tags": ["t"]})
    first, second, third, last = lines(path)
    assert (first["event"], first["name"], first["inputs"], first["parent_id"]) == ("start", "call", "hi", None)
    assert first["tags"] == ["t"]
    assert (second["kind"], second["parent_id"]) == ("chat_model", first["run_id"])
    assert third["usage"]["total_tokens"] == 11
    assert third["outputs"] == {"type": "ai", "content": "hello you"}
    assert (last["event"], last["outputs"], last["run_id"]) == ("end", "hello you", first["run_id"])
    assert 0 <= third["seconds"] <= last["seconds"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_redaction_has_to_be_said_and_covers_all_content(tmp_path, driver):
    with pytest.raises(TypeError, match="redact"):
        JsonlTrace(tmp_path / "x")  # type: ignore[call-arg]

    def fails(text):
        record_decision("D2", {"was": text}, f"saw {text}", "code")
        raise ValueError(f"secret in {text}")

    path = tmp_path / "trace.jsonl"
    trace = JsonlTrace(path, redact=lambda value: json.loads(json.dumps(value).replace("secret", "***")))
    with pytest.raises(ValueError, match="secret"):
        driver.invoke(
            model("a secret answer") | fails, "my secret", {"callbacks": [trace], "metadata": {"m": "secret"}}
        )
    trace.close()
    text = path.read_text()
    assert "secret" not in text
    assert "***" in text
    assert {line["event"] for line in lines(path)} == {"start", "end", "error", "decision"}


def test_a_trace_appends_and_is_readable_after_each_line(tmp_path):
    path = tmp_path / "trace.jsonl"
    for _ in range(2):
        with JsonlTrace(path, redact=None) as trace:
            RunnableLambda(lambda v: len(lines(path)) or v).invoke({1, 2}, {"callbacks": [trace]})
    assert [line["event"] for line in lines(path)] == ["start", "end"] * 2
    assert lines(path)[1]["outputs"] == 1


def test_the_console_shows_runs_indented_and_text_as_it_comes(driver):
    out = io.StringIO()
    driver.invoke(model("hello you"), "hi", {"callbacks": [ConsoleHandler(out)]})
    shown = out.getvalue().splitlines()
    assert shown[0] == "> call  hi"
    assert shown[1].startswith("  > m")
    assert shown[2] == "hello you "
    assert shown[3].startswith("  < m  0.")
    assert "hello you" not in shown[3]
    assert shown[4].startswith("< call  0.")
    assert shown[4].endswith("hello you")


def test_the_console_cuts_long_values_and_shows_errors(driver):
    out = io.StringIO()

    def fails(text):
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        driver.invoke(RunnableLambda(fails), "x" * 500, {"callbacks": [ConsoleHandler(out, width=20)]})
    assert out.getvalue() == "> fails  " + "x" * 17 + "...\n! fails  ValueError: broken\n"


def test_tokens_are_counted_by_model(driver):
    with get_usage_metadata_callback() as usage:
        driver.batch(model("a"), ["x", "y", "z"])
    driver.invoke(model("not counted"), "x")
    assert usage.usage_metadata == {
        "m1": {
            "input_tokens": 30,
            "output_tokens": 3,
            "total_tokens": 33,
            "input_token_details": {"cache_read": 6},
        }
    }


def test_model_methods_get_messages_tokens_and_a_result(driver):
    told = []

    class Watch(BaseCallbackHandler):
        def on_chat_model_start(self, serialized, messages, **kwargs):
            told.append(("start", messages[0][0].text))

        async def on_llm_new_token(self, token, *, chunk=None, **kwargs):
            told.append(("token", token, chunk))

        def on_llm_end(self, response, **kwargs):
            told.append(("end", response.generations[0][0].message.text, response.llm_output))

    driver.invoke(model("hello you"), "hi", {"callbacks": [Watch()]})
    assert told == [("start", "hi"), ("token", "hello ", "hello"), ("token", "you ", "you"), ("end", "hello you", {})]


def test_a_handler_that_only_knows_prompts_gets_a_transcript(driver):
    told = []

    class Old(BaseCallbackHandler):
        def on_llm_start(self, serialized, prompts, **kwargs):
            told.append(prompts)

    driver.invoke(model("x"), "hi", {"callbacks": [Old()]})
    assert told == [["human: hi"]]


def test_kinds_can_be_ignored(driver):
    told = []

    class Only(BaseCallbackHandler):
        ignore_llm = True

        def on_chain_start(self, *args, **kwargs):
            told.append("chain")

        def on_chat_model_start(self, *args, **kwargs):
            told.append("model")

    driver.invoke(model("x"), "hi", {"callbacks": [Only()]})
    assert told == ["chain"]


def test_a_run_manager_hands_its_run_on():
    parents = []

    class Watch(BaseCallbackHandler):
        def on_chain_start(self, serialized, inputs, *, run_id, parent_run_id=None, **kwargs):
            parents.append(parent_run_id)

    with observing(Watch()):
        run = open_run("tool", "t", "x")
    assert run is not None
    manager = AsyncRunManager(run)
    RunnableLambda(len).invoke("x", {"callbacks": manager.get_child()})
    assert parents == [run.run_id]


def test_a_message_is_written_once_in_a_run(tmp_path, driver):
    """A trace grows with what is said, not with its square."""
    from runwell.messages import AIMessage, HumanMessage

    def talk(turns):
        def step(history):
            inner = RunnableLambda(lambda given: [*given, AIMessage("x" * 1000, id=f"a{len(given)}")], name="inner")
            for _ in range(turns):
                history = inner.invoke(history)
            return history

        path = tmp_path / f"{turns}.jsonl"
        with JsonlTrace(path, redact=None) as trace:
            driver.invoke(RunnableLambda(step), [HumanMessage("hi", id="h")], {"callbacks": [trace]})
        return path

    assert talk(40).stat().st_size < 4.5 * talk(10).stat().st_size
    first, inner, told, *_, last = lines(talk(10))
    assert [message["content"] for message in first["inputs"]] == ["hi"]
    assert inner["inputs"] == [{"again": 1, "to": "h"}]
    assert [message.get("id") or message for message in told["outputs"]] == [{"again": 1, "to": "h"}, "a1"]
    assert last["outputs"] == [{"again": 11, "to": "a10"}]


def test_a_message_that_changed_is_written_anew_and_so_is_one_of_another_run(tmp_path, driver):
    from runwell.messages import HumanMessage

    path = tmp_path / "trace.jsonl"
    with JsonlTrace(path, redact=None) as trace:
        edit = RunnableLambda(lambda given: [given[0].model_copy(update={"content": "edited"})], name="edit")
        asked = [HumanMessage("said", id="h")]
        for _ in range(2):
            driver.invoke(edit, asked, {"callbacks": [trace]})
    told = [line.get("inputs") or line["outputs"] for line in lines(path)]
    assert [each[0]["content"] for each in told] == ["said", "edited", "said", "edited"]


def test_text_that_has_no_utf_8_is_written_as_an_escape(tmp_path, driver):
    path = tmp_path / "trace.jsonl"
    with JsonlTrace(path, redact=None) as trace:
        driver.invoke(RunnableLambda(lambda text: text), "half \ud83d", {"callbacks": [trace]})
    assert [line.get("inputs") or line["outputs"] for line in lines(path)] == ["half \ud83d"] * 2


def test_what_json_has_no_form_for_is_written_in_some_form(tmp_path, driver):
    from datetime import date

    from runwell.messages import AIMessage, ToolMessage

    call = {"name": "f", "args": {"day": date(2026, 1, 2), 3: {4}, "half": "\ud83d", "raw": b"\xff"}, "id": "1"}
    given = {"messages": [AIMessage("", tool_calls=[call], id="a"), ToolMessage("x", tool_call_id="1", artifact={5})]}
    path = tmp_path / "trace.jsonl"
    with JsonlTrace(path, redact=None) as trace:
        driver.invoke(
            RunnableLambda(lambda _: float("inf")), given, {"callbacks": [trace], "metadata": {"m": (1, {2})}}
        )
    start, end = lines(path)
    answer, found = start["inputs"]["messages"]
    assert set(answer["tool_calls"][0]["args"]) == {"day", "3", "half", "raw"}
    assert "2026" in answer["tool_calls"][0]["args"]["day"]
    assert (found["type"], found["artifact"]) == ("tool", [5])
    assert start["metadata"] == {"m": [1, [2]]}
    assert end["outputs"] == float("inf")


def test_what_redact_is_given_is_its_own(tmp_path, driver):
    def cut(value):
        if isinstance(value, dict):
            value.clear()
        return value

    given = {"a": {"secret": 1}, "b": 2}
    path = tmp_path / "trace.jsonl"
    with JsonlTrace(path, redact=cut) as trace:
        driver.invoke(RunnableLambda(lambda value: value), given, {"callbacks": [trace]})
    assert given == {"a": {"secret": 1}, "b": 2}
    assert [line.get("inputs", line.get("outputs")) for line in lines(path)] == [{}, {}]


def test_numbers_and_keys_that_are_more_than_json_has_are_written_as_python_writes_them(tmp_path, driver):
    vector, large = [0.5, float("-inf")], 2**70
    given = {"vector": vector, "far": {"inf": float("inf")}, "large": large, (1, 2): "pair", 3: [1.5, 2.5]}
    path = tmp_path / "trace.jsonl"
    for redact in (None, lambda value: value):
        with JsonlTrace(path, redact=redact) as trace:
            driver.invoke(RunnableLambda(lambda _: float("-inf")), given, {"callbacks": [trace]})
    told = lines(path)
    written = {"vector": vector, "far": {"inf": float("inf")}, "large": large, "(1, 2)": "pair", "3": [1.5, 2.5]}
    assert [line["inputs"] for line in told if line["event"] == "start"] == [written, written]
    assert [line["outputs"] for line in told if line["event"] == "end"] == [float("-inf")] * 2


def test_a_number_of_a_class_of_its_own_is_written_as_a_number(tmp_path, driver):
    class Score(float):
        pass

    given = {"score": Score(2.5), "far": Score("-inf"), "all": [Score(1.5), 2.0]}
    with JsonlTrace(tmp_path / "t.jsonl", redact=None) as trace:
        driver.invoke(RunnableLambda(lambda _: Score(0.5)), given, {"callbacks": [trace]})
    start, end = lines(tmp_path / "t.jsonl")
    assert start["inputs"] == {"score": 2.5, "far": float("-inf"), "all": [1.5, 2.0]}
    assert end["outputs"] == 0.5


def test_infinite_numbers_in_a_message_are_written_as_python_writes_them(tmp_path, driver):
    far = {"logprobs": [-0.5, float("-inf")]}
    call = {"name": "seek", "args": {"at": float("inf")}, "id": "c", "type": "tool_call"}
    message = AIMessage(
        [{"type": "score", "of": far}], tool_calls=[call], response_metadata={"at": datetime(2026, 1, 2), **far}
    )
    with JsonlTrace(tmp_path / "t.jsonl", redact=None) as trace:
        driver.invoke(RunnableLambda(lambda _: "done"), message, {"callbacks": [trace]})
    shown = lines(tmp_path / "t.jsonl")[0]["inputs"]
    assert shown["content"] == [{"type": "score", "of": far}]
    assert shown["tool_calls"] == [call]
    assert shown["response_metadata"] == {"at": "2026-01-02T00:00:00", **far}


def test_a_message_before_a_key_that_is_no_text_is_written_whole(tmp_path, driver):
    given = {"said": [HumanMessage("hello", id="h")], 1: "one"}
    with JsonlTrace(tmp_path / "t.jsonl", redact=None) as trace:
        driver.invoke(RunnableLambda(lambda _: "done"), given, {"callbacks": [trace]})
    shown = lines(tmp_path / "t.jsonl")[0]["inputs"]
    assert shown["said"][0]["content"] == "hello"
    assert shown["1"] == "one"


def test_one_line_that_cannot_be_written_does_not_take_others_with_it(tmp_path, driver):
    circular = {}
    circular["itself"] = circular
    path = tmp_path / "trace.jsonl"
    with JsonlTrace(path, redact=None) as trace:
        chain = RunnableLambda(lambda _: circular, name="odd") | RunnableLambda(lambda _: "fine", name="even")
        assert driver.invoke(chain, "x", {"callbacks": [trace]}) == "fine"
    assert ["end", "even", "fine"] in [[line["event"], line["name"], line.get("outputs")] for line in lines(path)]


def test_dates_bytes_and_the_like_have_the_usual_forms_wherever_they_stand(tmp_path, driver):
    @dataclass
    class Place:
        name: str
        seen: date

    class Colour(Enum):
        RED = "red"

    odd = {"at": datetime(2026, 1, 2), "raw": b"ab", "id": UUID(int=5), "in": Place("here", date(2026, 1, 3))}
    odd |= {"all": {1}, "colour": Colour.RED}
    call = {"name": "seek", "args": {**odd}, "id": "c", "type": "tool_call"}
    given = {**odd, "said": [AIMessage("", tool_calls=[call], id="a")], "half": "\ud83d"}
    with JsonlTrace(tmp_path / "t.jsonl", redact=None) as trace:
        for _ in range(2):  # the second time without what has no UTF-8, and all goes another way
            driver.invoke(RunnableLambda(lambda _: odd), given, {"callbacks": [trace]})
            given.pop("half", None)
    usual = {"at": "2026-01-02T00:00:00", "raw": "YWI=", "id": str(UUID(int=5)), "all": [1], "colour": "red"}
    usual["in"] = {"name": "here", "seen": "2026-01-03"}
    for line in lines(tmp_path / "t.jsonl"):
        shown = line.get("inputs") or line["outputs"]
        assert {name: shown[name] for name in usual} == usual
        if "said" in shown:
            assert shown["said"][0]["tool_calls"][0]["args"] == usual


def test_messages_that_are_told_again_stand_in_short_whatever_is_around_them(tmp_path, driver):
    first, second, third = (HumanMessage(text, id=text) for text in ("one", "two", "three"))
    rules = SystemMessage("Be brief.")
    step = RunnableLambda(lambda _: None, name="step")
    lists = [
        [first, second],
        [rules, first, second],
        [rules, first, second, third],
        [first, third],
        [first, third],
        [third, first, rules],
        [first, second.model_copy(update={"content": "2"}), third],
        [first, second, third],
    ]
    with JsonlTrace(tmp_path / "t.jsonl", redact=None) as trace, observing(trace):
        driver.invoke(RunnableLambda(lambda _: [step.invoke(each) for each in lists]), None)
    told = [line["inputs"] for line in lines(tmp_path / "t.jsonl") if line["name"] == "step" and "inputs" in line]
    assert (told[1][0]["id"], told[1][0]["ref"]) == (None, 1)
    assert [[item.get("content", item) for item in each] for each in told] == [
        ["one", "two"],
        ["Be brief.", {"again": 2, "to": "two"}],
        [{"again": 1, "to": 1}, {"again": 2, "to": "two"}, "three"],
        [{"again": 2, "to": "three"}],
        [{"again": 2, "to": "three"}],
        [{"again": 2, "to": "one"}, {"again": 1, "to": 1}],
        [{"again": 1, "to": "one"}, "2", {"again": 1, "to": "three"}],
        [{"again": 1, "to": "one"}, "two", {"again": 1, "to": "three"}],
    ]


def test_a_trace_whose_handle_was_written_anew_is_told_of_everything(tmp_path, driver):
    heard = []

    class Mine(JsonlTrace):
        def handle(self, event):
            heard.append(type(event).__name__)
            super().handle(event)

    with Mine(tmp_path / "mine.jsonl", redact=None) as mine, JsonlTrace(tmp_path / "own.jsonl", redact=None) as own:
        plain = own.handle
        own.handle = lambda event: heard.append("own") or plain(event)
        for trace in (mine, own):
            driver.invoke(RunnableLambda(len), "word", {"callbacks": [trace]})
    assert heard == ["RunStarted", "RunEnded", "own", "own"]
    shown = [[line["event"] for line in lines(tmp_path / name)] for name in ("mine.jsonl", "own.jsonl")]
    assert shown == [["start", "end"]] * 2


def test_a_second_handler_in_an_inner_call_does_not_change_what_is_written(tmp_path, driver):
    class Other:
        def handle(self, event):
            pass

    said = [HumanMessage("hello", id="h")]

    def outer(_):
        inner = RunnableLambda(lambda given: given, name="inner")
        return inner.invoke(said, {"callbacks": [Other()], "tags": ["deep"], "metadata": {"by": "me"}})

    with JsonlTrace(tmp_path / "t.jsonl", redact=None) as trace:
        driver.invoke(RunnableLambda(outer, name="outer"), said, {"callbacks": [trace]})
    shown = lines(tmp_path / "t.jsonl")
    assert [(line["event"], line["name"]) for line in shown] == [
        ("start", "outer"),
        ("start", "inner"),
        ("end", "inner"),
        ("end", "outer"),
    ]
    assert shown[1]["parent_id"] == shown[0]["run_id"]
    assert (shown[1]["tags"], shown[1]["metadata"]) == (["deep"], {"by": "me"})
    assert [line.get("inputs") or line["outputs"] for line in shown[1:]] == [[{"again": 1, "to": "h"}]] * 3


def test_messages_in_a_dataclass_stand_in_short_too_and_one_that_removes_another_is_written(tmp_path, driver):
    @dataclass
    class State:
        messages: list
        steps: int = 1

    said = [HumanMessage("hello", id="h"), RemoveMessage(id="g")]
    with JsonlTrace(tmp_path / "t.jsonl", redact=None) as trace:
        driver.invoke(RunnableLambda(lambda state: state), State(said), {"callbacks": [trace]})
    start, end = lines(tmp_path / "t.jsonl")
    assert [each["type"] for each in start["inputs"]["messages"]] == ["human", "remove"]
    assert start["inputs"]["messages"][1]["id"] == "g"
    assert end["outputs"] == {"messages": [{"again": 2, "to": "g"}], "steps": 1}


@pytest.mark.parametrize("others", [[], [BaseCallbackHandler()]])
def test_what_redacts_metadata_or_a_reason_and_fails_stops_nothing_and_hides_it(others, tmp_path, driver, caplog):
    def redact(value):
        if "secret" in str(value):
            raise ValueError("no")
        return value

    def step(value):
        record_decision("D2", "mine", "a secret", "code")
        record_decision("D3", "mine", "because", "code")
        return value

    with JsonlTrace(tmp_path / "t.jsonl", redact=redact) as trace:
        for metadata in ({"by": "secret"}, {"by": "me"}):
            config = {"callbacks": [trace, *others], "metadata": metadata}
            assert driver.invoke(RunnableLambda(step), "in", config) == "in"
    text = (tmp_path / "t.jsonl").read_text()
    assert "secret" not in text
    shown = [(line["event"], line.get("seat")) for line in lines(tmp_path / "t.jsonl")]
    assert shown == [("decision", "D3"), ("end", None), ("start", None), ("decision", "D3"), ("end", None)]
    assert [record.exc_info[1].args for record in caplog.records] == [("no",)] * 3


def test_a_message_in_a_line_that_could_not_be_written_is_written_in_the_next(tmp_path, driver):
    class Odd:
        def __repr__(self):
            raise ValueError("no")

    said = HumanMessage("hello", id="h")
    with JsonlTrace(tmp_path / "t.jsonl", redact=None) as trace:
        chain = RunnableLambda(lambda _: [said, Odd()]) | RunnableLambda(lambda given: given[:1])
        driver.invoke(chain, "x", {"callbacks": [trace]})
    *_, last, whole = [line["outputs"] for line in lines(tmp_path / "t.jsonl") if line["event"] == "end"]
    assert (last[0]["content"], whole) == ("hello", [{"again": 1, "to": "h"}])


@pytest.mark.parametrize("others", [[], [BaseCallbackHandler()]])
def test_a_trace_keeps_no_message_of_a_run_that_is_over(others, tmp_path, driver):
    class Held:
        pass

    def step(given):
        record_decision("D2", "mine", "because", "code")
        if len(log) == 2:
            raise KeyError("no")
        return given

    log, held = DecisionLog(), Held()
    gone = weakref.ref(held)
    said = [HumanMessage("hello", id="h", additional_kwargs={"held": held})]
    del held
    with JsonlTrace(tmp_path / "t.jsonl", redact=None) as trace:
        for _ in range(2):
            with contextlib.suppress(KeyError):
                driver.invoke(RunnableLambda(step), said, {"callbacks": [trace, log, *others]})
        said.clear()
        gc.collect()
        assert len(log) == 2
        assert gone() is None


class Unwritable:
    def __repr__(self):
        raise ValueError("no")


def test_a_line_refers_to_no_message_in_one_that_was_written_with_it_and_could_not_be(tmp_path):
    said, more = HumanMessage("hello", id="h"), HumanMessage("ho", id="o")
    with JsonlTrace(tmp_path / "t.jsonl", redact=None) as trace:
        outer = open_run("chain", "outer", [more], {"callbacks": [trace]})
        outer.goes_on = True  # so what is told in it is written together
        with outer:
            leave_run(enter_run("node", "first", "x"), [said, Unwritable()])
            leave_run(enter_run("node", "second", [more, said], True), [said])
            outer.end("done")
    shown = [(line["event"], line["name"]) for line in lines(tmp_path / "t.jsonl")]
    assert shown == [("start", "outer"), ("start", "first"), ("start", "second"), ("end", "second"), ("end", "outer")]
    again, end = lines(tmp_path / "t.jsonl")[2]["inputs"], lines(tmp_path / "t.jsonl")[3]["outputs"]
    assert [message["content"] for message in again] == ["ho", "hello"]
    assert end == [{"again": 1, "to": "h"}]


class FullDisk(io.RawIOBase):
    """A file on a disk that has room for `room` bytes more."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def write(self, data):
        if self.room == 0:
            raise OSError(28, "No space left on device")
        written = self.file.write(bytes(data[: self.room]))
        self.room -= written
        return written

    def close(self):
        self.file.close()


@pytest.mark.parametrize("room", [0, 100])
def test_after_a_full_disk_a_trace_goes_on_with_whole_lines_and_messages(room, tmp_path, driver, caplog):
    path = tmp_path / "t.jsonl"
    said = HumanMessage("hello", id="h")

    def step(given):
        disk.room = 1_000_000  # somebody made some
        return given

    with JsonlTrace(path, redact=None) as trace:
        disk = trace._file = FullDisk(trace._file, room)
        assert driver.invoke(RunnableLambda(step), [said], {"callbacks": [trace]}) == [said]
    *torn, end = path.read_text().splitlines()
    assert [len(line) for line in torn] == ([100] if room else [])
    assert json.loads(end)["outputs"][0]["content"] == "hello"
    assert [record.exc_info[1].errno for record in caplog.records] == [28]


def test_what_the_system_writes_in_parts_is_written_whole(tmp_path, driver):
    class Slow(FullDisk):
        def write(self, data):
            self.room = 7
            return super().write(data)

    with JsonlTrace(tmp_path / "t.jsonl", redact=None) as trace:
        trace._file = Slow(trace._file, 7)
        driver.invoke(RunnableLambda(lambda x: x), "in", {"callbacks": [trace]})
    assert [line["event"] for line in lines(tmp_path / "t.jsonl")] == ["start", "end"]


def test_keys_of_the_same_text_are_one_and_hide_no_message_that_is_referred_to(tmp_path, driver):
    said = HumanMessage("hello", id="h")
    with JsonlTrace(tmp_path / "t.jsonl", redact=None) as trace:
        driver.invoke(RunnableLambda(lambda _: [said]), {1: [said], "1": 2}, {"callbacks": [trace]})
    start, end = (tmp_path / "t.jsonl").read_text().splitlines()
    assert start.count('"1"') == 1
    assert json.loads(start)["inputs"] == {"1": 2}
    assert json.loads(end)["outputs"][0]["content"] == "hello"


def test_a_key_has_one_form_whatever_else_is_in_its_line(tmp_path, driver):
    class Colour(Enum):
        RED = "red"

    keys = {True: 1, 2.5: 2, None: 3, UUID(int=5): 4, date(2026, 1, 3): 5, Colour.RED: 6, b"ab": 7}
    with JsonlTrace(tmp_path / "t.jsonl", redact=None) as trace:
        for more in ("plain", 2**70, "\ud83d"):
            driver.invoke(RunnableLambda(lambda _: 0), {"in": dict(keys), "more": more}, {"callbacks": [trace]})
    shown = [line["inputs"]["in"] for line in lines(tmp_path / "t.jsonl") if line["event"] == "start"]
    usual = {"True": 1, "2.5": 2, "None": 3, str(UUID(int=5)): 4, "2026-01-03": 5, "red": 6, "YWI=": 7}
    assert shown == [usual] * 3


def test_what_a_message_without_an_id_is_called_is_its_own_in_a_run(tmp_path, driver):
    said, noted = HumanMessage("hello"), HumanMessage("a note")
    with JsonlTrace(tmp_path / "t.jsonl", redact=None) as trace:
        config = {"callbacks": [trace], "metadata": {"notes": [noted]}}
        driver.invoke(RunnableLambda(lambda given: given), [said], config)
    start, end = lines(tmp_path / "t.jsonl")
    assert (start["inputs"][0]["ref"], end["outputs"]) == (1, [{"again": 1, "to": 1}])
    assert "ref" not in start["metadata"]["notes"][0]


def test_arguments_that_a_hook_put_into_a_call_are_written_as_anywhere(tmp_path, driver):
    call = {"name": "t", "args": {"x": 1}, "id": "c", "type": "tool_call"}

    def changed(messages):
        args = messages[0].tool_calls[0]["args"]
        args["x"], args["said"] = float("inf"), HumanMessage("hello", id="h")
        return messages[0].tool_calls[0]

    with JsonlTrace(tmp_path / "t.jsonl", redact=None) as trace:
        driver.invoke(RunnableLambda(changed), [AIMessage("", tool_calls=[call], id="a")], {"callbacks": [trace]})
    shown = lines(tmp_path / "t.jsonl")[1]["outputs"]["args"]
    assert (shown["x"], shown["said"]["type"]) == (float("inf"), "human")


def test_messages_that_cannot_be_compared_are_written(tmp_path, driver):
    class Vector:
        """As NumPy's: two of them are not equal or different."""

        def __eq__(self, other):
            raise ValueError("ambiguous")

        def __repr__(self):
            return "vector"

    def found():
        return ToolMessage("found", tool_call_id="c", id="t", artifact=Vector())

    asked = HumanMessage("hello", id="h")
    with JsonlTrace(tmp_path / "t.jsonl", redact=None) as trace:
        chain = RunnableLambda(lambda given: given) | RunnableLambda(lambda _: [asked, found()])
        driver.invoke(chain, [asked, found()], {"callbacks": [trace]})
    shown = lines(tmp_path / "t.jsonl")
    assert [line["event"] for line in shown] == ["start", "start", "end", "start", "end", "end"]
    assert shown[4]["outputs"][1]["artifact"] == "vector"


def test_what_is_told_after_a_trace_was_closed_is_dropped_and_an_interrupt_is_not(tmp_path):
    def stopped(value):
        raise KeyboardInterrupt

    for redact, wanted in ((None, contextlib.nullcontext()), (stopped, pytest.raises(KeyboardInterrupt))):
        trace = JsonlTrace(tmp_path / "t.jsonl", redact=redact)
        trace.close()
        with wanted, observing(trace):
            assert RunnableLambda(len).invoke("word") == 4
    assert (tmp_path / "t.jsonl").read_text() == ""
