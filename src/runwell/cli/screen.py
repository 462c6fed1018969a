"""How the command speaks: to a person on a terminal, or as JSON to a script."""

from __future__ import annotations

import json
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

__all__ = ["Fetching", "err", "out", "print_json", "short"]

out = Console(highlight=False, soft_wrap=True)
"""What was asked for."""
err = Console(stderr=True, highlight=False, soft_wrap=True)
"""What is said beside it."""


def print_json(value: Any) -> None:
    """One JSON value on standard output, for scripts."""
    print(json.dumps(value, ensure_ascii=False, default=_plain, indent=2))


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json")
    fields = getattr(value, "__dataclass_fields__", None)
    return {name: getattr(value, name) for name in fields} if fields else str(value)


def short(value: Any, width: int = 160) -> str:
    """A value in one line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return text if len(text) <= width else f"{text[: width - 1]}…"


class Fetching:
    """A progress bar for a fetch: `with Fetching("…") as bar: fetch(name, bar)`."""

    def __init__(self, label: str) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
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
