"""Marks that a provider understands: what it may cache, and which tools it finds by itself. Seen on the request."""

from __future__ import annotations

import logging
from typing import Any, ClassVar

import pytest

from runwell.agents import create_agent
from runwell.agents.middleware import (
    ModelFallbackMiddleware,
    PromptCachingMiddleware,
    ProviderToolSearchMiddleware,
    RetrievalToolSelectorMiddleware,
    wrap_model_call,
)
from runwell.errors import InvalidInput, ModelOverloaded, UnsupportedByProvider
from runwell.messages import AIMessage, HumanMessage, SystemMessage, validate_history
from runwell.observe import DecisionLog
from runwell.persistence import InMemorySaver
from runwell.providers.anthropic import ChatAnthropic
from runwell.schemas.dialects import convert_to_anthropic_tool
from runwell.testing.models import FakeChatModel
from runwell.testing.wire import AnthropicDialect, WireServer
from runwell.tools import ProviderTool, tool

MARK = {"type": "ephemeral"}


class Claude(FakeChatModel):
    """A model whose provider has both."""

    provider: ClassVar[str] = "anthropic"


class GPT(FakeChatModel):
    provider: ClassVar[str] = "openai"


def claude(*responses: Any, **profile: Any) -> Claude:
    return Claude(responses=list(responses), profile={"cache_breakpoints": 4, "tool_search": True, **profile})


@tool
def look(at: str) -> str:
    """Look at something."""
    return f"saw {at}"


