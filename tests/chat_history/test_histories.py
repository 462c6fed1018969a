"""What every kind of history does alike."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runwell.chat_history import (
    BaseChatMessageHistory,
    FileChatMessageHistory,
    InMemoryChatMessageHistory,
    PostgresChatMessageHistory,
    RedisChatMessageHistory,
    SqliteChatMessageHistory,
)
from runwell.errors import InvalidInput, StorageError, UsageError
from runwell.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

TURN = [
    HumanMessage("weather in Oslo? \u2603", name="ann"),
    AIMessage("", tool_calls=[{"name": "weather", "args": {"city": "Oslo"}, "id": "c1", "type": "tool_call"}]),
    ToolMessage("-3 °C", tool_call_id="c1", status="error"),
    AIMessage(
        [{"type": "text", "text": "Cold."}], usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    ),
    SystemMessage("line\nbreak"),
]


@pytest.fixture(params=["memory", "file", "sqlite", "postgres", "redis"])
def history(request, tmp_path):
    if request.param == "redis":
        return RedisChatMessageHistory(request.node.name, request.getfixturevalue("redis_url"))
    if request.param == "postgres":
        return PostgresChatMessageHistory("s", request.getfixturevalue("postgres_url"))
    return {
        "memory": InMemoryChatMessageHistory,
        "file": lambda: FileChatMessageHistory(tmp_path / "new" / "chat.jsonl"),
        "sqlite": lambda: SqliteChatMessageHistory("s", tmp_path / "new" / "chat.db"),
    }[request.param]()


@pytest.fixture(params=["file", "sqlite", "postgres", "redis"])
def reopen(request, tmp_path):
    """A function that opens the same history anew."""
    if request.param == "redis":
        url = request.getfixturevalue("redis_url")
        return lambda: RedisChatMessageHistory(request.node.name, url)
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
        return lambda: PostgresChatMessageHistory("s", url)
    if request.param == "file":
        return lambda: FileChatMessageHistory(tmp_path / "chat.jsonl")
    return lambda: SqliteChatMessageHistory("s", tmp_path / "chat.db")


def test_what_is_added_comes_back_exactly(history):
    assert history.messages == []
    history.add_messages(TURN)
    assert history.messages == TURN
    history.add_user_message("more")
    history.add_ai_message(AIMessage("fine"))
    assert [message.text for message in history.messages[-2:]] == ["more", "fine"]
    assert "Human: more" in str(history)
    history.clear()
    assert history.messages == []


def test_the_same_from_async_code(history):
    async def main():
        await history.aadd_messages(TURN)
        found = await history.aget_messages()
        await history.aclear()
        return found, await history.aget_messages()

    assert asyncio.run(main()) == (TURN, [])


def test_what_is_given_out_is_not_the_history(history):
    history.add_user_message("one")
    history.messages.clear()
    assert len(history.messages) == 1


def test_adding_from_many_threads_keeps_each_turn_together(history):
    with ThreadPoolExecutor(8) as pool:
        for done in [
            pool.submit(history.add_messages, [HumanMessage(f"{number}"), AIMessage(f"re {number}")])
            for number in range(60)
        ]:
            done.result()
    texts = [message.text for message in history.messages]
    assert sorted(texts[::2], key=int) == [str(number) for number in range(60)]
    assert all(texts[place + 1] == f"re {texts[place]}" for place in range(0, 120, 2))


def test_it_is_there_after_the_object_and_in_another(reopen):
    reopen().add_messages(TURN)
    again = reopen()
    assert again.messages == TURN
    assert again.session_key == reopen().session_key


def test_another_process_may_add_at_the_same_time(reopen, tmp_path):
    history = reopen()
    if isinstance(history, FileChatMessageHistory):
        make = f"FileChatMessageHistory({str(history.path)!r})"
    elif isinstance(history, SqliteChatMessageHistory):
        make = f"SqliteChatMessageHistory('s', {history.path!r})"
    elif isinstance(history, RedisChatMessageHistory):
        make = f"RedisChatMessageHistory({history.session_id!r}, {history._where!r})"
    else:
        make = f"PostgresChatMessageHistory('s', {history._where!r})"
    code = (
        "from runwell.chat_history import *\n"
        "from runwell.messages import HumanMessage, AIMessage\n"
        f"h = {make}\n"
        "for n in range(40): h.add_messages([HumanMessage(f'p{n}'), AIMessage(f're p{n}')])\n"
    )
    other = subprocess.Popen([sys.executable, "-c", code])
    for number in range(40):
        history.add_messages([HumanMessage(f"m{number}"), AIMessage(f"re m{number}")])
    assert other.wait(30) == 0
    texts = [message.text for message in history.messages]
    assert len(texts) == 160
    assert all(texts[place + 1] == f"re {texts[place]}" for place in range(0, 160, 2))


def test_a_write_cut_short_is_dropped_whole(tmp_path):
    path = tmp_path / "chat.jsonl"
    FileChatMessageHistory(path).add_messages(TURN)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 2])
    history = FileChatMessageHistory(path)
    assert history.messages == TURN
    history.add_user_message("next")
    assert history.messages == [*TURN, HumanMessage("next")]
    assert len(path.read_bytes().splitlines()) == 2


@pytest.mark.parametrize("line", ["{", "7", '[{"type": "nobody", "content": "x"}]'])
def test_a_damaged_file_is_told_with_its_place_and_left_alone(line, tmp_path):
    path = tmp_path / "chat.jsonl"
    FileChatMessageHistory(path).add_user_message("fine")
    with path.open("a") as target:
        target.write(line + "\n")
    before = path.read_bytes()
    with pytest.raises(StorageError, match="Line 2"):
        _ = FileChatMessageHistory(path).messages
    assert path.read_bytes() == before


def test_sessions_of_one_file_are_apart(tmp_path):
    first, second = (SqliteChatMessageHistory(name, tmp_path / "chat.db") for name in ("a", "b"))
    first.add_user_message("to a")
    second.add_user_message("to b")
    second.clear()
    assert [message.text for message in first.messages] == ["to a"]
    assert second.messages == []


def test_a_file_that_cannot_be_opened_is_told(tmp_path):
    (tmp_path / "chat.db").write_text("not a database, but long enough to be taken for one" * 20)
    with pytest.raises(StorageError, match=r"chat\.db"):
        SqliteChatMessageHistory("s", tmp_path / "chat.db").add_user_message("x")
    with pytest.raises(InvalidInput, match="InMemory"):
        SqliteChatMessageHistory("s", ":memory:")
    with pytest.raises(InvalidInput, match="not empty"):
        SqliteChatMessageHistory("", tmp_path / "chat.db")


class Plain(BaseChatMessageHistory):
    def __init__(self):
        self.kept = []

    @property
    def messages(self):
        return list(self.kept)

    def add_message(self, message):
        self.kept.append(message)

    def clear(self):
        self.kept.clear()


class Asynchronous(BaseChatMessageHistory):
    def __init__(self):
        self.kept = []

    async def aget_messages(self):
        return list(self.kept)

    async def aadd_messages(self, messages):
        self.kept.extend(messages)

    async def aclear(self):
        self.kept.clear()


@pytest.mark.parametrize("cls", [Plain, Asynchronous])
def test_a_history_of_ones_own_is_written_once_in_either_colour(cls):
    history = cls()
    history.add_messages(TURN)
    history.add_user_message("more")

    async def main():
        await history.aadd_messages([AIMessage("late")])
        return await history.aget_messages()

    assert asyncio.run(main()) == history.messages == [*TURN, HumanMessage("more"), AIMessage("late")]
    history.clear()
    assert asyncio.run(history.aget_messages()) == []


def test_a_history_that_says_nothing_is_told_what_to_write():
    class Nothing(BaseChatMessageHistory):
        pass

    with pytest.raises(UsageError, match="'messages'"):
        _ = Nothing().messages
    with pytest.raises(UsageError, match="'add_messages'"):
        Nothing().add_user_message("x")


texts = st.text(max_size=30)


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from([HumanMessage, AIMessage, SystemMessage]), texts), max_size=4), max_size=5
    )
)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_texts_come_back_in_order(reopen, turns):
    history = reopen()
    history.clear()
    turns = [[cls(text) for cls, text in turn] for turn in turns]
    for turn in turns:
        history.add_messages(turn)
    assert history.messages == [message for turn in turns for message in turn]


def test_sessions_of_one_database_are_apart_and_share_a_pool(postgres_url):
    first, second = (PostgresChatMessageHistory(name, postgres_url) for name in ("a", "b"))
    first.add_user_message("to a")
    second.add_user_message("to b")
    second.clear()
    assert [message.text for message in first.messages] == ["to a"]
    assert second.messages == []
    assert first._shared is second._shared
    with pytest.raises(InvalidInput, match="not empty"):
        PostgresChatMessageHistory("", postgres_url)


def test_a_connection_that_died_is_replaced_and_nothing_is_added_twice(postgres_url):
    import psycopg

    history = PostgresChatMessageHistory("s", postgres_url)
    history.add_user_message("one")
    with psycopg.connect(postgres_url, autocommit=True) as other:
        other.execute(
            """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE application_name = current_setting('application_name') AND pid <> pg_backend_pid()"""
        )
    history.add_user_message("two")
    assert [message.text for message in history.messages] == ["one", "two"]


def test_what_a_client_sent_twice_is_read_once_and_old_conversations_are_forgotten(redis_url):
    history = RedisChatMessageHistory("twice", redis_url, ttl=60)
    history.add_messages(TURN)
    (line,) = history._client.lrange(history.key, 0, -1)
    history._client.rpush(history.key, line)
    assert history.messages == TURN
    assert 0 < history._client.ttl(history.key) <= 60
    history._client.rpush(history.key, "no json")
    with pytest.raises(StorageError, match="twice"):
        _ = history.messages


def test_a_redis_that_restarts_is_found_again_with_what_it_had(redis_url, redis_server):
    history = RedisChatMessageHistory("restart", redis_url)
    history.add_messages(TURN)
    redis_server.stop()
    with pytest.raises(StorageError, match="restart") as caught:
        history.add_user_message("lost")
    assert caught.value.retryable
    redis_server.start()
    history.add_user_message("after")
    assert [message.text for message in history.messages] == [*(message.text for message in TURN), "after"]


def test_a_redis_that_is_not_there_is_told():
    with pytest.raises(StorageError, match="'s'") as caught:
        RedisChatMessageHistory("s", "redis://127.0.0.1:1/0").add_user_message("x")
    assert caught.value.retryable
    with pytest.raises(InvalidInput, match="no address") as wrong:
        RedisChatMessageHistory("s", "http://:secret@somewhere")
    assert "secret" not in str(wrong.value)
    with pytest.raises(InvalidInput, match="ttl"):
        RedisChatMessageHistory("s", "redis://localhost", ttl=0)


def test_files_hold_plain_json(tmp_path):
    FileChatMessageHistory(tmp_path / "chat.jsonl").add_messages(TURN)
    (line,) = (tmp_path / "chat.jsonl").read_text(encoding="utf-8").splitlines()
    assert [message["type"] for message in json.loads(line)] == ["human", "ai", "tool", "ai", "system"]


def test_a_fork_opens_a_connection_of_its_own(tmp_path):
    code = (
        "import os, sys\n"
        "from runwell.chat_history import SqliteChatMessageHistory\n"
        f"make = lambda: SqliteChatMessageHistory('s', {str(tmp_path / 'chat.db')!r})\n"
        "h = make(); h.add_user_message('parent')\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    make().add_user_message('child'); os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "print([m.text for m in h.messages])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "['parent', 'child']", done.stderr


def test_no_threads_stay(history):
    history.add_messages(TURN)  # the first use of a pool starts its workers
    before = threading.active_count()
    history.add_messages(TURN)
    assert threading.active_count() == before
