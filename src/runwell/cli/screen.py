"""How the command speaks: to a person on a terminal, or as JSON to a script.

What people wrote, models said or tools gave is printed as it is, never read as markup, and without the control
characters that could move the cursor or hide a part of it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from runwell.errors import RunwellError

__all__ = [
    "Fetching",
    "err",
    "error_facts",
    "jsonable",
    "one_line",
    "out",
    "print_error",
    "print_json",
    "safe",
    "short",
]

out = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
"""What was asked for."""
err = Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)
"""What is said beside it."""

# Control characters but newline and tab; and those that turn the direction of text, which make it read otherwise.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def safe(text: str) -> str:
    """The text with characters that would steer the terminal written out, as `\\x1b`."""
    return _UNSAFE.sub(lambda hit: repr(hit.group())[1:-1], text.replace("\r\n", "\n"))


def one_line(value: Any) -> str:
    """A value in one line, whole."""
    text = value if isinstance(value, str) else json.dumps(jsonable(value), ensure_ascii=False)
    return safe(" ".join(text.split()))


def short(value: Any, width: int = 160) -> str:
    """A value in one line, cut at `width`."""
    text = one_line(value)
    return text if len(text) <= width else f"{text[: width - 1]}…"


def print_json(value: Any, *, line: bool = False) -> None:
    """One JSON value on standard output, for scripts; in one `line` where several come after each other."""
    print(json.dumps(jsonable(value), ensure_ascii=False, indent=None if line else 2, allow_nan=False), flush=True)


def jsonable(value: Any) -> Any:
    """The value as JSON can say it: models and dataclasses as their fields, what has no form as its text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [jsonable(item) for item in value]
    dump = None if isinstance(value, type) else getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: jsonable(getattr(value, field.name)) for field in fields(value)}
    return str(value)


def print_error(error: BaseException) -> None:
    """What went wrong, in a few lines: what happened, its code, what to do next."""
    if not isinstance(error, RunwellError):
        err.print(f"{type(error).__name__}: {safe(str(error))}", style="bold red")
        return
    err.print(safe(error.message), style="bold red", end=" ")
    err.print(f"[{error.code}]", style="dim")
    if error.hint:
        err.print(f"  {safe(error.hint)}")


def error_facts(error: BaseException) -> dict[str, Any]:
    """The same for a script."""
    if not isinstance(error, RunwellError):
        return {"type": type(error).__name__, "code": None, "message": str(error), "hint": None}
    return {"type": type(error).__name__, "code": error.code, "message": error.message, "hint": error.hint}


class Fetching:
    """A progress bar for a fetch: `with Fetching("…") as bar: fetch(name, bar)`."""

    def __init__(self, label: str) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=err,
            transient=False,
        )
        self._label = label
        self._task: Any = None

    def __call__(self, done: int, total: int) -> None:
        if self._task is None:
            self._task = self._progress.add_task(self._label, total=total)
        self._progress.update(self._task, completed=done, total=total)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._progress.stop()
