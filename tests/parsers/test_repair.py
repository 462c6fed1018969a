"""Parsers that ask a model to mend an answer."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest

from runwell.errors import InvalidInput, OutputParserException
from runwell.messages.message import AIMessage, BaseMessage
from runwell.parsers import JsonOutputParser, OutputFixingParser, RetryOutputParser, RetryWithErrorOutputParser
from runwell.prompts import ChatPromptTemplate
from runwell.runnables.runnable import Runnable


class Scripted(Runnable[list[BaseMessage], AIMessage]):
    """Answers in turn, and remembers what it was asked and how."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.colours: list[str] = []

    def invoke(self, input: list[BaseMessage], config: Any = None, **kwargs: Any) -> AIMessage:
        self.colours.append("sync")
        self.asked.append(input[0].text)
        return AIMessage(self.answers.pop(0))

    async def ainvoke(self, input: list[BaseMessage], config: Any = None, **kwargs: Any) -> AIMessage:
        await asyncio.sleep(0)
        answer = self.invoke(input)
        self.colours[-1] = "async"
        return answer


BROKEN = "{'a': 1}"


def test_a_good_answer_asks_nobody(driver: Any) -> None:
    model = Scripted()
    assert driver.invoke(OutputFixingParser.from_llm(model, JsonOutputParser()), AIMessage('{"a": 1}')) == {"a": 1}
    assert model.asked == []


def test_a_bad_answer_goes_back_with_the_reason(driver: Any) -> None:
    model = Scripted('{"a": 1}')
    parser = OutputFixingParser.from_llm(parser=JsonOutputParser(), llm=model)
    assert driver.invoke(parser, AIMessage(BROKEN)) == {"a": 1}
    assert model.colours == [driver.colour]
    (question,) = model.asked
    assert BROKEN in question
    assert "There is no JSON in the text" in question or "breaks" in question
    assert JsonOutputParser().get_format_instructions() in question


def test_it_gives_up_after_so_many_attempts(driver: Any) -> None:
    model = Scripted("no", "still no", '{"a": 1}')
    parser = OutputFixingParser.from_llm(model, JsonOutputParser(), max_retries=2)
    with pytest.raises(OutputParserException, match="'still no'") as caught:
        driver.invoke(parser, BROKEN)
    assert len(model.asked) == 2
    assert [note[:9] for note in caught.value.__notes__][:2] == ["Attempt 1", "Attempt 2"]
    with pytest.raises(InvalidInput, match="at least 1"):
        OutputFixingParser.from_llm(model, JsonOutputParser(), max_retries=0)


def test_asking_again_with_the_prompt(driver: Any) -> None:
    prompt = ChatPromptTemplate.from_template("Give {what} as JSON.").invoke("it")
    for kind, told in ((RetryOutputParser, False), (RetryWithErrorOutputParser, True)):
        model = Scripted('{"a": 2}')
        parser = kind.from_llm(model, JsonOutputParser())
        assert driver.invoke(parser, {"completion": AIMessage("nope"), "prompt": prompt}) == {"a": 2}
        assert "Human: Give it as JSON." in model.asked[0]
        assert "nope" in model.asked[0]
        assert ("no JSON in the text" in model.asked[0]) is told
    assert kind.from_llm(Scripted('{"a": 3}'), JsonOutputParser()).parse_with_prompt("nope", "Say it.") == {"a": 3}
    with pytest.raises(InvalidInput, match="needs the prompt"):
        driver.invoke(parser, AIMessage("nope"))


def test_the_question_in_words_of_ones_own(driver: Any) -> None:
    fix, retry = Scripted('{"a": 1}'), Scripted('{"a": 2}')
    parser = OutputFixingParser.from_llm(
        fix, JsonOutputParser(), ChatPromptTemplate.from_template("{instructions} / {completion} / {error}")
    )
    assert driver.invoke(parser, AIMessage(BROKEN)) == {"a": 1}
    assert fix.asked[0].startswith(f"{JsonOutputParser().get_format_instructions()} / {BROKEN} / ")
    again: Any = RetryOutputParser.from_llm(
        retry, JsonOutputParser(), prompt=ChatPromptTemplate.from_template("{prompt} not {completion}")
    )
    assert driver.invoke(again, {"completion": BROKEN, "prompt": "Say a."}) == {"a": 2}
    assert retry.asked == [f"Say a. not {BROKEN}"]


def test_a_repairing_parser_can_be_pickled() -> None:
    parser = pickle.loads(pickle.dumps(OutputFixingParser.from_llm(Scripted('{"a": 1}'), JsonOutputParser())))
    assert parser.invoke("nope") == {"a": 1}


def test_a_function_is_a_model_too(driver):
    parser = OutputFixingParser.from_llm(lambda messages: '{"mood": "good"}', JsonOutputParser())
    assert driver.invoke(parser, "{'mood'}") == {"mood": "good"}
    assert driver.invoke(pickled(OutputFixingParser.from_llm(answer, JsonOutputParser())), "{'mood'}") == {
        "mood": "good"
    }


def answer(messages):
    return '{"mood": "good"}'


def pickled(parser):
    return pickle.loads(pickle.dumps(parser))


@pytest.mark.parametrize(
    "wrong", [{"llm": 3}, {"parser": answer}, {"max_retries": "2"}], ids=["llm", "parser", "max_retries"]
)
def test_what_cannot_ask_or_read_is_refused(wrong):
    with pytest.raises(InvalidInput):
        RetryOutputParser(**{"llm": answer, "parser": JsonOutputParser(), **wrong})
