"""The ready-made middleware says which seats it takes, as it is configured."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runwell.agents import create_agent, middleware
from runwell.agents.middleware import (
    AgentMiddleware,
    AutoModeMiddleware,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    FilesystemFileSearchMiddleware,
    HumanInTheLoopMiddleware,
    LLMToolEmulator,
    LLMToolSelectorMiddleware,
    MemoryRecallMiddleware,
    ModelCallLimitMiddleware,
    ModelFallbackMiddleware,
    ModelRefusalMiddleware,
    ModelRetryMiddleware,
    ModelRouterMiddleware,
    PIIMiddleware,
    PromptCachingMiddleware,
    ProviderToolSearchMiddleware,
    RetrievalToolSelectorMiddleware,
    ShellToolMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    ToolCallLimitMiddleware,
    ToolErrorMiddleware,
    ToolRetryMiddleware,
)
from runwell.persistence import InMemorySaver
from runwell.seats import SEATS, SeatMap
from runwell.testing.models import FakeChatModel
from runwell.tools import tool
from runwell.tools.sandbox import HostPolicy


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def model() -> FakeChatModel:
    return FakeChatModel(responses=["hi"])


READY = sorted(
    name
    for name in middleware.__all__
    if inspect.isclass(each := getattr(middleware, name))
    and issubclass(each, AgentMiddleware)
    and each is not AgentMiddleware
)


@pytest.mark.parametrize("name", READY)
def test_every_ready_made_middleware_says_which_seats_it_takes(name: str) -> None:
    """Write `seats()` in the class: see `HumanInTheLoopMiddleware`."""
    assert getattr(middleware, name).seats is not AgentMiddleware.seats


CASES: list[tuple[str, Callable[[], Any], dict[str, tuple[str, str]]]] = [
    (
        "clearing",
        lambda: ContextEditingMiddleware([ClearToolUsesEdit(trigger=5000, keep=2)]),
        {"F7": ("code", "Past 5,000 tokens all but the newest 2")},
    ),
    (
        "emulator",
        lambda: LLMToolEmulator(tools=["add"], model=model()),
        {"E13": ("external", "makes up what add gives")},
    ),
    (
        "selector",
        lambda: LLMToolSelectorMiddleware(max_tools=3),
        {"B5": ("llm", "at most 3, chosen by the agent's own")},
    ),
    ("selector's model", lambda: LLMToolSelectorMiddleware(model=model()), {"B5": ("model", "a model of its own")}),
    ("retrieval", lambda: RetrievalToolSelectorMiddleware(max_tools=4), {"B5": ("code", "the best 4 by shared words")}),
    (
        "model calls",
        lambda: ModelCallLimitMiddleware(run_limit=5, thread_limit=50),
        {"F8": ("code", "a run 5, a thread 50; then it ends")},
    ),
    (
        "tool calls",
        lambda: ToolCallLimitMiddleware(tool_name="add", run_limit=5),
        {"F9": ("code", "Calls of add: a run 5; then the excess is answered")},
    ),
    (
        "fallback",
        lambda: ModelFallbackMiddleware(model(), model()),
        {"H4": ("code", "2 more models in turn"), "A4": ("code", "Another model may answer")},
    ),
    (
        "refusal",
        lambda: ModelRefusalMiddleware(model(), on_refusal="message"),
        {"G1": ("llm", "1 more models are asked, then a message"), "H4": ("code", "1 more models, for refusals")},
    ),
    (
        "model retry",
        lambda: ModelRetryMiddleware(max_retries=4),
        {"E7": ("code", "calls 4 times"), "E8": ("code", "4 times")},
    ),
    ("tool retry", lambda: ToolRetryMiddleware(tools=["add"]), {"E7": ("code", "Calls of add 2 times")}),
    (
        "tool error",
        lambda: ToolErrorMiddleware(ValueError),
        {"E3": ("code", "the model hears ValueError of every tool")},
    ),
    ("router", lambda: ModelRouterMiddleware([model()]), {"A4": ("code", "the first of 1 models that fits")}),
    (
        "summary",
        lambda: SummarizationMiddleware(model(), trigger=("tokens", 4000), keep=("messages", 6)),
        {
            "B2": ("code", "replaced by their summary"),
            "F3": ("code", "summarised and asked once more"),
            "F4": ("code", "Past 4,000 tokens"),
            "F5": ("model", "What a model writes"),
            "F6": ("code", "The newest 6 messages"),
        },
    ),
    (
        "shell",
        lambda: ShellToolMiddleware(execution_policy=HostPolicy(i_accept_host_access=True), env={"API_KEY": "hush"}),
        {
            "D17": ("code", "there is no sandbox"),
            "D18": ("code", "PATH, HOME, LANG and API_KEY"),
            "D19": ("code", "30 s for a command"),
        },
    ),
    (
        "file search",
        lambda: FilesystemFileSearchMiddleware(root_path=Path(__file__).parent, max_file_size_mb=3),
        {"D20": ("code", str(Path(__file__).parent)), "D21": ("code", "no hidden files")},
    ),
    (
        "personal data",
        lambda: PIIMiddleware("email", strategy="mask", apply_to_output=True),
        {
            "D2": ("code", "Inspected for email"),
            "D13": ("code", "email: by built-in detectors"),
            "D14": ("code", "every message that leaves for a model (the copy; the history stays); what the model"),
            "D15": ("code", "email: masked but for a part"),
            "D16": ("code", "email: Nothing of it in the model's answer, in any mode; tools' results as they are"),
        },
    ),
    (
        "auto mode",
        lambda: AutoModeMiddleware(model(), unjudged=["add"]),
        {
            "D1": ("model", "Each call but add is judged by a policy"),
            "D9": ("model", "destructive tools unless it denies them: a person is asked"),
            "D10": ("human", "what the policy leaves open"),
        },
    ),
    (
        "memory",
        lambda: MemoryRecallMiddleware(("m", "{principal}"), limit=3, remember=model()),
        {
            "I1": ("model", "memories of m/{principal}; they are written after each run, by a model"),
            "B2": ("code", "at most 3 memories, 4,000 characters"),
        },
    ),
    (
        "prompt cache",
        lambda: PromptCachingMiddleware(ttl="1h"),
        {"B2": ("code", "marks it for the provider's cache (1h)"), "I2": ("code", "goes by cache_breakpoints")},
    ),
    (
        "provider search",
        lambda: ProviderToolSearchMiddleware(searchable_tools=["add"]),
        {"B5": ("external", "add: only when the provider's search"), "A8": ("code", "the provider's tool search")},
    ),
    ("todo", TodoListMiddleware, {"B1": ("code", "on keeping a list")}),
    (
        "review",
        lambda: HumanInTheLoopMiddleware({"add": True}),
        {"D9": ("code", "Calls of add do"), "D10": ("human", "add:")},
    ),
]


def seats_with(*given: AgentMiddleware) -> SeatMap:
    return create_agent(model(), [add], middleware=given, checkpointer=InMemorySaver()).seats()


@pytest.mark.parametrize(("make", "expected"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_the_map_shows_what_the_middleware_does_and_where(
    make: Callable[[], AgentMiddleware], expected: dict[str, tuple[str, str]]
) -> None:
    added = make()
    found = seats_with(added)
    for seat, (holder, words) in expected.items():
        row = found[seat]
        assert words in row.answer
        assert (row.holder, row.status) == (holder, "held")
        assert len(row.anchors) == len(row.parts)
    changed = {each.seat.id for each in found.diff(seats_with())}
    assert set(expected) <= changed
    assert changed <= {
        *expected,
        "E7",
        "A7",
        "A8",
        "A11",
        "B2",
        "B5",
        "B11",
        "C2",
        "D1",
        "D8",
        "D11",
        "D12",
        "E1",
        "E5",
        "E13",
    }


def test_all_of_them_together_still_make_a_map() -> None:
    every = [case[1]() for case in CASES]
    names: dict[str, AgentMiddleware] = {each.name: each for each in every}
    found = seats_with(*names.values())
    assert [row.seat.id for row in found] == list(SEATS)
    assert all(row.anchors for row in found)
