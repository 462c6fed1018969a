"""A tool that a person has to approve. The pause is kept in a file: ask now, answer in another process, next week.

python examples/approval.py ask            the agent wants to delete a file, and waits
python examples/approval.py yes            approves, and prints how it went on
python examples/approval.py no "Not today" rejects, with a reason that the model is told
"""

from __future__ import annotations

import getpass
import os
import sys

from runwell import Command, SqliteSaver, create_agent, tool

MODEL = os.environ.get("MODEL", "local:qwen2.5-coder-0.5b")
THREAD = {"configurable": {"thread_id": "tidy-up"}}


@tool(destructive=True)
def delete_file(path: str) -> str:
    """Delete a file."""
    return f"{path} is deleted"  # an example deletes nothing


def main(word: str = "ask", reason: str = "") -> None:
    with SqliteSaver("approvals.sqlite") as saver:
        agent = create_agent(MODEL, [delete_file], approvals="destructive", checkpointer=saver)
        if word == "ask":
            agent.invoke({"messages": "Delete the file /tmp/report.txt"}, THREAD)
            for question in agent.get_state(THREAD).interrupts:
                for request in question.value["action_requests"]:
                    print(f"May {request['name']}({request['args']}) run?")
            return
        [question] = agent.get_state(THREAD).interrupts
        decision = {"type": "approve"} if word == "yes" else {"type": "reject", "message": reason}
        decisions = {request["id"]: decision for request in question.value["action_requests"]}
        result = agent.invoke(Command(resume={"decisions": decisions}, actor=getpass.getuser()), THREAD)
        for message in result["messages"][-2:]:
            print(f"{message.type}: {message.text}")


if __name__ == "__main__":
    main(*sys.argv[1:])
