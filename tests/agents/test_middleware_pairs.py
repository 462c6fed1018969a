"""Any two middlewares work together: whatever they do, a model is only ever sent a history that it would take."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any, ClassVar

import pytest

from runwell.agents import AgentMiddleware, create_agent, middleware
from runwell.agents.middleware import (
    AutoModeMiddleware,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    FilesystemFileSearchMiddleware,
    HumanInTheLoopMiddleware,
    LLMToolEmulator,
    LLMToolSelectorMiddleware,
    MemoryRecallMiddleware,
    ModelCallLimitMiddleware,
    ModelChoice,
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
from runwell.errors import ModelAuthenticationError, ModelOverloaded
from runwell.graph import Command
from runwell.messages import AIMessage, HumanMessage, ToolMessage, validate_history
from runwell.persistence import InMemorySaver, InMemoryStore
from runwell.testing.colours import COLOURS
from runwell.testing.models import FakeChatModel
from runwell.tools import tool
from runwell.tools.sandbox import HostPolicy


def calls(turn: str, *named: str) -> AIMessage:
    return AIMessage(
        f"turn {turn}",
        tool_calls=[
            {"name": name, "args": {"at": turn}, "id": f"{turn}{n}", "type": "tool_call"}
            for n, name in enumerate(named)
        ],
    )


SCRIPT: list[Any] = [
    ModelOverloaded("busy"),
    calls("a", "look", "look", "shaky"),
    AIMessage("I will not.", response_metadata={"finish_reason": "content_filter"}),
    calls("b", "shaky", "nothing"),
    "first answer",
    calls("c", "look", "shaky", "look", "look"),
    ModelAuthenticationError("key"),
    calls("d", "look"),
    "second answer",
]


class Strict(FakeChatModel):
    """A scripted model that refuses what a provider would refuse."""

    provider: ClassVar[str] = "anthropic"
    profile: Any = {"cache_breakpoints": 4, "tool_search": True}

    def _reply(self, request: Any) -> Any:
        problems = validate_history(request.messages)
        assert not problems, problems
        marked = [each for each in request.tools if "cache_control" in each]
        assert not any("defer_loading" in each for each in marked)
        blocks = [block for m in request.messages if not isinstance(m.content, str) for block in m.content]
        assert len(marked) + sum("cache_control" in block for block in blocks) <= 4
        return super()._reply(request)


def calm(said: str = "calm") -> Strict:
    return Strict(responses=[said], cycle=True)


def selecting() -> Strict:
    call: Any = {"name": "ToolSelection", "args": {"tools": ["look", "shaky"]}, "id": "s", "type": "tool_call"}
    return Strict(responses=[AIMessage("", tool_calls=[call])], cycle=True)


def judged(request: Any) -> str:
    """A policy with all three verdicts."""
    return {"look": "ask", "shaky": "allow"}.get(request.tool_call["name"], "deny")


MAKE: dict[str, Callable[[], AgentMiddleware]] = {
    "approval": lambda: HumanInTheLoopMiddleware({"look": True}),
    "auto mode": lambda: AutoModeMiddleware(judge=judged),
    "clearing": lambda: ContextEditingMiddleware([ClearToolUsesEdit(trigger=1, keep=1, clear_tool_inputs=True)]),
    "emulator": lambda: LLMToolEmulator(tools=["shaky"], model=calm("emulated")),
    "fallback": lambda: ModelFallbackMiddleware(calm()),
    "file search": lambda: FilesystemFileSearchMiddleware(root_path=Path(__file__).parent),
    "llm selector": lambda: LLMToolSelectorMiddleware(model=selecting(), max_tools=1),
    "memory": lambda: MemoryRecallMiddleware(("m",), remember=lambda state: [f"look at {len(state['messages'])}"]),
    "model limit": lambda: ModelCallLimitMiddleware(run_limit=2),
    "personal data": lambda: PIIMiddleware(
        "place", detector=r"\b[abcd]\b", apply_to_output=True, apply_to_tool_results=True
    ),
    "prompt cache": lambda: PromptCachingMiddleware(),
    "provider search": lambda: ProviderToolSearchMiddleware(searchable_tools=["shaky"]),
    "refusal": lambda: ModelRefusalMiddleware(on_refusal="message"),
    "retry": lambda: ModelRetryMiddleware(initial_delay=0.0, retry_on=Exception, on_failure="continue"),
    "retrieval": lambda: RetrievalToolSelectorMiddleware(max_tools=1),
    "router": lambda: ModelRouterMiddleware([ModelChoice(model=calm(), when=lambda r: len(r.messages) > 6)]),
    "shell": lambda: ShellToolMiddleware(execution_policy=HostPolicy(i_accept_host_access=True)),
    "summary": lambda: SummarizationMiddleware(calm("in short"), trigger=("messages", 4), keep=("messages", 2)),
    "todo": lambda: TodoListMiddleware(),
    "tool limit": lambda: ToolCallLimitMiddleware(run_limit=2),
    "tool limit, ends": lambda: ToolCallLimitMiddleware(tool_name="look", run_limit=2, exit_behavior="end"),
    "tool error": lambda: ToolErrorMiddleware(),
    "tool retry": lambda: ToolRetryMiddleware(initial_delay=0.0, retry_on=Exception, on_failure="continue"),
}


def tried(run: Any, names: tuple[str, ...]) -> list[Any]:
    """Two turns on one thread, questions answered; the shape of the history after each."""
    failed: list[str] = []

    @tool
    def look(at: str) -> str:
        """Look at a place."""
        return f"saw {at}"

    @tool
    def shaky(at: str) -> str:
        """Fetch a page, which fails at first."""
        if at not in failed:
            failed.append(at)
            raise ConnectionError("gone")
        return f"fetched {at}"

    model = Strict(responses=SCRIPT, cycle=True, max_retries=1)
    # the bad key and the refusal are for those who can do something about them
    if not {"fallback", "retry"} & set(names):
        model.responses = [each for each in SCRIPT if not isinstance(each, ModelAuthenticationError)]
    agent = create_agent(
        model, [look, shaky], middleware=[MAKE[n]() for n in names], checkpointer=InMemorySaver(), store=InMemoryStore()
    )
    thread = {"configurable": {"thread_id": "t"}}
    shapes = []
    for text in ("look around", "and fetch it"):
        given: Any = {"messages": [HumanMessage(text)]}
        for _ in range(10):
            result = run.invoke(agent, given, thread)
            if "__interrupt__" not in result:
                break
            requests = result["__interrupt__"][0].value["action_requests"]
            kinds = ("reject", "approve")
            decisions = {asked["id"]: {"type": kinds[n % 2]} for n, asked in enumerate(requests)}
            given = Command(resume={"decisions": decisions})
        messages = result["messages"]
        assert "__interrupt__" not in result
        assert not validate_history(messages), messages
        answers = [m.tool_call_id for m in messages if isinstance(m, ToolMessage)]
        asked = [call["id"] for m in messages if isinstance(m, AIMessage) for call in m.tool_calls]
        assert sorted(answers) == sorted(asked)
        shapes.append([(m.type, m.text, getattr(m, "tool_call_id", None)) for m in messages])
    return shapes


def test_every_ready_made_middleware_is_here() -> None:
    ready = {
        name
        for name in middleware.__all__
        if inspect.isclass(each := getattr(middleware, name)) and issubclass(each, AgentMiddleware)
    }
    assert {type(make()).__name__ for make in MAKE.values()} == ready - {"AgentMiddleware"}


@pytest.mark.parametrize("names", list(permutations(MAKE, 2)), ids=" + ".join)
def test_two_middlewares_keep_the_history_valid_in_both_drivers(names: tuple[str, str]) -> None:
    if len({MAKE[name]().name for name in names}) < 2:
        pytest.skip("two of one name are refused, which has a test of its own")
    plain, aio = (tried(colour(), names) for colour in COLOURS)
    assert plain == aio


def test_all_of_them_together() -> None:
    names = tuple(name for name in MAKE)
    plain, aio = (tried(colour(), names) for colour in COLOURS)
    assert plain == aio
