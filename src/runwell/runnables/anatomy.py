"""What a runnable is made of, and what its parts say of themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from functools import partial
from types import FunctionType
from typing import Any

from runwell.runnables.configurable_spec import ConfigurableFieldSpec, unique_specs
from runwell.runnables.runnable import Runnable

__all__ = ["choices_of", "config_specs", "parts_of", "prompts_of", "runnables_in", "walk"]


def parts_of(runnable: Any) -> Iterator[tuple[str | None, Runnable[Any, Any]]]:
    """The runnables it is directly made of, each with the label that leads to it, if there is one."""
    steps = getattr(runnable, "steps", None)
    if isinstance(steps, list):
        yield from ((None, step) for step in steps)
    elif isinstance(steps, Mapping):
        yield from steps.items()
    branches = getattr(runnable, "branches", None)
    if isinstance(branches, list):
        for number, (condition, step) in enumerate(branches, 1):
            yield f"condition {number}", condition
            yield f"branch {number}", step
        yield "default", runnable.default
    for name in ("bound", "runnable", "mapper", "source"):
        inner = getattr(runnable, name, None) if not name.startswith("_") else None
        if isinstance(inner, Runnable) and name in getattr(runnable, "__dict__", {}):
            yield None, inner
    fallbacks = getattr(runnable, "fallbacks", None)
    if isinstance(fallbacks, list):
        yield from ((f"fallback {number}", each) for number, each in enumerate(fallbacks, 1))
    for name in ("alternatives", "runnables"):
        choices = runnable.__dict__.get(name) if hasattr(runnable, "__dict__") else None
        if isinstance(choices, Mapping):
            yield from ((key, each) for key, each in choices.items() if isinstance(each, Runnable))
    function = runnable.__dict__.get("func") if hasattr(runnable, "__dict__") else None
    if function is not None:
        yield from runnables_in(function)


def choices_of(runnable: Any) -> Iterator[tuple[str | None, Runnable[Any, Any]]]:
    """The runnables of which a call of it calls one, each with what it is chosen by; a single one without a label is
    always called."""
    own = vars(runnable) if hasattr(runnable, "__dict__") else {}
    if isinstance(own.get("branches"), list):
        yield from ((condition.get_name(), step) for condition, step in runnable.branches)
        yield "default", runnable.default
    elif isinstance(own.get("runnables"), Mapping):
        yield from own["runnables"].items()
    elif isinstance(own.get("fallbacks"), list):
        yield "first", runnable.runnable
        yield from ((f"fallback {number}", each) for number, each in enumerate(runnable.fallbacks, 1))
    elif isinstance(own.get("alternatives"), Mapping):
        yield own["default_key"], runnable.bound
        yield from ((key, each) for key, each in own["alternatives"].items() if isinstance(each, Runnable))
    elif isinstance(own.get("bound"), Runnable):
        yield None, own["bound"]


def runnables_in(function: Any) -> Iterator[tuple[str, Runnable[Any, Any]]]:
    """The runnables that a function refers to by a name of its own surroundings, and so may call."""
    target = function.func if isinstance(function, partial) else function
    target = inspect.unwrap(getattr(target, "__func__", target))
    if not isinstance(target, FunctionType):
        return
    code = target.__code__
    known: dict[str, Any] = {name: target.__globals__[name] for name in code.co_names if name in target.__globals__}
    for name, cell in zip(code.co_freevars, target.__closure__ or (), strict=True):
        try:
            known[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    for name, value in known.items():
        if isinstance(value, Runnable):
            yield name, value


def walk(runnable: Any) -> Iterator[Runnable[Any, Any]]:
    """It and everything it is made of, each once."""
    seen: set[int] = set()
    waiting = [runnable]
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        waiting.extend(reversed([inner for _, inner in parts_of(part)]))


def prompts_of(runnable: Any) -> list[Any]:
    """The prompts in it, in the order they stand."""
    return [part for part in walk(runnable) if part.run_kind == "prompt"]


def config_specs(runnable: Any) -> list[ConfigurableFieldSpec]:
    """What of `configurable` it and its parts read."""
    specs: list[ConfigurableFieldSpec] = []
    seen: set[int] = set()

    def visit(part: Any) -> None:
        if id(part) in seen:
            return
        seen.add(id(part))
        own = getattr(type(part), "_own_specs", None)
        if own is not None:
            specs.extend(own(part))
        choices = part.__dict__.get("alternatives") if hasattr(part, "__dict__") else None
        for _, inner in parts_of(part):
            if choices is None:  # alternatives tell of theirs themselves, with the prefix
                visit(inner)

    visit(runnable)
    return unique_specs(specs)
