"""The suite for embeddings, passed by those that need no provider."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from runwell.ports.embeddings import Embeddings
from runwell.testing.embeddings import EmbeddingsSuite
from runwell.testing.models import DeterministicFakeEmbedding


class TestDeterministicFakeEmbedding(EmbeddingsSuite):
    def make_embeddings(self) -> Embeddings:
        return DeterministicFakeEmbedding(size=8)


class Sorted(DeterministicFakeEmbedding):
    """Gives vectors back in the wrong order, as a server may that answers with an index."""

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        return super().embed_documents(sorted(texts))


def test_the_suite_notices_a_wrong_order() -> None:
    class Suite(EmbeddingsSuite):
        def make_embeddings(self) -> Embeddings:
            return Sorted(size=8)

    with pytest.raises(AssertionError):
        Suite().test_one_vector_per_text_in_order()
