"""A graph that stops in the middle to ask, and goes on from an SQLite file. No model needed.

python examples/graph_with_interrupt.py write "a day at the sea"   drafts, and asks what to change
python examples/graph_with_interrupt.py answer "shorter, please"   goes on where it stopped; "ok" ends it
"""

from __future__ import annotations

import sys
from typing import TypedDict

from runwell import END, START, Command, SqliteSaver, StateGraph, interrupt

THREAD = {"configurable": {"thread_id": "essay"}}


class Essay(TypedDict, total=False):
    topic: str
    draft: str
    wish: str


def write(state: Essay) -> Essay:
    wish = state.get("wish")
    return {"draft": f"An essay on {state['topic']}" + (f" ({wish})" if wish else "")}


def review(state: Essay) -> Essay:
    return {"wish": interrupt({"draft": state["draft"], "question": "What should change?"})}


def after_review(state: Essay) -> str:
    return END if state["wish"] == "ok" else "write"


graph = StateGraph(Essay)
graph.add_node("write", write)
graph.add_node("review", review)
graph.add_edge(START, "write")
graph.add_edge("write", "review")
graph.add_conditional_edges("review", after_review, ["write", END])


def main(word: str, text: str) -> None:
    with SqliteSaver("essay.sqlite") as saver:
        essay = graph.compile(checkpointer=saver)
        result = essay.invoke({"topic": text} if word == "write" else Command(resume=text), THREAD)
        for question in result.get("__interrupt__", []):
            print(f"{question.value['draft']}. {question.value['question']}")
        if not essay.get_state(THREAD).next:
            print(f"Done: {result['draft']}")


if __name__ == "__main__":
    main(*sys.argv[1:])
