"""What the parts of the chat models' suite share: the server, the model that talks to it, both colours."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar

from runwell.models.chat_model import BaseChatModel
from runwell.models.retry import RetryPolicy
from runwell.testing.wire.said import WireDialect
from runwell.testing.wire.server import WireServer

__all__ = ["ChatWire", "Colour"]


class Colour:
    """Calls a model in one colour: "sync" or "async"."""

    def __init__(self, name: str) -> None:
        self.name = name

    def invoke(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        """The answer."""
        if self.name == "sync":
            return model.invoke(*args, **kwargs)
        return asyncio.run(model.ainvoke(*args, **kwargs))

    def stream(self, model: Any, *args: Any, into: list[Any] | None = None, **kwargs: Any) -> list[Any]:
        """All chunks; those before an error are in `into`."""
        chunks: list[Any] = [] if into is None else into
        if self.name == "sync":
            for chunk in model.stream(*args, **kwargs):
                chunks.append(chunk)
            return chunks

        async def read() -> None:
            async for chunk in model.astream(*args, **kwargs):
                chunks.append(chunk)

        asyncio.run(read())
        return chunks

    @staticmethod
    def whole(chunks: list[Any]) -> Any:
        """The message that chunks add up to."""
        return (chunks[0] + chunks[1:]).to_message()


class ChatWire:
    """A server of the dialect for each test, and models that talk to it."""

    dialect: ClassVar[WireDialect]
    key: ClassVar[str] = "sk-test-0123456789-secret"
    wire: WireServer

    def make_model(self, base_url: str, **settings: Any) -> BaseChatModel:
        """A model that talks to `base_url` with the key `self.key`. Every adapter takes `timeout`, `max_retries`,
        `max_tokens`, `stop`, and `stream_idle_timeout`."""
        raise NotImplementedError

    def model(self, **settings: Any) -> Any:
        """A model that talks to this test's server; its retries hardly wait."""
        model = self.make_model(self.wire.base_url, **settings)
        vars(model)["retry_policy"] = RetryPolicy(first_s=0.001, patience_s=model.retry_policy.patience_s)
        return model

    def setup_method(self) -> None:
        self.wire = WireServer(self.dialect)

    def teardown_method(self) -> None:
        self.wire.close()

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Tests that take a `colour` run in both, those that take a `case` once for each of `self.<test>_cases`."""
        names = metafunc.fixturenames
        if "colour" in names:
            metafunc.parametrize("colour", [Colour("sync"), Colour("async")], ids=["sync", "async"])
        if "case" in names:
            cases: Mapping[str, Any] = getattr(self, metafunc.function.__name__.removeprefix("test_") + "_cases")
            metafunc.parametrize("case", list(cases.values()), ids=list(cases))
