"""What a scripted provider answers and what it was asked, in words that are no vendor's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

__all__ = ["Asked", "Call", "Said", "WireDialect", "shown"]


@dataclass(slots=True)
class Call:
    """A tool call in an answer. `arguments` may be a text that is no JSON, where the wire can say that."""

    name: str
    arguments: Mapping[str, Any] | str
    id: str = "call_1"


@dataclass(slots=True, kw_only=True)
class Said:
    """An answer of the model. In a stream, `text` comes in `pieces` if they are given, and calls after it.

    Token counts: `read` came in, `cached` of them out of the provider's cache, `written` went out.
    """

    text: str = ""
    pieces: Sequence[str] = ()
    calls: Sequence[Call] = ()
    finish: Literal["stop", "length", "tool_calls"] | None = None
    read: int = 9
    cached: int = 4
    written: int = 3
    model: str = "served-model-1"

    def __post_init__(self) -> None:
        if self.pieces and not self.text:
            self.text = "".join(self.pieces)
        self.pieces = self.pieces or ([self.text] if self.text else [])
        self.finish = self.finish or ("tool_calls" if self.calls else "stop")


@dataclass(slots=True, kw_only=True)
class Asked:
    """What a request asks for. `system` are the texts of the standing instructions, `turns` pairs of role ("user",
    "assistant", "tool") and text, `calls` the tool calls in the history by id, `results` their results.

    `choice` is "auto", "none", "any" or a tool's name; None where the request says nothing.
    """

    model: str = ""
    system: list[str] = field(default_factory=list)
    turns: list[tuple[str, str]] = field(default_factory=list)
    calls: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    images: list[str] = field(default_factory=list)
    """The base64 data of pictures, or the address or id of those that are given so."""
    tools: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Name → JSON schema of the arguments."""
    choice: str | None = None
    parallel: bool | None = None
    stop: list[str] = field(default_factory=list)
    schema: dict[str, Any] | None = None
    """The JSON schema that the answer must fit."""
    max_tokens: int | None = None
    stream: bool = False


def shown(url: str) -> str:
    """The data in a data URL; any other address as it is."""
    return url.partition(",")[2] if url.startswith("data:") else url


class WireDialect:
    """How one vendor's API writes answers and reads requests. A subclass writes the four methods.

    `prefix` follows the server's address in the base URL. `framing` is how a stream is cut: "sse" (server-sent events)
    or "lines" (a JSON text per line). One that cuts it in another way writes `frame` and says its `content_type`.
    """

    prefix: ClassVar[str] = ""
    framing: ClassVar[Literal["sse", "lines"]] = "sse"
    content_type: ClassVar[str] = ""

    def frame(self, event: Any) -> bytes:
        """The bytes of an event of a stream."""
        name = None
        if isinstance(event, tuple):
            name, event = event
        text = event if isinstance(event, str) else json.dumps(event)
        if self.framing == "lines":
            return f"{text}\n".encode()
        return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()

    def answer(self, said: Said) -> dict[str, Any]:
        """The body of a whole answer."""
        raise NotImplementedError

    def events(self, said: Said) -> list[Any]:
        """The events of a stream: dicts, texts that are sent as they are, or pairs (event name, dict)."""
        raise NotImplementedError

    def error(self, status: int, message: str) -> dict[str, Any]:
        """The body of an error."""
        raise NotImplementedError

    def asked(self, request: Mapping[str, Any]) -> Asked:
        """What a request (its `path`, `headers` and `body`) asks for."""
        raise NotImplementedError

    def refusal(self, request: Mapping[str, Any]) -> tuple[int, Any] | None:
        """Status and body for a request that the vendor would refuse before reading it: a wrong address, no key."""
        return None

    def too_long(self, size: int, limit: int) -> tuple[int, dict[str, Any]]:
        """The status and body for a conversation of `size` tokens where `limit` fit."""
        return 400, self.error(400, f"prompt is too long: {size} tokens > {limit} maximum")

    def piece(self, text: str) -> list[Any]:
        """The events that bring a further piece of text, for a stream without end."""
        whole = self.events(Said(pieces=["a", text, "b"]))
        without = self.events(Said(pieces=["a", "b"]))
        place = next(place for place, event in enumerate(whole) if event != without[place])
        return [whole[place]]
