"""Where a node's conditional edges lead. Engine code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runwell.drivers.colour import in_place, is_coroutine
from runwell.drivers.sync import given
from runwell.effects import Call, Callee, Flow
from runwell.errors import (
    InvalidUpdateError,
    nearest,
)
from runwell.graph.node import Branch, Node
from runwell.graph.plan import JUMP, ROUTE, Write, apply_step, changed_values, routes_of
from runwell.graph.run_state import RunState
from runwell.graph.updates import no_task
from runwell.ports.command import END, Send
from runwell.ports.runtime import Runtime

__all__ = ["Routing"]


class Routing(RunState):
    """The part of a run that asks conditional edges."""

    __slots__ = ()

    async def routed(self, node: Node, writes: list[Write], runtime: Runtime[Any]) -> list[Write]:
        """Writes of a node with where its conditional edges lead."""
        if node.branches and (seen := self.seen_after(node, writes)) is not None:
            await self.ask(node.name, node.branches, seen, runtime, writes)
        return writes

    def seen_after(self, node: Node, writes: list[Write]) -> dict[str, Any] | None:
        """The state that a node's conditional edges look at; None if it jumped."""
        if not writes:
            return self.values
        for name, _ in writes:
            if name == JUMP:
                return None
        changes = apply_step(self.graph.blueprint, self.values, [(node.name, writes)])
        seen = changed_values(self.values, changes)
        self.applied = (writes, changes, seen)
        return seen

    async def branch_writes(self, source: str, values: dict[str, Any], runtime: Runtime[Any]) -> list[Write]:
        """Where the conditional edges of a node, or of START, lead in this state."""
        writes: list[Write] = []
        await self.ask(source, self.graph.branches.get(source, ()), values, runtime, writes)
        return writes

    async def ask(
        self,
        source: str,
        branches: Sequence[Branch],
        values: dict[str, Any],
        runtime: Runtime[Any],
        writes: list[Write],
    ) -> None:
        """Add to `writes` where conditional edges lead."""
        graph = self.graph
        for branch in branches:
            if branch.flow is not None:
                chosen = branch.flow(values)
                if is_coroutine(chosen):
                    chosen = await chosen
            else:
                called = branch.callee if not branch.wants else branch.bound(runtime)
                state = self.view(graph.schema, values)
                if called.aio is None and called.sync is not None:
                    chosen = in_place(called.sync, state)
                    if is_coroutine(chosen):
                        chosen = await Call(Callee(None, given), chosen)
                else:
                    chosen = await Call(called, state)
            if type(chosen) is str:  # the usual case, in short
                target = chosen if branch.ends is None else branch.ends.get(chosen)
                if target in graph.nodes:
                    writes.append((ROUTE, target))
                    continue
            writes.extend((ROUTE, target) for target in self._chosen(source, branch, chosen))

    def _chosen(self, source: str, branch: Branch, chosen: Any) -> list[str | Send]:
        targets: list[str | Send] = []
        nodes = self.graph.nodes
        for one in chosen if isinstance(chosen, (list, tuple)) else (chosen,):
            if isinstance(one, Send):
                if one.node not in nodes:
                    raise no_task(f"The conditional edge {branch.name!r} from {source!r}", one.node, nodes)
                targets.append(one)
                continue
            if one is None and branch.ends is None:
                raise InvalidUpdateError(
                    f"The conditional edge {branch.name!r} from {source!r} chose None.",
                    hint="Return a node, a Send, a list of these, or END to go nowhere.",
                )
            target = one if branch.ends is None else branch.ends.get(one)
            if target is None:
                raise InvalidUpdateError(
                    f"The conditional edge {branch.name!r} from {source!r} chose {one!r}, not in its path map.",
                    hint=f"It maps {list(branch.ends or ())}; add the case or return one of them.",
                )
            if target != END and target not in nodes:
                raise InvalidUpdateError(
                    f"The conditional edge {branch.name!r} from {source!r} chose {target!r}, which is not a node"
                    f"{nearest(str(target), nodes)}.",
                    hint=f"Nodes are {sorted(nodes)}, and END.",
                )
            targets.append(target)
        return targets

    async def with_joint_routes(self, done: list[tuple[str, list[Write]]]) -> list[tuple[str, list[Write]]]:
        """`done`, with where conditional edges lead that look at the state after the whole step.

        They are asked once for all of a node's tasks.
        """
        joint = self.graph.joint
        if not joint:
            return done
        if len(done) == 1:
            node, writes = done[0]
            return [(node, [*writes, *await self._joint_route(node, writes)])] if node in joint else done
        routes: list[tuple[str, list[Write]]] = []
        for node in dict.fromkeys(name for name, _ in done):
            if node in joint:
                together = [write for name, writes in done if name == node for write in writes]
                routes.append((node, await self._joint_route(node, together)))
        return [*done, *routes]

    async def _joint_route(self, node: str, writes: list[Write]) -> list[Write]:
        """Where a node's conditional edge leads, if none of its tasks jumped."""
        jumps = [target for name, target in writes if name == JUMP]
        if jumps:
            if any(jump != jumps[0] for jump in jumps):
                raise InvalidUpdateError(
                    f"Tasks of node {node!r} jump to different places in one step: {jumps!r:.300}.",
                    hint="Let only one of them jump, or all to the same place.",
                )
            return []
        return [(ROUTE, target) for target in await self._joint(node, self.graph.joint[node])]

    async def _joint(self, node: str, branch: Branch) -> Sequence[str | Send]:
        """Where a conditional edge leads that looks at the state after the whole step."""
        if branch.flow is None:
            chosen = await Call(branch.callee, self.view(self.graph.schema, self.values))
        else:
            chosen = branch.flow(self.values)
            if is_coroutine(chosen):
                chosen = await chosen
        return self._chosen(node, branch, chosen)

    def led(self, node: str, writes: list[Write]) -> Sequence[str | Send] | Flow[Sequence[str | Send]]:
        """Where a task that ended alone leads, by its jumps, its edges and what its conditional edges choose; a
        coroutine that gives it, where one of these has to be awaited."""
        targets, by_edges = routes_of(self.graph.blueprint, node, writes)
        branch = self.graph.joint.get(node)
        if branch is None:
            return targets
        if targets or branch.rule is None:
            return self._led(node, branch, targets, by_edges, writes)
        chosen = branch.rule(self.values)
        if type(chosen) is str:  # the usual case, in short
            target = chosen if branch.ends is None else branch.ends.get(chosen)
            if target in self.graph.nodes:
                return (target,)
        elif type(chosen) is Send and chosen.node in self.graph.nodes:
            return (chosen,)
        return self._chosen(node, branch, chosen)

    async def _led(
        self, node: str, branch: Branch, targets: Sequence[str | Send], by_edges: bool, writes: list[Write]
    ) -> Sequence[str | Send]:
        if not by_edges:
            await self._joint_route(node, writes)  # refuses jumps to different places
            return targets
        return [*targets, *await self._joint(node, branch)]
