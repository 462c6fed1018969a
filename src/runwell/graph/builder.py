"""StateGraph: nodes and edges over a shared state, checked when compiled."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self

from runwell.effects import Callee
from runwell.errors import GraphError, nearest
from runwell.graph.checking import RESERVED, problems_of
from runwell.graph.node import Branch, Handler, Node, state_annotation
from runwell.graph.node_cache import checked_cache
from runwell.graph.plan import Blueprint, Join
from runwell.graph.policies import CachePolicy, RetryPolicy, TimeoutPolicy
from runwell.graph.schema import ContextT, InputT, OutputT, StateSchema, StateT
from runwell.ports.command import END, START

if TYPE_CHECKING:
    from datetime import timedelta

    from runwell.graph.compiled import CompiledStateGraph

__all__ = ["StateGraph"]


class StateGraph(Generic[StateT, ContextT, InputT, OutputT]):
    """Nodes that read a state and return changes to it, and edges that say what runs next.

    `state_schema` is a TypedDict, dataclass or Pydantic model; a key annotated `Annotated[T, reducer]` merges what
    nodes return, any other is replaced. `input_schema`/`output_schema` narrow what goes in and out, `context_schema` is
    the type of the `context=` that nodes find in `runtime.context`. Nothing runs before `compile()`.
    """

    def __init__(
        self,
        state_schema: type[StateT],
        context_schema: type[ContextT] | None = None,
        *,
        input_schema: type[InputT] | None = None,
        output_schema: type[OutputT] | None = None,
    ) -> None:
        self.state_schema = state_schema
        self.schema = StateSchema(state_schema)
        self.input = StateSchema(input_schema) if input_schema is not None else self.schema
        self.output = StateSchema(output_schema) if output_schema is not None else self.schema
        self.context_schema = context_schema
        self.nodes: dict[str, Node] = {}
        self.edges: list[tuple[str, str]] = []
        self.joins: list[Join] = []
        self.branches: dict[str, list[Branch]] = {}
        self.joint: dict[str, Branch] = {}
        self.deferred: set[str] = set()
        self.defaults: dict[str, Any] = {}
        self.schemas: list[StateSchema] = [self.schema, self.input, self.output]

    def add_node(
        self,
        node: str | Callable[..., Any],
        action: Any = None,
        *,
        defer: bool = False,
        metadata: Mapping[str, Any] | None = None,
        input_schema: type | None = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        cache_policy: CachePolicy | None = None,
        timeout: float | timedelta | TimeoutPolicy | None = None,
        error_handler: Callable[..., Any] | None = None,
        destinations: str | Sequence[str] | Mapping[str, str] = (),
        quiet: bool = False,
    ) -> Self:
        """Add a node: `add_node(function)` or `add_node("name", function_or_runnable_or_graph)`.

        A function takes the state, and by name any of `runtime`, `config`, `writer`, `store`, `previous`; it may be
        plain or `async`. `defer` runs it only when nothing else is left. `input_schema` is what it sees of the state;
        by default what its state parameter is annotated with, if that is a schema. Keys that only such a schema has are
        private to the nodes that name them.
        `destinations` names where its `Command`s may go, for drawing. `metadata` goes with what is streamed and
        observed of it. `quiet` marks a node whose steps need no checkpoint when they change nothing.

        `timeout` bounds each attempt: seconds, a timedelta, or a `TimeoutPolicy`; async code is cancelled, plain code
        goes on in a thread that nobody waits for, and its error says so. `retry_policy` may be several: the first that
        takes an error decides. `error_handler(state, error)` is asked when no attempt is left; what it returns stands
        for what the node would have. `cache_policy` gives again what the node gave for the same input, from the cache
        that the graph is compiled with.
        """
        if isinstance(node, str):
            name = node
        elif action is not None:
            raise GraphError(f"{node!r:.200} cannot be a node's name.", hint='Write add_node("name", function).')
        else:
            name = str(getattr(node, "__name__", None) or getattr(node, "name", None) or type(node).__name__)
            action = node
        if action is None:
            raise GraphError(
                f"Node {name!r} has no action.", hint=f"add_node({name!r}, function) or add_node(function)."
            )
        if name in self.nodes:
            raise GraphError(f"There is already a node {name!r}.", hint="Give one of the two another name.")
        if name in RESERVED or not name or any(mark in name for mark in "|:"):
            raise GraphError(
                f"{name!r} cannot be a node's name.", hint=f"Avoid '|', ':' and the reserved {sorted(RESERVED)}."
            )
        given: Any
        targets = _destinations(name, destinations)
        for keyword, given, kind in (("defer", defer, bool), ("metadata", metadata, Mapping)):
            if given is not None and not isinstance(given, kind):
                raise GraphError(
                    f"Node {name!r} got {keyword}={given!r:.200}.", hint=f"Give a {kind.__name__.lower()}."
                )
        schema = self.schema
        seen = input_schema or state_annotation(action, self.state_schema)
        if seen is not None:
            schema = StateSchema(seen)
            self.schemas.append(schema)
        self.nodes[name] = Node.of(
            name,
            action,
            schema,
            **_policies_of(name, retry_policy, cache_policy, timeout, error_handler),
            quiet=quiet,
            metadata=dict(metadata or {}),
            destinations=tuple(targets),
            labels=targets if isinstance(destinations, Mapping) else {},
        )
        if defer:
            self.deferred.add(name)
        return self

    def set_node_defaults(
        self,
        *,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        cache_policy: CachePolicy | None = None,
        timeout: float | timedelta | TimeoutPolicy | None = None,
        error_handler: Callable[..., Any] | None = None,
    ) -> Self:
        """Policies for every node that has none of its own, whenever it is added. What is left out stays as it was."""
        given = _policies_of("(defaults)", retry_policy, cache_policy, timeout, error_handler)
        self.defaults.update({name: policy for name, policy in given.items() if policy})
        return self

    def add_edge(self, start: str | Sequence[str], end: str) -> Self:
        """After `start`, run `end`. A list of starts runs `end` once, when all of them have ended."""
        sources: list[Any] = list(start) if isinstance(start, (list, tuple, set, frozenset)) else [start]
        if not all(isinstance(name, str) for name in (*sources, end)):
            raise GraphError(
                f"add_edge() got {start!r:.200} and {end!r:.200}.",
                hint="Give names of nodes, START or END; of several starts a list.",
            )
        if isinstance(start, str):
            self.edges.append((start, end))
        else:
            self.joins.append(Join("+".join([*sources, end]), frozenset(sources), end))
        return self

    def add_conditional_edges(
        self,
        source: str,
        path: Any,
        path_map: Mapping[Hashable, str] | Sequence[str] | None = None,
        *,
        joint: bool = False,
    ) -> Self:
        """After `source`, run what `path(state)` names: a node, END, a `Send`, or a list of these.

        `path_map` translates what it returns; as a list it only says what is possible, for checking and drawing.
        `path` sees the state with this task's changes. With `joint` it is asked once, with the state after the whole
        step, however many tasks of `source` ran in it.
        """
        ends: dict[Any, str] | None = None
        if not callable(path) and not isinstance(path, Callee) and not hasattr(path, "ainvoke"):
            raise GraphError(
                f"The conditional edge from {source!r} has the path {path!r:.200}, which cannot be called.",
                hint="Give a function of the state that names what comes next; for what always does, add_edge().",
            )
        if path_map is not None and (isinstance(path_map, str) or not isinstance(path_map, Iterable)):
            raise GraphError(
                f"The conditional edge from {source!r} has path_map={path_map!r:.200}.",
                hint="Give a dict from what the path returns to a node, or a list of nodes.",
            )
        if path_map is not None:
            ends = dict(path_map) if isinstance(path_map, Mapping) else {name: name for name in path_map}
        branch = Branch.of(path, ends)
        if any(known.name == branch.name for known in self.branches.get(source, ())):
            branch.name = f"{branch.name}_{len(self.branches[source])}"
        if joint:
            if source in self.joint:
                raise GraphError(
                    f"Node {source!r} already has a joint conditional edge.", hint="Make one path of both."
                )
            self.joint[source] = branch
        else:
            self.branches.setdefault(source, []).append(branch)
        return self

    def add_sequence(self, nodes: Sequence[Any]) -> Self:
        """Add nodes, given as functions or (name, action), each followed by the next."""
        names = []
        for node in nodes:
            before = len(self.nodes)
            if isinstance(node, tuple):
                self.add_node(*node)
            else:
                self.add_node(node)
            names.append(list(self.nodes)[before])
        for first, second in itertools.pairwise(names):
            self.add_edge(first, second)
        return self

    def set_entry_point(self, node: str) -> Self:
        """`add_edge(START, node)`."""
        return self.add_edge(START, node)

    def set_finish_point(self, node: str) -> Self:
        """`add_edge(node, END)`."""
        return self.add_edge(node, END)

    def set_conditional_entry_point(
        self, path: Any, path_map: Mapping[Hashable, str] | Sequence[str] | None = None
    ) -> Self:
        """`add_conditional_edges(START, path, path_map)`."""
        return self.add_conditional_edges(START, path, path_map)

    def compile(
        self,
        checkpointer: Any = None,
        *,
        cache: Any = None,
        store: Any = None,
        interrupt_before: Sequence[str] | str | None = (),
        interrupt_after: Sequence[str] | str | None = (),
        name: str = "graph",
        debug: bool = False,
        extra: str = "forbid",
    ) -> CompiledStateGraph[StateT, ContextT, InputT, OutputT]:
        """A runnable graph. Raises GraphError listing every problem of the definition.

        `checkpointer` saves each step; None takes the caller's graph's, if there is one, False none at all. `cache`
        keeps results of nodes with a `cache_policy`; None takes the caller's graph's, False keeps none.
        `interrupt_before`/`interrupt_after` pause at these nodes ("*": all). `extra="ignore"` drops unknown input keys
        instead of refusing them. `debug` refuses, in runs that are saved, whatever a node changed in place and did not
        return, nested values too; else that is told by a value's length alone.
        """
        from runwell.graph.saver_calls import checked_saver

        problems = problems_of(self)
        before, after = self._breaks(interrupt_before, problems), self._breaks(interrupt_after, problems)
        if extra not in ("forbid", "ignore"):
            problems.append(f'extra is {extra!r}; it is "forbid" or "ignore"')
        given: Any = name
        if not isinstance(given, str):
            problems.append(f"name is {given!r:.200}; it is text")
        if store is not None and not any(callable(getattr(store, method, None)) for method in ("batch", "abatch")):
            problems.append(f"store is {store!r:.200}; pass a store such as InMemoryStore() or SqliteStore(path)")
        for check, given in ((checked_saver, checkpointer), (checked_cache, cache)):
            try:
                check(given)
            except GraphError as error:
                problems.append(f"{error.message} {error.hint}")
        if problems:
            raise GraphError(
                f"The graph {name!r} cannot be compiled:", problems=problems, hint="Correct each of these."
            )
        return self._compiled_class()(
            self,
            self._blueprint(),
            checkpointer=checkpointer,
            cache=cache,
            store=store,
            breaks_before=before,
            breaks_after=after,
            name=name,
            debug=debug,
            ignore_extra=extra == "ignore",
        )

    def _compiled_class(self) -> type[CompiledStateGraph[StateT, ContextT, InputT, OutputT]]:
        """What `compile` makes."""
        from runwell.graph.compiled import CompiledStateGraph

        return CompiledStateGraph

    def _blueprint(self) -> Blueprint:
        channels: dict[str, Any] = {}
        for schema in reversed(self.schemas):
            for key, channel in schema.channels.items():
                if key not in channels or channel.reducer is not None or schema is self.schema:
                    channels[key] = channel
        edges: dict[str, tuple[str, ...]] = {}
        for start, end in self.edges:
            if end not in edges.get(start, ()):
                edges[start] = (*edges.get(start, ()), end)
        fleeting = frozenset(name for name, channel in channels.items() if channel.fleeting)
        return Blueprint(channels, edges, tuple(self.joins), frozenset(self.deferred), fleeting)

    def _breaks(self, asked: Sequence[str] | str | None, problems: list[str]) -> frozenset[str]:
        names = list(self.nodes) if asked == "*" else [asked] if isinstance(asked, str) else list(asked or ())
        for name in names:
            if name not in self.nodes:
                problems.append(f"a breakpoint names {name!r}, which is not a node{nearest(name, self.nodes)}")
        return frozenset(names)

    @property
    def conditional(self) -> list[tuple[str, Branch]]:
        """All conditional edges, each with the node that it starts at."""
        every = [(source, branch) for source, branches in self.branches.items() for branch in branches]
        return [*every, *self.joint.items()]


def _policies_of(name: str, retry: Any, cache: Any, timeout: Any, handler: Any) -> dict[str, Any]:
    """A node's policies, checked, under the names that the node has them by."""
    retries = () if retry is None else tuple(retry) if isinstance(retry, (list, tuple)) else (retry,)
    for policy in retries:
        _one_of(name, "retry_policy", policy, RetryPolicy)
    return {
        "retry": retries,
        "cache": _one_of(name, "cache_policy", cache, CachePolicy),
        "timeout": TimeoutPolicy.of(timeout),
        "handler": None if handler is None else Handler.of(name, handler),
    }


def _destinations(name: str, given: Any) -> dict[str, str]:
    """Where a node's jumps may lead, each with its label."""
    if isinstance(given, str):
        return {given: given}
    if isinstance(given, Mapping):
        return dict(given)
    if not isinstance(given, (list, tuple, set, frozenset)) or not all(isinstance(each, str) for each in given):
        raise GraphError(
            f"Node {name!r} got destinations={given!r:.200}.",
            hint="Give names of nodes, or a dict from a name to the label of its edge.",
        )
    return dict.fromkeys(given, "")


def _one_of(name: str, keyword: str, given: Any, kind: type) -> Any:
    if given is not None and not isinstance(given, kind):
        raise GraphError(f"Node {name!r} got {keyword}={given!r}.", hint=f"Give a {kind.__name__}(...).")
    return given
