"""What a run has used of its budget, counted while it runs and shared with the agents that it calls."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from runwell.agents.limits import LIMITS, Budget
from runwell.errors import BudgetExceeded, InvalidInput

__all__ = ["Meter"]

AMOUNTS = ("model_calls", "tool_calls", "tokens", "cost")
"""What is counted."""


_counting = threading.Lock()
"""Held while amounts are looked at and added. One for all: a lock for each run would take more room than its amounts,
and none is held for longer than some additions."""


def _forked() -> None:
    """A forked child may have the lock as another thread of the parent held it."""
    global _counting
    _counting = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forked)


class Meter:
    """`runtime.budget` in nodes, hooks and tools of an agent.

    `spent` is what the run has used so far and `left(kind)` what it may still use, both with everything inside it: its
    middleware's calls of models, its tools', other agents'. It may be read from any thread.
    """

    # A run has a meter with its budget, each task of it a part without one: what the task adds is saved with its
    # result. A child's meter hangs on the part of the task that called it. The amounts are attributes and not a dict,
    # which would take three times the room.
    __slots__ = ("budget", "inside", "name", "parent", "priced", "timed", "began", *AMOUNTS)

    def __init__(
        self,
        budget: Budget | None,
        parent: Meter | None = None,
        used: Mapping[str, Any] | None = None,
        name: str = "agent",
        *,
        told: bool = False,
    ) -> None:
        """`used` is what the run had used before it goes on; unless `told`, those around it do not know of that."""
        self.budget = budget
        self.parent = parent
        self.name = name
        self.model_calls = 0
        self.tool_calls = 0
        self.tokens = 0
        self.cost = 0.0
        self.began: float | None = None
        self.timed: bool = False if parent is None else parent.timed
        """Whether a limit of time bounds it."""
        self.priced: bool = False if parent is None else parent.priced
        if budget is not None:
            self.timed = self.timed or budget.seconds is not None
            self.priced = self.priced or bool(budget.cost or budget.prices)
        self.inside: dict[str, Any] | None = None
        if used:
            for kind in (*AMOUNTS, "began"):
                if kind in used:
                    setattr(self, kind, used[kind])
            if parent is not None and not told:
                with _counting:
                    for kind in AMOUNTS:
                        if kind in used:
                            parent._add(kind, used[kind])

    @property
    def used(self) -> dict[str, Any]:
        """What the run or the task used itself, and when it began if that counts."""
        used: dict[str, Any] = {}
        if self.model_calls:
            used["model_calls"] = self.model_calls
        if self.tool_calls:
            used["tool_calls"] = self.tool_calls
        if self.tokens:
            used["tokens"] = self.tokens
        if self.cost:
            used["cost"] = self.cost
        if self.began is not None:
            used["began"] = self.began
        return used

    @property
    def limited(self) -> Iterator[Meter]:
        """The meters with a budget, from the innermost out."""
        each: Meter | None = self
        while each is not None:
            if each.budget is not None:
                yield each
            each = each.parent

    # -- for programs

    @property
    def run(self) -> Meter:
        """The meter of the run that this is a part of."""
        found = self
        while found.budget is None and found.parent is not None:
            found = found.parent
        return found

    @property
    def spent(self) -> dict[str, float]:
        """What the run has used: `model_calls`, `tool_calls`, `tokens`; where they are limited `cost` and `seconds`."""
        run = self.run
        with _counting:
            used = run.used
        began = used.pop("began", None)
        if began is not None:
            import time

            used["seconds"] = time.time() - began
        return {"model_calls": 0, "tool_calls": 0, "tokens": 0, **used}

    def left(self, kind: str) -> float | None:
        """What may still be used of `kind`, by this run's budget and those around it; None where nothing limits it."""
        if kind not in LIMITS:
            raise InvalidInput(f"A budget has no {kind!r}.", hint=f"It has {', '.join(LIMITS)}.")
        rest: list[float] = []
        for each in self.limited:
            limit = getattr(each.budget, kind)
            if limit is not None:
                rest.append(max(0, limit - each.spent.get(kind, 0)))
        return min(rest, default=None)

    def __repr__(self) -> str:
        return f"Meter({self.run.name!r}, spent={self.spent!r}, limits={self.run.budget!r})"

    # -- for the engine

    def part(self, used: Mapping[str, Any] | None = None) -> Meter:
        """What one task uses. `used` is what it had before it goes on, which this run knows of."""
        return Meter(None, self, used, self.name, told=True)

    def run_inside(self, used: Mapping[str, Any] | None) -> Meter:
        """What a run uses that the task calls and that has no budget; `used` before it goes on."""
        return Meter(None, self, used, self.name)

    def kept_inside(self, used: Mapping[str, Any]) -> None:
        """A run that the task called is left, and keeps so much itself: it says so if the task calls it again."""
        with _counting:
            inside = self.inside = {} if self.inside is None else self.inside
            for kind, amount in used.items():
                if kind != "began":
                    inside[kind] = inside.get(kind, 0) + amount

    def split(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What is to be kept of a task that has not ended: what it used itself, and what runs did that it called."""
        with _counting:
            inside = dict(self.inside or ())
            return {kind: amount - inside.get(kind, 0) for kind, amount in self.used.items() if kind != "began"}, inside

    def begin(self, now: float) -> None:
        """The run's time counts from here, unless it began earlier."""
        run = self.run
        if run.budget is not None and run.budget.seconds is not None and run.began is None:
            self.began = run.began = now

    def reached(self, now: float | None = None) -> BudgetExceeded | None:
        """The limit that forbids one more model call: this run's, or that of one around it."""
        each: Meter | None = self
        while each is not None:
            budget = each.budget
            if budget is not None:
                for kind, most in budget._counted:
                    if getattr(each, kind) >= most:
                        return each._over(budget, now)
                if now is not None and budget.seconds is not None and (over := each._over(budget, now)) is not None:
                    return over
            each = each.parent
        return None

    def _over(self, budget: Budget, now: float | None) -> BudgetExceeded | None:
        over = budget.reached(self.used, now, self.name)
        if over is not None:
            over.owner = self
        return over

    def bounds(self, over: BudgetExceeded) -> bool:
        """Whether the limit that was reached is this run's or that of one around it, and not of one inside."""
        return any(each is over.owner for each in self.limited)

    def before(self, model: Any) -> None:
        """A call of a model: counted, or refused because of a limit."""
        if self.priced:
            self._require_price(model)
        with _counting:
            over = self.reached()
            if over is not None:
                raise over
            self._add_calls(1, 0)

    def after(self, model: Any, usage: Any) -> None:
        """Its answer came, with this usage."""
        if not usage:
            return
        cost = None
        if self.priced:
            from runwell.models.prices import price_of

            cost = price_of(usage, *_named(model), self._prices(), host=_host(model))
        tokens = usage.get("total_tokens") or 0
        with _counting:
            if tokens:
                self._add("tokens", tokens)
            if cost:
                self._add("cost", cost)

    def failed(self) -> None:
        """It gave no answer."""
        with _counting:
            self._add_calls(-1, 0)

    def take_tool_calls(self, wanted: int) -> tuple[int, int | None]:
        """How many of so many calls may run, which are counted, and the limit if it is not all of them."""
        with _counting:
            allowed, limit = wanted, None
            each: Meter | None = self
            while each is not None:
                most = each.budget.tool_calls if each.budget is not None else None
                if most is not None and most - each.tool_calls < allowed:
                    allowed, limit = max(0, most - each.tool_calls), most
                each = each.parent
            self._add_calls(0, allowed)
        return allowed, limit

    def _add_calls(self, models: int, tools: int) -> None:
        each: Meter | None = self
        while each is not None:
            each.model_calls += models
            each.tool_calls += tools
            each = each.parent

    def _add(self, kind: str, amount: float) -> None:
        each: Meter | None = self
        while each is not None:
            setattr(each, kind, getattr(each, kind) + amount)
            each = each.parent

    def _prices(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for each in self.limited:
            if each.budget is not None and each.budget.prices:
                found = {**each.budget.prices, **found}
        return found

    def _require_price(self, model: Any) -> None:
        from runwell.models.prices import has_price

        if any(each.budget is not None and each.budget.cost is not None for each in self.limited):
            provider, name = _named(model)
            if not has_price(provider, name, self._prices(), host=_host(model)):
                raise _no_price(provider, name)


def _named(model: Any) -> tuple[str | None, str | None]:
    """A model's provider and name."""
    inner = _innermost(model)
    return getattr(inner, "provider", None), getattr(inner, "model", None)


def _host(model: Any) -> str | None:
    """Where its server stands, if that is not the program's own."""
    return getattr(_innermost(model), "model_host", None)


def _innermost(model: Any) -> Any:
    while not hasattr(model, "provider") and hasattr(model, "bound"):
        model = model.bound
    return model


def _no_price(provider: str | None, name: str | None) -> InvalidInput:
    return InvalidInput(
        f"The budget limits the cost, and nobody knows what model {name!r} of {provider!r} costs.",
        hint=f"Say it: Budget(cost=..., prices={{{name!r}: Price(input=2.5, output=10)}}), in dollars for a million "
        "tokens.",
    )
