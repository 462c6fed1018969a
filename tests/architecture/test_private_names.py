"""Names that begin with `_` are ours: no message, print or trace shows one to a user."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any, TypedDict

import pytest

import runwell
from runwell.agents.middleware import AgentMiddleware
from runwell.models import Embeddings
from runwell.ports.saver import Checkpoint
from runwell.ports.store import BaseStore
from runwell.prompts.message import BaseMessagePromptTemplate
from runwell.runnables import Runnable

SHOWN = (Runnable, AgentMiddleware, Embeddings, BaseStore, Checkpoint, BaseMessagePromptTemplate, BaseException)
"""Whose objects users hold, by whatever class: errors and prints name it."""
NEVER_SEEN = {
    "runwell.persistence.serialization.serializer._Damaged": "becomes an error of ours where it is caught",
    "runwell.providers.local.serve._Gone": "ends one request of the local server",
    "runwell.providers.ollama.llm._Generate": "engine of OllamaLLM, whose name it shows",
    "runwell.providers.openai.completions._Completions": "engine of OpenAI, whose name it shows",
    "runwell.providers.openai.completions._AzureCompletions": "engine of AzureOpenAI, whose name it shows",
}


class State(TypedDict, total=False):
    x: int


def below(kind: type) -> Iterator[type]:
    for each in type.__subclasses__(kind):
        yield each
        yield from below(each)


@pytest.fixture(scope="module", autouse=True)
def everything() -> None:
    for found in pkgutil.walk_packages(runwell.__path__, "runwell."):
        if not found.name.endswith("__main__") and ".testing" not in found.name:
            importlib.import_module(found.name)


@pytest.mark.parametrize("kind", SHOWN, ids=lambda kind: kind.__name__)
def test_classes_whose_objects_users_hold_have_names_for_users(kind: type) -> None:
    private = {
        f"{each.__module__}.{each.__name__}"
        for each in below(kind)
        if each.__module__.split(".")[0] == "runwell" and ".testing" not in each.__module__
        if each.__name__.startswith("_")
    }
    assert private - NEVER_SEEN.keys() == set()


@pytest.mark.parametrize("of", ["state", "history", "checkpoint"])
def test_what_is_worked_out_later_goes_by_the_name_of_what_it_is(of: str) -> None:
    from runwell.graph import START, StateGraph
    from runwell.persistence import SqliteSaver

    config: Any = {"configurable": {"thread_id": "1"}}
    with SqliteSaver(":memory:") as saver:
        graph = StateGraph(State).add_node("a", lambda state: {}).add_edge(START, "a").compile(saver)
        graph.invoke({}, config)
        got: Any = {
            "state": lambda: graph.get_state(config),
            "history": lambda: next(iter(graph.get_state_history(config))),
            "checkpoint": lambda: next(iter(saver.history("1"))),
        }[of]()
    name = "Checkpoint" if of == "checkpoint" else "StateSnapshot"
    with pytest.raises(AttributeError, match=f"^'{name}' object has no attribute 'valeus'"):
        _ = got.valeus
    assert repr(got).startswith(f"{name}(")
    assert type(got).__name__ == name
