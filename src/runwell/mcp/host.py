"""The calls of a server: each is a run, whose questions go to the client and whose reports are its progress."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from runwell.agents.agent_tool import AgentTool
from runwell.agents.compiled import CompiledAgent
from runwell.agents.tool_runner import ToolNode
from runwell.errors import (
    BudgetExceeded,
    DuplicateTool,
    InvalidInput,
    InvalidResume,
    NodeTimeoutError,
    RunwellError,
    ThreadBusy,
    ToolArgumentsError,
    ToolError,
)
from runwell.graph.builder import StateGraph
from runwell.graph.messages_state import MessagesState
from runwell.mcp.announcing import announced, answer_of_tool
from runwell.mcp.forms import Declined, answer_of, request_of
from runwell.mcp.hosted import THREAD, AgentThreads, HostedRun, caller, is_thread_id, thread_name
from runwell.mcp.outgoing import as_error
from runwell.mcp.text import bounded
from runwell.messages.message import AIMessage
from runwell.ports.command import START, Command, Interrupt
from runwell.ports.runtime import Principal
from runwell.runnables.runnable import Runnable
from runwell.tools.base_tool import BaseTool
from runwell.tools.result import to_text
from runwell.tools.toolbox import as_tools

__all__ = ["Host"]

_log = logging.getLogger("runwell.mcp")

ANSWER = "answer_question"
"""The tool that answers for clients that cannot be asked, where the program allows it."""

KEPT = f"It keeps its conversations: pass {THREAD} to go on with one."
"""What is said of an agent that does."""

EXPIRED = "Invalid or expired requestState"

ROUNDS = 10
"""How often one call of an older client is asked."""


class Host:
    """Runs the calls of one server, each a run of its own, or the next one on the thread of an agent."""

    keep = 600.0
    """How long a question of a call that nothing else keeps waits, in seconds."""

    def __init__(
        self,
        parts: Sequence[Any],
        *,
        saver: Any = None,
        store: Any = None,
        answers_by_tool: bool = False,
        hint: str | None = None,
    ) -> None:
        from runwell.persistence.checkpoints.memory import InMemorySaver

        if not parts:
            raise InvalidInput("An MCP server of no tools.", hint="Give it tools, functions or agents.")
        self.tools: dict[str, BaseTool] = {}
        self.threads: dict[str, AgentThreads] = {}
        for tool in as_tools([_as_part(part) for part in parts]).values():
            if not isinstance(tool, BaseTool):
                raise InvalidInput(f"{tool.name!r} is run by a model's provider, and cannot be served.")
            if tool.needs_store and store is None:
                raise InvalidInput(
                    f"The tool {tool.name!r} needs a long-term store, and there is none.", hint="Pass store=..."
                )
            self.tools[tool.name] = tool
            if isinstance(tool, AgentTool) and (saver is not None or _has_saver(tool.agent)):
                self.threads[tool.name] = AgentThreads(tool, saver)
        if answers_by_tool and ANSWER in self.tools:
            raise DuplicateTool(f"Two tools are called {ANSWER!r}.", hint="Rename yours, or drop answers_by_tool=True.")
        self.answers_by_tool = answers_by_tool
        self.hint = hint
        self.saver = InMemorySaver() if saver is None else saver
        savers = [self.saver, *(threads.graph.checkpointer for threads in self.threads.values())]
        self.in_memory = all(isinstance(each, InMemorySaver) for each in savers)
        """Whether no run outlives the process."""
        self.waiting: dict[str, float] = {}
        graph: Any = StateGraph(MessagesState)
        graph.add_node("tools", ToolNode(list(self.tools.values()), handle_tool_errors=_told_to_callers))
        graph.add_edge(START, "tools")
        self.graph = graph.compile(checkpointer=self.saver, store=store)

    async def listed(self, ctx: Any, params: Any) -> Any:
        from mcp_types import ListToolsResult

        tools = [
            announced(tool) if (kept := self.threads.get(name)) is None else announced(tool, kept.schema, KEPT)
            for name, tool in self.tools.items()
        ]
        return ListToolsResult(tools=[*tools, _answer_tool()] if self.answers_by_tool else tools)

    async def called(self, ctx: Any, params: Any) -> Any:
        await self._forget_old()
        principal = caller()
        answers: Any = None
        try:
            answering = self.answers_by_tool and params.name == ANSWER
            if not answering and params.name not in self.tools:
                raise _invalid(f"Unknown tool: {params.name}")
            if params.request_state is not None:
                run = self._carried(None if answering else params.name, params.request_state, principal)
                answers = params.input_responses or {}
                if not await self._open(run):
                    raise _invalid(EXPIRED)
            elif answering:
                run, answers = await self._answered_by_tool(params.arguments or {}, principal)
            elif (threads := self.threads.get(params.name)) is not None:
                run = threads.run(params.arguments or {}, principal)
            else:
                run = self._call(params.name, dict(params.arguments or {}), principal)
        except (ToolArgumentsError, InvalidInput) as error:
            return as_error(_told(error))
        self.waiting.pop(run.thread, None)
        try:
            made = await self._worked(ctx, run, answers)
        except Declined as said:
            left = f" The question stays open: call {params.name} with {THREAD} alone to be asked again."
            made = as_error(f"It asked, and the answer was: {said}.{left if run.kept else ' Nothing more was done.'}")
        except (BudgetExceeded, ThreadBusy) as error:
            made = as_error(f"{params.name} did not finish: {_told(error)}")
        except Exception as error:
            _log.exception("tool %r failed", params.name)
            made = as_error(f"The tool {params.name!r} failed: {type(error).__name__}.")
        finally:
            if not run.kept and run.thread not in self.waiting:
                with anyio.CancelScope(shield=True):  # also of a call that the client gave up
                    await self._forget(run.thread)
        return made

    # -- which run

    def _call(self, name: str, arguments: dict[str, Any], principal: Principal | None) -> HostedRun:
        """A new call of a tool, which is forgotten when it is over."""
        called = f"call-{uuid.uuid4().hex}"
        call = {"type": "tool_call", "name": name, "args": arguments, "id": called}
        return self._call_at(name, called, principal, {"messages": [AIMessage("", tool_calls=[call])]})

    def _call_at(self, name: str, called: str, principal: Principal | None, given: Any = None) -> HostedRun:
        tool = self.tools[name]

        def told(values: Mapping[str, Any]) -> Any:
            return answer_of_tool(tool, values["messages"][-1])

        thread = thread_name(name, principal, called)
        return HostedRun(tool, self.graph, thread, f"{name}/{called}", False, told, given, principal)

    def _carried(self, name: str | None, state: str, principal: Principal | None) -> HostedRun:
        """The run that a client names in its answer; it can only be one of this tool (None: any), and its own."""
        run = self._shown(json.loads(state).get("run"), principal)
        if run is None or (name is not None and run.tool.name != name):
            raise _invalid(EXPIRED)
        return run

    def _shown(self, shown: Any, principal: Principal | None) -> HostedRun | None:
        """The run of this name, as clients know it; None for what is no name."""
        name, _, called = shown.partition("/") if isinstance(shown, str) else ("", "", "")
        if name not in self.tools or not is_thread_id(called):
            return None
        threads = self.threads.get(name)
        return self._call_at(name, called, principal) if threads is None else threads.at(called, principal)

    async def _open(self, run: HostedRun) -> list[Interrupt]:
        return list((await run.graph.aget_state(run.config)).interrupts)

    # -- the work

    async def _worked(self, ctx: Any, run: HostedRun, answers: Mapping[str, Any] | None) -> Any:
        """Run until there is a result, or questions that the client is to carry to whoever answers them."""
        from mcp_types import InputRequiredResult
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        if answers is None and (refused := await self._begun(ctx, run)) is not None:
            return refused
        problem: str | None = None
        for _ in range(ROUNDS + 1):
            questions = {each.id: each for each in await self._open(run)}
            if answers is not None and questions and questions.keys() <= answers.keys():
                resume = {id_: answer_of(each, answers[id_], keep=run.kept) for id_, each in questions.items()}
                try:
                    await self._run(ctx, run, Command(resume=resume))
                    problem = None
                except InvalidResume as error:
                    problem = error.message
                questions = {each.id: each for each in await self._open(run)}
            if not questions:
                return run.told((await run.graph.aget_state(run.config)).values)
            requests = {id_: request_of(each, problem) for id_, each in questions.items()}
            if not _can_be_asked(ctx):
                return as_error(self._how_to_answer(run, requests, problem))
            if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
                if not run.kept:
                    self.waiting[run.thread] = time.monotonic() + self.keep
                state = json.dumps({"run": run.shown})
                return InputRequiredResult(input_requests=requests, request_state=state)
            answers = {id_: await _ask(ctx, each) for id_, each in requests.items()}
        return as_error(f"It asked {ROUNDS} times and got no answer that fits: {problem}")

    async def _begun(self, ctx: Any, run: HostedRun) -> Any:
        """Begin, or go on with a thread that was left; gives an error for a call that does not fit its state."""
        state = await run.graph.aget_state(run.config) if run.kept else None
        if run.input is None:
            assert state is not None
            if not state.values:
                return as_error(f"There is no conversation {run.shown!r} yet: give what is to be done.")
            if state.next and not state.interrupts:  # it was cut off in the middle
                await self._run(ctx, run, None)
            return None
        if state is not None and state.interrupts:
            asked = "; ".join(request_of(each).params.message for each in state.interrupts)
            return as_error(
                f"The conversation {run.shown!r} waits for an answer, and nothing new was begun. It asks: {asked}\n"
                f"Call {run.tool.name} with {THREAD} alone to be asked."
            )
        await self._run(ctx, run, run.input)
        return None

    async def _run(self, ctx: Any, run: HostedRun, given: Any) -> None:
        """Run until it ends or pauses; what is reported meanwhile is the client's progress."""
        stream = run.graph.astream(
            given,
            run.config,
            stream_mode=["custom", "updates"],
            subgraphs=True,
            version="v2",
            principal=run.principal,
        )
        count = 0
        try:
            async for part in stream:
                if part["type"] == "custom":
                    said = to_text(part["data"])
                elif not run.kept and not part["ns"]:
                    continue  # the host's own step
                else:
                    said = ", ".join(name for name in part["data"] if name != "__interrupt__")
                if said:
                    count += 1
                    await ctx.session.report_progress(count, None, bounded(said, 1_000))
        finally:
            await stream.aclose()

    # -- clients that cannot be asked

    def _how_to_answer(self, run: HostedRun, requests: Mapping[str, Any], problem: str | None) -> str:
        """What a client that cannot be asked is told."""
        asked = [each.params.message for each in requests.values()]
        lines = [f"It asks: {asked[0]}" if len(asked) == 1 else "It asks:\n" + "\n".join(f"- {each}" for each in asked)]
        if not run.kept and not self.answers_by_tool:
            lines.append(
                "This client cannot be asked (it does not support elicitation), so the call was given up: nothing was "
                "decided, and nothing more was done."
            )
            return "\n".join(lines)
        if not run.kept:
            self.waiting[run.thread] = time.monotonic() + self.keep
        lines.append(
            f"This client cannot be asked (it does not support elicitation). Nothing was decided: {run.shown} waits."
        )
        if self.answers_by_tool:
            told = {
                id_: each.params.url if each.params.mode == "url" else each.params.requested_schema
                for id_, each in requests.items()
            }
            lines.append(
                f"To answer, call {ANSWER} with run={run.shown!r} and answers, an object with an entry for each of "
                f"these that fits its schema: {json.dumps(told, ensure_ascii=False)}"
            )
        if run.kept:
            name = run.shown.partition("/")[2]
            lines.append(
                f"Whoever may decide it can answer with a client that can be asked: call {run.tool.name} with "
                f"{THREAD}={name!r} alone. The same call gives the end of the work after that."
            )
            if self.hint is not None:
                lines.append(f"Where the server runs: {self.hint.replace('{thread}', run.thread)}")
        return "\n".join(lines)

    async def _answered_by_tool(
        self, arguments: Mapping[str, Any], principal: Principal | None
    ) -> tuple[HostedRun, Any]:
        """The run that a call of the answering tool is about, and its answers as a client would give them."""
        from mcp_types import ElicitResult

        shown, given = arguments.get("run"), arguments.get("answers")
        run = self._shown(shown, principal)
        if run is None:
            raise InvalidInput(
                f"run={shown!r:.200} names no run.", hint="It is in the answer that told of the question."
            )
        questions = await self._open(run)
        if not questions:
            raise InvalidInput(f"{shown!r} waits for no answer.")
        if not isinstance(given, Mapping) or {each.id for each in questions} != given.keys():
            raise InvalidInput(
                f"answers={given!r:.200} are not those that are waited for.",
                hint=f"Give an object with these keys: {sorted(each.id for each in questions)}.",
            )
        return run, {
            id_: ElicitResult(action="accept", content=dict(each) if isinstance(each, Mapping) else {"answer": each})
            for id_, each in given.items()
        }

    # -- runs that wait

    async def _forget(self, thread: str) -> None:
        self.waiting.pop(thread, None)
        await self.saver.adelete_thread(thread)

    async def _forget_old(self) -> None:
        now = time.monotonic()
        for thread in [thread for thread, until in self.waiting.items() if until < now]:
            await self._forget(thread)


