"""Prompts that are one text, and few-shot prompts."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from runwell.errors import InvalidInput
from runwell.messages.message import AIMessage, HumanMessage, SystemMessage
from runwell.prompts import (
    ChatPromptTemplate,
    FewShotChatMessagePromptTemplate,
    FewShotPromptTemplate,
    ImagePromptTemplate,
    LengthBasedExampleSelector,
    PromptTemplate,
    StringPromptValue,
)

SUM = PromptTemplate.from_template("{a} + {b} = {c}")
EXAMPLES = [{"a": "1", "b": "1", "c": "2"}, {"a": "2", "b": "2", "c": "4"}]
TURN = ChatPromptTemplate.from_messages([("human", "{q}"), ("ai", "{r}")])


def test_a_text_is_filled() -> None:
    prompt = PromptTemplate.from_template("Translate into {language}: {text}")
    assert prompt.input_variables == ["language", "text"]
    assert prompt.format(language="French", text="{hi}") == "Translate into French: {hi}"
    value = prompt.invoke({"language": "French", "text": "Hi"})
    assert value == StringPromptValue("Translate into French: Hi")
    assert value.to_messages() == [HumanMessage("Translate into French: Hi")]
    assert value.to_string() == "Translate into French: Hi"
    assert repr(prompt) == "PromptTemplate('Translate into {language}: {text}')"


def test_texts_are_joined() -> None:
    prompt = PromptTemplate.from_template("{a} and ").partial(a="A") + PromptTemplate.from_template("{b}") + " or {c}"
    assert prompt.input_variables == ["b", "c"]
    assert prompt.format(b="B", c="C") == "A and B or C"
    with pytest.raises(InvalidInput, match="cannot be joined"):
        prompt + PromptTemplate("{{x}}", template_format="mustache")
    with pytest.raises(TypeError):
        prompt + 7


def test_a_text_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").write_text("Grüße, {name}", encoding="utf-8")
    assert PromptTemplate.from_file(tmp_path / "prompt.txt").format(name="Ann") == "Grüße, Ann"


def test_examples_stand_between_prefix_and_suffix() -> None:
    prompt = FewShotPromptTemplate(
        examples=EXAMPLES, example_prompt=SUM, prefix="Add, {name}.", suffix="{x} + {y} =", example_separator="\n"
    )
    assert prompt.input_variables == ["name", "x", "y"]
    assert prompt.partial(name="Ann").format(x=3, y=4) == "Add, Ann.\n1 + 1 = 2\n2 + 2 = 4\n3 + 4 ="


def test_examples_that_do_not_fit_are_refused_when_made() -> None:
    with pytest.raises(InvalidInput, match=r"Example 1 does not fit: .*'b', 'c'"):
        FewShotPromptTemplate(examples=[EXAMPLES[0], {"a": "1"}], example_prompt=SUM)
    with pytest.raises(InvalidInput, match="Example 0 does not fit"):
        FewShotChatMessagePromptTemplate(examples=[{"q": "1"}], example_prompt=TURN)
    with pytest.raises(InvalidInput, match="not neither"):
        FewShotPromptTemplate(example_prompt=SUM)
    with pytest.raises(InvalidInput, match="no example selector"):
        FewShotPromptTemplate(example_prompt=SUM, example_selector=object())  # type: ignore[arg-type]


def test_examples_as_turns_of_a_conversation() -> None:
    examples = FewShotChatMessagePromptTemplate(
        examples=[{"q": "2+2", "r": "4"}, {"q": "{sky}", "r": "Blue"}], example_prompt=TURN
    )
    prompt = ChatPromptTemplate.from_messages([("system", "Answer."), examples, ("human", "{input}")])
    assert prompt.input_variables == ["input"]
    assert prompt.format_messages(input="?") == [
        SystemMessage("Answer."),
        *(HumanMessage("2+2"), AIMessage("4"), HumanMessage("{sky}"), AIMessage("Blue")),
        HumanMessage("?"),
    ]
    assert (examples + "{input}").format_messages(input="?")[-1] == HumanMessage("?")


class LastWord:
    """Picks the examples whose question ends as the input does; remembers what it was shown."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []

    def select_examples(self, input_variables: dict[str, Any]) -> list[dict[str, Any]]:
        self.seen.append(("sync", input_variables))
        return [example for example in TURNS if example["q"].split()[-1] == input_variables["input"].split()[-1]]

    async def aselect_examples(self, input_variables: dict[str, Any]) -> list[dict[str, Any]]:
        found = self.select_examples(input_variables)
        self.seen[-1] = ("async", input_variables)
        return found


