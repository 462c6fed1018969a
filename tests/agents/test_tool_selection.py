"""Offering a part of the toolbox, chosen by words or by a model."""

from __future__ import annotations

from typing import Any

import pytest

from runwell.agents import create_agent
from runwell.agents.bm25 import BM25, words
from runwell.agents.middleware import LLMToolSelectorMiddleware, RetrievalToolSelectorMiddleware
from runwell.errors import InvalidInput
from runwell.messages import AIMessage, HumanMessage
from runwell.testing.models import FakeChatModel
from runwell.tools import ProviderTool, tool, tool_cost

ABOUT = {
    "get_weather": "The weather forecast of a city.",
    "send_email": "Send an e-mail to a person.",
    "read_invoice": "Read an invoice by its number.",
    "list_invoices": "List all unpaid invoices of a customer.",
    "book_flight": "Book a flight between two airports.",
    "convertCurrency": "Convert an amount of money between currencies.",
}


def toolbox() -> list[Any]:
    def make(name: str, about: str) -> Any:
        @tool(name, description=about)
        def made() -> str:
            return f"{name} ran"

        return made

    return [make(name, about) for name, about in ABOUT.items()]


def ask(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


def chosen(*names: str) -> AIMessage:
    return AIMessage(
        "", tool_calls=[{"name": "ToolSelection", "args": {"tools": list(names)}, "id": "s", "type": "tool_call"}]
    )


def calls(name: str, id_: str = "1") -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": {}, "id": id_, "type": "tool_call"}])


# -- by words


@pytest.mark.parametrize(
    ("question", "best"),
    [
        ("What will the weather be in Oslo?", "get_weather"),
        ("Which invoice is unpaid?", "list_invoices"),
        ("I need flights to Rome", "book_flight"),
        ("How much is 5 dollars in another currency?", "convertCurrency"),
    ],
)
def test_b5_the_tools_that_share_words_with_the_question_are_offered(run: Any, question: str, best: str) -> None:
    model = FakeChatModel(responses=["ok"])
    run.invoke(create_agent(model, toolbox(), middleware=[RetrievalToolSelectorMiddleware(max_tools=2)]), ask(question))
    assert len(model.requests) == 1, "no model is asked to select"
    assert best in model.requests[0].tool_names and len(model.requests[0].tool_names) == 2


def test_b5_what_shares_nothing_falls_back_on_the_order_of_the_toolbox(run: Any) -> None:
    model = FakeChatModel(responses=["ok"])
    run.invoke(create_agent(model, toolbox(), middleware=[RetrievalToolSelectorMiddleware(max_tools=3)]), ask("zzz"))
    assert model.requests[0].tool_names == list(ABOUT)[:3]


def test_b5_always_included_used_and_provider_tools_stay(run: Any) -> None:
    class Searching(FakeChatModel):
        server_side_tools = ("web_search",)

    model = Searching(responses=[calls("get_weather"), "ok"])
    selector = RetrievalToolSelectorMiddleware(max_tools=1, always_include=["send_email"])
    agent = create_agent(model, [*toolbox(), ProviderTool("web_search")], middleware=[selector])
    run.invoke(agent, ask("weather?"))
    assert model.requests[0].tool_names == ["get_weather", "send_email", "web_search"]
    assert model.requests[1].tool_names == ["get_weather", "send_email", "read_invoice", "web_search"]


def test_b5_query_and_ranking_may_be_ones_own_in_either_colour(run: Any) -> None:
    async def rank(query: str, tools: list[Any]) -> list[Any]:
        assert query == "about flights"
        return sorted(tools, key=lambda each: each.name)

    selector = RetrievalToolSelectorMiddleware(max_tools=2, query=lambda request: "about flights", rank=rank)
    model = FakeChatModel(responses=["ok"])
    run.invoke(create_agent(model, toolbox(), middleware=[selector]), ask("?"))
    assert sorted(model.requests[0].tool_names) == ["book_flight", "convertCurrency"]

    wrong = RetrievalToolSelectorMiddleware(max_tools=2, rank=lambda query, tools: ["nothing"])
    with pytest.raises(InvalidInput, match="nothing"):
        run.invoke(create_agent(FakeChatModel(responses=["ok"]), toolbox(), middleware=[wrong]), ask("?"))


def test_case_7_a_large_toolbox_costs_a_part_of_its_tokens(run: Any) -> None:
    def make(number: int) -> Any:
        @tool(f"tool_{number}", description=f"Does thing number {number}, in words: " + "very useful indeed. " * 25)
        def made(first: str, second: int) -> str:
            return ""

        return made

    tools = [make(n) for n in range(40)]
    model = FakeChatModel(responses=["ok"])
    agent = create_agent(model, tools, middleware=[RetrievalToolSelectorMiddleware(max_tools=6)])
    run.invoke(agent, ask("please do thing number 17"))
    assert "tool_17" in model.requests[0].tool_names
    whole = sum(cost.tokens for cost in tool_cost(tools))
    part = sum(cost.tokens for cost in tool_cost(model.requests[0].tools))
    assert whole >= 6_000 and part <= 0.16 * whole


def test_words_are_told_apart_in_names_too() -> None:
    assert words("list_openInvoices, 2 cities") == ["list", "open", "invoice", "2", "city"]


def test_bm25_prefers_the_rare_word_and_the_short_text() -> None:
    ranking = BM25(["cat dog", "cat", "cat bird fish mouse horse cow", "dog"])
    scores = ranking.scores("bird cat")
    assert scores[2] == max(scores) and scores[1] > scores[0] > scores[3] == 0.0
    assert BM25([]).scores("cat") == []


# -- by a model


def test_b5_a_model_selects_once_for_a_question(run: Any) -> None:
    chooser = FakeChatModel(responses=[chosen("send_email", "get_weather", "read_invoice")])
    model = FakeChatModel(responses=[calls("get_weather"), "ok"])
    agent = create_agent(model, toolbox(), middleware=[LLMToolSelectorMiddleware(model=chooser, max_tools=2)])
    result = run.invoke(agent, ask("Weather by mail?"))
    assert [r.tool_names for r in model.requests] == [["get_weather", "send_email"]] * 2
    assert len(chooser.requests) == 1 and set(result) == {"messages"}
    assert (
        "at most 2" in chooser.requests[0].messages[0].text and "Book a flight" in chooser.requests[0].messages[0].text
    )


def test_b5_a_new_question_is_a_new_selection(run: Any, thread: Any) -> None:
    from runwell.persistence import InMemorySaver

    chooser = FakeChatModel(responses=[chosen("send_email"), chosen("book_flight")])
    model = FakeChatModel(responses=["a", "b"])
    selector = LLMToolSelectorMiddleware(model=chooser, always_include=["get_weather"])
    agent = create_agent(model, toolbox(), middleware=[selector], checkpointer=InMemorySaver())
    for text in ("mail", "fly"):
        run.invoke(agent, ask(text), thread)
    assert [r.tool_names for r in model.requests] == [["get_weather", "send_email"], ["get_weather", "book_flight"]]


def test_b5_the_agents_own_model_selects_by_default(run: Any) -> None:
    model = FakeChatModel(responses=[chosen("send_email"), "ok"])
    run.invoke(create_agent(model, toolbox(), middleware=[LLMToolSelectorMiddleware()]), ask("mail"))
    assert model.requests[1].tool_names == ["send_email"]


def test_b5_a_selection_that_cannot_be_read_offers_all_and_says_so(run: Any, caplog: Any) -> None:
    for answer in ("I think send_email", chosen("no_such_tool")):
        model = FakeChatModel(responses=["ok"])
        selector = LLMToolSelectorMiddleware(model=FakeChatModel(responses=[answer]), max_tools=1)
        run.invoke(create_agent(model, toolbox(), middleware=[selector]), ask("mail"))
        assert model.requests[0].tool_names == list(ABOUT)
        assert "all 6 tools are offered" in caplog.text
        caplog.clear()


def test_b5_a_small_toolbox_needs_no_selection(run: Any) -> None:
    model = FakeChatModel(responses=["ok"])
    selector = LLMToolSelectorMiddleware(model=FakeChatModel(responses=[]), max_tools=6)
    run.invoke(create_agent(model, toolbox(), middleware=[selector]), ask("mail"))
    assert len(model.requests[0].tool_names) == 6


@pytest.mark.parametrize("kind", [LLMToolSelectorMiddleware, RetrievalToolSelectorMiddleware])
def test_settings_that_cannot_work_are_refused(kind: Any) -> None:
    for bad in ({"max_tools": 0}, {"always_include": "send_email"}):
        with pytest.raises(InvalidInput):
            kind(**bad)
    with pytest.raises(InvalidInput, match="did you mean 'send_email'"):
        create_agent(FakeChatModel(responses=[]), toolbox(), middleware=[kind(always_include=["send_mail"])])