def _as_part(part: Any) -> Any:
    """Agents as tools; the rest as it is."""
    if isinstance(part, CompiledAgent):
        return part.as_tool()
    if isinstance(part, Runnable) and not isinstance(part, BaseTool):
        raise InvalidInput(
            f"{part!r:.200} does not say to a model what it does.",
            hint='Make it a tool: part.as_tool(name="...", description="...").',
        )
    return part


def _told_to_callers(error: Exception) -> str | None:
    """What a tool says to whoever calls; None for what is the program's own business, which is logged here."""
    if isinstance(error, ToolError):
        return str(error) or "The tool failed without saying why."
    return error.message if isinstance(error, NodeTimeoutError) else None


def _has_saver(agent: Any) -> bool:
    own = getattr(agent, "checkpointer", None)
    return own is not None and not isinstance(own, bool)


def _invalid(message: str) -> Exception:
    from mcp.shared.exceptions import MCPError
    from mcp_types import INVALID_PARAMS

    return MCPError(code=INVALID_PARAMS, message=message)


def _told(error: RunwellError) -> str:
    """An error's text for whoever calls; the program's own are named by their kind alone."""
    return error.message if error.hint is None else f"{error.message} {error.hint}"


def _answer_tool() -> Any:
    from mcp_types import Tool, ToolAnnotations

    return Tool(
        name=ANSWER,
        description="Answer what a run that waits has asked, so that it goes on. Only as the user decided.",
        input_schema={
            "type": "object",
            "properties": {
                "run": {"type": "string", "description": "The run that waits, as its answer named it."},
                "answers": {"type": "object", "description": "An answer for each question, under its key."},
            },
            "required": ["run", "answers"],
        },
        annotations=ToolAnnotations(destructive_hint=True),
    )


def _can_be_asked(ctx: Any) -> bool:
    from mcp_types import ClientCapabilities, ElicitationCapability

    return bool(ctx.session.check_client_capability(ClientCapabilities(elicitation=ElicitationCapability())))


async def _ask(ctx: Any, request: Any) -> Any:
    """Ask a client of an older protocol, in the middle of its call."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import ElicitResult

    params = request.params
    try:
        if params.mode == "url":
            return await ctx.session.elicit_url(params.message, params.url, uuid.uuid4().hex, ctx.request_id)
        return await ctx.session.elicit_form(params.message, params.requested_schema, ctx.request_id)
    except MCPError as error:
        _log.warning("the client could not ask %r: %s", params.message, error)
        return ElicitResult(action="cancel")