@tool
def send(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


def call(name: str, id: str, /, **args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": id, "type": "tool_call"}])


GO = {"messages": [HumanMessage("go")]}


def marks(request: Any) -> list[str]:
    """Where the request has cache marks."""
    found = [
        f"{message.type} {at}"
        for at, message in enumerate(request.messages)
        if not isinstance(message.content, str) and any("cache_control" in block for block in message.content)
    ]
    return found + [each["function"]["name"] for each in request.tools if "cache_control" in each]


# -- prompt caching


def test_b2_the_system_prompt_the_last_tool_and_the_newest_messages_are_marked(run: Any, thread: Any) -> None:
    log = DecisionLog()
    model = claude(call("look", "1", at="sea"), "fine", "again")
    agent = create_agent(
        model,
        [look, send],
        system_prompt="Be brief.",
        middleware=[PromptCachingMiddleware()],
        checkpointer=InMemorySaver(),
    )
    config = {**thread, "callbacks": [log]}
    run.invoke(agent, GO, config)
    result = run.invoke(agent, {"messages": [("user", "more")]}, config)
    assert [marks(request) for request in model.requests] == [
        ["system 0", "human 1", "send"],
        ["system 0", "human 1", "tool 3", "send"],  # and where the request before ended
        ["system 0", "tool 3", "human 5", "send"],
    ]
    assert model.requests[0].messages[0].content == [{"type": "text", "text": "Be brief.", "cache_control": MARK}]
    assert all(not validate_history(request.messages) for request in model.requests)
    assert all(isinstance(message.content, str) for message in result["messages"])  # the history has no marks
    assert log.of("B2")[0].outcome == "marked: message 0, system prompt, tools"


def test_the_tool_that_is_marked_runs_as_before_and_is_bound_once(run: Any) -> None:
    model = claude(call("send", "1", to="ann"), call("send", "2", to="bob"), "fine")
    agent = create_agent(model, [look, send], middleware=[PromptCachingMiddleware()])
    result = run.invoke(agent, GO)
    assert [m.text for m in result["messages"] if m.type == "tool"] == ["sent to ann", "sent to bob"]
    assert len(agent.setup.bound) == 1


def test_marks_of_ones_own_count_and_stay(run: Any) -> None:
    own = SystemMessage([{"type": "text", "text": "Long.", "cache_control": MARK}, {"type": "text", "text": "Short."}])
    for room, expected in ((1, ["system 0"]), (2, ["system 0", "human 1"]), (4, ["system 0", "human 1", "send"])):
        model = claude("fine", cache_breakpoints=room)
        agent = create_agent(model, [send], system_prompt=own, middleware=[PromptCachingMiddleware()])
        run.invoke(agent, GO)
        assert marks(model.requests[0]) == expected
        if room < 3:
            assert model.requests[0].messages[0].content == own.content


@pytest.mark.parametrize(
    ("content", "marked"),
    [
        ([{"type": "text", "text": "a"}, {"type": "text", "text": " "}], 0),
        ([{"type": "text", "text": "a"}, {"type": "image", "url": "http://x/y.png"}], 1),
        ([{"type": "text", "text": ""}], None),
        (" ", None),
    ],
)
def test_the_last_block_that_can_be_is_marked(run: Any, content: Any, marked: int | None) -> None:
    model = claude("fine")
    run.invoke(
        create_agent(model, middleware=[PromptCachingMiddleware(ttl="1h")]), {"messages": [HumanMessage(content)]}
    )
    sent = model.requests[0].messages[0].content
    found = [] if isinstance(sent, str) else [n for n, block in enumerate(sent) if "cache_control" in block]
    assert found == ([] if marked is None else [marked])
    if found:
        assert sent[found[0]]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


def test_a_short_conversation_has_its_messages_left_alone(run: Any) -> None:
    model = claude("fine")
    caching = PromptCachingMiddleware(min_messages_to_cache=2)
    run.invoke(create_agent(model, [send], system_prompt="S", middleware=[caching]), GO)
    assert marks(model.requests[0]) == ["system 0", "send"]


@pytest.mark.parametrize("how", ["ignore", "warn", "raise"])
def test_i2_a_model_that_is_not_known_to_cache_gets_no_marks(run: Any, how: Any, caplog: Any) -> None:
    model = FakeChatModel(responses=["fine"] * 2)
    agent = create_agent(model, [send], system_prompt="S", middleware=[PromptCachingMiddleware(unsupported=how)])
    if how == "raise":
        with pytest.raises(UnsupportedByProvider, match="prompt cache") as caught:
            run.invoke(agent, GO)
        assert "cache_breakpoints" in str(caught.value.hint) and model.requests == []
        return
    with caplog.at_level(logging.WARNING, "runwell.agents"):
        run.invoke(agent, GO)
        run.invoke(agent, GO)
    assert marks(model.requests[0]) == []
    assert len(caplog.records) == (1 if how == "warn" else 0)


def test_h4_a_fallback_to_another_provider_gets_no_marks(run: Any) -> None:
    spare = GPT(responses=["spare"])
    middleware = [PromptCachingMiddleware(), ModelFallbackMiddleware(spare)]
    agent = create_agent(claude(ModelOverloaded("busy")), [send], system_prompt="S", middleware=middleware)
    assert run.invoke(agent, GO)["messages"][-1].text == "spare"
    assert marks(spare.requests[0]) == [] and spare.requests[0].tool_names == ["send"]


# -- tool search


def test_b5_named_tools_are_deferred_and_the_providers_search_is_added(run: Any) -> None:
    log = DecisionLog()
    model = claude(call("send", "1", to="ann"), "fine")
    search = ProviderToolSearchMiddleware(searchable_tools=[send])
    result = run.invoke(create_agent(model, [look, send], middleware=[search]), GO, {"callbacks": [log]})
    plain, deferred, found = model.requests[0].tools
    assert "defer_loading" not in plain and deferred["defer_loading"] is True
    assert found == {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
    assert [m.text for m in result["messages"] if m.type == "tool"] == ["sent to ann"]
    assert log.of("B5")[0].outcome == "deferred send"
    wire = convert_to_anthropic_tool(deferred)
    assert wire["name"] == "send" and wire["defer_loading"] is True and "input_schema" in wire


def test_a8_the_search_of_another_provider_or_kind(run: Any) -> None:
    for model, options, kind in (
        (claude("fine"), {"search": "regex"}, "tool_search_tool_regex_20251119"),
        (GPT(responses=["fine"], profile={"tool_search": True}), {}, "tool_search"),
    ):
        search = ProviderToolSearchMiddleware(searchable_tools=["send"], **options)  # type: ignore[arg-type]
        run.invoke(create_agent(model, [send], middleware=[search]), GO)
        assert model.requests[0].tools[-1]["type"] == kind


def test_a_tool_may_say_itself_that_it_is_deferred_and_a_search_of_ones_own_stays(run: Any) -> None:
    lazy = send.model_copy(update={"extras": {"defer_loading": True}})
    own = ProviderTool("tool_search_tool_regex_20251119", {"name": "tool_search_tool_regex"}, "anthropic")
    model = claude("fine")
    agent = create_agent(model, [look, lazy, own], middleware=[ProviderToolSearchMiddleware()])
    run.invoke(agent, GO)
    assert [each.get("defer_loading") for each in model.requests[0].tools] == [None, True, None]
    assert len(model.requests[0].tools) == 3


def test_a_tool_that_must_be_called_is_not_deferred(run: Any) -> None:
    @wrap_model_call
    def force(request: Any, handler: Any) -> Any:
        return handler(request.override(tool_choice="send"))

    model = claude("fine")
    agent = create_agent(
        model, [look, send], middleware=[force, ProviderToolSearchMiddleware(searchable_tools=[look, send])]
    )
    run.invoke(agent, GO)
    assert [each["function"]["name"] for each in model.requests[0].tools if each.get("defer_loading")] == ["look"]


@pytest.mark.parametrize("how", ["ignore", "warn", "raise"])
@pytest.mark.parametrize(
    "model", [lambda: FakeChatModel(responses=["fine"] * 2), lambda: Claude(responses=["fine"] * 2)]
)
def test_i2_a_model_that_is_not_known_to_search_is_offered_every_tool(
    run: Any, how: Any, model: Any, caplog: Any
) -> None:
    model = model()
    search = ProviderToolSearchMiddleware(searchable_tools=[send], unsupported=how)
    agent = create_agent(model, [look, send], middleware=[search])
    if how == "raise":
        with pytest.raises(UnsupportedByProvider, match="tool search"):
            run.invoke(agent, GO)
        assert model.requests == []
        return
    with caplog.at_level(logging.WARNING, "runwell.agents"):
        run.invoke(agent, GO)
        run.invoke(agent, GO)
    assert model.requests[0].tool_names == ["look", "send"]
    assert not any("defer_loading" in each for each in model.requests[0].tools)
    assert len(caplog.records) == (1 if how == "warn" else 0)


@pytest.mark.parametrize("order", ["caching last", "caching first"])
def test_a_deferred_tool_is_never_marked_for_the_cache(run: Any, order: str) -> None:
    """A provider refuses a tool that is both."""
    middleware: list[Any] = [ProviderToolSearchMiddleware(searchable_tools=[send]), PromptCachingMiddleware()]
    model = claude("fine")
    agent = create_agent(model, [look, send], middleware=middleware if order == "caching last" else middleware[::-1])
    run.invoke(agent, GO)
    assert not any("defer_loading" in each and "cache_control" in each for each in model.requests[0].tools)
    assert [each["function"]["name"] for each in model.requests[0].tools if each.get("defer_loading")] == ["send"]


def test_h4_a_fallback_to_a_provider_without_search_is_offered_every_tool(run: Any) -> None:
    spare = GPT(responses=["spare"])
    middleware = [ProviderToolSearchMiddleware(searchable_tools=[send]), ModelFallbackMiddleware(spare)]
    agent = create_agent(claude(ModelOverloaded("busy")), [look, send], middleware=middleware)
    run.invoke(agent, GO)
    assert spare.requests[0].tool_names == ["look", "send"]
    assert not any("defer_loading" in each for each in spare.requests[0].tools)


def test_a_selection_inside_leaves_the_marked_tools_alone(run: Any) -> None:
    model = claude("fine")
    middleware = [ProviderToolSearchMiddleware(searchable_tools=[send]), RetrievalToolSelectorMiddleware(max_tools=1)]
    run.invoke(create_agent(model, [look, send], middleware=middleware), GO)
    assert len(model.requests[0].tools) == 3


def test_the_marks_arrive_at_anthropics_api(run: Any) -> None:
    with WireServer(AnthropicDialect()) as wire:
        wire.say("fine")
        model = ChatAnthropic(model="claude-opus-4-5", api_key="sk-ant-test", base_url=wire.base_url)
        agent = create_agent(
            model,
            [look, send],
            system_prompt="Be brief.",
            middleware=[ProviderToolSearchMiddleware(searchable_tools=[send]), PromptCachingMiddleware()],
        )
        assert run.invoke(agent, GO)["messages"][-1].text == "fine"
        body = wire.requests[0]["body"]
    assert body["system"] == [{"type": "text", "text": "Be brief.", "cache_control": MARK}]
    assert body["messages"][0]["content"] == [{"type": "text", "text": "go", "cache_control": MARK}]
    plain, deferred, search = body["tools"]
    assert plain["name"] == "look" and plain["cache_control"] == MARK and "defer_loading" not in plain
    assert deferred["name"] == "send" and deferred["defer_loading"] is True and "cache_control" not in deferred
    assert search == {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: PromptCachingMiddleware(type="forever"),  # type: ignore[arg-type]
        lambda: PromptCachingMiddleware(ttl="2h"),  # type: ignore[arg-type]
        lambda: PromptCachingMiddleware(min_messages_to_cache=-1),
        lambda: PromptCachingMiddleware(unsupported="skip"),  # type: ignore[arg-type]
        lambda: PromptCachingMiddleware(unsupported_model_behavior="skip"),  # type: ignore[arg-type]
        lambda: ProviderToolSearchMiddleware(searchable_tools="send"),
        lambda: ProviderToolSearchMiddleware(search="fuzzy"),  # type: ignore[arg-type]
        lambda: ProviderToolSearchMiddleware(unsupported="skip"),  # type: ignore[arg-type]
        lambda: create_agent(claude(), [send], middleware=[ProviderToolSearchMiddleware()]),
        lambda: create_agent(claude(), [send], middleware=[ProviderToolSearchMiddleware(searchable_tools=["sent"])]),
        lambda: create_agent(
            claude(),
            [ProviderTool("web_search")],
            middleware=[ProviderToolSearchMiddleware(searchable_tools=["web_search"])],
        ),
    ],
)
def test_settings_that_cannot_work_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInput):
        wrong()
