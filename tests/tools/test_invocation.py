"""Running tools by hand, in both colours, and the steps an agent's tool node uses."""

from __future__ import annotations

import asyncio
import threading
import traceback
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

import runwell
from runwell.drivers import run_async, run_sync
from runwell.errors import (
    InvalidInput,
    NodeTimeoutError,
    ToolArgumentsError,
    ToolDefinitionError,
    ToolError,
    UsageError,
)
from runwell.messages import ToolMessage
from runwell.ports.command import Command
from runwell.ports.runtime import CURRENT_TASK, Runtime, TaskScope
from runwell.tools import BaseTool, StructuredTool, Tool, ToolException, tool


def call(args: Any, id: str = "c1", name: str = "t") -> dict[str, Any]:
    return {"type": "tool_call", "name": name, "id": id, "args": args}


@tool
def plain(x: int) -> int:
    """Add one."""
    return x + 1


@tool
async def aio(x: int) -> int:
    """Add one."""
    await asyncio.sleep(0)
    return x + 1


@pytest.mark.parametrize("made", [plain, aio])
def test_a_function_of_either_colour_serves_callers_of_both(made: BaseTool) -> None:
    assert made.invoke({"x": 1}) == 2
    assert asyncio.run(made.ainvoke({"x": 1})) == 2
    answer = made.invoke(call({"x": 1}))
    assert (answer.content, answer.tool_call_id, answer.name, answer.status) == ("2", "c1", made.name, "success")
    assert asyncio.run(made.ainvoke(call({"x": 1}))).content == "2"


def test_an_async_tool_works_under_invoke_inside_a_running_loop() -> None:
    async def main() -> Any:
        return aio.invoke({"x": 1})

    assert asyncio.run(main()) == 2


def test_a_plain_tool_under_ainvoke_does_not_block_the_loop() -> None:
    @tool(description="d")
    def where() -> int:
        return threading.get_ident()

    assert asyncio.run(where.ainvoke({})) != threading.get_ident()
    assert where.invoke({}) == threading.get_ident()


def test_both_colours_given_each_caller_gets_its_own() -> None:
    async def later(x: int) -> str:
        return "aio"

    def now(x: int) -> str:
        return "plain"

    made = StructuredTool.from_function(now, later, name="both", description="d")
    assert made.invoke({"x": 1}) == "plain"
    assert asyncio.run(made.ainvoke({"x": 1})) == "aio"
    only = StructuredTool.from_function(coroutine=later, description="d")
    assert (only.name, only.invoke({"x": 1})) == ("later", "aio")


def test_every_form_of_the_decorator() -> None:
    def f(x: int) -> int:
        """Do."""
        return x

    assert tool(f).name == "f"
    assert tool()(f).name == "f"
    assert tool("g")(f).name == "g"
    assert tool("g", description="D.")(f).description == "D."
    assert tool(f, return_direct=True).return_direct
    made = tool(
        timeout=3,
        read_only=True,
        idempotent=True,
        destructive=False,
        open_world=False,
        exclusive=True,
        tags=["a"],
        extras={"k": 1},
    )(f)
    assert (made.timeout, made.read_only, made.idempotent, made.destructive, made.open_world, made.exclusive) == (
        3,
        True,
        True,
        False,
        False,
        True,
    )
    assert (tool(f).read_only, tool(f).destructive, tool(f).exclusive) == (None, None, False)
    assert "f (" in tool(f).origin
    assert __file__ in tool(f).origin


def test_misuse_of_the_decorator_is_refused_at_once() -> None:
    def f(x: int) -> int:
        """Do."""
        return x

    with pytest.raises(ToolDefinitionError, match="is a tool already"):
        tool(tool(f))
    with pytest.raises(ToolDefinitionError, match="the first of two arguments is the name"):
        tool(f, f)  # type: ignore[call-overload]
    with pytest.raises(ToolDefinitionError, match="cannot be the name"):
        tool("get the weather")(f)
    with pytest.raises(ToolDefinitionError, match="get_the_weather"):
        tool("get the weather")(f)
    with pytest.raises(ToolDefinitionError, match="a class is not a tool"):
        tool(dict)
    with pytest.raises(ToolDefinitionError, match="there is no class yet"):
        tool(classmethod(f))  # type: ignore[call-overload]
    with pytest.raises(ToolDefinitionError, match="there is no class yet"):

        class Desk:
            @classmethod
            @tool
            def ring(cls, times: int) -> str:
                """Ring."""
                return ""

    with pytest.raises(ToolDefinitionError, match="got no function"):
        StructuredTool.from_function()
    with pytest.raises(InvalidInput, match="takes no argument 'timout'; did you mean 'timeout'"):
        StructuredTool.from_function(f, timout=3)
    with pytest.raises(ToolDefinitionError, match="description=5"):
        tool(description=5)(f)  # type: ignore[call-overload]
    with pytest.raises(InvalidInput, match="response_format"):
        tool(response_format="artifact")(f)  # type: ignore[call-overload]
    with pytest.raises(InvalidInput, match="timeout"):
        tool(timeout=0)(f)


