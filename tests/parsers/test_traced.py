"""Prompts and parsers as runs that a handler is told of."""

from __future__ import annotations

from typing import Any

from runwell.messages.chunks import AIMessageChunk
from runwell.observe import BaseCallbackHandler
from runwell.parsers import JsonOutputParser, StrOutputParser


class Log(BaseCallbackHandler):
    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
        self.told.append(("start", kwargs.get("name")))

    def on_chain_end(self, outputs: Any, **kwargs: Any) -> None:
        self.told.append(("end", outputs))


def test_a_parser_is_a_run_whole_or_streamed(driver: Any) -> None:
    log = Log()
    config = {"callbacks": [log]}
    assert driver.invoke(StrOutputParser(), "a", config) == "a"
    assert driver.transform(StrOutputParser(), ["a", AIMessageChunk("b")], config) == ["a", "b"]
    assert driver.transform(JsonOutputParser(name="answer"), ['{"a": "b', 'c"}'], config)[-1] == {"a": "bc"}
    assert log.told == [
        *(("start", "StrOutputParser"), ("end", "a")),
        *(("start", "StrOutputParser"), ("end", "ab")),
        *(("start", "answer"), ("end", {"a": "bc"})),
    ]
