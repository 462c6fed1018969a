"""What is tagged to stay out of the stream stays out, whole."""

from __future__ import annotations

from typing import Any

import pytest

from runwell.graph import START, MessagesState, StateGraph
from runwell.messages import AIMessage
from runwell.runnables import RunnableLambda
from runwell.testing.models import FakeChatModel


@pytest.mark.parametrize("tag", ["nostream", "langsmith:nostream"])
def test_strm_02_a_node_tagged_no_stream_hides_its_tokens_and_its_message(run: Any, tag: str) -> None:
    hidden = FakeChatModel(responses=["hidden words"])
    shown = FakeChatModel(responses=["shown words"])
    graph = StateGraph(MessagesState)
    graph.add_node("hidden", RunnableLambda(lambda state: {"messages": [hidden.invoke("x")]}).with_config(tags=[tag]))
    graph.add_node("ready", RunnableLambda(lambda state: {"messages": [AIMessage("ready")]}).with_config(tags=[tag]))
    graph.add_node("shown", lambda state: {"messages": [shown.invoke("x")]})
    graph.add_edge(START, "hidden").add_edge("hidden", "ready").add_edge("ready", "shown")
    items = run.stream(graph.compile(), {"messages": "go"}, stream_mode="messages")
    assert "".join(message.text for message, _ in items) == "shown words"
    assert {where["node"] for _, where in items} == {"shown"}
