"""Where Gemini's answer comes from: its searches as a call that Google ran, its sources as citations of the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["sources"]


def sources(facts: Mapping[str, Any], texts: Mapping[int, Sequence[str]], last: int, rich: bool) -> list[Any]:
    """The blocks that end an answer: citations for its text blocks (`texts` by index; merged into them where they are
    blocks, `rich`), then the search and what it found."""
    said = {index: "".join(pieces) for index, pieces in texts.items()}
    notes: dict[int, list[dict[str, Any]]] = {}
    grounding = facts.get("groundingMetadata") or {}
    for index, note in (*_grounded(grounding, said), *_recited(facts.get("citationMetadata") or {}, said)):
        notes.setdefault(index, []).append(note)
    blocks: list[Any] = [
        {"type": "text", "text": "", "annotations": found, "index": index if rich else last + 1 + place}
        for place, (index, found) in enumerate(notes.items())
    ]
    return blocks + _search(grounding, last + 1 + len(blocks))


def _grounded(grounding: Mapping[str, Any], texts: Mapping[int, str]) -> list[tuple[int, dict[str, Any]]]:
    chunks = grounding.get("groundingChunks") or []
    found = []
    for support in grounding.get("groundingSupports") or ():
        index, place = _place(support.get("segment") or {}, texts)
        scores = support.get("confidenceScores") or []
        for number, chunk in enumerate(support.get("groundingChunkIndices") or ()):
            if not 0 <= chunk < len(chunks):
                continue
            mine = {"chunk": chunk, **({"confidence": scores[number]} if number < len(scores) else {})}
            found.append((index, {"type": "citation", **_source(chunks[chunk]), **place, "extras": {"google": mine}}))
    return found


def _recited(citations: Mapping[str, Any], texts: Mapping[int, str]) -> list[tuple[int, dict[str, Any]]]:
    """What the answer quotes at length. Its places are in the whole answer."""
    found = []
    index = max(texts, default=0)
    for each in citations.get("citations") or citations.get("citationSources") or ():
        note = {"type": "citation", **_source({"web": each})}
        if len(texts) == 1 and isinstance(each.get("endIndex"), int):
            data = texts[index].encode()
            note |= _characters(data, each.get("startIndex") or 0, each["endIndex"])
        if each.get("license"):
            note["extras"] = {"google": {"license": each["license"]}}
        found.append((index, note))
    return found


def _source(chunk: Mapping[str, Any]) -> dict[str, Any]:
    """A web page, a document, a place on a map."""
    inner: Any = next((value for value in chunk.values() if isinstance(value, Mapping)), {})
    note = {"url": inner.get("uri") or inner.get("sourceUri"), "title": inner.get("title")}
    if inner.get("text"):
        note["cited_text"] = inner["text"]
    return {key: value for key, value in note.items() if value}


def _place(segment: Mapping[str, Any], texts: Mapping[int, str]) -> tuple[int, dict[str, int]]:
    """(The text block that a segment is of, its place there in characters). The API counts bytes, from the start of a
    part that a stream may have cut; so the text that it names decides."""
    start, end, wanted = segment.get("startIndex") or 0, segment.get("endIndex"), segment.get("text")
    for index, text in texts.items():
        data = text.encode()
        if isinstance(end, int) and end <= len(data) and (not wanted or data[start:end] == wanted.encode()):
            return index, _characters(data, start, end)
    for index, text in texts.items():
        at = text.find(wanted) if wanted else -1
        if at >= 0 and wanted:
            return index, {"start_index": at, "end_index": at + len(wanted)}
    return max(texts, default=0), {}


def _characters(data: bytes, start: int, end: int) -> dict[str, int]:
    before, within = data[:start].decode(errors="ignore"), data[start:end].decode(errors="ignore")
    return {"start_index": len(before), "end_index": len(before) + len(within)}


def _search(grounding: Mapping[str, Any], index: int) -> list[Any]:
    """A search as a call and its result. They are Google's account of the answer, and are not sent back."""
    queries = grounding.get("webSearchQueries") or grounding.get("retrievalQueries") or []
    found = [_source(chunk) for chunk in grounding.get("groundingChunks") or ()]
    if not queries and not found:
        return []
    mark = {"google": {"part": "groundingMetadata"}}
    name = "google_maps" if any("maps" in each for each in grounding.get("groundingChunks") or ()) else "google_search"
    call = {"type": "server_tool_call", "id": "search", "name": name, "args": {"queries": queries}, "extras": mark}
    result = {"type": "server_tool_result", "tool_call_id": "search", "status": "success", "output": found}
    return [{**call, "index": index}, {**result, "extras": mark, "index": index + 1}]
