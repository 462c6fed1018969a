"""Tools written twice, plain and async: each is handed what it takes, and both serve both kinds of callers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import pytest

from runwell.errors import ToolDefinitionError
from runwell.tools import BaseTool, InjectedToolCallId, StructuredTool, ToolRuntime

CALL = {"type": "tool_call", "name": "t", "id": "c1", "args": {"x": 1}}


class OnlyPlainIsTold(BaseTool):
    name: str = "t"
    description: str = "A tool."

    def _run(self, x: int, runtime: ToolRuntime) -> str:
        return f"plain {x} {runtime.tool_call_id}"

    async def _arun(self, x: int) -> str:
        return f"async {x}"


class OnlyAsyncIsTold(BaseTool):
    name: str = "t"
    description: str = "A tool."

    def _run(self, x: int) -> str:
        return f"plain {x}"

    async def _arun(self, x: int, id: Annotated[str, InjectedToolCallId]) -> str:
        return f"async {x} {id}"


def bare(x: int) -> str:
    return f"plain {x}"


async def told(x: int, runtime: ToolRuntime) -> str:
    return f"async {x} {runtime.tool_call_id}"


@pytest.mark.parametrize(
    ("make", "plain", "aio"),
    [
        (OnlyPlainIsTold, "plain 1 c1", "async 1"),
        (OnlyAsyncIsTold, "plain 1", "async 1 c1"),
        (lambda: StructuredTool.from_function(bare, told, "t", "A tool."), "plain 1", "async 1 c1"),
    ],
    ids=["plain", "async", "functions"],
)
def test_each_is_injected_what_it_takes(make: Callable[[], BaseTool], plain: str, aio: str) -> None:
    made = make()
    assert list(made.args) == ["x"]
    assert made.invoke(CALL).content == plain
    assert asyncio.run(made.ainvoke(CALL)).content == aio


def test_methods_bound_to_an_instance_are_injected_alike() -> None:
    class Desk:
        def plain(self, x: int) -> str:
            return f"plain {x}"

        async def aio(self, x: int, runtime: ToolRuntime) -> str:
            return f"async {x} {runtime.tool_call_id}"

        t = StructuredTool.from_function(plain, aio, "t", "A tool.")

    assert Desk().t.invoke(CALL).content == "plain 1"
    assert asyncio.run(Desk().t.ainvoke(CALL)).content == "async 1 c1"


def test_a_stand_in_gives_way_to_the_one_that_is_written_out() -> None:
    class Async(BaseTool):
        name: str = "t"
        description: str = "A tool."

        def _run(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

        async def _arun(self, x: int) -> str:
            return f"async {x}"

    class Plain(BaseTool):
        name: str = "t"
        description: str = "A tool."

        def _run(self, x: int) -> str:
            return f"plain {x}"

        async def _arun(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

    for made, told in ((Async(), "async 1"), (Plain(), "plain 1")):
        assert made.invoke({"x": 1}) == told
        assert asyncio.run(made.ainvoke({"x": 1})) == told


def test_different_arguments_are_refused_when_the_tool_is_made() -> None:
    class Other(BaseTool):
        name: str = "t"
        description: str = "A tool."

        def _run(self, x: int, unit: str = "c") -> str:
            return ""

        async def _arun(self, x: int, day: int) -> str:
            return ""

    with pytest.raises(ToolDefinitionError, match=r"takes no 'unit' and needs 'day'"):
        Other()
