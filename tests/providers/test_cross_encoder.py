"""A cross-encoder on this machine: a real one, made here, that counts the words which query and document share."""

from __future__ import annotations

import asyncio
import copy
import json
from pathlib import Path
from typing import Any

import pytest

from runwell.documents import Document
from runwell.errors import InvalidInput, MissingExtra
from runwell.providers import cross_encoder
from runwell.providers.cross_encoder import CrossEncoderReranker

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "cats", "sleep", "dogs", "bark", "all", "day", "long", "night", "the"]
FOUND = [
    Document("dogs bark all night", {"source": "d"}, "1"),
    Document("the cats sleep all day long", {"source": "c"}, "2"),
    Document("a long night", {"source": "n"}, "3"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cross-encoder in ONNX with its tokenizer, as fastembed loads them."""
    from onnx import TensorProto, helper, save
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    place = tmp_path_factory.mktemp("encoder")
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.save(str(place / "tokenizer.json"))
    (place / "config.json").write_text(json.dumps({"pad_token_id": 0}))
    told = {"model_max_length": 64, "pad_token": "[PAD]"}
    (place / "tokenizer_config.json").write_text(json.dumps(told))
    (place / "special_tokens_map.json").write_text(json.dumps({"pad_token": "[PAD]", "unk_token": "[UNK]"}))

    node = helper.make_node
    ints = [TensorProto.INT64, ["batch", "length"]]
    inputs = [helper.make_tensor_value_info(n, *ints) for n in ("input_ids", "attention_mask", "token_type_ids")]
    numbers = [
        helper.make_tensor(name, TensorProto.INT64, [1], [value])
        for name, value in (("one", 1), ("two", 2), ("special", 3))
    ]
    steps = [
        node("Greater", ["input_ids", "special"], ["is_word"]),
        node("Cast", ["is_word"], ["words"], to=TensorProto.INT64),
        node("Mul", ["words", "attention_mask"], ["real"]),
        node("Mul", ["real", "token_type_ids"], ["in_text"]),
        node("Sub", ["real", "in_text"], ["in_query"]),
        node("Unsqueeze", ["input_ids", "two"], ["down"]),
        node("Unsqueeze", ["input_ids", "one"], ["across"]),
        node("Equal", ["down", "across"], ["is_same"]),
        node("Cast", ["is_same"], ["same"], to=TensorProto.INT64),
        node("Unsqueeze", ["in_query", "two"], ["query"]),
        node("Unsqueeze", ["in_text", "one"], ["text"]),
        node("Mul", ["same", "query"], ["of_query"]),
        node("Mul", ["of_query", "text"], ["shared"]),
        node("Cast", ["shared"], ["numbers"], to=TensorProto.FLOAT),
        node("ReduceSum", ["numbers", "two"], ["by_word"], keepdims=0),
        node("ReduceSum", ["by_word", "one"], ["logits"], keepdims=1),
    ]
    out = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1])]
    graph = helper.make_graph(steps, "words in common", inputs, out, numbers)
    save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)]), str(place / "model.onnx"))
    return place


@pytest.fixture(scope="module")
def reranker(folder: Path) -> CrossEncoderReranker:
    from fastembed.common.model_description import ModelSource
    from fastembed.rerank.cross_encoder import TextCrossEncoder

    TextCrossEncoder.add_custom_model("runwell/words", sources=ModelSource(hf="runwell/words"), model_file="model.onnx")
    return CrossEncoderReranker(model="runwell/words", model_path=folder, top_n=2)


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_real_cross_encoder_ranks(reranker: CrossEncoderReranker, colour: str) -> None:
    query = "when do the cats sleep"
    best = (
        reranker.compress_documents(FOUND, query)
        if colour == "sync"
        else asyncio.run(reranker.acompress_documents(FOUND, query))
    )
    assert [(each.id, each.metadata) for each in best] == [
        ("2", {"source": "c", "relevance_score": 3.0}),
        ("1", {"source": "d", "relevance_score": 0.0}),
    ]
    assert reranker.rerank(["the night", "the dogs bark"], "the dogs", top_n=1) == [
        {"index": 1, "relevance_score": 2.0}
    ]


def test_a_copy_loads_its_own(reranker: CrossEncoderReranker) -> None:
    assert copy.deepcopy(reranker).rerank(["cats"], "cats") == [{"index": 0, "relevance_score": 1.0}]


class Predicts:
    """As sentence-transformers' CrossEncoder."""

    def predict(self, pairs: Any) -> Any:
        return [len(set(query.split()) & set(text.split())) for query, text in pairs]


class Scores:
    def score(self, pairs: Any) -> Any:
        return Predicts().predict(pairs)


@pytest.mark.parametrize("kind", [Predicts, Scores])
def test_a_model_of_ones_own(kind: Any) -> None:
    assert CrossEncoderReranker(model=kind(), top_n=1).compress_documents(FOUND, "cats sleep")[0].id == "2"


def test_long_documents_are_cut() -> None:
    made = CrossEncoderReranker(model=Predicts(), max_chars=9)
    assert made.rerank(["dogs bark cats"], "cats bark") == [{"index": 0, "relevance_score": 1.0}]


def test_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="did you mean"):
        CrossEncoderReranker(model="Xenova/ms-marco-MiniLM-L-6")
    with pytest.raises(InvalidInput, match="ranks nothing"):
        CrossEncoderReranker(model=object())
    with pytest.raises(InvalidInput, match="top_n"):
        CrossEncoderReranker(model=Predicts(), top_n=0)
    monkeypatch.setattr(cross_encoder, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="rerank"):
        CrossEncoderReranker()
