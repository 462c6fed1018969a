"""The text of a web page."""

from __future__ import annotations

import re
from collections import Counter

from runwell.tools.kits.html_scan import attribute, scan

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
    for kind, said, attributes in scan(html):
        if kind == "text":
            reader.text(said)
        elif kind == "start":
            reader.start(said, attributes)
        else:
            reader.end(said)
    lines = (
        line.replace(_AS_IT_IS, "").rstrip() if _AS_IT_IS in line else re.sub(r"\s+", " ", line).strip()
        for line in "".join(reader.parts).split("\n")
    )
    text = "\n".join(line for line in lines if line)
    title = re.sub(r"\s+", " ", "".join(reader.title)).strip()
    return f"# {title}\n{text}" if title else text


class _Reader:
    def __init__(self) -> None:
        self.parts: list[str] = []
        self.title: list[str] = []
        self._unseen: list[str] = []
        self._unseen_tags: Counter[str] = Counter()
        self._links: list[str] = []
        self._in_title = False
        self._kept = 0

    def start(self, tag: str, attributes: str) -> None:
        self._in_title = tag == "title" and not self._unseen_tags["svg"]
        if tag == "body":
            self._unseen.clear()  # a head that was never closed
            self._unseen_tags.clear()
        elif tag in _UNSEEN:
            self._unseen.append(tag)
            self._unseen_tags[tag] += 1
        elif not self._unseen:
            if tag in _BLOCKS:
                self.parts.append("\n")
            elif tag in ("td", "th"):
                self.parts.append(" | ")
            elif tag == "a":
                self._links.append(attribute("href", attributes) or "")
            if tag == "pre":
                self._kept += 1

    def end(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        if self._unseen_tags[tag]:
            closed = ""
            while closed != tag:
                closed = self._unseen.pop()
                self._unseen_tags[closed] -= 1
        elif not self._unseen:
            if tag in _BLOCKS:
                self.parts.append("\n")
            elif tag == "a" and self._links:
                address = self._links.pop()
                if address and not address.startswith(("#", "javascript:")):
                    self.parts.append(f" <{address}>")
            if tag == "pre":
                self._kept = max(0, self._kept - 1)

    def text(self, text: str) -> None:
        if self._in_title:
            self.title.append(text)
        elif not self._unseen:
            self.parts.append(
                "\n".join(_AS_IT_IS + line for line in text.split("\n")) if self._kept else re.sub(r"\s+", " ", text)
            )
