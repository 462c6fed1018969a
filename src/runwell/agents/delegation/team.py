"""What a supervisor's graph and a swarm have in common: agents as nodes, one budget, one conversation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, NotRequired, Required, TypedDict, get_type_hints

from runwell.agents.limits import Budget
from runwell.agents.metering import Meter
from runwell.errors import InvalidInput
from runwell.graph.builder import StateGraph
from runwell.graph.plan import BESIDE_STATE
from runwell.graph.spent import add_spent, used_before
from runwell.messages.history import add_messages
from runwell.messages.message import BaseMessage
from runwell.ports.command import Overwrite

__all__ = ["TeamGraph", "TeamState", "check_members"]


class TeamState(TypedDict):
    """`messages`, and `stopped`, why the run ended early."""

    messages: Required[Annotated[list[BaseMessage], add_messages]]
    stopped: NotRequired[str | None]


class _Spent(TypedDict, total=False):
    spent: Annotated[dict[str, Any], add_spent]


class TeamGraph(StateGraph[Any]):
    """A graph of agents that share a budget; `compile()` it as any other."""

    def __init__(self, state_schema: type, context_schema: type | None, budget: Budget | None, name: str) -> None:
        keys = get_type_hints(state_schema, include_extras=True)
        make: Any = TypedDict
        given = {key: hint for key, hint in keys.items() if key != "stopped"}
        super().__init__(
            make("TeamState", {**keys, **get_type_hints(_Spent, include_extras=True)}, total=False),
            context_schema,
            input_schema=make("TeamInput", given, total=False),
            output_schema=make("TeamOutput", keys, total=False),
        )
        if budget is not None and not isinstance(budget, Budget):
            raise InvalidInput(f"budget={budget!r:.100} is not a Budget.", hint="Pass Budget(model_calls=...).")
        self.budget, self.name = budget, name

    def compile(self, checkpointer: Any = None, **settings: Any) -> Any:
        """As `StateGraph.compile`; the graph is called as this team unless `name=` says otherwise."""
        settings.setdefault("name", self.name)
        made = super().compile(checkpointer, **settings)
        budget, name = self.budget, settings["name"]

        def on_open(run: Any) -> None:
            run.base.budget = Meter(budget, run.base.budget, used_before(run), name, told=not run.nested)

        def on_input(run: Any, writes: list[Any]) -> list[Any]:
            stale = [("stopped", None)] if run.values.get("stopped") is not None else []
            return [*writes, ("spent", Overwrite({})), *stale]

        made.on_open, made.on_input, made.hidden = on_open, on_input, BESIDE_STATE | {"spent"}
        return made


def check_members(agents: Sequence[Any], owner: str) -> dict[str, Any]:
    """The agents by name. Raises InvalidInput for what cannot be a member."""
    found: dict[str, Any] = {}
    if isinstance(agents, (str, Mapping)) or not isinstance(agents, Iterable):
        raise InvalidInput(f"{owner} was given {agents!r:.100}, not a list.", hint="Pass a list of agents.")
    for each in agents:
        name = getattr(each, "name", None)
        if not hasattr(each, "run_nested"):
            raise InvalidInput(f"{owner} was given {each!r:.100}, which is no agent.", hint="Pass compiled agents.")
        if not name or name in ("agent", "graph"):
            raise InvalidInput(
                f"{owner} was given an agent without a name.", hint='Name it: create_agent(..., name="researcher").'
            )
        if name in found:
            raise InvalidInput(f"{owner} was given two agents called {name!r}.", hint="Give one another name.")
        found[name] = each
    if not found:
        raise InvalidInput(f"{owner} was given no agents.")
    return found
