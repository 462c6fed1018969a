"""Ranking short texts by the words they share with a query (Okapi BM25)."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

__all__ = ["BM25", "words"]

K1 = 1.5
B = 0.75
_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def words(text: str) -> list[str]:
    """The words of a text in lower case, parts of `snake_case` and `camelCase` apart, English plurals as singulars."""
    return [_singular(word.lower()) for word in _WORD.findall(_HUMP.sub(" ", text))]


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


class BM25:
    """Scores of `texts` for a query: more for words that are rare among the texts, less for long texts."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._counts = [Counter(words(text)) for text in texts]
        lengths = [count.total() for count in self._counts]
        mean = sum(lengths) / len(lengths) if lengths else 0.0
        self._norm = [K1 * (1 - B + B * length / mean) if mean else K1 for length in lengths]
        found = Counter(word for count in self._counts for word in count)
        total = len(texts)
        self._weight = {word: math.log(1 + (total - n + 0.5) / (n + 0.5)) for word, n in found.items()}

    def scores(self, query: str) -> list[float]:
        """One for each text; 0.0 where it shares no word."""
        asked = [(word, self._weight[word]) for word in dict.fromkeys(words(query)) if word in self._weight]
        return [
            sum(weight * count[word] * (K1 + 1) / (count[word] + norm) for word, weight in asked if word in count)
            for count, norm in zip(self._counts, self._norm, strict=True)
        ]
