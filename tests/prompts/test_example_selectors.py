"""Examples chosen by meaning, from a vector store in memory that really compares vectors."""

from __future__ import annotations

import asyncio
import math
import threading
from typing import Any

import pytest

from runwell.documents import Document
from runwell.errors import InvalidInput
from runwell.prompts import (
    BaseExampleSelector,
    FewShotPromptTemplate,
    LengthBasedExampleSelector,
    MaxMarginalRelevanceExampleSelector,
    PromptTemplate,
    SemanticSimilarityExampleSelector,
)
from runwell.testing import DeterministicFakeEmbedding


def cosine(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True)) / (math.hypot(*a) * math.hypot(*b))


class Vectors:
    """A vector store as users have one; without `async` methods."""

    def __init__(self, embedding: Any) -> None:
        self.embedding = embedding
        self.rows: list[tuple[list[float], Document]] = []
        self.threads: set[int] = set()

    @classmethod
    def from_texts(cls, texts: list[str], embedding: Any, metadatas: list[dict[str, Any]] | None = None) -> Any:
        store = cls(embedding)
        store.add_texts(texts, metadatas)
        return store

    def add_texts(self, texts: list[str], metadatas: list[dict[str, Any]] | None = None) -> list[str]:
        vectors = self.embedding.embed_documents(texts)
        for text, vector, metadata in zip(texts, vectors, metadatas or [{}] * len(texts), strict=True):
            self.rows.append((vector, Document(page_content=text, metadata=metadata)))
        return [str(number) for number in range(len(self.rows) - len(texts), len(self.rows))]

    def _near(self, query: str, k: int, only: str | None) -> list[tuple[list[float], Document]]:
        self.threads.add(threading.get_ident())
        asked = self.embedding.embed_query(query)
        rows = [row for row in self.rows if only is None or row[1].metadata.get("kind") == only]
        return sorted(rows, key=lambda row: -cosine(asked, row[0]))[:k]

    def similarity_search(self, query: str, k: int = 4, only: str | None = None) -> list[Document]:
        return [document for _, document in self._near(query, k, only)]

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, only: str | None = None
    ) -> list[Document]:
        asked = self.embedding.embed_query(query)
        left, chosen = self._near(query, fetch_k, only), []
        while left and len(chosen) < k:
            best = max(
                left, key=lambda row: cosine(asked, row[0]) - max((cosine(row[0], c[0]) for c in chosen), default=0)
            )
            left.remove(best)
            chosen.append(best)
        return [document for _, document in chosen]


class AsyncVectors(Vectors):
    """One with both forms."""

    def __init__(self, embedding: Any) -> None:
        super().__init__(embedding)
        self.awaited: list[str] = []

    @classmethod
    async def afrom_texts(cls, texts: list[str], embedding: Any, metadatas: list[dict[str, Any]] | None = None) -> Any:
        store = cls.from_texts(texts, embedding, metadatas)
        store.awaited.append("from_texts")
        return store

    async def aadd_texts(self, texts: list[str], metadatas: list[dict[str, Any]] | None = None) -> list[str]:
        self.awaited.append("add_texts")
        return self.add_texts(texts, metadatas)

    async def asimilarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        self.awaited.append("similarity_search")
        return self.similarity_search(query, k, **kwargs)

    async def amax_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, **kwargs: Any
    ) -> list[Document]:
        self.awaited.append("max_marginal_relevance_search")
        return self.max_marginal_relevance_search(query, k, fetch_k, **kwargs)


class Words:
    """Vectors of how often each letter stands in a text: alike texts have alike vectors."""

    def embed_query(self, text: str) -> list[float]:
        return [text.lower().count(letter) + 0.01 for letter in "abcdefghijklmnopqrstuvwxyz"]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


FEELINGS = [
    {"input": "happy", "output": "sad", "kind": "mood"},
    {"input": "tall", "output": "short", "kind": "size"},
    {"input": "sunny", "output": "gloomy", "kind": "weather"},
    {"input": "happily", "output": "sadly", "kind": "mood"},
]
STORES = [Vectors, AsyncVectors]


def made(kind: Any, store: Any, colour: str, *args: Any, **kwargs: Any) -> Any:
    if colour == "async":
        return asyncio.run(kind.afrom_examples(*args[:2], store, *args[2:], **kwargs))
    return kind.from_examples(*args[:2], store, *args[2:], **kwargs)


def picked(selector: Any, colour: str, given: dict[str, Any]) -> list[str]:
    found = asyncio.run(selector.aselect_examples(given)) if colour == "async" else selector.select_examples(given)
    return [example["input"] for example in found]


