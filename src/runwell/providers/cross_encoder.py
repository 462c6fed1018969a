"""Reranking on this machine: a cross-encoder reads query and document together."""

from __future__ import annotations

import threading
from importlib.util import find_spec
from typing import Any

from runwell.documents.compressor import BaseReranker
from runwell.errors import InvalidInput, MissingExtra, nearest
from runwell.runnables.fields import KeywordFields

__all__ = ["CrossEncoderReranker"]


class CrossEncoderReranker(KeywordFields, BaseReranker):
    """Documents in the order of how well they answer a query, by a model that runs here.

    `model` is the name of one that `fastembed` knows, loaded when first needed: from `model_path`, a folder that holds
    its ONNX file and its tokenizer, or else by download from its hub into `cache_dir`. It may also be an object: a
    CrossEncoder of sentence-transformers (`predict`), a `TextCrossEncoder` (`rerank`), or anything with `score(pairs)`.

    Scores are the model's own, higher is better; `max_chars` says where a long document is cut. Async calls run in
    worker threads. May be used from many threads at once.
    """

    model: Any = "Xenova/ms-marco-MiniLM-L-6-v2"
    top_n: int | None = 3
    model_path: Any = None
    cache_dir: str | None = None
    batch_size: int = 32
    threads: int | None = None
    max_chars: int = 20_000

    def model_post_init(self, context: Any) -> None:
        self._lock = threading.Lock()
        self._loaded: Any = None
        self._asked([], "?", None)  # top_n
        if not isinstance(self.model, str):
            if not any(callable(getattr(self.model, way, None)) for way in ("rerank", "predict", "score")):
                raise InvalidInput(
                    f"{self.model!r:.100} ranks nothing.",
                    hint="A model's name, or an object with predict(pairs), score(pairs) or rerank(query, documents).",
                )
            self._loaded = self.model
            return
        if find_spec("fastembed") is None:
            raise MissingExtra("CrossEncoderReranker", "rerank")
        from fastembed.rerank.cross_encoder import TextCrossEncoder

        known = [each["model"] for each in TextCrossEncoder.list_supported_models()]
        if self.model.lower() not in (name.lower() for name in known):
            raise InvalidInput(
                f"fastembed knows no cross-encoder {self.model!r}{nearest(self.model, known)}.",
                hint=f"It knows {', '.join(known)}; another is made known by TextCrossEncoder.add_custom_model(...).",
            )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_loaded")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()
        self._loaded = None if isinstance(self.model, str) else self.model

    def _ranked(self, texts: list[str], query: str, top_n: int) -> list[tuple[int, float]]:
        model = self._ready()
        texts = [text[: self.max_chars] for text in texts]
        if callable(getattr(model, "rerank", None)):
            scores = model.rerank(query, texts, batch_size=self.batch_size)
        else:
            pairs = [(query, text) for text in texts]
            scores = model.predict(pairs) if callable(getattr(model, "predict", None)) else model.score(pairs)
        return [(index, float(score)) for index, score in enumerate(scores)]

    def _ready(self) -> Any:
        with self._lock:
            if self._loaded is None:
                from fastembed.rerank.cross_encoder import TextCrossEncoder

                path = str(self.model_path) if self.model_path is not None else None
                self._loaded = TextCrossEncoder(
                    self.model, cache_dir=self.cache_dir, threads=self.threads, specific_model_path=path
                )
            return self._loaded
