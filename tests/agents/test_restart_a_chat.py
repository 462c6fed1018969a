"""A chat is killed with -9 in the middle of a turn and started again: what each way of remembering has kept.

A list in the process keeps nothing; a message history on disk keeps the turns that had ended; a checkpointer keeps
the whole state, and goes on with the very turn that was cut off, without doing again what it had done.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

PROGRAM = '''
"""chat.py WAY FILE [SAY ...]: say these in order, and print the answers. "and die" in one waits to be killed."""
import sys, time
from runwell import HumanMessage, SqliteSaver, create_agent, tool
from runwell.chat_history import SqliteChatMessageHistory
from runwell.graph import START, MessagesState, StateGraph
from runwell.messages import AIMessage
from runwell.runnables import RunnableWithMessageHistory
from runwell.testing import FakeChatModel

way, file, *said = sys.argv[1:]
restarted = said[:1] == ["--restarted"]
said = said[restarted:]


def answer(messages):
    people = [message.text for message in messages if message.type == "human"]
    if people[-1].endswith("and die") and messages[-1].type == "human" and way == "agent":
        return AIMessage("", tool_calls=[{"name": "look_up", "args": {}, "id": "1", "type": "tool_call"}])
    if people[-1].endswith("and die") and not restarted:
        print("killable", flush=True)
        time.sleep(600)
    return "heard: " + ", ".join(people)


@tool
def look_up() -> str:
    """Look something up, which costs money."""
    with open(file + ".bills", "a") as bills:
        bills.write("paid;")
    return "looked up"


model = FakeChatModel([answer], cycle=True)
thread = {"configurable": {"thread_id": "t", "session_id": "t"}}

if way == "list":
    memory = []

    def turn(text):
        memory.append(HumanMessage(text))
        memory.append(model.invoke(memory))
        return memory[-1].text

elif way == "history":
    chat = RunnableWithMessageHistory(model, lambda session_id: SqliteChatMessageHistory(session_id, file))

    def turn(text):
        return chat.invoke([HumanMessage(text)], thread).text

else:
    if way == "agent":
        app = create_agent(model, [look_up], checkpointer=SqliteSaver(file))
    else:
        call = lambda state: {"messages": [model.invoke(state["messages"])]}
        graph = StateGraph(MessagesState).add_node("model", call)
        app = graph.add_edge(START, "model").compile(SqliteSaver(file))

    def turn(text):
        return app.invoke({"messages": [HumanMessage(text)]}, thread)["messages"][-1].text

    if restarted and app.get_state(thread).next:
        print("went on:", app.invoke(None, thread)["messages"][-1].text)

for text in said:
    print(turn(text), flush=True)
'''

KEPT = {
    "list": ["heard: and now?"],
    "history": ["heard: I am Ann, I like tea, and now?"],
    "graph": ["went on: heard: I am Ann, I like tea, go and die", "heard: I am Ann, I like tea, go and die, and now?"],
    "agent": ["went on: heard: I am Ann, I like tea, go and die", "heard: I am Ann, I like tea, go and die, and now?"],
}


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
@pytest.mark.parametrize("way", KEPT)
def test_what_a_chat_that_was_killed_and_restarted_remembers(tmp_path: Path, way: str) -> None:
    program = tmp_path / "chat.py"
    program.write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, str(program), way, str(tmp_path / "chat.sqlite")]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}

    first = subprocess.Popen(
        [*command, "I am Ann", "I like tea", "go and die"], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert first.stdout is not None
    lines = [first.stdout.readline().strip() for _ in range(3)]
    first.send_signal(signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    first.stdout.close()
    assert lines == ["heard: I am Ann", "heard: I am Ann, I like tea", "killable"]

    second = subprocess.run(
        [*command, "--restarted", "and now?"], capture_output=True, text=True, env=environment, check=True, timeout=60
    )
    assert second.stdout.splitlines() == KEPT[way]
    if way == "agent":  # the tool had ended before the kill: it is not paid for twice
        assert (tmp_path / "chat.sqlite.bills").read_text(encoding="utf-8") == "paid;"
