"""The text of a web page."""

from __future__ import annotations

import re
from html.parser import HTMLParser

__all__ = ["page_text"]

_UNSEEN = frozenset(("script", "style", "noscript", "template", "svg", "head", "iframe", "object"))
_BLOCKS = frozenset(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "br",
        "dd",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hr",
        "li",
        "main",
        "nav",
        "ol",
        "p",
        "pre",
        "section",
        "table",
        "tr",
        "ul",
    ]
)
_AS_IT_IS = "\0"
"""Begins the lines whose spaces count."""


def page_text(html: str) -> str:
    """What a reader sees of a page, a line for each block: title first, links as `text <address>`."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    lines = (
        line.replace(_AS_IT_IS, "").rstrip() if _AS_IT_IS in line else re.sub(r"\s+", " ", line).strip()
        for line in "".join(reader.parts).split("\n")
    )
    text = "\n".join(line for line in lines if line)
    title = re.sub(r"\s+", " ", "".join(reader.title)).strip()
    return f"# {title}\n{text}" if title else text


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.title: list[str] = []
        self._unseen: list[str] = []
        self._links: list[str] = []
        self._in_title = False
        self._kept = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_title = tag == "title" and "svg" not in self._unseen
        if tag == "body":
            self._unseen.clear()  # a head that was never closed
        elif tag in _UNSEEN:
            self._unseen.append(tag)
        elif not self._unseen:
            if tag in _BLOCKS:
                self.parts.append("\n")
            elif tag in ("td", "th"):
                self.parts.append(" | ")
            elif tag == "a":
                self._links.append(dict(attrs).get("href") or "")
            if tag == "pre":
                self._kept += 1

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        if tag in self._unseen:
            while self._unseen.pop() != tag:
                pass
        elif not self._unseen:
            if tag in _BLOCKS:
                self.parts.append("\n")
            elif tag == "a" and self._links:
                address = self._links.pop()
                if address and not address.startswith(("#", "javascript:")):
                    self.parts.append(f" <{address}>")
            if tag == "pre":
                self._kept = max(0, self._kept - 1)

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not self._unseen:
            self.parts.append(
                "\n".join(_AS_IT_IS + line for line in data.split("\n")) if self._kept else re.sub(r"\s+", " ", data)
            )
