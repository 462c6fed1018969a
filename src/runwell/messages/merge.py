"""How the values inside streamed chunks add up.

Every rule here is associative, so it does not matter in which order chunks are summed. Where two values of one key
are of different kinds, text outranks other scalars, those outrank lists, and lists outrank dicts; None counts as
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["merge_content", "merge_kwargs", "merge_metadata"]

Content = str | list[str | dict[str, Any]]

_ONCE = frozenset(
    {
        "file_id",
        "filename",
        "id",
        "index",
        "mime_type",
        "name",
        "object",
        "role",
        "status",
        "tool_call_id",
        "type",
        "url",
    }
)
"""Keys whose text names something: providers repeat it, so the first that is not empty stays and none is appended."""


def merge_kwargs(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    """Fields of a message that may arrive in pieces: texts are joined, numbers replaced, lists appended to."""
    return _merge_dicts(left, right, True)


def merge_metadata(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    """Facts about a response, which providers repeat whole: the last text or number stays, lists are appended to."""
    return _merge_dicts(left, right, False)


def _merge_dicts(left: dict[str, Any], right: dict[str, Any], join: bool) -> dict[str, Any]:
    result = dict(left)
    for key, new in right.items():
        old = result.get(key)
        result[key] = new if old is None else old if new is None else _merge(key, old, new, join)
    return result


def _rank(value: Any) -> int:
    if isinstance(value, str):
        return 3
    return 0 if isinstance(value, dict) else 1 if isinstance(value, list) else 2


def _merge(key: str, old: Any, new: Any, join: bool) -> Any:
    rank, other = _rank(old), _rank(new)
    if rank != other:
        return old if rank > other else new
    if rank == 3:
        if join:
            return (old or new) if key in _ONCE else old + new
        return new or old
    if rank == 2:
        return old if key in _ONCE else new
    if rank == 1:
        return _fold([*old, *new], join)
    return _merge_dicts(old, new, join)


def _fold(items: list[Any], join: bool) -> list[Any]:
    """Dicts that carry the same `index` (and type) become one, at the place of the first."""
    result: list[Any] = []
    places: dict[Any, int] = {}
    for item in items:
        key = _key(item)
        if key is None:
            result.append(item)
        elif key in places:
            result[places[key]] = _merge_dicts(result[places[key]], item, join)
        else:
            places[key] = len(result)
            result.append(item)
    return result


def _key(item: Any) -> Any:
    if not isinstance(item, dict):
        return None
    index = item.get("index")
    if index is None or isinstance(index, (dict, list)):
        return None
    if isinstance(index, str) and index.isascii() and index.isdigit():
        index = int(index)
    return (item.get("type"), index)


class _Block:
    """A content block while its pieces come in; texts are joined once, at the end."""

    __slots__ = ("values",)

    def __init__(self, block: dict[str, Any]) -> None:
        self.values: dict[str, Any] = {}
        self.take(block)

    def take(self, block: dict[str, Any]) -> None:
        values = self.values
        for key, new in block.items():
            old = values.get(key)
            if old is None or new is None:
                if key not in values or new is not None:
                    values[key] = _Pieces((new,)) if type(new) is str and key not in _ONCE else new
            elif type(old) is _Pieces:
                if type(new) is str:
                    old.append(new)
            elif type(new) is str and key not in _ONCE:
                values[key] = _Pieces((new,))
            else:
                values[key] = _merge(key, old, new, True)

    def finished(self) -> dict[str, Any]:
        return {key: "".join(value) if type(value) is _Pieces else value for key, value in self.values.items()}


class _Pieces(list[str]):
    """Pieces of one text."""


def merge_content(*contents: Content) -> Content:
    """Contents of chunks as one content, in time linear in what is given.

    Texts alone give a text. Otherwise the result is a list in which blocks with the same `type` and `index` have become
    one, texts side by side are joined, and empty texts are dropped.
    """
    return fold_content(contents)


def fold_content(contents: Sequence[Content]) -> Content:
    """`merge_content` of a sequence."""
    try:
        return "".join(contents)  # type: ignore[arg-type]
    except TypeError:  # not texts alone
        pass
    result: list[Any] = []
    blocks: dict[Any, _Block] = {}
    for item in _items(contents):
        if isinstance(item, str):
            if item:
                if result and type(result[-1]) is _Pieces:
                    result[-1].append(item)
                else:
                    result.append(_Pieces((item,)))
            continue
        key = _key(item)
        if key is None:
            result.append(item)
        elif key in blocks:
            blocks[key].take(item)
        else:
            blocks[key] = block = _Block(item)
            result.append(block)
    return [_finished(item) for item in result]


def _items(contents: Iterable[Content]) -> Iterable[str | dict[str, Any]]:
    for content in contents:
        if isinstance(content, str):
            yield content
        else:
            yield from content


def _finished(item: Any) -> Any:
    return "".join(item) if type(item) is _Pieces else item.finished() if type(item) is _Block else item
