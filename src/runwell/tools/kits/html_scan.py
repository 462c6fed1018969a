"""Going through HTML once, however it is written: tags, and the text between them.

In time proportional to its length, which the standard library's parser is not: a page that someone wrote for the
purpose would keep that busy for hours.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

__all__ = ["Piece", "attribute", "scan"]

Piece = tuple[str, str, str]
"""("text", what it says, ""), ("start", tag, its attributes as written) or ("end", tag, "")."""

_NAME = re.compile(r"[a-zA-Z][^\s/>]*+")
_TO_END = re.compile(r"""(?:[^>"']++|"[^"]*+"|'[^']*+')*+>""")
_RAW = {
    tag: re.compile(rf"</{tag}(?=[\s/>])", re.I)
    for tag in ("script", "style", "iframe", "noembed", "noframes", "xmp", "textarea")
}
"""Elements whose content is no markup."""
_SHOWN = ("textarea", "xmp")


def scan(page: str) -> Iterator[Piece]:
    """The pieces of a page in order. What is not closed reaches to its end, as in a browser."""
    at, size = 0, len(page)
    while at < size:
        opens = page.find("<", at)
        if opens < 0:
            yield "text", _read(page[at:]), ""
            return
        if opens > at:
            yield "text", _read(page[at:opens]), ""
        if page.startswith("<!--", opens):
            at = _after(page, "-->", opens + 2)  # `<!-->` is a whole comment
        elif page.startswith("<![CDATA[", opens):
            at = _after(page, "]]>", opens)
            yield "text", page[opens + 9 : at - 3 if at < size else size], ""
        elif page[opens + 1 : opens + 2] in ("!", "?"):
            at = _after(page, ">", opens)
        elif page[opens + 1 : opens + 2] == "/":
            name = _NAME.match(page, opens + 2)
            at = _after(page, ">", opens)
            if name is not None:
                yield "end", name[0].lower(), ""
        else:
            name = _NAME.match(page, opens + 1)
            if name is None:
                yield "text", "<", ""
                at = opens + 1
                continue
            whole = _TO_END.match(page, name.end())
            at = whole.end() if whole is not None else _after(page, ">", opens)
            tag = name[0].lower()
            yield "start", tag, page[name.end() : at - 1]
            if tag in _RAW:
                close = _RAW[tag].search(page, at)
                until = size if close is None else close.start()
                if tag in _SHOWN:
                    yield "text", _read(page[at:until]), ""
                at = until


def attribute(name: str, attributes: str) -> str | None:
    """The value of an attribute in what a tag's attributes are written as."""
    value = r"""(?:"([^"]*)"|'([^']*)'|([^\s>"']+))"""
    found = re.search(rf"(?:^|[\s\"'/]){name}\s*=\s*{value}", attributes, re.I)
    return _read(next((each for each in found.groups() if each is not None), "")) if found else None


def _after(page: str, mark: str, start: int) -> int:
    """The place behind the next mark; without one, the end."""
    found = page.find(mark, start)
    return len(page) if found < 0 else found + len(mark)


def _read(text: str) -> str:
    if "&" not in text:
        return text
    try:
        return html.unescape(text)
    except ValueError:  # a character by a number of thousands of digits
        return text
