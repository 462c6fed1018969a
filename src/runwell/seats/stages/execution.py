"""Stage E: execution and observation."""

from __future__ import annotations

from collections.abc import Iterator

from runwell.ports.seat import Held, Status
from runwell.seats.facts import Facts, named
from runwell.tools.base_tool import BaseTool

__all__ = ["execution"]

TOOLS = "runwell.agents.tool_node:"


def execution(at: Facts) -> Iterator[Held]:
    """The seats E1 to E13."""
    setup = at.setup
    here: Status = "held" if at.local else "idle"
    yield Held("E1", f"Told that there are {named(at.local)}.", "runwell.agents.tool_errors:unknown")
    yield Held("E2", "Validated by each tool's own schema.", BaseTool.prepare, status=here)
    handlers = [name for name, tool in at.local.items() if tool.handle_tool_error or tool.handle_validation_error]
    first = f"{named(handlers)} first by their own handlers; then " if handlers else ""
    rule = setup.on_tool_error
    answer = {
        "default": "the model hears ToolError, bad arguments and errors of the outside; the rest is raised",
        "message": "the model hears every error",
        "raise": "every error is raised",
    }.get(rule if isinstance(rule, str) else "", "a function of the program's decides")
    yield Held(
        "E3",
        f"{first}{answer}."[:1].upper() + f"{first}{answer}."[1:],
        rule if callable(rule) else "runwell.agents.tool_errors:answer_to",
        status=here,
    )
    stores = at.which(needs_store=True)
    yield Held(
        "E4",
        f"What tools declare; a store is needed by {named(stores, 'none')}.",
        "runwell.schemas.injection:Injection",
        status=here,
    )
    alone = at.which(exclusive=True)
    most = at.agent.default_concurrency
    yield Held(
        "E5",
        f"{'All' if most is None else f'Up to {most}'} side by side; alone: {named(alone)}.",
        "runwell.agents.routing:sends",
        status=here,
    )
    stopped = at.setup.limits.on_sibling_failure == "cancel"
    others = "stopped where that is possible" if stopped else "awaited"
    yield Held("E6", f"They are {others}; what has finished is kept.", "runwell.graph.engine:Run._step", status=here)
    retries = getattr(at.model, "max_retries", None)
    policy = getattr(type(at.model), "retry_policy", None)
    tried = f"Model calls {retries} times, if the failure may pass" if retries else "Model calls are not"
    yield Held(
        "E7",
        f"{tried}; tool calls only where it says so here.",
        policy if policy is not None else type(at.model),
        status="held" if retries else "nobody",
    )
    for around in at.around_model("stop_after_attempt"):
        answer = f"Around the model: {around.stop_after_attempt} attempts in all."
        yield Held("E7", answer, type(around), adds=True)
    yield Held(
        "E8",
        f"{tried}; Retry-After is waited out." if retries else "No.",
        policy if policy is not None else type(at.model),
        status="held" if retries else "nobody",
    )
    yield Held("E9", "As B8 says.", BaseTool.finish, status=here)
    yield Held("E10", "As B4 says.", "runwell.agents.tool_errors:malformed")
    yield Held("E11", "As C7 says.", f"{TOOLS}_answers_in", status=here)
    yield Held("E12", "No MCP server is connected.", "runwell.tools.toolbox:as_tool", status="idle")
    if not at.local:
        yield Held("E13", "The agent runs no tools.", f"{TOOLS}_execute", "external", "idle")
    for name, tool in at.local.items():
        callee = tool.callee
        fits = " if it fits its output schema" if tool.output_schema is not None else ""
        yield Held(
            "E13",
            f"{name}: what its code returns{fits}.",
            callee if not _own(tool) else type(tool),
            "external",
            adds=True,
        )


def _own(tool: BaseTool) -> bool:
    """Whether the tool is a class of its own rather than a function."""
    return getattr(tool, "func", None) is None and getattr(tool, "coroutine", None) is None
