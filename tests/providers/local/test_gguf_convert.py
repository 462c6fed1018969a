"""The conversion: the same bytes every time, and values that are the input's, in half precision."""

from __future__ import annotations

import io
import json
import struct

import pytest

from runwell.providers.local import gguf_convert
from runwell.providers.local.gguf_convert import bert_to_gguf

WIDTH = 4
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "##s"]


def tiny(dtype: str = "F32") -> dict[str, bytes]:
    shapes = {name: [1, WIDTH] for name in gguf_convert._EMBEDDING.values() if name.endswith("embeddings.weight")}
    shapes["embeddings.word_embeddings.weight"] = [len(VOCABULARY), WIDTH]
    shapes |= {"embeddings.LayerNorm.weight": [WIDTH], "embeddings.LayerNorm.bias": [WIDTH]}
    for name in gguf_convert._BLOCK.values():
        shapes[f"encoder.layer.0.{name}.bias"] = [WIDTH]
        shapes[f"encoder.layer.0.{name}.weight"] = [WIDTH] if "LayerNorm" in name else [WIDTH, WIDTH]
    header, body = {}, b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        data = struct.pack(f"<{count}f", *(0.1 * i - 1 for i in range(count)))
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    head = json.dumps(header).encode()
    config = {
        "num_hidden_layers": 1,
        "max_position_embeddings": 8,
        "hidden_size": WIDTH,
        "intermediate_size": WIDTH,
        "num_attention_heads": 2,
        "layer_norm_eps": 1e-12,
        "type_vocab_size": 2,
    }
    return {
        "config.json": json.dumps(config).encode(),
        "vocab.txt": "\n".join(VOCABULARY).encode(),
        "model.safetensors": struct.pack("<Q", len(head)) + head + body,
    }


def converted(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    bert_to_gguf(files, out)
    return out.getvalue()


def test_the_output_is_a_function_of_the_input() -> None:
    assert converted(tiny()) == converted(tiny())


def test_header_and_tokens() -> None:
    data = converted(tiny())
    magic, version, tensors, entries = struct.unpack("<4sIQQ", data[:24])
    assert (magic, version) == (b"GGUF", 3)
    assert (tensors, entries) == (5 + 2 * len(gguf_convert._BLOCK), 4 + 5 + 3 + 4 + 7)
    assert "\u2581cat".encode() in data  # begins a word
    assert struct.pack("<Q", 1) + b"s" in data  # goes on with one
    assert len(data) % 32 == 0


def test_matrices_are_halved_and_rounded_to_even() -> None:
    expected = struct.pack(f"<{len(VOCABULARY) * WIDTH}e", *(0.1 * i - 1 for i in range(len(VOCABULARY) * WIDTH)))
    assert expected in converted(tiny())


def test_chunks_do_not_change_the_values(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = converted(tiny())
    monkeypatch.setattr(gguf_convert, "_CHUNK", 3)
    assert converted(tiny()) == whole


def test_another_number_format_is_refused() -> None:
    with pytest.raises(ValueError, match="BF16, expected F32"):
        converted(tiny("BF16"))
