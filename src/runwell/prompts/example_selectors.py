"""Pickers of examples for few-shot prompts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

from runwell.effects import Callee
from runwell.errors import InvalidInput
from runwell.prompts.prompt_template import StringPromptTemplate

__all__ = [
    "BaseExampleSelector",
    "LengthBasedExampleSelector",
    "MaxMarginalRelevanceExampleSelector",
    "SemanticSimilarityExampleSelector",
]


class BaseExampleSelector:
    """Holds examples and picks some for an input. A subclass implements the two plain methods."""

    def add_example(self, example: Mapping[str, Any]) -> Any:
        """Take in one more example."""
        raise NotImplementedError

    def select_examples(self, input_variables: dict[str, Any]) -> list[dict[str, Any]]:
        """The examples for an input, in the order in which they are shown."""
        raise NotImplementedError

    async def aadd_example(self, example: Mapping[str, Any]) -> Any:
        """As `add_example`, which runs in a worker thread."""
        return await _either(self.add_example, None, example)

    async def aselect_examples(self, input_variables: dict[str, Any]) -> list[dict[str, Any]]:
        """As `select_examples`, which runs in a worker thread."""
        return await _either(self.select_examples, None, input_variables)  # type: ignore[no-any-return]


async def _either(plain: Callable[..., Any], asynchronous: Callable[..., Any] | None, *args: Any, **kwargs: Any) -> Any:
    """From async code: the `async` form of a call if there is one, else the plain one in a worker thread."""
    from runwell.drivers.aio import call_async

    return await call_async(Callee(plain, asynchronous), *args, **kwargs)


def _word_count(text: str) -> int:
    return len(re.findall(r"\S+", text))


class LengthBasedExampleSelector(BaseExampleSelector):
    """The first examples that fit, together with the input, into `max_length` (words, unless `get_text_length`
    counts something else)."""

    def __init__(
        self,
        *,
        examples: Sequence[Mapping[str, Any]],
        example_prompt: StringPromptTemplate,
        max_length: int = 2048,
        get_text_length: Callable[[str], int] = _word_count,
    ) -> None:
        if isinstance(examples, str | Mapping) or not isinstance(examples, Sequence):
            raise InvalidInput(f"examples is a list of dicts, not {examples!r:.200}.")
        self.example_prompt = example_prompt
        self.max_length = max_length
        self.get_text_length = get_text_length
        self.examples: list[dict[str, Any]] = []
        self._lengths: list[int] = []
        for example in examples:
            self.add_example(example)

    def add_example(self, example: Mapping[str, Any]) -> None:
        """Take in one more example. Raises `InvalidInput` when it does not fill the example prompt."""
        length = self.get_text_length(self.example_prompt.format(**example))
        self.examples.append(dict(example))
        self._lengths.append(length)

    def select_examples(self, input_variables: dict[str, Any]) -> list[dict[str, Any]]:
        """As many examples, from the first on, as fit beside the input."""
        left = self.max_length - self.get_text_length(" ".join(map(str, input_variables.values())))
        chosen: list[dict[str, Any]] = []
        for example, length in zip(self.examples, self._lengths, strict=True):
            left -= length
            if left < 0:
                break
            chosen.append(example)
        return chosen


class SemanticSimilarityExampleSelector(BaseExampleSelector):
    """The `k` examples nearest in meaning to the input, from a vector store of examples.

    `input_keys` says which keys of an example (and of the input) are compared, all when None; `example_keys`
    which keys of an example are given back. The examples stand in the metadata of the store's documents. A store
    without `async` methods is searched in a worker thread from `async` code.
    """

    _needs: ClassVar[str] = "similarity_search"

    def __init__(
        self,
        vectorstore: Any,
        *,
        k: int = 4,
        input_keys: Sequence[str] | None = None,
        example_keys: Sequence[str] | None = None,
        vectorstore_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        if k < 1:
            raise InvalidInput(f"k, the number of examples, is at least 1, not {k!r}.")
        if not callable(getattr(vectorstore, self._needs, None)):
            raise InvalidInput(
                f"{vectorstore!r:.200} is no vector store to choose from: it has no {self._needs}.",
                hint="from_examples(examples, embeddings, Store) makes and fills one.",
            )
        self.vectorstore = vectorstore
        self.k = k
        self.input_keys = None if input_keys is None else list(input_keys)
        self.example_keys = None if example_keys is None else list(example_keys)
        self.vectorstore_kwargs = dict(vectorstore_kwargs or {})

    @classmethod
    def from_examples(
        cls,
        examples: Sequence[Mapping[str, Any]],
        embeddings: Any,
        vectorstore_cls: Any,
        k: int = 4,
        input_keys: Sequence[str] | None = None,
        *,
        example_keys: Sequence[str] | None = None,
        vectorstore_kwargs: Mapping[str, Any] | None = None,
        **store_kwargs: Any,
    ) -> Self:
        """A selector over a new store of `vectorstore_cls`, filled with the examples.

        Of the other keywords those of the selector's constructor go there, the rest to the store.
        """
        own, store_kwargs = cls._apart(store_kwargs)
        texts, metadatas = _texts(examples, input_keys), _metadata(examples)
        store = vectorstore_cls.from_texts(texts, embeddings, metadatas=metadatas, **store_kwargs)
        settings = {"k": k, "input_keys": input_keys, "example_keys": example_keys, **own}
        return cls(store, vectorstore_kwargs=vectorstore_kwargs, **settings)

    @classmethod
    async def afrom_examples(
        cls,
        examples: Sequence[Mapping[str, Any]],
        embeddings: Any,
        vectorstore_cls: Any,
        k: int = 4,
        input_keys: Sequence[str] | None = None,
        *,
        example_keys: Sequence[str] | None = None,
        vectorstore_kwargs: Mapping[str, Any] | None = None,
        **store_kwargs: Any,
    ) -> Self:
        """As `from_examples`, without holding up the event loop."""
        own, store_kwargs = cls._apart(store_kwargs)
        plain, asynchronous = vectorstore_cls.from_texts, getattr(vectorstore_cls, "afrom_texts", None)
        texts, metadatas = _texts(examples, input_keys), _metadata(examples)
        store = await _either(plain, asynchronous, texts, embeddings, metadatas=metadatas, **store_kwargs)
        settings = {"k": k, "input_keys": input_keys, "example_keys": example_keys, **own}
        return cls(store, vectorstore_kwargs=vectorstore_kwargs, **settings)

    @classmethod
    def _apart(cls, given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Keywords of the constructor that only a subclass has, and the others."""
        return {}, given

    def add_example(self, example: Mapping[str, Any]) -> str:
        """Put one more example into the store; its id there."""
        ids = self.vectorstore.add_texts(_texts([example], self.input_keys), metadatas=_metadata([example]))
        return str(ids[0])

    async def aadd_example(self, example: Mapping[str, Any]) -> str:
        """As `add_example`."""
        store = self.vectorstore
        texts, metadatas = _texts([example], self.input_keys), _metadata([example])
        ids = await _either(store.add_texts, getattr(store, "aadd_texts", None), texts, metadatas=metadatas)
        return str(ids[0])

    def select_examples(self, input_variables: dict[str, Any]) -> list[dict[str, Any]]:
        """The nearest examples, the nearest first."""
        return self._examples(self._search(_joined(input_variables, self.input_keys)))

    async def aselect_examples(self, input_variables: dict[str, Any]) -> list[dict[str, Any]]:
        """As `select_examples`, with the store's own `async` search if it has one."""
        return self._examples(await self._asearch(_joined(input_variables, self.input_keys)))

    def _search(self, query: str) -> Sequence[Any]:
        return self.vectorstore.similarity_search(query, k=self.k, **self.vectorstore_kwargs)  # type: ignore[no-any-return]

    async def _asearch(self, query: str) -> Sequence[Any]:
        store = self.vectorstore
        asynchronous = getattr(store, "asimilarity_search", None)
        return await _either(  # type: ignore[no-any-return]
            store.similarity_search, asynchronous, query, k=self.k, **self.vectorstore_kwargs
        )

    def _examples(self, documents: Sequence[Any]) -> list[dict[str, Any]]:
        found = [dict(document.metadata) for document in documents]
        if self.example_keys is None:
            return found
        return [{key: example[key] for key in self.example_keys} for example in found]


