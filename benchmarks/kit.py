"""What every workload shares: the registry of cells, the timers and the memory probe."""

from __future__ import annotations

import asyncio
import fnmatch
import gc
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

SCALE = float(os.environ.get("BENCH_SCALE", "1"))

wall_clock = time.perf_counter
clock = time.process_time if os.environ.get("BENCH_CLOCK") == "cpu" else wall_clock
"""What instant operations are timed by. Cells with a delay in them always use `wall_clock`."""


class NotCovered(Exception):
    """Raised by an adapter for a task its framework has no counterpart for."""


@dataclass(frozen=True)
class Cell:
    """One number the benchmark reports, and the function that measures it for an adapter."""

    name: str
    unit: str
    measure: Callable[[Any], float]
    higher_is_better: bool
    has_ratio: bool
    has_floor: bool
    """Whether the hand-written floor does anything that a ratio to it could tell of."""


CELLS: dict[str, Cell] = {}


def cell(name: str, unit: str, *, higher_is_better: bool = False, has_ratio: bool = True, has_floor: bool = True):
    """Register the decorated function as the measurement behind the cell `name`."""

    def register(measure: Callable[[Any], float]) -> Callable[[Any], float]:
        CELLS[name] = Cell(name, unit, measure, higher_is_better, has_ratio, has_floor)
        return measure

    return register


def chosen(pattern: str) -> list[Cell]:
    """The registered cells whose names match any of these comma-separated globs."""
    return [cell for cell in CELLS.values() if any(fnmatch.fnmatch(cell.name, glob) for glob in pattern.split(","))]


def sized(count: int, *, least: int = 1) -> int:
    """`count`, shrunk by --scale so that a smoke run stays short."""
    return max(least, int(count * SCALE))


def seconds(operation: Callable[[], Any], clock: Callable[[], float] = clock) -> float:
    start = clock()
    operation()
    return clock() - start


def per_call(
    operation: Callable[[], Any], *, budget: float = 0.6, warm: bool = True, clock: Callable[[], float] = clock
) -> float:
    """Median seconds per call. Short operations are timed in groups, long ones a few times."""
    if warm:
        operation()
    gc.collect()
    once = seconds(operation, clock)
    group = max(1, int(budget / 9 / max(once, 1e-9)))
    group = min(group, 20_000)
    samples = [once] if group == 1 else []
    while len(samples) < 9 and (not samples or sum(samples) * group + once < budget):
        start = clock()
        for _ in range(group):
            operation()
        samples.append((clock() - start) / group)
    return statistics.median(samples)


def per_await(
    operation: Callable[[], Awaitable[Any]], *, budget: float = 0.6, clock: Callable[[], float] = clock
) -> float:
    """`per_call` for a coroutine function, all of it inside one event loop."""

    async def sample() -> float:
        await operation()
        gc.collect()
        start = clock()
        await operation()
        once = clock() - start
        group = min(20_000, max(1, int(budget / 9 / max(once, 1e-9))))
        samples = [once] if group == 1 else []
        while len(samples) < 9 and (not samples or sum(samples) * group + once < budget):
            start = clock()
            for _ in range(group):
                await operation()
            samples.append((clock() - start) / group)
        return statistics.median(samples)

    return asyncio.run(sample())


def expect(actual: Any, wanted: Any) -> None:
    """Stop an adapter that is fast because it does something else."""
    if actual != wanted:
        raise AssertionError(f"expected {wanted!r:.80}, got {actual!r:.80}")


def resident_bytes() -> int:
    """This process's resident memory now."""
    try:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError as missing:
        raise NotCovered("resident memory is read from /proc, which this system lacks") from missing
