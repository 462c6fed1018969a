"""A text that every match of a pattern holds, so that files without it need not be looked at."""

from __future__ import annotations

__all__ = ["required_literal"]

_PUNCTUATION = set(r"\.^$*+?()[]{}|/-_#&~@!%'\"`,:;<>= ")
_FOLDED = set("iksIKS")
"""ASCII letters that without regard to case equal characters outside ASCII, about which searchers differ."""


def required_literal(pattern: str) -> tuple[str, bool] | None:
    """The longest such text, and whether case counts; None when none is sure.

    It understands the plain part of patterns and gives up on the rest: what is in parentheses and classes is not looked
    at, and alternatives at the top mean that nothing is sure.
    """
    cased = not pattern.startswith("(?i)")
    if not cased:
        pattern = pattern[4:]
    runs: list[str] = []
    run: list[str] = []
    depth, at, length = 0, 0, len(pattern)

    def close() -> None:
        runs.append("".join(run))
        run.clear()

    while at < length:
        char, at = pattern[at], at + 1
        literal = None
        if char == "\\":
            if at == length:
                return None
            escaped, at = pattern[at], at + 1
            if escaped in _PUNCTUATION:
                literal = escaped
            elif not escaped.isascii() or not escaped.isalpha() or escaped not in "dDwWsSbB":
                return None  # references, code points, properties, ends of the text: somebody else's business
        elif char == "[":
            end = _class_end(pattern, at)
            if end is None:
                return None
            at = end
        elif char == "(":
            if pattern.startswith("?", at) and not pattern.startswith("?:", at):
                return None  # flags, conditions, looking around
            depth += 1
        elif char == ")":
            depth -= 1
            if depth < 0:
                return None
        elif char == "|":
            if depth == 0:
                return None
        elif char in "*+?{":
            # of what stands before it only one is sure (+), or none
            if run and char != "+":
                run.pop()
            close()
            if char == "{":
                end = pattern.find("}", at)
                if end < 0:
                    return None
                at = end + 1
            continue
        elif char not in "^$.}]":
            literal = char
        if literal is None or depth > 0 or not literal.isprintable() or literal == "�" or not _alike(literal, cased):
            close()
        else:
            run.append(literal)
    close()
    if depth:
        return None
    best = max(runs, key=len)
    return (best, cased) if best else None


def _alike(char: str, cased: bool) -> bool:
    return cased or (char.isascii() and char not in _FOLDED)


def _class_end(pattern: str, at: int) -> int | None:
    """Behind the class that begins here; None for one that holds more than characters and ranges."""
    if pattern.startswith("^", at):
        at += 1
    if pattern.startswith("]", at):
        at += 1
    while at < len(pattern):
        char = pattern[at]
        if char == "]":
            return at + 1
        if char == "[":
            return None
        at += 2 if char == "\\" else 1
    return None
