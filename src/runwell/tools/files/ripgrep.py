"""ripgrep as a sieve: which of these files hold a text. What they hold is read by ourselves."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["find_ripgrep", "sieve"]

BATCH_BYTES = 100_000
"""Names in one command line. Chosen: below the 128 KiB that any system takes."""


def find_ripgrep() -> str | None:
    """Where it is: on PATH, or beside the interpreter (where its wheel puts it)."""
    return shutil.which("rg") or shutil.which("rg", path=str(Path(sys.executable).parent))


def sieve(binary: str, root: Path, paths: Sequence[str], literal: str, cased: bool, seconds: float) -> set[str]:
    """Those of `paths` (from `root` on) that may hold the text: all that do, and where it cannot tell, all."""
    import subprocess
    import time

    line = [
        *(
            binary,
            "--no-config",
            "--files-with-matches",
            "--null",
            "--text",
            "--no-ignore",
            "--hidden",
            "--no-messages",
        ),
        *("--encoding", "none", "--fixed-strings", "--case-sensitive" if cased else "--ignore-case"),
        *("--regexp", literal, "--"),
    ]
    deadline = time.monotonic() + seconds
    found: set[str] = set()
    for batch in _batches(paths):
        try:
            done = subprocess.run(
                [*line, *(f"./{path}" for path in batch)],
                cwd=root,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=max(0.01, deadline - time.monotonic()),
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            found.update(batch)
            continue
        if done.returncode in (0, 1):
            found.update(os.fsdecode(name)[2:] for name in done.stdout.split(b"\0") if name)
        else:
            found.update(batch)
    return found


def _batches(paths: Sequence[str]) -> list[list[str]]:
    batches: list[list[str]] = []
    size = BATCH_BYTES
    for path in paths:
        size += len(os.fsencode(path)) + 3
        if size > BATCH_BYTES:
            batches.append([])
            size = 0
        batches[-1].append(path)
    return batches
