"""Faults that users of such frameworks met, as behaviours of whole pipelines; and lab 2."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys

import pytest

import runwell.chat_history
import runwell.observe
import runwell.parsers
import runwell.prompts
import runwell.runnables
from runwell.observe import BaseCallbackHandler
from runwell.parsers import StrOutputParser
from runwell.prompts import ChatPromptTemplate
from runwell.runnables import RunnableGenerator, RunnableLambda, RunnablePassthrough, streamable
from runwell.testing import GenericFakeChatModel

MAIL = r"[\w.]+@[\w.]+\w"


@pytest.mark.parametrize("pieces", [["bob@exa", "mple.com ok"], list("to bob@example.com, or eve@x.org."), ["a@b.c"]])
def test_strm_05_what_is_redacted_is_in_no_chunk_event_or_output(pieces, driver):
    redact = streamable(hold=MAIL)(lambda text: re.sub(MAIL, "[mail]", text))
    seen = []

    class Watch(BaseCallbackHandler):
        wants_chunks = True

        def on_chain_end(self, outputs, **kwargs):
            seen.append(outputs)

    def model(chunks):
        for _ in chunks:
            yield from pieces

    after = RunnableLambda(lambda text: text)
    chain = RunnableGenerator(model) | redact | RunnablePassthrough()
    chunks = driver.stream(chain, "?")
    whole = driver.invoke(chain | after.with_config(callbacks=[Watch()]), "?")
    assert "".join(chunks) == whole == re.sub(MAIL, "[mail]", "".join(pieces))
    assert not any("@" in text for text in (*chunks, *seen))


ROOMS = ["runnables", "observe", "prompts", "parsers", "chat_history", "messages", "tools", "models", "graph", "agents"]


@pytest.mark.integration
@pytest.mark.parametrize("first", ROOMS)
def test_run_22_every_room_can_be_imported_first(first):
    rest = [room for room in ROOMS if room != first]
    code = "".join(
        f"import runwell.{room}\nfor name in runwell.{room}.__all__: getattr(runwell.{room}, name)\n"
        for room in (first, *rest)
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "room", [runwell.runnables, runwell.prompts, runwell.parsers, runwell.chat_history, runwell.observe]
)
def test_every_public_name_exists_and_is_listed(room):
    assert sorted(set(room.__all__)) == sorted(room.__all__)
    for name in room.__all__:
        found = getattr(room, name)
        assert found.__doc__ or not (inspect.isclass(found) or inspect.isfunction(found)), name
    with pytest.raises(AttributeError, match="no attribute 'nothing_of_the_kind'"):
        _ = room.nothing_of_the_kind


TOKENS = " ".join(f"token{number}" for number in range(100))


def test_lab_2_one_plain_function_stops_the_stream_and_a_generator_lets_it_through(driver):
    """The contract of `transform`: a step that must see its whole input gives its output when that has ended."""

    def chain():
        model = GenericFakeChatModel(messages=iter([TOKENS]))
        return ChatPromptTemplate.from_template("{q}") | model | StrOutputParser()

    def shout(text):
        return text.upper()

    def shout_each(chunks):
        for chunk in chunks:
            yield chunk.upper()

    working = driver.stream(chain(), {"q": 1})
    broken = driver.stream(chain() | shout, {"q": 1})
    fixed = driver.stream(chain() | shout_each, {"q": 1})
    marked = driver.stream(chain() | streamable(shout), {"q": 1})
    assert len(working) >= 100
    assert len(broken) == 1
    assert len(fixed) == len(working)
    assert len([each for each in marked if each]) == len([each for each in working if each])
    assert "".join(broken) == "".join(fixed) == "".join(marked) == TOKENS.upper()
    report = (chain() | shout).explain_streaming()
    assert [step.name for step in report.buffering] == ["shout"]
    assert (chain() | shout_each).explain_streaming().buffering == ()


def test_case_1_the_report_names_the_harmless_step():
    def strip_internal_links(text):
        return text

    model = GenericFakeChatModel(messages=iter([""]))
    told = str(
        (ChatPromptTemplate.from_template("{q}") | model | StrOutputParser() | strip_internal_links).explain_streaming()
    )
    assert "buffers at 'strip_internal_links'" in told
    assert "test_cases.py" in told
