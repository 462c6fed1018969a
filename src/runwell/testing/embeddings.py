"""A ready test suite for embeddings: subclass it, say how to make one, run pytest.

    class TestMyEmbeddings(EmbeddingsSuite):
        def make_embeddings(self):
            return MyEmbeddings()

Every embedding of runwell passes it. It asks nothing of meaning: only that texts become vectors of one length, in
order, alike in both colours.
"""

from __future__ import annotations

import asyncio
import math
from typing import ClassVar

from runwell.ports.embeddings import Embeddings

__all__ = ["EmbeddingsSuite"]

TEXTS = ["The cat sat on the mat.", "Steuern sind fällig.", "猫", "x" * 500]


class EmbeddingsSuite:
    """Subclass it as `Test...` and implement `make_embeddings`."""

    tolerance: ClassVar[float] = 1e-5
    """How far two vectors of one text may lie apart, by coordinate: servers do not compute exactly."""
    is_deterministic: ClassVar[bool] = True
    """Whether one text always has one vector."""

    def make_embeddings(self) -> Embeddings:
        """The embeddings to test; may be the same each time."""
        raise NotImplementedError

    def near(self, one: list[float], other: list[float]) -> bool:
        """Whether two vectors are the same but for rounding."""
        if not self.is_deterministic:
            return len(one) == len(other)
        return len(one) == len(other) and all(
            math.isclose(a, b, abs_tol=self.tolerance) for a, b in zip(one, other, strict=True)
        )

    def test_one_vector_per_text_in_order(self) -> None:
        embeddings = self.make_embeddings()
        vectors = embeddings.embed_documents(TEXTS)
        assert len(vectors) == len(TEXTS)
        assert {len(vector) for vector in vectors} == {len(vectors[0])}
        assert len(vectors[0]) > 1
        for text, vector in zip(TEXTS, vectors, strict=True):
            assert self.near(embeddings.embed_documents([text])[0], vector)
        backwards = embeddings.embed_documents(TEXTS[::-1])
        assert all(self.near(one, other) for one, other in zip(backwards[::-1], vectors, strict=True))

    def test_coordinates_are_finite_floats(self) -> None:
        embeddings = self.make_embeddings()
        for vector in [*embeddings.embed_documents(TEXTS), embeddings.embed_query(TEXTS[0])]:
            assert type(vector) is list
            assert all(type(number) is float and math.isfinite(number) for number in vector)

    def test_no_texts_give_no_vectors(self) -> None:
        embeddings = self.make_embeddings()
        assert embeddings.embed_documents([]) == []
        assert asyncio.run(embeddings.aembed_documents([])) == []

    def test_a_question_is_as_long_as_a_document(self) -> None:
        embeddings = self.make_embeddings()
        assert len(embeddings.embed_query("cat?")) == len(embeddings.embed_documents(["cat"])[0])

    def test_an_empty_text_has_a_vector(self) -> None:
        embeddings = self.make_embeddings()
        assert len(embeddings.embed_documents(["", "cat"])[0]) == len(embeddings.embed_query("cat"))

    def test_different_texts_have_different_vectors(self) -> None:
        vectors = self.make_embeddings().embed_documents(TEXTS)
        for place, vector in enumerate(vectors):
            for other in vectors[place + 1 :]:
                assert vector != other

    def test_both_colours_agree(self) -> None:
        embeddings = self.make_embeddings()

        async def both() -> tuple[list[list[float]], list[float]]:
            return await embeddings.aembed_documents(TEXTS), await embeddings.aembed_query(TEXTS[0])

        vectors, query = asyncio.run(both())
        assert all(self.near(a, b) for a, b in zip(vectors, embeddings.embed_documents(TEXTS), strict=True))
        assert self.near(query, embeddings.embed_query(TEXTS[0]))

    def test_many_at_once(self) -> None:
        embeddings = self.make_embeddings()

        async def many() -> list[list[list[float]]]:
            return await asyncio.gather(*(embeddings.aembed_documents([text]) for text in TEXTS))

        found = asyncio.run(many())
        assert all(self.near(a[0], b) for a, b in zip(found, embeddings.embed_documents(TEXTS), strict=True))

    def test_what_is_given_is_not_changed(self) -> None:
        texts = list(TEXTS)
        self.make_embeddings().embed_documents(texts)
        assert texts == TEXTS
