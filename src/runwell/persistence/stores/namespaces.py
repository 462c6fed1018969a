"""Namespaces as databases hold them: one text, in which what lies below a namespace is one range.

Every label ends with a slash, and a slash inside a label is escaped. So a namespace is a prefix of another text exactly
when its labels are the first labels of the other: no label is ever the beginning of another one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from runwell.ports.store import ListNamespacesOp, Namespace

__all__ = ["above", "joined", "listed", "split"]

_LABEL = re.compile(r"((?:[^/\\]|\\.)*)/", re.S)
_ESCAPED = re.compile(r"\\(.)", re.S)


def joined(namespace: Sequence[str]) -> str:
    """The namespace as one text; empty for the empty one."""
    return "".join(label.replace("\\", "\\\\").replace("/", "\\/") + "/" for label in namespace)


def split(text: str) -> Namespace:
    """The namespace that was joined."""
    return tuple(_ESCAPED.sub(r"\1", hit.group(1)) for hit in _LABEL.finditer(text))


def above(prefix: str) -> str:
    """The first text above everything that begins with a joined prefix, which is not empty."""
    return prefix[:-1] + "0"  # what follows "/"


def listed(op: ListNamespacesOp, read: Callable[[str], list[str]]) -> list[Namespace]:
    """What the operation asks for, of the joined namespaces that `read` gives below a prefix."""
    conditions = op.match_conditions or ()
    known: Sequence[str] = ()
    for condition in conditions:
        if condition.match_type == "prefix":
            path = condition.path
            wild = path.index("*") if "*" in path else len(path)
            known = max(known, path[:wild], key=len)
    found: set[Namespace] = set()
    for text in read(joined(known)):
        namespace = split(text)
        if all(_meets(namespace, condition.match_type, condition.path) for condition in conditions):
            found.add(namespace if op.max_depth is None else namespace[: op.max_depth])
    return sorted(found)[op.offset : op.offset + op.limit]


def _meets(namespace: Namespace, kind: str, path: Namespace) -> bool:
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if kind == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))