@pytest.mark.parametrize("store", STORES)
def test_the_nearest_in_meaning_come_first_and_more_can_be_added(store, driver):
    selector = made(SemanticSimilarityExampleSelector, store, driver.colour, FEELINGS, Words(), 2, ["input"])
    assert picked(selector, driver.colour, {"input": "happyness"}) == ["happy", "happily"]
    new = {"input": "happynes", "output": "sadnes", "kind": "mood"}
    added = asyncio.run(selector.aadd_example(new)) if driver.colour == "async" else selector.add_example(new)
    assert added == "4"
    assert picked(selector, driver.colour, {"input": "happyness"}) == ["happynes", "happy"]
    if store is AsyncVectors and driver.colour == "async":
        assert selector.vectorstore.awaited == ["from_texts", "similarity_search", "add_texts", "similarity_search"]
    if store is Vectors and driver.colour == "async":
        assert threading.get_ident() not in selector.vectorstore.threads


@pytest.mark.parametrize("store", STORES)
def test_of_the_nearest_those_that_differ(store, driver):
    kind = MaxMarginalRelevanceExampleSelector
    selector = made(kind, store, driver.colour, FEELINGS, Words(), 2, ["input"], fetch_k=3)
    assert selector.fetch_k == 3
    # "happily" is nearer than "sunny", but says what "happy" says; "tall" is not among the three nearest
    assert picked(selector, driver.colour, {"input": "happyn"}) == ["happy", "sunny"]
    assert picked(
        kind(selector.vectorstore, k=2, fetch_k=2, input_keys=["input"]), driver.colour, {"input": "happyn"}
    ) == [
        "happy",
        "happily",
    ]


def test_the_text_of_an_example_finds_that_example_whatever_the_vectors_mean():
    embedding = DeterministicFakeEmbedding(size=32)
    for kind in (SemanticSimilarityExampleSelector, MaxMarginalRelevanceExampleSelector):
        selector = kind.from_examples(FEELINGS, embedding, Vectors, k=1, input_keys=["input", "output"])
        for example in FEELINGS:
            assert selector.select_examples({**example, "more": "x"}) == [example]


def test_keys_and_the_stores_own_settings(driver):
    selector = made(
        SemanticSimilarityExampleSelector,
        Vectors,
        driver.colour,
        FEELINGS,
        Words(),
        input_keys=["input"],
        example_keys=["output", "input"],
        vectorstore_kwargs={"only": "mood"},
    )
    assert picked(selector, driver.colour, {"input": "sunny"}) == ["happy", "happily"]
    assert selector.select_examples({"input": "sunny"})[0] == {"output": "sad", "input": "happy"}


def test_a_prompt_shows_what_is_picked(driver):
    prompt = FewShotPromptTemplate(
        example_selector=SemanticSimilarityExampleSelector.from_examples(FEELINGS, Words(), Vectors, k=1),
        example_prompt=PromptTemplate.from_template("{input} -> {output}"),
        suffix="{input} ->",
        example_separator="\n",
    )
    assert driver.invoke(prompt, {"input": "taller"}).to_string() == "tall -> short\ntaller ->"


def test_bad_settings_and_inputs_are_told():
    with pytest.raises(InvalidInput, match="at least 1"):
        SemanticSimilarityExampleSelector(Vectors(Words()), k=0)
    with pytest.raises(InvalidInput, match="fetch_k=3"):
        MaxMarginalRelevanceExampleSelector(Vectors(Words()), k=4, fetch_k=3)
    with pytest.raises(InvalidInput, match="'topic'"):
        SemanticSimilarityExampleSelector.from_examples(FEELINGS, Words(), Vectors, input_keys=["topic"])
    selector = SemanticSimilarityExampleSelector.from_examples(FEELINGS, Words(), Vectors, input_keys=["input"])
    with pytest.raises(InvalidInput, match="'input'") as caught:
        selector.select_examples({"text": "x"})
    assert "input_keys" in str(caught.value.hint)


def test_a_selector_written_in_plain_code_can_be_awaited():
    class First(BaseExampleSelector):
        def __init__(self) -> None:
            self.examples: list[dict[str, Any]] = []

        def add_example(self, example: Any) -> None:
            self.examples.append(dict(example))

        def select_examples(self, input_variables: dict[str, Any]) -> list[dict[str, Any]]:
            return self.examples[:1]

    async def main() -> list[dict[str, Any]]:
        selector = First()
        await selector.aadd_example({"a": "1"})
        return await selector.aselect_examples({})

    assert asyncio.run(main()) == [{"a": "1"}]


@pytest.mark.parametrize(
    "make",
    [
        lambda: SemanticSimilarityExampleSelector(3),
        lambda: MaxMarginalRelevanceExampleSelector(3),
        lambda: LengthBasedExampleSelector(examples=3, example_prompt=PromptTemplate.from_template("{q}")),
        lambda: LengthBasedExampleSelector(examples={"q": 1}, example_prompt=PromptTemplate.from_template("{q}")),
    ],
)
def test_what_holds_no_examples_is_refused(make):
    with pytest.raises(InvalidInput):
        make()
