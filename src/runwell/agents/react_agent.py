"""create_react_agent: `create_agent` under the argument names of LangGraph's older constructor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from runwell.agents.compiled import CompiledAgent
from runwell.agents.create_agent import create_agent
from runwell.agents.middleware.middleware import AgentMiddleware
from runwell.agents.state import RunStateAttr
from runwell.agents.tool_runner import ToolNode
from runwell.drivers.colour import callee
from runwell.effects import Call, flow
from runwell.errors import InvalidInput, InvalidUpdateError
from runwell.messages.convert import convert_to_messages
from runwell.messages.message import SystemMessage

__all__ = ["create_react_agent"]


def create_react_agent(
    model: Any,
    tools: Sequence[Any] | ToolNode = (),
    *,
    prompt: str | SystemMessage | Callable[..., Any] | None = None,
    state_modifier: Any = None,
    response_format: Any = None,
    pre_model_hook: Any = None,
    post_model_hook: Any = None,
    state_schema: type | None = None,
    context_schema: type | None = None,
    config_schema: type | None = None,
    checkpointer: Any = None,
    store: Any = None,
    interrupt_before: Sequence[str] | None = (),
    interrupt_after: Sequence[str] | None = (),
    debug: bool = False,
    version: Literal["v1", "v2"] = "v2",
    name: str = "agent",
    **settings: Any,
) -> CompiledAgent:
    """`create_agent`, for programs written for LangGraph's constructor of this name.

    `prompt` (or `state_modifier`, its older name) is a text, a SystemMessage, or a function or runnable of the state
    that gives the messages for the model. `pre_model_hook(state)` runs before each call: its `"llm_input_messages"` are
    what the model sees this time, its `"messages"` and other keys are an update of the state.
    `post_model_hook(state)` runs after each call and gives an update. `tools` may be a `ToolNode`, whose tools and
    error handling are taken. `response_format` makes the run end with `state["structured_response"]`; with a pair of
    (prompt, schema) the prompt is put at the end of the instructions. The model's node is called "model" here, and
    `interrupt_before=["agent"]` means it. `version` is taken and changes nothing. Further `settings` are
    `create_agent`'s: `budget`, `approvals`, `middleware`, ...
    """
    if prompt is not None and state_modifier is not None:
        raise InvalidInput("Both prompt and state_modifier are given.", hint="They are one setting: pass prompt.")
    prompt = state_modifier if prompt is None else prompt
    for called, part in (("prompt", prompt), ("pre_model_hook", pre_model_hook), ("post_model_hook", post_model_hook)):
        texts = (str, SystemMessage) if called == "prompt" else ()
        if part is not None and not isinstance(part, texts) and not callable(part) and not hasattr(part, "invoke"):
            raise InvalidInput(
                f"{called}={part!r:.100}.",
                hint=f"Pass {'a text, a SystemMessage, or ' * bool(texts)}a function or runnable of the state.",
            )
    if isinstance(tools, ToolNode):
        settings = {"on_tool_error": tools.setup.on_tool_error, **settings}
        extra = tools.setup.middleware
        tools = list(tools.setup.tools.values())
    else:
        extra = ()
    hooks: list[AgentMiddleware] = list(settings.pop("middleware", ()))
    if pre_model_hook is not None:
        hooks.append(BeforeEachCall(pre_model_hook))
    if post_model_hook is not None:
        hooks.append(AfterEachCall(post_model_hook))
    system: Any = prompt
    if prompt is not None and not isinstance(prompt, (str, SystemMessage)):
        system = None
        hooks.append(PromptOfState(prompt))
    if isinstance(response_format, tuple):
        said, response_format = response_format
        if system is None and prompt is not None:
            raise InvalidInput(
                "response_format has a prompt, and prompt is a function.", hint="Let the function say it all."
            )
        base = system.text if isinstance(system, SystemMessage) else system
        system = f"{base}\n\n{said}" if base else said
    return create_agent(
        model,
        tools,
        system_prompt=system,
        middleware=[*hooks, *extra],
        response_format=response_format,
        state_schema=state_schema,
        context_schema=context_schema if context_schema is not None else config_schema,
        checkpointer=checkpointer,
        store=store,
        interrupt_before=_places(interrupt_before),
        interrupt_after=_places(interrupt_after),
        debug=debug,
        name=name,
        **settings,
    )


def _places(given: Sequence[str] | None) -> list[str]:
    return ["model" if place == "agent" else place for place in given or ()]


class PromptOfState(AgentMiddleware):
    """The messages for the model are what a function of the state makes of them."""

    name = "prompt"

    def __init__(self, prompt: Any) -> None:
        self._prompt = callee(prompt)

    @flow
    async def wrap_model_call(self, request: Any, handler: Any) -> Any:
        made = await Call(self._prompt, {**request.state, "messages": request.messages})
        made = made.to_messages() if hasattr(made, "to_messages") else made
        return await handler(request.override(**_split(made)))


class Shown(TypedDict):
    llm_input_messages: NotRequired[Annotated[Any, RunStateAttr]]


class BeforeEachCall(AgentMiddleware):
    """A function of the state before each call of the model."""

    name = "pre_model_hook"

    state_schema = Shown

    def __init__(self, hook: Any) -> None:
        self._hook = callee(hook)

    @flow
    async def before_model(self, state: Any, runtime: Any) -> Any:
        made = await Call(self._hook, state)
        if made is not None and not isinstance(made, dict):
            raise InvalidUpdateError(
                f"pre_model_hook gave {made!r:.200}.", hint="Return a dict of state keys, or None."
            )
        if made is None and state.get("llm_input_messages") is None:
            return None
        return {"llm_input_messages": None, **(made or {})}

    @flow
    async def wrap_model_call(self, request: Any, handler: Any) -> Any:
        shown = request.state.get("llm_input_messages")
        return await handler(request if shown is None else request.override(**_split(shown, request.system_message)))


class AfterEachCall(AgentMiddleware):
    """A function of the state after each call of the model."""

    name = "post_model_hook"

    def __init__(self, hook: Any) -> None:
        self._hook = callee(hook)

    @flow
    async def after_model(self, state: Any, runtime: Any) -> Any:
        return await Call(self._hook, state)


def _split(messages: Any, system: SystemMessage | None = None) -> dict[str, Any]:
    """Messages for the model, with the instructions that may lead them, as a request has them."""
    found = convert_to_messages(messages)
    if found and isinstance(found[0], SystemMessage):
        return {"system_message": found[0], "messages": found[1:]}
    return {"system_message": system, "messages": found}
