"""A model's tokens on their way to the reader of an agent's stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from runwell.agents import Budget, create_agent
from runwell.errors import ModelError
from runwell.messages import AIMessageChunk, HumanMessage
from runwell.models import BaseChatModel
from runwell.models.outputs import ChatGenerationChunk
from runwell.observe import BaseCallbackHandler

GO = {"messages": [HumanMessage("go")]}


class Talker(BaseChatModel):
    """Says `count` words without ever waiting; `made` counts them, `breaks` after so many."""

    count: int = 5_000
    breaks: int | None = None

    def model_post_init(self, context: Any) -> None:
        self.made = 0

    async def _astream(
        self, messages: list[Any], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for number in range(self.count):
            if number == self.breaks:
                raise ModelError("the line broke")
            self.made += 1
            usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2} if number % 2 else None
            yield ChatGenerationChunk(AIMessageChunk(f"{number} ", usage_metadata=usage))


def test_an_async_model_that_never_waits_does_not_run_away_from_its_reader() -> None:
    model = Talker()

    async def read() -> tuple[int, int]:
        ahead, count = 0, 0
        async for _ in create_agent(model).astream(GO, stream_mode="messages"):
            count += 1
            ahead = max(ahead, model.made - count)
        return ahead, count

    ahead, count = asyncio.run(read())
    assert count == 5_000
    assert ahead < 400


def test_what_goes_with_a_token_is_its_readers_own(run: Any) -> None:
    items = run.stream(create_agent(Talker(count=3)), GO, {"tags": ["mine"]}, stream_mode="messages")
    for _, facts in items[:-1]:
        facts["tags"].append("changed")
        facts["node"] = "changed"
    assert [facts["node"] for _, facts in items[-1:]] == ["model"]
    assert "mine" in items[-1][1]["tags"]
    assert "changed" not in items[-1][1]["tags"]


def test_tokens_are_the_same_whoever_else_listens(run: Any) -> None:
    class Listener(BaseCallbackHandler):
        heard: list[str] = []

        def on_llm_new_token(self, token: str, **kwargs: Any) -> None:
            self.heard.append(token)

    alone = run.stream(create_agent(Talker(count=4)), GO, stream_mode="messages")
    beside = run.stream(create_agent(Talker(count=4)), GO, {"callbacks": [Listener()]}, stream_mode="messages")
    assert [chunk.text for chunk, _ in alone] == [chunk.text for chunk, _ in beside] == Listener.heard
    assert len({chunk.id for chunk, _ in alone}) == 1


def test_a_stream_that_breaks_off_counts_for_what_had_come(run: Any) -> None:
    spent: list[Any] = []

    class Watch(BaseCallbackHandler):
        def on_llm_error(self, error: BaseException, **kwargs: Any) -> None:
            from runwell.ports.runtime import spending

            spent.append(spending())

    agent = create_agent(Talker(count=9, breaks=4), budget=Budget(model_calls=3), model_retry=0)
    with suppress(ModelError):
        run.stream(agent, GO, {"callbacks": [Watch()]}, stream_mode="messages")
    [meter] = spent
    assert meter.spent["model_calls"] == 1
    assert meter.spent["tokens"] == 4
