"""Prompts that say in which shape the answer is to come."""

from __future__ import annotations

import pickle

import pytest
from pydantic import BaseModel

from runwell.errors import InvalidInput
from runwell.prompts import ChatPromptTemplate, StructuredPrompt
from runwell.runnables import RunnableLambda, RunnableSequence


class Mood(BaseModel):
    mood: str


class Model(RunnableLambda):
    """Says what it is asked for."""

    def __init__(self):
        super().__init__(lambda value: value)

    def with_structured_output(self, schema, **kwargs):
        return RunnableLambda(lambda value: (schema, kwargs, value.to_string()))


def test_a_model_behind_it_is_asked_for_the_shape(driver):
    prompt = StructuredPrompt.from_messages_and_schema([("human", "How is {name}?")], Mood, method="json_mode")
    wanted = (Mood, {"method": "json_mode"}, "Human: How is Ann?")
    assert driver.invoke(prompt | Model(), {"name": "Ann"}) == wanted
    assert driver.invoke(prompt.pipe(Model(), lambda told: told[0], name="asked"), {"name": "Ann"}) is Mood
    assert driver.invoke(prompt.partial(name="Ann") | Model(), {}) == wanted
    longer = prompt + [("human", "Really?")]  # noqa: RUF005  a prompt, not a list
    assert isinstance(longer, StructuredPrompt)
    assert isinstance(longer | Model(), RunnableSequence)


def test_it_is_a_chat_prompt_in_every_other_way(driver):
    prompt = StructuredPrompt([("human", "{x}")], Mood)
    assert driver.invoke(prompt, {"x": 1}) == driver.invoke(ChatPromptTemplate([("human", "{x}")]), {"x": 1})
    assert prompt[:1] == prompt
    assert pickle.loads(pickle.dumps(prompt)) == prompt
    assert prompt != StructuredPrompt([("human", "{x}")], {"type": "object"})
    assert repr(prompt) == "StructuredPrompt([('human', '{x}')], schema_=Mood)"


def test_what_cannot_be_asked_is_told_while_composing():
    prompt = StructuredPrompt([("human", "{x}")], Mood)
    with pytest.raises(InvalidInput, match="with_structured_output"):
        _ = prompt | (lambda value: value)
    with pytest.raises(InvalidInput, match="schema"):
        StructuredPrompt([("human", "{x}")])
