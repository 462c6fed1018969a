"""A process that dies in the middle of an agent's run: the second tool says so and waits to be killed.

python crash_agent.py FILE.sqlite        starts the thread
python crash_agent.py FILE.sqlite resume goes on with it
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from runwell import SqliteSaver, create_agent, tool
from tools import calculator, note

RESUME = sys.argv[2:] == ["resume"]


@tool
def current_time() -> str:
    """Get the current date and time."""
    note("current_time")
    if not RESUME:
        sys.stdout.write("killable\n")
        sys.stdout.flush()
        time.sleep(600)  # killed long before
    return "14:30 on Monday, 30 November"


config = {"configurable": {"thread_id": "t"}}
with SqliteSaver(sys.argv[1]) as saver:
    agent = create_agent("local:qwen2.5-coder-0.5b", [calculator, current_time], checkpointer=saver)
    if RESUME:
        given = None
    else:
        given = {"messages": [{"role": "user", "content": "What is 23 * 47, and what time is it now?"}]}
    result = agent.invoke(given, config)
    for message in result["messages"]:
        sys.stdout.write(f"{message.type}: {message.text}\n")
