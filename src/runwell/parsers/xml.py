"""`XMLOutputParser`: XML out of what a model wrote, also while it writes."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from typing import Any

from runwell.errors import MissingExtra, OutputParserException
from runwell.parsers.pace import Pace
from runwell.parsers.parser import BaseTransformOutputParser, Feed

__all__ = ["XMLOutputParser"]

log = logging.getLogger(__name__)

_INSTRUCTIONS = """Answer with one XML document and nothing else. Every element that is opened is closed, and each has
either text or other elements in it. Write & as &amp; and < as &lt; in text."""

_BEGINNING = re.compile(r"<(?:[A-Za-z_]|\?xml\b|!--|!DOCTYPE)")


class XMLOutputParser(BaseTransformOutputParser[dict[str, Any]]):
    """XML, alone or inside prose and a code fence, to dicts: `{"movies": [{"title": "Up"}, {"title": "Brave"}]}`.

    An element with text is that text, one with elements a list of `{tag: value}` in their order. Attributes, if there
    are any, stand first in that list as `{"@name": value}`, and text between elements as `{"#text": text}`: nothing is
    dropped. A stream gives the value so far each time it grows.

    Entities, external references and document types are refused, whatever they say. Text that breaks off, or is no
    XML, raises `OutputParserException` when parsed whole; a stream that breaks off ends with what it showed, and logs
    a warning. `tags` are only for `get_format_instructions`. Needs the extra `xml`.
    """

    never_blocks = True
    streams_snapshots = True

    def __init__(self, tags: Sequence[str] | None = None, *, name: str | None = None) -> None:
        _parser_for(None)  # a missing package is told here, not in the middle of a stream
        self.tags = list(tags) if tags is not None else None
        self.name = name

    def get_format_instructions(self) -> str:
        if not self.tags:
            return _INSTRUCTIONS
        return f"{_INSTRUCTIONS}\nUse these tags: {', '.join(self.tags)}."

    def parse(self, text: str) -> dict[str, Any]:
        """The value. Raises `OutputParserException` when there is no XML, it is broken, or it is cut off."""
        reader = _Reader()
        reader.feed(text)
        return reader.finish()

    def _feed(self) -> Feed[dict[str, Any]]:
        return _XmlFeed()


class _XmlFeed(Feed[dict[str, Any]]):
    def __init__(self) -> None:
        self._reader = _Reader()
        self._shown: Any = None
        self._pace = Pace()
        self._more = False

    def feed(self, piece: str) -> Iterator[dict[str, Any]]:
        reader = self._reader
        self._pace.read(len(piece))
        self._more = reader.feed(piece) or self._more
        if self._more and (reader.done or self._pace.due(*reader.size())):
            self._more = False
            self._shown = reader.value()
            yield self._shown

    def finish(self) -> Iterator[dict[str, Any]]:
        if self._more:
            self._shown = self._reader.value()
            yield self._shown
        try:
            value = self._reader.finish()
        except OutputParserException as error:
            if self._shown is None:
                raise
            log.warning("A stream ended in the middle of its XML: %s", error.message)
            return
        if value != self._shown:
            yield value


class _Element:
    """An element that is being read."""

    __slots__ = ("items", "tag", "text")

    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag = tag
        self.items: list[dict[str, Any]] = [{f"@{name}": value} for name, value in attributes.items()]
        self.text: list[str] = []

    def value(self, inner: dict[str, Any] | None = None) -> dict[str, Any]:
        """As far as it is read; `inner` is the element in it that is being read."""
        whole = "".join(self.text)
        self.text = [whole]
        text = whole.strip()
        if inner is None and not self.items:
            return {self.tag: text}
        items = [*self.items, {"#text": text}] if text else list(self.items)
        if inner is not None:
            items.append(inner)
        return {self.tag: items}

    def settle_text(self) -> None:
        """The text so far is whole, since an element follows it."""
        text = "".join(self.text).strip()
        if text:
            self.items.append({"#text": text})
        self.text.clear()


class _Reader:
    """Reads one document out of a text that comes in pieces; what stands before and after it is passed over."""

    def __init__(self) -> None:
        self._parser = _parser_for(self)
        self._before = ""
        self._began = False
        self._open: list[_Element] = []
        self._root: dict[str, Any] | None = None
        self._all: list[str] = []
        self._grew = False

    # -- what the XML parser tells of

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if self._open:
            self._open[-1].settle_text()
        self._open.append(_Element(tag, attributes))
        self._grew = True

    def data(self, text: str) -> None:
        if self._open:
            self._open[-1].text.append(text)
            self._grew = self._grew or bool(text.strip())

    def end(self, tag: str) -> None:
        value = self._open.pop().value()
        if self._open:
            self._open[-1].items.append(value)
        else:
            self._root = value

    def close(self) -> None:
        """Asked for by the XML parser's protocol."""

    # -- reading

    def feed(self, piece: str) -> bool:
        """Whether there is more to show now."""
        self._all.append(piece)
        if self._root is not None:
            return False
        if not self._began:
            self._before += piece
            found = _BEGINNING.search(self._before)
            if found is None:
                self._before = self._before[-8:]  # as much as may be the beginning of a beginning
                return False
            piece, self._began = self._before[found.start() :], True
        self._grew = False
        for part in re.split(r"(?<=>)", piece):  # the document may end at any ">"
            if not self.done:
                self._read(part)
        return self._grew and (bool(self._open) or self._root is not None)

    def _read(self, part: str) -> None:
        from xml.etree.ElementTree import ParseError

        from defusedxml import DefusedXmlException

        try:
            self._parser.feed(part)
            flush = getattr(self._parser, "flush", None)
            if flush is not None:  # newer versions wait for more otherwise
                flush()
        except ParseError as error:
            raise self._fault(f"The XML is broken{self._place()}: {error}") from error
        except DefusedXmlException as error:
            raise self._fault(f"The XML was refused: {type(error).__name__}, it defines entities or a type") from error

    @property
    def done(self) -> bool:
        """Whether the document is whole."""
        return self._root is not None

    def size(self) -> tuple[int, int]:
        """How many entries and characters `value()` copies."""
        return (
            sum(len(element.items) + len(element.text) for element in self._open),
            sum(sum(map(len, element.text)) for element in self._open),
        )

    def value(self) -> dict[str, Any]:
        """What has been read so far, new along the open path."""
        if self._root is not None:
            return self._root
        inner: dict[str, Any] | None = None
        for element in reversed(self._open):
            inner = element.value(inner)
        return inner or {}

    def finish(self) -> dict[str, Any]:
        """The whole; raises when there is none."""
        if self._root is not None:
            return self._root
        if not self._began:
            raise self._fault("There is no XML in the text")
        raise self._fault(f"The XML breaks off{self._place()}")

    def _place(self) -> str:
        path = "/".join(element.tag for element in self._open)
        return f" in {path}" if path else ""

    def _fault(self, told: str) -> OutputParserException:
        return OutputParserException(f"{told}.", llm_output="".join(self._all))


def _parser_for(target: Any) -> Any:
    try:
        from defusedxml.ElementTree import DefusedXMLParser
    except ImportError:
        raise MissingExtra("XMLOutputParser", "xml") from None
    return DefusedXMLParser(target=target, forbid_dtd=True)