TURNS = [{"q": "colour of grass", "r": "Green"}, {"q": "colour of sky", "r": "Blue"}]


def test_a_selector_picks_for_the_input() -> None:
    selector = LastWord()
    examples = FewShotChatMessagePromptTemplate(
        example_selector=selector, example_prompt=TURN, input_variables=["input"]
    )
    prompt = ChatPromptTemplate.from_messages([examples, ("human", "{input} {other}")])
    assert prompt.input_variables == ["input", "other"]
    filled = prompt.format_messages(input="why sky", other="now")
    assert filled == [HumanMessage("colour of sky"), AIMessage("Blue"), HumanMessage("why sky now")]
    assert selector.seen == [("sync", {"input": "why sky"})]


def test_a_selector_is_awaited_where_the_prompt_is() -> None:
    selector = LastWord()
    text = FewShotPromptTemplate(
        example_selector=selector, example_prompt=PromptTemplate("{q}: {r}"), suffix="{input}:", example_separator="\n"
    )
    turns = FewShotChatMessagePromptTemplate(example_selector=selector, example_prompt=TURN)
    prompt = ChatPromptTemplate.from_messages([("system", "s"), SystemMessage("literal"), turns, text])
    assert not prompt.never_blocks
    awaited = asyncio.run(prompt.ainvoke({"input": "why sky"}))
    assert [colour for colour, _ in selector.seen] == ["async", "async"]
    assert awaited == prompt.invoke({"input": "why sky"})
    assert awaited.to_messages()[-1] == HumanMessage("colour of sky: Blue\nwhy sky:")
    assert asyncio.run(text.aformat(input="grass")) == "colour of grass: Green\ngrass:"
    assert asyncio.run(turns.aformat_messages(input="grass")) == [HumanMessage("colour of grass"), AIMessage("Green")]


def test_a_plain_selector_does_not_hold_up_the_loop() -> None:
    class Slow:
        def select_examples(self, input_variables: dict[str, Any]) -> list[dict[str, Any]]:
            self.thread = threading.get_ident()
            return TURNS[:1]

    selector = Slow()
    turns = FewShotChatMessagePromptTemplate(example_selector=selector, example_prompt=TURN)
    filled = asyncio.run((ChatPromptTemplate.from_messages([turns])).ainvoke({}))
    assert filled.to_messages() == [HumanMessage("colour of grass"), AIMessage("Green")]
    assert selector.thread != threading.get_ident()


def test_a_prompt_describes_what_it_takes() -> None:
    prompt = ChatPromptTemplate.from_messages([("placeholder", "{history}"), ("human", "{question}")])
    schema = prompt.get_input_jsonschema()
    assert list(schema["properties"]) == ["question", "history"]
    assert schema["required"] == ["question"]
    assert prompt.get_output_jsonschema()["type"] == "object"


def test_as_many_examples_as_fit() -> None:
    selector = LengthBasedExampleSelector(examples=EXAMPLES, example_prompt=SUM, max_length=12)
    assert selector.select_examples({"q": "a b"}) == EXAMPLES
    assert selector.select_examples({"q": "a b c"}) == EXAMPLES[:1]
    assert selector.select_examples({"q": " ".join("abcdefghijkl")}) == []
    selector.add_example({"a": "3", "b": "3", "c": "6"})
    assert len(selector.examples) == 3
    with pytest.raises(InvalidInput):
        selector.add_example({"a": "3"})


def test_an_image_is_an_address_and_never_a_file() -> None:
    assert ImagePromptTemplate({"url": "https://x.test/{n}.png"}).format(n=1) == {"url": "https://x.test/1.png"}
    with pytest.raises(InvalidInput, match="needs a 'url'"):
        ImagePromptTemplate({"path": "/etc/{n}"})
