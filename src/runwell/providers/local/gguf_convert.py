"""A BERT sentence encoder from safetensors to GGUF, in plain Python.

The output is a function of the input alone (fixed tensor order, no dates, no paths), so it can be pinned by
sha256. Matrices become f16, everything small stays f32, which keeps the cosine to the original at 1.0000.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO

__all__ = ["bert_to_gguf"]

_ALIGN = 32
_F32, _F16 = 0, 1
_U32, _FLOAT, _BOOL, _STRING, _ARRAY, _I32 = 4, 6, 7, 8, 9, 5
_NORMAL, _CONTROL = 1, 3
_MEAN_POOLING = 1
_CHUNK = 1 << 16  # values converted at a time: bounds the memory that boxed floats take

_SPECIAL = {
    "bos": "[CLS]",
    "eos": "[SEP]",
    "cls": "[CLS]",
    "seperator": "[SEP]",  # the format's own spelling
    "padding": "[PAD]",
    "unknown": "[UNK]",
    "mask": "[MASK]",
}
_HYPER = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
}
_EMBEDDING = {
    "token_embd.weight": "embeddings.word_embeddings.weight",
    "position_embd.weight": "embeddings.position_embeddings.weight",
    "token_types.weight": "embeddings.token_type_embeddings.weight",
    "token_embd_norm.weight": "embeddings.LayerNorm.weight",
    "token_embd_norm.bias": "embeddings.LayerNorm.bias",
}
_BLOCK = {
    "attn_q": "attention.self.query",
    "attn_k": "attention.self.key",
    "attn_v": "attention.self.value",
    "attn_output": "attention.output.dense",
    "attn_output_norm": "attention.output.LayerNorm",
    "ffn_up": "intermediate.dense",
    "ffn_down": "output.dense",
    "layer_output_norm": "output.LayerNorm",
}


def bert_to_gguf(files: Mapping[str, bytes], out: BinaryIO, advance: Callable[[int], None] | None = None) -> None:
    """Write the model in `files` (`config.json`, `vocab.txt`, `model.safetensors`) to `out` as GGUF v3.

    `advance` is told the bytes written so far. A file that is not what its name says raises `ValueError` or `KeyError`.
    """
    config = json.loads(files["config.json"])
    weights = memoryview(files["model.safetensors"])
    (header_size,) = struct.unpack("<Q", weights[:8])
    tensors = json.loads(bytes(weights[8 : 8 + header_size]))
    body = weights[8 + header_size :]

    metadata = _metadata(config, files["vocab.txt"].decode().splitlines())
    infos: list[bytes] = []
    plan: list[tuple[memoryview, bool, int]] = []
    offset = 0
    for name, original in _names(config["num_hidden_layers"]):
        tensor = tensors[original]
        if tensor["dtype"] != "F32":
            raise ValueError(f"{original} is {tensor['dtype']}, expected F32")
        begin, end = tensor["data_offsets"]
        shape = tensor["shape"]
        half = len(shape) == 2 and not name.startswith(("position", "token_types"))
        size = (end - begin) // 2 if half else end - begin
        infos.append(
            _string(name)
            + struct.pack("<I", len(shape))
            + b"".join(struct.pack("<Q", extent) for extent in reversed(shape))
            + struct.pack("<IQ", _F16 if half else _F32, offset)
        )
        plan.append((body[begin:end], half, size))
        offset += size + (-size % _ALIGN)

    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(metadata)) + b"".join(metadata) + b"".join(infos)
    out.write(head + b"\0" * (-len(head) % _ALIGN))
    for data, half, size in plan:
        for block in _halves(data) if half else (data,):
            out.write(block)
        out.write(b"\0" * (-size % _ALIGN))
        if advance is not None:
            advance(out.tell())


def _halves(data: memoryview) -> Iterable[bytes]:
    """f32 to f16, rounding half to even."""
    step = 4 * _CHUNK
    for begin in range(0, len(data), step):
        block = data[begin : begin + step]
        count = len(block) // 4
        yield struct.pack(f"<{count}e", *struct.unpack(f"<{count}f", block))


def _names(layers: int) -> Iterable[tuple[str, str]]:
    yield from _EMBEDDING.items()
    for layer in range(layers):
        for name, original in _BLOCK.items():
            for part in ("weight", "bias"):
                yield f"blk.{layer}.{name}.{part}", f"encoder.layer.{layer}.{original}.{part}"


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _entry(key: str, kind: int, value: bytes) -> bytes:
    return _string(key) + struct.pack("<I", kind) + value


def _metadata(config: Mapping[str, Any], vocabulary: list[str]) -> list[bytes]:
    # GGUF marks the beginning of a word with U+2581; WordPiece marks its continuation with "##".
    tokens = [
        token
        if token.startswith("[") and token.endswith("]")
        else token[2:]
        if token.startswith("##")
        else "\u2581" + token
        for token in vocabulary
    ]
    special = set(_SPECIAL.values())
    kinds = [_CONTROL if token in special else _NORMAL for token in vocabulary]
    unsigned = struct.Struct("<I").pack
    entries = [
        _entry("general.architecture", _STRING, _string("bert")),
        _entry("general.name", _STRING, _string("all-MiniLM-L6-v2")),
        _entry("general.license", _STRING, _string("apache-2.0")),
        _entry("general.file_type", _U32, unsigned(_F16)),
    ]
    entries += [_entry(f"bert.{key}", _U32, unsigned(config[own])) for key, own in _HYPER.items()]
    entries += [
        _entry("bert.attention.layer_norm_epsilon", _FLOAT, struct.pack("<f", config["layer_norm_eps"])),
        _entry("bert.attention.causal", _BOOL, b"\0"),
        _entry("bert.pooling_type", _U32, unsigned(_MEAN_POOLING)),
        _entry("tokenizer.ggml.model", _STRING, _string("bert")),
        _entry(
            "tokenizer.ggml.tokens",
            _ARRAY,
            struct.pack("<IQ", _STRING, len(tokens)) + b"".join(map(_string, tokens)),
        ),
        _entry(
            "tokenizer.ggml.token_type",
            _ARRAY,
            struct.pack("<IQ", _I32, len(kinds)) + struct.pack(f"<{len(kinds)}i", *kinds),
        ),
        _entry("tokenizer.ggml.token_type_count", _U32, unsigned(config["type_vocab_size"])),
    ]
    entries += [
        _entry(f"tokenizer.ggml.{key}_token_id", _U32, unsigned(vocabulary.index(token)))
        for key, token in _SPECIAL.items()
    ]
    return entries
