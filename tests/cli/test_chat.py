"""`runwell chat`, on a terminal and behind pipes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CHAT = ("chat", "--model", "scripted:any")
TOOLS = (*CHAT, "--tools", "tools:ALL")

Start = Callable[..., Any]


def deleted(folder: Path) -> list[str]:
    log = folder / "deleted.txt"
    return log.read_text().split() if log.exists() else []


# -- on a terminal


def test_a_conversation_on_a_terminal(terminal: Start) -> None:
    """Ctrl-D leaves, with status 0."""
    person = terminal(*CHAT)
    person.expect("you>")
    person.say("hello")
    person.expect("1 said: hello")
    person.expect("you>")
    person.say("again")
    person.expect("2 said: hello + again")
    person.expect("you>")
    person.ctrl_d()
    assert person.end() == 0
    assert "The conversation is kept" in person.seen


def test_a_terminal_that_can_do_little(terminal: Start) -> None:
    person = terminal(*CHAT, TERM="dumb")
    person.expect("you>")
    person.say("hello")
    person.expect("1 said: hello")
    person.expect("you>")
    person.say("/quit")
    assert person.end() == 0


@pytest.mark.parametrize("press", ["ctrl_c", "interrupt"])
def test_ctrl_c_stops_the_answer_and_not_the_program(terminal: Start, press: str) -> None:
    person = terminal("chat", "--model", "scripted:slow")
    person.expect("you>")
    person.say("forever")
    person.expect("on on on")
    getattr(person, press)()
    person.expect("Stopped")
    person.expect("you>")
    person.say("and now?")
    person.expect("2 said: forever + and now?")
    person.expect("you>")
    person.ctrl_d()
    assert person.end() == 0


def test_many_ctrl_cs_stop_no_more_than_one(terminal: Start) -> None:
    person = terminal(*TOOLS)
    person.expect("you>")
    person.say("wait for me")
    person.expect("wait_for_ever")
    for _ in range(5):
        person.interrupt()
    person.expect("Stopped")
    person.expect("you>")
    person.ctrl_c()
    person.expect("you>")
    person.say("still here?")
    person.expect("2 said: wait for me + still here?")
    person.expect("you>")
    person.say("/quit")
    assert person.end() == 0


def test_a_stopped_answer_can_be_gone_on_with(terminal: Start) -> None:
    person = terminal("chat", "--model", "scripted:slow")
    person.expect("you>")
    person.say("forever")
    person.expect("on on")
    person.ctrl_c()
    person.expect("you>")
    person.say("/continue")
    person.expect("on on on on")
    person.ctrl_c()
    person.expect("Stopped")


@pytest.mark.parametrize(
    ("said", "told", "ran"),
    [
        ("y", "The tool said: a.txt is gone", ["a.txt"]),
        ("YES", "The tool said: a.txt is gone", ["a.txt"]),
        ("n", "A person rejected this call", []),
        ("ask me tomorrow", "Their reason: ask me tomorrow", []),
    ],
)
def test_approvals(terminal: Start, folder: Path, said: str, told: str, ran: list[str]) -> None:
    person = terminal(*TOOLS)
    person.expect("you>")
    person.say("delete a.txt")
    person.expect('→ delete_file(path="a.txt")')
    person.expect('May delete_file(path="a.txt") run?')
    person.expect("y / n / text for the model>")
    assert deleted(folder) == []
    person.say("")  # no answer is no decision
    person.expect("y / n / text for the model>")
    person.say(said)
    person.expect(told)
    person.expect("you>")
    assert deleted(folder) == ran


def test_several_calls_are_decided_one_by_one(terminal: Start, folder: Path) -> None:
    person = terminal(*TOOLS)
    person.expect("you>")
    person.say("both a.txt b.txt")
    person.expect('May delete_file(path="a.txt") run?')
    person.expect("model>")
    person.say("n")
    person.expect('May delete_file(path="b.txt") run?')
    person.expect("model>")
    person.say("y")
    person.expect("The tool said")
    person.expect("you>")
    assert deleted(folder) == ["b.txt"]


def test_what_is_approved_is_shown_whole(terminal: Start) -> None:
    person = terminal(*TOOLS)
    person.expect("you>")
    person.say("delete " + "x" * 500 + "end")
    person.expect("May delete_file(")
    assert person.expect('") run?').endswith("x" * 500 + "end")


def test_ctrl_c_at_an_approval_leaves_it_open(terminal: Start, folder: Path) -> None:
    person = terminal(*TOOLS)
    person.expect("you>")
    person.say("delete a.txt")
    person.expect("model>")
    person.ctrl_c()
    person.expect("Left open")
    person.expect("you>")
    person.say("/continue")
    person.expect('May delete_file(path="a.txt") run?')
    person.expect("model>")
    person.say("y")
    person.expect("a.txt is gone")
    assert deleted(folder) == ["a.txt"]


def test_an_approval_of_an_earlier_start_is_asked_again(terminal: Start, folder: Path) -> None:
    person = terminal(*TOOLS)
    person.expect("you>")
    person.say("delete a.txt")
    person.expect("model>")
    person.ctrl_d()
    assert person.end() == 3
    other = terminal(*TOOLS, "--thread", "another")
    other.expect("0 messages so far")
    other.expect("you>")
    assert "May delete_file" not in other.seen
    later = terminal(*TOOLS)
    later.expect("waits for an answer")
    later.expect('May delete_file(path="a.txt") run?')
    later.expect("model>")
    assert deleted(folder) == []
    later.say("y")
    later.expect("The tool said: a.txt is gone")
    later.expect("you>")
    later.ctrl_d()
    assert later.end() == 0
    assert deleted(folder) == ["a.txt"]


def test_an_approval_survives_kill_9(terminal: Start, folder: Path) -> None:
    person = terminal(*TOOLS)
    person.expect("you>")
    person.say("delete a.txt")
    person.expect("model>")
    person.process.kill()
    later = terminal(*TOOLS)
    later.expect('May delete_file(path="a.txt") run?')


def test_a_tool_may_ask_anything(terminal: Start) -> None:
    person = terminal(*TOOLS)
    person.expect("you>")
    person.say("color me")
    person.expect("Which color?")
    person.expect("answer>")
    person.say("deep blue")
    person.expect("The tool said: they chose deep blue")


def test_an_answer_that_fails_ends_the_answer_only(terminal: Start) -> None:
    person = terminal(*CHAT)
    person.expect("you>")
    person.say("overload")
    person.expect("Too many people talk to me.")
    person.expect("Try again.")
    person.expect("you>")
    person.say("break")
    person.expect("a bug of the model's")
    person.expect("you>")
    person.say("hello")
    person.expect("3 said: overload + break + hello")


def test_a_killed_answer_is_offered_at_the_next_start(terminal: Start) -> None:
    person = terminal(*TOOLS)
    person.expect("you>")
    person.say("wait here")
    person.expect("wait_for_ever")
    person.process.kill()
    person.process.wait()
    later = terminal(*TOOLS)
    later.expect("was not finished: /continue")
    later.expect("you>")
    later.say("never mind")
    later.expect("2 said: wait here + never mind")


# -- behind pipes


def test_history_survives_a_restart(runwell: Any, folder: Path) -> None:
    assert "1 said: one" in runwell(*CHAT, input="one\n").out
    again = runwell(*CHAT, input="two\n")
    assert again.status == 0
    assert "2 messages so far" in again.err
    assert "2 said: one + two" in again.out
    assert "1 said: three" in runwell(*CHAT, "--thread", "other", input="three\n").out
    own = folder / "my.sqlite"
    assert "1 said: four" in runwell(*CHAT, "--db", str(own), input="four\n").out
    assert own.exists()


def test_the_default_file_is_nobody_elses(runwell: Any, folder: Path) -> None:
    runwell(*CHAT, input="one\n")
    assert (folder / "home" / "runwell" / "chat.sqlite").is_file()
    assert (folder / "home" / "runwell").stat().st_mode & 0o077 == 0


def test_standing_instructions(runwell: Any) -> None:
    assert "['Be brief.']1 said: one" in runwell(*CHAT, "--system", "Be brief.", input="one\n").out


def test_json_for_scripts(runwell: Any) -> None:
    done = runwell(*TOOLS, "--json", input="one\n\ncolor\nblue\n")
    assert done.status == 0
    first, paused, last = done.lines
    assert (first["thread"], first["text"], first["interrupts"]) == ("default", "[]1 said: one", [])
    assert [message["type"] for message in first["messages"]] == ["ai"]
    assert paused["text"] is None
    assert [question["value"] for question in paused["interrupts"]] == ["Which color?"]
    assert last["text"] == "The tool said: they chose blue"
    assert [message["type"] for message in last["messages"]] == ["ai", "tool", "ai"]


def test_a_script_leaves_an_approval_open_and_answers_it_later(runwell: Any, folder: Path) -> None:
    left = runwell(*TOOLS, "--json", input="delete a.txt\n")
    assert left.status == 3
    [told] = left.lines
    [request] = told["interrupts"][0]["value"]["action_requests"]
    assert (request["name"], request["args"]) == ("delete_file", {"path": "a.txt"})
    later = runwell(*TOOLS, "--json", input="y\n")
    assert later.status == 0
    asked, answered = later.lines
    assert asked["interrupts"] == told["interrupts"]
    assert answered["text"] == "The tool said: a.txt is gone"
    assert deleted(folder) == ["a.txt"]


def test_who_answered_is_on_record(runwell: Any, folder: Path) -> None:
    runwell(*TOOLS, input="delete a.txt\ny\n")
    with sqlite3.connect(folder / "home" / "runwell" / "chat.sqlite") as connection:
        dump = "".join(connection.iterdump())
    assert "ada" in dump or b"ada".hex() in dump.lower()


def test_a_failed_answer_fails_the_script(runwell: Any) -> None:
    done = runwell(*CHAT, "--json", input="overload\nhello\n")
    assert done.status == 1
    failed, fine = done.lines
    assert failed["error"]["message"] == "Too many people talk to me."
    assert failed["error"]["code"].startswith("RW")
    assert fine["text"] == "[]2 said: overload + hello"


def test_what_is_approved_cannot_hide(runwell: Any) -> None:
    out = runwell(*TOOLS, input="delete a\x1b[8m\u202eb\nn\n").out
    assert 'May delete_file(path="a\\u001b[8m\\u202eb") run?' in out


def test_what_a_model_says_does_not_steer_the_terminal(runwell: Any) -> None:
    out = runwell(*CHAT, input="tricks\n").out
    assert "[bold]plain[/bold] \\x1b[2Jscreen" in out
    assert "\x1b" not in out


# -- prerequisites: told in a few lines, before anything is written


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--model", "opnai:gpt-5"), "did you mean 'openai'"),
        (("--model", "openai:gpt-5"), "OPENAI_API_KEY"),
        (("--model", "local:nothing"), "No bundled model is called"),
        (("--model", "missing.gguf"), "missing.gguf"),
        (("--model", "local:smollm2-135m"), "RUNWELL_OFFLINE"),
        (("--model", "scripted:a", "--tools", "no_such_module:x"), "There is no module 'no_such_module'"),
        (("--model", "scripted:a", "--tools", "tools:ALLL"), "did you mean 'ALL'"),
        (("--model", "scripted:a", "--tools", "tools"), "'tools' is not of the form module:name"),
        (("--model", "scripted:a", "--tools", "tools:TWICE"), "delete_file"),
        (("--model", "scripted:a", "--tools", "tools:NUMBER"), "3"),
    ],
)
def test_what_is_wrong_is_said_at_once(runwell: Any, folder: Path, arguments: tuple[str, ...], told: str) -> None:
    done = runwell("chat", *arguments, input="hello\n")
    assert done.status == 1
    assert told in done.err
    assert "Traceback" not in done.err
    assert done.out == ""
    assert not list(folder.rglob("*.sqlite"))


@pytest.mark.parametrize("make", ["text", "folder", "nowhere"])
def test_a_file_that_cannot_keep_a_conversation(runwell: Any, folder: Path, make: str) -> None:
    path = folder / "kept.db"
    if make == "text":
        path.write_text("This is a shopping list, and no database at all." * 50)
    elif make == "folder":
        path.mkdir()
    else:
        path = folder / "no" / "such" / "kept.db"
    done = runwell(*CHAT, "--db", str(path), input="hello\n")
    assert done.status == 1
    assert "kept.db" in done.err
    assert "Traceback" not in done.err
    if make == "text":
        assert path.read_text().startswith("This is a shopping list")
