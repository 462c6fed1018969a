"""Where the `runwell` command starts. Needs nothing but the standard library itself."""

from __future__ import annotations

import sys

__all__ = ["main"]

NEEDED = ("typer", "rich", "click")


def main() -> None:
    """Run the command; ends the process with its exit status."""
    try:
        from runwell.cli.app import run
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in NEEDED:
            raise
        print(
            f"The runwell command needs {missing}, which is not installed.\n"
            '  pip install "runwell[cli]"      (for the demo: pip install "runwell[cli,local,retrieval]")',
            file=sys.stderr,
        )
        sys.exit(1)
    sys.exit(run())
