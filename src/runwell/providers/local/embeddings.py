"""Embeddings that run in this process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from runwell.errors import InvalidInput
from runwell.ports.embeddings import Embeddings
from runwell.providers.local.catalogue import DEFAULT_EMBEDDING, find, is_gguf_path, own_file
from runwell.providers.local.fetch import fetch
from runwell.providers.local.runtime import Engine, EngineOptions, engine_for

__all__ = ["LocalEmbeddings"]

_BATCH = 64
_OPTIONS = EngineOptions(context=2048, slots=4)


class LocalEmbeddings(Embeddings):
    """Vectors of length 1 from a bundled model (384 dimensions) or any embedding .gguf file, in this process.

    Nothing leaves the machine. The weights are fetched at first use if they are not here yet. A text longer than the
    model's window (512 tokens, about 350 English words) is a `ContextOverflow`: nothing is cut off in silence, so
    split documents first. Thread-safe.
    """

    def __init__(self, model: str | os.PathLike[str] = DEFAULT_EMBEDDING) -> None:
        if is_gguf_path(model):
            own_file(model)
            self.dimensions: int | None = None
        else:
            known = find(str(model))
            if known.kind != "embedding":
                raise InvalidInput(
                    f"{known.name!r} is a chat model; it makes no embeddings.", hint=f"Use {DEFAULT_EMBEDDING!r}."
                )
            model, self.dimensions = known.name, known.dimensions
        self.model = os.fspath(model)
        self._path: Path | None = None

    def __repr__(self) -> str:
        return f"LocalEmbeddings({self.model!r})"

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text, in order."""
        return self.embed_counted(texts)[0]

    def embed_counted(self, texts: Sequence[str]) -> tuple[list[list[float]], int]:
        """One vector per text, in order, and how many tokens were read."""
        engine = self._engine()
        vectors: list[list[float]] = []
        tokens = 0
        for begin in range(0, len(texts), _BATCH):
            some, read = engine.embed(texts[begin : begin + _BATCH])
            vectors += some
            tokens += read
        return vectors, tokens

    def load(self) -> None:
        """Fetch and load the model now."""
        self._engine()

    def _engine(self) -> Engine:
        if self._path is None:
            self._path = fetch(self.model)
        return engine_for(self._path, "embedding", _OPTIONS)
