"""Detectors by Microsoft Presidio: names, places and whatever else a model of language finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runwell.errors import MissingExtra

__all__ = ["presidio_detector"]


def presidio_detector(
    entity: str, *, language: str = "en", threshold: float = 0.5, analyzer: Any = None
) -> Callable[[str], list[dict[str, Any]]]:
    """For `PIIMiddleware("person", detector=presidio_detector("PERSON"))`.

    `entity` is Presidio's name of the type, `threshold` the least score that counts. `analyzer` is an
    `AnalyzerEngine` of yours; without one a default engine is made now, with the language model it loads.
    """
    if analyzer is None:
        try:
            from presidio_analyzer import AnalyzerEngine
        except ImportError as missing:
            raise MissingExtra("presidio_detector", "pii") from missing
        analyzer = AnalyzerEngine()

    def find(text: str) -> list[dict[str, Any]]:
        found = analyzer.analyze(text=text, entities=[entity], language=language, score_threshold=threshold)
        return [{"start": each.start, "end": each.end} for each in found]

    return find
