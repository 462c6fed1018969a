"""What a call of a graph may say beside its input and config."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from runwell.errors import InvalidInput, nearest
from runwell.graph.streaming import MessagesHandler, StreamMode, check_modes, shaped
from runwell.ports.control import RunControl
from runwell.ports.runtime import Principal

if TYPE_CHECKING:
    from runwell.graph.compiled import CompiledStateGraph
    from runwell.graph.engine import Run

__all__ = ["Durability", "RunOptions", "StreamOptions", "check_invoke", "reading", "take_options"]

Durability = Literal["sync", "async", "exit"]
DURABILITY = get_args(Durability)
ON_BUSY = ("raise", "wait", "take")


class RunOptions(TypedDict, total=False):
    """What a call may say beside input and config.

    `context` is what nodes find in `runtime.context`. `interrupt_before`/`interrupt_after` pause at these nodes in
    this run ("*": all). `durability`: `"sync"` (default) saves a step before the next begins, `"async"` while the
    next runs, `"exit"` only at the end. `answer_interrupts(interrupt)` answers questions in process instead of
    pausing. `control` can stop the run between steps; `principal` says on whose behalf it acts. `on_busy` is for a
    thread that another run has: `"raise"` (default) raises ThreadBusy before anything runs, `"wait"` waits for its
    end, `"take"` takes the thread over, and that run stops at its next save.
    """

    context: Any
    control: RunControl | None
    principal: Principal | None
    interrupt_before: Sequence[str] | str
    interrupt_after: Sequence[str] | str
    durability: Durability
    answer_interrupts: Callable[[Any], Any]
    on_busy: Literal["raise", "wait", "take"]


class StreamOptions(RunOptions, total=False):
    """`stream_mode` (default `"updates"`) is one mode, whose chunks are given, or a list, which gives (mode, chunk).

    `"updates"` gives `{node: its update}`, `"values"` the state after each step, `"messages"` (chunk, metadata) as
    models speak, `"custom"` what nodes write, `"tasks"` how each task begins and ends, `"checkpoints"` what was saved,
    `"debug"` the last two with step and time. `subgraphs=True` also streams what happens in nested graphs, and puts
    their path in front: (path, chunk) or (path, mode, chunk).
    """

    stream_mode: StreamMode | Sequence[StreamMode]
    subgraphs: bool


OPTIONS = frozenset({*StreamOptions.__annotations__, "version"})


def take_options(graph: CompiledStateGraph, run: Run, options: Mapping[str, Any]) -> None:
    """What a call says beside input and config, into its run; the context goes into its runtime."""
    for name in options:
        if name not in OPTIONS:
            raise InvalidInput(
                f"{graph.name!r} was called with an unknown option {name!r}{nearest(name, OPTIONS)}.",
                hint=f"Options are {sorted(OPTIONS)}; the rest goes into config.",
            )
    get = options.get
    if "stream_mode" in options:
        run.modes = frozenset(check_modes(options["stream_mode"]))
        run.subgraphs = get("subgraphs", False)
        if "messages" in run.modes:
            run.messages = MessagesHandler(lambda item: None, run.subgraphs)
    if durability := get("durability"):
        if durability not in DURABILITY:
            raise InvalidInput(f"durability is {durability!r}.", hint=f"It is one of {DURABILITY}.")
        run.durability = durability
    if on_busy := get("on_busy"):
        if on_busy not in ON_BUSY:
            raise InvalidInput(f"on_busy is {on_busy!r}.", hint=f"It is one of {ON_BUSY}.")
        run.on_busy = on_busy
    run.answer_in_process, run.control = get("answer_interrupts"), get("control")
    for option, kind in (("control", RunControl), ("principal", Principal)):
        if get(option) is not None and not isinstance(options[option], kind):
            raise InvalidInput(f"{option} is {options[option]!r:.200}.", hint=f"Pass a {kind.__name__}.")
    before, after = get("interrupt_before"), get("interrupt_after")
    if before is not None:
        run.breaks_before = _breaks(graph, before)
    if after is not None:
        run.breaks_after = _breaks(graph, after)


def _breaks(graph: CompiledStateGraph, asked: Sequence[str] | str) -> frozenset[str]:
    problems: list[str] = []
    found = graph.builder._breaks(asked, problems)
    if problems:
        raise InvalidInput("; ".join(problems), hint=f"Nodes are {sorted(graph.nodes)}.")
    return found


def _check_version(version: str) -> None:
    if version not in ("v1", "v2"):
        raise InvalidInput(f"version is {version!r}.", hint='It is "v1" (default) or "v2".')


def check_invoke(version: str, options: Mapping[str, Any]) -> None:
    _check_version(version)
    for name in ("stream_mode", "subgraphs") if options else ():
        if options.get(name) not in (None, False, "values"):
            raise InvalidInput(
                f"invoke() got {name}={options[name]!r:.100}.",
                hint=f"invoke() gives the state at the end; stream(..., {name}=...) gives what happens on the way.",
            )


def reading(options: StreamOptions, version: str) -> tuple[tuple[str, ...], Callable[[Any], Any]]:
    """The modes asked for, and what gives an emitted item the form the reader expects."""
    asked = options.setdefault("stream_mode", "updates")
    modes, several, subgraphs = check_modes(asked), not isinstance(asked, str), options.get("subgraphs", False)
    _check_version(version)
    parts = version == "v2"
    if not (several or subgraphs or parts):
        return modes, itemgetter(2)
    return modes, lambda item: shaped(item, several, subgraphs, parts)
