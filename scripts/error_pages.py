"""Writes docs/errors.md from the classes in runwell.errors: `make docs`, or --check to compare only."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

from runwell import errors

PAGE = Path(__file__).resolve().parent.parent / "docs" / "errors.md"

INTRODUCTION = """\
# Errors

Every error that runwell raises on purpose is a `RunwellError` from `runwell.errors`. It has a stable `.code` (below),
and `.hint`, the next thing to do, or `None`. Catch the class by who must act:

| catch | who must act |
| --- | --- |
| `UsageError` | you: the call is wrong; nothing ran |
| `GraphError` | you: the graph's definition is wrong; found by `compile` |
| `ModelFacingError` | the model: the text goes back to it as a message |
| `OutsideError` | nobody yet, when `.retryable`: a provider or a database failed |
| `LimitError` | you, by raising a limit or doing less: `.kind`, `.value`, `.limit` |
| `EngineBug` | us: please report it |

Signals are not errors: they derive from `BaseException`, so that `except Exception` in your code lets them pass.

<!-- Everything below is made by `make docs` from src/runwell/errors.py. -->
"""


def error_classes() -> list[type[errors.RunwellError]]:
    """Every class of the tree, in order of code; one under two names comes once."""
    found = {
        value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, errors.RunwellError)
    }
    return sorted(found, key=lambda each: (each.code, each.__name__))


def names_of(each: type) -> list[str]:
    """The class's own name first, then the other names it goes by."""
    return [each.__name__, *(name for name, value in vars(errors).items() if value is each and name != each.__name__)]


def described(each: type) -> str:
    """The class's docstring as one paragraph per blank line."""
    return inspect.getdoc(each) or ""


def section(each: type[errors.RunwellError]) -> str:
    names, bases = names_of(each), [base.__name__ for base in each.__bases__]
    facts = [f"A kind of {' and '.join(f'`{base}`' for base in bases)}."]
    if len(names) > 1:
        facts.append(f"Also named {' and '.join(f'`{name}`' for name in names[1:])}.")
    if "retryable" in vars(each):
        facts.append("May pass by itself." if vars(each)["retryable"] else "Will not pass by itself.")
    return f"## {each.code}: {each.__name__}\n\n{described(each)}\n\n{' '.join(facts)}\n"


def page() -> str:
    """The whole page."""
    signals = [value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, errors.Signal)]
    parts = [INTRODUCTION, *map(section, error_classes()), "## Signals\n"]
    lines = "\n".join(f"- `{each.__name__}`: {described(each).splitlines()[0]}" for each in signals)
    return "\n".join(parts) + f"\n{lines}\n"


def main(arguments: list[str]) -> int:
    if arguments == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if arguments == ["--check"]:
        current = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
        if current != page():
            sys.stderr.write(f"{PAGE.name} is not what the classes say; run: make docs\n")
            return 1
        return 0
    sys.stderr.write("error_pages.py --write | --check\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
