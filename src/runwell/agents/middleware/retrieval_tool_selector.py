"""Offer the tools whose descriptions fit the question, without asking a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from runwell.agents.bm25 import BM25
from runwell.agents.middleware.middleware import AgentMiddleware
from runwell.agents.middleware.requests import ModelRequest
from runwell.agents.middleware.tool_choice import check_selection, newest_question, selectable, with_only
from runwell.agents.middleware.transient import check_tools
from runwell.drivers.colour import callee
from runwell.effects import Call, flow
from runwell.errors import InvalidInput
from runwell.messages.message import AIMessage
from runwell.observe.run import record_decision, watched
from runwell.ports.seat import Held
from runwell.schemas.arguments import checked_arguments

__all__ = ["RetrievalToolSelectorMiddleware"]


class RetrievalToolSelectorMiddleware(AgentMiddleware):
    """Ranks the tools by the words they share with the question (BM25), and offers the best `max_tools`.

    Names, descriptions and parameters are compared with the newest message of a person and what the model said
    since; `query(request)` gives another text. No model is called. Always `max_tools` are offered: where fewer share
    a word the others follow in the order of the toolbox. `always_include` names tools that are offered in any case
    and not counted; tools called in the current turn, and those the provider runs, stay.

    `rank(query, tools)` replaces the ranking: it gives the tools, or their names, the best first (embeddings, say).
    Plain or `async`.

    Seats: B5 (full toolbox or selection).
    """

    lends_tools = False

    @checked_arguments
    def __init__(
        self,
        *,
        max_tools: int = 8,
        always_include: Sequence[str] | None = None,
        query: Callable[[ModelRequest], Any] | None = None,
        rank: Callable[[str, list[Any]], Any] | None = None,
    ) -> None:
        self.always_include = check_selection(self.name, max_tools, always_include)
        for name, function in (("query", query), ("rank", rank)):
            if function is not None and not callable(function):
                raise InvalidInput(f"{name}={function!r} is not a function.")
        self.max_tools = max_tools
        self._query = callee(query) if query is not None else None
        self._rank = callee(rank) if rank is not None else None
        self._index: tuple[list[Any], BM25] | None = None

    def check(self, tools: dict[str, Any]) -> None:
        check_tools(self.always_include, tools, self.name)

    def seats(self) -> Iterable[Held]:
        how = "shared words" if self._rank is None else "a ranking of the program's"
        answer = f"A selection: the best {self.max_tools} by {how}; no model is asked."
        yield Held("B5", answer, self.wrap_model_call if self._rank is None else self._rank)

    @flow
    async def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        candidates = selectable(request, self.always_include)
        if len(candidates) <= self.max_tools:
            return await handler(request)
        query = await Call(self._query, request) if self._query is not None else _asked(request)
        if self._rank is not None:
            ranked = [getattr(each, "name", each) for each in await Call(self._rank, query, candidates)]
            unknown = set(ranked) - {tool.name for tool in candidates}
            if unknown:
                raise InvalidInput(f"rank gave {sorted(map(str, unknown))}, which it was not asked about.")
        else:
            ranked = self._by_words(query, candidates)
        chosen = ranked[: self.max_tools]
        if watched():
            record_decision("B5", chosen, f"the best {self.max_tools} of {len(candidates)}", "code")
        return await handler(with_only(request, candidates, chosen))

    def _by_words(self, query: str, candidates: list[Any]) -> list[str]:
        known = self._index
        if known is None or list(map(id, known[0])) != list(map(id, candidates)):
            known = (candidates, BM25([_text(tool) for tool in candidates]))
            self._index = known
        scores = known[1].scores(query)
        order = sorted(range(len(candidates)), key=lambda place: -scores[place])
        return [candidates[place].name for place in order]


def _asked(request: ModelRequest) -> str:
    """The newest question, and what the model said since."""
    question = newest_question(request.messages)
    texts = [question.text] if question is not None else []
    for message in reversed(request.messages):
        if message is question:
            break
        if isinstance(message, AIMessage) and message.text:
            texts.append(message.text)
    return "\n".join(texts)


def _text(tool: Any) -> str:
    """What a tool is compared by; its name counts twice."""
    properties = tool.json_schema().get("properties", {})
    parameters = [f"{name} {about.get('description', '')}" for name, about in properties.items()]
    return "\n".join([tool.name, tool.name, tool.description, *parameters])
