"""Chains that remember: every form of input and output, and turns that come at once."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from runwell.chat_history import InMemoryChatMessageHistory, SqliteChatMessageHistory
from runwell.errors import InvalidConfig, InvalidInput, RunningLoop, UsageError
from runwell.messages import AIMessage, HumanMessage, SystemMessage
from runwell.prompts import ChatPromptTemplate, MessagesPlaceholder
from runwell.runnables import (
    ConfigurableFieldSpec,
    RunnableGenerator,
    RunnableLambda,
    RunnableWithMessageHistory,
)

CONFIG = {"configurable": {"session_id": "s"}}


class Sessions:
    """Histories by session."""

    def __init__(self) -> None:
        self.of: dict[str, InMemoryChatMessageHistory] = {}

    def __call__(self, session_id: str) -> InMemoryChatMessageHistory:
        return self.of.setdefault(session_id, InMemoryChatMessageHistory())

    def texts(self, session_id: str = "s") -> list[str]:
        return [message.text for message in self.of[session_id].messages]


@pytest.fixture
def sessions():
    return Sessions()


def count(messages):
    """Says how many messages it was given."""
    return AIMessage(f"{len(messages)} so far")


def as_text(messages):
    return f"{len(messages)} so far"


def as_list(messages):
    return [AIMessage(f"{len(messages)} so far")]


def whole_list(messages):
    return [*messages, AIMessage(f"{len(messages)} so far")]


@pytest.mark.parametrize("part", [count, as_text, as_list, whole_list])
@pytest.mark.parametrize(
    "given", [lambda text: text, HumanMessage, lambda text: [HumanMessage(text)], lambda text: [("human", text)]]
)
def test_texts_messages_and_lists_of_them(part, given, sessions, driver):
    chain = RunnableWithMessageHistory(RunnableLambda(part), sessions)
    driver.invoke(chain, given("one"), CONFIG)
    driver.invoke(chain, given("two"), CONFIG)
    assert sessions.texts() == ["one", "1 so far", "two", "3 so far"]
    assert [message.type for message in sessions.of["s"].messages] == ["human", "ai", "human", "ai"]


@pytest.mark.parametrize("given", [lambda text: text, HumanMessage, lambda text: [HumanMessage(text)]])
def test_a_dict_with_a_key_for_the_history(given, sessions, driver):
    prompt = ChatPromptTemplate.from_messages(
        [("system", "You like {topic}."), MessagesPlaceholder("history"), MessagesPlaceholder("input")]
        if not isinstance(given("x"), str)
        else [("system", "You like {topic}."), MessagesPlaceholder("history"), ("human", "{input}")]
    )
    seen: list[list[str]] = []

    def model(value):
        messages = value.to_messages()
        seen.append([message.text for message in messages])
        return AIMessage(f"answer {len(messages)}")

    if isinstance(given("x"), HumanMessage):
        prompt = RunnableLambda(lambda values: values | {"input": [values["input"]]}) | prompt
    chain = RunnableWithMessageHistory(
        prompt | model, sessions, input_messages_key="input", history_messages_key="history"
    )
    driver.invoke(chain, {"input": given("one"), "topic": "trains"}, CONFIG)
    driver.invoke(chain, {"input": given("two"), "topic": "trains"}, CONFIG)
    assert seen == [["You like trains.", "one"], ["You like trains.", "one", "answer 2", "two"]]
    assert sessions.texts() == ["one", "answer 2", "two", "answer 4"]


def test_a_dict_whose_messages_key_gets_the_history_too(sessions, driver):
    chain = RunnableWithMessageHistory(
        RunnableLambda(lambda values: {"answer": AIMessage(f"{len(values['input'])}"), "cost": 1}),
        sessions,
        input_messages_key="input",
        output_messages_key="answer",
    )
    driver.invoke(chain, {"input": "one", "more": 1}, CONFIG)
    assert driver.invoke(chain, {"input": "two", "more": 1}, CONFIG)["answer"].text == "3"
    assert sessions.texts() == ["one", "1", "two", "3"]


def test_a_state_that_repeats_the_conversation_is_added_from_where_it_is_new(sessions, driver):
    agent = RunnableLambda(
        lambda state: {"messages": [*state["messages"], AIMessage("looking"), AIMessage(str(len(state["messages"])))]}
    )
    chain = RunnableWithMessageHistory(agent, sessions)
    driver.invoke(chain, {"messages": [HumanMessage("one")]}, CONFIG)
    driver.invoke(chain, {"messages": [HumanMessage("two")]}, CONFIG)
    assert sessions.texts() == ["one", "looking", "1", "two", "looking", "4"]


def test_a_stream_is_added_when_it_is_whole(sessions, driver):
    def words(chunks):
        for messages in chunks:
            yield from ("you ", "said ", messages[-1].text)

    chain = RunnableWithMessageHistory(RunnableGenerator(words), sessions)
    assert driver.stream(chain, "hi", CONFIG) == ["you ", "said ", "hi"]
    assert sessions.texts() == ["hi", "you said hi"]
    assert driver.stream(chain, "bye", CONFIG, take=1) == ["you "]
    assert sessions.texts() == ["hi", "you said hi"]
    assert driver.invoke(chain, "still free", CONFIG) == "you said still free"


def test_a_failing_turn_adds_nothing_and_ends(sessions, driver):
    def model(messages):
        if messages[-1].text == "bad":
            raise ValueError("no")
        return AIMessage("ok")

    chain = RunnableWithMessageHistory(RunnableLambda(model), sessions)
    with pytest.raises(ValueError, match="no"):
        driver.invoke(chain, "bad", CONFIG)
    driver.invoke(chain, "good", CONFIG)
    assert sessions.texts() == ["good", "ok"]


def test_sessions_are_apart_and_batches_keep_them_so(sessions, driver):
    chain = RunnableWithMessageHistory(RunnableLambda(count), sessions)
    configs = [{"configurable": {"session_id": name}} for name in "aabb"]
    driver.batch(chain, ["1", "2", "3", "4"], configs)
    assert {len(sessions.of[name].messages) for name in "ab"} == {4}


def test_a_history_may_need_several_values(driver):
    kept: dict[tuple[str, str], InMemoryChatMessageHistory] = {}

    def find(user_id: str, conversation_id: str) -> InMemoryChatMessageHistory:
        return kept.setdefault((user_id, conversation_id), InMemoryChatMessageHistory())

    specs = [
        ConfigurableFieldSpec("user_id", str, "User"),
        ConfigurableFieldSpec("conversation_id", str, "Conversation", default="main"),
    ]
    chain = RunnableWithMessageHistory(RunnableLambda(count), find, history_factory_config=specs)
    driver.invoke(chain, "hi", {"configurable": {"user_id": "ann"}})
    assert list(kept) == [("ann", "main")]
    schema = chain.get_config_jsonschema()
    assert "user_id" in str(schema) and "conversation_id" in str(schema)
    with pytest.raises(InvalidConfig, match="user_id"):
        driver.invoke(chain, "hi", {"configurable": {"conversation_id": "x"}})


@pytest.mark.parametrize(
    ("options", "given", "told"),
    [
        ({}, 7, "no message"),
        ({}, {"a": "x", "b": "y"}, "which of them"),
        ({"input_messages_key": "input"}, {"inptu": "x"}, "no 'input'"),
        ({"input_messages_key": "input", "history_messages_key": "history"}, "text", "must be a dict"),
    ],
)
def test_what_is_no_turn_is_said_before_anything_runs(options, given, told, sessions, driver):
    called: list[Any] = []
    chain = RunnableWithMessageHistory(RunnableLambda(lambda value: called.append(value) or "x"), sessions, **options)
    with pytest.raises(InvalidInput, match=told):
        driver.invoke(chain, given, CONFIG)
    assert called == []


def test_a_missing_session_and_a_wrong_history_are_told(sessions, driver):
    chain = RunnableWithMessageHistory(RunnableLambda(count), sessions)
    with pytest.raises(InvalidConfig, match="session_id"):
        driver.invoke(chain, "hi")
    wrong = RunnableWithMessageHistory(RunnableLambda(count), lambda session_id: [])
    with pytest.raises(InvalidInput, match="add_messages"):
        driver.invoke(wrong, "hi", CONFIG)


def test_an_output_without_an_answer_is_told(sessions, driver):
    chain = RunnableWithMessageHistory(RunnableLambda(lambda messages: {"a": "x", "b": "y"}), sessions)
    with pytest.raises(InvalidInput, match="output_messages_key"):
        driver.invoke(chain, "hi", CONFIG)


# -- turns at once


def test_two_turns_of_one_session_in_threads_take_turns(tmp_path):
    """The second starts while the first is under way, and sees its answer."""
    began, go_on = threading.Event(), threading.Event()
    seen: list[int] = []

    def model(messages):
        seen.append(len(messages))
        if len(seen) == 1:
            began.set()
            assert go_on.wait(10)
        return AIMessage(f"answer {len(messages)}")

    def find(session_id):
        return SqliteChatMessageHistory(session_id, tmp_path / "chat.db")

    first, second = (RunnableWithMessageHistory(RunnableLambda(model), find) for _ in range(2))
    threads = [threading.Thread(target=first.invoke, args=("one", CONFIG))]
    threads[0].start()
    assert began.wait(10)
    threads.append(threading.Thread(target=second.invoke, args=("two", CONFIG)))
    threads[1].start()
    other = RunnableWithMessageHistory(RunnableLambda(count), find)
    assert other.invoke("elsewhere", {"configurable": {"session_id": "t"}}).text == "1 so far"
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert [message.text for message in find("s").messages] == ["one", "answer 1", "two", "answer 3"]


def test_many_turns_at_once_lose_nothing_and_stay_whole(sessions, driver):
    chain = RunnableWithMessageHistory(RunnableLambda(lambda messages: f"re: {messages[-1].text}"), sessions)
    driver.batch(chain, [f"m{number}" for number in range(50)], {**CONFIG, "max_concurrency": 8})
    texts = sessions.texts()
    assert len(texts) == 100
    assert all(texts[place + 1] == f"re: {texts[place]}" for place in range(0, 100, 2))


def test_plain_and_async_turns_share_one_queue(sessions):
    order: list[str] = []
    entered = threading.Event()

    async def main() -> None:
        gate = asyncio.Event()

        async def slow(messages):
            entered.set()
            await gate.wait()
            order.append("async")
            return AIMessage("slow")

        slowly = RunnableWithMessageHistory(RunnableLambda(slow), sessions)
        quickly = RunnableWithMessageHistory(
            RunnableLambda(lambda messages: (order.append("plain"), AIMessage("quick"))[1]), sessions
        )
        task = asyncio.create_task(slowly.ainvoke("one", CONFIG))
        await asyncio.to_thread(entered.wait, 10)
        with pytest.raises(RunningLoop, match="await"):
            quickly.invoke("would stop the loop", CONFIG)
        waiting = asyncio.create_task(asyncio.to_thread(quickly.invoke, "two", CONFIG))
        given_up = asyncio.create_task(quickly.ainvoke("three", CONFIG))
        for _ in range(5):
            await asyncio.sleep(0)
        given_up.cancel()
        gate.set()
        await asyncio.gather(task, waiting)
        with pytest.raises(asyncio.CancelledError):
            await given_up

    asyncio.run(main())
    assert order == ["async", "plain"]
    assert sessions.texts() == ["one", "slow", "two", "quick"]


def test_a_turn_inside_a_turn_of_the_same_session_is_refused(sessions, driver):
    inner = RunnableWithMessageHistory(RunnableLambda(count), sessions)
    outer = RunnableWithMessageHistory(RunnableLambda(lambda messages: inner.invoke("again")), sessions)
    with pytest.raises(UsageError, match="inside another turn"):
        driver.invoke(outer, "hi", CONFIG)
    assert driver.invoke(inner, "after", CONFIG).text == "1 so far"


def test_nothing_of_a_turn_leaks_into_who_reads_its_stream(sessions):
    chain = RunnableWithMessageHistory(RunnableGenerator(lambda chunks: iter(["a", "b"])), sessions)
    other = RunnableWithMessageHistory(RunnableLambda(count), sessions)
    stream = chain.stream("hi", CONFIG)
    assert next(stream) == "a"
    elsewhere = other.invoke("x", {"configurable": {"session_id": "t"}})
    stream.close()
    assert elsewhere.text == "1 so far"
    assert other.invoke("x", CONFIG).text == "1 so far"


def test_system_messages_of_a_history_stand_first(sessions, driver):
    sessions("s").add_messages([SystemMessage("Be brief.")])
    chain = RunnableWithMessageHistory(RunnableLambda(lambda messages: messages[0].text), sessions)
    assert driver.invoke(chain, "hi", CONFIG) == "Be brief."
    assert "RunnableWithMessageHistory" in repr(chain)


def test_a_turn_while_a_stream_of_the_same_session_is_half_read_is_refused_not_waited_for(sessions):
    def words(chunks):
        yield from "abc"

    chain = RunnableWithMessageHistory(RunnableGenerator(words), sessions)
    stream = chain.stream("one", CONFIG)
    next(stream)
    with pytest.raises(UsageError, match="inside another turn") as caught:
        chain.invoke("two", CONFIG)
    assert "close" in caught.value.hint
    assert list(stream) == ["b", "c"]

    async def main():
        stream = chain.astream("three", CONFIG)
        await anext(stream)
        with pytest.raises(UsageError, match="inside another turn"):
            await chain.ainvoke("four", CONFIG)
        other = asyncio.create_task(chain.ainvoke("five", CONFIG))  # another task waits
        await asyncio.sleep(0)
        assert [chunk async for chunk in stream] == ["b", "c"]
        return await other

    assert asyncio.run(main()) == "abc"
    assert sessions.texts() == ["one", "abc", "three", "abc", "five", "abc"]