def test_infer_schema_false_is_a_tool_of_one_string() -> None:
    @tool(infer_schema=False)
    def shout(text):  # type: ignore[no-untyped-def]
        """Shout."""
        return text.upper()

    assert shout.args == {"text": {"type": "string"}}
    assert shout.invoke("hi") == "HI"
    assert Tool("shout", lambda text: text.upper(), "Shout.").invoke("hi") == "HI"


def test_further_keywords_are_arguments() -> None:
    @tool(description="d")
    def run(x: int, y: int = 0) -> Any:
        return x, y

    assert run.invoke({"x": 1}, y=5) == (1, 5)
    assert run.invoke(7) == (7, 0)


# -- results


def test_content_and_artifact() -> None:
    @tool(response_format="content_and_artifact", description="d")
    def run(x: int) -> Any:
        return f"{x} rows", [1, 2, 3]

    answer = run.invoke(call({"x": 3}))
    assert (answer.content, answer.artifact) == ("3 rows", [1, 2, 3])
    assert run.invoke({"x": 3}) == "3 rows"

    @tool(response_format="content_and_artifact", description="d")
    def wrong() -> Any:
        return "only text"

    with pytest.raises(UsageError, match="content_and_artifact"):
        wrong.invoke(call({}))


def test_messages_and_commands_of_the_tools_own_pass_through() -> None:
    @tool(description="d")
    def message() -> Any:
        return ToolMessage("own", tool_call_id="")

    @tool(description="d")
    def command() -> Any:
        return Command(update={"k": 1})

    @tool(description="d")
    def several() -> Any:
        return [ToolMessage("own", tool_call_id="other"), Command(goto="x")]

    answer = message.invoke(call({}))
    assert (answer.content, answer.tool_call_id, answer.name) == ("own", "c1", "message")
    assert command.invoke(call({})) == Command(update={"k": 1})
    first, second = several.invoke(call({}))
    assert (first.tool_call_id, second) == ("other", Command(goto="x"))


def test_a_generator_reports_progress_and_returns_its_result() -> None:
    @tool(description="d")
    def steps(n: int) -> Any:
        for k in range(n):
            yield f"step {k}"
        return n

    @tool(description="d")
    async def words() -> Any:
        for each in ("a", "b"):
            yield each

    seen: list[Any] = []
    token = CURRENT_TASK.set(TaskScope("t", "tools", Runtime(stream_writer=seen.append)))
    try:
        assert steps.invoke({"n": 2}) == 2
        assert asyncio.run(steps.ainvoke({"n": 1})) == 1
        assert words.invoke({}) == "ab"
        assert asyncio.run(words.ainvoke({})) == "ab"
    finally:
        CURRENT_TASK.reset(token)
    assert seen == ["step 0", "step 1", "step 0", "a", "b", "a", "b"]


# -- errors


@tool
def fails(kind: str) -> str:
    """Fail."""
    raise ToolException("no such city") if kind == "tool" else ValueError("boom")


def test_by_default_errors_reach_the_caller() -> None:
    with pytest.raises(ToolError, match="no such city"):
        fails.invoke(call({"kind": "tool"}))
    with pytest.raises(ValueError, match="boom"):
        fails.invoke(call({"kind": "other"}))
    with pytest.raises(ToolArgumentsError):
        fails.invoke(call({}))
    assert fails.answer_error(ToolError("x"), call({})) is None


@pytest.mark.parametrize(
    ("handler", "text"),
    [(True, "no such city"), ("handled", "handled"), (lambda error: f"handled: {error}", "handled: no such city")],
)
def test_handle_tool_error(handler: Any, text: str) -> None:
    made = tool(handle_tool_error=handler)(fails.func)
    answer = made.invoke(call({"kind": "tool"}))
    assert (answer.content, answer.status, answer.tool_call_id, answer.name) == (text, "error", "c1", "fails")
    assert made.invoke({"kind": "tool"}) == text
    assert asyncio.run(made.ainvoke(call({"kind": "tool"}))).content == text
    with pytest.raises(ValueError, match="boom"):
        made.invoke(call({"kind": "other"}))
    with pytest.raises(ToolArgumentsError):
        made.invoke(call({}))
    assert made.answer_error(ToolError("no such city"), call({})).content == text  # type: ignore[union-attr]


