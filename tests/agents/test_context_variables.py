"""A context variable that a hook or tool sets is seen by what comes later in the same task: never by another task,
never by the caller; in any colour, under both drivers."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

import pytest

from runwell.agents import create_agent
from runwell.agents.middleware import (
    after_agent,
    after_model,
    before_agent,
    before_model,
    wrap_model_call,
    wrap_tool_call,
)
from runwell.messages import AIMessage
from runwell.models import BaseChatModel
from runwell.testing import FakeChatModel
from runwell.tools import tool

SEEN: ContextVar[tuple[str, ...]] = ContextVar("seen", default=())

SIMPLE = {"ba": before_agent, "bm": before_model, "am": after_model, "aa": after_agent}
AROUND = {"wm": wrap_model_call, "wt": wrap_tool_call}

TURN = """
bm1: -
bm2: bm1
wm1<: -
wm2<: wm1<
model: wm1< wm2<
wm2>: wm1< wm2< model
wm1>: wm1< wm2< model wm2>
am2: -
am1: am2
"""
EXPECTED = f"""
ba1: -
ba2: ba1
{TURN}
wt1<: -
wt2<: wt1<
tool: wt1< wt2<
wt2>: wt1< wt2< tool
wt1>: wt1< wt2< tool wt2>
{TURN}
aa2: -
aa1: aa2
"""

COLOURS = {
    "plain": "p" * 14,
    "async": "a" * 14,
    "mixed": "pa" * 7,
    "mixed the other way": "ap" * 7,
    "pairs": "ppaappaappaapp",
}


class Marks:
    """Functions that note what they see, and add themselves to it."""

    def __init__(self, colours):
        self.colours, self.log = iter(colours), []

    def mark(self, name):
        self.log.append(f"{name}: {' '.join(SEEN.get()) or '-'}")
        SEEN.set((*SEEN.get(), name))

    def hook(self, kind, number):
        name, plain = f"{kind}{number}", next(self.colours) == "p"

        def hook(state, runtime):
            self.mark(name)

        async def ahook(state, runtime):
            self.mark(name)

        def around(request, handler):
            self.mark(name + "<")
            result = handler(request)
            self.mark(name + ">")
            return result

        async def aaround(request, handler):
            self.mark(name + "<")
            result = await handler(request)
            self.mark(name + ">")
            return result

        if kind in SIMPLE:
            made, decorator = hook if plain else ahook, SIMPLE[kind]
        else:
            made, decorator = around if plain else aaround, AROUND[kind]
        made.__name__ = name
        return decorator(made)

    def tool(self):
        if next(self.colours) == "p":

            @tool
            def act(x: int) -> str:
                """Act."""
                self.mark("tool")
                return "done"

        else:

            @tool
            async def act(x: int) -> str:
                """Act."""
                self.mark("tool")
                return "done"

        return act

    def model(self):
        answers = [AIMessage("", tool_calls=[{"name": "act", "args": {"x": 1}, "id": "1"}]), AIMessage("over")]
        fake, marks = FakeChatModel(answers), self

        class Plain(BaseChatModel):
            def _generate(self, *args, **kwargs):
                marks.mark("model")
                return fake._generate(*args, **kwargs)

            def bind_tools(self, tools, **kwargs):
                return self

        class Async(Plain):
            _generate = BaseChatModel._generate

            async def _agenerate(self, *args, **kwargs):
                marks.mark("model")
                return await fake._agenerate(*args, **kwargs)

        return Plain() if next(self.colours) == "p" else Async()


@pytest.mark.parametrize("colours", COLOURS.values(), ids=COLOURS)
@pytest.mark.parametrize("how", ["invoke", "stream", "ainvoke", "astream"])
def test_what_a_hook_sets_is_seen_later_in_its_task(colours, how):
    marks = Marks(colours)
    hooks = [marks.hook(kind, number) for kind in [*SIMPLE, *AROUND] for number in (1, 2)]
    agent = create_agent(marks.model(), [marks.tool()], middleware=hooks)

    async def astream():
        return [item async for item in agent.astream({"messages": "hi"})]

    async def ainvoke():
        await (agent.ainvoke({"messages": "hi"}) if how == "ainvoke" else astream())
        return SEEN.get()

    if how == "invoke":
        agent.invoke({"messages": "hi"})
    elif how == "stream":
        list(agent.stream({"messages": "hi"}))
    after = asyncio.run(ainvoke()) if how.startswith("a") else SEEN.get()
    assert marks.log == [line for line in EXPECTED.splitlines() if line]
    assert after == ()