class MaxMarginalRelevanceExampleSelector(SemanticSimilarityExampleSelector):
    """As its parent, but of the `fetch_k` nearest the `k` that also differ among themselves."""

    _needs = "max_marginal_relevance_search"

    def __init__(self, vectorstore: Any, *, fetch_k: int = 20, **kwargs: Any) -> None:
        super().__init__(vectorstore, **kwargs)
        if fetch_k < self.k:
            raise InvalidInput(f"fetch_k={fetch_k!r} examples are fewer than the k={self.k!r} to be chosen from them.")
        self.fetch_k = fetch_k

    @classmethod
    def _apart(cls, given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        rest = dict(given)
        return ({"fetch_k": rest.pop("fetch_k")} if "fetch_k" in rest else {}), rest

    def _search(self, query: str) -> Sequence[Any]:
        return self.vectorstore.max_marginal_relevance_search(  # type: ignore[no-any-return]
            query, k=self.k, fetch_k=self.fetch_k, **self.vectorstore_kwargs
        )

    async def _asearch(self, query: str) -> Sequence[Any]:
        store = self.vectorstore
        asynchronous = getattr(store, "amax_marginal_relevance_search", None)
        return await _either(  # type: ignore[no-any-return]
            store.max_marginal_relevance_search,
            asynchronous,
            query,
            k=self.k,
            fetch_k=self.fetch_k,
            **self.vectorstore_kwargs,
        )


def _joined(values: Mapping[str, Any], keys: Sequence[str] | None) -> str:
    """One text to compare: the values of the keys, in the keys' order, so that like meets like."""
    missing = [key for key in keys or () if key not in values]
    if missing:
        raise InvalidInput(
            f"There is no {', '.join(map(repr, missing))}, by which examples are compared, in {values!r:.200}.",
            hint="`input_keys` names keys that every example and every input has.",
        )
    return " ".join(str(values[key]) for key in (sorted(values) if keys is None else keys))


def _texts(examples: Sequence[Mapping[str, Any]], keys: Sequence[str] | None) -> list[str]:
    return [_joined(example, keys) for example in examples]


def _metadata(examples: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [dict(example) for example in examples]
