"""Writes the table in docs/providers.md from what the adapters declare: `make docs`, or --check to compare only."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from runwell.models.init import _OPENAI_LIKE, _OURS
from runwell.providers.vendor_model import VendorModel

PAGE = Path(__file__).resolve().parent.parent / "docs" / "providers.md"
LIKE, LIKE_END = "<!-- servers like OpenAI: made by `make docs` -->\n", "<!-- end of the servers -->\n"
BEGIN, END = "<!-- what each can do: made by `make docs` -->\n", "<!-- end -->\n"


def adapters() -> dict[str, type[VendorModel]]:
    """Prefix of `init_chat_model` → the adapter's class."""
    found = {}
    for prefix, place in sorted(_OURS.items()):
        module, _, name = place.partition(":")
        if prefix != "local":
            found[prefix] = getattr(import_module(module), name)
    return found


def table() -> str:
    """The table, a column for each adapter."""
    kinds = adapters()
    rows: list[tuple[str, list[Any]]] = [
        ("class", [f"`{kind.__name__}`" for kind in kinds.values()]),
        ("prefix", [f"`{prefix}:`" for prefix in kinds]),
        ("extra", [f"`runwell[{kind.extra}]`" for kind in kinds.values()]),
        (
            "key from",
            [
                kind.keyed_by or (f"`{kind.key_variable}`" if kind.key_variable else "none needed")
                for kind in kinds.values()
            ],
        ),
        ("goes to", [kind.default_base_url or "`azure_endpoint`" for kind in kinds.values()]),
        ('`base_url="env"` reads', [f"`{kind.url_variable}`" for kind in kinds.values()]),
        ("`tool_choice`", [", ".join(kind.tool_choices) for kind in kinds.values()]),
        ("`parallel_tool_calls=False`", [bound(kind.turns_parallel_off) for kind in kinds.values()]),
        ("strict tools", [bound(kind.strict_tools) for kind in kinds.values()]),
        ("structured output by", [", ".join(kind.structured_methods) for kind in kinds.values()]),
        ("media in a message", [", ".join(kind.media) for kind in kinds.values()]),
        ("cached tokens told", ["yes" if kind.tells_cached else "no" for kind in kinds.values()]),
        ("a system message in the middle", [kind.system_in_middle for kind in kinds.values()]),
        ("a picture in a tool's result", [kind.media_in_results for kind in kinds.values()]),
    ]
    lines = [f"| | {' | '.join(kinds)} |", f"| --- |{' --- |' * len(kinds)}"]
    lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in rows]
    return "\n".join(lines) + "\n"


def servers() -> str:
    """The table of servers that speak OpenAI's API, a row for each."""
    lines = ["| prefix, class | goes to | key from | thoughts go back | media | not taken |", f"|{' --- |' * 6}"]
    for prefix, place in sorted(_OPENAI_LIKE.items()):
        module, _, name = place.partition(":")
        kind: Any = getattr(import_module(module), name)
        key = f"`{kind.key_variable}`" + ("" if kind.needs_key else ", if any")
        refused = [f"`{argument}`" for argument in kind.refuses]
        refused += ["`parallel_tool_calls=False`"] if not kind.turns_parallel_off else []
        refused += ["strict tools"] if not kind.strict_tools else []
        refused += ["`json_schema`"] if "json_schema" not in kind.structured_methods else []
        refused += ["a named `tool_choice`"] if "a name" not in kind.tool_choices else []
        cells = [f"`{prefix}:` `{name}`", kind.default_base_url, key, kind.wants_thoughts]
        lines.append(f"| {' | '.join([*cells, ', '.join(kind.media) or 'none', ', '.join(refused)])} |")
    return "\n".join(lines) + "\n"


def bound(can: bool) -> str:
    return "yes" if can else "refused when bound"


def page() -> str:
    """The page with the table of today."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    text = f"{before}{BEGIN}\n{table()}\n{END}{after}"
    before, _, rest = text.partition(LIKE)
    _, _, after = rest.partition(LIKE_END)
    return f"{before}{LIKE}\n{servers()}\n{LIKE_END}{after}"


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    elif page() != PAGE.read_text(encoding="utf-8"):
        sys.exit("docs/providers.md is out of date: run `make docs`.")