def test_handle_validation_error() -> None:
    made = tool(handle_validation_error=True)(fails.func)
    answer = made.invoke(call({}))
    assert answer.status == "error"
    assert "kind: missing; expected string" in answer.content
    assert tool(handle_validation_error="bad")(fails.func).invoke({}) == "bad"
    assert tool(handle_validation_error=lambda error: "fixed")(fails.func).invoke(call({})).content == "fixed"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_timeout_stops_the_call_and_shows_no_arguments(asynchronous: bool) -> None:
    release = threading.Event()

    @tool(timeout=0.05, description="d")
    def slow(secret: str) -> None:
        release.wait(10)

    with pytest.raises(NodeTimeoutError, match="slow") as caught:
        asyncio.run(slow.ainvoke({"secret": "s3cret"})) if asynchronous else slow.invoke({"secret": "s3cret"})
    release.set()
    assert "s3cret" not in str(caught.value)


def test_few_frames_between_the_caller_and_the_function() -> None:
    @tool(description="d")
    def deep() -> int:
        ours = str(Path(runwell.__file__).parent)
        return len([each for each in traceback.extract_stack() if each.filename.startswith(ours)])

    assert deep.invoke({}) <= 3


# -- the steps of a call, as a tool node takes them


@pytest.mark.parametrize("made", [plain, aio])
def test_prepare_call_finish_under_both_drivers(made: BaseTool) -> None:
    async def node() -> Any:
        return made.finish(await made.call(made.prepare({"x": 1})), call({"x": 1}))

    assert run_sync(node()).content == "2"
    assert asyncio.run(run_async(node())).content == "2"


# -- subclasses


class Args(BaseModel):
    q: str = Field(description="What.")


class Search(BaseTool):
    """Search one index."""

    name: str = "search"
    index: dict[str, str]
    hits: list[str] = Field(default_factory=list)
    limit: int = 3

    def _run(self, q: str, run_manager: Any = None) -> str:
        self.hits.append(q)
        return self.index.get(q, "nothing")


def test_a_subclass_with_fields_of_its_own() -> None:
    one, two = Search(index={"a": "A"}), Search(index={}, limit=9)
    assert (one.description, one.limit, two.limit) == ("Search one index.", 3, 9)
    assert one.args == {"q": {"type": "string"}}
    assert one.invoke({"q": "a"}) == "A"
    assert asyncio.run(one.ainvoke({"q": "a"})) == "A"
    assert (one.hits, two.hits) == (["a", "a"], [])
    with pytest.raises(InvalidInput, match="needs 'index'"):
        Search()
    with pytest.raises(InvalidInput, match="takes no argument 'indx'; did you mean 'index'"):
        Search(indx={})


def test_a_copy_with_other_fields_is_worked_out_again() -> None:
    one = Search(index={"a": "A"})
    two = one.model_copy(update={"args_schema": Args, "limit": 5})
    assert (one.args, one.limit) == ({"q": {"type": "string"}}, 3)
    assert (two.args, two.limit) == ({"q": {"type": "string", "description": "What."}}, 5)
    with pytest.raises(InvalidInput, match="timeout=-1"):
        one.model_copy(update={"timeout": -1})


def test_a_subclass_in_the_fields_usual_form() -> None:
    class Custom(BaseTool):
        name: str = "custom"
        description: str = "Useful."
        args_schema: type[BaseModel] = Args

        async def _arun(self, q: str) -> str:
            return q * 2

    made = Custom()
    assert made.args == {"q": {"type": "string", "description": "What."}}
    assert made.invoke({"q": "ab"}) == "abab"
    assert asyncio.run(made.ainvoke(call({"q": "ab"}))).content == "abab"


def test_a_subclass_without_work_or_words_is_refused() -> None:
    class Empty(BaseTool):
        name: str = "empty"
        description: str = "d"

    class Silent(BaseTool):
        name: str = "silent"

        def _run(self) -> None: ...

    with pytest.raises(ToolDefinitionError, match="needs _run or _arun"):
        Empty()
    with pytest.raises(ToolDefinitionError, match="neither a docstring nor a description"):
        Silent()


def test_concurrent_first_calls_all_succeed() -> None:
    from runwell.drivers import fan_out

    for _ in range(20):
        fresh = tool(plain.func)
        results = fan_out([lambda fresh=fresh: fresh.invoke({"x": 1}) for _ in range(8)])
        assert [each.unwrap() for each in results] == [2] * 8
