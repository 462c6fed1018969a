"""An incremental JSON reader: text goes in piece by piece, and at any moment there is a value to show.

Reading again from the start for every piece would cost quadratic time, so the reader keeps its place. What
it shows only grows: a key appears when its value begins, a string lengthens, and a number or literal appears
when it is complete, because the digits still to come would change it. Bytes are never guessed.

Lenient where a model's meaning is plain (raw control characters in strings, a comma before a closing
bracket, an unpaired surrogate becomes U+FFFD), strict everywhere else.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["JsonReader", "MalformedJson"]

_MAX_DEPTH = 200  # the same as pydantic-core's; a deeper value breaks most code that receives it

_BLANKS = re.compile(r"[ \t\r\n]*")
_PLAIN = re.compile(r'[^"\\]*')
_WORD = re.compile(r"[-+.0-9A-Za-z]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS: dict[str, Any] = {
    "true": True,
    "false": False,
    "null": None,
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}

# what may come next
_VALUE, _ITEM_OR_END, _KEY_OR_END, _COLON, _AFTER, _STRING, _KEY_STRING, _SCALAR, _DONE = range(9)
_EXPECTED = {
    _VALUE: "a value",
    _ITEM_OR_END: "a value or ']'",
    _KEY_OR_END: "a key in double quotes or '}'",
    _COLON: "':'",
}


class MalformedJson(ValueError):
    """The text cannot be JSON. `index` is where in the piece just fed; `problem` says what was expected."""

    def __init__(self, problem: str, index: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.index = index


class JsonReader:
    """Reads one JSON value from pieces of text. Not safe to share between threads.

    `changed` says whether the last `feed` changed what `value()` shows; `shows_content` whether there is
    anything to show beyond an empty container; `done` whether the value is complete.
    """

    __slots__ = (
        "_key",
        "_pending",
        "_root",
        "_slots",
        "_stack",
        "_state",
        "_texts",
        "changed",
        "shows_content",
        "started",
    )

    def __init__(self) -> None:
        self._state = _VALUE
        self._root: Any = None
        self._stack: list[dict[str, Any] | list[Any]] = []  # the open containers, outermost first
        self._slots: list[Any] = []  # for each open container but the innermost: key of the open child, None in a list
        self._key: str | None = None  # the key whose value is being read
        self._texts: list[str] = []  # the open string so far, in pieces: joined only when it is shown or whole
        self._pending = ""  # an unfinished escape, number or literal
        self.changed = False
        self.shows_content = False
        self.started = False

    @property
    def done(self) -> bool:
        return self._state == _DONE

    def feed(self, piece: str, index: int = 0) -> int:
        """Read `piece` from `index`; return where reading stopped: its end, or just behind a complete value.

        Raises `MalformedJson`; the reader is then of no more use.
        """
        self.changed = False
        end = len(piece)
        while True:
            state = self._state
            if state in (_STRING, _KEY_STRING):
                if index >= end:
                    return end
                index = self._read_string(piece, index)
                continue
            if state == _SCALAR:
                match = _WORD.match(piece, index)
                assert match is not None
                self._pending += match.group()
                index = match.end()
                if index >= end:
                    return end
                self._end_scalar(index)
                continue
            if state == _DONE:
                return index
            match = _BLANKS.match(piece, index)
            assert match is not None
            index = match.end()
            if index >= end:
                return end
            index = self._read_mark(piece[index], index)

    def finish(self) -> bool:
        """There is no more text: whether a whole value was read."""
        self.changed = False
        if self._state == _SCALAR and not self._stack:
            self._end_scalar(0)
        return self._state == _DONE

    def value(self) -> Any:
        """What has been read so far: a new object along the open path, sharing the parts that are complete.

        None before anything can be shown (see `started`). Treat it as read-only.
        """
        if self._state == _STRING:
            self._put_text()
        if not self._stack:
            return self._root
        shown: Any = None
        for depth in range(len(self._stack) - 1, -1, -1):
            container = self._stack[depth]
            copy: Any = container.copy()
            if shown is not None:
                slot = self._slots[depth]
                copy[-1 if slot is None else slot] = shown
            shown = copy
        return shown

    def size(self) -> tuple[int, int]:
        """How many entries and characters `value()` copies."""
        return sum(map(len, self._stack)), sum(map(len, self._texts))

    def where(self) -> str:
        """Where reading stands, for an error text: `in the string at .items[2].name`."""
        path = "".join(
            f"[{len(container) - 1}]" if slot is None else f".{slot}"
            for container, slot in zip(self._stack, self._slots, strict=False)  # the innermost has no open child
        )
        if self._stack and isinstance(self._stack[-1], dict) and self._key is not None:
            path += f".{self._key}"
        elif self._stack and isinstance(self._stack[-1], list):
            path += f"[{max(len(self._stack[-1]) - 1, 0)}]"
        what = {_STRING: "in the string", _KEY_STRING: "in a key", _SCALAR: "in a number or literal"}
        place = f"at {path}" if path else "at the top level"
        return f"{what.get(self._state, 'inside the value')} {place}"

    # -- one mark outside strings

    def _read_mark(self, mark: str, index: int) -> int:
        state = self._state
        if state == _AFTER:
            return self._after_value(mark, index)
        if state == _COLON:
            if mark != ":":
                raise MalformedJson(f"expected ':' after the key {self._key!r}, found {mark!r}", index)
            self._state = _VALUE
        elif state == _KEY_OR_END:
            if mark == '"':
                self._texts = []
                self._state = _KEY_STRING
            elif mark == "}":
                self._close()
            else:
                raise MalformedJson(f"expected {_EXPECTED[state]}, found {mark!r}", index)
        elif mark == "{":
            self._open({}, _KEY_OR_END, index)
        elif mark == "[":
            self._open([], _ITEM_OR_END, index)
        elif mark == '"':
            self._texts = []
            self._state = _STRING
            self._put("")
        elif mark == "]" and state == _ITEM_OR_END:
            self._close()
        elif mark in "-0123456789tfnNI":
            self._pending = ""
            self._state = _SCALAR
            return index  # the mark belongs to the scalar
        else:
            raise MalformedJson(f"expected {_EXPECTED[state]}, found {mark!r}", index)
        return index + 1

    def _after_value(self, mark: str, index: int) -> int:
        in_list = isinstance(self._stack[-1], list)
        if mark == ",":
            self._state = _ITEM_OR_END if in_list else _KEY_OR_END
        elif mark == ("]" if in_list else "}"):
            self._close()
        else:
            raise MalformedJson(f"expected ',' or {']' if in_list else '}'!r} after a value, found {mark!r}", index)
        return index + 1

    # -- values

    def _put(self, value: Any) -> None:
        """A value begins (or is complete at once) in the open slot."""
        self.changed = self.started = True
        if not self._stack:
            self._root = value
            return
        self.shows_content = True
        container = self._stack[-1]
        if isinstance(container, list):
            container.append(value)
        else:
            container[self._key] = value  # type: ignore[index]

    def _open(self, container: dict[str, Any] | list[Any], state: int, index: int) -> None:
        if len(self._stack) >= _MAX_DEPTH:
            raise MalformedJson(f"nested more than {_MAX_DEPTH} deep", index)
        self._put(container)
        if self._stack:
            self._slots.append(self._key if isinstance(self._stack[-1], dict) else None)
        self._stack.append(container)
        self._state = state
        self._key = None

    def _close(self) -> None:
        closed = self._stack.pop()
        if self._stack:
            self._key = self._slots.pop()
            self._state = _AFTER
        else:
            self._root = closed
            self._state = _DONE

    def _end_value(self) -> None:
        self._state = _AFTER if self._stack else _DONE

    def _end_scalar(self, index: int) -> None:
        word, self._pending = self._pending, ""
        if word in _WORDS:
            value = _WORDS[word]
        else:
            match = _NUMBER.fullmatch(word)
            if match is None:
                raise MalformedJson(f"{word[:40]!r} is no JSON value", index)
            try:
                value = int(word) if match.group(1) is match.group(2) is None else float(word)
            except ValueError:  # Python refuses to read integers of more than 4,300 digits
                raise MalformedJson(f"the number {word[:20]}… is too long", index) from None
        self._put(value)
        self._end_value()

    # -- strings

    def _read_string(self, piece: str, index: int) -> int:
        parts: list[str] = []
        end = len(piece)
        closed = False
        while index < end:
            if self._pending:
                index = self._read_escape(piece, index, parts)
                continue
            match = _PLAIN.match(piece, index)
            assert match is not None
            if match.end() > index:
                parts.append(match.group())
                index = match.end()
                if index >= end:
                    break
            if piece[index] == '"':
                closed = True
                index += 1
                break
            self._pending = "\\"
            index += 1
        self._texts += parts
        if self._state == _KEY_STRING:
            if closed:
                self._key = "".join(self._texts)
                self._state = _COLON
            return index
        if parts:
            self.changed = True
        if closed:
            self._put_text()
            self._end_value()
        return index

    def _put_text(self) -> None:
        """Put the open string where it belongs, as far as it is read."""
        text = "".join(self._texts)
        self._texts = [text]
        if not self._stack:
            self._root = text
            return
        container = self._stack[-1]
        if isinstance(container, list):
            container[-1] = text
        else:
            container[self._key] = text  # type: ignore[index]

    def _read_escape(self, piece: str, index: int, parts: list[str]) -> int:
        """Take one more character of the escape in `_pending` (it may have begun in an earlier piece)."""
        pending = self._pending
        mark = piece[index]
        size = len(pending)
        if (size == 6 and mark != "\\") or (size == 7 and mark != "u"):
            # a high surrogate without its other half: the half is unreadable, what follows it stands
            parts.append("\ufffd")
            self._pending = pending[6:]
            return index
        pending += mark
        size += 1
        self._pending = pending
        if size == 2 and mark != "u":
            if mark not in _ESCAPES:
                raise MalformedJson(f"unknown escape {pending!r} in a string", index)
            parts.append(_ESCAPES[mark])
            self._pending = ""
        elif size in (3, 4, 5, 6, 9, 10, 11, 12) and mark not in "0123456789abcdefABCDEF":
            raise MalformedJson(f"unfinished escape {pending!r} in a string", index)
        elif size == 6:
            code = int(pending[2:], 16)
            if not 0xD800 <= code < 0xDC00:
                parts.append("\ufffd" if 0xDC00 <= code < 0xE000 else chr(code))
                self._pending = ""
        elif size == 12:
            high, low = int(pending[2:6], 16), int(pending[8:], 16)
            if 0xDC00 <= low < 0xE000:
                parts.append(chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)))
                self._pending = ""
            else:  # two escapes after all: the first is half a character, the second is read as one of its own
                parts.append("\ufffd")
                self._pending = "\\"
                for position in range(7, 12):
                    self._read_escape(pending, position, parts)
        return index + 1
